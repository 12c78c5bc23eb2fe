//! Attribution of size: each byte of the linked file has a name, of an atom where it is surely that atom's, else what it is.
//!
//! The bytes of a section that belong to no atom get a line of their own: linker-made bytes, merged strings, padding. So every list
//! that is made of [`items`] adds up to the length of the file. If the atoms of a section have more bytes than the section, the
//! linker folded or relaxed code, and the line is negative.

use crate::error::{Error, Result, Stage};

use super::demangle;
use super::model::{Atom, ElfKind, Model, ModuleReport, UNKNOWN_MODULE};
use crate::report::contents::PartReport;

/// Some bytes of the linked file, or of its zero-initialised memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// It is `None` where no atom has them.
    pub(crate) atom: Option<u32>,
    /// The position among the symbols that share an atom.
    pub(crate) symbol: Option<usize>,
    /// Position in the parts of the file.
    pub(crate) part: u32,
    pub(crate) bytes: i64,
}

/// The grouping of items, by the source of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum GroupBy {
    #[default]
    Symbol,
    Module,
    Archive,
    Section,
    Category,
    Namespace,
    /// Crates and namespaces, with the three crates of Rust's standard library as one (`--std`).
    NamespaceWithStd,
    Generic,
}

impl GroupBy {
    pub(crate) const ALL: [(&'static str, GroupBy); 9] = [
        ("symbol", GroupBy::Symbol),
        ("module", GroupBy::Module),
        ("archive", GroupBy::Archive),
        ("section", GroupBy::Section),
        ("category", GroupBy::Category),
        ("namespace", GroupBy::Namespace),
        ("crate", GroupBy::Namespace),
        ("generic", GroupBy::Generic),
        ("template", GroupBy::Generic),
    ];

    /// The heading of its column.
    pub(crate) fn column(self) -> &'static str {
        GroupBy::ALL.iter().find(|b| b.1 == self).map_or("namespace", |b| b.0)
    }
}

/// The bytes that an answer is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// The bytes of the file that the program has in memory.
    Loaded,
    /// All bytes of the file, loaded or not.
    File,
    /// Zero-initialised memory, which has no bytes in the file.
    Zero,
}

impl View {
    /// The view for the options `--all` and `--bss`. Without them it is of loaded bytes, if the models know these.
    pub(crate) fn new(models: &[&Model], all: bool, bss: bool) -> View {
        let says_loaded = |m: &&Model| m.parts().iter().any(|p| p.loaded);
        match (bss, all) {
            (true, _) => View::Zero,
            (false, false) if models.iter().all(says_loaded) => View::Loaded,
            _ => View::File,
        }
    }

    /// The bytes of a part in this view.
    pub(crate) fn bytes(self, part: &PartReport) -> u64 {
        match self {
            View::Loaded if !part.loaded => 0,
            View::Zero if part.category != "bss" => 0,
            View::Loaded | View::File => part.bytes,
            View::Zero => part.size,
        }
    }

    /// The sum of [`View::bytes`] over all parts.
    pub(crate) fn size(self, model: &Model) -> u64 {
        model.parts().iter().map(|p| self.bytes(p)).sum()
    }
}

/// The bytes of a view by their atoms. Their sum is [`View::size`].
/// An error if the report says nothing of the linked file.
pub(crate) fn items(model: &Model, view: View) -> Result<Vec<Item>> {
    if model.file_size().is_none() {
        let output = &model.report.output;
        let message = match (&*model.report.linked, &model.report.not_pruned) {
            ("failed", _) => format!("has no linked file: the linker failed on {output}"),
            ("not-run", Some(reason)) => {
                format!("has no linked file: {output} was not linked: {reason}")
            }
            _ => format!("has no linked file: {output} was no file that can be read"),
        };
        return Err(Error::new(Stage::Report, message).in_file(model.path.clone()));
    }
    let mut taken = vec![0i64; model.parts().len()];
    let mut items = Vec::with_capacity(model.atoms.len());
    for (i, atom) in model.atoms.iter().enumerate() {
        let part = atom.placed.map(|p| model.part(p));
        let bytes = match view {
            View::Zero if part.is_some_and(|p| p.category == "bss") && atom.is_zero() => atom.size,
            View::Zero => 0,
            View::Loaded if !part.is_some_and(|p| p.loaded) => 0,
            View::Loaded | View::File => model.file_bytes(atom),
        } as i64;
        let Some(part) = atom.placed.filter(|_| bytes > 0) else { continue };
        taken[part as usize] += bytes;
        divide(atom, i as u32, part, bytes, &mut items);
    }
    for (i, (part, taken)) in model.parts().iter().zip(&taken).enumerate() {
        let rest = view.bytes(part) as i64 - taken;
        if rest != 0 {
            items.push(Item { atom: None, symbol: None, part: i as u32, bytes: rest });
        }
    }
    Ok(items)
}

