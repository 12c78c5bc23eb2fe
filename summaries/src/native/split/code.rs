//! Decodes the functions of a section, and finds the references in it that the assembler resolved.
//!
//! Every byte of a function must belong to an instruction, and every relocation to a field of one, so no reference is
//! hidden. A branch or operand without a relocation may lead into another function. It becomes a relocation if its
//! field has 32 bits or it is a short jump that can be relaxed ([`may_be_relaxed`]). Otherwise it ties the functions.
//! Code that falls through ties a function to the next. A last call does not fall through if the callee is known not
//! to return, or if the function is a compiler's part by its name. With an FDE, something must be on the stack, as
//! the psABI requires for a call. Without one, the next function must not find its way back ([`in_frame`]).

use object::endian::LittleEndian as LE;

use super::division::{IntraSectionReference, SplitContext};
use super::in_frame;
use super::text::{Function, SplitOutcome, Text, Tie};
use crate::limit::Limit;
use crate::models::NORETURN;
use crate::native::decode::{self, Field, Flow, Instruction};
use crate::native::relocations::types::R_X86_64_NONE;
use crate::native::relocations::{Rela, symbol_of, type_of, width};
use crate::parallel::collect;
use crate::summary::SHORT_JUMP;

/// Decode the section and form its parts. A failure refuses it, and [`Text::decoded`] says how far decoding came.
pub(super) fn read(context: &SplitContext<'_, '_>, text: &mut Text<'_>) {
    text.boundaries = vec![0; text.bytes.len() / 64 + 1];
    text.form_parts();
    // A section that is refused for its symbols may be anything, and is not decoded.
    if text.refusal.is_some() && text.functions.iter().any(|f| !f.described) {
        return;
    }
    let decoded = decode_functions(context, text).and_then(|()| check_relocations(context, text));
    if let Err((limit, detail)) = decoded {
        text.refuse(limit, detail);
        return;
    }
    text.decoded = true;
    if let Err((limit, detail)) = follow(context, text) {
        text.refuse(limit, detail);
    }
    text.form_parts();
}

/// The size of a decoding task in bytes, large enough to be worth it.
const PIECE: u64 = 1 << 15;

fn decode_functions(context: &SplitContext<'_, '_>, text: &mut Text<'_>) -> SplitOutcome {
    let pieces: Vec<&[Function]> =
        text.functions.chunk_by(|a, b| a.start / PIECE == b.start / PIECE).collect();
    let behind = |piece: usize| {
        let before = piece.checked_sub(1).and_then(|before| pieces.get(before));
        before.and_then(|before| before.last()).map_or(0, |last| last.end)
    };
    let section_align = context.tables.sections.get(text.section as usize).map_or(1, |s| s.align.max(1));
    let decode_piece = |piece: usize| {
        let own = pieces.get(piece).copied().unwrap_or(&[]);
        decode_run(text.bytes, section_align, own, behind(piece))
    };
    let mut decoded = Vec::with_capacity(pieces.len());
    for piece in collect(context.parallel_map, pieces.len(), decode_piece) {
        decoded.push(piece?);
    }
    gap(text.bytes, behind(pieces.len()), text.bytes.len() as u64, section_align)?;
    let mut functions = text.functions.iter_mut();
    for (piece, run) in decoded.into_iter().enumerate() {
        let mut first = 0;
        for (end, function) in run.ends.into_iter().zip(&mut functions) {
            function.instructions = (piece, first..end);
            first = end;
        }
        let words = text.boundaries.get_mut(run.first_word..).unwrap_or(&mut []);
        words.iter_mut().zip(run.boundaries).for_each(|(all, own)| *all |= own);
        text.instructions.push(run.instructions);
    }
    Ok(())
}

/// The decoded functions of a task, which follow each other.
struct DecodedRun {
    instructions: Vec<Instruction>,
    /// By function: the end of its instructions.
    ends: Vec<usize>,
    /// The word of [`Text::boundaries`] that `boundaries` begins with.
    first_word: usize,
    boundaries: Vec<u64>,
}

