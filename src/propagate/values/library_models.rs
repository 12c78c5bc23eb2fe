//! Models of what leaves memory and comes back: code that lies in data, contents of files, addresses that became text, numbers that
//! libraries and the kernel keep.
//!
//! Memory is executed only if unseen code made it executable, or wrote code into it (trampolines on the stack, compilers at run time): then its
//! address escaped, and what is there may do anything. Files are one value for all of them, and so is text: what was ever printed
//! can be what any text is read as. Numbers are one as well, and of those only addresses of code are followed.

use summaries::models::{Argument, Effect, MemoryIdx, Model, PassedArgument, Source};
use summaries::registers::{ARGUMENTS, RAX, VECTOR_ARGUMENTS};

use super::flow::{Flow, ObjectKind};
use super::graph::{ComplexConstraint, ESCAPED, EscapeReason, MemoryClass, NodeId, OverdefinedReason};
use super::sets::Element;
use crate::ids::SymbolId;

impl<'s> Flow<'s> {
    /// A site calls an object in memory.
    pub(super) fn call_data(&mut self, site: u32, object: u32) {
        if self.places.process.executes_data {
            let element = self.graph.element(object, None);
            self.graph.add(ESCAPED, element);
        }
        if !self.has_escaped(object) {
            return self.executed.push((site, object));
        }
        self.sites[site as usize].causes.insert(OverdefinedReason::Memory);
        self.call_unknown(site);
        // It may make system calls.
        self.share_with_unseen();
    }

    fn has_escaped(&self, object: u32) -> bool {
        let object = self.graph.object_of(object);
        self.graph.objects.get(object as usize).is_some_and(|o| o.escaped)
    }

