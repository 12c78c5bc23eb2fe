//! Adjustments of a plan to the linker: symbols demanded by name, empty FDEs, embedded bitcode.

use std::borrow::Cow;
use std::ffi::OsString;

use rayon::prelude::*;
use summaries::native::eh_frame;
use summaries::{Atom, Binding, ModuleKind, ModuleSummary, Severity, SymbolIdx, atom_flags};

use super::action::{Action, Plan};
use crate::config::{Config, OutputKind};
use crate::ids::{Id, SymbolId};
use crate::index::{Index, RootReason};
use crate::inputs::Inputs;

/// Definitions that gold must keep by name (`-u`), in the order of the atoms that they define.
///
/// gold exports an `STB_GNU_UNIQUE` definition from a program if its `--gc-sections` keeps it (gold/symtab.cc
/// `should_add_dynsym_entry`). The references that kept it may be gone. `-u` of a defined name only keeps that definition.
pub(super) fn demanded(index: &Index, summaries: &[&ModuleSummary]) -> Vec<SymbolId> {
    let unique = index.roots.iter().filter(|root| root.reason == RootReason::Unique);
    let kept = unique.filter(|root| index.plain_live(summaries)[root.atom.index()]);
    kept.filter_map(|root| root.symbol).collect()
}

/// Remove FDEs of no bytes from every module of a link behind mold, if any module is modified.
///
/// A function or basic block without bytes has the same address as the next one, and each may have an FDE. mold 1.10.1 sorts the two in an
/// order that depends on the number of entries, and libgcc's search ends at the later one. A pruned program could then fail to unwind
/// through a function. An FDE of no bytes covers no code. Modules that are kept whole keep theirs.
pub(super) fn remove_empty_fdes(
    config: &Config,
    inputs: &Inputs,
    index: &Index,
    summaries: &[&ModuleSummary],
    plan: &mut Plan,
) {
    if !config.rules().sorts_fdes_by_count
        || config.output_kind == OutputKind::Relocatable
        || plan.modules.iter().all(|module| module.passed_through)
    {
        return;
    }
    let modules = plan.modules.par_iter_mut().zip(&index.modules).zip(summaries);
    modules.filter(|(_, summary)| summary.kind == ModuleKind::Native).for_each(|((module, this), _)| {
        module.drops_empty_fdes = true;
        let of_module = |limit: Severity| limit >= Severity::Module;
        let is_fixed =
            index.limits.iter().any(|(m, l)| *m == Some(this.module) && of_module(l.limit.severity()));
        if module.passed_through
            && !is_fixed
            && eh_frame::may_have_empty_fdes(inputs.module_bytes(this.module))
        {
            module.passed_through = false;
        }
    });
}

/// Names of sections with embedded bitcode, and with the options that made it (`-fembed-bitcode`, rustc).
const BITCODE: [&[u8]; 2] = [b".llvmbc", b".llvmcmd"];

/// Remove embedded bitcode (`SHF_EXCLUDE`) from every modified module.
///
/// In Rust's standard library it is most of an object's bytes. Linkers put such sections into no executable or shared library
/// (gABI, "Section Attribute Flags"). It is kept if a plugin other than gcc's may read it, or if something else names the section.
pub(super) fn remove_embedded_bitcode(config: &Config, summaries: &[&ModuleSummary], plan: &mut Plan) {
    let has_plugin = || config.rules().has_foreign_plugins && has_foreign_plugin(&config.linker_args);
    if config.output_kind == OutputKind::Relocatable || has_plugin() {
        return;
    }
    let modules = plan.modules.par_iter_mut().zip(summaries);
    let modified = modules.filter(|(m, s)| !m.passed_through && s.kind == ModuleKind::Native);
    modified.for_each(|(module, summary)| {
        let tied = atom_flags::GROUPED | atom_flags::LINK_ORDER;
        let is_excluded = |atom: &Atom| {
            let is_bitcode = || BITCODE.contains(&summary.name(atom.name));
            atom.has(atom_flags::EXCLUDED) && !atom.has(tied) && is_bitcode()
        };
        if !summary.atoms.iter().any(is_excluded) {
            return;
        }
        let needed = needed_elsewhere(summary);
        let excluded = module.atoms.iter_mut().zip(&summary.atoms).zip(needed);
        let excluded = excluded.filter(|((_, atom), needed)| is_excluded(atom) && !needed);
        excluded.for_each(|((action, _), _)| *action = Action::Drop);
    });
}

/// By atom: it defines a visible symbol, or another atom refers to it or is ordered after it. Linkers refuse, report or export such
/// definitions, each in its own way.
fn needed_elsewhere(summary: &ModuleSummary) -> Vec<bool> {
    let mut needed = vec![false; summary.atoms.len()];
    let visible = summary.symbols.iter().enumerate().filter(|(_, symbol)| symbol.binding != Binding::Local);
    let visible = visible.filter_map(|(i, _)| summary.defining_atom(SymbolIdx::new(i)));
    let referred = summary.references.iter().filter_map(|reference| {
        summary.target_atom(reference.target).filter(|target| *target != reference.from)
    });
    let ordered = summary.atoms.iter().filter_map(|atom| atom.link_order);
    for atom in visible.chain(referred).chain(ordered) {
        if let Some(slot) = needed.get_mut(atom.index()) {
            *slot = true;
        }
    }
    needed
}

/// Whether a plugin other than gcc's is on the line.
fn has_foreign_plugin(args: &[OsString]) -> bool {
    let words: Vec<_> = args.iter().map(|word| word.to_string_lossy()).collect();
    let named = |(i, word): (usize, &Cow<'_, str>)| {
        let option = word.strip_prefix('-')?.trim_start_matches('-');
        let name = option.strip_prefix("plugin=");
        name.or_else(|| words.get(i + 1).map(|next| &**next).filter(|_| option == "plugin"))
            .map(str::to_owned)
    };
    let mut named = words.iter().enumerate().filter_map(named);
    named.any(|name| !name.contains("liblto_plugin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_that_take_bitcode_from_objects() {
        let has = |line: &str| has_foreign_plugin(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(has("a.o -plugin /llvm/LLVMgold.so -o out"));
        assert!(has("--plugin=/llvm/LLVMgold.so a.o"));
        assert!(!has("-plugin /gcc/12/liblto_plugin.so -plugin-opt=/llvm/LLVMgold.so a.o"));
    }
}
