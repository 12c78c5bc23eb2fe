//! Divides executable sections into functions where the boundaries and every reference across them are proved.
//!
//! A section is divided if sized function symbols and padding cover it ([`extents`]), every function decodes from end to
//! end ([`code`]), every relocation that means a place in it means one function ([`references`]), and PC-relative tables
//! that lead into it are jump tables with a proved base ([`tables`]). Anything else leaves the section one atom, with a
//! named limit. Functions that a short branch or a fall through ties stay together.
//!
//! Sections of data are divided into objects where that is proved ([`objects`], [`pointers`]), and jump tables are
//! cut off ([`cut`]).
//!
//! Left out: sections of groups with several functions.

mod code;
mod cut;
mod dataflow;
mod extents;
mod in_frame;
mod objects;
mod pointers;
mod references;
mod tables;
mod unnamed;

pub(crate) use extents::{is_part, part_of};

use object::endian::LittleEndian as LE;

use super::decode::{Flow, Instruction};
use super::relocations::{self, Rela};
use super::sections::{self, is_eh_frame};
use super::symbols::SectionAtoms;
use super::tables::{Result, Tables, record};
use crate::extract::ParallelMap;
use crate::ids::AtomIdx;
use crate::limit::{Limit, LimitRecord, Severity};
use crate::summary::{Atom, AtomKind, Granularity, SummaryOptions, Symbol, atom_flags};

/// What a divided section refers to and how it is referred to, by section and offset: atoms don't exist yet.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Where the parts begin, for each divided section, ascending; the first is 0, and there are two at least.
    pub(crate) parts: Vec<(u32, Vec<u64>)>,
    /// For relocations by section symbol what they mean, sorted by place.
    pub(crate) retargets: Vec<(SectionPlace, SectionPlace)>,
    /// References that the assembler resolved between parts, sorted by place.
    pub(crate) resolved: Vec<Resolved>,
    /// Jump tables and whose they are, sorted by place.
    pub(crate) owned: Vec<Owned>,
    /// Every reference to a place in code whose target is known, in divided sections and others: (from, to), sorted.
    pub(crate) exact: Vec<(SectionPlace, SectionPlace)>,
    /// The sections that hold functions that decode and nothing else, sorted.
    pub(crate) understood: Vec<u32>,
    /// Parts of divided data sections that refer to all other parts of theirs, each by its start.
    pub(crate) hubs: Vec<SectionPlace>,
}

/// An ELF section index and an offset in it, in bytes.
pub(crate) type SectionPlace = (u32, u64);

/// The position of a [`Text`] in the list of them and an offset in it, in bytes.
type TextPlace = (usize, u64);

/// A reference that the assembler resolved, from one part of a section to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Resolved {
    pub(crate) section: u32,
    pub(crate) field: u64,
    /// What the field leads to, from the start of the section.
    pub(crate) target: u64,
    /// The first byte behind the instruction.
    pub(crate) end: u64,
    /// It is a branch, and no operand with an address.
    pub(crate) branch: bool,
}

/// A jump table of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owned {
    pub(crate) section: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Some place in the function that jumps through it.
    pub(crate) owner: SectionPlace,
}

/// How far before a function an address still means it, in bytes: tags of pointers are smaller.
const MAX_BIAS: u64 = 8;

/// A function, or several that share bytes.
#[derive(Debug, Clone)]
struct Function {
    /// Of the code that belongs to it: the symbol, or earlier where an FDE begins earlier.
    start: u64,
    /// Behind the last byte that a symbol covers.
    end: u64,
    /// The largest power of two that divides the offset of a symbol of it: what the section may have guaranteed.
    align: u64,
    /// An FDE describes its first instruction.
    described: bool,
    /// The name of a symbol at its start says that it is a part that another function jumps into.
    cold: bool,
    /// Its instructions: the piece of [`Text::instructions`] and where in it.
    instructions: (usize, std::ops::Range<usize>),
}

impl Function {
    /// Whether a compiler wrote it: it is described, or named as compilers name parts. Others may be compiled or not.
    fn is_compiled(&self) -> bool {
        self.described || self.cold
    }
}

