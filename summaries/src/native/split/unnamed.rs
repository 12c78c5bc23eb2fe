//! Addresses that may mean another function than the one that begins there.
//!
//! `lea g(%rip)` and `lea f+77(%rip)` are the same bytes if `g` begins 77 bytes behind the local function `f`: the
//! assembler resolves both, or makes both relocations by the section symbol. A reference by name is clear, and the
//! assembler keeps the names of global functions. There are two signs of another target:
//!
//! - Only global names belong to the function that begins there. Then the section is refused.
//! - No reference exists to a local function near by. Compilers emit local functions only if they are used, and
//!   programs add small numbers ([`MAX_ADDED`]). Both functions and those between them are kept together.
//!
//! A local function with another reference is not considered, if the other function is local too. With
//! `-ffat-lto-objects` gcc emits many unreferenced functions, so one far away proves nothing.

use super::division::{SectionPlace, SplitContext};
use super::references::{SplitReferences, is_hand_written};
use super::text::{Text, Tie};
use crate::limit::Limit;
use crate::summary::{Binding, Definition, SymbolKind};

/// The largest number that programs add to a function's address or subtract from it, in bytes.
const MAX_ADDED: u64 = 4096;

#[derive(Debug, Clone, Copy, Default)]
struct FunctionFacts {
    /// A local symbol is at its start.
    local: bool,
    /// A symbol that is not local is in it.
    global: bool,
    /// Code or data outside of it refers to it.
    referred: bool,
}

/// Refuse the sections with an ambiguous address.
pub(super) fn refuse(context: &SplitContext<'_, '_>, texts: &mut [Text<'_>], found: &SplitReferences) {
    let mut known: Vec<Vec<FunctionFacts>> =
        texts.iter().map(|t| vec![FunctionFacts::default(); t.functions.len()]).collect();
    let mut at = |text: usize, function: Option<usize>, set: &dyn Fn(&mut FunctionFacts)| {
        if let Some(known) = function.and_then(|f| known.get_mut(text)?.get_mut(f)) {
            set(known);
        }
    };
    for symbol in context.symbols {
        if !matches!(symbol.kind, SymbolKind::Func | SymbolKind::Ifunc) {
            continue;
        }
        let Definition::Atom(atom) = symbol.definition else { continue };
        let Some(index) = context.section_of(atom).and_then(|s| context.text_of(s)) else { continue };
        let Some(text) = texts.get(index) else { continue };
        let function = text.function_at(symbol.value);
        let starts = text.starting_at(symbol.value).is_some();
        // clang does not refer to a type hash (`-fsanitize=kcfi`). It is before the function, and read by its
        // distance.
        if context.tables.name(symbol.name).starts_with(b"__cfi_") {
            at(index, function, &|k| k.referred = true);
        }
        match symbol.binding {
            Binding::Local => at(index, function, &|k| k.local |= starts),
            _ => at(index, function, &|k| k.global = true),
        }
    }
    for (index, text) in texts.iter().enumerate() {
        for function in &text.short_branch_links {
            at(index, Some(*function), &|k| k.referred = true);
        }
        for crossing in &text.intra_section_refs {
            at(index, text.function_at(crossing.target), &|k| k.referred = true);
        }
        for (function, _) in text.functions.iter().enumerate().filter(|(_, f)| f.cold) {
            at(index, Some(function), &|k| k.referred = true);
        }
    }
    for (index, offset) in &found.named {
        at(*index, texts.get(*index).and_then(|t| t.function_at(*offset)), &|k| k.referred = true);
    }
    for retarget in &found.retargets {
        let Some(text) = texts.get(retarget.text) else { continue };
        let function = text.function_at(retarget.target);
        let starts = text.starting_at(retarget.target).is_some();
        let own = context.text_of(retarget.at.0) == Some(retarget.text)
            && text.function_at(retarget.at.1) == function;
        // Entries of tables lead to labels of their own function.
        let code = context.text_of(retarget.at.0).is_some();
        at(retarget.text, function, &|k| k.referred |= !own && (starts || code));
    }
    let mut taken: Vec<(usize, u64, Option<SectionPlace>)> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        taken.extend(text.address_taken_offsets.iter().map(|offset| (index, *offset, None)));
    }
    taken.extend(found.addresses.iter().map(|(text, offset, from)| (*text, *offset, Some(*from))));
    let lonely: Vec<Vec<u64>> = texts
        .iter()
        .zip(&known)
        .map(|(text, known)| {
            let lonely =
                text.functions.iter().zip(known).filter(|(_, k)| k.local && !k.global && !k.referred);
            lonely.map(|(function, _)| function.start).collect()
        })
        .collect();
    for (index, offset, from) in taken {
        let (Some(text), Some(known)) = (texts.get_mut(index), known.get(index)) else { continue };
        let Some(function) = text.starting_at(offset) else { continue };
        if text.refusal.is_some() || from.is_some_and(|from| is_hand_written(context, from)) {
            continue;
        }
        if known.get(function).is_some_and(|k| !k.local) {
            text.refuse(
                Limit::AmbiguousTarget,
                format!("the address {offset:#x} of a function that is not local, without its name"),
            );
            continue;
        }
        let near = offset.saturating_sub(MAX_ADDED)..=offset.saturating_add(MAX_ADDED);
        let lonely = lonely.get(index).map_or(&[][..], Vec::as_slice);
        let first = lonely.partition_point(|start| start < near.start());
        let behind = lonely.partition_point(|start| start <= near.end());
        let meant = lonely.get(first..behind).unwrap_or(&[]);
        for start in meant.first().into_iter().chain(meant.last()) {
            if let Some(other) = text.starting_at(*start) {
                text.keep_together(function, other, Tie::UnnamedAddress(offset));
            }
        }
    }
}
