//! The atoms of code that may call or jump to a computed address.
//!
//! Code is decoded from the first byte of an atom to the last (linear sweep). If each direct branch and each symbol
//! in the atom is at the start of an instruction, all executed code was decoded. Otherwise the atom may call
//! anything.

use rustc_hash::FxHashMap;

use super::decode::{self, Field, Flow, Instruction};
use super::tables::Tables;
use crate::summary::{Atom, AtomKind, Definition, ModuleSummary};

/// The use of computed addresses by an atom's code, without those of relocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComputedCalls {
    /// It may call or jump to a computed address.
    pub indirect: bool,
    /// It may take the address of a place in itself.
    pub own_address: bool,
}

impl ComputedCalls {
    pub const UNKNOWN: ComputedCalls = ComputedCalls { indirect: true, own_address: true };
}

/// By atom of `summary`, the summary of the object `bytes`. An atom that is no code is unknown.
pub fn computed_calls(bytes: &[u8], summary: &ModuleSummary) -> Vec<ComputedCalls> {
    let Ok(tables) = Tables::read(bytes) else { return vec![ComputedCalls::UNKNOWN; summary.atoms.len()] };
    let mut entries: FxHashMap<usize, Vec<u64>> = FxHashMap::default();
    for symbol in &summary.symbols {
        if let Definition::Atom(atom) = symbol.definition {
            entries.entry(atom.index()).or_default().push(symbol.value);
        }
    }
    let mut instructions = Vec::new();
    let of_atom = |(i, atom): (usize, &Atom)| {
        let of_section = || tables.data(atom.section).ok();
        let range =
            || Some(usize::try_from(atom.offset).ok()?..usize::try_from(atom.offset + atom.size).ok()?);
        let code = if atom.kind == AtomKind::Code { of_section().zip(range()) } else { None };
        let code = code.and_then(|(data, range)| data.get(range));
        let (Some(code), Ok(start)) = (code, u32::try_from(atom.offset)) else {
            return ComputedCalls::UNKNOWN;
        };
        let entries = entries.get(&i).map_or(&[][..], |e| e.as_slice());
        instructions.clear();
        let in_step = decode::decode(code, start, &mut instructions).is_ok()
            && is_in_step(&instructions, atom, entries);
        match in_step {
            true => calls(code, &instructions, atom),
            false => ComputedCalls::UNKNOWN,
        }
    };
    summary.atoms.iter().enumerate().map(of_atom).collect()
}

/// Whether each direct branch in an atom and each symbol in it is at the beginning of an instruction.
fn is_in_step(instructions: &[Instruction], atom: &Atom, entries: &[u64]) -> bool {
    let end = atom.offset.saturating_add(atom.size);
    let is_start = |place: u64| {
        let found = instructions.binary_search_by_key(&place, |i| u64::from(i.offset));
        found.is_ok() || place == end
    };
    let branches = instructions.iter().filter(|i| i.is_jump() || i.flow == Flow::Call);
    branches.filter_map(|i| target_in(i, atom)).all(is_start) && entries.iter().all(|entry| is_start(*entry))
}

/// The target of an instruction, if it is in the atom. With a relocation its field is 0 or near it, and means
/// nothing.
fn target_in(instruction: &Instruction, atom: &Atom) -> Option<u64> {
    let target = u64::try_from(instruction.target()?).ok()?;
    (atom.offset..atom.offset.saturating_add(atom.size)).contains(&target).then_some(target)
}

fn calls(code: &[u8], instructions: &[Instruction], atom: &Atom) -> ComputedCalls {
    let is_indirect = |i: &Instruction| match i.flow {
        Flow::IndirectCall | Flow::JumpRegister | Flow::JumpMemory => true,
        // A call into the function itself takes the return address, as in a thunk that jumps by `ret`.
        Flow::Call => target_in(i, atom).is_some_and(|target| target != i.end() && target != atom.offset),
        Flow::Next | Flow::Stop | Flow::Jump | Flow::Conditional => false,
    };
    let bytes = |i: &Instruction| {
        let start = (u64::from(i.offset) - atom.offset) as usize;
        code.get(start..start + usize::from(i.len)).unwrap_or(&[])
    };
    let returns_elsewhere = |(at, i): (usize, &Instruction)| {
        // The instructions that fall through to it, the last first.
        let falls = |i: &&Instruction| matches!(i.flow, Flow::Next | Flow::Conditional);
        let before = || instructions[..at].iter().rev().take_while(falls).map(bytes);
        is_far_return(bytes(i))
            || is_return(bytes(i)) && before().find_map(sets_return_address).is_some_and(|sets| sets)
    };
    let is_own_address = |i: &Instruction| {
        let forms = matches!(i.field, Field::RipRelative { .. }) || i.flow == Flow::Call;
        forms && target_in(i, atom).is_some_and(|target| target != i.end())
    };
    ComputedCalls {
        indirect: instructions.iter().any(is_indirect)
            || instructions.iter().enumerate().any(returns_elsewhere),
        own_address: instructions.iter().any(is_own_address),
    }
}

fn is_return(instruction: &[u8]) -> bool {
    let opcode = instruction.iter().find(|b| !matches!(b, 0xf2 | 0xf3));
    matches!(opcode, Some(0xc2 | 0xc3))
}

