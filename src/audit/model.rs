//! A report as dense tables: atoms with names, the graph of references that keep atoms, and the linked file.
//!
//! A report is untrusted input. [`Model::read`] checks once every number that is an index or a summand, so that commands need not.
//! The truth of a report is not checked.

use std::ops::Deref;

use crate::error::{Error, Result, Stage};
use crate::ids::named;
use crate::report::contents::PartReport;
use crate::report::graph::{GraphReport, HOLDS, ImportReport, RootReport, STRUCTURAL};
use crate::report::{AtomReport, Report, SCHEMA, SymbolReport, UnwindReport, is_start_file_name};

use super::graph::{Graph, NumberedEdge, ROOT};
use super::table::count;

pub(crate) use crate::report::{AtomState, ModuleReport};

/// The module of functions and objects whose source file is unknown.
pub(crate) const UNKNOWN_MODULE: &str = "[unknown]";

named! {
    /// The kinds of files that are audited without a report, with their names for people.
    pub(crate) enum ElfKind {
        Executable = "ELF executable",
        Library = "ELF shared library",
        Object = "ELF object",
        Archive = "archive of ELF objects",
    }
}

/// An atom of a report, with its names and its place in the output.
#[derive(Debug, Default)]
pub(crate) struct Atom {
    pub(crate) report: AtomReport,
    /// The position in `symbols` of its name; none if many symbols share an undivided section.
    pub(crate) main: Option<usize>,
    /// Symbols that share it, with the bytes of each: positions in `symbols`, by place. Empty where one has it all.
    pub(crate) shares: Vec<(usize, u64)>,
    /// Position in the parts of the file: the section that it is in, if it is in the output and that is known.
    pub(crate) placed: Option<u32>,
}

impl Deref for Atom {
    type Target = AtomReport;

    fn deref(&self) -> &AtomReport {
        &self.report
    }
}

impl Atom {
    /// The linker's name of the symbol that names it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.main.and_then(|at| self.symbols.get(at)).map(String::as_str)
    }

    /// It is padding, or entries of tables for a symbol whose function or object is another atom.
    pub(crate) fn is_entry(&self) -> bool {
        matches!(&*self.kind, "table" | "padding")
    }

    /// It takes memory and no bytes of the file.
    pub(crate) fn is_zero(&self) -> bool {
        matches!(&*self.kind, "bss" | "tls-bss" | "common")
    }
}

impl ModuleReport {
    /// Whether it comes with the compiler or the C library: a start file, or a member of a library of helpers.
    pub(crate) fn is_runtime(&self) -> bool {
        const ARCHIVES: [&str; 3] = ["libgcc.a", "libgcc_eh.a", "libc_nonshared.a"];
        match &self.archive {
            Some(archive) => ARCHIVES.contains(&base(archive)),
            None => is_start_file_name(base(&self.name)),
        }
    }

    /// As a linker writes it, without folders: `archive(member)`.
    pub(crate) fn short(&self) -> String {
        match &self.archive {
            Some(archive) => format!("{}({})", base(archive), self.name),
            None => base(&self.name).to_owned(),
        }
    }

