//! A section of code during division: its functions, instructions and references, and the functions that are kept
//! together.
//!
//! Ties only accumulate, and the first reason to keep the section whole counts, so the order of steps does not
//! matter.

use super::division::IntraSectionReference;
use crate::limit::Limit;
use crate::native::decode::{self, Flow, Instruction};
use crate::summary::{Atom, AtomKind, atom_flags};

/// The result of a step of division. The error is the limit that keeps the section whole, with the finding.
pub(super) type SplitOutcome<T = ()> = Result<T, (Limit, String)>;

/// The maximum distance of a tagged address before its function, in bytes.
const MAX_BIAS: u64 = 8;

/// The reason that ties functions into one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tie {
    /// An address in the section, at this offset, that may mean the function or, with a tag, the next one.
    TaggedAddress(u64),
    /// An unnamed address at this offset, which may be computed from an otherwise unreferenced function.
    UnnamedAddress(u64),
    /// A branch too short for a relocation, or code that falls through into the next function.
    Branch,
    /// A distance in a table without a proved base.
    Distance,
    UnwindRecord,
    /// They would lose their alignment if moved apart.
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
    /// The start of its code: that of the symbol, or of an FDE that begins earlier.
    pub(super) start: u64,
    /// The end of the code, by its symbol.
    pub(super) end: u64,
    /// The start of the patchable padding before `start`, or `start`.
    pub(super) prefix: u64,
    /// The largest power of two that divides the offset of a symbol of it. The section may guarantee this alignment.
    pub(super) align: u64,
    /// An FDE describes its first instruction.
    pub(super) described: bool,
    /// A symbol at its start has the name of a part that another function jumps into.
    pub(super) cold: bool,
    /// Its instructions: the index in [`Text::instructions`], and the range in that list.
    pub(super) instructions: (usize, std::ops::Range<usize>),
}

impl Function {
    /// Whether a compiler provably wrote it: it has an FDE, or the name of a compiler's part.
    pub(super) fn is_compiled(&self) -> bool {
        self.described || self.cold
    }
}

/// An executable section that may be divided, or that refers to such sections.
#[derive(Debug, Default)]
pub(super) struct Text<'a> {
    pub(super) section: u32,
    pub(super) bytes: &'a [u8],
    /// The functions in ascending order, without overlaps.
    pub(super) functions: Vec<Function>,
    /// The number of places with a function symbol. With one, division has no gain.
    pub(super) places: usize,
    /// `joins[i]`: function i stays together with function i + 1. [`Text::form_parts`] sums up these differences.
    pub(super) joins: Vec<i32>,
    /// The reason of each join, with its first function.
    pub(super) ties: Vec<(usize, Tie)>,
    /// By function: its part, which has the number of its first function.
    pub(super) part: Vec<usize>,
    /// The instructions of all functions in ascending order, in a list for each decoding task.
    pub(super) instructions: Vec<Vec<Instruction>>,
    /// By byte: a bit that says whether an instruction begins there.
    pub(super) boundaries: Vec<u64>,
    /// All instructions of all functions are known.
    pub(super) decoded: bool,
    /// References from one function to another that have no relocation.
    pub(super) intra_section_refs: Vec<IntraSectionReference>,
    /// Jumps from one function to another without a relocation: the displacement and the target.
    pub(super) jumps: Vec<(u64, u64)>,
    /// The functions that others reach by short fields or by falling through.
    pub(super) short_branch_links: Vec<usize>,
    /// Addresses in the section that its code takes without a relocation.
    pub(super) address_taken_offsets: Vec<u64>,
    /// A table without a proved base leads into it. It is divided, but its values are not analysed.
    pub(super) has_loose_tables: bool,
    /// The reason why it is not understood. Its functions are neither divided nor analysed.
    pub(super) refusal: Option<(Limit, String)>,
    /// The reason why it is not divided although it is understood.
    pub(super) undivided: Option<(Limit, String)>,
}

impl Text<'_> {
    /// The section is not understood. The first reason is the one that counts.
    pub(super) fn refuse(&mut self, limit: Limit, detail: impl Into<String>) {
        self.refusal.get_or_insert_with(|| (limit, detail.into()));
    }

    /// The section is understood, but may not be divided. The first reason is the one that counts.
    pub(super) fn keep_undivided(&mut self, limit: Limit, detail: impl Into<String>) {
        self.undivided.get_or_insert_with(|| (limit, detail.into()));
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

    /// Extend the function at `offset` or the next one to begin there, as metadata says.
    pub(super) fn extend_to(&mut self, offset: u64) {
        let next = self.functions.partition_point(|f| f.end <= offset);
        let Some(function) = self.functions.get_mut(next) else {
            return self
                .refuse(Limit::UncoveredCode, format!("metadata of {offset:#x}, which is in no function"));
        };
        let before = self.bytes.get(offset as usize..function.start as usize);
        match before {
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

    /// The part of this offset of a function.
    pub(super) fn part_at(&self, offset: u64) -> Option<usize> {
        self.part.get(self.function_at(offset)?).copied()
    }

    /// The start of a part. Padding belongs to the function before it, and bytes before the first function to this
    /// one.
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

    /// Keep the function that holds `offset` with the next one, if that begins within the reach of a tag. Programs
    /// that tag pointers store `f - 1`, which looks like an address in the function before.
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

    /// Whether an address in code is neither that of a function nor that of the next one with a tag. Compilers add a
    /// program's offset to an address (`(uintptr_t)f + 77`), so it may mean any function.
    pub(super) fn is_far_from_start(&self, offset: u64) -> bool {
        let Some(function) = self.function_at(offset) else { return false };
        let starts = |f: usize| self.functions.get(f).map(|f| f.start);
        starts(function) != Some(offset) && starts(function + 1).is_none_or(|next| next - offset > MAX_BIAS)
    }

    /// Make parts begin where the alignment of all their functions can be kept. A part is moved as a whole, so one
    /// that begins at a multiple of 16 can't have a function that is aligned to 64. Such a part is joined with the
    /// functions before it.
    pub(super) fn keep_aligned_together(&mut self, section_align: u64) {
        let mut align = 1;
        for i in (1..self.functions.len()).rev() {
            let Some(function) = self.functions.get(i) else { continue };
            align = section_align.min(function.align).max(align);
            // A part has the number of its first function.
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

    /// Whether a division has a gain.
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

/// A place in the instructions of a [`Text`] that only moves forward.
#[derive(Debug, Default)]
pub(super) struct InstructionCursor {
    pub(super) function: usize,
    /// The position of the next one in the function's instructions.
    pub(super) next: usize,
}

impl InstructionCursor {
    /// The instruction that holds the byte at this offset. Offsets must not decrease.
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
