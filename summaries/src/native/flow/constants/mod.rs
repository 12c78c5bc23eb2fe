//! Constants of native code: which integers a function tests, passes and stores, and what of it runs only if a test goes one way.
//!
//! Only functions whose values are followed ([`super::walk`]) are looked at. The states of all blocks go to a fixpoint twice: first
//! to see where the frame is stored to, then with its homes. A block is reached from the entry, from labels that are values, and
//! from whatever no jump leads to, by edges that the code has; a call needs what every path to it has passed ([`guards`]).
//! That is safe because every value is made of what stays the same while the function runs, so that it does not matter when control
//! comes back to a place; because in a function with handlers, which the unwinder enters, nothing is known at the start
//! of any block; and because what is not told happens and is anything. What is given up is a limit.

mod contents;
mod guards;
mod state;
mod walk;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Module;
use super::unit::{Destination, Meaning, Op, Unit};
use crate::constant::{Cell, Condition, FunctionConstants, Outcome, PARAMETERS, Pass, Put, Source};
use crate::ids::AtomIdx;
use crate::native::decode::Flow;
use crate::native::decode::effects::{Effect, RSP};
use crate::native::decode::integers::{Act, IntegerDecoder, Integers};
use crate::native::relocations::Rela;
use crate::relation::Register;
use crate::summary::Target;
use guards::{Edge, Guards};
use object::endian::LittleEndian as LE;
use state::{Held, State, Value};
use walk::{Found, Walk, Where};

/// An instruction.
struct Line {
    integers: Integers,
    /// Of a conditional jump: what it goes by.
    test: Option<(crate::constant::Comparison, bool)>,
}

/// How control leaves a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// To the next one.
    Falls,
    /// By a call to the next one.
    Call,
    /// To this block, and to the next one if that is said.
    To(usize, bool),
    /// Out of the function, and to the next one if that is said.
    Out(bool),
    /// To every label, or out of the function.
    Labels,
    Ends,
}

/// What came of a function, with what was given up of it.
pub(super) struct Outline {
    pub(super) constants: FunctionConstants,
    pub(super) given_up: Option<&'static str>,
}

/// What the function does with integers. `Err` says why nothing is known.
pub(super) fn constants(
    module: &Module<'_, '_>,
    unit: &Unit,
    atom: AtomIdx,
    decoder: &mut IntegerDecoder,
) -> Result<Outline, &'static str> {
    let function = Function::read(module, unit, decoder)?;
    let none = FxHashSet::default();
    let mut first = function.solve(&none);
    if first.found.returns_elsewhere {
        return Err("it may overwrite its return address");
    }
    let homes = if first.found.frame_is_lost { none.clone() } else { homes(&first.found) };
    let mut given_up = None;
    if !homes.is_empty() {
        first = function.solve(&homes);
    } else if first.found.frame_is_lost && function.spills(&first) {
        given_up = Some("its parameters are put into a frame whose address is taken");
    }
    let mut recorder = Recorder::default();
    function.record(&mut first, &homes, &mut recorder);
    if unit.has_handlers && !recorder.edges.is_empty() {
        given_up = Some("it tests integers, and has handlers of exceptions");
        recorder.edges.clear();
    }
    let successors: Vec<Vec<usize>> =
        function.ends.iter().enumerate().map(|(b, e)| function.successors(b, *e)).collect();
    let guards = Guards::new(&successors, &first.entries, &recorder.edges);
    if guards.given_up {
        given_up = Some("it has too many branches that tests of integers decide");
    }
    Ok(Outline { constants: recorder.finish(atom, &guards, &first.found.lost), given_up })
}

/// Where one instruction alone stores.
fn homes(found: &Found) -> FxHashSet<(i64, u32)> {
    let mut stores: Vec<(i64, i64, usize, u32)> = found
        .stores
        .iter()
        .map(|(op, at, size)| (*at, at.saturating_add(i64::from(*size)), *op, *size))
        .collect();
    stores.sort_unstable();
    let mut homes = FxHashSet::default();
    let mut reached = i64::MIN;
    for (i, (start, end, _, size)) in stores.iter().enumerate() {
        let apart = reached <= *start && stores.get(i + 1).is_none_or(|next| *end <= next.0);
        if apart && *size <= 8 {
            homes.insert((*start, *size));
        }
        reached = reached.max(*end);
    }
    homes
}

struct Function<'f, 'a, 't> {
    module: &'f Module<'a, 't>,
    unit: &'f Unit,
    lines: Vec<Line>,
    ends: Vec<End>,
    /// Blocks of labels; with whether they are values.
    labels: Vec<(usize, bool)>,
    entry: usize,
}

/// The states at the starts of blocks.
struct Solved {
    at: Vec<Option<State>>,
    /// Blocks that control enters from elsewhere.
    entries: Vec<usize>,
    found: Found,
}

