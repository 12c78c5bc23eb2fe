//! The serialised form of a report (docs/REPORT_FORMAT.md): the types that a link writes and `lto-prune audit` reads.
//!
//! [`SCHEMA`] changes with them. Fields without use for an audit are not read. Older reports lack fields with a default.

use serde::{Deserialize, Serialize};

use super::accounting::{LiveCode, LoadedBytes, Totals};
use super::names::{FixedWord, NotDone};
use super::{calls, contents, graph};

pub const SCHEMA: u32 = 2;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub schema: u32,
    #[serde(skip_deserializing)]
    pub tool: String,
    pub linker: LinkerReport,
    pub output: String,
    /// It is the level of the analysis.
    pub level: FixedWord,
    /// `--prune-level=off`: a dry run, and the rest says what would have been removed.
    #[serde(default, rename = "shadow")]
    pub dry_run: bool,
    /// Whether the output was linked from pruned objects.
    pub pruned: bool,
    /// Why the originals were linked, or nothing; null if pruned objects were linked, and if there was nothing to remove.
    pub not_pruned: Option<String>,
    /// How the linker ended: `succeeded`, `failed`, or `not-run`, where `--prune-strict` ended the link before it.
    #[serde(default)]
    pub linked: FixedWord,
    /// Whether the passes came to their end. If not, all below but `file` is empty.
    #[serde(default)]
    pub analysed: bool,
    /// An action of the user that lets the link be pruned, if there is one.
    #[serde(skip_deserializing)]
    pub not_pruned_action: Option<String>,
    /// The reason and the action for people, also if there was nothing to remove.
    #[serde(skip)]
    pub unpruned: Option<NotDone>,
    /// The elements are in load order.
    pub modules: Vec<ModuleReport>,
    pub atoms: Vec<AtomReport>,
    pub symbols: Vec<SymbolReport>,
    #[serde(skip_deserializing)]
    pub functions: Counts,
    #[serde(skip_deserializing)]
    pub live_code: LiveCode,
    #[serde(skip_deserializing)]
    pub loaded: LoadedBytes,
    #[serde(skip_deserializing)]
    pub totals: Totals,
    pub limits: Vec<LimitReport>,
    /// Unwind entries of kept functions; null without an option that needs them.
    pub unwind: Option<UnwindReport>,
    /// Roots, ascending by atom.
    pub roots: Vec<graph::RootReport>,
    pub graph: graph::GraphReport,
    /// Symbols that are used and defined elsewhere, in their order.
    #[serde(default)]
    pub imports: Vec<graph::ImportReport>,
    /// Atoms with the same contents, in groups: positions in `atoms`.
    pub duplicates: Vec<Vec<u32>>,
    /// The linked file; null if it could not be read.
    pub file: Option<contents::FileReport>,
    /// Counts of value flow, at the level `pointers`.
    pub value_flow: Option<calls::FlowReport>,
    /// The reason for a missing `value_flow`; null if it is there.
    pub not_analysed: Option<NotDone>,
    /// Indirect calls of live functions, at the level `pointers`.
    #[serde(default)]
    pub call_sites: Vec<calls::CallSiteReport>,
}

/// The unwind entries that are removed from kept functions, or by the option `unused` would be.
#[derive(Debug, Serialize, Deserialize)]
pub struct UnwindReport {
    /// The value of the option `--prune-unwind`: keep, unused or drop.
    pub mode: FixedWord,
    /// How many functions lose their entries, and how many bytes of `.eh_frame` those are.
    pub functions: u64,
    pub bytes: u64,
    /// The number of functions that keep theirs.
    pub kept: u64,
    /// The first call that may start an unwinding, if it keeps entries.
    pub why: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct LinkerReport {
    #[serde(skip_deserializing)]
    pub path: String,
    pub dialect: FixedWord,
    pub gc_sections: bool,
    /// `none`, `safe` or `all`: whether the linker joins the same code.
    pub icf: FixedWord,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ModuleReport {
    /// It is a path, or the member's name.
    pub name: String,
    pub archive: Option<String>,
    /// `native` or `bitcode`; `opaque` where it is neither.
    #[serde(default)]
    pub kind: FixedWord,
    /// `pruned`, `untouched` if it is passed through, or `would-be-pruned` in a dry run.
    #[serde(skip_deserializing)]
    pub status: &'static str,
}

/// The states of atoms in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtomState {
    Kept,
    /// Only its address is in the program.
    Stub,
    #[default]
    #[serde(other)]
    Dropped,
}

/// An atom: a section, at this granularity.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct AtomReport {
    /// It is a position in `modules`.
    pub module: u32,
    pub section: String,
    /// ELF index of the section; null for a common symbol.
    pub section_index: Option<u32>,
    /// First byte, from the start of the section.
    pub offset: u64,
    /// Position in `atoms` of the entry of its function; null for data, and for code whose values are not analysed.
    #[serde(skip_deserializing)]
    pub function: Option<u32>,
    pub kind: FixedWord,
    /// It is a number of bytes.
    pub size: u64,
    #[serde(skip_deserializing)]
    pub live: bool,
    pub state: AtomState,
    /// Another module has its COMDAT group; the linker drops it in any case.
    pub discarded: bool,
    /// The linker joins what is the same in it (`SHF_MERGE`).
    pub merge: bool,
    /// Whether the plain linker's `--gc-sections` would find it live.
    pub linker_live: bool,
    pub symbols: Vec<String>,
    #[serde(skip_deserializing)]
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
#[derive(Debug, Serialize, Deserialize)]
pub struct SymbolReport {
    #[serde(skip_deserializing)]
    pub name: String,
    /// It is a position in `modules`.
    #[serde(skip_deserializing)]
    pub module: u32,
    /// It is a position in `atoms`.
    pub atom: u32,
    #[serde(skip_deserializing)]
    pub kind: &'static str,
    #[serde(skip_deserializing)]
    pub binding: &'static str,
    /// In bytes, from the start of the section; null for a common symbol.
    pub offset: Option<u64>,
    /// It is a number of bytes.
    pub size: u64,
    #[serde(skip_deserializing)]
    pub live: bool,
    /// Its definition is the one that the linker takes.
    #[serde(skip_deserializing)]
    pub prevails: bool,
}

/// Prevailing functions of the index, as LLVM counts live and dead.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Counts {
    pub live: usize,
    /// Functions whose address alone is needed; they are neither live nor dead.
    pub stubs: usize,
    pub dead: usize,
}

/// A limit, joined over its places.
#[derive(Debug, Serialize, Deserialize)]
pub struct LimitReport {
    pub limit: FixedWord,
    pub severity: FixedWord,
    pub count: u64,
    /// In bytes, where that is known.
    pub bytes: u64,
    /// How many of the places are in start files of the compiler, which no user can change, and their part of the bytes.
    #[serde(default)]
    pub start_files: u64,
    #[serde(default)]
    pub start_file_bytes: u64,
    /// The module of the first such place; one outside of start files is preferred.
    pub module: Option<String>,
    pub detail: String,
    /// An action of the user that ends it.
    pub lifted_by: FixedWord,
}

impl LimitReport {
    /// Whether each place is in a start file of the compiler.
    pub(super) fn is_of_start_files(&self) -> bool {
        self.count == self.start_files
    }
}
