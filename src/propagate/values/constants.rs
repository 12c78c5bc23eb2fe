//! Constants: what functions are passed and what memory holds, if it is always the same, and what can't run then.
//!
//! The lattice is that of sparse conditional constant propagation: nothing yet, one integer, anything. A parameter holds what the
//! calls pass that are reached; memory what it held in the beginning and what reached stores put there. A call site is reached
//! once each test that it needs may go the way that it needs; until then it is no call site. All of it is part of the same fixpoint
//! as liveness and only adds, so that the result is the least one. Whoever may call a function unseen passes anything: code that was
//! not understood, models of libraries, jumps to labels, whatever has its address once that escaped. Which memory is followed
//! is decided before (`globals`). Left out: constraints of code that is not reached; they are counted as before.

use rustc_hash::FxHashMap;
use summaries::constant::{
    Cell, Condition, FunctionConstants, Integer, Outcome, PARAMETERS, Pass, Quantity, Source,
};

use super::flow::Flow;
use super::globals::{Globals, NotConstant};
use super::places::World;
use crate::ids::AtomId;

/// What is known of an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Fact {
    /// Nothing brought one so far.
    #[default]
    Nothing,
    Constant(u64),
    Anything,
}

impl Fact {
    fn join(self, other: Fact) -> Fact {
        match (self, other) {
            (Fact::Nothing, fact) | (fact, Fact::Nothing) => fact,
            (Fact::Constant(a), Fact::Constant(b)) if a == b => self,
            _ => Fact::Anything,
        }
    }

    /// Whether a test of it may go this way.
    fn may_be(self, condition: &Condition, holds: bool) -> bool {
        match self {
            Fact::Nothing => false,
            Fact::Constant(value) => condition.holds(value) == holds,
            Fact::Anything => true,
        }
    }

    fn map(self, of: impl FnOnce(u64) -> u64) -> Fact {
        match self {
            Fact::Constant(value) => Fact::Constant(of(value)),
            other => other,
        }
    }
}

/// Counts for the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConstantStatistics {
    /// Live functions of which the integers were followed.
    pub functions: usize,
    /// Parameters of those that tests or calls go by, and that are always the same.
    pub parameters: usize,
    /// Places of memory that code accesses directly, and those of them that always hold the same.
    pub cells: usize,
    pub constant_cells: usize,
    /// Places that are not followed, by reason, in the order of [`NotConstant::ALL`].
    pub not_followed: [usize; NotConstant::ALL.len()],
    /// Call sites of live functions that are not reached.
    pub unreached_sites: usize,
}

/// The facts, and who waits for them.
pub(super) struct Constants<'s> {
    /// By function.
    tables: Vec<Option<&'s FunctionConstants>>,
    /// By function, in the order of [`PARAMETERS`].
    parameters: Vec<[Fact; PARAMETERS.len()]>,
    globals: Globals,
    /// By number of a place in memory: what it holds, and the functions that look at it.
    cells: Vec<(Fact, Vec<u32>)>,
    /// By function: (call site, callee) of calls that pass what depends on something.
    links: Vec<Vec<(u32, u32)>>,
    /// By function: call sites that are not reached, and the atom by which the function became live.
    waiting: Vec<(Vec<u32>, Option<AtomId>)>,
    /// Functions for which something has changed.
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    places: FxHashMap<(usize, Cell), Option<u32>>,
}

impl<'s> Constants<'s> {
    /// Of functions in the order of the modules.
    pub(super) fn new(world: &World<'s>) -> Self {
        let mut tables = Vec::new();
        for summary in world.sources.summaries {
            tables.extend(summary.functions.iter().map(|function| {
                let found = summary.constants.binary_search_by_key(&function.atom, |c| c.atom).ok()?;
                summary.constants.get(found)
            }));
        }
        let globals = Globals::new(world);
        let count = tables.len();
        Constants {
            tables,
            parameters: vec![[Fact::Nothing; PARAMETERS.len()]; count],
            cells: globals.initial.iter().map(|value| (Fact::Constant(*value), Vec::new())).collect(),
            globals,
            links: vec![Vec::new(); count],
            waiting: vec![(Vec::new(), None); count],
            dirty: Vec::new(),
            is_dirty: vec![false; count],
            places: FxHashMap::default(),
        }
    }

    fn mark(&mut self, function: u32) {
        if !std::mem::replace(&mut self.is_dirty[function as usize], true) {
            self.dirty.push(function);
        }
    }

    fn raise_parameter(&mut self, function: u32, number: usize, by: Fact) {
        let slot = &mut self.parameters[function as usize][number];
        let joined = slot.join(by);
        if joined != std::mem::replace(slot, joined) {
            self.mark(function);
        }
    }

    fn raise_cell(&mut self, cell: u32, by: Fact) {
        let (slot, readers) = &mut self.cells[cell as usize];
        let joined = slot.join(by);
        if joined != std::mem::replace(slot, joined) {
            readers.clone().into_iter().for_each(|function| self.mark(function));
        }
    }

