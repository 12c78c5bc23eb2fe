//! Sections that no output has (`SHF_EXCLUDE`): they go from every module that is rewritten.
//!
//! Each module of Rust's standard library has its bitcode in such a section, `.llvmbc`, which is most of its bytes. Linkers put none of them
//! into an executable or a shared library (gABI, "Section Attribute Flags"), so that writing and reading them is for nothing. Safe because what a linker
//! reads such a section for has a type or a name of its own and no [`EXCLUDED`](atom_flags::EXCLUDED) then; a plugin other than gcc's may take the
//! bitcode in place of the code, and then they stay. Left out: modules from which nothing else goes.

use std::borrow::Cow;
use std::ffi::OsString;

use summaries::{ModuleKind, ModuleSummary, atom_flags};

use super::action::{Action, Plan};
use crate::config::{Config, Dialect, OutputKind};

/// Drop the sections without which the output is the same.
pub(super) fn leave_out(config: &Config, summaries: &[&ModuleSummary], plan: &mut Plan) {
    if config.output_kind == OutputKind::Relocatable
        || has_foreign_plugin(config.linker.dialect, &config.linker_args)
    {
        return;
    }
    let modules = plan.modules.iter_mut().zip(summaries);
    for (module, summary) in modules.filter(|(m, s)| !m.is_untouched() && s.kind == ModuleKind::Native) {
        let excluded = module.atoms.iter_mut().zip(&summary.atoms);
        let excluded =
            excluded.filter(|(_, atom)| atom.has(atom_flags::EXCLUDED) && !atom.has(atom_flags::GROUPED));
        excluded.for_each(|(action, _)| *action = Action::Drop);
    }
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
