//! The inputs as the pass load leaves them: tables by id, and the sequence of the command line. Later passes only read them.

use std::path::PathBuf;

use object::elf;
use rustc_hash::FxHashMap;
use summaries::LimitRecord;

use super::interface::Interface;
use super::mapped::MappedFile;
use super::scripts::facts::ScriptFacts;
use crate::ids::{DsoId, FileId, IdVec, ModuleId};

/// The kind of a file, recognised by content (never by name, as linkers do).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// `ET_REL` ELF of any machine; the front end decides whether it is ours.
    Object,
    Archive,
    ThinArchive,
    /// A shared library: ELF of the type `ET_DYN`.
    SharedLibrary,
    /// LLVM bitcode, raw or in LLVM's wrapper.
    Bitcode,
    /// A linker script: text that names other inputs.
    Script,
    Unknown,
}

/// A file that was opened. Later passes borrow its bytes.
#[derive(Debug)]
pub struct InputFile {
    /// The path that it was opened by: what the linker would open, relative to the working directory.
    pub path: PathBuf,
    pub kind: FileKind,
    pub bytes: MappedFile,
    /// Its precomputed interface, if the link looks for one.
    pub interface: Option<Interface>,
    /// The reason why its interface is not trusted.
    pub refused: Option<String>,
}

impl InputFile {
    /// A file with these bytes and no interface.
    pub fn new(path: PathBuf, kind: FileKind, bytes: MappedFile) -> Self {
        InputFile { path, kind, bytes, interface: None, refused: None }
    }
}

/// A relocatable object, bitcode, or an unknown archive member, loaded or not. A file that is to be loaded twice is two modules
/// with the same bytes.
#[derive(Debug, Clone)]
pub struct Module {
    /// The file itself, or the archive that holds it. Members of thin archives: the member's own file.
    pub file: FileId,
    /// The archive through which it is named, and the member's name in it.
    pub archive: Option<(FileId, String)>,
    /// Range of its bytes in `file`.
    pub range: std::ops::Range<usize>,
    pub kind: FileKind,
}

/// A shared library on the line, or, for GNU ld, one that such a library needs. Those are searched for every library on the line;
/// GNU ld itself skips the needs of `--as-needed` libraries that turn out not to be needed.
#[derive(Debug)]
pub struct Dso {
    pub file: FileId,
    /// Its `DT_SONAME`; without one the output records the path.
    pub soname: Option<String>,
    pub needed: Vec<String>,
    /// Another library's code may run in its place: it names one (`DT_FILTER`, `DT_AUXILIARY`), or it defines functions without
    /// code, as an interface stub does.
    pub stands_in: bool,
    /// The global entries of `.dynsym` in table order. Definitions that a version script made local
    /// (`VER_NDX_LOCAL`) are left out.
    pub symbols: Vec<DsoSymbol>,
}

/// A shared library that a library of the link needs and that is not on the line.
#[derive(Debug)]
pub struct NeededDso {
    /// Its name in `DT_NEEDED` of the library that needs it.
    pub name: String,
    /// Whether another library's code may run in its place, as in [`Dso::stands_in`].
    pub stands_in: bool,
    /// The symbols as in [`Dso::symbols`]; `None` if the library is not found or can't be read.
    pub symbols: Option<Vec<DsoSymbol>>,
}

/// The type of a symbol (`st_type`), as far as linkers report differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolType {
    /// `STT_NOTYPE`: anything; undefined symbols are that mostly.
    Untyped,
    Data,
    /// A function: of the types `STT_FUNC` and `STT_GNU_IFUNC`.
    Code,
    Tls,
}

impl SymbolType {
    /// The type of an ELF symbol.
    pub fn of(st_type: elf::SymbolType) -> Self {
        match st_type {
            elf::STT_OBJECT | elf::STT_COMMON => SymbolType::Data,
            elf::STT_FUNC | elf::STT_GNU_IFUNC => SymbolType::Code,
            elf::STT_TLS => SymbolType::Tls,
            _ => SymbolType::Untyped,
        }
    }
}

/// An entry of a shared library's `.dynsym`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DsoSymbol {
    pub name: Box<[u8]>,
    pub defined: bool,
    pub weak: bool,
    pub ty: SymbolType,
    /// Its `st_size`, in bytes.
    pub size: u64,
    /// Defined under a non-default version (`VERSYM_HIDDEN`): satisfies only `name@version`.
    pub hidden_version: bool,
    /// GNU ld takes it before a common symbol of a module: data with contents in the file, not weak
    /// (`_bfd_elf_merge_symbol` in bfd/elflink.c).
    pub overrides_common: bool,
    /// The name of its version, if any.
    pub version: Option<Box<[u8]>>,
}