/// The bytes of an atom as items: one, or where several symbols share it one for each of them and one for the rest.
pub(crate) fn divide(atom: &Atom, number: u32, part: u32, bytes: i64, items: &mut Vec<Item>) {
    let mut rest = bytes;
    for (symbol, size) in &atom.shares {
        let bytes = (*size as i64).min(rest);
        rest -= bytes;
        items.push(Item { atom: Some(number), symbol: Some(*symbol), part, bytes });
    }
    if rest > 0 || atom.shares.is_empty() {
        items.push(Item { atom: Some(number), symbol: None, part, bytes: rest });
    }
}

/// By part: whether it has an atom, and whether it has one that the linker joins with others.
fn contents(model: &Model) -> Vec<(bool, bool)> {
    let mut found = vec![(false, false); model.parts().len()];
    for atom in model.atoms.iter().filter(|a| a.size > 0) {
        if let Some(slot) = atom.placed.and_then(|p| found.get_mut(p as usize)) {
            slot.0 |= !atom.merge;
            slot.1 |= atom.merge;
        }
    }
    found
}

/// Tables for the names of items.
pub(crate) struct ItemNames<'m> {
    model: &'m Model,
    contents: Vec<(bool, bool)>,
    by: GroupBy,
    /// It says how many segments of a namespace count.
    depth: usize,
}

impl<'m> ItemNames<'m> {
    pub(crate) fn new(model: &'m Model, by: GroupBy, depth: usize) -> Self {
        ItemNames { model, contents: contents(model), by, depth }
    }

    pub(crate) fn of(&self, item: &Item) -> String {
        let part = self.model.parts().get(item.part as usize);
        let atom = item.atom.map(|a| self.model.atom(a));
        match (self.by, atom, part) {
            (GroupBy::Section, _, Some(part)) => part.name.clone(),
            (GroupBy::Category, _, Some(part)) => part.category.clone().into_owned(),
            (_, Some(atom), Some(part)) if self.is_of_section(atom) => in_brackets(part, atom),
            (_, Some(atom), _) => self.of_atom(atom, item.symbol),
            (_, None, Some(_)) => self.unattributed(item),
            (_, None, None) => String::new(),
        }
    }

    /// Whether an atom of a file without a report has the name of its section.
    fn is_of_section(&self, atom: &Atom) -> bool {
        let is_of_file = matches!(self.by, GroupBy::Module | GroupBy::Archive);
        self.model.elf.is_some()
            && atom.symbols.is_empty()
            && !(is_of_file && self.model.module_of(atom).name != UNKNOWN_MODULE)
    }

    /// The name of an atom, or of the share of one of its symbols.
    pub(crate) fn of_atom(&self, atom: &Atom, share: Option<usize>) -> String {
        let linker_name = share.map_or(atom.name(), |s| atom.symbols.get(s).map(String::as_str));
        let module = self.model.module_of(atom);
        match self.by {
            GroupBy::Module => module.full(),
            GroupBy::Archive => match &module.archive {
                Some(archive) => archive.clone(),
                None if self.model.elf.is_some_and(|kind| kind != ElfKind::Object) => {
                    "[no archive]".to_owned()
                }
                None => "[objects]".to_owned(),
            },
            GroupBy::Section => atom.section.clone(),
            GroupBy::Category => atom.kind.clone().into_owned(),
            GroupBy::Symbol => match linker_name {
                Some(name) => demangle::demangle(name).into_owned(),
                None if atom.shares.is_empty() => symbol(self.model, atom),
                None => format!("[rest of {}]", place(self.model, atom, None)),
            },
            GroupBy::Namespace | GroupBy::NamespaceWithStd => match linker_name {
                Some(s) if self.model.elf.is_some() && s.starts_with("[function at ") => {
                    "[no symbol]".to_owned()
                }
                Some(s) => {
                    let name = demangle::demangle(s);
                    let of_unit = || demangle::crate_of_unit(&module.name).map(str::to_owned);
                    let found = demangle::namespace(&name, self.depth);
                    let is_rust = found.is_none() || demangle::is_rust(s);
                    match found.or_else(of_unit) {
                        Some(name) if is_rust && self.by == GroupBy::NamespaceWithStd => {
                            demangle::with_std(name)
                        }
                        found => found.unwrap_or_else(|| "[no namespace]".to_owned()),
                    }
                }
                None => "[no symbol]".to_owned(),
            },
            GroupBy::Generic => match linker_name {
                Some(s) => {
                    demangle::generic(&demangle::demangle(s)).unwrap_or_else(|| "[not generic]".to_owned())
                }
                None => "[no symbol]".to_owned(),
            },
        }
    }

