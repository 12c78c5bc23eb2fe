//! The module summary: the only serialised boundary type between the front ends and the tool that links.
//!
//! It is a plain table of facts. Emission reads the object itself for section contents and relocation encodings. Invariants, checked by
//! `ModuleSummary::check` for summaries from outside: every id is in range of its table; `references` is sorted by
//! (`from`, `offset`); `atoms` is sorted by (`section`, `offset`); atoms of one section do not overlap; groups and
//! their members name each other; `resolved`, `owned` and `retargets` are sorted and without duplicates.

use serde::{Deserialize, Serialize};

use crate::ids::{AtomIdx, GroupIdx, NameRef, SymbolIdx};
use crate::limit::LimitRecord;
use crate::relation::FunctionSummary;

/// The kind of file that a summary describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ModuleKind {
    /// The module is a relocatable ELF64 object for x86-64.
    Native,
    Bitcode,
    /// Another file: nothing is known of it, and a limit says why.
    #[default]
    Opaque,
}

/// The granularity of atoms in executable sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Granularity {
    /// An atom for each section; no instruction is decoded.
    #[default]
    Sections,
    /// An atom for each function, in sections where the boundaries and every reference across them are proved.
    Functions,
    /// As [`Granularity::Functions`], with [`ModuleSummary::functions`].
    Pointers,
}

/// The options of a front end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SummaryOptions {
    pub granularity: Granularity,
    /// Debug information will not be in the output, so that it does not restrict the division of code.
    pub without_debug: bool,
    /// Fall-through at the ends of sections is left to [`crate::native::next_sections`], which reads less code.
    pub without_ends: bool,
}

impl From<Granularity> for SummaryOptions {
    fn from(granularity: Granularity) -> SummaryOptions {
        SummaryOptions { granularity, ..SummaryOptions::default() }
    }
}

/// All facts about one module without the others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModuleSummary {
    pub kind: ModuleKind,
    /// The requested granularity: a summary does not replace one of another granularity.
    pub granularity: Granularity,
    /// Debug information was ignored: a modified module loses it.
    pub without_debug: bool,
    /// Backing bytes of every [`NameRef`]; a front end may leave bytes in it that no name uses.
    #[serde(with = "crate::byte_string")]
    pub names: Vec<u8>,
    /// One per ELF symbol, in symbol-table order, entry 0 (the null symbol) included.
    pub symbols: Vec<Symbol>,
    pub atoms: Vec<Atom>,
    pub groups: Vec<Group>,
    /// They are sorted by `from` and then `offset`.
    pub references: Vec<Reference>,
    /// References inside a split section that the assembler resolved itself, sorted by (section, field). Each is in
    /// `references` too.
    pub resolved: Vec<ResolvedReference>,
    /// Parts of data atoms that belong to a function, sorted by (atom, start).
    pub owned: Vec<OwnedRange>,
    /// Targets of relocations by section symbol in a split section, sorted by (section, offset).
    pub retargets: Vec<Retarget>,
    /// Value flow, one entry per analysed function, ascending by atom; no atom is in two. Empty if value flow was not
    /// computed.
    pub functions: Vec<FunctionSummary>,
    /// Parts that the front end did not understand.
    pub limits: Vec<LimitRecord>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binding {
    Local,
    Global,
    Weak,
    /// The symbol has the binding `STB_GNU_UNIQUE` of GNU.
    Unique,
}

/// ELF symbol visibility (`STV_*`), least to most constraining when merged: see [`Visibility::merge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Visibility {
    #[default]
    Default,
    Protected,
    Hidden,
    Internal,
}