/// An executable section that may be divided, or from which references into such sections go.
#[derive(Debug)]
struct Text<'a> {
    section: u32,
    bytes: &'a [u8],
    /// The functions of the section, ascending and apart from each other.
    functions: Vec<Function>,
    /// How many places have a function symbol: with one there is nothing to gain.
    places: usize,
    /// `ties[i]`: function i stays together with function i + 1. Kept as differences until [`Text::close_ties`].
    ties: Vec<i32>,
    /// For each function its part, ascending; the number of the part's first function.
    part: Vec<usize>,
    /// Of all functions, ascending, in the pieces that were decoded apart from each other.
    instructions: Vec<Vec<Instruction>>,
    /// A bit for each byte: whether an instruction begins there.
    boundaries: Vec<u64>,
    /// All instructions of all functions are known.
    decoded: bool,
    /// References from one function to another that have no relocation.
    intra_section_refs: Vec<Resolved>,
    /// Jumps from one function to another without relocation: the displacement and where it leads.
    jumps: Vec<(u64, u64)>,
    /// The functions that others lead into by fields too short for a relocation, or by falling into them.
    short: Vec<usize>,
    /// Addresses in the section that code of it has without a relocation.
    formed: Vec<u64>,
    /// A table leads into it whose base is not proved: it is divided, but not understood.
    has_loose_tables: bool,
    refusal: Option<(Limit, String)>,
    /// Why it may not be divided although it is understood.
    whole: Option<(Limit, String)>,
}

impl Text<'_> {
    /// Keep the section whole. The first reason is the one that counts.
    fn refuse(&mut self, limit: Limit, detail: impl Into<String>) {
        if self.refusal.is_none() {
            self.refusal = Some((limit, detail.into()));
        }
    }

    /// Keep the section whole, for a reason that says nothing of what is in it.
    fn keep_whole(&mut self, limit: Limit, detail: impl Into<String>) {
        if self.whole.is_none() {
            self.whole = Some((limit, detail.into()));
        }
    }

    /// The function whose code holds this offset; `None` in padding and outside.
    fn function_at(&self, offset: u64) -> Option<usize> {
        let found = self.functions.partition_point(|f| f.start <= offset).checked_sub(1)?;
        self.functions.get(found).filter(|f| offset < f.end).map(|_| found)
    }

    /// The number of the function that begins at this offset.
    fn starting_at(&self, offset: u64) -> Option<usize> {
        self.functions.binary_search_by_key(&offset, |f| f.start).ok()
    }

    fn instructions_of(&self, function: &Function) -> &[Instruction] {
        let (piece, range) = &function.instructions;
        self.instructions.get(*piece).and_then(|piece| piece.get(range.clone())).unwrap_or(&[])
    }

    /// The instruction that holds the byte at this offset of a function.
    fn instruction_at(&self, offset: u64) -> Option<&Instruction> {
        let own = self.instructions_of(self.functions.get(self.function_at(offset)?)?);
        own.get(own.partition_point(|i| i.end() <= offset)).filter(|i| u64::from(i.offset) <= offset)
    }

    fn is_boundary(&self, offset: u64) -> bool {
        let word = usize::try_from(offset / 64).ok().and_then(|w| self.boundaries.get(w));
        word.is_some_and(|w| w & (1 << (offset % 64)) != 0)
    }

    /// Whether a function of this part jumps through a register or memory.
    fn jumps_indirectly(&self, part: usize) -> bool {
        let own = self.functions.iter().zip(&self.part).skip(part).take_while(|(_, p)| **p == part);
        let mut instructions = own.flat_map(|(f, _)| self.instructions_of(f));
        instructions.any(|i| matches!(i.flow, Flow::JumpRegister | Flow::JumpMemory))
    }

    /// The part that holds this offset of a function.
    fn part_at(&self, offset: u64) -> Option<usize> {
        self.part.get(self.function_at(offset)?).copied()
    }

    /// Where a part begins. Padding belongs to the function before it, and what is before the first one to that.
    fn part_start(&self, part: usize) -> u64 {
        if part == 0 { 0 } else { self.functions.get(part).map_or(0, |f| f.start) }
    }

    /// Keep the functions `a` to `b` together.
    fn tie(&mut self, a: usize, b: usize) {
        let (a, b) = (a.min(b), a.max(b));
        for (at, by) in [(a, 1), (b, -1)] {
            if let Some(tie) = self.ties.get_mut(at) {
                *tie += by;
            }
        }
    }

    /// Keep the function that holds `offset` with the next one if that begins within the reach of a bias. Programs store
    /// `f - 1` where they tag pointers; it looks like an address in the function before.
    fn tie_biased(&mut self, offset: u64) {
        let Some(function) = self.function_at(offset) else { return };
        let next = self.functions.get(function + 1);
        if next.is_some_and(|next| next.start - offset <= MAX_BIAS) {
            self.tie(function, function + 1);
        }
    }

    /// Whether an address in code is neither that of a function nor that of the next one with a bias. Compilers add what a program
    /// adds to an address (`(uintptr_t)f + 77`), so that it may mean any function.
    fn is_far_from_start(&self, offset: u64) -> bool {
        let Some(function) = self.function_at(offset) else { return false };
        let starts = |f: usize| self.functions.get(f).map(|f| f.start);
        starts(function) != Some(offset) && starts(function + 1).is_none_or(|next| next - offset > MAX_BIAS)
    }

    /// Parts begin where the alignment of each function in them can be kept: a part is moved as a whole, and one that begins
    /// at a multiple of 16 can't hold a function that is aligned to 64. It takes in the functions before it instead.
    fn tie_aligned(&mut self, section_align: u64) {
        let mut align = 1;
        for i in (1..self.functions.len()).rev() {
            let Some(function) = self.functions.get(i) else { continue };
            align = section_align.min(function.align).max(align);
            // Parts have the number of their first function.
            if self.part.get(i) != Some(&i) {
                continue;
            }
            match function.start.is_multiple_of(align) {
                true => align = 1,
                false => self.tie(i - 1, i),
            }
        }
        self.close_ties();
    }

    /// Work out [`Text::part`] from the ties that were found.
    fn close_ties(&mut self) {
        let (mut depth, mut first) = (0, 0);
        self.part.clear();
        for (i, tie) in self.ties.iter().enumerate() {
            if depth == 0 {
                first = i;
            }
            self.part.push(first);
            depth += tie;
        }
    }

    /// Whether anything would come of dividing it.
    fn is_worth_it(&self) -> bool {
        self.places > 1
    }
}

