//! The parser of the text form, line by line.
//!
//! The first pass collects the names of symbols and atoms, so that an entry can refer to a later one; the second builds the tables.
//! A function's lines may be in any order, because its tables are sorted at the end. The number of values may be omitted: then it is the
//! number that the lines need. The result has passed [`ModuleSummary::check`].

use super::cursor::{LineCursor, Names, Result, name_of, signed};
use super::lex::{self, Token};
use super::words;
use crate::ids::{AtomIdx, GroupIdx, SymbolIdx, ValueIdx};
use crate::limit::LimitRecord;
use crate::registers::Register;
use crate::relation::{CallSite, Callee, Constraint, FormatArguments, FunctionSummary, Place};
use crate::summary::{
    Atom, AtomKind, Binding, Definition, Group, ModuleSummary, OwnedRange, Reference, ReferenceKind,
    ResolvedReference, Retarget, Symbol, SymbolKind, Target, Visibility,
};

/// An error in a text, with its line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct TextError {
    /// The line, counted from 1; the last line for an error of the whole.
    pub line: usize,
    pub message: String,
}

/// Read the text form. References may be in any order below their atom, and the lines of a function below it; everything
/// else is in table order.
pub fn parse(text: &str) -> Result<ModuleSummary, TextError> {
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let at = |message| TextError { line: i + 1, message };
        let tokens = lex::tokens(line).map_err(at)?;
        if !tokens.is_empty() {
            lines.push((i + 1, tokens));
        }
    }
    let mut parser = Parser {
        summary: ModuleSummary::opaque(),
        symbols: Names::default(),
        atoms: Names::default(),
        groups: Names::default(),
    };
    for (_, tokens) in &lines {
        if let [Token::Word(word @ ("symbol" | "atom")), name, ..] = tokens.as_slice() {
            let names = if *word == "symbol" { &mut parser.symbols } else { &mut parser.atoms };
            names.add(name_of(name).unwrap_or_default());
        }
    }
    for (line, tokens) in &lines {
        let mut cursor = LineCursor::new(tokens);
        parser.line(&mut cursor).map_err(|message| TextError { line: *line, message })?;
    }
    parser.finish().map_err(|message| TextError { line: text.lines().count().max(1), message })
}

struct Parser {
    summary: ModuleSummary,
    symbols: Names,
    atoms: Names,
    groups: Names,
}

impl Parser {
    fn line(&mut self, cursor: &mut LineCursor<'_>) -> Result<()> {
        let word = cursor.need_word()?;
        if let Some(kind) = words::read_reference_kind(word) {
            return self.reference(kind, cursor);
        }
        match word {
            "module" => {
                let kind = cursor.need_word()?;
                self.summary.kind =
                    words::read_module_kind(kind).ok_or_else(|| format!("no kind of module: `{kind}`"))?;
                if let Some(word) = cursor.word()? {
                    self.summary.granularity =
                        words::read_granularity(word).ok_or_else(|| format!("no granularity: `{word}`"))?;
                }
                if let Some(word) = cursor.word()? {
                    if word != "without-debug" {
                        return Err(format!("`{word}` after the granularity"));
                    }
                    self.summary.without_debug = true;
                }
                cursor.end()
            }
            "symbol" => self.symbol(cursor),
            "group" => self.group(cursor),
            "atom" => self.atom(cursor),
            "limit" => self.limit(cursor),
            "resolved" | "owned" | "retarget" => self.split_line(word, cursor),
            "function" => self.function(cursor),
            _ => self.function_line(word, cursor),
        }
    }

    fn name(&mut self, cursor: &mut LineCursor<'_>) -> Result<crate::NameRef> {
        let name = name_of(cursor.next()?).ok_or("a name is expected")?;
        // Canonical form has each name once; see `finish`.
        Ok(self.summary.push_name(&name))
    }