    /// Objects that sites call may have escaped since. False if none has.
    pub(super) fn call_escaped_data(&mut self) -> bool {
        let all = std::mem::take(&mut self.executed);
        let (escaped, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, o)| self.has_escaped(*o));
        self.executed = rest;
        for (site, object) in &escaped {
            self.call_data(*site, *object);
        }
        !escaped.is_empty()
    }

    /// What was written to files of any kind.
    pub(super) fn files(&mut self) -> NodeId {
        let known = self.files.unwrap_or_else(|| self.graph.node());
        self.files = Some(known);
        known
    }

    /// What was written as text, wherever the text is.
    pub(super) fn text(&mut self) -> NodeId {
        let known = self.text.unwrap_or_else(|| self.graph.node());
        self.text = Some(known);
        known
    }

    /// The numbers that modelled functions were passed and that may come back.
    pub(super) fn numbers(&mut self) -> NodeId {
        if let Some(known) = self.numbers {
            return known;
        }
        let (numbers, text, files) = (self.graph.node(), self.text(), self.files());
        self.graph.assign(numbers, text);
        self.graph.assign(numbers, files);
        self.numbers = Some(numbers);
        numbers
    }

    /// Whatever number a modelled function is passed may come back: from it or from another one, in memory that the library hands out, too.
    /// What it calls is no number.
    pub(super) fn keep_numbers(&mut self, site: u32, symbol: SymbolId, model: &Model) {
        let numbers = self.numbers();
        let calls = |n: Argument| {
            let of = Source::Argument(n);
            model.effects.iter().any(|e| match e {
                Effect::Calls { function, arguments, .. } => {
                    *function == of || arguments.contains(&PassedArgument::Argument(n))
                }
                _ => false,
            })
        };
        let passed = self.sites[site as usize].passed.clone();
        let general = (0..).zip(ARGUMENTS).filter(|(n, _)| !calls(*n)).map(|(_, register)| register);
        let registers = general.chain(VECTOR_ARGUMENTS).filter_map(|register| passed.actual(register));
        let in_frame = passed.in_frame.map(|(frame, _)| self.graph.whole(frame));
        let listed = model.effects.iter().find_map(|effect| match effect {
            Effect::Prints { first, within: true, .. } | Effect::Scans { first, within: true, .. } => {
                Some(*first)
            }
            _ => None,
        });
        let listed = listed.map_or_else(Vec::new, |first| self.variable_arguments(site, first, true));
        let on_stack = passed.stack().map(|(_, node)| node).chain(in_frame).chain(listed);
        for from in registers.chain(on_stack) {
            self.graph.add_use(from, ComplexConstraint::Code { to: numbers });
        }
        // Where a block lies is no number that anybody passed.
        let is_block = |register| register == RAX && model.effects.contains(&Effect::ReturnsFresh);
        for (_, result) in passed.results.iter().filter(|r| !is_block(r.0)) {
            self.graph.assign(numbers, passed.first + result.0);
        }
        if model.effects.contains(&Effect::ReturnsLibrary) {
            let object = self.library(symbol).object();
            let anywhere = self.graph.anywhere(object);
            self.graph.include(numbers, anywhere, true);
        }
    }

    /// Unseen code runs. It may read files and write to them, and show this process what is in them (streams to memory,
    /// mappings); it finds the memory of libraries as this code does. Where it has not been given that memory by this code,
    /// it is taken to leave no address there that this code follows to a function: models of what does say `unknown`.
    pub(super) fn share_with_unseen(&mut self) {
        if std::mem::replace(&mut self.shared, true) {
            return;
        }
        self.share_text();
        for object in self.owned.values() {
            let stored = self.graph.anywhere(*object);
            self.graph.let_escape(stored, EscapeReason::Library);
        }
    }

    /// Unseen code writes files and text, and reads what is there.
    pub(super) fn share_text(&mut self) {
        for all in [self.files(), self.text()] {
            self.graph.add_unknown(all, OverdefinedReason::Memory);
            self.graph.let_escape(all, EscapeReason::Library);
        }
    }

    /// The address of memory that a library owns. It holds addresses of itself and what the program stores there.
    pub(super) fn memory_of_library(&mut self, memory: (&'s str, MemoryIdx)) -> Element {
        if let Some(object) = self.owned.get(&memory) {
            return self.graph.element(*object, None);
        }
        let object = self.object(MemoryClass::Owned, 0, 0, ObjectKind::Library);
        self.owned.insert(memory, object);
        if self.shared {
            let stored = self.graph.anywhere(object);
            self.graph.let_escape(stored, EscapeReason::Library);
        }
        self.graph.element(object, None)
    }

    /// The arguments from `first` on and the stack's, or those that a `va_list` leads to.
    fn variable_arguments(&mut self, site: u32, first: Argument, within: bool) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        if within {
            // A list of arguments points to where they were put.
            let (list, arguments) = (self.graph.node(), self.graph.node());
            if let Some(from) = self.argument(site, first) {
                self.graph.add_use(from, ComplexConstraint::Load { to: list, offset: None, size: 0 });
                self.graph.add_use(list, ComplexConstraint::Load { to: arguments, offset: None, size: 0 });
            }
            nodes.push(arguments);
        } else {
            nodes.extend((first..6).filter_map(|n| self.argument(site, n)));
            let this = &self.sites[site as usize];
            nodes.extend(VECTOR_ARGUMENTS.into_iter().filter_map(|register| this.passed.actual(register)));
            nodes.extend(this.passed.stack().map(|s| s.1));
            if let Some((frame, _)) = this.passed.in_frame {
                nodes.push(self.graph.whole(frame));
            }
        }
        nodes
    }

    /// Text becomes what it was made from, and bytes of it go where the arguments point.
    pub(super) fn scan(&mut self, site: u32, from: Option<Argument>, first: Argument, within: bool) {
        let read = self.graph.node();
        let text = self.text();
        self.graph.assign(text, read);
        match from {
            None => {
                let files = self.files();
                self.graph.assign(files, read);
            }
            Some(from) => {
                if let Some(from) = self.argument(site, from) {
                    self.graph.add_use(from, ComplexConstraint::Load { to: read, offset: None, size: 0 });
                }
            }
        }
        // `%ms` stores the address of memory that it allocates.
        let allocated = self.fresh(site);
        let anywhere = self.graph.anywhere(allocated.object());
        self.graph.assign(read, anywhere);
        let stored = self.graph.node();
        self.graph.assign(read, stored);
        self.graph.add(stored, allocated);
        for to in self.variable_arguments(site, first, within) {
            self.graph.add_use(to, ComplexConstraint::Store { from: stored, offset: None, size: 0 });
        }
    }

    /// Addresses become digits, and what is at them is copied. Where the text is, only addresses of code that are known are
    /// followed: digits that are read by hand, and bytes that are no digits.
    pub(super) fn print(&mut self, site: u32, first: Argument, within: bool, to: Option<NodeId>) {
        let (text, written, copied) = (self.text(), self.graph.node(), self.graph.node());
        self.graph.add_use(copied, ComplexConstraint::Code { to: written });
        if let Some(format) = first.checked_sub(1).and_then(|n| self.argument(site, n)) {
            self.graph.add_use(format, ComplexConstraint::Load { to: copied, offset: None, size: 0 });
        }
        for from in self.variable_arguments(site, first, within) {
            self.graph.add_use(from, ComplexConstraint::Displace { to: text, by: None });
            self.graph.add_use(from, ComplexConstraint::Code { to: written });
            self.graph.add_use(from, ComplexConstraint::Load { to: copied, offset: None, size: 0 });
        }
        match to {
            Some(to) => {
                self.graph.add_use(to, ComplexConstraint::Store { from: written, offset: None, size: 0 })
            }
            None => {
                let files = self.files();
                self.graph.assign(written, files);
            }
        }
    }
}
