//! The parser of a function's lines, which `functions` prints.
//!
//! The number of values may be left out: then it is what the lines need. Lines may stand in any order; the tables are
//! sorted when the whole text has been read.

use super::cursor::{LineCursor, Result, signed};
use super::lex::Token;
use super::parse::Parser;
use super::words;
use crate::ids::ValueIdx;
use crate::registers::Register;
use crate::relation::{CallSite, Callee, Constraint, FormatArguments, FunctionSummary, Place};
use crate::summary::Target;

impl Parser {
    pub(super) fn function(&mut self, cursor: &mut LineCursor<'_>) -> Result<()> {
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
    pub(super) fn function_line(&mut self, word: &str, cursor: &mut LineCursor<'_>) -> Result<()> {
        let known = [
            "parts",
            "entry",
            "param",
            "stackparam",
            "result",
            "preserves",
            "atlabel",
            "accounts",
            "site",
            "store",
            "copy",
            "escape",
            "escape-code",
            "addressonly",
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
            "addressonly" => function.address_taken_only.push(target(self, cursor)?),
            "accounts" => {
                expect(cursor, "section")?;
                function.covered_references.push((cursor.number()?, cursor.place()?));
            }
            "site" => {
                let site = self.call_site(cursor, values)?;
                function.call_sites.push(site);
            }
            "store" => {
                let from = values.next(cursor)?;
                expect(cursor, "->")?;
                let to = values.place(cursor)?;
                function.constraints.push(Constraint::Store { from, to, size: size(cursor)? });
            }
            "copy" => {
                let from = values.place(cursor)?;
                expect(cursor, "->")?;
                let to = values.place(cursor)?;
                function.constraints.push(Constraint::Copy { from, to, size: size(cursor)? });
            }
            "escape" => function.constraints.push(Constraint::Escape { from: values.next(cursor)? }),
            "escape-code" => {
                function.constraints.push(Constraint::EscapeCode { from: values.next(cursor)? });
            }
            _ => {
                let to = values.of(word)?;
                expect(cursor, "=")?;
                let constraint = self.definition(to, cursor, values)?;
                function.constraints.push(constraint);
            }
        }
        Ok(())
    }

    /// What stands right of `%3 =`.
    fn definition(
        &self,
        to: ValueIdx,
        cursor: &mut LineCursor<'_>,
        values: &mut NamedValues,
    ) -> Result<Constraint> {
        Ok(match cursor.need_word()? {
            "address" => {
                let target = target(self, cursor)?;
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
        expect(cursor, "section")?;
        let (section, at) = (cursor.number()?, cursor.place()?);
        let callee = match cursor.need_word()? {
            "direct" => Callee::Direct { target: target(self, cursor)?, offset: known_offset(cursor)? },
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

    /// Bring the functions and their tables into their order.
    pub(super) fn sort_functions(&mut self) {
        self.summary.functions.sort_by_key(|f| f.atom);
        for function in &mut self.summary.functions {
            function.parts.sort();
            function.entries.sort();
            function.parameters.sort();
            function.stack_parameters.sort();
            function.results.sort();
            function.constraints.sort();
            function.constraints.dedup();
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

/// How many values the lines have named.
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

pub(super) fn target(parser: &Parser, cursor: &mut LineCursor<'_>) -> Result<Target> {
    Ok(match cursor.peek() {
        Some(Token::Open) => Target::Atom(parser.atom_reference(cursor)?),
        _ => Target::Symbol(parser.symbol_reference(cursor)?),
    })
}

pub(super) fn register(cursor: &mut LineCursor<'_>) -> Result<Register> {
    let word = cursor.need_word()?;
    words::read_register(word).ok_or_else(|| format!("no register is named `{word}`"))
}

fn stack_offset(cursor: &mut LineCursor<'_>) -> Result<i32> {
    let word = cursor.need_word()?;
    i32::try_from(signed(word)?).map_err(|_| format!("`{word}` is no offset in a stack frame"))
}

pub(super) fn expect(cursor: &mut LineCursor<'_>, word: &str) -> Result<()> {
    match cursor.need_word()? == word {
        true => Ok(()),
        false => Err(format!("`{word}` is expected")),
    }
}

/// `+8`, `unknown`, or nothing for 0.
fn offset(cursor: &mut LineCursor<'_>) -> Result<Option<i64>> {
    match cursor.peek_word() {
        Some("unknown") => cursor.next().map(|_| None),
        _ => known_offset(cursor).map(Some),
    }
}

pub(super) fn known_offset(cursor: &mut LineCursor<'_>) -> Result<i64> {
    match cursor.peek_word().filter(|w| w.starts_with(['+', '-'])) {
        Some(word) => cursor.next().and_then(|_| signed(word)),
        None => Ok(0),
    }
}

/// Read words such as `size 8`: a number of bytes.
pub(super) fn size(cursor: &mut LineCursor<'_>) -> Result<u32> {
    expect(cursor, "size")?;
    cursor.number()
}