impl<'f, 'a, 't> Function<'f, 'a, 't> {
    fn read(
        module: &'f Module<'a, 't>,
        unit: &'f Unit,
        decoder: &mut IntegerDecoder,
    ) -> Result<Self, &'static str> {
        let [(_, _, entry)] = unit.entries.as_slice() else { return Err("it has several entries") };
        if unit.has_thunks {
            return Err("it calls places of its own");
        }
        let mut lines = Vec::with_capacity(unit.ops.len());
        for op in &unit.ops {
            let (_, start, bytes) = module.code(op.atom).ok_or("its bytes can't be read")?;
            let range = op.offset.wrapping_sub(start) as usize..op.end.wrapping_sub(start) as usize;
            let own = bytes.get(range).ok_or("its bytes can't be read")?;
            let integers = decoder.integers(own, op.offset).ok_or("an instruction is not understood")?;
            let test = if op.flow == Flow::Conditional { IntegerDecoder::test(own) } else { None };
            lines.push(Line { integers, test });
        }
        let block = |op: usize| unit.blocks.binary_search_by_key(&op, |b| b.start).ok();
        let mut ends = Vec::with_capacity(unit.blocks.len());
        for range in &unit.blocks {
            let last = range.end.checked_sub(1).and_then(|l| unit.ops.get(l)).ok_or("an empty block")?;
            ends.push(match last.effect {
                Effect::Jump => {
                    let falls = last.flow != Flow::Jump;
                    match unit.destination(module, last) {
                        Ok(Destination::Inner(to)) => End::To(block(to).ok_or("a jump into a block")?, falls),
                        Ok(Destination::Outer(..)) => End::Out(falls),
                        Err(_) => return Err("a jump to nowhere"),
                    }
                }
                Effect::Call => match unit.destination(module, last) {
                    Ok(Destination::Outer(..)) => End::Call,
                    _ => return Err("it calls places of its own"),
                },
                Effect::CallThrough(_) => End::Call,
                Effect::JumpThrough(_) => End::Labels,
                Effect::Return | Effect::Stop => End::Ends,
                _ => End::Falls,
            });
        }
        let label = |l: &(usize, bool)| Some((block(l.0)?, l.1));
        let labels = unit.labels.iter().map(label).collect::<Option<_>>().ok_or("a label in a block")?;
        let entry = block(*entry).ok_or("an entry in a block")?;
        Ok(Function { module, unit, lines, ends, labels, entry })
    }

    fn next(&self, block: usize) -> Option<usize> {
        let end = self.unit.blocks.get(block)?.end;
        // Behind the last instruction of an atom there is nothing to fall into.
        let atom = |op: usize| self.unit.ops.get(op).map(|o| o.atom);
        (atom(end)? == atom(end.checked_sub(1)?)?).then_some(block + 1)
    }

    /// Where control goes, the target of a jump first.
    fn successors(&self, block: usize, end: End) -> Vec<usize> {
        let next = || self.next(block);
        match end {
            End::Falls | End::Call => next().into_iter().collect(),
            End::To(to, falls) => [Some(to), next().filter(|_| falls)].into_iter().flatten().collect(),
            End::Out(falls) => next().filter(|_| falls).into_iter().collect(),
            End::Labels => self.labels.iter().map(|l| l.0).collect(),
            End::Ends => Vec::new(),
        }
    }

    /// The states at all blocks, with what is found on the way.
    fn solve(&self, homes: &FxHashSet<(i64, u32)>) -> Solved {
        let count = self.unit.blocks.len();
        let mut solved = Solved { at: vec![None; count], entries: Vec::new(), found: Found::default() };
        let mut queue = Vec::new();
        let mut start = State::unknown();
        for register in PARAMETERS {
            start.set(register, Value::source(Source::Parameter(register)));
        }
        start.set(RSP, Value::all(Held::Frame(0)));
        solved.enter(self.entry, &start, &mut queue);
        solved.entries.push(self.entry);
        let unknown = State::unknown();
        let from_elsewhere: Vec<usize> = match self.unit.has_handlers {
            true => (0..count).collect(),
            false => self.labels.iter().filter(|l| l.1).map(|l| l.0).collect(),
        };
        for block in from_elsewhere {
            solved.enter(block, &unknown, &mut queue);
            solved.entries.push(block);
        }
        loop {
            while let Some(block) = queue.pop() {
                let Some(state) = solved.at.get(block).cloned().flatten() else { continue };
                let mut walk = Walk { module: self.module, homes, found: &mut solved.found };
                let state = self.through(block, state, &mut walk, &mut Ignored);
                let end = self.ends.get(block).copied().unwrap_or(End::Ends);
                for to in self.successors(block, end) {
                    solved.enter(to, &state, &mut queue);
                }
            }
            // What no jump leads to is dead, or entered in a way that was not seen.
            let left = (0..count).find(|b| solved.at.get(*b) == Some(&None) && !self.is_padding(*b));
            let Some(left) = left else { return solved };
            solved.enter(left, &unknown, &mut queue);
            solved.entries.push(left);
        }
    }

    fn ops(&self, block: usize) -> impl Iterator<Item = (usize, &'f Op, &Line)> {
        let range = self.unit.blocks.get(block).map_or(0..0, |b| b.start..b.end);
        range.filter_map(|at| Some((at, self.unit.ops.get(at)?, self.lines.get(at)?)))
    }

    fn is_padding(&self, block: usize) -> bool {
        self.ops(block).all(|(_, op, _)| op.effect == Effect::Padding)
    }

    /// Go through a block.
    fn through(
        &self,
        block: usize,
        mut state: State,
        walk: &mut Walk<'_, '_, '_, '_>,
        seen: &mut impl Seen,
    ) -> State {
        let end = self.ends.get(block).copied().unwrap_or(End::Ends);
        let last = self.unit.blocks.get(block).map_or(0, |b| b.end.saturating_sub(1));
        let mut flags = None;
        for (at, op, line) in self.ops(block) {
            seen.accesses(walk, (block, op, line), &state);
            let leaves = at == last && end != End::Falls;
            if !leaves && op.effect != Effect::Padding {
                let mut stored = Vec::new();
                walk.step((at, op, line), &mut state, &mut flags, |put| stored.push(put));
                stored.into_iter().for_each(|put| seen.put(block, put));
                continue;
            }
            if op.effect == Effect::Padding {
                continue;
            }
            walk.look_at_addresses(op, line, &state);
            let test =
                flags.zip(line.test).map(|(flags, (c, taken)): (walk::Flags, _)| (flags.condition(c), taken));
            match end {
                End::Call => {
                    seen.site((block, op), &state, None);
                    walk.call(&mut state);
                }
                End::Out(_) => {
                    seen.site((block, op), &state, test);
                    walk.gives_away(&state);
                    seen.branch(test.map(|(c, taken)| (block, usize::MAX, self.next(block), c, taken)));
                }
                End::Labels => {
                    seen.site((block, op), &state, None);
                    walk.gives_away(&state);
                }
                End::Ends => walk.gives_away(&state),
                End::To(to, true) => {
                    seen.branch(test.map(|(c, taken)| (block, to, self.next(block), c, taken)));
                }
                End::To(..) | End::Falls => {}
            }
        }
        state
    }

    fn record(&self, solved: &mut Solved, homes: &FxHashSet<(i64, u32)>, recorder: &mut Recorder) {
        let mut walk = Walk { module: self.module, homes, found: &mut solved.found };
        for (block, state) in solved.at.iter().enumerate() {
            if let Some(state) = state {
                self.through(block, state.clone(), &mut walk, recorder);
            }
        }
        recorder.seal();
    }

    /// Whether it puts a parameter into its frame.
    fn spills(&self, solved: &Solved) -> bool {
        let parameter = |state: &State, slot: u8| matches!(state.get(slot).held, Held::Of(q) if matches!(q.source, Source::Parameter(_)));
        let Some(Some(state)) = solved.at.get(self.entry) else { return false };
        self.ops(self.entry).any(|(_, _, line)| match line.integers.act {
            Act::Store { to, from: crate::native::decode::integers::From::Register(slot), .. } => {
                to.base.is_some() && parameter(state, slot)
            }
            _ => false,
        })
    }
}

