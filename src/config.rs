//! The meaning of the command line: every option that changes a decision, validated and typed.
//!
//! The words of the line itself stay in [`Config::linker_args`], unchanged and in order, because every other argument is the
//! linker's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::ids::named;

named! {
    /// `--prune-level`: the precision of the analysis.
    #[derive(PartialOrd, Ord, Default)]
    pub enum Level {
        Sections = "sections",
        Functions = "functions",
        #[default]
        Pointers = "pointers",
    }
}

named! {
    /// Identical code folding by the linker: the last `--icf`.
    #[derive(Default)]
    pub enum Icf {
        #[default]
        None = "none",
        /// Only functions whose addresses are not compared.
        Safe = "safe",
        /// Functions whose addresses may be compared, too.
        All = "all",
    }
}

named! {
    /// The linker flavor, whose rules hold.
    #[derive(Default)]
    pub enum Flavor {
        #[default]
        Lld = "lld",
        Mold = "mold",
        Bfd = "bfd",
        Gold = "gold",
        Wild = "wild",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputKind {
    /// Position-dependent, dynamic if a DSO is on the line.
    #[default]
    Executable,
    Pie,
    StaticPie,
    Shared,
    /// The output of `-r`, which is an input of another link.
    Relocatable,
}

#[derive(Debug, Clone, Default)]
pub struct Linker {
    pub path: PathBuf,
    pub flavor: Flavor,
    /// Whether neither an option nor the name of a shim selects the linker.
    pub is_our_choice: bool,
}

/// A link among several: a hash of its droppable atoms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

impl std::fmt::Display for LinkId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// `--prune-limit`: the number of atoms that may be dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DropLimit {
    /// The first so many atoms of each link.
    First(usize),
    /// The first so many atoms of each of these links, and none of other links.
    ByLink(Vec<(LinkId, usize)>),
}

named! {
    /// How much `--prune-stats` prints on the terminal.
    pub enum Stats {
        /// Three lines: sizes, the largest reason, the next one.
        Short = "",
        /// The table of sizes, every reason and every limit.
        Full = "full",
    }
}

/// Bytes of live code up to which values of addresses are analysed if no level is named. That takes a tenth of a small link
/// (docs/REJECTED.md).
pub const DEFAULT_BUDGET: u64 = 16 << 10;

named! {
    /// `--prune-debug`: the treatment of debug information.
    #[derive(Default)]
    pub enum DebugOption {
        /// The debug information of removed code is removed.
        #[default]
        Keep = "keep",
        /// Types and declarations that nothing kept refers to are removed too, in every module.
        Shrink = "shrink",
        /// A module that loses code loses all of its debug information.
        Drop = "drop",
    }
}

/// The options of ours, `--prune-*`, with their defaults.
#[derive(Debug, Clone, Default)]
pub struct PruneOptions {
    pub level: Level,
    /// A level was named, not defaulted.
    pub level_explicit: bool,
    /// `--prune-level=off`: a dry run. The originals are linked, and a report says what would be removed at `level`.
    pub off: bool,
    pub report: Option<PathBuf>,
    pub remarks: Option<PathBuf>,
    pub why: Vec<String>,
    pub keep: Vec<String>,
    /// The number of patterns at the start of `keep` that come from `lto-prune.toml`: they are for all links of a build.
    pub keep_of_file: usize,
    pub emit_dir: Option<PathBuf>,
    /// `--prune-plan`: nothing is linked, and the plans of objects and archives are written into this folder.
    pub plan_dir: Option<PathBuf>,
    /// `--prune-interfaces`: the folder of precomputed interfaces.
    pub interface_dir: Option<PathBuf>,
    /// `--prune-emitted`: the folder of precomputed pruned objects.
    pub emitted_dir: Option<PathBuf>,
    pub linker: Option<PathBuf>,
    /// The directory of the cache of summaries and pruned objects (`--prune-cache=DIR`); `None`: no cache.
    pub cache: Option<PathBuf>,
    pub jobs: Option<usize>,
    /// The option `--prune-gate`, in percent, as it was given: see [`PruneOptions::threshold`].
    pub threshold: Option<u8>,
    /// The option `--prune-worth`, in bytes, as it was given: see [`estimate`](crate::estimate).
    pub worth: Option<u64>,
    /// The option `--prune-budget`, in bytes, as it was given: see [`PruneOptions::budget`].
    pub budget: Option<u64>,
    pub strict: bool,
    pub limit: Option<DropLimit>,
    /// `--prune-log`: the file to which the link adds what it says.
    pub log: Option<PathBuf>,
    /// `--prune-limit-log`: the file to which the link adds a line for `lto-prune bisect`.
    pub limit_log: Option<PathBuf>,
    pub repro: Option<PathBuf>,
    pub time: bool,
    /// The treatment of debug information (`--prune-debug`).
    pub debug: DebugOption,
    /// Which unwind entries are removed (`--prune-unwind`).
    pub unwind: UnwindPruning,
    /// Sizes and reasons on the terminal (`--prune-stats`).
    pub stats: Option<Stats>,
    /// Functions that become stubs in any case.
    pub stub_symbols: Vec<String>,
}

named! {
    /// Which unwind entries (FDEs) of kept functions are removed.
    #[derive(Default)]
    pub enum UnwindPruning {
        #[default]
        Keep = "keep",
        /// Only entries that no unwinding of the program can need.
        Unused = "unused",
        /// All of them, whether the program needs them or not.
        Drop = "drop",
    }
}

impl PruneOptions {
    /// At the level `pointers`, the percentage of the live code that must be kept only because its address is taken, for the values
    /// of addresses to be analysed. Value flow takes as long as a few links, too long for a smaller share.
    pub fn threshold(&self) -> u8 {
        self.threshold.unwrap_or(2)
    }

    /// At the level `pointers`, the most bytes of live code for which the values of addresses are analysed. There is no limit if the
    /// user named the level.
    pub fn budget(&self) -> u64 {
        self.budget.unwrap_or(if self.level_explicit { u64::MAX } else { DEFAULT_BUDGET })
    }

    /// Whether values are analysed in no link with so many bytes of code, since its live code is likely to exceed the budget.
    pub fn follows_no_values(&self, code: u64) -> bool {
        self.level != Level::Pointers || code > self.budget().saturating_mul(16)
    }

    /// Replace `%o` in the names of files and folders by the name of the link's output.
    ///
    /// Files that a link writes get a name of their own for each output: see [`name_of_its_own`]. Folders of build actions
    /// ([`crate::actions`]) get the file name alone, so that a build system can know them beforehand.
    pub fn name_files_after(&mut self, output: &Path) {
        let written =
            [&mut self.report, &mut self.remarks, &mut self.log, &mut self.limit_log, &mut self.repro];
        for file in written.into_iter().chain([&mut self.emit_dir]).flatten() {
            *file = named(file, &name_of_its_own(file, output));
        }
        for folder in
            [&mut self.plan_dir, &mut self.interface_dir, &mut self.emitted_dir].into_iter().flatten()
        {
            *folder = named(folder, output.file_name().unwrap_or_default());
        }
    }

    /// Whether the user wants a report in any form.
    pub fn wants_report(&self) -> bool {
        self.report.is_some()
            || self.remarks.is_some()
            || !self.why.is_empty()
            || self.stats.is_some()
            || self.log.is_some()
    }
}

/// `pattern` with each `%o` replaced by `name`.
fn named(pattern: &Path, name: &OsStr) -> PathBuf {
    let mut named = OsString::new();
    let mut rest = pattern.as_os_str().as_bytes();
    while let Some(at) = rest.windows(2).position(|two| two == b"%o") {
        named.push(OsStr::from_bytes(rest.get(..at).unwrap_or_default()));
        named.push(name);
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    named.push(OsStr::from_bytes(rest));
    PathBuf::from(named)
}

/// The value of `%o` in `pattern`. It is the file name of the output if that lies in the current folder and the pattern there or
/// below. Otherwise outputs of several folders may have one name, and eight digits of a hash of the output's path follow it.
fn name_of_its_own(pattern: &Path, output: &Path) -> OsString {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    let absolute = |path: &Path| {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        PathBuf::from(crate::paths::without_dots(&path))
    };
    let (folder, output) = (absolute(Path::new(".")), absolute(output));
    if output.parent() != Some(&folder) || !absolute(pattern).starts_with(&folder) {
        let digits = crate::hashing::hex(&crate::hashing::hash(output.as_os_str().as_bytes()));
        name.push(format!("-{}", &digits[..8]));
    }
    name
}

/// Input state at one place of the line, as `--push-state` saves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InputState {
    pub whole_archive: bool,
    pub as_needed: bool,
    /// Shared libraries are not searched (`-Bstatic`).
    pub static_only: bool,
}

/// A word of the line that names an input, or brackets inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputArg {
    File {
        path: OsString,
        state: InputState,
        lib: bool,
    },
    /// `-lNAME` (or `-l:NAME`, then with the colon).
    Library {
        name: OsString,
        state: InputState,
        lib: bool,
    },
    GroupStart,
    GroupEnd,
    /// `-T SCRIPT`, which may name inputs.
    Script {
        path: PathBuf,
        state: InputState,
        lib: bool,
    },
}

