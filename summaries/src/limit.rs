//! Limits: every named reason why something was kept because it was not understood.
//!
//! A give-up is never silent: it is a variant here, it is counted, it is in the report, and its [`Severity`]
//! says how much it keeps. The tool adds its own link-wide ones through the same enum so that one table
//! of a report lists them all.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// One function's value flow is not known: what it refers to and what it is given escapes.
    Function,
    /// One section is not divided: it lives and dies whole, with all that it refers to.
    Section,
    /// Addresses are followed nowhere in the link: the level `pointers` falls back to `functions`.
    Values,
    /// Every atom of the module is a root, and the module is passed through as it is.
    Module,
    /// Nothing in the link is pruned.
    Link,
}

macro_rules! limits {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $severity:ident, $lift:literal;)*) => {
        /// A named reason to keep. The names are stable: they are in reports and in docs/REPORT_FORMAT.md.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Limit {
            $($(#[$doc])* $variant,)*
        }

        impl Limit {
            pub const ALL: &'static [Limit] = &[$(Limit::$variant,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Limit::$variant => $name,)* }
            }

            pub fn severity(self) -> Severity {
                match self { $(Limit::$variant => Severity::$severity,)* }
            }

            /// What would lift it, for the report.
            pub fn lifted_by(self) -> &'static str {
                match self { $(Limit::$variant => $lift,)* }
            }
        }
    };
}