impl Solved {
    /// Join a state into a block.
    fn enter(&mut self, block: usize, state: &State, queue: &mut Vec<usize>) {
        let Some(at) = self.at.get_mut(block) else { return };
        let found = &mut self.found;
        let changed = match at {
            Some(at) => at.join(state, &mut |value| found.lose(value)),
            None => {
                *at = Some(state.clone());
                true
            }
        };
        if changed {
            queue.push(block);
        }
    }
}

/// A branch: its block, where it goes if it is taken (nowhere in the function: `usize::MAX`) and if not, the condition, and whether it
/// is taken if that holds.
type Branch = (usize, usize, Option<usize>, Condition, bool);

/// What looks on while a block is gone through.
trait Seen {
    fn accesses(&mut self, _: &Walk<'_, '_, '_, '_>, _: (usize, &Op, &Line), _: &State) {}
    fn put(&mut self, _: usize, _: walk::Stored) {}
    fn site(&mut self, _: (usize, &Op), _: &State, _: Option<(Condition, bool)>) {}
    fn branch(&mut self, _: Option<Branch>) {}
}

struct Ignored;

impl Seen for Ignored {}

/// A call before the guards are known.
struct Site {
    block: usize,
    section: u32,
    offset: u64,
    /// What the jump there needs besides.
    test: Option<(Condition, bool)>,
    actuals: Vec<(Register, crate::constant::Integer)>,
}