/// A place in the instructions of a [`Text`] that only goes forward.
#[derive(Debug, Default)]
struct InstructionCursor {
    function: usize,
    /// The position of the next one in the function's instructions.
    next: usize,
}

impl InstructionCursor {
    /// The instruction that holds the byte at this offset, which is not before the one that was asked for last.
    fn seek<'t>(&mut self, text: &'t Text<'_>, offset: u64) -> Option<&'t Instruction> {
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

/// All that the steps of dividing a module share.
struct Context<'a, 't> {
    tables: &'t Tables<'a>,
    atoms: &'t [Atom],
    symbols: &'t [Symbol],
    /// Runs the pieces of what can be done in pieces.
    each: ParallelMap<'t>,
    /// By section index: the position in the list of [`Text`]s.
    text_of: Vec<Option<u32>>,
    /// Sections of data that may be divided, ascending.
    data: Vec<u32>,
    /// Relocations of every section but debug information, by (section, place).
    relas: Vec<(u32, Rela)>,
    /// By section index: where its relocations begin in that list.
    rela_starts: Vec<usize>,
}

impl Context<'_, '_> {
    /// The relocations of a section, by place.
    fn relas_of(&self, section: u32) -> &[(u32, Rela)] {
        let start = |section: usize| self.rela_starts.get(section).copied().unwrap_or(self.relas.len());
        self.relas.get(start(section as usize)..start(section as usize + 1)).unwrap_or(&[])
    }

    fn text_of(&self, section: u32) -> Option<usize> {
        self.text_of.get(section as usize).copied().flatten().map(|t| t as usize)
    }

    /// The position of a section in the list of [`objects::Data`].
    fn data_of(&self, section: u32) -> Option<usize> {
        self.data.binary_search(&section).ok()
    }

    fn describe(&self, section: u32) -> String {
        self.tables.describe(section)
    }

    /// The section that an atom is or was made from.
    fn section_of(&self, atom: AtomIdx) -> Option<u32> {
        self.atoms.get(atom.index()).map(|a| a.section).filter(|s| *s != Atom::NO_SECTION)
    }
}

/// Decide how sections are divided. Where values are followed, those of a single function are read too, for [`Plan::understood`].
/// `atoms` has an atom for each section, as at the granularity of sections.
///
/// Time and memory are linear in the size of the object, but for sorting and binary searches.
pub(crate) fn plan(
    tables: &Tables<'_>,
    by_section: &SectionAtoms,
    atoms: &[Atom],
    symbols: &[Symbol],
    asked: SummaryOptions,
    each: ParallelMap<'_>,
    limits: &mut Vec<LimitRecord>,
) -> Result<Plan> {
    let every = asked.granularity >= Granularity::Pointers;
    // Such a module is passed through as it is.
    if limits.iter().any(|l| l.limit.severity() >= Severity::Module) {
        return Ok(Plan::default());
    }
    let mut texts = candidates(tables, atoms, symbols)?;
    let mut data = objects::candidates(tables, atoms, symbols);
    if data.is_empty() && (texts.is_empty() || !every && !texts.iter().any(Text::is_worth_it)) {
        return Ok(Plan::default());
    }
    let mut text_of = vec![None; tables.sections.len()];
    for (i, text) in (0u32..).zip(&texts) {
        if let Some(slot) = text_of.get_mut(text.section as usize) {
            *slot = Some(i);
        }
    }
    // Emission makes every address in debug information explicit, so that it is in nobody's way.
    let relas = relocations_beside_debug(tables, by_section)?;
    let mut rela_starts = Vec::with_capacity(tables.sections.len());
    for (i, (section, _)) in relas.iter().enumerate() {
        if *section as usize >= rela_starts.len() {
            rela_starts.resize(*section as usize + 1, i);
        }
    }
    let context = Context {
        tables,
        atoms,
        symbols,
        each,
        text_of,
        data: data.iter().map(|d| d.section).collect(),
        relas,
        rela_starts,
    };
    ordered_and_grouped(&context, &mut texts);
    extents::read(&context, &mut texts)?;
    for text in &mut texts {
        code::read(&context, text);
    }
    let mut found = references::read(&context, &mut texts)?;
    unnamed::refuse(&context, &mut texts, &found);
    let claimed = tables::claim(&context, &mut texts, &mut found);
    references::one_meaning_each(&mut texts, &mut found.retargets);
    for text in &mut texts {
        text.close_ties();
        text.tie_aligned(tables.sections.get(text.section as usize).map_or(1, |s| s.align.max(1)));
    }
    let mut plan = assemble(&texts, found.retargets, claimed);
    pointers::divide(&context, &texts, &mut data, &mut plan, limits)?;
    for text in texts.iter().filter(|t| t.is_worth_it()) {
        if let Some((limit, detail)) = text.whole.as_ref().or(text.refusal.as_ref()) {
            let detail = format!("section {}: {detail}", tables.describe(text.section));
            limits.push(LimitRecord {
                bytes: text.bytes.len() as u64,
                ..record(*limit, Some(text.section), detail)
            });
        }
    }
    Ok(plan)
}

/// The executable sections with a function symbol.
fn candidates<'a>(tables: &Tables<'a>, atoms: &[Atom], symbols: &[Symbol]) -> Result<Vec<Text<'a>>> {
    let places = extents::places(atoms, symbols);
    let mut texts: Vec<Text<'a>> = Vec::new();
    for run in places.chunk_by(|a, b| a.0 == b.0) {
        let Some((section, _)) = run.first() else { continue };
        let Some(header) = tables.sections.get(*section as usize) else { continue };
        if header.ty != object::elf::SHT_PROGBITS.0 || header.size >= 1 << 31 {
            continue;
        }
        texts.push(Text {
            section: *section,
            bytes: tables.data(*section)?,
            functions: Vec::new(),
            places: run.len(),
            ties: Vec::new(),
            part: Vec::new(),
            instructions: Vec::new(),
            boundaries: Vec::new(),
            decoded: false,
            intra_section_refs: Vec::new(),
            jumps: Vec::new(),
            short: Vec::new(),
            formed: Vec::new(),
            has_loose_tables: false,
            refusal: None,
            whole: None,
        });
    }
    Ok(texts)
}