limits! {
    /// The file ends early, or a table in it points outside.
    MalformedObject, "malformed-object", Link, "an object that the linker itself accepts";
    /// An ELF file of another class, byte order, machine or type.
    ForeignObject, "foreign-object", Link, "an ELF64 x86-64 relocatable object";
    /// LLVM bitcode in a link where what the linker makes of it is not known.
    Bitcode, "bitcode", Link, "native objects, or lld and fewer options";
    /// gcc LTO (`.gnu.lto_*`), slim or fat: its references are hidden.
    GccLto, "gcc-lto", Link, "compiling without -flto";
    /// A section of a type that may hold symbol indices, so symbols can't be renumbered.
    UnknownSectionType, "unknown-section-type", Module, "support for the section type";
    /// `SHT_REL` relocations: their addends are in the code.
    RelRelocations, "rel-relocations", Module, "RELA relocations, as every x86-64 compiler writes";
    /// A relocation type that we don't know.
    UnknownRelocation, "unknown-relocation", Module, "support for the relocation type";
    /// `.eh_frame` that can't be split into records.
    MalformedUnwind, "malformed-unwind", Module, "an .eh_frame that follows the LSB";
    /// `.deplibs`: the object itself asks the linker for libraries.
    DependentLibraries, "dependent-libraries", Link, "naming the libraries on the command line";
    /// The object has sections of partitions (`SHT_LLVM_SYMPART`).
    Partitions, "partitions", Link, "linking without partitions";
    /// An input that can't be opened, or a kind of file that we don't know.
    UnreadableInput, "unreadable-input", Link, "an input that the linker itself accepts";
    /// An option that changes what inputs mean and that we don't model.
    UnmodelledOption, "unmodelled-option", Link, "linking without the option";
    /// A linker script construct that we don't model.
    UnmodelledScript, "unmodelled-script", Link, "a simpler linker script";
    /// A `-T` script with SECTIONS but no `--gc-sections`: nothing says what may go.
    ScriptWithoutGc, "script-without-gc", Link, "--gc-sections on the command line";
    /// The linker will reject the link: its own message is the best one.
    LinkError, "link-error", Link, "a link that the linker itself accepts";
    /// The linker may say something about the originals that it would not say, or not in the same words, about pruned objects.
    LinkerMessage, "linker-message", Link, "linking without the option or the section that makes the linker speak";
    /// Only code that would go refers to `__start_X`: for that lld keeps the section, or a linker exports the symbol.
    StartStopSection, "start-stop-section", Link, "-z nostart-stop-gc, or SHF_GNU_RETAIN on the section";
    /// An option names a symbol that mold's `--gc-sections` keeps only because it shares a section with other code.
    NamedPart, "named-part", Link, "linking without --gc-sections";
    /// Two linkers, or two readings of one, disagree which definition prevails.
    AmbiguousResolution, "ambiguous-resolution", Link, "one strong definition";
    /// No module defines the entry symbol: the program starts at whatever comes first.
    NoEntry, "no-entry", Link, "a definition of the entry symbol";
    /// LLVM bitcode of which no references were made: it is handed to the linker as it is.
    OpaqueBitcode, "opaque-bitcode", Module, "another level than sections, or bitcode of compilers";
    /// LLVM bitcode that mentions a library under --as-needed which only code made of bitcode needs, or an undefined symbol: the plain link may compile what refers to it although it is dead.
    BitcodeLibrary, "bitcode-library", Module, "libraries without --as-needed, or no undefined symbols";
    /// The output of the pruned link doesn't record a library that LLVM bitcode refers to, as that of the plain link may: the originals are linked.
    LibraryNotRecorded, "library-not-recorded", Link, "libraries without --as-needed";
    /// LLVM bitcode with records that a newer LLVM, or one that is too old, has.
    UnknownBitcode, "unknown-bitcode", Link, "bitcode of LLVM 14 to 22";
    /// LLVM bitcode whose summary is of a version that is not known.
    BitcodeSummaryVersion, "bitcode-summary-version", Module, "bitcode of LLVM 14 to 22";
    /// `-r` or `--emit-relocs`: the output is an input again.
    RelocatableOutput, "relocatable-output", Link, "the link of the output; of --emit-relocs: --gc-sections and an explicit --prune-level";
    /// A file name pattern of a linker script means this file by a path that a pruned copy can't keep.
    ScriptFilePattern, "script-file-pattern", Module, "a pattern with a leading *";
    /// Debug information is in a form that can't follow the parts of divided code: split off, 64-bit, malformed.
    DebugInfo, "debug-info", Module, "-s, -S or --prune-debug=drop, or objects with -ffunction-sections";
    /// Bytes in a function that are no instruction.
    UndecodableCode, "undecodable-code", Section, "code that decodes from end to end, with data elsewhere";
    /// Bytes that no sized function symbol covers and that are no padding.
    UncoveredCode, "uncovered-code", Section, "a symbol with type and size for each function";
    /// A function symbol without a size.
    UnsizedSymbol, "unsized-symbol", Section, "a size for each function symbol (.size)";
    /// A symbol among code that is no function.
    SymbolInText, "symbol-in-text", Section, "function symbols only, with data elsewhere";
    /// A frame description entry that describes no range of the section.
    MissingFde, "missing-fde", Section, "a newer compiler";
    /// A branch or operand that leads out of the section or between instructions.
    BranchNowhere, "branch-nowhere", Section, "compiled code";
    /// A relocation in code that is no field of an instruction, or of a type that has no meaning there.
    UnplacedRelocation, "unplaced-relocation", Section, "compiled code";
    /// A jump whose target is computed in a way that was not followed, in an object with relative jump tables.
    UnprovedJump, "unproved-jump", Section, "-fno-jump-tables";
    /// A PC-relative relocation in data against code that no proved jump table claims.
    UnclaimedPcrelTable, "unclaimed-pcrel-table", Section, "-fno-jump-tables, or absolute addresses in data";
    /// A relocation whose target may be in either of two functions, or in the middle of an instruction.
    AmbiguousTarget, "ambiguous-target", Section, "references by symbol";
    /// A reference to bytes between functions.
    ReferenceIntoPadding, "reference-into-padding", Section, "references to functions only";
    /// Code is read or written as data, or takes its own address by a call of the next instruction.
    CodeAsData, "code-as-data", Section, "compiled code, with data elsewhere";
    /// Another section is ordered after the whole section (`SHF_LINK_ORDER`).
    OrderedSection, "ordered-section", Section, "-ffunction-sections";
    /// A data section of several objects, and references that may mean any of them.
    UnprovedData, "unproved-data", Section, "-fdata-sections";
    /// An exception table that can't be divided by LSDA: one of another form, or of an unknown personality routine.
    UnprovedLsda, "unproved-lsda", Section, "exception tables of compilers, or -ffunction-sections";
    /// Functions in a section that the program names itself: it may find one by its place behind another.
    NamedSection, "named-section", Section, "functions without __attribute__((section))";
    /// A section group holds a section of several functions.
    GroupedSection, "grouped-section", Section, "a section for each function of a group";
    /// An instruction, relocation or way of entering or leaving that the analysis of values does not model.
    UnmodelledFlow, "unmodelled-flow", Function, "compiled code that follows the psABI";
    /// A call maps memory at a place that the program chooses: it may make addresses of numbers, which nobody follows.
    FixedMapping, "fixed-mapping", Values, "calls of mmap that leave the place to the kernel";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitRecord {
    pub limit: Limit,
    /// ELF section index, where the limit is of one section.
    pub section: Option<u32>,
    /// In bytes: what the limit keeps, where that is known.
    pub bytes: u64,
    /// What exactly was found, for a person: names file-local things (section, symbol, type), never the file.
    pub detail: String,
}