    /// The number of a place that the module at `position` accesses; `None` if it is not followed.
    fn cell(&mut self, world: &World<'s>, position: usize, cell: Cell) -> Option<u32> {
        let globals = &self.globals;
        *self.places.entry((position, cell)).or_insert_with(|| globals.number(world, position, cell))
    }

    fn source(&mut self, world: &World<'s>, (position, function): (usize, u32), source: Source) -> Fact {
        match source {
            Source::Parameter(register) => {
                let number = PARAMETERS.iter().position(|p| *p == register);
                number.map_or(Fact::Anything, |n| self.parameters[function as usize][n])
            }
            Source::Memory(cell) => match self.cell(world, position, cell) {
                Some(number) => self.cells[number as usize].0,
                None => Fact::Anything,
            },
        }
    }

    fn quantity(&mut self, world: &World<'s>, of: (usize, u32), quantity: &Quantity) -> Fact {
        self.source(world, of, quantity.source).map(|value| quantity.value(value))
    }

    fn integer(&mut self, world: &World<'s>, of: (usize, u32), integer: &Integer) -> Fact {
        match integer {
            Integer::Constant(value) => Fact::Constant(*value),
            Integer::Of(quantity) => self.quantity(world, of, quantity),
        }
    }

    /// Whether a test may go this way.
    fn may_be(&mut self, world: &World<'s>, of: (usize, u32), condition: &Condition, holds: bool) -> bool {
        self.source(world, of, condition.quantity.source).may_be(condition, holds)
    }

    fn is_reached(
        &mut self,
        world: &World<'s>,
        of: (usize, u32),
        table: &FunctionConstants,
        needs: &[Outcome],
    ) -> bool {
        needs.iter().all(|need| match table.conditions.get(need.condition as usize) {
            Some(condition) => self.may_be(world, of, condition, need.holds),
            None => true,
        })
    }
}

impl<'s> Flow<'s> {
    /// The constants with what they are asked with; `None` if nobody asks for them.
    fn constants_of(&mut self, function: u32) -> Option<(&mut Constants<'s>, &World<'s>, (usize, u32))> {
        let position = self.functions[function as usize].position;
        Some((self.constants.as_mut()?, &self.world, (position, function)))
    }