/// A word (or option with its value) of the linker's line.
#[derive(Debug, Clone)]
pub enum LineArg {
    /// It is an index into [`Config::inputs`].
    Input(usize),
    /// `-T SCRIPT`: its index into [`Config::inputs`], and its words.
    Script(usize, Vec<OsString>),
    /// Changes how later inputs are read (`--as-needed`, `-Bstatic`, `--push-state`, `--start-lib`...): already
    /// folded into [`InputState`], and so left out of a rewritten line.
    State(Vec<OsString>),
    /// Names the output; the value is replaced by the temporary one.
    Output(Vec<OsString>),
    /// `--defsym`, whose place among the inputs counts for GNU ld: what a shared library before it defines is not exported.
    Defsym(Vec<OsString>),
    /// Everything else stays on the line verbatim.
    Other(Vec<OsString>),
}

/// A `--defsym` of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defsym {
    pub name: String,
    pub expression: String,
    /// How many input files stand before it, which counts for GNU ld: it looks the expression's names up when it comes to them.
    pub inputs_before: usize,
}

/// The meaning of a command line.
#[derive(Debug, Default)]
pub struct Config {
    /// The linker's arguments as given (response files expanded, ours removed).
    pub linker_args: Vec<OsString>,
    /// The same words in the same order, each classified.
    pub line: Vec<LineArg>,
    pub inputs: Vec<InputArg>,
    pub output: PathBuf,
    pub output_kind: OutputKind,
    /// `-static`, not undone by a later `-Bdynamic`: no DSO is used. (`-Bstatic` alone is positional, and is
    /// in each input's [`InputState`].)
    pub static_link: bool,
    pub prune: PruneOptions,
    pub linker: Linker,

