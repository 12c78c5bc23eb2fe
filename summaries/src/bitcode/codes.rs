//! The numbers of blocks and records in LLVM's bitcode, for readers and writers.
//!
//! The names are those of LLVM's `LLVMBitCodes.h` and `BitCodeEnums.h`; unused ones are omitted.

/// Constants of one type, several in a line.
macro_rules! numbers {
    ($($(#[$doc:meta])* $vis:vis mod $name:ident: $ty:ty {
        $($(#[$of:meta])* $number:ident = $value:expr,)*
    })*) => {$(
        $(#[$doc])*
        $vis mod $name {
            $($(#[$of])* $vis const $number: $ty = $value;)*
        }
    )*};
}
pub(crate) use numbers;

numbers! {
    pub mod block: u32 {
        /// The block gives abbreviations to the other blocks.
        BLOCKINFO = 0,
        MODULE = 8, PARAMATTR = 9, PARAMATTR_GROUP = 10, CONSTANTS = 11, FUNCTION = 12, IDENTIFICATION = 13,
        VALUE_SYMTAB = 14, METADATA = 15, METADATA_ATTACHMENT = 16, TYPE_NEW = 17, USELIST = 18,
        MODULE_STRTAB = 19, GLOBALVAL_SUMMARY = 20, OPERAND_BUNDLE_TAGS = 21, METADATA_KIND = 22, STRTAB = 23,
        FULL_LTO_GLOBALVAL_SUMMARY = 24, SYMTAB = 25, SYNC_SCOPE_NAMES = 26,
    }

    /// Abbreviation ids with a meaning of their own; those from `FIRST` on are abbreviations.
    pub mod abbreviation: u64 {
        END_BLOCK = 0, ENTER_SUBBLOCK = 1, DEFINE = 2, UNABBREVIATED = 3, FIRST = 4,
    }

    pub mod blockinfo: u32 {
        /// The following records are for this block.
        SETBID = 1,
    }

    pub mod identification: u32 {
        STRING = 1, EPOCH = 2,
    }

    /// Records of STRTAB and of SYMTAB.
    pub mod table: u32 {
        BLOB = 1,
    }

    pub mod module: u32 {
        VERSION = 1, TRIPLE = 2, DATALAYOUT = 3, ASM = 4, SECTIONNAME = 5, GLOBALVAR = 7, FUNCTION = 8,
        /// An alias before LLVM 3.8, which is a value too.
        ALIAS_OLD = 9,
        GCNAME = 11, COMDAT = 12, VSTOFFSET = 13, ALIAS = 14, SOURCE_FILENAME = 16, HASH = 17, IFUNC = 18,
    }

    /// Records of PARAMATTR and of PARAMATTR_GROUP.
    pub mod attributes: u32 {
        LIST = 2, GROUP = 3,
    }

    pub mod types: u32 {
        NUMENTRY = 1, VOID = 2, FLOAT = 3, DOUBLE = 4, LABEL = 5, OPAQUE = 6, INTEGER = 7, POINTER = 8,
        HALF = 10, ARRAY = 11, VECTOR = 12, X86_FP80 = 13, FP128 = 14, PPC_FP128 = 15, METADATA = 16,
        X86_MMX = 17, STRUCT_ANON = 18, STRUCT_NAME = 19, STRUCT_NAMED = 20, FUNCTION = 21, TOKEN = 22,
        BFLOAT = 23, X86_AMX = 24, OPAQUE_POINTER = 25, TARGET_TYPE = 26,
    }

    pub mod constants: u32 {
        SETTYPE = 1, NULL = 2, UNDEF = 3, INTEGER = 4, WIDE_INTEGER = 5, FLOAT = 6, AGGREGATE = 7, STRING = 8,
        CSTRING = 9, BINOP = 10, CAST = 11, GEP_OLD = 12, SELECT = 13, EXTRACTELT = 14, INSERTELT = 15,
        SHUFFLEVEC = 16, CMP = 17, INLINEASM_OLD = 18, SHUFVEC_EX = 19, INBOUNDS_GEP = 20, BLOCKADDRESS = 21,
        DATA = 22, INLINEASM_OLD2 = 23, GEP_WITH_INRANGE_INDEX = 24, UNOP = 25, POISON = 26,
        DSO_LOCAL_EQUIVALENT = 27, INLINEASM_OLD3 = 28, NO_CFI = 29, INLINEASM = 30, GEP_WITH_INRANGE = 31,
        GEP = 32, PTRAUTH = 33, PTRAUTH2 = 34,
    }

    pub mod instruction: u32 {
        /// Comes before all others: the number of basic blocks.
        DECLARE_BLOCKS = 1,
        BINOP = 2, CAST = 3, GEP_OLD = 4, SELECT = 5, EXTRACTELT = 6, INSERTELT = 7, SHUFFLEVEC = 8, CMP = 9,
        RET = 10, BR = 11, SWITCH = 12, INVOKE = 13, UNREACHABLE = 15, PHI = 16, ALLOCA = 19, LOAD = 20,
        VAARG = 23, STORE_OLD = 24, EXTRACTVAL = 26, INSERTVAL = 27, CMP2 = 28, VSELECT = 29,
        INBOUNDS_GEP_OLD = 30, INDIRECTBR = 31, DEBUG_LOC_AGAIN = 33, CALL = 34, DEBUG_LOC = 35, FENCE = 36,
        CMPXCHG_OLD = 37, ATOMICRMW_OLD = 38, RESUME = 39, LOADATOMIC = 41, STOREATOMIC_OLD = 42, GEP = 43,
        STORE = 44, STOREATOMIC = 45, CMPXCHG = 46, LANDINGPAD = 47, CLEANUPRET = 48, CATCHRET = 49,
        CATCHPAD = 50, CLEANUPPAD = 51, CATCHSWITCH = 52, OPERAND_BUNDLE = 55, UNOP = 56, CALLBR = 57,
        FREEZE = 58, ATOMICRMW = 59, BLOCKADDR_USERS = 60, DEBUG_RECORD_VALUE = 61,
        DEBUG_RECORD_DECLARE_VALUE = 66,
    }

    /// Records of VALUE_SYMTAB, in a module.
    pub mod value_symtab: u32 {
        /// The position of a function's body, by [value id, position].
        FNENTRY = 3,
    }

    pub mod metadata: u32 {
        /// Attachments of a function or instruction, by [instruction if it is one, (kind, node)...].
        ATTACHMENT = 11,
        /// The record has all strings of the block.
        STRINGS = 35,
        /// Attachments of a variable or declaration, by [value id, kinds and nodes].
        GLOBAL_DECL_ATTACHMENT = 36,
    }

    pub mod summary: u32 {
        PERMODULE = 1, PERMODULE_PROFILE = 2, PERMODULE_GLOBALVAR_INIT_REFS = 3, ALIAS = 7, VERSION = 10,
        TYPE_TESTS = 11, TYPE_TEST_ASSUME_VCALLS = 12, TYPE_CHECKED_LOAD_VCALLS = 13,
        TYPE_TEST_ASSUME_CONST_VCALL = 14, TYPE_CHECKED_LOAD_CONST_VCALL = 15, VALUE_GUID = 16,
        CFI_FUNCTION_DEFS = 17, CFI_FUNCTION_DECLS = 18, PERMODULE_RELBF = 19, FLAGS = 20,
        TYPE_ID_METADATA = 22, PERMODULE_VTABLE_GLOBALVAR_INIT_REFS = 23, BLOCK_COUNT = 24, PARAM_ACCESS = 25,
        PERMODULE_CALLSITE_INFO = 26, PERMODULE_ALLOC_INFO = 27,
    }
}

/// The kind of `!type` metadata, the same in every module (LLVM, `FixedMetadataKinds.def`).
pub const METADATA_KIND_TYPE: u64 = 19;

/// Heap profiles: PERMODULE_CALLSITE_INFO, PERMODULE_ALLOC_INFO, STACK_IDS, ALLOC_CONTEXT_IDS, CONTEXT_RADIX_TREE_ARRAY and variants.
pub const HEAP_PROFILE: std::ops::RangeInclusive<u32> = 26..=33;