#[derive(Default)]
struct Recorder {
    sites: Vec<Site>,
    puts: Vec<(usize, Cell, Option<crate::constant::Integer>)>,
    gets: Vec<Cell>,
    direct: Vec<(u32, u64)>,
    /// References to entries of the offset table, with the symbol.
    by_table: Vec<(Target, u32, u64)>,
    edges: Vec<Edge>,
}

impl Seen for Recorder {
    fn accesses(&mut self, walk: &Walk<'_, '_, '_, '_>, (_, op, line): (usize, &Op, &Line), state: &State) {
        let mut told = false;
        for (address, _, writes) in &line.integers.accesses {
            match walk.place(op, state, address) {
                Where::Cell(target, offset) if address.size > 0 => {
                    told |= address.field && address.base.is_none();
                    if !writes {
                        self.gets.push(Cell { target, offset, size: address.size });
                    }
                }
                Where::Table(target) => {
                    let own = walk.module.relas_of(op.section, op.offset, op.end);
                    self.by_table
                        .extend(own.iter().map(|(s, r): &(u32, Rela)| (target, *s, r.r_offset.get(LE))));
                }
                _ => {}
            }
        }
        // An immediate that is an address is another reference.
        if told && op.immediate == Meaning::Absent {
            let own = walk.module.relas_of(op.section, op.offset, op.end);
            self.direct.extend(own.iter().map(|(s, r)| (*s, r.r_offset.get(LE))));
        }
    }

    fn put(&mut self, block: usize, stored: walk::Stored) {
        self.puts.push((block, stored.cell, stored.value.integer()));
    }

    fn site(&mut self, (block, op): (usize, &Op), state: &State, test: Option<(Condition, bool)>) {
        let mut actuals: Vec<_> =
            PARAMETERS.iter().filter_map(|r| Some((*r, state.get(*r).integer()?))).collect();
        actuals.sort_unstable();
        self.sites.push(Site { block, section: op.section, offset: op.offset, test, actuals });
    }

    fn branch(&mut self, branch: Option<Branch>) {
        let Some((from, to, next, condition, taken)) = branch else { return };
        // Where both ways lead to one block, to be there says nothing.
        if next == Some(to) {
            return;
        }
        if to != usize::MAX {
            self.edges.push(Edge { from, to, condition, holds: taken });
        }
        if let Some(next) = next {
            self.edges.push(Edge { from, to: next, condition, holds: !taken });
        }
    }
}

impl Recorder {
    fn seal(&mut self) {
        self.gets.sort_unstable();
        self.gets.dedup();
        self.sites.sort_by_key(|s| (s.section, s.offset));
        self.sites.dedup_by_key(|s| (s.section, s.offset));
    }

    fn finish(mut self, atom: AtomIdx, guards: &Guards, lost: &FxHashSet<Target>) -> FunctionConstants {
        let mut conditions = Numbers::default();
        let mut passes = Vec::new();
        for site in std::mem::take(&mut self.sites) {
            let mut needs: Vec<(Condition, bool)> = guards.of(site.block).to_vec();
            needs.extend(site.test.filter(|_| !guards.given_up));
            if needs.is_empty() && site.actuals.is_empty() {
                continue;
            }
            let needs = conditions.outcomes(needs);
            passes.push(Pass { section: site.section, offset: site.offset, needs, actuals: site.actuals });
        }
        let mut puts: Vec<Put> = Vec::new();
        for (block, cell, value) in std::mem::take(&mut self.puts) {
            puts.push(Put { cell, value, needs: conditions.outcomes(guards.of(block).to_vec()) });
        }
        puts.sort_unstable();
        puts.dedup();
        let mut direct = self.direct;
        direct.extend(self.by_table.iter().filter(|(t, _, _)| !lost.contains(t)).map(|(_, s, o)| (*s, *o)));
        direct.sort_unstable();
        direct.dedup();
        FunctionConstants { atom, conditions: conditions.all, passes, puts, gets: self.gets, direct }
    }
}

/// The conditions that something needs, each once.
#[derive(Default)]
struct Numbers {
    all: Vec<Condition>,
    known: FxHashMap<Condition, u32>,
}

impl Numbers {
    fn outcomes(&mut self, needs: Vec<(Condition, bool)>) -> Vec<Outcome> {
        let mut outcomes: Vec<Outcome> = Vec::new();
        for (condition, holds) in needs {
            let next = self.all.len() as u32;
            let number = *self.known.entry(condition).or_insert(next);
            if number == next {
                self.all.push(condition);
            }
            outcomes.push(Outcome { condition: number, holds });
        }
        outcomes.sort_unstable();
        outcomes.dedup();
        outcomes
    }
}
