//! A report as dense tables: atoms with names, the graph of what keeps what, and the linked file.
//!
//! Built once for every command. A report is a file that anybody may have written, so each number is checked here before
//! it is used as an index, and an error says which table is wrong. Where an input byte landed is not in a report: an atom is
//! assigned to the section of the output that its name leads to (`placed`), and whatever a section holds besides is named.

use std::borrow::Cow;

use crate::error::{Error, Result, Stage};
use crate::report::SCHEMA;
use crate::report::graph::{HOLDS, STRUCTURAL};

use super::graph::{Graph, ROOT};
use super::read;

type Text<'a> = Cow<'a, str>;

/// What an atom is, by the kinds of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Kept,
    /// Only its address is there.
    Stub,
    Dropped,
}

#[derive(Debug)]
pub(crate) struct Atom<'a> {
    pub(crate) module: u32,
    pub(crate) section: Text<'a>,
    pub(crate) section_index: Option<u32>,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) kind: Text<'a>,
    pub(crate) state: State,
    pub(crate) discarded: bool,
    pub(crate) merge: bool,
    pub(crate) linker_live: bool,
    /// As linkers know them.
    pub(crate) symbols: Vec<Text<'a>>,
    /// The one of `symbols` that it goes by; none where a section that was left whole has many.
    pub(crate) main: Option<usize>,
    /// Symbols that share it, with the bytes of each: positions in `symbols`, by place. Empty where one has it all.
    pub(crate) shares: Vec<(usize, u64)>,
    /// Position in the parts of the file: the section that it is in, if it is in the output and that is known.
    pub(crate) placed: Option<u32>,
}

impl Atom<'_> {
    /// The symbol by which it goes, as linkers know it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.main.and_then(|at| self.symbols.get(at)).map(|s| &**s)
    }

    /// It takes memory and no bytes of the file.
    pub(crate) fn is_zero(&self) -> bool {
        matches!(&*self.kind, "bss" | "tls-bss" | "common")
    }
}

#[derive(Debug)]
pub(crate) struct Module<'a> {
    pub(crate) name: Text<'a>,
    pub(crate) archive: Option<Text<'a>>,
}

impl Module<'_> {
    /// As a linker writes it, without folders: `archive(member)`.
    pub(crate) fn short(&self) -> String {
        match &self.archive {
            Some(archive) => format!("{}({})", base(archive), self.name),
            None => base(&self.name).to_owned(),
        }
    }

    /// With folders.
    pub(crate) fn full(&self) -> String {
        match &self.archive {
            Some(archive) => format!("{archive}({})", self.name),
            None => self.name.clone().into_owned(),
        }
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// An edge, as the report has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) kind: u8,
    /// -1: no one place.
    pub(crate) offset: i64,
    pub(crate) count: u8,
    pub(crate) flags: u8,
}

/// A report.
#[derive(Debug)]
pub(crate) struct Model<'a> {
    /// Where it was read, as the user said it.
    pub(crate) path: String,
    pub(crate) report: Head<'a>,
    pub(crate) modules: Vec<Module<'a>>,
    pub(crate) atoms: Vec<Atom<'a>>,
    pub(crate) roots: Vec<read::Root<'a>>,
    pub(crate) kinds: Vec<Text<'a>>,
    /// Ascending by source.
    pub(crate) edges: Vec<Edge>,
    pub(crate) limits: Vec<read::Limit<'a>>,
    pub(crate) duplicates: Vec<Vec<u32>>,
    pub(crate) parts: Vec<read::Part<'a>>,
    /// Length of the linked file; `None` where the report doesn't say.
    pub(crate) file_size: Option<u64>,
    pub(crate) value_flow: Option<read::ValueFlow<'a>>,
}

/// What a report says of the link.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    pub(crate) linker: read::Linker<'a>,
    pub(crate) output: Text<'a>,
    pub(crate) level: Text<'a>,
    pub(crate) pruned: bool,
}