    fn symbol(&mut self, cursor: &mut LineCursor<'_>) -> Result<()> {
        let mut symbol = Symbol {
            name: self.name(cursor)?,
            binding: Binding::Local,
            visibility: Visibility::Default,
            kind: SymbolKind::NoType,
            definition: Definition::Undefined,
            value: 0,
            size: 0,
        };
        while let Some(word) = cursor.word()? {
            if let Some(binding) = words::read_binding(word) {
                symbol.binding = binding;
            } else if let Some(visibility) = words::read_visibility(word) {
                symbol.visibility = visibility;
            } else if let Some(kind) = words::read_symbol_kind(word) {
                symbol.kind = kind;
            } else {
                match word {
                    "undefined" => symbol.definition = Definition::Undefined,
                    "absolute" => symbol.definition = Definition::Absolute,
                    "in" => symbol.definition = Definition::Atom(self.atom_reference(cursor)?),
                    "common" => symbol.definition = Definition::Common(self.atom_reference(cursor)?),
                    "outside" => symbol.definition = Definition::OtherSection(cursor.number()?),
                    "value" => symbol.value = cursor.number()?,
                    "size" => symbol.size = cursor.number()?,
                    other => return Err(format!("`{other}` says nothing of a symbol")),
                }
            }
        }
        self.summary.symbols.push(symbol);
        Ok(())
    }

    fn group(&mut self, cursor: &mut LineCursor<'_>) -> Result<()> {
        let signature = self.symbol_reference(cursor)?;
        let mut group = Group { section: 0, signature, comdat: false, members: Vec::new() };
        while let Some(word) = cursor.word()? {
            match word {
                "comdat" => group.comdat = true,
                "section" => group.section = cursor.number()?,
                other => return Err(format!("`{other}` says nothing of a group")),
            }
        }
        // Symbols come before groups, so that a signature has its name by now.
        self.groups.add(self.summary.symbol_name(signature).to_vec());
        self.summary.groups.push(group);
        Ok(())
    }

    fn atom(&mut self, cursor: &mut LineCursor<'_>) -> Result<()> {
        let name = self.name(cursor)?;
        let word = cursor.need_word()?;
        let kind = words::read_atom_kind(word).ok_or_else(|| format!("`{word}` is no kind of atom"))?;
        let default_section = self.summary.atoms.last().map_or(1, |a| a.section.saturating_add(1));
        let section = if kind == AtomKind::Common { Atom::NO_SECTION } else { default_section };
        let mut atom = Atom {
            section,
            offset: 0,
            size: 0,
            align: 1,
            kind,
            flags: 0,
            name,
            group: None,
            link_order: None,
        };
        while let Some(word) = cursor.word()? {
            match word {
                "section" => atom.section = cursor.number()?,
                "offset" => atom.offset = cursor.number()?,
                "size" => atom.size = cursor.number()?,
                "align" => atom.align = cursor.number()?,
                "flags" => {
                    let list = cursor.need_word()?;
                    atom.flags =
                        words::read_flags(list).ok_or_else(|| format!("unknown flag in `{list}`"))?;
                }
                "group" => {
                    let group = GroupIdx(self.groups.find(cursor.next()?, "group")?);
                    atom.group = Some(group);
                    let own = AtomIdx::new(self.summary.atoms.len());
                    if let Some(group) = self.summary.groups.get_mut(group.index()) {
                        group.members.push(own);
                    }
                }
                "after" => atom.link_order = Some(self.atom_reference(cursor)?),
                other => return Err(format!("`{other}` says nothing of an atom")),
            }
        }
        self.summary.atoms.push(atom);
        Ok(())
    }

    fn reference(&mut self, kind: ReferenceKind, cursor: &mut LineCursor<'_>) -> Result<()> {
        let from = self.summary.atoms.len().checked_sub(1).ok_or("a reference stands below its atom")?;
        let offset = cursor.place()?;
        let target = self.target(cursor)?;
        let addend = match cursor.word()? {
            Some(word) => signed(word)?,
            None => 0,
        };
        self.summary.references.push(Reference { from: AtomIdx::new(from), offset, kind, target, addend });
        cursor.end()
    }

