//! Limits: the named reasons for bailouts. Every bailout has a variant here, is counted and reported, and has a [`Severity`] that says
//! how much is kept. The tool adds link-wide ones to the same enum, so that one table of a report lists all.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// One function has no value flow: its references and its arguments escape.
    Function,
    /// One section is not divided: it is kept or removed as a whole, with all that it refers to.
    Section,
    /// The link has no value flow: the level `pointers` falls back to `functions`.
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

            /// An action of the user that ends it, for the report.
            pub fn lifted_by(self) -> &'static str {
                match self { $(Limit::$variant => $lift,)* }
            }
        }
    };
}

limits! {
    /// The file ends early, or a table in it points outside.
    MalformedObject, "malformed-object", Link, "rebuild the file; readelf -a shows what is damaged";
    /// An ELF file of another class, byte order, machine or type.
    ForeignObject, "foreign-object", Link, "leave it out of the link, or compile it for x86_64 ELF";
    /// LLVM bitcode in a link where it is unknown how the linker compiles it.
    Bitcode, "bitcode", Link, "compile without -flto, or link by lld with fewer options";
    /// gcc LTO (`.gnu.lto_*`), slim or fat: its references are hidden.
    GccLto, "gcc-lto", Link, "compile without -flto";
    /// A section of a type that may hold symbol indices, so symbols can't be renumbered.
    UnknownSectionType, "unknown-section-type", Module, "compile without the option that makes the section";
    /// A relocated section without the flag "alloc": it is loaded if another input of its output section has the flag.
    UnallocatedSection, "unallocated-section", Module, "give the section the flag \"a\" in the assembly, or a name that begins with .note";
    /// `SHT_REL` relocations: their addends are in the code.
    RelRelocations, "rel-relocations", Module, "compile with an x86_64 compiler or assembler, which writes RELA relocations";
    /// A relocation type that we don't know.
    UnknownRelocation, "unknown-relocation", Module, "compile without the option that makes the relocation";
    /// `.eh_frame` that can't be split into records.
    MalformedUnwind, "malformed-unwind", Module, "recompile the object; readelf -wf shows where .eh_frame is damaged";
    /// `.deplibs`: the object itself asks the linker for libraries.
    DependentLibraries, "dependent-libraries", Link, "name the libraries on the command line, and compile without #pragma comment(lib)";
    /// The object has sections of partitions (`SHT_LLVM_SYMPART`).
    Partitions, "partitions", Link, "link without partitions";
    /// An input that can't be opened, or a kind of file that we don't know.
    UnreadableInput, "unreadable-input", Link, "check that the file exists and is an object, an archive, a library or a linker script";
    /// An option that changes what inputs mean and that we don't model.
    UnmodelledOption, "unmodelled-option", Link, "link without the option";
    /// A linker script construct that we don't model.
    UnmodelledScript, "unmodelled-script", Link, "link without this command of the script";
    /// A `-T` script with SECTIONS but no `--gc-sections`: nothing tells removable sections.
    ScriptWithoutGc, "script-without-gc", Link, "add --gc-sections, and KEEP() in the script for what must stay";
    /// The linker will reject the link: its own message is the best one.
    LinkError, "link-error", Link, "correct the error that the linker reports";
    /// The linker may print a message about the originals that it would not print, or print differently, for pruned objects.
    LinkerMessage, "linker-message", Link, "link without the option or section that makes the linker print it";
    /// Only removed code refers to `__start_X`: for that lld keeps the section, or a linker exports the symbol.
    StartStopSection, "start-stop-section", Link, "add -z nostart-stop-gc, or give the section SHF_GNU_RETAIN";
    /// An option names a symbol that mold's `--gc-sections` keeps only because it shares a section with other code.
    NamedPart, "named-part", Link, "link without --gc-sections";
    /// Two linkers, or two readings of one, disagree which definition prevails.
    AmbiguousResolution, "ambiguous-resolution", Link, "keep one strong definition";
    /// No module defines the entry symbol: the program starts at an address that the linker chooses.
    NoEntry, "no-entry", Link, "define the entry symbol, or name one with -e";
    /// LLVM bitcode without known references: it is passed to the linker as it is.
    OpaqueBitcode, "opaque-bitcode", Module, "link with --prune-level=functions or pointers";
    /// LLVM bitcode that refers to an undefined symbol, or to a library under --as-needed that only bitcode needs: the plain link may compile dead code with the reference.
    BitcodeLibrary, "bitcode-library", Module, "link the libraries without --as-needed, and define undefined symbols";
    /// The output of the pruned link doesn't record a library that LLVM bitcode refers to, as that of the plain link may: the originals are linked.
    LibraryNotRecorded, "library-not-recorded", Link, "link the libraries without --as-needed";
    /// LLVM bitcode with records that a newer LLVM, or one that is too old, has.
    UnknownBitcode, "unknown-bitcode", Link, "compile with LLVM 14 to 22";
    /// LLVM bitcode whose summary is of a version that is not known.
    BitcodeSummaryVersion, "bitcode-summary-version", Module, "compile with LLVM 14 to 22";
    /// `-r` or `--emit-relocs`: the output is an input again.
    RelocatableOutput, "relocatable-output", Link, "prune the link that takes this output as an input, or add --gc-sections and a --prune-level";
    /// A file name pattern of a linker script matches this file by a path that a pruned copy can't keep.
    ScriptFilePattern, "script-file-pattern", Module, "begin the pattern in the script with *";
    /// Too few bytes could be removed from the module, so that it is passed through.
    NotWorth, "not-worth", Module, "link with --prune-worth=0, or with --prune-level=functions";
    /// Debug information is in a form that can't follow the parts of divided code: `.dwo` files of DWARF 5, 64-bit, malformed.
    DebugInfo, "debug-info", Module, "link with -s, -S or --prune-debug=drop, or compile with -ffunction-sections";
    /// Debug information in a form that the collection of entries does not read: type units, tables of names, 64-bit, malformed.
    DebugEntries, "debug-entries", Section, "compile without -fdebug-types-section, -gsplit-dwarf and -gpubnames; Free Pascal and joined objects of gcc -flto keep theirs";
    /// Bytes in a function that are no instruction.
    UndecodableCode, "undecodable-code", Section, "move the data out of the code section";
    /// Bytes that no sized function symbol covers and that are no padding.
    UncoveredCode, "uncovered-code", Section, "give each function a symbol with .type and .size";
    /// A function symbol without a size.
    UnsizedSymbol, "unsized-symbol", Section, "give each function symbol a size (.size)";
    /// A symbol among code that is no function.
    SymbolInText, "symbol-in-text", Section, "move the data out of the code section, or give functions .type @function";
    /// A frame description entry that describes no range of the section.
    MissingFde, "missing-fde", Section, "recompile the object with another compiler";
    /// A branch or operand that leads out of the section or between instructions.
    BranchNowhere, "branch-nowhere", Section, "correct the branch in the assembly";
    /// A relocation in code that is no field of an instruction, or of a type that has no meaning there.
    UnplacedRelocation, "unplaced-relocation", Section, "move the data out of the code section";
    /// A jump whose target is computed in a way that was not followed, in an object with relative jump tables.
    UnprovedJump, "unproved-jump", Section, "compile with -fno-jump-tables or -ffunction-sections";
    /// A PC-relative relocation in data against code that no proved jump table claims.
    UnclaimedPcrelTable, "unclaimed-pcrel-table", Section, "compile with -fno-jump-tables or -ffunction-sections";
    /// A relocation whose target may be in either of two functions, or in the middle of an instruction.
    AmbiguousTarget, "ambiguous-target", Section, "compile with -ffunction-sections, or refer to functions by name in assembly";
    /// An address without a name that may mean either of several functions.
    DoubtfulAddress, "doubtful-address", Section, "compile with -ffunction-sections";
    /// Functions that a short branch, a fall through, one unwind record or their alignment ties together.
    JoinedFunctions, "joined-functions", Section, "compile with -ffunction-sections";
    /// A reference to bytes between functions.
    ReferenceIntoPadding, "reference-into-padding", Section, "compile with -ffunction-sections";
    /// Code is read or written as data, or takes its own address by a call of the next instruction.
    CodeAsData, "code-as-data", Section, "move the data out of the code section";
    /// Another section is ordered after the whole section (`SHF_LINK_ORDER`).
    OrderedSection, "ordered-section", Section, "compile with -ffunction-sections";
    /// A data section of several objects, and references that may mean any of them.
    UnprovedData, "unproved-data", Section, "compile with -fdata-sections";
    /// An exception table that can't be divided by LSDA: one of another form, or of an unknown personality routine.
    UnprovedLsda, "unproved-lsda", Section, "compile with -ffunction-sections";
    /// Functions in a section that the program names itself: it may find one by its position after another.
    NamedSection, "named-section", Section, "remove __attribute__((section)) from functions that need no section of their own";
    /// A section group holds a section of several functions.
    GroupedSection, "grouped-section", Section, "give each function of the group a section of its own";
    /// A function that reads or leaves values elsewhere than the psABI has it, or enters, leaves or computes in a way that is not analysed.
    NotPsabi, "not-psabi", Function, "replace assembly that departs from the psABI";
    /// A call maps memory at an address that the program chooses: it may form addresses from numbers, which are not analysed.
    FixedMapping, "fixed-mapping", Values, "call mmap without MAP_FIXED";
}

/// A limit at a place, with the bytes that it keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitRecord {
    pub limit: Limit,
    /// ELF section index, if the limit concerns one section.
    pub section: Option<u32>,
    /// The first byte of the part, from the start of the section, if the limit is of several functions in one part.
    pub offset: Option<u64>,
    /// The bytes that the limit keeps, if known.
    pub bytes: u64,
    /// The details for the user, with file-local names (section, symbol, type), never the file.
    pub detail: String,
}

impl LimitRecord {
    /// A limit of a whole module or link.
    pub fn new(limit: Limit, detail: String) -> Self {
        LimitRecord { limit, section: None, offset: None, bytes: 0, detail }
    }
}