    fn pass(&self, function: u32, number: u32) -> Option<&'s Pass> {
        let table = self.constants.as_ref()?.tables[function as usize]?;
        let site = self.summary(function).call_sites.get(number as usize)?;
        table.pass(site.section, site.offset)
    }

    /// Whether control may come to a call site of a live function.
    fn is_site_reached(&mut self, function: u32, number: u32) -> bool {
        let Some(pass) = self.pass(function, number) else { return true };
        let Some((constants, world, of)) = self.constants_of(function) else { return true };
        constants.tables[function as usize].is_none_or(|t| constants.is_reached(world, of, t, &pass.needs))
    }

    /// The call sites of a function that has become live.
    pub(super) fn add_sites(&mut self, function: u32, by: AtomId) {
        for number in 0..self.summary(function).call_sites.len() as u32 {
            if self.is_site_reached(function, number) {
                self.add_site(function, number, by);
            } else if let Some(constants) = self.constants.as_mut() {
                constants.waiting[function as usize].0.push(number);
            }
        }
        let Some((constants, world, of)) = self.constants_of(function) else { return };
        constants.waiting[function as usize].1 = Some(by);
        let Some(table) = constants.tables[function as usize] else { return };
        let conditions = table.conditions.iter().map(|c| c.quantity);
        let integers = table.passes.iter().flat_map(|p| p.actuals.iter().map(|a| a.1));
        let integers = integers.chain(table.puts.iter().filter_map(|p| p.value));
        let passed = integers.filter_map(|i| match i {
            Integer::Of(quantity) => Some(quantity),
            Integer::Constant(_) => None,
        });
        let mut read: Vec<u32> = Vec::new();
        for quantity in conditions.chain(passed) {
            if let Source::Memory(cell) = quantity.source {
                read.extend(constants.cell(world, of.0, cell));
            }
        }
        read.sort_unstable();
        read.dedup();
        read.into_iter().for_each(|cell| constants.cells[cell as usize].1.push(function));
        self.put_all(function);
    }

    /// What the stores of a live function that are reached put into memory.
    fn put_all(&mut self, function: u32) {
        let Some((constants, world, of)) = self.constants_of(function) else { return };
        let Some(table) = constants.tables[function as usize] else { return };
        for put in &table.puts {
            let Some(cell) = constants.cell(world, of.0, put.cell) else { continue };
            if !constants.is_reached(world, of, table, &put.needs) {
                continue;
            }
            let size = put.cell.size.min(8) as u8;
            let value = put.value.as_ref().map_or(Fact::Anything, |v| constants.integer(world, of, v));
            constants.raise_cell(cell, value.map(|v| summaries::constant::cut(v, size)));
        }
    }

    /// A call passes integers: of a call site, or (`None`) of something that is not seen.
    pub(super) fn pass_integers(&mut self, from: Option<(u32, u32)>, callee: u32) {
        if self.constants.is_none() {
            return;
        }
        let pass = from.and_then(|(caller, number)| Some((caller, number, self.pass(caller, number)?)));
        let Some((caller, number, pass)) = pass else { return self.open_parameters(callee) };
        let Some((constants, world, of)) = self.constants_of(caller) else { return };
        let mut depends = false;
        for (i, register) in PARAMETERS.iter().enumerate() {
            let actual = pass.actuals.iter().find(|a| a.0 == *register).map(|a| &a.1);
            depends |= matches!(actual, Some(Integer::Of(_)));
            let fact = actual.map_or(Fact::Anything, |integer| constants.integer(world, of, integer));
            constants.raise_parameter(callee, i, fact);
        }
        let link = (number, callee);
        let links = &mut constants.links[caller as usize];
        if depends && !links.contains(&link) {
            links.push(link);
        }
    }

    /// The function may be passed anything.
    pub(super) fn open_parameters(&mut self, function: u32) {
        if let Some(constants) = self.constants.as_mut() {
            (0..PARAMETERS.len()).for_each(|i| constants.raise_parameter(function, i, Fact::Anything));
        }
    }

    /// Look again at the functions for which something has changed. False if there are none.
    pub(super) fn follow_constants(&mut self) -> bool {
        let Some(constants) = self.constants.as_mut() else { return false };
        let mut dirty = std::mem::take(&mut constants.dirty);
        dirty.sort_unstable();
        for function in &dirty {
            constants.is_dirty[*function as usize] = false;
        }
        for function in &dirty {
            self.look_again(*function);
        }
        !dirty.is_empty()
    }

    fn look_again(&mut self, function: u32) {
        let Some(constants) = self.constants.as_mut() else { return };
        // What is not live so far is looked at when it is.
        let (waiting, Some(by)) = (
            std::mem::take(&mut constants.waiting[function as usize].0),
            constants.waiting[function as usize].1,
        ) else {
            return;
        };
        let links = constants.links[function as usize].clone();
        let (reached, left): (Vec<u32>, Vec<u32>) =
            waiting.into_iter().partition(|number| self.is_site_reached(function, *number));
        if let Some(constants) = self.constants.as_mut() {
            constants.waiting[function as usize].0 = left;
        }
        self.put_all(function);
        for (number, callee) in links {
            self.pass_integers(Some((function, number)), callee);
        }
        reached.into_iter().for_each(|number| self.add_site(function, number, by));
    }

    /// Call sites of live functions that are not reached: function and number.
    pub(super) fn unreached(&self) -> impl Iterator<Item = (u32, u32)> {
        let waiting = self.constants.iter().flat_map(|c| (0u32..).zip(&c.waiting));
        waiting.flat_map(|(function, (sites, _))| sites.iter().map(move |number| (function, *number)))
    }

    /// The first test that never goes the way that a call site needs it, with that way, and what is known of its integer.
    pub(super) fn barrier(&self, function: u32, number: u32) -> Option<(Condition, bool, Fact)> {
        let constants = self.constants.as_ref()?;
        let table = constants.tables[function as usize]?;
        let position = self.functions[function as usize].position;
        self.pass(function, number)?.needs.iter().find_map(|need| {
            let condition = table.conditions.get(need.condition as usize)?;
            let fact = match condition.quantity.source {
                Source::Parameter(register) => {
                    let number = PARAMETERS.iter().position(|p| *p == register)?;
                    constants.parameters[function as usize][number]
                }
                Source::Memory(cell) => {
                    let number = constants.globals.number(&self.world, position, cell)?;
                    constants.cells[number as usize].0
                }
            };
            (!fact.may_be(condition, need.holds)).then_some((*condition, need.holds, fact))
        })
    }

    /// Counts of the fixpoint.
    pub(super) fn constant_statistics(&self) -> Option<ConstantStatistics> {
        let constants = self.constants.as_ref()?;
        let mut statistics = ConstantStatistics {
            cells: constants.cells.len(),
            constant_cells: constants.cells.iter().filter(|c| matches!(c.0, Fact::Constant(_))).count(),
            not_followed: constants.globals.not_followed,
            ..ConstantStatistics::default()
        };
        for (function, table) in constants.tables.iter().enumerate() {
            let Some(table) = table.filter(|_| self.functions[function].active) else { continue };
            statistics.functions += 1;
            statistics.unreached_sites += constants.waiting[function].0.len();
            let used = |register: u8| {
                let is = |q: &Quantity| q.source == Source::Parameter(register);
                let passed = table.passes.iter().flat_map(|p| &p.actuals);
                table.conditions.iter().any(|c| is(&c.quantity))
                    || passed.into_iter().any(|a| matches!(&a.1, Integer::Of(q) if is(q)))
            };
            let facts = constants.parameters[function].iter().zip(PARAMETERS);
            let constant = facts.filter(|(fact, r)| matches!(fact, Fact::Constant(_)) && used(*r));
            statistics.parameters += constant.count();
        }
        Some(statistics)
    }
}