/// Decode functions that follow each other; the gap before the first one begins at `behind`.
fn decode_run(
    bytes: &[u8],
    section_align: u64,
    functions: &[Function],
    mut behind: u64,
) -> SplitOutcome<DecodedRun> {
    let start = functions.first().map_or(0, |f| f.start) as usize;
    let end = functions.last().map_or(0, |f| f.end) as usize;
    let mut run = DecodedRun {
        instructions: Vec::with_capacity(end.saturating_sub(start) / 3),
        ends: Vec::with_capacity(functions.len()),
        first_word: start / 64,
        boundaries: vec![0; (end / 64 + 1).saturating_sub(start / 64)],
    };
    for function in functions {
        let own_align = 1u64.checked_shl(function.start.trailing_zeros()).unwrap_or(section_align);
        gap(bytes, behind, function.start, section_align.min(own_align))?;
        behind = function.end;
        let first = run.instructions.len();
        let own = slice(bytes, function.start, function.end);
        decode::decode(own, function.start as u32, &mut run.instructions)
            .map_err(|at| (Limit::UndecodableCode, format!("no instruction at {at:#x}")))?;
        for instruction in run.instructions.get(first..).unwrap_or(&[]) {
            let at = instruction.offset as usize;
            if let Some(word) = run.boundaries.get_mut(at / 64 - start / 64) {
                *word |= 1 << (at % 64);
            }
        }
        run.ends.push(run.instructions.len());
    }
    Ok(run)
}

fn slice(bytes: &[u8], start: u64, end: u64) -> &[u8] {
    bytes.get(start as usize..end as usize).unwrap_or(&[])
}

/// Check that a gap between functions only aligns the next one, to at most `align`. Free Pascal, D compilers and `ld
/// -r` pad with zeros. As many zeros as the alignment may be data, such as a prefix of the next function.
fn gap(bytes: &[u8], start: u64, end: u64, align: u64) -> SplitOutcome {
    match decode::is_alignment(slice(bytes, start, end), align) {
        true => Ok(()),
        false => Err((Limit::UncoveredCode, format!("bytes of no function at {start:#x}"))),
    }
}

/// Check that each relocation is a field of an instruction.
fn check_relocations(context: &SplitContext<'_, '_>, text: &Text<'_>) -> SplitOutcome {
    let mut instructions = text.instructions.iter().flatten().peekable();
    let mut field_end = 0;
    for (_, rela) in context.relas_of(text.section) {
        let (place, ty) = (rela.r_offset.get(LE), type_of(rela));
        while instructions.peek().is_some_and(|i| i.end() <= place) {
            instructions.next();
        }
        let bad =
            |what| Err((Limit::UnplacedRelocation, format!("relocation of type {ty} at {place:#x}: {what}")));
        let Some(instruction) = instructions.peek().filter(|i| u64::from(i.offset) <= place) else {
            // R_X86_64_NONE writes nothing, and may be anywhere.
            match ty {
                R_X86_64_NONE => continue,
                _ => return bad("in no instruction"),
            }
        };
        let Some(width) = width(ty) else { continue };
        let in_instruction = (place - u64::from(instruction.offset)) as u8;
        let is_field = |(at, size): (u8, u8)| at == in_instruction && size == width;
        if !is_field(instruction.displacement()) && !is_field(instruction.immediate()) {
            return bad("no field of an instruction");
        }
        if place < field_end {
            return bad("a second one of its field");
        }
        field_end = place + u64::from(width);
    }
    Ok(())
}

/// Collect the references between functions without a relocation, and join the functions that must stay together.
fn follow(context: &SplitContext<'_, '_>, text: &mut Text<'_>) -> SplitOutcome {
    let mut starts = Vec::with_capacity(text.instructions.len() + 1);
    for (index, function) in text.functions.iter().enumerate() {
        starts.resize(starts.len().max(function.instructions.0 + 1), index);
    }
    starts.push(text.functions.len());
    let of_piece = |piece: usize| match starts.get(piece..piece + 2) {
        Some([first, end]) => follow_run(context, text, *first..*end),
        _ => Ok(FollowedRun::default()),
    };
    let mut found = FollowedRun::default();
    for run in collect(context.parallel_map, starts.len().saturating_sub(1), of_piece) {
        let mut run = run?;
        found.joins.append(&mut run.joins);
        found.intra_section_refs.append(&mut run.intra_section_refs);
        found.jumps.append(&mut run.jumps);
        found.biased.append(&mut run.biased);
    }
    let FollowedRun { joins, intra_section_refs, jumps, biased } = found;
    for (a, b) in &joins {
        // The last function has no next one.
        text.keep_together(*a, (*b).min(text.functions.len().saturating_sub(1)), Tie::Branch);
    }
    for target in &biased {
        text.keep_biased_together(*target);
    }
    text.address_taken_offsets = biased;
    text.short_branch_links = joins.iter().filter(|(a, b)| a != b).map(|(_, b)| *b).collect();
    text.intra_section_refs = intra_section_refs;
    text.jumps = jumps;
    Ok(())
}