    fn limit(&mut self, cursor: &mut LineCursor<'_>) -> Result<()> {
        let word = cursor.need_word()?;
        let limit = words::read_limit(word).ok_or_else(|| format!("no limit is named `{word}`"))?;
        let mut record = LimitRecord { limit, section: None, offset: None, bytes: 0, detail: String::new() };
        while let Ok(token) = cursor.next() {
            match token {
                Token::Word("section") => record.section = Some(cursor.number()?),
                Token::Word("offset") => record.offset = Some(cursor.number()?),
                Token::Word("bytes") => record.bytes = cursor.number()?,
                Token::Quoted(detail) => {
                    record.detail =
                        String::from_utf8(detail.clone()).map_err(|_| "the detail is no UTF-8")?;
                }
                _ => {
                    return Err(
                        "a limit has `section N`, `offset N`, `bytes N` and a quoted detail".to_owned()
                    );
                }
            }
        }
        self.summary.limits.push(record);
        Ok(())
    }

    fn split_line(&mut self, word: &str, cursor: &mut LineCursor<'_>) -> Result<()> {
        match word {
            "resolved" => {
                cursor.expect("section")?;
                let (section, field) = (cursor.number()?, cursor.place()?);
                let from = self.atom_reference(cursor)?;
                cursor.expect("->")?;
                let target = self.atom_reference(cursor)?;
                self.summary.resolved.push(ResolvedReference { section, field, from, target });
            }
            "owned" => {
                let atom = self.atom_reference(cursor)?;
                let (start, end) = (cursor.place()?, cursor.place()?);
                let owner = self.atom_reference(cursor)?;
                self.summary.owned.push(OwnedRange { atom, start, end, owner });
            }
            _ => {
                cursor.expect("section")?;
                let (section, offset) = (cursor.number()?, cursor.place()?);
                let target = self.atom_reference(cursor)?;
                self.summary.retargets.push(Retarget { section, offset, target });
            }
        }
        cursor.end()
    }

    fn target(&self, cursor: &mut LineCursor<'_>) -> Result<Target> {
        Ok(match cursor.peek() {
            Some(Token::Open) => Target::Atom(self.atom_reference(cursor)?),
            _ => Target::Symbol(self.symbol_reference(cursor)?),
        })
    }

    fn symbol_reference(&self, cursor: &mut LineCursor<'_>) -> Result<SymbolIdx> {
        self.symbols.find(cursor.next()?, "symbol").map(SymbolIdx)
    }

    fn atom_reference(&self, cursor: &mut LineCursor<'_>) -> Result<AtomIdx> {
        let (open, name) = (cursor.next()?, cursor.next()?);
        match (open, cursor.next()?) {
            (Token::Open, Token::Close) => self.atoms.find(name, "atom").map(AtomIdx),
            _ => Err("an atom is written [NAME]".to_owned()),
        }
    }

    fn finish(mut self) -> Result<ModuleSummary> {
        self.summary.references.sort_by_key(|r| (r.from, r.offset));
        self.sort_functions();
        self.summary.check().map_err(|e| e.to_string())?;
        Ok(self.summary.with_canonical_names())
    }

    fn function(&mut self, cursor: &mut LineCursor<'_>) -> Result<()> {
        let mut function = FunctionSummary::new(self.atom_reference(cursor)?);
        while let Some(word) = cursor.word()? {
            match word {
                "frame" => function.frame = true,
                "values" => function.values = cursor.number()?,
                other => return Err(format!("`{other}` says nothing of a function")),
            }
        }
        self.summary.functions.push(function);
        Ok(())
    }