    /// The name with all folders before it.
    pub(crate) fn full(&self) -> String {
        match &self.archive {
            Some(archive) => format!("{archive}({})", self.name),
            None => self.name.clone(),
        }
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// An edge, as the report has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GraphEdge {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) kind: u8,
    /// It is -1 where there is no single place.
    pub(crate) offset: i64,
    pub(crate) count: u8,
    pub(crate) flags: u8,
}

#[derive(Debug)]
pub(crate) struct Model {
    /// The path of the report or file, for messages.
    pub(crate) path: String,
    /// The report without the tables below. Without a report it has an output, modules, duplicates and the parts of the file.
    pub(crate) report: Report,
    /// The kind of file, for a model without a report.
    pub(crate) elf: Option<ElfKind>,
    pub(crate) atoms: Vec<Atom>,
    /// They are in ascending order of their sources.
    pub(crate) edges: Vec<GraphEdge>,
    /// Edges to imports, whose positions follow those of all atoms. Ascending by target.
    pub(crate) import_edges: Vec<GraphEdge>,
}

/// The alignment of functions in bytes; padding is shorter.
const PADDED: u64 = 16;

impl Report {
    /// The unwind entries that are removed or could be, in a sentence.
    pub(crate) fn unwind_sentence(&self) -> Option<String> {
        let UnwindReport { mode, functions, bytes, kept, why } = self.unwind.as_ref()?;
        let (functions, bytes) = (count(*functions), count(*bytes));
        let mut text = match &**mode {
            "keep" => format!(
                "--prune-unwind=unused would remove {bytes} bytes of unwind entries, of {functions} functions"
            ),
            _ => format!("{bytes} bytes of unwind entries are removed, of {functions} functions"),
        };
        if *kept > 0 {
            text += &format!("; {} keep theirs", count(*kept));
        }
        if let Some(why) = why {
            text += &format!(": {why}");
        }
        Some(text + ".")
    }

    /// Why the originals were linked, for a person.
    pub(crate) fn why_not_pruned(&self) -> String {
        match &self.not_pruned {
            Some(reason) => format!("not pruned: {reason}"),
            None if self.dry_run => "not pruned: --prune-level=off".to_owned(),
            None => "not pruned: nothing to remove".to_owned(),
        }
    }
}

impl Model {
    /// The atom at a position that is no import's.
    pub(crate) fn atom(&self, position: u32) -> &Atom {
        &self.atoms[position as usize]
    }

    pub(crate) fn module_of(&self, atom: &Atom) -> &ModuleReport {
        &self.report.modules[atom.module as usize]
    }

    /// The module of an atom as a linker writes it.
    pub(crate) fn module_name(&self, atom: &Atom) -> String {
        self.module_of(atom).short()
    }

    /// The kind of an edge, in a word.
    pub(crate) fn kind(&self, edge: &GraphEdge) -> &str {
        self.report.graph.kinds.get(usize::from(edge.kind)).map(|kind| &**kind).unwrap_or_default()
    }

    /// The parts of the linked file; empty if the report doesn't have it.
    pub(crate) fn parts(&self) -> &[PartReport] {
        self.report.file.as_ref().map_or(&[], |file| &file.parts)
    }

    pub(crate) fn part(&self, number: u32) -> &PartReport {
        &self.parts()[number as usize]
    }

    /// Length of the linked file; `None` if the report doesn't have it.
    pub(crate) fn file_size(&self) -> Option<u64> {
        self.report.file.as_ref().map(|file| file.size)
    }

    /// The bytes of zero-initialised memory.
    pub(crate) fn bss(&self) -> u64 {
        self.parts().iter().filter(|p| p.category == "bss").map(|p| p.size).sum()
    }

    /// Whether a file is the one that the report is about; else the reason.
    pub(crate) fn is_described(&self, data: &[u8]) -> Result<(), String> {
        match self.report.file.as_ref().map(|file| &*file.blake3).filter(|hash| !hash.is_empty()) {
            None => Err(format!("the report {} has no hash of its file", self.path)),
            Some(hash) if hash == crate::hashing::hex(&crate::hashing::hash(data)) => Ok(()),
            Some(_) => Err(format!("is not the file that the report {} is about", self.path)),
        }
    }

    /// Read a report; `path` is for messages.
    pub(crate) fn read(path: &str, text: &str) -> Result<Self> {
        #[derive(serde::Deserialize)]
        struct SchemaOnly {
            schema: u32,
        }
        let error = |message: String| Error::new(Stage::Report, message).in_file(path);
        let parsed = serde_json::from_str::<Report>(text);
        // If a report can't be read, another schema is the likelier cause.
        let schema = match &parsed {
            Ok(report) => report.schema,
            Err(_) => {
                let no_report =
                    |e| format!("is no report of lto-prune (--prune-report=FILE writes one): {e}");
                serde_json::from_str::<SchemaOnly>(text).map_err(|e| error(no_report(e)))?.schema
            }
        };
        if schema != SCHEMA {
            let advice = "link again with --prune-report to have one that fits";
            return Err(error(format!(
                "is a report of schema {schema}, and this version reads {SCHEMA}: {advice}"
            )));
        }
        let report = parsed.map_err(|e| error(format!("is a damaged report: {e}")))?;
        checked(path, report).map_err(|table| error(format!("is a damaged report: {table}")))
    }