impl<'a> Model<'a> {
    /// Read a report; `path` is for messages.
    ///
    /// # Errors
    /// The text is no report, one of another schema, or one whose tables don't fit together.
    pub(crate) fn read(path: &str, text: &'a str) -> Result<Self> {
        let error = |message: String| Error::new(Stage::Report, message).in_file(path);
        let parsed = serde_json::from_str::<read::Report<'a>>(text);
        // Another schema is the likelier cause of what can't be read.
        let schema = match &parsed {
            Ok(report) => report.schema,
            Err(_) => {
                let no_report =
                    |e| format!("is no report of lto-prune (--prune-report=FILE writes one): {e}");
                serde_json::from_str::<read::Schema>(text).map_err(|e| error(no_report(e)))?.schema
            }
        };
        if schema != u64::from(SCHEMA) {
            let advice = "link again with --prune-report to have one that fits";
            return Err(error(format!(
                "is a report of schema {schema}, and this version reads {SCHEMA}: {advice}"
            )));
        }
        let report = parsed.map_err(|e| error(format!("is a damaged report: {e}")))?;
        Model::checked(path, report).map_err(|table| error(format!("is a damaged report: {table}")))
    }

    fn checked(path: &str, report: read::Report<'a>) -> Result<Self, String> {
        let atoms = report.atoms.len();
        let is_atom = |a: u32| (a as usize) < atoms;
        if report.atoms.iter().any(|a| a.module as usize >= report.modules.len()) {
            return Err("an atom is of a module that isn't there".to_owned());
        }
        if !report.roots.iter().all(|r| is_atom(r.atom)) {
            return Err("a root is an atom that isn't there".to_owned());
        }
        if !report.duplicates.iter().flatten().all(|a| is_atom(*a)) {
            return Err("a duplicate is an atom that isn't there".to_owned());
        }
        let edges = edges(&report.graph, atoms)?;
        let (file_size, parts) = match report.file {
            Some(file) => (Some(file.size), file.parts),
            None => (None, Vec::new()),
        };
        let bytes = sum(parts.iter().map(|p| p.bytes));
        if file_size.is_some() && bytes != file_size {
            return Err("the parts of the linked file don't add up".to_owned());
        }
        // What is added up from here on fits.
        if sum(parts.iter().map(|p| p.size).chain(report.atoms.iter().map(|a| a.size))).is_none() {
            return Err("the sizes are beyond all bounds".to_owned());
        }
        let symbols = report.symbols;
        let module = |m: read::Module<'a>| Module { name: m.name, archive: m.archive };
        let head =
            Head { linker: report.linker, output: report.output, level: report.level, pruned: report.pruned };
        let mut model = Model {
            path: path.to_owned(),
            report: head,
            modules: report.modules.into_iter().map(module).collect(),
            atoms: report.atoms.into_iter().map(atom).collect(),
            roots: report.roots,
            kinds: report.graph.kinds,
            edges,
            limits: report.limits,
            duplicates: report.duplicates,
            parts,
            file_size,
            value_flow: report.value_flow,
        };
        model.name(&symbols);
        model.place();
        Ok(model)
    }

    /// Find the symbol by which each atom goes: the largest, and of those the first that is no local label; or those that share it.
    fn name(&mut self, symbols: &[read::Symbol]) {
        let mut of_atom: Vec<Vec<(Option<u64>, u64)>> = vec![Vec::new(); self.atoms.len()];
        for symbol in symbols {
            if let Some(list) = of_atom.get_mut(symbol.atom as usize) {
                list.push((symbol.offset, symbol.size));
            }
        }
        for (atom, symbols) in self.atoms.iter_mut().zip(of_atom) {
            atom.shares = shares(atom, &symbols);
            let is_label =
                |at: usize| atom.symbols.get(at).is_some_and(|s| s.starts_with(".L") || s.starts_with('$'));
            let better = |(at, symbol): &(usize, &(Option<u64>, u64))| {
                (symbol.1, !is_label(*at), std::cmp::Reverse(*at))
            };
            let best = symbols.iter().enumerate().max_by_key(better);
            // What is most of a section gives it its name; where many share it, none does.
            let names = |(_, symbol): &(usize, &(Option<u64>, u64))| match symbol.1 {
                0 => atom.symbols.len() == 1,
                size => size >= atom.size / 2 && atom.shares.is_empty(),
            };
            atom.main = best.filter(names).map(|b| b.0);
        }
    }

