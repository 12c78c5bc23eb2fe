//! Models of memory that is executed, and of bytes that are written to files and read again.
//!
//! Memory is executed only if external code wrote code into it or made it executable, as for trampolines and JIT compilers. Its
//! address has escaped then, and the code may do anything. One node holds the contents of all files and all formatted text.

use summaries::models::{Argument, MemoryIdx};
use summaries::registers::{ARGUMENTS, VECTOR_ARGUMENTS};
use summaries::relation::FormatArguments;

use super::flow::{Flow, ObjectKind};
use super::graph::{ComplexConstraint, ESCAPED, EscapeReason, MemoryClass, NodeId, OverdefinedReason};
use super::sets::Element;
use super::site::Site;

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
        self.call_unknown_code(site);
        // The called code may make system calls.
        self.share_with_unseen();
    }

    fn has_escaped(&self, object: u32) -> bool {
        let object = self.graph.object_of(object);
        self.graph.objects.get(object as usize).is_some_and(|o| o.escaped)
    }

    /// Call the objects in `executed` that escaped since. The result is false if no object did.
    pub(super) fn call_escaped_data(&mut self) -> bool {
        let all = std::mem::take(&mut self.executed);
        let (escaped, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, o)| self.has_escaped(*o));
        self.executed = rest;
        for (site, object) in &escaped {
            self.call_data(*site, *object);
        }
        !escaped.is_empty()
    }

    /// Resolve the sites with no known callee, once code addresses were used other than by copying. Such a site may call an integer
    /// that was computed from one. The result is false if there is no such site.
    pub(super) fn call_numbers(&mut self) -> bool {
        if self.exposed_code.is_none_or(|node| self.graph.set(self.graph.find(node)).is_empty()) {
            return false;
        }
        let is_code = |e: &Element| {
            let kind = self.object_kinds.get(e.object() as usize);
            e.is_unknown() || matches!(kind, Some(ObjectKind::Code(_) | ObjectKind::External(_)))
        };
        let calls_nothing = |s: &Site<'_>| {
            let runs = self.functions[s.function as usize].runs;
            runs && s.callee.is_some() && !s.calls_unknown && !s.seen.iter().any(is_code)
        };
        let all = (0u32..).zip(&self.sites);
        let sites: Vec<u32> = all.filter(|(_, site)| calls_nothing(site)).map(|(id, _)| id).collect();
        sites.iter().for_each(|site| self.called(*site, OverdefinedReason::FrontEnd.element()));
        !sites.is_empty()
    }

    /// The node of all bytes written to files.
    pub(super) fn files(&mut self) -> NodeId {
        let known = self.files.unwrap_or_else(|| self.graph.node());
        self.files = Some(known);
        known
    }

    /// External code runs. It may read and write files, make them visible to this process (mappings, memory streams), and find the
    /// memory of libraries. It is assumed to store no code address in library memory that the program did not pass to it. Models of
    /// functions that read such addresses say `unknown`.
    pub(super) fn share_with_unseen(&mut self) {
        if std::mem::replace(&mut self.shared, true) {
            return;
        }
        self.share_files();
        for object in self.owned.values() {
            let stored = self.graph.anywhere(*object);
            self.graph.let_escape(stored, EscapeReason::Library);
        }
    }

    /// External code reads and writes the files of the process.
    pub(super) fn share_files(&mut self) {
        let files = self.files();
        self.graph.add_unknown(files, OverdefinedReason::Memory);
        self.graph.let_escape(files, EscapeReason::Library);
    }

    /// The address of memory that a library owns. The memory holds its own addresses and all values that the program stores there.
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

    /// The arguments of the format in the argument before `first`; `None` if the format is not a known constant.
    pub(super) fn format_of(&self, site: u32, first: Argument) -> Option<FormatArguments> {
        let format = ARGUMENTS.get(usize::from(first.checked_sub(1)?))?;
        let of = self.sites[site as usize].formats.iter().find(|f| f.0 == *format).map(|f| f.1);
        of.filter(|_| !self.places.process.writes_constants && !self.places.registers_conversions)
    }

    /// The arguments from `first` on, including those on the stack; `within`: they are in a `va_list`. `true` marks strings that `printf` reads.
    pub(super) fn variable_arguments(
        &mut self,
        site: u32,
        first: Argument,
        within: bool,
    ) -> Vec<(NodeId, bool)> {
        let mut nodes = Vec::new();
        if within {
            // A `va_list` points to the memory that holds the arguments.
            let (list, arguments) = (self.graph.node(), self.graph.node());
            if let Some(from) = self.argument(site, first) {
                self.graph.add_use(from, ComplexConstraint::Load { to: list, offset: None, size: 0 });
                self.graph.add_use(list, ComplexConstraint::Load { to: arguments, offset: None, size: 0 });
            }
            nodes.push((arguments, false));
        } else {
            let of = self.format_of(site, first);
            let FormatArguments { count, strings } =
                of.unwrap_or(FormatArguments { count: u8::MAX, strings: 0 });
            let this = &self.sites[site as usize];
            let end = first.saturating_add(count);
            let is_string = |n: Argument| strings & 1 << (n - first) != 0;
            let general = (first..end.min(6)).filter_map(|n| Some((self.argument(site, n)?, is_string(n))));
            nodes.extend(general);
            let vectors = VECTOR_ARGUMENTS.into_iter().filter(|_| !this.no_vectors);
            let vectors = vectors.take(usize::from(count)).filter_map(|r| this.passed.actual(r));
            nodes.extend(vectors.map(|node| (node, false)));
            if end > 6 {
                nodes.extend(this.passed.stack().map(|s| (s.1, false)));
                if let Some((frame, _)) = this.passed.in_frame {
                    nodes.push((self.graph.whole(frame), false));
                }
            }
        }
        nodes
    }
}