/// Whether an atom is a section of code that may be divided, by its header.
pub(crate) fn is_text(atom: &Atom) -> bool {
    atom.kind == AtomKind::Code && !atom.has(atom_flags::MERGE | atom_flags::LINK_ORDER)
}

/// The relocations of every section but debug information, by section and place.
pub(crate) fn relocations_beside_debug(
    tables: &Tables<'_>,
    by_section: &SectionAtoms,
) -> Result<Vec<(u32, Rela)>> {
    let mut all = Vec::new();
    for (i, section) in tables.sections.iter().enumerate() {
        if section.ty != object::elf::SHT_RELA.0 {
            continue;
        }
        let Some(target) = tables.sections.get(section.info as usize) else { continue };
        let name = tables.name(target.name);
        let beside = sections::atom_kind(target, name) == AtomKind::Debug;
        let unwind = is_eh_frame(target.ty, name);
        if beside || by_section.get(section.info).is_none() && !unwind {
            continue;
        }
        let entries = relocations::entries(tables, i as u32, section)?;
        all.reserve(entries.len());
        let telling = entries.iter().filter(|rela| !(unwind && relocations::is_left_over(rela)));
        all.extend(telling.map(|rela| (section.info, *rela)));
    }
    let key = |(section, rela): &(u32, Rela)| (*section, rela.r_offset.get(LE));
    if !all.is_sorted_by_key(key) {
        all.sort_by_key(key);
    }
    Ok(all)
}

