//! A section of code while it is divided: its functions, what was read of it, and which functions stay together.
//!
//! Ties only add up, and the first reason to keep the section whole is the one that counts, so the order of the steps does not
//! decide what is divided. Left out: the steps themselves.

use super::division::IntraSectionReference;
use crate::limit::Limit;
use crate::native::decode::{self, Flow, Instruction};
use crate::summary::{Atom, AtomKind, atom_flags};

/// A step of the division; its error is the limit that keeps the section whole, and what was found there.
pub(super) type SplitOutcome<T = ()> = Result<T, (Limit, String)>;

/// How far before a function an address still means it, in bytes: tags of pointers are smaller.
const MAX_BIAS: u64 = 8;

/// The reason that ties functions into one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tie {
    /// An address in the section, at this offset, that may mean the function or, with a tag, the next one.
    TaggedAddress(u64),
    /// An address at this offset without a name, which may be the sum of a number and the address of a function that nothing refers to.
    UnnamedAddress(u64),
    /// A branch too short for a relocation, or code that falls through into the next function.
    Branch,
    /// A distance in a table without a proved base.
    Distance,
    /// One unwind record describes all of them.
    UnwindRecord,
    /// Apart from each other they could not keep their alignment.
    Alignment,
}

impl Tie {
    /// The limit and the words for a report.
    fn limit(self) -> (Limit, String) {
        match self {
            Tie::TaggedAddress(at) => (
                Limit::DoubtfulAddress,
                format!("the address {at:#x} has no name, and may be one of the next function less a tag"),
            ),
            Tie::UnnamedAddress(at) => (
                Limit::DoubtfulAddress,
                format!(
                    "the address {at:#x} has no name, and may be computed from a function that nothing refers to"
                ),
            ),
            Tie::Branch => (
                Limit::JoinedFunctions,
                "a short branch leads from one into another, or code falls through".to_owned(),
            ),
            Tie::Distance => {
                (Limit::UnclaimedPcrelTable, "a table has distances to them from an unknown base".to_owned())
            }
            Tie::UnwindRecord => {
                (Limit::JoinedFunctions, "one record of .eh_frame describes them".to_owned())
            }
            Tie::Alignment => {
                (Limit::JoinedFunctions, "apart from each other they would lose their alignment".to_owned())
            }
        }
    }
}

/// A function, or several that share bytes.
#[derive(Debug, Clone)]
pub(super) struct Function {
    /// The first byte of its code: the symbol's, or an earlier one where an FDE begins earlier.
    pub(super) start: u64,
    /// Behind the last byte that a symbol covers.
    pub(super) end: u64,
    /// Where the instructions without effect begin that lie before `start` and may be patched; else `start`.
    pub(super) prefix: u64,
    /// The largest power of two that divides the offset of a symbol of it: what the section may have guaranteed.
    pub(super) align: u64,
    /// An FDE describes its first instruction.
    pub(super) described: bool,
    /// The name of a symbol at its start says that it is a part that another function jumps into.
    pub(super) cold: bool,
    /// Its instructions: the piece of [`Text::instructions`] and where in it.
    pub(super) instructions: (usize, std::ops::Range<usize>),
}

impl Function {
    /// Whether a compiler wrote it: it is described, or named as compilers name parts. Others may be compiled or not.
    pub(super) fn is_compiled(&self) -> bool {
        self.described || self.cold
    }
}

/// An executable section that may be divided, or from which references into such sections go.
#[derive(Debug)]
pub(super) struct Text<'a> {
    pub(super) section: u32,
    pub(super) bytes: &'a [u8],
    /// The functions of the section, ascending and apart from each other.
    pub(super) functions: Vec<Function>,
    /// How many places have a function symbol: with one there is nothing to gain.
    pub(super) places: usize,
    /// `joins[i]`: function i stays together with function i + 1. Kept as differences until [`Text::form_parts`].
    pub(super) joins: Vec<i32>,
    /// The reason of each join, with its first function.
    pub(super) ties: Vec<(usize, Tie)>,
    /// For each function its part, ascending; the number of the part's first function.
    pub(super) part: Vec<usize>,
    /// The instructions of all functions, ascending, in the pieces that were decoded apart from each other.
    pub(super) instructions: Vec<Vec<Instruction>>,
    /// A bit for each byte: whether an instruction begins there.
    pub(super) boundaries: Vec<u64>,
    /// All instructions of all functions are known.
    pub(super) decoded: bool,
    /// References from one function to another that have no relocation.
    pub(super) intra_section_refs: Vec<IntraSectionReference>,
    /// Jumps from one function to another without relocation: the displacement and where it leads.
    pub(super) jumps: Vec<(u64, u64)>,
    /// The functions that others lead into by fields too short for a relocation, or by falling into them.
    pub(super) short_branch_links: Vec<usize>,
    /// Addresses in the section that code of it has without a relocation.
    pub(super) address_taken_offsets: Vec<u64>,
    /// A table leads into it whose base is not proved: it is divided, but not understood.
    pub(super) has_loose_tables: bool,
    /// Why it is not understood: its functions are neither distinguished nor followed.
    pub(super) refusal: Option<(Limit, String)>,
    /// Why it may not be divided although it is understood.
    pub(super) undivided: Option<(Limit, String)>,
}