    /// A line below a function; `word` is its first.
    fn function_line(&mut self, word: &str, cursor: &mut LineCursor<'_>) -> Result<()> {
        #[rustfmt::skip]
        let known = [
            "parts", "entry", "param", "stackparam", "result", "preserves", "atlabel", "accounts", "site", "store", "copy",
            "escape", "escape-code", "addressonly",
        ];
        if !known.contains(&word) && !word.starts_with('%') {
            return Err(format!("`{word}` starts no entry"));
        }
        let Some(mut function) = self.summary.functions.pop() else {
            return Err(format!("`{word}` stands below a function"));
        };
        let mut values = NamedValues { count: function.values };
        self.add_line(word, cursor, &mut function, &mut values)?;
        function.values = values.count;
        self.summary.functions.push(function);
        cursor.end()
    }

    fn add_line(
        &self,
        word: &str,
        cursor: &mut LineCursor<'_>,
        function: &mut FunctionSummary,
        values: &mut NamedValues,
    ) -> Result<()> {
        match word {
            "parts" => {
                while cursor.peek().is_some() {
                    function.parts.push(self.atom_reference(cursor)?);
                }
            }
            "entry" => function.entries.push((self.atom_reference(cursor)?, cursor.place()?)),
            "param" => function.parameters.push((register(cursor)?, values.next(cursor)?)),
            "stackparam" => function.stack_parameters.push((stack_offset(cursor)?, values.next(cursor)?)),
            "result" => function.results.push((register(cursor)?, values.next(cursor)?)),
            "preserves" => {
                while cursor.peek().is_some() {
                    function.preserved |= 1 << (register(cursor)? & 63);
                }
            }
            "atlabel" => function.indirect_entry_values.push(values.next(cursor)?),
            "addressonly" => function.address_taken_only.push(self.target(cursor)?),
            "accounts" => {
                cursor.expect("section")?;
                function.covered_references.push((cursor.number()?, cursor.place()?));
            }
            "site" => {
                let site = self.call_site(cursor, values)?;
                function.call_sites.push(site);
            }
            "store" => {
                let from = values.next(cursor)?;
                cursor.expect("->")?;
                let to = values.place(cursor)?;
                function.constraints.push(Constraint::Store { from, to, size: size(cursor)? });
            }
            "copy" => {
                let from = values.place(cursor)?;
                cursor.expect("->")?;
                let to = values.place(cursor)?;
                function.constraints.push(Constraint::Copy { from, to, size: size(cursor)? });
            }
            "escape" => function.constraints.push(Constraint::Escape { from: values.next(cursor)? }),
            "escape-code" => {
                function.constraints.push(Constraint::EscapeCode { from: values.next(cursor)? });
            }
            _ => {
                let to = values.of(word)?;
                cursor.expect("=")?;
                let constraint = self.definition(to, cursor, values)?;
                function.constraints.push(constraint);
            }
        }
        Ok(())
    }

    /// The constraint after `%3 =`.
    fn definition(
        &self,
        to: ValueIdx,
        cursor: &mut LineCursor<'_>,
        values: &mut NamedValues,
    ) -> Result<Constraint> {
        Ok(match cursor.need_word()? {
            "address" => {
                let target = self.target(cursor)?;
                Constraint::Address { to, target, offset: known_offset(cursor)? }
            }
            "frame" => Constraint::Frame { to, offset: offset(cursor)? },
            "load" => {
                let from = values.place(cursor)?;
                Constraint::Load { from, to, size: size(cursor)? }
            }
            "unknown" => Constraint::Unknown { to },
            from => Constraint::Assign { from: values.of(from)?, to, offset: offset(cursor)? },
        })
    }