    pub library_paths: Vec<PathBuf>,
    pub sysroot: Option<PathBuf>,
    /// `-nostdlib`: GNU ld's and gold's own default directories are not searched.
    pub nostdlib: bool,
    pub rpath: Vec<PathBuf>,
    pub rpath_link: Vec<PathBuf>,
    /// The linker scripts that `-T` names, in order; without one, that of `-dT`.
    pub scripts: Vec<PathBuf>,
    pub version_scripts: Vec<PathBuf>,
    pub dynamic_lists: Vec<PathBuf>,
    /// `--export-dynamic-symbol=GLOB`, and a superset of the symbols of `--dynamic-list-data` and `--dynamic-list-cpp-*`.
    pub export_dynamic_symbols: Vec<String>,
    /// The files that `--export-dynamic-symbol-list` names, in order.
    pub export_dynamic_lists: Vec<PathBuf>,

    pub gc_sections: bool,
    pub icf: Icf,
    /// `--export-dynamic`; GNU ld's `--gc-keep-exported` keeps the same symbols and counts as it.
    pub export_dynamic: bool,
    /// Without it the entry is the default one.
    pub entry: Option<String>,
    /// The defaults are `_init` and, below, `_fini`.
    pub init: String,
    pub fini: String,
    /// Symbols that `-u` or `--require-defined` name are roots.
    pub undefined: Vec<String>,
    pub wrap: Vec<String>,
    pub defsym: Vec<Defsym>,
    pub exclude_libs: Vec<String>,
    /// `-z start-stop-gc` / `-z nostart-stop-gc`; `None`: the linker's default.
    pub start_stop_gc: Option<bool>,
    /// `--no-gnu-unique`: `STB_GNU_UNIQUE` definitions count as global ones.
    pub no_gnu_unique: bool,
    pub emit_relocs: bool,
    pub strip_all: bool,
    /// `-S`: no debug information in the output; [`Config::strip_all`] says so, too.
    pub strip_debug: bool,
    /// Whether the linker reports undefined symbols, as errors or as warnings (`-z defs`, `--no-undefined`,
    /// `--unresolved-symbols=...` and so on).
    pub undefined_is_reported: bool,
    pub allow_multiple_definition: bool,
    /// `--fat-lto-objects`: lld links the bitcode of objects that carry some for it.
    pub fat_lto_objects: bool,
    pub soname: Option<OsString>,
    /// `--dynamic-linker`, not undone by a later `--no-dynamic-linker`.
    pub dynamic_linker: Option<OsString>,
    /// `-N`, `--omagic`: code and data may be in one segment, which can be written and executed.
    pub omagic: bool,
    /// `--audit`, `--depaudit`: the loader runs libraries that are no input of the link.
    pub audits: bool,
    /// The last of `-z execstack` and `-z noexecstack`.
    pub execstack: Option<bool>,
    pub depfile: Option<PathBuf>,
    pub map: Option<PathBuf>,
    pub opt_remarks: Option<OptRemarks>,
    /// `--symbol-ordering-file`: lld warns of each symbol named there that is missing from the link.
    pub symbol_orderings: Vec<PathBuf>,
    /// lld gives the same warning for those of `--call-graph-ordering-file`.
    pub call_graph_orderings: Vec<PathBuf>,
    /// lld gives the same warning for those of `--keep-unique`.
    pub keep_unique: Vec<String>,
    /// `--undefined-version`, `--no-undefined-version`: whether version scripts may name what is defined nowhere.
    pub undefined_version: Option<bool>,
    /// `--warn-common`: the linker reports common symbols that are joined.
    pub warn_common: bool,
    /// `--warn-backrefs`: lld reports references to archives that stand earlier on the line.
    pub warn_backrefs: bool,
    /// Options that make the linker explain how the originals were read, which the pruned line would change.
    pub explaining: Vec<String>,
    /// Words of the line that the linker refuses or warns about.
    pub malformed: Vec<String>,
    /// Options that we recognise and can't model, with the reason; any makes the link unpruned.
    pub unmodelled: Vec<String>,
}

