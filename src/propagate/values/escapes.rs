//! Escape analysis: external code may call a function whose address escaped, enter it at its labels, and use its results.
//!
//! All values that external code provides are unknown: parameters, stack memory above the frame, and registers at a label. The
//! graph handles memory that escapes.

use summaries::models::{Effect, ExposedArguments, PassedArgument, ResultUse, StoredAddress};

use super::flow::{FIRST_STACK_PARAMETER, Flow, ObjectKind};
use super::graph::{ESCAPED, EscapeReason, OverdefinedReason};
use super::sets::Element;
use crate::ids::{AtomId, Id, SymbolId};
use crate::propagate::liveness::Witness;

impl Flow<'_> {
    /// Let the address of an atom escape, at any offset in it.
    pub(super) fn escape_atom(&mut self, atom: AtomId) {
        if self.places.is_dead(atom) {
            return;
        }
        self.escaped[atom.index()] = true;
        if let Some(element) = self.address(atom, None) {
            self.graph.add(ESCAPED, element);
        }
    }

    /// Let an address escape, with the consequences for the code or data at it.
    pub(super) fn escape(&mut self, element: Element) {
        let atom = match self.object_kinds.get(element.object() as usize).copied() {
            Some(ObjectKind::Code(atom)) => atom,
            Some(ObjectKind::External(symbol)) => return self.library_escapes(symbol),
            _ => return,
        };
        self.live(atom, Witness::Escaped { mention: self.mention[atom.index()] });
        self.escaped[atom.index()] = true;
        let Some(function) = self.function_of(atom) else { return };
        if !std::mem::replace(&mut self.functions[function as usize].escaped, true) {
            // External code that has one address in a function has its other addresses, too.
            self.enter_at_label(function);
            let entered = self.clone_for_unseen(function, atom);
            self.open(entered);
        }
    }

    /// External code may call the function: its parameters may be anything, and its results escape.
    fn open(&mut self, function: u32) {
        self.functions[function as usize].runs = true;
        let summary = self.summary(function);
        let unknown = OverdefinedReason::Parameter;
        let stack = summary.stack_parameters.iter().map(|p| p.1);
        for value in summary.parameters.iter().map(|p| p.1).chain(stack) {
            let node = self.node_of_value(function, value);
            self.graph.add_unknown(node, unknown);
        }
        if let Some(frame) = self.frame(function) {
            let above = self.graph.divide_above(frame, FIRST_STACK_PARAMETER);
            self.graph.add_unknown(above, unknown);
        }
        for (_, value) in &summary.results {
            let node = self.node_of_value(function, *value);
            self.graph.let_escape(node, EscapeReason::Returned);
        }
    }

    /// Control may enter the function at a label from anywhere. From there it runs to its return as from the entry.
    fn enter_at_label(&mut self, function: u32) {
        self.functions[function as usize].runs |= !self.summary(function).indirect_entry_values.is_empty();
        let summary = self.summary(function);
        for value in &summary.indirect_entry_values {
            let node = self.node_of_value(function, *value);
            self.graph.add_unknown(node, OverdefinedReason::Parameter);
        }
    }

    /// Unknown calls may lead to this library function. The arguments and result of such a call have escaped already. The memory of
    /// the library has not, so it escapes here.
    fn library_escapes(&mut self, symbol: SymbolId) {
        self.external_escapes(symbol);
        let Some(model) = (self.places.sources.models)(symbol) else { return };
        let by_arguments = |effect: &Effect| match effect {
            Effect::ReturnsFresh
            | Effect::ReturnsAligned
            | Effect::Returns { .. }
            | Effect::ReturnsUnknown
            | Effect::ReturnsContents { .. }
            | Effect::Copies { .. }
            | Effect::Relinks { .. }
            | Effect::ReturnsLinked { .. }
            | Effect::Frees
            | Effect::Exposes(_)
            | Effect::Escapes(_) => true,
            Effect::Stores { what, .. } => !matches!(what, StoredAddress::Library | StoredAddress::Held),
            Effect::Calls { arguments, returned, .. } => {
                !arguments.contains(&PassedArgument::Library) && *returned != ResultUse::Kept
            }
            _ => false,
        };
        let of_files = |effect: &Effect| {
            use Effect::*;
            matches!(
                effect,
                WritesOut(_)
                    | WritesValue(_)
                    | ReadsIn(_)
                    | ReturnsFiles
                    | Prints { .. }
                    | Scans { .. }
                    | Exposes(ExposedArguments::Vectors)
            )
        };
        if model.effects.iter().any(of_files) {
            self.share_files();
        }
        if !model.effects.iter().all(|effect| by_arguments(effect) || of_files(effect)) {
            let element = self.library(symbol);
            self.graph.add(ESCAPED, element);
        }
    }
}