/// The references of functions that follow each other.
#[derive(Default)]
struct FollowedRun {
    /// Pairs of functions that are kept together, by number.
    joins: Vec<(usize, usize)>,
    intra_section_refs: Vec<IntraSectionReference>,
    jumps: Vec<(u64, u64)>,
    /// Addresses that may mean the next function ([`Text::keep_biased_together`]).
    biased: Vec<u64>,
}

fn follow_run(
    context: &SplitContext<'_, '_>,
    text: &Text<'_>,
    functions: std::ops::Range<usize>,
) -> SplitOutcome<FollowedRun> {
    let relas = context.relas_of(text.section);
    let start = text.functions.get(functions.start).map_or(0, |f| f.start);
    let mut next = relas.partition_point(|(_, r)| r.r_offset.get(LE) < start);
    let mut found = FollowedRun::default();
    let FollowedRun { joins, intra_section_refs, jumps, biased } = &mut found;
    for (index, function) in text.functions.iter().enumerate().take(functions.end).skip(functions.start) {
        let own = text.instructions_of(function);
        for instruction in own {
            if instruction.target().is_none() || is_relocated(relas, &mut next, instruction) {
                continue;
            }
            if leads_to_end(text, index, instruction) {
                joins.push((index, index + 1));
                continue;
            }
            let (to, target) = destination(text, index, instruction)?;
            if matches!(instruction.field, Field::RipRelative { .. }) {
                let here = target == instruction.end();
                if text.is_far_from_start(target) && !here && !is_label(text, Some(index), target) {
                    let (at, what) = (instruction.offset, "the middle of a function");
                    let detail = format!("the instruction at {at:#x} has the address of {target:#x}, {what}");
                    return Err((Limit::AmbiguousTarget, detail));
                }
                biased.push(target);
            }
            if to == index {
                continue;
            }
            if instruction.is_jump() {
                jumps.push((instruction.displacement_at(), target));
            }
            let field = instruction.displacement_at();
            let mut resolved = |end, branch| {
                intra_section_refs.push(IntraSectionReference {
                    section: text.section,
                    field,
                    target,
                    end,
                    branch,
                });
            };
            match instruction.displacement().1 {
                4 => resolved(instruction.end(), instruction.field == Field::Branch),
                _ if may_be_relaxed(text, index, instruction) => resolved(field + 4, true),
                _ => joins.push((index, to)),
            }
        }
        let falls = match own.last().map(|i| i.flow) {
            Some(Flow::Next | Flow::Conditional) => true,
            Some(Flow::Call | Flow::IndirectCall) if function.cold => false,
            Some(Flow::Call | Flow::IndirectCall) => {
                let known = own.last().is_some_and(|call| is_noreturn(context, text.section, call));
                let falls = match function.described {
                    true => in_frame::is_on_top(text, function),
                    false => !in_frame::ends(text, index),
                };
                falls && !known
            }
            _ => false,
        };
        if falls {
            joins.push((index, index + 1));
        }
    }
    Ok(found)
}

/// Whether `target`, whose address function `from` of the same section takes, looks like a label. It is an
/// instruction with a branch to it, or one behind a call, a jump or an end, or any one of a function that jumps to a
/// computed address.
pub(super) fn is_label(text: &Text<'_>, from: Option<usize>, target: u64) -> bool {
    let to = text.function_at(target);
    let own = to.and_then(|to| text.functions.get(to)).map_or(&[][..], |f| text.instructions_of(f));
    let Ok(at) = own.binary_search_by_key(&target, |i| u64::from(i.offset)) else { return false };
    let falls = |i: &Instruction| matches!(i.flow, Flow::Next | Flow::Conditional);
    let aligns = |i: &&Instruction| decode::is_padding(slice(text.bytes, i.offset.into(), i.end()));
    let before = own.get(..at).unwrap_or(&[]).iter().rev().find(|i| !aligns(i));
    let behind = before.is_some_and(|before| !falls(before));
    let leads = |i: &Instruction| i.flow != Flow::Next && i.target() == i64::try_from(target).ok();
    let jumps = |i: &Instruction| matches!(i.flow, Flow::JumpRegister | Flow::JumpMemory);
    behind || own.iter().any(leads) || from == to && own.iter().any(jumps)
}

