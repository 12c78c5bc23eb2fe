//! How the linkers differ in resolution and output: a value of [`LinkerRules`] for each flavor.
//!
//! A pass asks for the rule that it needs. Only the simulations of extraction, the search for inputs and the command line go by the
//! flavor itself.

use crate::config::{Config, Flavor};

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident: $($linker:ident)|+;)*) => {
        /// The rules of one linker. Each was compared with the linker itself.
        #[derive(Debug)]
        pub struct LinkerRules {
            $($(#[$doc])* pub $rule: bool,)*
        }

        impl LinkerRules {
            const fn of(linker: Flavor) -> Self {
                LinkerRules { $($rule: matches!(linker, $(Flavor::$linker)|+),)* }
            }
        }
    };
}

// Each rule with the linkers for which it holds.
rules! {
    /// It reads LLVM bitcode itself, without a plugin, and is the one whose link-time optimisation is modelled.
    reads_bitcode: Lld;
    /// Weak definitions, and those of shared libraries, prevail over common symbols.
    commons_are_last: Mold;
    /// A shared library's data with contents prevails over a common symbol.
    dso_data_over_common: Bfd;
    /// Of COMDAT groups with one signature only the first is linked. wild keeps all and lets its garbage collection decide.
    discards_groups: Lld | Mold | Bfd | Gold;
    /// The first file that mentions a symbol decides whether it is weak, even if it is a library.
    first_file_decides_weak: Gold;
    /// A definition that replaces a library's is exported under the library's version, unless a weak one stood between them.
    inherits_versions: Lld;
    /// A reference to `name@version` finds the definition of that version. mold 1.10 does not always find it.
    finds_versions: Lld | Bfd | Gold;
    /// It warns if files take one symbol for data and for code.
    warns_of_types: Mold;
    /// It warns of data symbols of two sizes, and of a common symbol that a function replaces.
    warns_of_sizes: Bfd;
    /// It prints the text of `.gnu.warning.SYMBOL` sections when something refers to SYMBOL.
    prints_gnu_warnings: Bfd | Gold;
    /// It reads every member of an archive, not only its symbol table, and complains of one that it can't read.
    reads_all_members: Lld | Mold | Wild;
    /// A member of bitcode that is not loaded is left to the plugin, and an empty member is ignored.
    skips_odd_members: Mold;
    /// It treats the visibility `STV_INTERNAL` as the default one.
    exports_internal: Wild;
    /// It passes each input to plugins other than gcc's, which may take bitcode from objects.
    has_foreign_plugins: Bfd | Gold;
    /// Its `--icf=safe` goes by tables of significant addresses, object by object.
    folds_by_addrsig: Lld;
    /// The order of FDEs with one address depends on how many there are.
    sorts_fdes_by_count: Mold;
    /// It asks only objects with sections whether the stack must be executable.
    stack_by_sections: Bfd;
    /// References to discarded sections are errors.
    refuses_discarded: Lld | Bfd | Gold;
    /// Its `--gc-sections` does not keep the symbols that `--defsym` names.
    collects_defsym: Mold | Wild;
    /// Its `--gc-sections` does not keep the symbols that `-init` and `-fini` name.
    collects_init: Mold;
    /// `--as-needed` libraries are recorded as soon as they are read, even for dead code.
    records_when_read: Mold | Bfd | Wild;
    /// `DT_INIT` and `DT_FINI` are made of symbols. wild makes them of sections.
    init_by_symbol: Lld | Mold | Bfd | Gold;
    /// `.symver` definitions are exported by the rules that lld and gold share.
    exports_symver: Lld | Mold | Bfd | Gold;
    /// A version script hides a `.symver` definition if it makes the undecorated name local.
    hides_symver_by_stem: Bfd;
    /// A local pattern of a version script hides definitions of other versions than the default one.
    hides_other_versions: Lld;
    /// `__start_X` does not keep the section X by default (`-z start-stop-gc`).
    collects_start_stop: Lld;
    /// Its `--gc-sections` keeps every section whose name is a C identifier.
    keeps_identifiers: Mold;
    /// `--exclude-libs` hides a symbol if an excluded archive defines it, whichever definition prevails.
    hides_excluded: Mold | Bfd | Gold | Wild;
    /// `--exclude-libs` has no effect in executables.
    excludes_in_libraries: Wild;
    /// A library's reference to a hidden definition is an error (GNU ld) or is resolved to it (gold).
    sees_hidden: Bfd | Gold;
    /// An `STB_GNU_UNIQUE` definition is exported from any dynamic output.
    exports_unique: Gold;
    /// Prologues of functions with a split stack are rewritten if they call functions without one.
    adjusts_split_stacks: Lld;
    /// The stack is executable only by option, and there is an interpreter only by option.
    goes_by_options: Lld;
    /// An archive is searched through its symbol table, not through the members.
    reads_armap: Mold | Bfd | Gold;
    /// Symbol tables and names in BSD's form are not found.
    refuses_bsd_archives: Bfd | Gold;
    /// A member name without its slash is an error when the member is loaded.
    refuses_names_without_slash: Gold;
    /// A position-independent program among the inputs is an error.
    refuses_programs: Bfd;
    /// A shared library under `-static` or `-Bstatic` is an error.
    refuses_static_dsos: Lld | Bfd | Wild;
    /// The libraries that shared libraries need are opened at link time.
    opens_needed_dsos: Bfd;
    /// An archive is read only at its first mention.
    reads_archives_once: Mold;
    /// A file is read only once.
    reads_files_once: Wild;
    /// The first pattern of the version scripts that matches a name decides, also if a later one is the name itself.
    first_version_pattern_wins: Mold;
    /// A quoted pattern of a version script is a name.
    quoted_are_names: Bfd | Gold;
    /// A second process links, which would outlive the first one.
    forks: Mold | Wild;
    /// An empty output file is written in place, so that its mode is kept.
    keeps_empty_outputs: Bfd | Gold;
    /// `-o -` means the standard output.
    dash_is_stdout: Lld | Mold | Gold | Wild;
    /// A time trace without a name is named after the output.
    traces_by_output_name: Lld;
    /// It reads a response file from a pipe, so that it can start before its line is known.
    waits_for_lines: Lld;
}

impl Flavor {
    /// The rules of this linker for resolution and output.
    pub fn rules(self) -> &'static LinkerRules {
        const LLD: LinkerRules = LinkerRules::of(Flavor::Lld);
        const MOLD: LinkerRules = LinkerRules::of(Flavor::Mold);
        const BFD: LinkerRules = LinkerRules::of(Flavor::Bfd);
        const GOLD: LinkerRules = LinkerRules::of(Flavor::Gold);
        const WILD: LinkerRules = LinkerRules::of(Flavor::Wild);
        match self {
            Flavor::Lld => &LLD,
            Flavor::Mold => &MOLD,
            Flavor::Bfd => &BFD,
            Flavor::Gold => &GOLD,
            Flavor::Wild => &WILD,
        }
    }
}

impl Config {
    /// The rules of the linker that does the link.
    pub fn rules(&self) -> &'static LinkerRules {
        self.linker.flavor.rules()
    }
}
