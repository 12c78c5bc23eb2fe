//! Bitcode beside code, in sections that no output has (`SHF_EXCLUDE`): it goes from every module that is rewritten.
//!
//! Each module of Rust's standard library has its bitcode in such a section, `.llvmbc`, which is most of its bytes. Linkers put none of them
//! into an executable or a shared library (gABI, "Section Attribute Flags") and read none, so that writing and reading them is for nothing. A plugin other than
//! gcc's may take the bitcode in place of the code: then they stay. Left out: modules from which nothing else goes; sections that something else names;
//! references from such sections, which are in no summary and no compiler writes; and other sections with the flag, such as `.note.GNU-stack`, of which a
//! linker may make something by their name.

use std::borrow::Cow;
use std::ffi::OsString;

use rayon::prelude::*;
use summaries::{Atom, Binding, Definition, ModuleKind, ModuleSummary, SymbolIdx, Target, atom_flags};

use super::action::{Action, Plan};
use crate::config::{Config, Dialect, OutputKind};

/// Names of sections with bitcode beside code, and with the options by which it was made (`-fembed-bitcode`, rustc).
const BITCODE: [&[u8]; 2] = [b".llvmbc", b".llvmcmd"];

/// Drop the sections without which the output is the same.
pub(super) fn leave_out(config: &Config, summaries: &[&ModuleSummary], plan: &mut Plan) {
    if config.output_kind == OutputKind::Relocatable
        || has_foreign_plugin(config.linker.dialect, &config.linker_args)
    {
        return;
    }
    let modules = plan.modules.par_iter_mut().zip(summaries);
    let rewritten = modules.filter(|(m, s)| !m.is_untouched() && s.kind == ModuleKind::Native);
    rewritten.for_each(|(module, summary)| {
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

/// By atom: it defines what other modules can name, or another atom refers to it or is ordered after it. Linkers refuse, report or export such
/// definitions, each in its way.
fn needed_elsewhere(summary: &ModuleSummary) -> Vec<bool> {
    let mut needed = vec![false; summary.atoms.len()];
    let definition = |symbol: SymbolIdx| match summary.symbols.get(symbol.index())?.definition {
        Definition::Atom(atom) => Some(atom),
        _ => None,
    };
    let visible = summary.symbols.iter().enumerate().filter(|(_, symbol)| symbol.binding != Binding::Local);
    let visible = visible.filter_map(|(i, _)| definition(SymbolIdx::new(i)));
    let referred = summary.references.iter().filter_map(|reference| {
        let target = match reference.target {
            Target::Atom(atom) => Some(atom),
            Target::Symbol(symbol) => definition(symbol),
        };
        target.filter(|target| *target != reference.from)
    });
    let ordered = summary.atoms.iter().filter_map(|atom| atom.link_order);
    for atom in visible.chain(referred).chain(ordered) {
        if let Some(slot) = needed.get_mut(atom.index()) {
            *slot = true;
        }
    }
    needed
}

/// Whether GNU ld or gold shows each input to a plugin that isn't gcc's; the others have none.
fn has_foreign_plugin(dialect: Dialect, args: &[OsString]) -> bool {
    let words: Vec<_> = args.iter().map(|word| word.to_string_lossy()).collect();
    let named = |(i, word): (usize, &Cow<'_, str>)| {
        let option = word.strip_prefix('-')?.trim_start_matches('-');
        let name = option.strip_prefix("plugin=");
        name.or_else(|| words.get(i + 1).map(|next| &**next).filter(|_| option == "plugin"))
            .map(str::to_owned)
    };
    let mut named = words.iter().enumerate().filter_map(named);
    matches!(dialect, Dialect::Bfd | Dialect::Gold) && named.any(|name| !name.contains("liblto_plugin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_that_take_bitcode_from_objects() {
        let has = |dialect, line: &str| {
            has_foreign_plugin(dialect, &line.split(' ').map(OsString::from).collect::<Vec<_>>())
        };
        assert!(has(Dialect::Gold, "a.o -plugin /llvm/LLVMgold.so -o out"));
        assert!(has(Dialect::Bfd, "--plugin=/llvm/LLVMgold.so a.o"));
        assert!(!has(Dialect::Bfd, "-plugin /gcc/12/liblto_plugin.so -plugin-opt=/llvm/LLVMgold.so a.o"));
        assert!(!has(Dialect::Lld, "-plugin /llvm/LLVMgold.so a.o"));
    }
}