/// The optimisation remarks that lld writes in a link of LLVM bitcode (`--opt-remarks-filename`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptRemarks {
    pub file: PathBuf,
    /// `--opt-remarks-passes`: a regular expression; remarks of other passes are not written.
    pub passes: Option<String>,
    /// `--opt-remarks-format`: the format of the file; the default is YAML.
    pub format: Option<String>,
    /// `--opt-remarks-hotness-threshold`: only remarks with a hotness are written.
    pub is_by_hotness: bool,
}

impl OptRemarks {
    /// Whether documents can be added to the file.
    pub fn is_text(&self) -> bool {
        self.format.as_deref().is_none_or(|format| format == "yaml")
    }
}

impl Config {
    /// Whether the link makes a report, for any of its forms.
    pub fn wants_report(&self) -> bool {
        self.prune.wants_report() || self.opt_remarks.is_some()
    }

    /// Whether lld collects dead sections of the objects that it gets. No object has to be rewritten for those.
    pub fn lld_collects(&self) -> bool {
        self.gc_sections && self.linker.flavor == Flavor::Lld
    }

    /// Whether modified objects lose their debug information.
    pub fn drops_debug(&self) -> bool {
        self.prune.debug == DebugOption::Drop || self.strip_all || self.strip_debug
    }

    /// Whether the needed unwind entries have to be computed.
    pub fn wants_unwind(&self) -> bool {
        self.prune.unwind != UnwindPruning::Keep || self.prune.stats.is_some()
    }
}