    /// A name for bytes that belong to no atom.
    fn unattributed(&self, item: &Item) -> String {
        let Some(part) = self.model.parts().get(item.part as usize) else { return String::new() };
        let contents = self.contents.get(item.part as usize).copied().unwrap_or_default();
        let name = &part.name;
        match (&*part.what, &*part.category, contents) {
            ("section", _, _) if self.model.elf.is_some() => format!("[section {name}]"),
            ("section", "debug", _) if item.bytes < 0 => format!("[compressed, joined or removed in {name}]"),
            ("section", _, _) if item.bytes < 0 => format!("[folded or relaxed in {name}]"),
            ("section", "eh_frame", (false, false)) => format!("[unwind tables {name}]"),
            ("section", "symbol table", _) => format!("[symbol table {name}]"),
            ("section", _, (false, false)) => format!("[linker-made {name}]"),
            ("section", _, (false, true)) => format!("[merged {name}]"),
            ("section", _, (true, true)) => format!("[merged constants, padding in {name}]"),
            ("section", _, (true, false)) => format!("[padding, linker-made in {name}]"),
            _ => format!("[{name}]"),
        }
    }
}

/// A name in brackets for bytes without a symbol, of a file without a report.
fn in_brackets(part: &PartReport, atom: &Atom) -> String {
    match &*part.what {
        "section" if atom.kind == "padding" => format!("[padding in {}]", part.name),
        "section" => format!("[section {}]", part.name),
        _ => format!("[{}]", part.name),
    }
}

/// The name of an atom for people: its symbol, else its section.
pub(crate) fn symbol(model: &Model, atom: &Atom) -> String {
    match atom.name() {
        Some(symbol) => demangle::demangle(symbol).into_owned(),
        None => format!("[{}]", place(model, atom, None)),
    }
}

/// A place in an input: `module:(section+0x12)`. Without `offset` where the atom begins.
pub(crate) fn place(model: &Model, atom: &Atom, offset: Option<u64>) -> String {
    let module = model.module_name(atom);
    match offset.unwrap_or(atom.offset) {
        0 => format!("{module}:({})", atom.section),
        offset => format!("{module}:({}+{offset:#x})", atom.section),
    }
}

/// A line of a list: what, how much, of how many atoms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttributedSize {
    pub(crate) name: String,
    /// The module, if all of it is of one.
    pub(crate) module: Option<u32>,
    pub(crate) bytes: i64,
    pub(crate) atoms: u64,
}

impl AttributedSize {
    pub(crate) fn module<'m>(&self, model: &'m Model) -> Option<&'m ModuleReport> {
        Some(&model.report.modules[self.module? as usize])
    }
}

/// The items by name, the largest first.
pub(crate) fn sums(model: &Model, items: &[Item], by: GroupBy, depth: usize) -> Vec<AttributedSize> {
    let names = ItemNames::new(model, by, depth);
    let mut rows: Vec<(String, Option<u32>, i64, u64)> = Vec::with_capacity(items.len());
    for item in items {
        let atom = item.atom.map(|a| model.atom(a));
        let is_known = |m: &u32| model.report.modules[*m as usize].name != UNKNOWN_MODULE;
        let module = atom.map(|a| a.module).filter(is_known);
        // An atom that symbols share is one.
        let first = atom.is_some_and(|a| item.symbol == a.shares.first().map(|s| s.0) && !a.is_entry());
        rows.push((names.of(item), module, item.bytes, u64::from(first)));
    }
    // Two symbols of one name in two modules are two things.
    rows.sort_unstable();
    let same = |a: &(String, Option<u32>, i64, u64), b: &(String, Option<u32>, i64, u64)| {
        a.0 == b.0 && (by != GroupBy::Symbol || a.1 == b.1)
    };
    let mut sums: Vec<AttributedSize> = Vec::new();
    for chunk in rows.chunk_by(same) {
        let Some(first) = chunk.first() else { continue };
        let module = first.1.filter(|m| chunk.iter().all(|r| r.1 == Some(*m)));
        let (bytes, atoms) = (chunk.iter().map(|r| r.2).sum(), chunk.iter().map(|r| r.3).sum());
        sums.push(AttributedSize { name: first.0.clone(), module, bytes, atoms });
    }
    sums.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| (&a.name, a.module).cmp(&(&b.name, b.module))));
    sums
}
