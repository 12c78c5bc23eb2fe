//! The numbers by which LLVM's bitcode says what blocks and records are: the one home of them, for whoever reads or writes it.
//!
//! Decides nothing. Source: LLVM, `LLVMBitCodes.h`, whose names these are, and `BitCodeEnums.h`; those that nothing here
//! asks for are left out, and a reader says what it does with what it does not know.

pub mod block {
    /// The block gives abbreviations to the other blocks.
    pub const BLOCKINFO: u32 = 0;
    pub const MODULE: u32 = 8;
    pub const PARAMATTR: u32 = 9;
    pub const PARAMATTR_GROUP: u32 = 10;
    pub const CONSTANTS: u32 = 11;
    pub const FUNCTION: u32 = 12;
    pub const IDENTIFICATION: u32 = 13;
    pub const VALUE_SYMTAB: u32 = 14;
    pub const METADATA: u32 = 15;
    pub const METADATA_ATTACHMENT: u32 = 16;
    pub const TYPE_NEW: u32 = 17;
    pub const USELIST: u32 = 18;
    pub const MODULE_STRTAB: u32 = 19;
    pub const GLOBALVAL_SUMMARY: u32 = 20;
    pub const OPERAND_BUNDLE_TAGS: u32 = 21;
    pub const METADATA_KIND: u32 = 22;
    pub const STRTAB: u32 = 23;
    pub const FULL_LTO_GLOBALVAL_SUMMARY: u32 = 24;
    pub const SYMTAB: u32 = 25;
    pub const SYNC_SCOPE_NAMES: u32 = 26;
}

/// Abbreviation ids with a meaning of their own; those from `FIRST` on are abbreviations.
pub mod abbreviation {
    pub const END_BLOCK: u64 = 0;
    pub const ENTER_SUBBLOCK: u64 = 1;
    pub const DEFINE: u64 = 2;
    pub const UNABBREVIATED: u64 = 3;
    pub const FIRST: u64 = 4;
}

pub mod blockinfo {
    /// What follows is of this block.
    pub const SETBID: u32 = 1;
}

pub mod identification {
    pub const STRING: u32 = 1;
    pub const EPOCH: u32 = 2;
}

/// Records of STRTAB and of SYMTAB.
pub mod table {
    pub const BLOB: u32 = 1;
}

pub mod module {
    pub const VERSION: u32 = 1;
    pub const TRIPLE: u32 = 2;
    pub const DATALAYOUT: u32 = 3;
    pub const ASM: u32 = 4;
    pub const SECTIONNAME: u32 = 5;
    pub const GLOBALVAR: u32 = 7;
    pub const FUNCTION: u32 = 8;
    /// An alias before LLVM 3.8, which is a value too.
    pub const ALIAS_OLD: u32 = 9;
    pub const GCNAME: u32 = 11;
    pub const COMDAT: u32 = 12;
    pub const VSTOFFSET: u32 = 13;
    pub const ALIAS: u32 = 14;
    pub const SOURCE_FILENAME: u32 = 16;
    pub const HASH: u32 = 17;
    pub const IFUNC: u32 = 18;
}

/// Records of PARAMATTR and of PARAMATTR_GROUP.
pub mod attributes {
    pub const LIST: u32 = 2;
    pub const GROUP: u32 = 3;
}

pub mod types {
    pub const NUMENTRY: u32 = 1;
    pub const VOID: u32 = 2;
    pub const FLOAT: u32 = 3;
    pub const DOUBLE: u32 = 4;
    pub const LABEL: u32 = 5;
    pub const OPAQUE: u32 = 6;
    pub const INTEGER: u32 = 7;
    pub const POINTER: u32 = 8;
    pub const HALF: u32 = 10;
    pub const ARRAY: u32 = 11;
    pub const VECTOR: u32 = 12;
    pub const X86_FP80: u32 = 13;
    pub const FP128: u32 = 14;
    pub const PPC_FP128: u32 = 15;
    pub const METADATA: u32 = 16;
    pub const X86_MMX: u32 = 17;
    pub const STRUCT_ANON: u32 = 18;
    pub const STRUCT_NAME: u32 = 19;
    pub const STRUCT_NAMED: u32 = 20;
    pub const FUNCTION: u32 = 21;
    pub const TOKEN: u32 = 22;
    pub const BFLOAT: u32 = 23;
    pub const X86_AMX: u32 = 24;
    pub const OPAQUE_POINTER: u32 = 25;
    pub const TARGET_TYPE: u32 = 26;
}

pub mod constants {
    pub const SETTYPE: u32 = 1;
    pub const NULL: u32 = 2;
    pub const UNDEF: u32 = 3;
    pub const INTEGER: u32 = 4;
    pub const WIDE_INTEGER: u32 = 5;
    pub const FLOAT: u32 = 6;
    pub const AGGREGATE: u32 = 7;
    pub const STRING: u32 = 8;
    pub const CSTRING: u32 = 9;
    pub const BINOP: u32 = 10;
    pub const CAST: u32 = 11;
    pub const GEP_OLD: u32 = 12;
    pub const SELECT: u32 = 13;
    pub const EXTRACTELT: u32 = 14;
    pub const INSERTELT: u32 = 15;
    pub const SHUFFLEVEC: u32 = 16;
    pub const CMP: u32 = 17;
    pub const INLINEASM_OLD: u32 = 18;
    pub const SHUFVEC_EX: u32 = 19;
    pub const INBOUNDS_GEP: u32 = 20;
    pub const BLOCKADDRESS: u32 = 21;
    pub const DATA: u32 = 22;
    pub const INLINEASM_OLD2: u32 = 23;
    pub const GEP_WITH_INRANGE_INDEX: u32 = 24;
    pub const UNOP: u32 = 25;
    pub const POISON: u32 = 26;
    pub const DSO_LOCAL_EQUIVALENT: u32 = 27;
    pub const INLINEASM_OLD3: u32 = 28;
    pub const NO_CFI: u32 = 29;
    pub const INLINEASM: u32 = 30;
    pub const GEP_WITH_INRANGE: u32 = 31;
    pub const GEP: u32 = 32;
    pub const PTRAUTH: u32 = 33;
    pub const PTRAUTH2: u32 = 34;
}