    fn call_site(&self, cursor: &mut LineCursor<'_>, values: &mut NamedValues) -> Result<CallSite> {
        cursor.expect("section")?;
        let (section, at) = (cursor.number()?, cursor.place()?);
        let callee = match cursor.need_word()? {
            "direct" => Callee::Direct { target: self.target(cursor)?, offset: known_offset(cursor)? },
            "indirect" => Callee::Indirect(values.next(cursor)?),
            other => return Err(format!("a call is direct or indirect, not `{other}`")),
        };
        let mut site = CallSite {
            section,
            offset: at,
            callee,
            jump: false,
            no_vectors: false,
            formats: Vec::new(),
            actuals: Vec::new(),
            stack: Vec::new(),
            stack_in_frame: None,
            results: Vec::new(),
        };
        while let Some(word) = cursor.word()? {
            match word {
                "jump" => site.jump = true,
                "novectors" => site.no_vectors = true,
                "format" => {
                    let (register, count, strings) = (register(cursor)?, cursor.number()?, cursor.number()?);
                    site.formats.push((register, FormatArguments { count, strings }));
                }
                "actual" => site.actuals.push((register(cursor)?, values.next(cursor)?)),
                "stack" => site.stack.push((stack_offset(cursor)?, values.next(cursor)?)),
                "instack" => site.stack_in_frame = Some(offset(cursor)?),
                "result" => site.results.push((register(cursor)?, values.next(cursor)?)),
                other => return Err(format!("`{other}` says nothing of a call")),
            }
        }
        Ok(site)
    }

    /// Sort the functions and their tables.
    fn sort_functions(&mut self) {
        self.summary.functions.sort_by_key(|f| f.atom);
        for function in &mut self.summary.functions {
            function.parts.sort();
            function.entries.sort();
            function.parameters.sort();
            function.stack_parameters.sort();
            function.results.sort();
            function.covered_references.sort();
            function.call_sites.sort_by_key(|s| (s.section, s.offset));
            for site in &mut function.call_sites {
                site.actuals.sort();
                site.stack.sort();
                site.results.sort();
            }
        }
    }
}

/// The number of values that the lines have named.
struct NamedValues {
    count: u32,
}

impl NamedValues {
    fn of(&mut self, word: &str) -> Result<ValueIdx> {
        let number =
            word.strip_prefix('%').filter(|n| !n.starts_with('+')).and_then(|n| n.parse::<u32>().ok());
        let number = number.filter(|n| *n < u32::MAX);
        let number = number.ok_or_else(|| format!("a value such as %3 is expected, not `{word}`"))?;
        self.count = self.count.max(number + 1);
        Ok(ValueIdx(number))
    }

    fn next(&mut self, cursor: &mut LineCursor<'_>) -> Result<ValueIdx> {
        self.of(cursor.need_word()?)
    }

    fn place(&mut self, cursor: &mut LineCursor<'_>) -> Result<Place> {
        Ok(Place { value: self.next(cursor)?, offset: offset(cursor)? })
    }
}

fn register(cursor: &mut LineCursor<'_>) -> Result<Register> {
    let word = cursor.need_word()?;
    words::read_register(word).ok_or_else(|| format!("no register is named `{word}`"))
}

fn stack_offset(cursor: &mut LineCursor<'_>) -> Result<i32> {
    let word = cursor.need_word()?;
    i32::try_from(signed(word)?).map_err(|_| format!("`{word}` is no offset in a stack frame"))
}

/// An offset: `+8`, `unknown`, or nothing for 0.
fn offset(cursor: &mut LineCursor<'_>) -> Result<Option<i64>> {
    match cursor.peek_word() {
        Some("unknown") => cursor.next().map(|_| None),
        _ => known_offset(cursor).map(Some),
    }
}

fn known_offset(cursor: &mut LineCursor<'_>) -> Result<i64> {
    match cursor.peek_word().filter(|w| w.starts_with(['+', '-'])) {
        Some(word) => cursor.next().and_then(|_| signed(word)),
        None => Ok(0),
    }
}

/// Read words such as `size 8`: a number of bytes.
fn size(cursor: &mut LineCursor<'_>) -> Result<u32> {
    cursor.expect("size")?;
    cursor.number()
}