impl Text<'_> {
    /// The section is not understood. The first reason is the one that counts.
    pub(super) fn refuse(&mut self, limit: Limit, detail: impl Into<String>) {
        if self.refusal.is_none() {
            self.refusal = Some((limit, detail.into()));
        }
    }

    /// The section is understood, but may not be divided. The first reason is the one that counts.
    pub(super) fn keep_undivided(&mut self, limit: Limit, detail: impl Into<String>) {
        if self.undivided.is_none() {
            self.undivided = Some((limit, detail.into()));
        }
    }

    /// The function whose code holds this offset; `None` in padding and outside.
    pub(super) fn function_at(&self, offset: u64) -> Option<usize> {
        let found = self.functions.partition_point(|f| f.start <= offset).checked_sub(1)?;
        self.functions.get(found).filter(|f| offset < f.end).map(|_| found)
    }

    /// The function whose code or prefix holds this offset.
    pub(super) fn owner_at(&self, offset: u64) -> Option<usize> {
        let found = self.functions.partition_point(|f| f.end <= offset);
        self.functions.get(found).filter(|f| f.prefix <= offset).map(|_| found)
    }

    /// Metadata says that the bytes from `offset` on belong to the function there, or to the next one.
    pub(super) fn extend_to(&mut self, offset: u64) {
        let next = self.functions.partition_point(|f| f.end <= offset);
        let Some(function) = self.functions.get_mut(next) else {
            return self
                .refuse(Limit::UncoveredCode, format!("metadata of {offset:#x}, which is in no function"));
        };
        let before = self.bytes.get(offset as usize..function.start as usize);
        match before {
            // It is in the function.
            None => {}
            Some(before) if decode::is_padding(before) => function.prefix = function.prefix.min(offset),
            Some(_) => {
                self.refuse(Limit::UncoveredCode, format!("metadata of {offset:#x}, which is in no function"))
            }
        }
    }

    /// The number of the function that begins at this offset.
    pub(super) fn starting_at(&self, offset: u64) -> Option<usize> {
        self.functions.binary_search_by_key(&offset, |f| f.start).ok()
    }

    pub(super) fn instructions_of(&self, function: &Function) -> &[Instruction] {
        let (piece, range) = &function.instructions;
        self.instructions.get(*piece).and_then(|piece| piece.get(range.clone())).unwrap_or(&[])
    }

    /// The instruction that holds the byte at this offset of a function.
    pub(super) fn instruction_at(&self, offset: u64) -> Option<&Instruction> {
        let own = self.instructions_of(self.functions.get(self.function_at(offset)?)?);
        own.get(own.partition_point(|i| i.end() <= offset)).filter(|i| u64::from(i.offset) <= offset)
    }

    pub(super) fn is_boundary(&self, offset: u64) -> bool {
        let word = usize::try_from(offset / 64).ok().and_then(|w| self.boundaries.get(w));
        word.is_some_and(|w| w & (1 << (offset % 64)) != 0)
    }

    /// Whether a function of this part jumps through a register or memory.
    pub(super) fn jumps_indirectly(&self, part: usize) -> bool {
        let own = self.functions.iter().zip(&self.part).skip(part).take_while(|(_, p)| **p == part);
        let mut instructions = own.flat_map(|(f, _)| self.instructions_of(f));
        instructions.any(|i| matches!(i.flow, Flow::JumpRegister | Flow::JumpMemory))
    }

    /// The part that holds this offset of a function.
    pub(super) fn part_at(&self, offset: u64) -> Option<usize> {
        self.part.get(self.function_at(offset)?).copied()
    }

    /// Where a part begins. Padding belongs to the function before it, and what is before the first one to that.
    pub(super) fn part_start(&self, part: usize) -> u64 {
        if part == 0 { 0 } else { self.functions.get(part).map_or(0, |f| f.prefix) }
    }

    /// Keep the functions `a` to `b` together.
    pub(super) fn keep_together(&mut self, a: usize, b: usize, tie: Tie) {
        let (a, b) = (a.min(b), a.max(b));
        if a < b {
            self.ties.push((a, tie));
        }
        for (at, by) in [(a, 1), (b, -1)] {
            if let Some(join) = self.joins.get_mut(at) {
                *join += by;
            }
        }
    }

    /// Keep the function that holds `offset` with the next one if that begins within the reach of a bias. Programs store
    /// `f - 1` where they tag pointers; it looks like an address in the function before.
    pub(super) fn keep_biased_together(&mut self, offset: u64) {
        let Some(function) = self.function_at(offset) else { return };
        let next = self.functions.get(function + 1);
        if next.is_some_and(|next| next.start - offset <= MAX_BIAS) {
            self.keep_together(function, function + 1, Tie::TaggedAddress(offset));
        }
    }

    /// The parts that hold several functions, each with the reason of its first tie.
    pub(super) fn tied_parts(&mut self) -> Vec<TiedPart> {
        self.ties.sort_by_key(|(function, _)| *function);
        let mut parts = Vec::new();
        let mut first = 0;
        for own in self.part.chunk_by(|a, b| a == b) {
            let functions = first..first + own.len();
            first = functions.end;
            let tie = self.ties.partition_point(|(function, _)| *function < functions.start);
            let Some((_, tie)) = self.ties.get(tie).filter(|(function, _)| functions.contains(function))
            else {
                continue;
            };
            let start = self.part_start(functions.start);
            let end = self.functions.get(functions.end).map_or(self.bytes.len() as u64, |next| next.start);
            let (limit, why) = tie.limit();
            parts.push(TiedPart { start, bytes: end.saturating_sub(start), functions, limit, why });
        }
        parts
    }

    /// Whether an address in code is neither that of a function nor that of the next one with a bias. Compilers add what a program
    /// adds to an address (`(uintptr_t)f + 77`), so that it may mean any function.
    pub(super) fn is_far_from_start(&self, offset: u64) -> bool {
        let Some(function) = self.function_at(offset) else { return false };
        let starts = |f: usize| self.functions.get(f).map(|f| f.start);
        starts(function) != Some(offset) && starts(function + 1).is_none_or(|next| next - offset > MAX_BIAS)
    }

    /// Parts begin where the alignment of each function in them can be kept: a part is moved as a whole, and one that begins
    /// at a multiple of 16 can't hold a function that is aligned to 64. It takes in the functions before it instead.
    pub(super) fn keep_aligned_together(&mut self, section_align: u64) {
        let mut align = 1;
        for i in (1..self.functions.len()).rev() {
            let Some(function) = self.functions.get(i) else { continue };
            align = section_align.min(function.align).max(align);
            // Parts have the number of their first function.
            if self.part.get(i) != Some(&i) {
                continue;
            }
            match function.prefix.is_multiple_of(align) {
                true => align = 1,
                false => self.keep_together(i - 1, i, Tie::Alignment),
            }
        }
        self.form_parts();
    }

    /// Work out [`Text::part`] from the joins that were found.
    pub(super) fn form_parts(&mut self) {
        let (mut depth, mut first) = (0, 0);
        self.part.clear();
        for (i, join) in self.joins.iter().enumerate() {
            if depth == 0 {
                first = i;
            }
            self.part.push(first);
            depth += join;
        }
    }

    /// Whether anything would come of dividing it.
    pub(super) fn is_worth_it(&self) -> bool {
        self.places > 1
    }
}

