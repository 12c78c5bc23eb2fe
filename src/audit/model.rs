//! A report as dense tables: atoms with names, the graph of what keeps what, and the linked file.
//!
//! Built once for every command. A report is a file that anybody may have written: `checked` makes these tables of it, and
//! each number that is an index here has been checked there. Where an input byte landed is not in a report: see `placed`.

use crate::error::{Error, Result, Stage};
use crate::report::graph::{HOLDS, STRUCTURAL};
use crate::report::{SCHEMA, is_start_file_name};

use super::checked::checked;
use super::graph::{Graph, NumberedEdge, ROOT};
use super::read::{self, Text};
use super::table::count;

/// The module of functions and objects whose source file is unknown.
pub(crate) const UNKNOWN_MODULE: &str = "[unknown]";

/// The kinds of files that are audited without a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElfKind {
    Executable,
    Library,
    Object,
    Archive,
}

impl ElfKind {
    /// The name of the kind in a sentence.
    pub(crate) fn with_article(self) -> &'static str {
        match self {
            ElfKind::Executable => "an ELF executable",
            ElfKind::Library => "an ELF shared library",
            ElfKind::Object => "an ELF object",
            ElfKind::Archive => "an archive of ELF objects",
        }
    }

    /// The name of the kind, for people.
    pub(crate) fn name(self) -> &'static str {
        let name = self.with_article();
        name.split_once(' ').map_or(name, |n| n.1)
    }
}

/// What an atom is, by the kinds of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtomState {
    Kept,
    /// Only its address is in the program.
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
    pub(crate) state: AtomState,
    pub(crate) discarded: bool,
    pub(crate) merge: bool,
    pub(crate) linker_live: bool,
    /// The names are those that linkers know.
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

    /// It is padding, or entries of tables for a symbol whose function or object is another atom.
    pub(crate) fn is_entry(&self) -> bool {
        matches!(&*self.kind, "table" | "padding")
    }

    /// It takes memory and no bytes of the file.
    pub(crate) fn is_zero(&self) -> bool {
        matches!(&*self.kind, "bss" | "tls-bss" | "common")
    }
}

#[derive(Debug)]
pub(crate) struct AuditedModule<'a> {
    pub(crate) name: Text<'a>,
    pub(crate) archive: Option<Text<'a>>,
    /// `native`, `bitcode` or `opaque`; empty in reports of older versions.
    pub(crate) kind: Text<'a>,
}

impl AuditedModule<'_> {
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
            None => self.name.clone().into_owned(),
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

/// A symbol that is used and that no module of the link defines.
#[derive(Debug)]
pub(crate) struct Import<'a> {
    pub(crate) symbol: Text<'a>,
    pub(crate) definer: Definer<'a>,
}

/// Who defines what no module does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Definer<'a> {
    /// A library defines it, by the name under which the loader finds it.
    Library(Text<'a>),
    Linker,
    /// A weak reference to it is 0.
    Nobody,
}

impl Definer<'_> {
    /// The name fits into messages such as `X defines it`.
    pub(crate) fn name(&self) -> &str {
        match self {
            Definer::Library(name) => name,
            Definer::Linker => "the linker",
            Definer::Nobody => "nothing",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Model<'a> {
    /// Where it was read, as the user said it.
    pub(crate) path: String,
    pub(crate) report: ReportHead<'a>,
    /// The kind of file, for a model without a report.
    pub(crate) elf: Option<ElfKind>,
    pub(crate) modules: Vec<AuditedModule<'a>>,
    pub(crate) atoms: Vec<Atom<'a>>,
    pub(crate) roots: Vec<read::ReadRoot<'a>>,
    pub(crate) kinds: Vec<Text<'a>>,
    /// They are in ascending order of their sources.
    pub(crate) edges: Vec<GraphEdge>,
    pub(crate) imports: Vec<Import<'a>>,
    /// Edges to imports, whose positions are behind those of all atoms. Ascending by target.
    pub(crate) import_edges: Vec<GraphEdge>,
    pub(crate) limits: Vec<read::Limit<'a>>,
    pub(crate) duplicates: Vec<Vec<u32>>,
    pub(crate) parts: Vec<read::ReadPart<'a>>,
    /// Length of the linked file; `None` where the report doesn't say.
    pub(crate) file_size: Option<u64>,
    /// The hash of the linked file, where the report has it.
    pub(crate) file_hash: Option<Text<'a>>,
    pub(crate) value_flow: Option<read::ReadValueFlow<'a>>,
    /// Indirect calls of what lives, where values were followed.
    pub(crate) call_sites: Vec<read::ReadCallSite<'a>>,
}

/// Compilers align functions to as much: they lie behind less of padding, in bytes.
const PADDED: u64 = 16;

/// What a report says of the link.
#[derive(Debug)]
pub(crate) struct ReportHead<'a> {
    pub(crate) linker: read::ReadLinker<'a>,
    pub(crate) output: Text<'a>,
    pub(crate) level: Text<'a>,
    /// `--prune-level=off`: nothing was to be pruned.
    pub(crate) shadow: bool,
    pub(crate) pruned: bool,
    /// Whether the analysis came to its end; if not, the report has no modules.
    pub(crate) analysed: bool,
    pub(crate) not_pruned: Option<Text<'a>>,
    /// How the linker ended, as the report has it.
    pub(crate) linked: Option<Text<'a>>,
    pub(crate) not_analysed: Option<read::ReadNotDone<'a>>,
    pub(crate) unwind: Option<read::ReadUnwind<'a>>,
}

