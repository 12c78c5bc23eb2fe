//! lld's options of link-time optimisation: which of them act on pruned bitcode as they act on the original.
//!
//! In pruned bitcode, dropped definitions are weak declarations without uses. An option that changes how code is optimised,
//! generated, timed or counted acts on kept code. A pass adds a reference only by name: either a name of the implementation
//! (`__asan_init`), which is kept anyway, or a word of the option ([`words`]), which is kept as well. Three kinds of options remain,
//! and are not modelled: those that write files for each module or for a later link, plugins (they add any reference), and those that
//! rename symbols.

use std::ffi::OsString;

use super::table::{self, Arity};
use crate::config::Flavor;

/// Options that act on what is kept, as [`LtoOption::word`] spells them; longer words may begin with those that end in `=` or `-`.
#[rustfmt::skip]
const MODELLED: &[&str] = &[
    "disable-verify", "lto=", "lto-CGO", "lto-O", "lto-aa-pipeline=", "lto-basic-block-address-map",
    "lto-basic-block-sections=", "lto-cs-profile-file=", "lto-cs-profile-generate", "lto-debug-pass-manager",
    "lto-newpm-passes=", "lto-obj-path=", "lto-partitions=", "lto-pgo-warn-mismatch", "lto-sample-profile=",
    "lto-unique-basic-block-section-names", "lto-whole-program-visibility", "no-lto-", "opt-remarks-",
    "plugin-opt=O", "plugin-opt=cs-profile-generate", "plugin-opt=cs-profile-path=",
    "plugin-opt=debug-pass-manager", "plugin-opt=disable-verify", "plugin-opt=dwo_dir=", "plugin-opt=jobs=",
    "plugin-opt=legacy-pass-manager", "plugin-opt=lto-partitions=", "plugin-opt=mcpu=",
    "plugin-opt=new-pass-manager", "plugin-opt=obj-path=", "plugin-opt=opt-remarks-",
    "plugin-opt=sample-profile=", "plugin-opt=stats-file=", "plugin-opt=thinlto", "thinlto-cache-dir=",
    "thinlto-cache-policy=", "thinlto-jobs=", "time-trace", "time-trace=", "time-trace-granularity=",
];

/// Options of [`MODELLED`] that end with a digit.
const LEVELS: [&str; 3] = ["lto-CGO", "lto-O", "plugin-opt=O"];

/// LLVM's own options that load a plugin or rename symbols.
const UNMODELLED_OF_LLVM: [&str; 3] = ["load", "load-pass-plugin", "emulated-tls"];

/// First words of the options that concern link-time optimisation.
#[rustfmt::skip]
const PREFIXES: [&str; 10] = [
    "disable-verify", "dtlto", "load-pass-plugin", "lto", "mllvm", "no-lto", "opt-remarks", "plugin-opt",
    "save-temps", "thinlto",
];

/// An option of link-time optimisation on the line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LtoOption {
    /// One of LLVM's own, without dashes: `-mllvm -X` or `-plugin-opt=-X`.
    Llvm(String),
    /// One of the linker's, without dashes, with its value behind `=`.
    Linker(String),
}

impl LtoOption {
    fn is_modelled(&self) -> bool {
        match self {
            LtoOption::Llvm(option) => {
                let name = option.split('=').next().unwrap_or(option);
                !UNMODELLED_OF_LLVM.contains(&name)
            }
            // gcc's own plugin, which lld passes over.
            LtoOption::Linker(word) if word.starts_with("plugin-opt=/") => word.ends_with("/lto-wrapper"),
            LtoOption::Linker(word) => MODELLED.iter().any(|m| {
                let rest = word.strip_prefix(m);
                rest.is_some_and(|rest| match LEVELS.contains(m) {
                    true => rest.len() == 1,
                    false => rest.is_empty() || m.ends_with(['=', '-']),
                })
            }),
        }
    }

    /// The option in a spelling that the linker takes.
    fn spelling(&self) -> String {
        match self {
            LtoOption::Llvm(option) => format!("-mllvm -{option}"),
            LtoOption::Linker(word) => format!("--{word}"),
        }
    }
}

/// The options of link-time optimisation on a line of lld's.
fn options(args: &[OsString]) -> Vec<LtoOption> {
    let mut found = Vec::new();
    let mut words = args.iter().map(|a| a.to_string_lossy());
    while let Some(word) = words.next() {
        let Some(single) = word.strip_prefix('-') else { continue };
        let double = single.strip_prefix('-');
        let option = double.unwrap_or(single);
        // With one dash it is `-l` and a library.
        let is_library = double.is_none() && option.starts_with("lto");
        let concerns = PREFIXES.iter().any(|p| option.starts_with(p))
            || ["time-trace", "why-extract"].iter().any(|p| option.starts_with(p));
        if is_library || !concerns {
            continue;
        }
        let option = match table::long(Flavor::Lld, option, false) == Some(Arity::Value) {
            true => format!("{option}={}", words.next().unwrap_or_default()),
            false => option.to_owned(),
        };
        let of_llvm = option.strip_prefix("mllvm=").or_else(|| option.strip_prefix("plugin-opt=-"));
        found.push(match of_llvm {
            Some(of_llvm) => LtoOption::Llvm(of_llvm.trim_start_matches('-').to_owned()),
            None => LtoOption::Linker(option),
        });
    }
    found
}