    /// Find the symbol that names each atom: the largest, and of several the first that is no local label; or the symbols that share
    /// it.
    fn name(&mut self, symbols: &[SymbolReport]) {
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
            // The symbol of most of a section, without padding, names it, unless several share it.
            let names = |(_, symbol): &(usize, &(Option<u64>, u64))| match symbol.1 {
                0 => atom.symbols.len() == 1,
                size => size.saturating_add(PADDED) > atom.size / 2 && atom.shares.is_empty(),
            };
            atom.main = best.filter(names).map(|b| b.0);
        }
    }

    /// Bytes of the file that certainly belong to an atom. Merged atoms and stubs have 0.
    pub(crate) fn file_bytes(&self, atom: &Atom) -> u64 {
        let in_file = atom.placed.is_some() && !atom.is_zero();
        if in_file && !atom.merge && !(self.report.pruned && atom.state == AtomState::Stub) {
            atom.size
        } else {
            0
        }
    }

    /// The bytes of the file that are removed with an atom.
    pub(crate) fn weight(&self, atom: &Atom) -> u64 {
        if atom.is_zero() || atom.state != AtomState::Kept || !is_alloc(atom) { 0 } else { atom.size }
    }

    /// Node of an atom, or of an import, in [`Model::graph`].
    pub(crate) fn node(atom: u32) -> u32 {
        atom + 1
    }

    /// Atom of a node, or import; `None` for the root.
    pub(crate) fn atom_of(node: u32) -> Option<u32> {
        node.checked_sub(1)
    }

    /// The import at a position after those of all atoms.
    pub(crate) fn import(&self, position: u32) -> Option<&ImportReport> {
        self.report.imports.get((position as usize).checked_sub(self.atoms.len())?)
    }

    /// The edges from the root and between atoms, each with its number: the position of the edge, or the number of edges plus the
    /// position of the root.
    fn arcs(&self) -> impl Iterator<Item = NumberedEdge> + Clone + '_ {
        let count = self.edges.len() as u32;
        let roots = self
            .report
            .roots
            .iter()
            .enumerate()
            .map(move |(i, r)| (ROOT, Self::node(r.atom), count + i as u32));
        let holding = self.edges.iter().enumerate().filter(|(_, e)| e.flags & HOLDS != 0);
        roots.chain(holding.map(|(i, e)| (Self::node(e.from), Self::node(e.to), i as u32)))
    }

    /// The liveness graph. The node of the root leads to all roots, atoms lead to atoms.
    pub(crate) fn graph(&self) -> Graph {
        Graph::new(self.atoms.len() + 1, self.arcs())
    }

    /// Each import with the edges to it.
    pub(crate) fn used_imports(&self) -> impl Iterator<Item = (&ImportReport, &[GraphEdge])> {
        let mut edges = &self.import_edges[..];
        self.report.imports.iter().zip(self.atoms.len() as u32..).map(move |(import, position)| {
            let (of_this, others) = edges.split_at(edges.partition_point(|e| e.to <= position));
            edges = others;
            (import, of_this)
        })
    }

    /// The same with imports, as nodes after those of all atoms. Edges to imports have the numbers after the roots.
    pub(crate) fn graph_with_imports(&self) -> Graph {
        let count = (self.edges.len() + self.report.roots.len()) as u32;
        let edges = self.import_edges.iter().enumerate();
        let edges = edges.map(|(i, e)| (Self::node(e.from), Self::node(e.to), count + i as u32));
        Graph::new(self.atoms.len() + self.report.imports.len() + 1, self.arcs().chain(edges))
    }

    /// The edge of a number of [`Model::graph_with_imports`]; `None` for that of a root.
    pub(crate) fn edge(&self, number: u32) -> Option<&GraphEdge> {
        let number = number as usize;
        let import =
            || self.import_edges.get(number.checked_sub(self.edges.len() + self.report.roots.len())?);
        self.edges.get(number).or_else(import)
    }

    /// The root of an edge number of [`Model::graph`], if it is one.
    pub(crate) fn root_of(&self, number: u32) -> Option<&RootReport> {
        self.report.roots.get((number as usize).checked_sub(self.edges.len())?)
    }

    /// Whether an edge of [`Model::graph`] can be taken away by a change of the program: not how an object is put
    /// together, nor the entry.
    pub(crate) fn may_go(&self, number: u32) -> bool {
        match self.edge(number) {
            Some(edge) => edge.flags & STRUCTURAL == 0,
            None => self.root_of(number).is_some_and(|r| !matches!(&*r.reason, "entry" | "init-fini-symbol")),
        }
    }
}