impl Visibility {
    /// The most constraining of two (gABI, "Symbol Table": internal, hidden, protected, default).
    pub fn merge(self, other: Self) -> Self {
        if (other as u8) > (self as u8) { other } else { self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SymbolKind {
    NoType,
    Object,
    Func,
    Section,
    File,
    Common,
    Tls,
    /// `STT_GNU_IFUNC`: its value is a resolver that the loader calls.
    Ifunc,
    /// An unknown value of `st_info`.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Definition {
    Undefined,
    /// The symbol has the section index `SHN_ABS`.
    Absolute,
    /// In this atom, `Symbol::value` bytes from the start of the atom's *section*.
    Atom(AtomIdx),
    /// `SHN_COMMON`: a tentative definition; the atom is of kind [`AtomKind::Common`].
    Common(AtomIdx),
    /// In a section that is no atom (a symbol table, a group, an unwind section).
    OtherSection(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    pub name: NameRef,
    pub binding: Binding,
    pub visibility: Visibility,
    pub kind: SymbolKind,
    pub definition: Definition,
    /// `st_value`: offset in the section for a defined symbol, alignment for a common one.
    pub value: u64,
    /// It is the `st_size` of the symbol, in bytes.
    pub size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AtomKind {
    Code,
    ReadOnlyData,
    Data,
    Bss,
    TlsData,
    TlsBss,
    /// `SHT_INIT_ARRAY`, `SHT_FINI_ARRAY`, `SHT_PREINIT_ARRAY`, `.init`, `.fini`, `.ctors*`, `.dtors*`, `.jcr`.
    InitFini,
    /// The section has the type `SHT_NOTE`.
    Note,
    /// Exception tables (`.gcc_except_table*`): allocated, reached only through an FDE.
    Lsda,
    /// A tentative definition (`SHN_COMMON`): it has no section.
    Common,
    /// A section `.debug*` that is not allocated.
    Debug,
    /// Any other section that is not allocated.
    NonAlloc,
}

impl AtomKind {
    /// Whether the atom takes memory in the running program.
    pub fn is_alloc(self) -> bool {
        !matches!(self, AtomKind::Debug | AtomKind::NonAlloc)
    }
}

/// Whether a module with these atoms has debug information, which encodes lengths of functions and distances between them.
pub fn have_debug_info(atoms: &[Atom]) -> bool {
    atoms.iter().any(|atom| atom.kind == AtomKind::Debug)
}

pub mod atom_flags {
    /// `SHF_GNU_RETAIN`: the user asked the linker to keep it.
    pub const RETAIN: u32 = 1 << 0;
    /// `SHF_LINK_ORDER`: kept only with [`Atom::link_order`](super::Atom::link_order).
    pub const LINK_ORDER: u32 = 1 << 1;
    /// The section name is a C identifier, so `__start_NAME` and `__stop_NAME` mean it.
    pub const C_IDENTIFIER: u32 = 1 << 2;
    /// The section has the flag `SHF_MERGE`.
    pub const MERGE: u32 = 1 << 3;
    /// The section has the flag `SHF_STRINGS`.
    pub const STRINGS: u32 = 1 << 4;
    /// The section has the flag `SHF_WRITE`.
    pub const WRITE: u32 = 1 << 5;
    /// The section has the flag `SHF_EXECINSTR`.
    pub const EXEC: u32 = 1 << 6;
    /// In a section group (of any kind).
    pub const GROUPED: u32 = 1 << 7;
    /// The section's name is of a standard family (`.text*`, `.rodata*`, `.data*`, `.bss*`, ...), see
    /// `native::sections::is_standard_family`.
    pub const STANDARD_FAMILY: u32 = 1 << 8;
    /// Code that was not analysed and may take arguments in registers that pass nothing by the psABI (`preserve_none`, `regcall`). Only
    /// set for value flow.
    pub const TAKES_REGISTERS: u32 = 1 << 9;
    /// A relocation of it holds an absolute address in 32 bits or fewer, or in a section that is not writable: linkers refuse
    /// the first in an output without fixed address, and refuse or report the second.
    pub const FIXED_ADDRESS: u32 = 1 << 10;
    /// A relocation of it is of 16 bits or 8, where hardly any address fits, or of a type for outputs: linkers refuse it in an object.
    pub const RARE_RELOCATION: u32 = 1 << 11;
    /// The section has the flag `SHF_EXCLUDE` and takes no memory: only a relocatable output has it.
    pub const EXCLUDED: u32 = 1 << 12;
    /// Code with effects that no summary covers: system calls by instructions, assembly in bitcode, undecoded bytes. Only set for value
    /// flow.
    pub const RUNS_UNSEEN: u32 = 1 << 13;
}

/// The unit that is kept or removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Atom {
    /// ELF section index, or [`Atom::NO_SECTION`] for a common.
    pub section: u32,
    /// The first byte, from the start of the section.
    pub offset: u64,
    /// The size in bytes; 0 for an empty one.
    pub size: u64,
    /// In bytes, a power of two, at least 1.
    pub align: u64,
    pub kind: AtomKind,
    /// The bits are those of [`atom_flags`].
    pub flags: u32,
    /// Name of the section (of the symbol, for a common).
    pub name: NameRef,
    pub group: Option<GroupIdx>,
    /// The atom that this one is ordered after (`SHF_LINK_ORDER`).
    pub link_order: Option<AtomIdx>,
}

impl Atom {
    /// The [`Atom::section`] of a common symbol.
    pub const NO_SECTION: u32 = u32::MAX;

    /// Whether any of these [`atom_flags`] is set.
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// ELF section index of the `SHT_GROUP` section.
    pub section: u32,
    /// The symbol whose name is the group's signature.
    pub signature: SymbolIdx,
    /// `GRP_COMDAT`: one of several groups with this signature is linked.
    pub comdat: bool,
    /// Its atoms, ascending: those whose [`Atom::group`] is this one. Other sections (relocations) follow theirs.
    pub members: Vec<AtomIdx>,
}

/// The kind of a reference to a symbol or atom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ReferenceKind {
    /// A direct call or jump (`R_X86_64_PLT32`, or `PC32` on a decoded branch).
    Call,
    /// The address is formed by code.
    Address,
    /// The address is stored in data.
    Data,
    /// The address comes from the global offset table.
    Got,
    Tls,
    /// By an FDE of the atom: LSDA, or the personality of its CIE.
    Unwind,
    /// A reference from a non-allocated section: it never keeps anything. The native front end does not read these.
    Debug,
}

/// The target of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Target {
    /// The prevailing definition of the symbol (a local symbol means its own atom).
    Symbol(SymbolIdx),
    /// This atom of the same module, by section symbol and addend.
    Atom(AtomIdx),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reference {
    pub from: AtomIdx,
    /// In bytes, from the start of the *section* of `from`; for [`ReferenceKind::Unwind`], of the `.eh_frame` section;
    /// in an [`OwnedRange`], of the section of the range's atom, while `from` is its owner.
    pub offset: u64,
    pub kind: ReferenceKind,
    pub target: Target,
    pub addend: i64,
}

/// The opcode of `jmp rel8`. No 32-bit field follows such a byte: fields follow the opcodes of `call`, `jmp` and `jcc`, or an operand
/// byte of a RIP-relative address, which ends in the bits 101 and begins with 00.
pub const SHORT_JUMP: u8 = 0xeb;

/// The opcode of `jmp rel32`, which replaces a short jump that is too short.
pub const NEAR_JUMP: u8 = 0xe9;

/// A PC-relative reference from one atom of a split section to another, for which the assembler left no relocation: the
/// 32-bit field at `field` holds `target - (end of instruction)`.
///
/// When the atoms are divided it needs a relocation `R_X86_64_PC32` against the target's part, with the addend
/// `field + value - (start of the target atom)`, where `value` is the field's contents.
///
/// After a [`SHORT_JUMP`] the field has one byte, and three bytes of padding follow: when the atoms are divided the jump becomes
/// `jmp rel32`, and `value` is the byte less 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResolvedReference {
    /// It is the ELF index of the section.
    pub section: u32,
    /// In bytes, from the start of the section: the first byte of the field.
    pub field: u64,
    pub from: AtomIdx,
    pub target: AtomIdx,
}

/// A range of a data atom that only `owner` reads: a proved jump table. In `references` its relocations refer from the owner, not
/// from the data atom. If only the owner is dropped, the relocations are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OwnedRange {
    pub atom: AtomIdx,
    /// In bytes, from the start of the section.
    pub start: u64,
    pub end: u64,
    pub owner: AtomIdx,
}

/// The target of a relocation of an allocated section (except `.eh_frame`) against the section symbol of a split section. Each such
/// relocation has an entry. A PC-relative addend is biased by the distance from the field to the end of the instruction or the
/// start of the table, so that the addend alone does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Retarget {
    /// ELF section index of the section that the relocation applies to.
    pub section: u32,
    /// `r_offset`: in bytes, from the start of that section.
    pub offset: u64,
    pub target: AtomIdx,
}