    /// Assign each atom that is in the output to a section of it.
    fn place(&mut self) {
        let present = self.present();
        let mut sections: Vec<(&str, u32)> = Vec::new();
        for (i, part) in self.parts.iter().enumerate().filter(|(_, p)| p.what == "section") {
            sections.push((&part.name, i as u32));
        }
        sections.sort_unstable();
        let is_zero = |part: u32| self.parts.get(part as usize).is_some_and(|p| p.bytes == 0 && p.size > 0);
        let find = |name: &str, zero: bool| {
            let at = sections.partition_point(|s| s.0 < name);
            let found = sections.iter().skip(at).take_while(|s| s.0 == name).map(|s| s.1);
            found.clone().find(|s| is_zero(*s) == zero).or_else(|| found.clone().next())
        };
        let placed: Vec<Option<u32>> = self
            .atoms
            .iter()
            .zip(&present)
            .map(|(atom, present)| if *present { section_of(atom, &find) } else { None })
            .collect();
        for (atom, part) in self.atoms.iter_mut().zip(placed) {
            atom.placed = part;
        }
    }

    /// By atom: whether the linked file has it.
    fn present(&self) -> Vec<bool> {
        if self.report.pruned {
            return self.atoms.iter().map(|a| a.state != State::Dropped).collect();
        }
        // The originals were linked. Sections go whole there, so one atom that lives by the linker's rules keeps the others.
        if !self.report.linker.gc_sections {
            return self.atoms.iter().map(|a| !a.discarded).collect();
        }
        let mut live: Vec<(u32, Option<u32>)> = Vec::new();
        live.extend(self.atoms.iter().filter(|a| a.linker_live).map(|a| (a.module, a.section_index)));
        live.sort_unstable();
        live.dedup();
        let is_live = |a: &Atom<'_>| match a.section_index {
            Some(_) => live.binary_search(&(a.module, a.section_index)).is_ok(),
            None => a.linker_live,
        };
        self.atoms.iter().map(|a| !a.discarded && is_live(a)).collect()
    }

    /// Bytes of the file that are surely those of an atom: not of what the linker joins, nor of a stub.
    pub(crate) fn file_bytes(&self, atom: &Atom<'_>) -> u64 {
        let in_file = atom.placed.is_some() && !atom.is_zero();
        if in_file && !atom.merge && !(self.report.pruned && atom.state == State::Stub) {
            atom.size
        } else {
            0
        }
    }

    /// Bytes that go when an atom goes: those of the file, or of memory where it has none in the file.
    pub(crate) fn weight(&self, atom: &Atom<'_>) -> u64 {
        if atom.is_zero() || atom.state != State::Kept || !is_alloc(atom) { 0 } else { atom.size }
    }

    /// Node of an atom in [`Model::graph`].
    pub(crate) fn node(atom: u32) -> u32 {
        atom + 1
    }

    /// Atom of a node; `None` for the root.
    pub(crate) fn atom_of(node: u32) -> Option<u32> {
        node.checked_sub(1)
    }

    /// What keeps what: the root holds `roots` (edge number: behind all edges, by position), atoms hold atoms.
    pub(crate) fn graph(&self) -> Graph {
        let count = self.edges.len() as u32;
        let roots =
            self.roots.iter().enumerate().map(move |(i, r)| (ROOT, Self::node(r.atom), count + i as u32));
        let holding = self.edges.iter().enumerate().filter(|(_, e)| e.flags & HOLDS != 0);
        let arcs = holding.map(|(i, e)| (Self::node(e.from), Self::node(e.to), i as u32));
        Graph::new(self.atoms.len() + 1, roots.chain(arcs))
    }

    /// The root of an edge number of [`Model::graph`], if it is one.
    pub(crate) fn root_of(&self, number: u32) -> Option<&read::Root<'a>> {
        self.roots.get((number as usize).checked_sub(self.edges.len())?)
    }

    /// Whether an edge of [`Model::graph`] can be taken away by a change of the program: not how an object is put
    /// together, nor the entry.
    pub(crate) fn may_go(&self, number: u32) -> bool {
        match self.edges.get(number as usize) {
            Some(edge) => edge.flags & STRUCTURAL == 0,
            None => self.root_of(number).is_some_and(|r| !matches!(&*r.reason, "entry" | "init-fini-symbol")),
        }
    }
}

/// The sum, if the numbers that an answer makes of it are ones with a sign.
fn sum(mut sizes: impl Iterator<Item = u64>) -> Option<u64> {
    let sum = sizes.try_fold(0u64, u64::checked_add)?;
    i64::try_from(sum).is_ok().then_some(sum)
}