/// Symbols that share an atom: of those that have a size, each that begins where no earlier one is.
fn shares(atom: &Atom, symbols: &[(Option<u64>, u64)]) -> Vec<(usize, u64)> {
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

fn is_alloc(atom: &Atom) -> bool {
    !matches!(&*atom.kind, "debug" | "non-alloc")
}

/// Checks that the indices and sums in the tables of a report fit together, so that commands need not; `path` is for messages.
fn checked(path: &str, mut report: Report) -> Result<Model, String> {
    let atoms = report.atoms.len();
    let is_atom = |a: u32| (a as usize) < atoms;
    let ensure = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
    let has_module = |a: &AtomReport| (a.module as usize) < report.modules.len();
    ensure(report.atoms.iter().all(has_module), "an atom is of a module that isn't there")?;
    ensure(report.roots.iter().all(|r| is_atom(r.atom)), "a root is an atom that isn't there")?;
    let duplicates = || report.duplicates.iter().flatten();
    ensure(duplicates().all(|a| is_atom(*a)), "a duplicate is an atom that isn't there")?;
    let mut sites = report.call_sites.iter();
    let is_between_atoms = sites.all(|s| is_atom(s.caller) && s.targets.iter().all(|t| is_atom(t.atom)));
    ensure(is_between_atoms, "an indirect call is of an atom, or to one, that isn't there")?;
    let edges = edges(&report.graph, atoms)?;
    let import_edges = import_edges(&report.imports, atoms)?;
    let parts = report.file.as_ref().map_or(&[][..], |file| &file.parts);
    let bytes = sum(parts.iter().map(|p| p.bytes));
    let adds_up = report.file.as_ref().is_none_or(|file| bytes == Some(file.size));
    ensure(adds_up, "the parts of the linked file don't add up")?;
    // No later sum overflows.
    let sizes = parts.iter().map(|p| p.size).chain(report.atoms.iter().map(|a| a.size));
    ensure(sum(sizes).is_some(), "the sizes are beyond all bounds")?;
    let symbols = std::mem::take(&mut report.symbols);
    let atoms = std::mem::take(&mut report.atoms).into_iter().map(|mut report| {
        // Linkers join the notes of all inputs.
        report.merge |= report.section == ".note.gnu.property";
        Atom { report, ..Atom::default() }
    });
    let mut model =
        Model { path: path.to_owned(), elf: None, atoms: atoms.collect(), edges, import_edges, report };
    model.name(&symbols);
    model.place();
    Ok(model)
}

/// The sum, if the numbers that an answer makes of it are ones with a sign.
pub(super) fn sum(mut sizes: impl Iterator<Item = u64>) -> Option<u64> {
    let sum = sizes.try_fold(0u64, u64::checked_add)?;
    i64::try_from(sum).is_ok().then_some(sum)
}

/// The columns of edges: the end that differs, kind, offset and count.
type Columns<'t> = (&'t [u32], &'t [u8], &'t [i64], &'t [u8]);

/// The edges of one table: its end that differs, kind, offset and count.
fn rows<'t>(
    (ends, kinds, offsets, counts): Columns<'t>,
    atoms: usize,
) -> Result<impl Iterator<Item = (u32, u8, i64, u8)> + 't, &'static str> {
    if [kinds.len(), offsets.len(), counts.len()].iter().any(|l| *l != ends.len()) {
        return Err("has columns of different lengths");
    }
    if ends.iter().any(|a| *a as usize >= atoms) {
        return Err("has an edge to or from an atom that isn't there");
    }
    let columns = ends.iter().zip(kinds).zip(offsets).zip(counts);
    Ok(columns.map(|(((end, kind), offset), count)| (*end, *kind, *offset, *count)))
}

