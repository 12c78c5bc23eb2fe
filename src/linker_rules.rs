//! How the linkers differ in resolution and output: a value of [`LinkerRules`] for each flavor.
//!
//! A pass asks for the rule that it needs. Only the simulations of extraction and the command line go by the flavor itself.

use crate::config::{Config, Dialect};

/// The rules of one linker. Each was compared with the linker itself.
#[derive(Debug)]
pub struct LinkerRules {
    /// It reads LLVM bitcode itself, without a plugin, and is the one whose link-time optimisation is modelled.
    pub reads_bitcode: bool,
    /// Weak definitions, and those of shared libraries, prevail over common symbols.
    pub commons_are_last: bool,
    /// A shared library's data with contents prevails over a common symbol.
    pub dso_data_over_common: bool,
    /// Of COMDAT groups with one signature only the first is linked. wild keeps all and lets its garbage collection decide.
    pub discards_groups: bool,
    /// The first file that mentions a symbol decides whether it is weak, even if it is a library.
    pub first_file_decides_weak: bool,
    /// A definition that replaces a library's is exported under the library's version, unless a weak one stood between them.
    pub inherits_versions: bool,
    /// A reference to `name@version` finds the definition of that version. mold 1.10 does not always find it.
    pub finds_versions: bool,
    /// It warns if files take one symbol for data and for code.
    pub warns_of_types: bool,
    /// It warns of data symbols of two sizes, and of a common symbol that a function replaces.
    pub warns_of_sizes: bool,
    /// It prints the text of `.gnu.warning.SYMBOL` sections when something refers to SYMBOL.
    pub prints_gnu_warnings: bool,
    /// It reads every member of an archive, not only its symbol table, and complains of one that it can't read.
    pub reads_all_members: bool,
    /// A member of bitcode that is not loaded is left to the plugin, and an empty member is ignored.
    pub skips_odd_members: bool,
    /// It treats the visibility `STV_INTERNAL` as the default one.
    pub exports_internal: bool,
    /// It passes each input to plugins other than gcc's, which may take bitcode from objects.
    pub has_foreign_plugins: bool,
    /// Its `--icf=safe` goes by tables of significant addresses, object by object.
    pub folds_by_addrsig: bool,
    /// The order of FDEs with one address depends on how many there are.
    pub sorts_fdes_by_count: bool,
    /// It asks only objects with sections whether the stack must be executable.
    pub stack_by_sections: bool,
    /// References to discarded sections are errors.
    pub refuses_discarded: bool,
    /// Its `--gc-sections` does not keep the symbols that `--defsym` names.
    pub collects_defsym: bool,
    /// Its `--gc-sections` does not keep the symbols that `-init` and `-fini` name.
    pub collects_init: bool,
    /// `--as-needed` libraries are recorded as soon as they are read, whatever is live.
    pub records_when_read: bool,
    /// `DT_INIT` and `DT_FINI` are made of symbols. wild makes them of sections.
    pub init_by_symbol: bool,
    /// `.symver` definitions are exported by the rules that lld and gold share.
    pub exports_symver: bool,
    /// A version script hides a `.symver` definition if it makes the undecorated name local.
    pub hides_symver_by_stem: bool,
    /// A local pattern of a version script hides definitions of other versions than the default one.
    pub hides_other_versions: bool,
    /// `__start_X` does not keep the section X by default (`-z start-stop-gc`).
    pub collects_start_stop: bool,
    /// Its `--gc-sections` keeps every section whose name is a C identifier.
    pub keeps_identifiers: bool,
    /// `--exclude-libs` hides a symbol if an excluded archive defines it, whichever definition prevails.
    pub hides_excluded: bool,
    /// `--exclude-libs` has no effect in executables.
    pub excludes_in_libraries: bool,
    /// A library's reference to a hidden definition is an error (GNU ld) or is resolved to it (gold).
    pub sees_hidden: bool,
    /// An `STB_GNU_UNIQUE` definition is exported from any dynamic output.
    pub exports_unique: bool,
    /// Prologues of functions with a split stack are rewritten if they call functions without one.
    pub adjusts_split_stacks: bool,
    /// The stack is executable only by option, and there is an interpreter only by option.
    pub goes_by_options: bool,
}

impl LinkerRules {
    const fn of(linker: Dialect) -> Self {
        use Dialect::{Bfd, Gold, Lld, Mold, Wild};
        LinkerRules {
            reads_bitcode: matches!(linker, Lld),
            commons_are_last: matches!(linker, Mold),
            dso_data_over_common: matches!(linker, Bfd),
            discards_groups: !matches!(linker, Wild),
            first_file_decides_weak: matches!(linker, Gold),
            inherits_versions: matches!(linker, Lld),
            finds_versions: !matches!(linker, Mold | Wild),
            warns_of_types: matches!(linker, Mold),
            warns_of_sizes: matches!(linker, Bfd),
            prints_gnu_warnings: matches!(linker, Bfd | Gold),
            reads_all_members: matches!(linker, Lld | Mold | Wild),
            skips_odd_members: matches!(linker, Mold),
            exports_internal: matches!(linker, Wild),
            has_foreign_plugins: matches!(linker, Bfd | Gold),
            folds_by_addrsig: matches!(linker, Lld),
            sorts_fdes_by_count: matches!(linker, Mold),
            stack_by_sections: matches!(linker, Bfd),
            refuses_discarded: !matches!(linker, Mold | Wild),
            collects_defsym: matches!(linker, Mold | Wild),
            collects_init: matches!(linker, Mold),
            records_when_read: matches!(linker, Bfd | Mold | Wild),
            init_by_symbol: !matches!(linker, Wild),
            exports_symver: !matches!(linker, Wild),
            hides_symver_by_stem: matches!(linker, Bfd),
            hides_other_versions: matches!(linker, Lld),
            collects_start_stop: matches!(linker, Lld),
            keeps_identifiers: matches!(linker, Mold),
            hides_excluded: !matches!(linker, Lld),
            excludes_in_libraries: matches!(linker, Wild),
            sees_hidden: matches!(linker, Bfd | Gold),
            exports_unique: matches!(linker, Gold),
            adjusts_split_stacks: matches!(linker, Lld),
            goes_by_options: matches!(linker, Lld),
        }
    }
}

impl Dialect {
    /// The rules by which this linker resolves symbols and writes its output.
    pub fn rules(self) -> &'static LinkerRules {
        const LLD: LinkerRules = LinkerRules::of(Dialect::Lld);
        const MOLD: LinkerRules = LinkerRules::of(Dialect::Mold);
        const BFD: LinkerRules = LinkerRules::of(Dialect::Bfd);
        const GOLD: LinkerRules = LinkerRules::of(Dialect::Gold);
        const WILD: LinkerRules = LinkerRules::of(Dialect::Wild);
        match self {
            Dialect::Lld => &LLD,
            Dialect::Mold => &MOLD,
            Dialect::Bfd => &BFD,
            Dialect::Gold => &GOLD,
            Dialect::Wild => &WILD,
        }
    }
}

impl Config {
    /// The rules of the linker that does the link.
    pub fn rules(&self) -> &'static LinkerRules {
        self.linker.dialect.rules()
    }
}