/// An item of the expanded command line: scripts and `-l` are replaced by files, one entry per file, in the linker's order.
#[derive(Debug)]
pub enum SequenceItem {
    Object {
        module: ModuleId,
        /// It stands between `--start-lib` and `--end-lib`, so that it is loaded as a member of an archive.
        lazy: bool,
        /// Its name on a line for the linker.
        token: String,
    },
    Archive {
        file: FileId,
        /// The members, in the order of the archive.
        modules: Vec<ModuleId>,
        /// The names in the archive's symbol table, each with its member, for linkers that read it; `None` without one.
        armap: Option<Vec<(Box<[u8]>, ModuleId)>>,
        whole: bool,
        /// Its name on the line. `--exclude-libs` matches the basename.
        token: String,
    },
    Dso {
        dso: DsoId,
        as_needed: bool,
        /// Its name on a line for the linker: `-lX` stays `-lX`, because a DSO without soname is recorded by it.
        token: String,
        /// The linker itself opens it for another DSO's `DT_NEEDED`; it is not on the line.
        implicit: bool,
    },
    /// `--start-group` or an opening parenthesis of a script's GROUP.
    GroupStart,
    GroupEnd,
}

/// The product of loading: every input, opened and recognised.
#[derive(Debug, Default)]
pub struct Inputs {
    pub files: IdVec<FileId, InputFile>,
    pub modules: IdVec<ModuleId, Module>,
    pub dsos: IdVec<DsoId, Dso>,
    /// Libraries that `dsos` need and that are not among them. Only searched if unwind entries are to be removed.
    pub needed_dsos: Vec<NeededDso>,
    pub sequence: Vec<SequenceItem>,
    /// For each item of `sequence` the index into [`Config::inputs`](crate::config::Config::inputs) of its word; `None` for
    /// libraries that the linker opens itself.
    pub origins: Vec<Option<usize>>,
    /// The facts about roots in scripts, version scripts and dynamic lists.
    pub scripts: ScriptFacts,
    /// The text of each `-T` script that names inputs, without them, by its index into
    /// [`Config::inputs`](crate::config::Config::inputs).
    pub without_inputs: FxHashMap<usize, (FileId, Vec<u8>)>,
    /// Files that were opened to find the inputs (scripts), for the dependency file.
    pub opened: Vec<FileId>,
    /// The reasons not to prune this link.
    pub limits: Vec<(Option<FileId>, LimitRecord)>,
}

impl Inputs {
    /// The bytes of a module, in the map of its file.
    pub fn module_bytes(&self, module: ModuleId) -> &[u8] {
        let m = &self.modules[module];
        self.files[m.file].bytes.get(m.range.clone()).unwrap_or(&[])
    }

    /// A file that changed since it was opened, if there is one.
    pub fn changed_file(&self) -> Option<&InputFile> {
        self.files.iter().find(|file| !file.bytes.is_unchanged(&file.path))
    }

    /// The name of a DSO in `DT_NEEDED` of others: its `DT_SONAME`, or the name of its file.
    pub fn dso_name(&self, dso: DsoId) -> &str {
        let dso = &self.dsos[dso];
        let base = || self.files[dso.file].path.file_name().and_then(|n| n.to_str());
        dso.soname.as_deref().or_else(base).unwrap_or_default()
    }

    /// The name by which GNU ld records a library: its soname, its path on the line, or the name of the file that `-l` found.
    pub fn recorded_name(&self, dso: DsoId) -> &str {
        let by_path = |item: &SequenceItem| matches!(item, SequenceItem::Dso { dso: other, token, implicit: false, .. } if *other == dso && !token.starts_with("-l"));
        let dso_facts = &self.dsos[dso];
        let path =
            || self.sequence.iter().any(by_path).then(|| self.files[dso_facts.file].path.to_str()).flatten();
        dso_facts.soname.as_deref().or_else(path).unwrap_or_else(|| self.dso_name(dso))
    }

    /// The module as a linker would name it: `path` or `archive(member)`.
    pub fn module_name(&self, module: ModuleId) -> String {
        let m = &self.modules[module];
        match &m.archive {
            Some((archive, member)) => format!("{}({member})", self.files[*archive].path.display()),
            None => self.files[m.file].path.display().to_string(),
        }
    }
}