fn edges(graph: &GraphReport, atoms: usize) -> Result<Vec<GraphEdge>, String> {
    let table = |what: &str| format!("the graph {what}");
    let rows = rows((&graph.target, &graph.kind, &graph.offset, &graph.count), atoms).map_err(table)?;
    let ascending = graph.start.windows(2).all(|w| w.first() <= w.last());
    let ends = (graph.start.first(), graph.start.last());
    let count = graph.target.len();
    if !ascending || ends != (Some(&0), Some(&(count as u32))) || graph.start.len() != atoms + 1 {
        return Err(table("has a table of rows that doesn't fit"));
    }
    if graph.flags.len() != count {
        return Err(table("has columns of different lengths"));
    }
    let mut edges = Vec::with_capacity(count);
    let mut from = 0u32;
    for (i, ((to, kind, offset, count), flags)) in rows.zip(&graph.flags).enumerate() {
        while graph.start.get(from as usize + 1).is_some_and(|end| *end as usize <= i) {
            from += 1;
        }
        edges.push(GraphEdge { from, to, kind, offset, count, flags: *flags });
    }
    Ok(edges)
}

fn import_edges(imports: &[ImportReport], atoms: usize) -> Result<Vec<GraphEdge>, String> {
    let mut edges = Vec::new();
    for (i, import) in imports.iter().enumerate() {
        let to = (atoms + i) as u32;
        let rows = rows((&import.from, &import.kind, &import.offset, &import.count), atoms)
            .map_err(|what| format!("the import {} {what}", import.symbol))?;
        edges.extend(rows.map(|(from, kind, offset, count)| GraphEdge {
            from,
            to,
            kind,
            offset,
            count,
            flags: HOLDS,
        }));
    }
    Ok(edges)
}

impl Model {
    /// Assign each atom that is in the output to a section of it.
    fn place(&mut self) {
        let present = self.present();
        let mut sections: Vec<(&str, u32)> = Vec::new();
        for (i, part) in self.parts().iter().enumerate().filter(|(_, p)| p.what == "section") {
            sections.push((&part.name, i as u32));
        }
        sections.sort_unstable();
        let is_zero = |part: u32| self.part(part).bytes == 0 && self.part(part).size > 0;
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
    pub(super) fn present(&self) -> Vec<bool> {
        if self.report.pruned {
            return self.atoms.iter().map(|a| a.state != AtomState::Dropped).collect();
        }
        // The originals were linked. The linker keeps or drops whole sections, so one live atom keeps the others.
        if !self.report.linker.gc_sections {
            return self.atoms.iter().map(|a| !a.discarded).collect();
        }
        let mut live: Vec<(u32, Option<u32>)> = Vec::new();
        live.extend(self.atoms.iter().filter(|a| a.linker_live).map(|a| (a.module, a.section_index)));
        live.sort_unstable();
        live.dedup();
        let is_live = |a: &Atom| match a.section_index {
            Some(_) => live.binary_search(&(a.module, a.section_index)).is_ok(),
            None => a.linker_live,
        };
        self.atoms.iter().map(|a| !a.discarded && is_live(a)).collect()
    }
}

/// The section of the output for an input section, by name, as a report has no addresses of inputs. It has that name, or the longest
/// prefix that ends before a dot, or replaces an old name. Linker scripts may use other sections.
fn section_of(atom: &Atom, find: &dyn Fn(&str, bool) -> Option<u32>) -> Option<u32> {
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