/// Sections that are tied to others as wholes.
fn ordered_and_grouped(context: &Context<'_, '_>, texts: &mut [Text<'_>]) {
    for atom in context.atoms {
        if let Some(text) = context.text_of(atom.section).and_then(|t| texts.get_mut(t))
            && atom.group.is_some()
        {
            text.keep_whole(Limit::GroupedSection, "several functions in a section of a group");
        }
        let after = atom.link_order.and_then(|a| context.section_of(a)).and_then(|s| context.text_of(s));
        if let Some(text) = after.and_then(|t| texts.get_mut(t)) {
            text.keep_whole(
                Limit::OrderedSection,
                format!("section {} is ordered after it", context.describe(atom.section)),
            );
        }
    }
}

/// Put together what holds for the sections that are divided.
fn assemble(texts: &[Text<'_>], retargets: Vec<references::Retargeted>, owned: Vec<tables::Claimed>) -> Plan {
    let mut plan = Plan::default();
    let mut divided = vec![false; texts.len()];
    for (text, divided) in texts.iter().zip(&mut divided) {
        let mut parts: Vec<u64> = text.part.iter().map(|p| text.part_start(*p)).collect();
        parts.dedup();
        if text.refusal.is_some() {
            continue;
        }
        if !text.has_loose_tables && text.functions.iter().all(Function::is_compiled) {
            plan.understood.push(text.section);
        }
        let operands = text.intra_section_refs.iter().filter(|c| !c.branch);
        plan.exact.extend(operands.map(|c| ((c.section, c.field), (c.section, c.target))));
        if text.whole.is_some() || parts.len() < 2 {
            continue;
        }
        *divided = true;
        plan.parts.push((text.section, parts));
        let apart = |c: &&Resolved| text.part_at(c.field) != text.part_at(c.target);
        plan.resolved.extend(text.intra_section_refs.iter().filter(apart));
    }
    let is_divided = |text: usize| divided.get(text).copied().unwrap_or(false);
    let section = |text: usize| texts.get(text).map_or(0, |t| t.section);
    plan.exact.extend(retargets.iter().map(|r| (r.at, (section(r.text), r.target))));
    plan.exact.sort_unstable();
    plan.understood.sort_unstable();
    let known = retargets.into_iter().filter(|r| is_divided(r.text));
    plan.retargets = known.map(|r| (r.at, (section(r.text), r.target))).collect();
    for claimed in owned.into_iter().filter(|c| is_divided(c.owner.0)) {
        let owner = (section(claimed.owner.0), claimed.owner.1);
        plan.owned.push(Owned { section: claimed.section, start: claimed.start, end: claimed.end, owner });
    }
    plan.resolved.sort_unstable();
    plan.retargets.sort_unstable();
    plan.owned.sort_unstable();
    plan
}