/// Symbols that share an atom: of those that have a size, each that begins where no earlier one is.
fn shares(atom: &Atom<'_>, symbols: &[(Option<u64>, u64)]) -> Vec<(usize, u64)> {
    let mut found: Vec<(u64, std::cmp::Reverse<u64>, usize)> = Vec::new();
    for (at, (offset, size)) in symbols.iter().enumerate().take(atom.symbols.len()) {
        let Some(offset) = offset.and_then(|o| o.checked_sub(atom.offset)) else { continue };
        if *size > 0 && offset.checked_add(*size).is_some_and(|end| end <= atom.size) {
            found.push((offset, std::cmp::Reverse(*size), at));
        }
    }
    found.sort_unstable();
    let mut end = 0;
    found.retain(|(offset, size, _)| {
        let follows = *offset >= end;
        if follows {
            end = offset + size.0;
        }
        follows
    });
    if found.len() < 2 { Vec::new() } else { found.iter().map(|f| (f.2, f.1.0)).collect() }
}

fn is_alloc(atom: &Atom<'_>) -> bool {
    !matches!(&*atom.kind, "debug" | "non-alloc")
}

fn atom(a: read::Atom<'_>) -> Atom<'_> {
    let state = match &*a.state {
        "kept" => State::Kept,
        "stub" => State::Stub,
        _ => State::Dropped,
    };
    // Linkers make one note of what all inputs say there.
    let merge = a.merge || a.section == ".note.gnu.property";
    Atom {
        module: a.module,
        section: a.section,
        section_index: a.section_index,
        offset: a.offset,
        size: a.size,
        kind: a.kind,
        state,
        discarded: a.discarded,
        merge,
        linker_live: a.linker_live,
        symbols: a.symbols,
        main: None,
        shares: Vec::new(),
        placed: None,
    }
}

fn edges(graph: &read::Graph<'_>, atoms: usize) -> Result<Vec<Edge>, String> {
    let count = graph.target.len();
    let lengths = [graph.kind.len(), graph.offset.len(), graph.count.len(), graph.flags.len()];
    if lengths.iter().any(|l| *l != count) {
        return Err("the tables of the graph have different lengths".to_owned());
    }
    let rows = graph.start.windows(2).all(|w| w.first() <= w.last());
    let ends = (graph.start.first(), graph.start.last());
    if !rows || ends != (Some(&0), Some(&(count as u32))) || graph.start.len() != atoms + 1 {
        return Err("the graph's table of rows doesn't fit".to_owned());
    }
    if graph.target.iter().any(|t| *t as usize >= atoms) {
        return Err("an edge leads to an atom that isn't there".to_owned());
    }
    let mut edges = Vec::with_capacity(count);
    let columns = graph.target.iter().zip(&graph.kind).zip(&graph.offset).zip(&graph.count).zip(&graph.flags);
    let mut from = 0u32;
    for (i, ((((to, kind), offset), count), flags)) in columns.enumerate() {
        while graph.start.get(from as usize + 1).is_some_and(|end| *end as usize <= i) {
            from += 1;
        }
        edges.push(Edge { from, to: *to, kind: *kind, offset: *offset, count: *count, flags: *flags });
    }
    Ok(edges)
}

/// Where linkers put a section, by name: a section of the output of that name, else of the longest part of it that ends before
/// a dot; what old names mean besides.
fn section_of(atom: &Atom<'_>, find: &dyn Fn(&str, bool) -> Option<u32>) -> Option<u32> {
    let zero = atom.is_zero();
    let own: &str = match &*atom.kind {
        "common" => ".bss",
        _ => &atom.section,
    };
    let mut name = own;
    loop {
        if let Some(found) = find(name, zero) {
            return Some(found);
        }
        match name.rfind('.') {
            Some(dot) if dot > 0 => name = name.get(..dot).unwrap_or_default(),
            _ => break,
        }
    }
    let starts = |prefix: &str| own.starts_with(prefix);
    let other = match own {
        _ if starts(".gnu.linkonce.t") => ".text",
        _ if starts(".gnu.linkonce.r") => ".rodata",
        _ if starts(".gnu.linkonce.d") => ".data",
        _ if starts(".gnu.linkonce.b") => ".bss",
        _ if starts(".ctors") => ".init_array",
        _ if starts(".dtors") => ".fini_array",
        _ => return None,
    };
    find(other, zero)
}
