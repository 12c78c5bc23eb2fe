//! The serialised form of a report (docs/REPORT_FORMAT.md): the types that serde writes. [`SCHEMA`] changes when they do.
//!
//! Left out: the parts that have a file of their own ([`graph`], [`imports`], [`calls`], [`contents`], [`live_code`]).

use serde::Serialize;

use super::accounting::Totals;
use super::loaded::LoadedBytes;
use super::not_done::NotDone;
use super::{calls, contents, graph, imports, live_code};

pub const SCHEMA: u32 = 2;

#[derive(Debug, Serialize)]
pub struct Report {
    pub schema: u32,
    pub tool: String,
    pub linker: LinkerReport,
    pub output: String,
    /// It is the level of the analysis.
    pub level: &'static str,
    /// `--prune-level=off`: nothing was to be pruned; the rest says what would have been.
    pub shadow: bool,
    /// Whether the output was linked from pruned objects.
    pub pruned: bool,
    /// Why the originals were linked, or nothing; null if pruned objects were linked, and if there was nothing to remove.
    pub not_pruned: Option<String>,
    /// How the linker ended: `succeeded`, `failed`, or `not-run`, where `--prune-strict` ended the link before it.
    pub linked: &'static str,
    /// Whether the passes came to their end. If not, all below but `file` is empty.
    pub analysed: bool,
    /// An action of the user that lets the link be pruned, if there is one.
    pub not_pruned_action: Option<String>,
    /// The reason and the action for people, also if there was nothing to remove.
    #[serde(skip)]
    pub unpruned: Option<NotDone>,
    /// The elements are in load order.
    pub modules: Vec<ModuleReport>,
    pub atoms: Vec<AtomReport>,
    pub symbols: Vec<SymbolReport>,
    pub functions: Counts,
    pub live_code: live_code::LiveCode,
    pub loaded: LoadedBytes,
    pub totals: Totals,
    pub limits: Vec<LimitReport>,
    /// Unwind entries of kept functions; null where nobody asks for them.
    pub unwind: Option<UnwindReport>,
    /// What is live by itself, ascending by atom.
    pub roots: Vec<graph::RootReport>,
    pub graph: graph::GraphReport,
    /// What is used and defined elsewhere, by symbol.
    pub imports: Vec<imports::ImportReport>,
    /// Atoms with the same contents, in groups: positions in `atoms`.
    pub duplicates: Vec<Vec<u32>>,
    /// The linked file; null if it could not be read.
    pub file: Option<contents::FileReport>,
    /// Counts of value flow, at the level `pointers`.
    pub value_flow: Option<calls::FlowReport>,
    /// The reason for a missing `value_flow`; null if it is there.
    pub not_analysed: Option<NotDone>,
    /// Indirect calls of live functions, at the level `pointers`.
    pub call_sites: Vec<calls::CallSiteReport>,
}

/// The unwind entries that are removed from kept functions, or by the option `unused` would be.
#[derive(Debug, Serialize)]
pub struct UnwindReport {
    /// The value of the option `--prune-unwind`: keep, unused or drop.
    pub mode: &'static str,
    /// How many functions lose their entries, and how many bytes of `.eh_frame` those are.
    pub functions: usize,
    pub bytes: u64,
    /// How many keep theirs, where some do not.
    pub kept: usize,
    /// Why entries are kept, where some are: the call by which an unwinding may start.
    pub why: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct LinkerReport {
    pub path: String,
    pub dialect: &'static str,
    pub gc_sections: bool,
    /// `none`, `safe` or `all`: whether the linker joins the same code.
    pub icf: &'static str,
}

#[derive(Debug, Serialize)]
pub struct ModuleReport {
    /// It is a path, or the member's name.
    pub name: String,
    pub archive: Option<String>,
    /// `native` or `bitcode`; `opaque` where it is neither.
    pub kind: &'static str,
    /// `pruned`, or `untouched` where nothing goes, or `would-be-pruned` in a shadow report.
    pub status: &'static str,
}

/// An atom: a section, at this granularity.
#[derive(Debug, Serialize)]
pub struct AtomReport {
    /// It is a position in `modules`.
    pub module: usize,
    pub section: String,
    /// ELF index of the section; null for a common symbol.
    pub section_index: Option<u32>,
    /// First byte, from the start of the section.
    pub offset: u64,
    /// Position in `atoms` of where the function that it belongs to is entered; null for data, and for
    /// code of which the values are not followed.
    pub function: Option<usize>,
    pub kind: &'static str,
    /// It is a number of bytes.
    pub size: u64,
    pub live: bool,
    /// `kept`, `stub` (only its address is needed) or `dropped`.
    pub state: &'static str,
    /// Another module's COMDAT group stands for it; the linker drops it in any case.
    pub discarded: bool,
    /// The linker joins what is the same in it (`SHF_MERGE`).
    pub merge: bool,
    /// Whether the plain linker's `--gc-sections` would find it live.
    pub linker_live: bool,
    pub symbols: Vec<String>,
    pub witness: Option<WitnessReport>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum WitnessReport {
    Root {
        reason: &'static str,
        symbol: Option<String>,
    },
    Reference {
        /// It is a position in `atoms`.
        from: usize,
        kind: String,
        /// In bytes, from the start of the section of `from` (of its `.eh_frame` for `unwind`).
        offset: Option<u64>,
    },
}

/// A symbol that a loaded module defines.
#[derive(Debug, Serialize)]
pub struct SymbolReport {
    pub name: String,
    /// It is a position in `modules`.
    pub module: usize,
    /// It is a position in `atoms`.
    pub atom: usize,
    pub kind: &'static str,
    pub binding: &'static str,
    /// In bytes, from the start of the section; null for a common symbol.
    pub offset: Option<u64>,
    /// It is a number of bytes.
    pub size: u64,
    pub live: bool,
    /// Its definition is the one that the linker takes.
    pub prevails: bool,
}

/// Prevailing functions of the index, as LLVM counts live and dead.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Counts {
    pub live: usize,
    /// Functions of which only the address is needed; they are neither live nor dead.
    pub stubs: usize,
    pub dead: usize,
}

/// A limit, joined over its places.
#[derive(Debug, Serialize)]
pub struct LimitReport {
    pub limit: &'static str,
    pub severity: &'static str,
    pub count: usize,
    /// In bytes, where that is known.
    pub bytes: u64,
    /// How many of the places are in start files of the compiler, which no user can change, and their part of the bytes.
    pub start_files: usize,
    pub start_file_bytes: u64,
    /// The module of the first such place; one outside of start files is preferred.
    pub module: Option<String>,
    pub detail: String,
    /// An action of the user that ends it.
    pub lifted_by: &'static str,
}

impl LimitReport {
    /// Whether each place is in a start file of the compiler.
    pub(super) fn is_of_start_files(&self) -> bool {
        self.count == self.start_files
    }
}
