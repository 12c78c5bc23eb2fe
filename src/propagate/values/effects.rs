//! Library models at call sites: each effect of a model becomes constraints of the constraint graph.
//!
//! A model lists every effect of its function on addresses (`summaries::models`). Each effect is a constraint on the arguments and
//! results of the site. `propagate::models` chooses the model of a function, and `escapes` handles functions whose address escapes.

use std::borrow::Cow;

use summaries::ValueIdx;
use summaries::models::{
    Argument, Effect, ExposedArguments, LinkFields, MemoryIdx, Model, PassedArgument, ResultUse, Source,
    StoredAddress,
};
use summaries::registers::{ARGUMENTS, RAX, VECTOR_ARGUMENTS, XMM0};

use super::flow::{Flow, ObjectKind};
use super::graph::{CELL, ComplexConstraint, EscapeReason, MemoryClass, NodeId, OverdefinedReason};
use super::sets::Element;
use super::site::{CallInterface, Site};
use crate::ids::SymbolId;

/// Bytes of an allocated object that are distinguished.
const HEAP: (i64, i64) = (0, 1 << 16);

impl<'s> Flow<'s> {
    pub(super) fn apply_model(&mut self, site: u32, symbol: SymbolId, model: &Model) {
        for effect in &model.effects {
            self.apply_effect(site, symbol, *effect);
        }
    }

    /// The address of the memory that a model names.
    pub(super) fn library(&mut self, symbol: SymbolId) -> Element {
        let memory = (self.places.sources.memory)(symbol);
        self.memory_of_library(memory.unwrap_or(("", MemoryIdx::default())))
    }

    /// The node of all that the library stores in that memory.
    fn held(&mut self, symbol: SymbolId) -> NodeId {
        let object = self.library(symbol).object();
        self.graph.whole(object)
    }

    pub(super) fn argument(&self, site: u32, argument: Argument) -> Option<NodeId> {
        let register = ARGUMENTS.get(usize::from(argument))?;
        self.sites[site as usize].passed.actual(*register)
    }