/// Whether a call in this section is one of a function that does not return, by name. The code behind it is reached in another way, if at
/// all.
pub(super) fn is_noreturn(context: &SplitContext<'_, '_>, section: u32, call: &Instruction) -> bool {
    let own = context.relas_of(section);
    let found = own.binary_search_by_key(&call.displacement_at(), |(_, r)| r.r_offset.get(LE)).ok();
    let symbol = found.and_then(|r| own.get(r)).and_then(|(_, r)| context.symbols.get(symbol_of(r).index()));
    let is_listed = |name: &[u8]| NORETURN.iter().any(|listed| listed.as_bytes() == name);
    call.flow == Flow::Call && symbol.is_some_and(|s| is_listed(context.tables.name(s.name)))
}

/// Whether a branch leads to the padding behind its function, and so falls into the next one. clang -O0 has an empty
/// block there for unreachable code.
fn leads_to_end(text: &Text<'_>, from: usize, instruction: &Instruction) -> bool {
    let end = text.functions.get(from).map(|f| f.end);
    let branch = matches!(instruction.flow, Flow::Jump | Flow::Conditional);
    branch
        && instruction.target().and_then(|t| u64::try_from(t).ok()) == end
        && end.is_some_and(|end| text.function_at(end).is_none())
}

/// Whether `jmp rel8` (two bytes) can become `jmp rel32` (five bytes) in place. It must end its function, and the
/// three bytes behind it must be padding without a branch to it. Emission writes the longer one if the target is in
/// another part.
fn may_be_relaxed(text: &Text<'_>, from: usize, jump: &Instruction) -> bool {
    let Some(function) = text.functions.get(from) else { return false };
    let end = jump.end();
    let own = text.instructions_of(function);
    let next = text.functions.get(from + 1).map_or(text.bytes.len() as u64, |f| f.prefix);
    slice(text.bytes, jump.offset.into(), end).first() == Some(&SHORT_JUMP)
        && u64::from(jump.offset) + 2 == end
        && end == function.end
        && end + 3 <= next
        && !own.iter().any(|i| leads_to_end(text, from, i))
}

/// Whether the displacement of an instruction has a relocation. `next` only increases.
fn is_relocated(relas: &[(u32, Rela)], next: &mut usize, instruction: &Instruction) -> bool {
    let field = instruction.displacement_at();
    let place = |i: usize| relas.get(i).map(|(_, r)| r.r_offset.get(LE));
    while place(*next).is_some_and(|p| p < field) {
        *next += 1;
    }
    let mut at = *next;
    while place(at) == Some(field) {
        if relas.get(at).is_some_and(|(_, r)| width(type_of(r)).is_some()) {
            return true;
        }
        at += 1;
    }
    false
}

/// The function and offset to which a branch or operand without a relocation leads.
fn destination(text: &Text<'_>, from: usize, instruction: &Instruction) -> SplitOutcome<(usize, u64)> {
    let at = instruction.offset;
    let nowhere =
        |what: &str| Err((Limit::BranchNowhere, format!("the instruction at {at:#x} leads {what}")));
    let target = instruction.target().and_then(|t| u64::try_from(t).ok());
    let Some(target) = target.filter(|t| *t < text.bytes.len() as u64) else { return nowhere("outside") };
    let is_own = text.functions.get(from).is_some_and(|f| (f.start..f.end).contains(&target));
    let to = if is_own { Some(from) } else { text.function_at(target) };
    let Some(to) = to else {
        return Err((
            Limit::ReferenceIntoPadding,
            format!("the instruction at {at:#x} leads to {target:#x}, into no function"),
        ));
    };
    if instruction.field == (Field::RipRelative { access: true }) {
        return Err((Limit::CodeAsData, format!("the instruction at {at:#x} reads or writes code")));
    }
    if instruction.flow == Flow::Call && target == instruction.end() && to == from {
        return Err((
            Limit::CodeAsData,
            format!("the call at {at:#x} takes the address of the next instruction"),
        ));
    }
    // Code may jump over a `lock` prefix, to the rest of the same instruction.
    let is_code = text.is_boundary(target) || target.checked_sub(1).is_some_and(|t| is_lock(text, t));
    let within = matches!(instruction.field, Field::RipRelative { .. }) && to == from;
    if is_code || within { Ok((to, target)) } else { nowhere("between instructions") }
}

fn is_lock(text: &Text<'_>, offset: u64) -> bool {
    text.instruction_at(offset).is_some_and(|i| u64::from(i.offset) == offset && i.lock)
}
