//! The words of the text form: each enum of the summary with its spelling, in one table for both directions.

use crate::limit::Limit;
use crate::registers::Register;
use crate::summary::{
    AtomKind, Binding, Granularity, ModuleKind, ReferenceKind, SymbolKind, Visibility, atom_flags,
};

macro_rules! words {
    ($($write:ident, $read:ident, $ty:ident { $($variant:ident = $word:literal,)* })*) => {$(
        pub(super) fn $write(value: $ty) -> &'static str {
            match value { $($ty::$variant => $word,)* }
        }

        pub(super) fn $read(word: &str) -> Option<$ty> {
            match word { $($word => Some($ty::$variant),)* _ => None }
        }
    )*};
}

words! {
    module_kind, read_module_kind, ModuleKind { Native = "native", Bitcode = "bitcode", Opaque = "opaque", }
    granularity, read_granularity, Granularity { Sections = "sections", Functions = "functions", Pointers = "pointers", }
    binding, read_binding, Binding { Local = "local", Global = "global", Weak = "weak", Unique = "unique", }
    visibility, read_visibility, Visibility {
        Default = "default", Protected = "protected", Hidden = "hidden", Internal = "internal",
    }
    // "common" is a kind of definition; the ELF type has the name of the constant.
    symbol_kind, read_symbol_kind, SymbolKind {
        NoType = "notype", Object = "object", Func = "func", Section = "section", File = "file",
        Common = "stt_common", Tls = "tls", Ifunc = "ifunc", Other = "other",
    }
    atom_kind, read_atom_kind, AtomKind {
        Code = "code", ReadOnlyData = "rodata", Data = "data", Bss = "bss", TlsData = "tdata", TlsBss = "tbss",
        InitFini = "initfini", Note = "note", Lsda = "lsda", Common = "common", Debug = "debug", NonAlloc = "nonalloc",
    }
    reference_kind, read_reference_kind, ReferenceKind {
        Call = "call", Address = "address", Data = "data", Got = "got", Tls = "tls", Unwind = "unwind", Debug = "debug",
    }
}

/// The names of general registers, indexed by [`Register`].
const GENERAL: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];

/// The name of a register in the 64-bit form, or `xmmN`.
pub(super) fn register(register: Register) -> String {
    match GENERAL.get(usize::from(register)) {
        Some(name) => (*name).to_owned(),
        None => format!("xmm{}", register.saturating_sub(16)),
    }
}

pub(super) fn read_register(word: &str) -> Option<Register> {
    if let Some(number) = GENERAL.iter().position(|name| *name == word) {
        return Register::try_from(number).ok();
    }
    let number = word.strip_prefix("xmm").filter(|n| !n.starts_with('+'))?.parse::<Register>().ok()?;
    (number < 32).then(|| number + 16)
}

pub(super) fn read_limit(word: &str) -> Option<Limit> {
    Limit::ALL.iter().copied().find(|l| l.name() == word)
}

const FLAGS: &[(u32, &str)] = &[
    (atom_flags::RETAIN, "retain"),
    (atom_flags::LINK_ORDER, "link-order"),
    (atom_flags::C_IDENTIFIER, "c-identifier"),
    (atom_flags::MERGE, "merge"),
    (atom_flags::STRINGS, "strings"),
    (atom_flags::WRITE, "write"),
    (atom_flags::EXEC, "exec"),
    (atom_flags::GROUPED, "grouped"),
    (atom_flags::STANDARD_FAMILY, "standard"),
    (atom_flags::TAKES_REGISTERS, "takes-registers"),
    (atom_flags::FIXED_ADDRESS, "fixed-address"),
    (atom_flags::RARE_RELOCATION, "rare-relocation"),
    (atom_flags::EXCLUDED, "excluded"),
    (atom_flags::RUNS_UNSEEN, "runs-unseen"),
];

/// Flags, separated by commas; a bit without a name is `bitN`.
pub(super) fn flags(flags: u32) -> String {
    let bits = (0..u32::BITS).filter(|bit| flags & (1 << bit) != 0);
    let words: Vec<String> = bits
        .map(|bit| match FLAGS.iter().find(|(flag, _)| *flag == 1 << bit) {
            Some((_, word)) => (*word).to_owned(),
            None => format!("bit{bit}"),
        })
        .collect();
    words.join(",")
}

pub(super) fn read_flags(text: &str) -> Option<u32> {
    let mut flags = 0;
    for word in text.split(',') {
        flags |= match FLAGS.iter().find(|(_, w)| *w == word) {
            Some((flag, _)) => *flag,
            None => 1u32.checked_shl(word.strip_prefix("bit")?.parse().ok()?)?,
        };
    }
    Some(flags)
}