/// Whether an instruction pops the instruction pointer and a segment.
fn is_far_return(instruction: &[u8]) -> bool {
    matches!(split_rex(instruction).1, [0xca | 0xcb | 0xcf, ..])
}

/// `true` if an instruction pushes a value, stores one at the top of the stack or changes the stack, `false` if it
/// pops values.
fn sets_return_address(instruction: &[u8]) -> Option<bool> {
    let (rex, rest) = split_rex(instruction);
    let (extends_register, extends_base) = (rex & 4 != 0, rex & 1 != 0);
    match rest {
        [0x50..=0x57 | 0x68 | 0x6a, ..] => Some(true),
        [0xff, modrm, ..] if modrm >> 3 & 7 == 6 => Some(true),
        // `add`, `or`, `sub`, `xor`, `xchg` and `mov` to (%rsp)
        [0x01 | 0x09 | 0x29 | 0x31 | 0x87 | 0x89 | 0xc7, modrm, 0x24, ..] if modrm & 0xc7 == 0x04 => {
            Some(true)
        }
        // `mov` to %rsp, as `__builtin_eh_return` ends
        [0x89, modrm, ..] if modrm & 0xc7 == 0xc4 && !extends_base => Some(true),
        [0x8b, modrm, ..] if modrm & 0x38 == 0x20 && !extends_register => Some(true),
        // `pop` and `leave`; `add` and `sub` of a number, and `lea`, that write %rsp.
        [0x58..=0x5f | 0x8f | 0xc9, ..] => Some(false),
        [0x81 | 0x83, modrm, ..] if modrm & 0xc7 == 0xc4 && !extends_base => Some(false),
        [0x8d, modrm, ..] if modrm & 0x38 == 0x20 && !extends_register => Some(false),
        _ => None,
    }
}

/// The REX prefix of an instruction, or 0, and the rest.
fn split_rex(instruction: &[u8]) -> (u8, &[u8]) {
    match instruction {
        [rex @ 0x40..=0x4f, rest @ ..] => (*rex, rest),
        all => (0, all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_direct(code: &[u8], entries: &[u64]) -> bool {
        let mut instructions = Vec::new();
        let atom = Atom {
            section: 1,
            offset: 0x10,
            size: code.len() as u64,
            align: 1,
            kind: AtomKind::Code,
            flags: 0,
            name: crate::ids::NameRef { start: 0, len: 0 },
            group: None,
            link_order: None,
        };
        decode::decode(code, 0x10, &mut instructions).is_ok()
            && is_in_step(&instructions, &atom, entries)
            && !calls(code, &instructions, &atom).indirect
    }

    #[test]
    fn computed_targets_are_found() {
        assert!(is_direct(&[0xe8, 0, 0, 0, 0, 0xc3], &[0x10, 0x15]));
        // call *%rax; jmp *%rax; jmp *8(%rax)
        assert!(!is_direct(&[0xff, 0xd0, 0xc3], &[0x10]));
        assert!(!is_direct(&[0xff, 0xe0], &[0x10]));
        assert!(!is_direct(&[0xff, 0x60, 8], &[0x10]));
        // push %rax; ret, and mov %rax, (%rsp); ret
        assert!(!is_direct(&[0x50, 0xc3], &[0x10]));
        assert!(!is_direct(&[0x48, 0x89, 0x04, 0x24, 0xc3], &[0x10]));
        // push %rax; lfence; ret, and push %rcx; xchg %rax, (%rsp); ret
        assert!(!is_direct(&[0x50, 0x0f, 0xae, 0xe8, 0xc3], &[0x10]));
        assert!(!is_direct(&[0x51, 0x48, 0x87, 0x04, 0x24, 0xc3], &[0x10]));
        // push %rbx; pop %rbx; ret, and push %rax; sub $8, %rsp; add $16, %rsp; ret
        assert!(is_direct(&[0x53, 0x5b, 0xc3], &[0x10]));
        assert!(is_direct(&[0x50, 0x48, 0x83, 0xec, 8, 0x48, 0x83, 0xc4, 16, 0xc3], &[0x10]));
        // push %rax; mov %rax, %r12; ret
        assert!(!is_direct(&[0x50, 0x49, 0x89, 0xc4, 0xc3], &[0x10]));
        // mov %rcx, %rsp; ret, and mov %rbp, %rsp; pop %rbp; ret
        assert!(!is_direct(&[0x48, 0x89, 0xcc, 0xc3], &[0x10]));
        assert!(is_direct(&[0x48, 0x89, 0xec, 0x5d, 0xc3], &[0x10]));
        // lretq
        assert!(!is_direct(&[0x48, 0xcb], &[0x10]));
        // A thunk: call over a loop that is never left, then a return to where a register says.
        assert!(!is_direct(&[0xe8, 2, 0, 0, 0, 0xeb, 0xfe, 0x90, 0xc3], &[0x10]));
    }

    #[test]
    fn code_out_of_step_may_call_anything() {
        // jmp over a byte that hides `call *%rax` in a longer instruction; an entry there; what does not decode.
        assert!(!is_direct(&[0xeb, 1, 0xb8, 0xff, 0xd0, 0x90, 0x90, 0xc3], &[0x10]));
        assert!(!is_direct(&[0x90, 0xb8, 0xff, 0xd0, 0x90, 0x90, 0xc3], &[0x12]));
        assert!(!is_direct(&[0x06, 0xc3], &[0x10]));
    }
}