/// The first option that may not act on pruned bitcode as it acts on the original.
pub(crate) fn unmodelled(args: &[OsString]) -> Option<String> {
    options(args).iter().find(|o| !o.is_modelled()).map(LtoOption::spelling)
}

/// Words of options that LLVM may take for names of symbols (`-trap-func=NAME`), sorted.
pub(crate) fn words(args: &[OsString]) -> Vec<Vec<u8>> {
    let in_name = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'$') || *c >= 0x80;
    let text = |option: LtoOption| match option {
        // Options of gcc's own plugin: libraries, and a file.
        LtoOption::Llvm(option)
            if option.starts_with("pass-through=") || option.starts_with("fresolution=") =>
        {
            None
        }
        LtoOption::Llvm(option) => option.split_once('=').map(|(_, value)| value.to_owned()),
        LtoOption::Linker(word) if word.starts_with("lto-newpm-passes=") => Some(word),
        LtoOption::Linker(_) => None,
    };
    let values: Vec<String> = options(args).into_iter().filter_map(text).collect();
    let words = values.iter().flat_map(|v| v.as_bytes().split(|c| !in_name(c)));
    let mut words: Vec<Vec<u8>> = words.filter(|w| !w.is_empty()).map(<[u8]>::to_vec).collect();
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn options_that_act_on_what_is_kept() {
        for text in [
            "-plugin /x/liblto_plugin.so -plugin-opt=mcpu=x86-64 -plugin-opt=/x/lto-wrapper a.o",
            "-plugin-opt=-fresolution=/tmp/x -plugin-opt=-pass-through=-lc -o /lto/out -L/x/lto -ltoy",
            "--lto-O2 --lto-CGO3 --thinlto-jobs=4 -plugin-opt=-debugger-tune=gdb -plugin-opt O2 --gc-sections",
            "-mllvm -stats -mllvm=-time-passes --mllvm -inline-threshold=500 -plugin-opt=-import-instr-limit=10",
            "--lto-sample-profile=p --lto-sample-profile p --lto-cs-profile-generate --lto-cs-profile-file=p",
            "--time-trace --time-trace=t --time-trace-granularity=5 --time-trace-granularity 5",
            "-plugin-opt=dwo_dir=d -plugin-opt=opt-remarks-filename=r -plugin-opt=opt-remarks-with-hotness",
            "-plugin-opt=stats-file=s --lto-obj-path=x --disable-verify --lto-newpm-passes=default<O3>",
            "--lto-basic-block-sections=all --no-lto-whole-program-visibility --lto=thin --opt-remarks-passes inline",
            "-plugin-opt=thinlto -plugin-opt=jobs=2 --thinlto-cache-dir=c --thinlto-cache-policy prune_after=1h",
        ] {
            assert_eq!(unmodelled(&line(text)), None, "{text}");
        }
    }

    #[test]
    fn options_that_are_not_modelled() {
        for (text, named) in [
            ("--save-temps", "--save-temps"),
            ("-save-temps=prelink", "--save-temps=prelink"),
            ("--lto-emit-asm", "--lto-emit-asm"),
            ("-plugin-opt=emit-llvm", "--plugin-opt=emit-llvm"),
            ("-plugin-opt save-temps", "--plugin-opt=save-temps"),
            ("--lto-O2 --thinlto-index-only=x", "--thinlto-index-only=x"),
            ("-plugin-opt=thinlto-index-only", "--plugin-opt=thinlto-index-only"),
            ("--thinlto-prefix-replace=a;b", "--thinlto-prefix-replace=a;b"),
            ("--thinlto-single-module=a.o", "--thinlto-single-module=a.o"),
            ("--load-pass-plugin=p.so", "--load-pass-plugin=p.so"),
            ("--load-pass-plugin p.so", "--load-pass-plugin=p.so"),
            ("-mllvm -load=p.so", "-mllvm -load=p.so"),
            ("-plugin-opt=-emulated-tls", "-mllvm -emulated-tls"),
            ("--why-extract=f", "--why-extract=f"),
            ("--lto-validate-all-vtables-have-type-infos", "--lto-validate-all-vtables-have-type-infos"),
            ("--dtlto-distributor=d", "--dtlto-distributor=d"),
            ("--lto-unknown", "--lto-unknown"),
            ("--lto-O23", "--lto-O23"),
        ] {
            assert_eq!(unmodelled(&line(text)).as_deref(), Some(named), "{text}");
        }
    }

    #[test]
    fn words_that_may_be_names() {
        let text = "-mllvm -trap-func=my_trap -plugin-opt=-internalize-public-api-list=a,b.c -mllvm -stats \
                    -plugin-opt=-pass-through=-lc --lto-O2";
        let words: Vec<String> =
            words(&line(text)).iter().map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        assert_eq!(words, ["a", "b.c", "my_trap"]);
    }
}