/// A part that holds several functions.
#[derive(Debug)]
pub(super) struct TiedPart {
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) functions: std::ops::Range<usize>,
    pub(super) limit: Limit,
    pub(super) why: String,
}

/// A place in the instructions of a [`Text`] that only goes forward.
#[derive(Debug, Default)]
pub(super) struct InstructionCursor {
    pub(super) function: usize,
    /// The position of the next one in the function's instructions.
    pub(super) next: usize,
}

impl InstructionCursor {
    /// The instruction that holds the byte at this offset, which is not before the one that was asked for last.
    pub(super) fn seek<'t>(&mut self, text: &'t Text<'_>, offset: u64) -> Option<&'t Instruction> {
        while text.functions.get(self.function)?.end <= offset {
            *self = InstructionCursor { function: self.function + 1, next: 0 };
        }
        let own = text.instructions_of(text.functions.get(self.function)?);
        while own.get(self.next)?.end() <= offset {
            self.next += 1;
        }
        own.get(self.next).filter(|i| u64::from(i.offset) <= offset)
    }
}

/// Whether an atom is a section of code that may be divided, by its header.
pub(super) fn is_text(atom: &Atom) -> bool {
    atom.kind == AtomKind::Code && !atom.has(atom_flags::MERGE | atom_flags::LINK_ORDER)
}
