//! The JSON of a report as it is in the file, for reading: names stay where they are in the text.
//!
//! Only what an audit asks for; unknown fields are skipped. Nothing here is believed: `model` checks every number
//! before it is an index.

use std::borrow::Cow;

use serde::Deserialize;

pub(super) type Text<'a> = Cow<'a, str>;

#[derive(Debug, Deserialize)]
pub(super) struct ReadReport<'a> {
    pub(super) schema: u64,
    #[serde(borrow)]
    pub(super) linker: ReadLinker<'a>,
    #[serde(borrow)]
    pub(super) output: Text<'a>,
    #[serde(borrow)]
    pub(super) level: Text<'a>,
    #[serde(default)]
    pub(super) shadow: bool,
    pub(super) pruned: bool,
    #[serde(default)]
    pub(super) analysed: bool,
    /// Reports of older versions lack this field and the next ones.
    #[serde(borrow, default)]
    pub(super) not_pruned: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) linked: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) not_analysed: Option<ReadNotDone<'a>>,
    #[serde(borrow)]
    pub(super) unwind: Option<ReadUnwind<'a>>,
    #[serde(borrow)]
    pub(super) modules: Vec<ReadModule<'a>>,
    #[serde(borrow)]
    pub(super) atoms: Vec<ReadAtom<'a>>,
    pub(super) symbols: Vec<Symbol>,
    #[serde(borrow)]
    pub(super) limits: Vec<Limit<'a>>,
    #[serde(borrow)]
    pub(super) roots: Vec<ReadRoot<'a>>,
    #[serde(borrow)]
    pub(super) graph: ReadGraph<'a>,
    /// Reports of older versions have none.
    #[serde(borrow, default)]
    pub(super) imports: Vec<ReadImport<'a>>,
    pub(super) duplicates: Vec<Vec<u32>>,
    #[serde(borrow)]
    pub(super) file: Option<ReadFile<'a>>,
    #[serde(borrow)]
    pub(super) value_flow: Option<ReadValueFlow<'a>>,
    /// Reports of older versions have none.
    #[serde(borrow, default)]
    pub(super) call_sites: Vec<ReadCallSite<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Schema {
    pub(super) schema: u64,
}

/// Why something was not done, and the action that changes it.
#[derive(Debug, Deserialize)]
pub(crate) struct ReadNotDone<'a> {
    #[serde(borrow)]
    pub(crate) reason: Text<'a>,
    #[serde(borrow)]
    pub(crate) action: Option<Text<'a>>,
}

/// The unwind entries that are removed, or with `keep` could be.
#[derive(Debug, Deserialize)]
pub(crate) struct ReadUnwind<'a> {
    #[serde(borrow)]
    pub(crate) mode: Text<'a>,
    pub(crate) functions: u64,
    pub(crate) bytes: u64,
    pub(crate) kept: u64,
    #[serde(borrow)]
    pub(crate) why: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadLinker<'a> {
    #[serde(borrow)]
    pub(super) dialect: Text<'a>,
    pub(super) gc_sections: bool,
    #[serde(borrow)]
    pub(super) icf: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadModule<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) archive: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) kind: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadAtom<'a> {
    pub(super) module: u32,
    #[serde(borrow)]
    pub(super) section: Text<'a>,
    pub(super) section_index: Option<u32>,
    pub(super) offset: u64,
    #[serde(borrow)]
    pub(super) kind: Text<'a>,
    pub(super) size: u64,
    #[serde(borrow)]
    pub(super) state: Text<'a>,
    pub(super) discarded: bool,
    pub(super) merge: bool,
    pub(super) linker_live: bool,
    #[serde(borrow)]
    pub(super) symbols: Vec<Text<'a>>,
}

/// A symbol of an atom, in the order of its names.
#[derive(Debug, Deserialize)]
pub(super) struct Symbol {
    pub(super) atom: u32,
    /// It is counted from the start of the section. Reports of older versions don't say it.
    pub(super) offset: Option<u64>,
    pub(super) size: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Limit<'a> {
    #[serde(borrow)]
    pub(super) limit: Text<'a>,
    #[serde(borrow)]
    pub(super) severity: Text<'a>,
    pub(super) count: u64,
    pub(super) bytes: u64,
    /// Places in start files of the compiler, and their bytes.
    #[serde(default)]
    pub(super) start_files: u64,
    #[serde(default)]
    pub(super) start_file_bytes: u64,
    #[serde(borrow)]
    pub(super) module: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) detail: Text<'a>,
    #[serde(borrow)]
    pub(super) lifted_by: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadRoot<'a> {
    pub(super) atom: u32,
    #[serde(borrow)]
    pub(super) reason: Text<'a>,
    #[serde(borrow)]
    pub(super) symbol: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadGraph<'a> {
    #[serde(borrow)]
    pub(super) kinds: Vec<Text<'a>>,
    pub(super) start: Vec<u32>,
    pub(super) target: Vec<u32>,
    pub(super) kind: Vec<u8>,
    pub(super) offset: Vec<i64>,
    pub(super) count: Vec<u8>,
    pub(super) flags: Vec<u8>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadImport<'a> {
    #[serde(borrow)]
    pub(super) symbol: Text<'a>,
    #[serde(borrow)]
    pub(super) defined_by: Text<'a>,
    #[serde(borrow)]
    pub(super) library: Option<Text<'a>>,
    pub(super) from: Vec<u32>,
    pub(super) kind: Vec<u8>,
    pub(super) offset: Vec<i64>,
    pub(super) count: Vec<u8>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadFile<'a> {
    pub(super) size: u64,
    /// Reports of older versions lack this field.
    #[serde(borrow, default)]
    pub(super) blake3: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) parts: Vec<ReadPart<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadPart<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) what: Text<'a>,
    #[serde(borrow)]
    pub(super) category: Text<'a>,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) bytes: u64,
    /// Reports of older versions don't say it.
    #[serde(default)]
    pub(super) loaded: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadValueFlow<'a> {
    pub(super) indirect_sites: u64,
    pub(super) overdefined: u64,
    #[serde(borrow)]
    pub(super) by_cause: Vec<(Text<'a>, u64)>,
    /// Reports of older builds have none.
    #[serde(borrow, default)]
    pub(super) candidates: Vec<ReadCandidates<'a>>,
    #[serde(borrow)]
    pub(super) given_up: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadCandidates<'a> {
    #[serde(borrow)]
    pub(super) what: Text<'a>,
    pub(super) atoms: u64,
    pub(super) bytes: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadCallSite<'a> {
    pub(super) caller: u32,
    pub(super) section: u32,
    pub(super) offset: u64,
    #[serde(borrow)]
    pub(super) state: Text<'a>,
    pub(super) targets: Vec<ReadTarget>,
    #[serde(borrow)]
    pub(super) externals: Vec<Text<'a>>,
    #[serde(borrow)]
    pub(super) because: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadTarget {
    pub(super) atom: u32,
}