impl ReportHead<'_> {
    /// The unwind entries that are removed or could be, in a sentence.
    pub(crate) fn unwind(&self) -> Option<String> {
        let read::ReadUnwind { mode, functions, bytes, kept, why } = self.unwind.as_ref()?;
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
    pub(crate) fn not_pruned(&self) -> String {
        match &self.not_pruned {
            Some(reason) => format!("not pruned: {reason}"),
            None if self.shadow => "not pruned: --prune-level=off".to_owned(),
            None => "not pruned: nothing to remove".to_owned(),
        }
    }
}

impl<'a> Model<'a> {
    /// Whether a file is the one that the report is about; else the reason.
    pub(crate) fn is_described(&self, data: &[u8]) -> Result<(), String> {
        match self.file_hash.as_deref() {
            None => Err(format!("the report {} has no hash of its file", self.path)),
            Some(hash) if hash == crate::hashing::hex(&crate::hashing::hash(data)) => Ok(()),
            Some(_) => Err(format!("is not the file that the report {} is about", self.path)),
        }
    }

    /// Read a report; `path` is for messages.
    ///
    /// # Errors
    /// The text is no report, one of another schema, or one whose tables don't fit together.
    pub(crate) fn read(path: &str, text: &'a str) -> Result<Self> {
        let error = |message: String| Error::new(Stage::Report, message).in_file(path);
        let parsed = serde_json::from_str::<read::ReadReport<'a>>(text);
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
        checked(path, report).map_err(|table| error(format!("is a damaged report: {table}")))
    }

    /// Find the symbol by which each atom goes: the largest, and of those the first that is no local label; or those that share it.
    pub(super) fn name(&mut self, symbols: &[read::Symbol]) {
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
            // What is most of a section, padding aside, gives it its name; where many share it, none does.
            let names = |(_, symbol): &(usize, &(Option<u64>, u64))| match symbol.1 {
                0 => atom.symbols.len() == 1,
                size => size.saturating_add(PADDED) > atom.size / 2 && atom.shares.is_empty(),
            };
            atom.main = best.filter(names).map(|b| b.0);
        }
    }

    /// Bytes of the file that are surely those of an atom: not of what the linker joins, nor of a stub.
    pub(crate) fn file_bytes(&self, atom: &Atom<'_>) -> u64 {
        let in_file = atom.placed.is_some() && !atom.is_zero();
        if in_file && !atom.merge && !(self.report.pruned && atom.state == AtomState::Stub) {
            atom.size
        } else {
            0
        }
    }

    /// Bytes that go when an atom goes: those of the file, or of memory where it has none in the file.
    pub(crate) fn weight(&self, atom: &Atom<'_>) -> u64 {
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

    /// The import at a position behind those of all atoms.
    pub(crate) fn import(&self, position: u32) -> Option<&Import<'a>> {
        self.imports.get((position as usize).checked_sub(self.atoms.len())?)
    }

    /// What the roots hold and what atoms hold, each with its edge number: an edge's is its position, a root's is its position
    /// behind all edges.
    fn arcs(&self) -> impl Iterator<Item = NumberedEdge> + Clone + '_ {
        let count = self.edges.len() as u32;
        let roots =
            self.roots.iter().enumerate().map(move |(i, r)| (ROOT, Self::node(r.atom), count + i as u32));
        let holding = self.edges.iter().enumerate().filter(|(_, e)| e.flags & HOLDS != 0);
        roots.chain(holding.map(|(i, e)| (Self::node(e.from), Self::node(e.to), i as u32)))
    }

    /// What keeps what. The root's node holds what `roots` names, atoms hold atoms.
    pub(crate) fn graph(&self) -> Graph {
        Graph::new(self.atoms.len() + 1, self.arcs())
    }

    /// Each import with the edges to it.
    pub(crate) fn used_imports(&self) -> impl Iterator<Item = (&Import<'a>, &[GraphEdge])> {
        let mut edges = &self.import_edges[..];
        self.imports.iter().zip(self.atoms.len() as u32..).map(move |(import, position)| {
            let (of_this, others) = edges.split_at(edges.partition_point(|e| e.to <= position));
            edges = others;
            (import, of_this)
        })
    }

    /// The same with imports, as nodes behind those of all atoms. The number of an edge to one is its position behind the roots.
    pub(crate) fn graph_with_imports(&self) -> Graph {
        let count = (self.edges.len() + self.roots.len()) as u32;
        let edges = self.import_edges.iter().enumerate();
        let edges = edges.map(|(i, e)| (Self::node(e.from), Self::node(e.to), count + i as u32));
        Graph::new(self.atoms.len() + self.imports.len() + 1, self.arcs().chain(edges))
    }

    /// The edge of a number of [`Model::graph_with_imports`]; `None` for that of a root.
    pub(crate) fn edge(&self, number: u32) -> Option<&GraphEdge> {
        let number = number as usize;
        let import = || self.import_edges.get(number.checked_sub(self.edges.len() + self.roots.len())?);
        self.edges.get(number).or_else(import)
    }

    /// The root of an edge number of [`Model::graph`], if it is one.
    pub(crate) fn root_of(&self, number: u32) -> Option<&read::ReadRoot<'a>> {
        self.roots.get((number as usize).checked_sub(self.edges.len())?)
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