pub mod instruction {
    /// Comes before all others: the number of basic blocks.
    pub const DECLARE_BLOCKS: u32 = 1;
    pub const BINOP: u32 = 2;
    pub const CAST: u32 = 3;
    pub const GEP_OLD: u32 = 4;
    pub const SELECT: u32 = 5;
    pub const EXTRACTELT: u32 = 6;
    pub const INSERTELT: u32 = 7;
    pub const SHUFFLEVEC: u32 = 8;
    pub const CMP: u32 = 9;
    pub const RET: u32 = 10;
    pub const BR: u32 = 11;
    pub const SWITCH: u32 = 12;
    pub const INVOKE: u32 = 13;
    pub const UNREACHABLE: u32 = 15;
    pub const PHI: u32 = 16;
    pub const ALLOCA: u32 = 19;
    pub const LOAD: u32 = 20;
    pub const VAARG: u32 = 23;
    pub const STORE_OLD: u32 = 24;
    pub const EXTRACTVAL: u32 = 26;
    pub const INSERTVAL: u32 = 27;
    pub const CMP2: u32 = 28;
    pub const VSELECT: u32 = 29;
    pub const INBOUNDS_GEP_OLD: u32 = 30;
    pub const INDIRECTBR: u32 = 31;
    pub const DEBUG_LOC_AGAIN: u32 = 33;
    pub const CALL: u32 = 34;
    pub const DEBUG_LOC: u32 = 35;
    pub const FENCE: u32 = 36;
    pub const CMPXCHG_OLD: u32 = 37;
    pub const ATOMICRMW_OLD: u32 = 38;
    pub const RESUME: u32 = 39;
    pub const LOADATOMIC: u32 = 41;
    pub const STOREATOMIC_OLD: u32 = 42;
    pub const GEP: u32 = 43;
    pub const STORE: u32 = 44;
    pub const STOREATOMIC: u32 = 45;
    pub const CMPXCHG: u32 = 46;
    pub const LANDINGPAD: u32 = 47;
    pub const CLEANUPRET: u32 = 48;
    pub const CATCHRET: u32 = 49;
    pub const CATCHPAD: u32 = 50;
    pub const CLEANUPPAD: u32 = 51;
    pub const CATCHSWITCH: u32 = 52;
    pub const OPERAND_BUNDLE: u32 = 55;
    pub const UNOP: u32 = 56;
    pub const CALLBR: u32 = 57;
    pub const FREEZE: u32 = 58;
    pub const ATOMICRMW: u32 = 59;
    pub const BLOCKADDR_USERS: u32 = 60;
    pub const DEBUG_RECORD_VALUE: u32 = 61;
    pub const DEBUG_RECORD_DECLARE_VALUE: u32 = 66;
}

/// Records of VALUE_SYMTAB, in a module.
pub mod value_symtab {
    /// Where a function's body is, by [value id, place].
    pub const FNENTRY: u32 = 3;
}

pub mod metadata {
    /// What is attached to a function or instruction, by [instruction if it is one, (kind, node)...].
    pub const ATTACHMENT: u32 = 11;
    /// The kind of `!type`, the same in every module (LLVM, `FixedMetadataKinds.def`).
    pub const KIND_TYPE: u64 = 19;
    /// The record has all strings of the block.
    pub const STRINGS: u32 = 35;
    /// What is attached to a variable or declaration, by [value id, kinds and nodes].
    pub const GLOBAL_DECL_ATTACHMENT: u32 = 36;
}

pub mod summary {
    pub const PERMODULE: u32 = 1;
    pub const PERMODULE_PROFILE: u32 = 2;
    pub const PERMODULE_GLOBALVAR_INIT_REFS: u32 = 3;
    pub const ALIAS: u32 = 7;
    pub const VERSION: u32 = 10;
    pub const TYPE_TESTS: u32 = 11;
    pub const TYPE_TEST_ASSUME_VCALLS: u32 = 12;
    pub const TYPE_CHECKED_LOAD_VCALLS: u32 = 13;
    pub const TYPE_TEST_ASSUME_CONST_VCALL: u32 = 14;
    pub const TYPE_CHECKED_LOAD_CONST_VCALL: u32 = 15;
    pub const VALUE_GUID: u32 = 16;
    pub const CFI_FUNCTION_DEFS: u32 = 17;
    pub const CFI_FUNCTION_DECLS: u32 = 18;
    pub const PERMODULE_RELBF: u32 = 19;
    pub const FLAGS: u32 = 20;
    pub const TYPE_ID_METADATA: u32 = 22;
    pub const PERMODULE_VTABLE_GLOBALVAR_INIT_REFS: u32 = 23;
    pub const BLOCK_COUNT: u32 = 24;
    pub const PARAM_ACCESS: u32 = 25;
    pub const PERMODULE_CALLSITE_INFO: u32 = 26;
    pub const PERMODULE_ALLOC_INFO: u32 = 27;
    /// PERMODULE_CALLSITE_INFO, PERMODULE_ALLOC_INFO, STACK_IDS, ALLOC_CONTEXT_IDS, CONTEXT_RADIX_TREE_ARRAY and their variants.
    pub const HEAP_PROFILE: std::ops::RangeInclusive<u32> = 26..=33;
}
