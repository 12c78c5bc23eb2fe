//! Random programs: a few functions that call each other, directly and through pointers, and share memory.

use summaries::relation::{CallSite, Callee, Constraint, FunctionSummary, Place};
use summaries::{AtomIdx, SymbolIdx, Target, ValueIdx};

/// A stream of choices; after its end every choice is the first.
pub(super) struct ProgramChoices<'b>(pub(super) std::slice::Iter<'b, u8>);

impl ProgramChoices<'_> {
    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % n.max(1)
    }

    fn offset(&mut self) -> Option<i64> {
        [Some(0), Some(0), Some(0), Some(8), Some(8), Some(-8), Some(4), Some(24), None][self.below(9)]
    }

    fn size(&mut self) -> u32 {
        [8, 8, 8, 16, 4, 0][self.below(6)]
    }
}

pub(super) fn empty() -> FunctionSummary {
    FunctionSummary::new(AtomIdx(0))
}

pub(super) struct Shape {
    pub(super) functions: usize,
    pub(super) data: usize,
    pub(super) values: usize,
    pub(super) constraints: usize,
    /// The percentage of constraints that are copies.
    pub(super) copies: usize,
}

/// A random program; the functions after the first one are its surroundings.
pub(super) fn program(choices: &mut ProgramChoices<'_>, shape: &Shape) -> Vec<FunctionSummary> {
    (0..shape.functions).map(|_| function(choices, shape)).collect()
}

fn function(choices: &mut ProgramChoices<'_>, shape: &Shape) -> FunctionSummary {
    let mut f = FunctionSummary { values: shape.values as u32, frame: choices.below(3) == 0, ..empty() };
    let value = |choices: &mut ProgramChoices<'_>| ValueIdx::new(choices.below(shape.values));
    f.parameters = vec![(6, value(choices)), (7, value(choices))];
    if !f.frame && choices.below(2) == 0 {
        f.stack_parameters = vec![(8, value(choices))];
    }
    f.results = vec![(0, value(choices))];
    f.preserved = choices.below(2) as u64;
    if choices.below(6) == 0 {
        f.indirect_entry_values = vec![value(choices)];
    }
    let count = choices.below(shape.constraints + 1);
    for _ in 0..count {
        let c = constraint(choices, shape, f.frame);
        f.constraints.push(c);
    }
    f.constraints.sort_unstable();
    f.constraints.dedup();
    for offset in 0..choices.below(3) as u64 {
        let site = call_site(choices, shape, f.frame, offset);
        f.call_sites.push(site);
    }
    f
}

fn symbol(choices: &mut ProgramChoices<'_>, shape: &Shape) -> Target {
    Target::Symbol(SymbolIdx::new(choices.below(shape.functions + shape.data)))
}

fn constraint(choices: &mut ProgramChoices<'_>, shape: &Shape, frame: bool) -> Constraint {
    let value = |choices: &mut ProgramChoices<'_>| ValueIdx::new(choices.below(shape.values));
    let place = |choices: &mut ProgramChoices<'_>| Place { value: value(choices), offset: choices.offset() };
    if choices.below(100) < shape.copies {
        return Constraint::Assign { from: value(choices), to: value(choices), offset: Some(0) };
    }
    match choices.below(12) {
        0 | 1 => {
            let offset = [0, 0, 0, 8][choices.below(4)];
            Constraint::Address { to: value(choices), target: symbol(choices, shape), offset }
        }
        2 | 3 if frame => Constraint::Frame {
            to: value(choices),
            offset: [Some(-8), Some(-16), Some(8), None][choices.below(4)],
        },
        2..=4 => Constraint::Assign { from: value(choices), to: value(choices), offset: choices.offset() },
        5 | 6 => Constraint::Load { from: place(choices), to: value(choices), size: choices.size() },
        7 | 8 => Constraint::Store { from: value(choices), to: place(choices), size: choices.size() },
        9 => Constraint::Copy { from: place(choices), to: place(choices), size: choices.size() },
        10 => match choices.below(4) {
            0 => Constraint::Unknown { to: value(choices) },
            1 => Constraint::EscapeCode { from: value(choices) },
            _ => Constraint::Escape { from: value(choices) },
        },
        _ => Constraint::Assign { from: value(choices), to: value(choices), offset: Some(0) },
    }
}

fn call_site(choices: &mut ProgramChoices<'_>, shape: &Shape, frame: bool, offset: u64) -> CallSite {
    let value = |choices: &mut ProgramChoices<'_>| ValueIdx::new(choices.below(shape.values));
    let callee = match choices.below(2) {
        0 => Callee::Direct {
            target: Target::Symbol(SymbolIdx::new(choices.below(shape.functions))),
            offset: 0,
        },
        _ => Callee::Indirect(value(choices)),
    };
    let bases = [None, None, None, Some(Some(-24)), Some(None)];
    CallSite {
        section: 1,
        offset,
        callee,
        jump: false,
        actuals: vec![(0, value(choices)), (6, value(choices)), (7, value(choices))],
        stack: if choices.below(3) == 0 { vec![(8, value(choices))] } else { Vec::new() },
        no_vectors: false,
        formats: Vec::new(),
        stack_in_frame: bases[choices.below(5)].filter(|_| frame),
        results: vec![(0, value(choices))],
    }
}