    fn apply_effect(&mut self, site: u32, symbol: SymbolId, effect: Effect) {
        let result = self.sites[site as usize].passed.result(RAX);
        let argument = |n| self.argument(site, n);
        match effect {
            Effect::ReturnsFresh | Effect::ReturnsAligned => {
                if let Some(result) = result {
                    let element = match effect {
                        Effect::ReturnsAligned => self.fresh_aligned(site),
                        _ => self.fresh(site),
                    };
                    self.graph.add(result, element);
                }
            }
            Effect::Returns { argument: n, exact } => {
                if let (Some(from), Some(to)) = (argument(n), result) {
                    self.graph.add_use(from, ComplexConstraint::Displace { to, by: exact.then_some(0) });
                }
            }
            Effect::ReturnsLibrary => {
                if let Some(to) = result {
                    let element = self.library(symbol);
                    self.graph.add(to, element);
                }
            }
            Effect::ReturnsUnknown => {
                if let Some(to) = result {
                    self.graph.add_unknown(to, OverdefinedReason::Result);
                }
            }
            Effect::ReturnsContents { argument: n, exact } => {
                if let (Some(from), Some(to)) = (argument(n), result) {
                    let read = if exact { to } else { self.graph.node() };
                    self.graph.add_use(from, ComplexConstraint::Load { to: read, offset: None, size: 0 });
                    if !exact {
                        self.graph.add_use(read, ComplexConstraint::Displace { to, by: None });
                    }
                }
            }
            Effect::Copies { from, to, aligned } => {
                if let (Some(from), Some(to)) = (self.source(site, from), self.source(site, to)) {
                    let offset = aligned.then_some(0);
                    self.graph.copy((from, offset), (to, offset), 0);
                }
            }
            Effect::Stores { what, to, offset } => {
                let Some(to) = self.source(site, to) else { return };
                let size = if offset.is_some() { CELL as u32 } else { 0 };
                let from = self.stored(site, symbol, what);
                self.graph.add_use(to, ComplexConstraint::Store { from, offset, size });
            }
            Effect::Holds(what) => {
                if let Some(from) = self.source(site, what) {
                    let object = self.library(symbol).object();
                    let anywhere = self.graph.anywhere(object);
                    self.graph.assign(from, anywhere);
                }
            }
            Effect::HoldsWithin(n) => {
                if let Some(from) = argument(n) {
                    let object = self.library(symbol).object();
                    let to = self.graph.anywhere(object);
                    self.graph.add_use(from, ComplexConstraint::Displace { to, by: None });
                }
            }
            Effect::ReturnsHeld => {
                if let Some(to) = result {
                    let held = self.held(symbol);
                    self.graph.assign(held, to);
                }
            }
            Effect::ReturnsWithinContentsOfHeld => {
                if let Some(to) = result {
                    let (held, contents) = (self.held(symbol), self.graph.node());
                    let load = ComplexConstraint::Load { to: contents, offset: None, size: 0 };
                    self.graph.add_use(held, load);
                    self.graph.add_use(contents, ComplexConstraint::Displace { to, by: None });
                }
            }
            Effect::Relinks { arguments, fields, returns } => {
                let linked = self.relink(site, arguments, fields);
                if let (Some(to), true) = (result, returns) {
                    self.graph.assign(linked, to);
                }
            }
            Effect::ReturnsLinked { argument: n, fields } => {
                let linked = self.linked(site, 1 << n, fields);
                if let Some(to) = result {
                    self.graph.assign(linked, to);
                }
            }
            Effect::WritesOut(n) => {
                if let Some(from) = argument(n) {
                    let files = self.files();
                    self.graph.add_use(from, ComplexConstraint::Load { to: files, offset: None, size: 0 });
                }
            }
            Effect::WritesValue(n) => {
                if let Some(from) = argument(n) {
                    let files = self.files();
                    self.graph.add_use(from, ComplexConstraint::Displace { to: files, by: None });
                }
            }
            Effect::ReadsIn(to) => {
                if let Some(to) = self.source(site, to) {
                    let files = self.files();
                    self.graph.add_use(to, ComplexConstraint::Store { from: files, offset: None, size: 0 });
                }
            }
            Effect::ReturnsFiles => self.return_files(site),
            Effect::Prints { first, within } => {
                let (files, exposed) = (self.files(), self.exposed_code());
                for (from, is_string) in self.variable_arguments(site, first, within) {
                    if is_string {
                        let load = ComplexConstraint::Load { to: files, offset: None, size: 0 };
                        self.graph.add_use(from, load);
                        continue;
                    }
                    self.graph.add_use(from, ComplexConstraint::Displace { to: files, by: None });
                    self.graph.add_use(from, ComplexConstraint::Code { to: exposed });
                }
            }
            Effect::Scans { first, within } => {
                let mut from = self.files();
                // `%ms` allocates memory.
                if within || self.format_of(site, first).is_none() {
                    let (files, element) = (from, self.fresh(site));
                    from = self.graph.node();
                    self.graph.assign(files, from);
                    self.graph.add(from, element);
                }
                for (to, _) in self.variable_arguments(site, first, within) {
                    self.graph.add_use(to, ComplexConstraint::Store { from, offset: None, size: 0 });
                }
            }
            Effect::Frees => {}
            Effect::Exposes(arguments) => {
                let passed = self.sites[site as usize].passed.clone();
                let exposed: Vec<NodeId> = match arguments {
                    ExposedArguments::General(n) => argument(n).into_iter().collect(),
                    ExposedArguments::Vectors => {
                        VECTOR_ARGUMENTS.iter().take(3).filter_map(|r| passed.actual(*r)).collect()
                    }
                    ExposedArguments::Stack => passed.stack().map(|(_, node)| node).collect(),
                };
                let to = self.exposed_code();
                exposed.iter().for_each(|from| self.graph.add_use(*from, ComplexConstraint::Code { to }));
                if arguments == ExposedArguments::Vectors {
                    let files = self.files();
                    let displace = ComplexConstraint::Displace { to: files, by: None };
                    exposed.into_iter().for_each(|from| self.graph.add_use(from, displace));
                    self.return_files(site);
                }
            }
            Effect::Escapes(n) => {
                if let Some(from) = argument(n) {
                    self.graph.let_escape(from, EscapeReason::CalleeWithoutSummary);
                }
            }
            Effect::Calls { function, arguments, returned } => {
                let result = match returned {
                    ResultUse::Dropped => None,
                    ResultUse::Returned => result,
                    ResultUse::Kept => {
                        let object = self.library(symbol).object();
                        Some(self.graph.anywhere(object))
                    }
                };
                if let Some(callee) = self.source(site, function) {
                    self.call_back((site, symbol), callee, arguments, result);
                }
            }
        }
    }

    /// The result, an integer or a floating-point number, may come from file contents.
    fn return_files(&mut self, site: u32) {
        let files = self.files();
        for register in [RAX, XMM0] {
            if let Some(to) = self.sites[site as usize].passed.result(register) {
                self.graph.assign(files, to);
            }
        }
    }

    /// The addresses of the list nodes that are reachable from the arguments.
    fn linked(&mut self, site: u32, arguments: u8, fields: LinkFields) -> NodeId {
        let linked = self.graph.node();
        for n in (0..6).filter(|n| arguments & 1 << n != 0) {
            if let Some(from) = self.argument(site, n) {
                self.graph.assign(from, linked);
            }
        }
        for offset in fields.into_iter().flatten() {
            let load =
                ComplexConstraint::Load { to: linked, offset: Some(i64::from(offset)), size: CELL as u32 };
            self.graph.add_use(linked, load);
        }
        linked
    }