impl ModuleSummary {
    /// Whether it has the contents of a summary with these options.
    pub fn answers(&self, options: SummaryOptions) -> bool {
        self.granularity == options.granularity
            && (self.without_debug == options.without_debug || !have_debug_info(&self.atoms))
    }

    /// A summary without facts, for a file that was not understood.
    pub fn opaque() -> Self {
        ModuleSummary::default()
    }

    /// The bytes of a name; empty if the range is not in the table.
    pub fn name(&self, name: NameRef) -> &[u8] {
        let start = name.start as usize;
        self.names.get(start..start.saturating_add(name.len as usize)).unwrap_or(&[])
    }

    pub fn symbol_name(&self, symbol: SymbolIdx) -> &[u8] {
        self.symbols.get(symbol.index()).map_or(&[], |s| self.name(s.name))
    }

    /// The atom that defines a symbol; `None` for an undefined or absolute one.
    pub fn defining_atom(&self, symbol: SymbolIdx) -> Option<AtomIdx> {
        match self.symbols.get(symbol.index())?.definition {
            Definition::Atom(atom) | Definition::Common(atom) => Some(atom),
            _ => None,
        }
    }

    /// The atom of this module that a target names, whichever definition of a global symbol prevails.
    pub fn target_atom(&self, target: Target) -> Option<AtomIdx> {
        match target {
            Target::Atom(atom) => Some(atom),
            Target::Symbol(symbol) => self.defining_atom(symbol),
        }
    }

    /// Append a name to the table.
    pub fn push_name(&mut self, bytes: &[u8]) -> NameRef {
        let name = NameRef { start: self.names.len() as u32, len: bytes.len() as u32 };
        self.names.extend_from_slice(bytes);
        name
    }

    /// The target atom of a relocation at `offset` of ELF section `section` against the section symbol of a split section; see
    /// [`Retarget`]. `None` if two entries disagree.
    pub fn retarget_at(&self, section: u32, offset: u64) -> Option<AtomIdx> {
        let start = self.retargets.partition_point(|r| (r.section, r.offset) < (section, offset));
        let rest = self.retargets.get(start..)?.iter();
        let mut same = rest.take_while(|r| (r.section, r.offset) == (section, offset));
        let first = same.next()?;
        same.all(|r| r.target == first.target).then_some(first.target)
    }

    /// The references from `atom`, in order.
    pub fn references_of(&self, atom: AtomIdx) -> &[Reference] {
        let start = self.references.partition_point(|r| r.from < atom);
        let end = self.references.partition_point(|r| r.from <= atom);
        &self.references[start..end]
    }
}