    /// The same addresses; the links between the list nodes become arbitrary.
    fn relink(&mut self, site: u32, arguments: u8, fields: LinkFields) -> NodeId {
        let linked = self.linked(site, arguments, fields);
        for offset in fields.into_iter().flatten() {
            let store =
                ComplexConstraint::Store { from: linked, offset: Some(i64::from(offset)), size: CELL as u32 };
            self.graph.add_use(linked, store);
        }
        linked
    }

    /// The node of an address that a modelled function finds.
    fn source(&mut self, site: u32, source: Source) -> Option<NodeId> {
        match source {
            Source::Argument(n) => self.argument(site, n),
            Source::Field { offset, of } => {
                let (from, to) = (self.argument(site, of)?, self.graph.node());
                self.graph
                    .add_use(from, ComplexConstraint::Load { to, offset: Some(offset), size: CELL as u32 });
                Some(to)
            }
        }
    }

    /// A node that holds the value stored by a modelled function.
    fn stored(&mut self, site: u32, symbol: SymbolId, what: StoredAddress) -> NodeId {
        let node = self.graph.node();
        match what {
            StoredAddress::Within(n) => {
                if let Some(from) = self.argument(site, n) {
                    self.graph.add_use(from, ComplexConstraint::Displace { to: node, by: None });
                }
            }
            StoredAddress::Place { offset, argument } => {
                if let Some(from) = self.argument(site, argument) {
                    self.graph.add_use(from, ComplexConstraint::Displace { to: node, by: Some(offset) });
                }
            }
            StoredAddress::Contents(n) => {
                if let Some(from) = self.argument(site, n) {
                    self.graph.add_use(
                        from,
                        ComplexConstraint::Load { to: node, offset: Some(0), size: CELL as u32 },
                    );
                }
            }
            StoredAddress::Fresh | StoredAddress::Aligned => {
                let element = match what {
                    StoredAddress::Aligned => self.fresh_aligned(site),
                    _ => self.fresh(site),
                };
                self.graph.add(node, element);
            }
            StoredAddress::Library => {
                let element = self.library(symbol);
                self.graph.add(node, element);
            }
            StoredAddress::Held => return self.held(symbol),
            StoredAddress::Unknown => self.graph.add_unknown(node, OverdefinedReason::Memory),
        }
        node
    }

    /// Memory that a modelled function allocates.
    pub(super) fn fresh(&mut self, site: u32) -> Element {
        let object = self.object(MemoryClass::Memory, HEAP.0, HEAP.1, ObjectKind::Heap(site));
        self.graph.element(object, Some(0))
    }

    /// The same, aligned as the caller says.
    fn fresh_aligned(&mut self, site: u32) -> Element {
        let element = self.fresh(site);
        self.graph.do_not_distinguish(element.object());
        self.graph.element(element.object(), None)
    }

    /// A modelled function calls the functions in `callee`.
    fn call_back(
        &mut self,
        (site, symbol): (u32, SymbolId),
        callee: NodeId,
        passed: [PassedArgument; 3],
        result: Option<NodeId>,
    ) {
        let mut actuals = Vec::new();
        for (register, what) in ARGUMENTS.iter().zip(passed) {
            let node = self.graph.node();
            match what {
                PassedArgument::Nothing => continue,
                PassedArgument::Library => {
                    let element = self.library(symbol);
                    self.graph.add(node, element);
                }
                PassedArgument::Unknown => self.graph.add_unknown(node, OverdefinedReason::Parameter),
                PassedArgument::Argument(n) | PassedArgument::Within(n) | PassedArgument::Contents(n) => {
                    let Some(from) = self.argument(site, n) else { continue };
                    let what = match what {
                        PassedArgument::Contents(_) => {
                            ComplexConstraint::Load { to: node, offset: None, size: 0 }
                        }
                        PassedArgument::Within(_) => ComplexConstraint::Displace { to: node, by: None },
                        _ => ComplexConstraint::Displace { to: node, by: Some(0) },
                    };
                    self.graph.add_use(from, what);
                }
            }
            actuals.push((*register, ValueIdx(node)));
        }
        actuals.sort_unstable();
        let this = &self.sites[site as usize];
        let results: Vec<_> = result.map(|node| (RAX, ValueIdx(node))).into_iter().collect();
        let passed = CallInterface {
            first: 0,
            actuals: Cow::Owned(actuals),
            stack: &[],
            in_frame: None,
            results: Cow::Owned(results),
        };
        let site = Site { callee: Some(callee), ..Site::new(this.function, this.caller, passed) };
        let id = self.sites.len() as u32;
        self.sites.push(site);
        self.graph.add_use(callee, ComplexConstraint::Call { site: id });
    }
}
