//! Command lines as compilers write them (captured from `gcc -###`, `clang -###` and rustc's `--print link-args`)
//! and tables of single options.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use super::*;
use crate::config::{Flavor, Icf, InputArg, InputState, Level, LineArg, Linker, OutputKind, PruneOptions};

/// The meaning of a line for a linker that isn't run.
pub(crate) fn interpret(flavor: Flavor, text: &str) -> Config {
    let prune = PruneOptions { level: Level::Pointers, ..PruneOptions::default() };
    line::interpret(
        words::split(text.as_bytes()),
        Linker { path: PathBuf::from("ld"), flavor, is_our_choice: false },
        prune,
    )
}

pub(crate) fn lld(text: &str) -> Config {
    interpret(Flavor::Lld, text)
}

/// The inputs, shortly: `a.o`, `-lc`, with the letters of their state (w, n, s, l).
fn inputs(config: &Config) -> Vec<String> {
    let state = |s: &InputState, lib: &bool| {
        let mut text = String::new();
        for (set, letter) in [(s.whole_archive, 'w'), (s.as_needed, 'n'), (s.static_only, 's'), (*lib, 'l')] {
            if set {
                text.push(letter);
            }
        }
        if text.is_empty() { text } else { format!(":{text}") }
    };
    let shown = config.inputs.iter().map(|input| match input {
        InputArg::File { path, state: s, lib } => format!("{}{}", path.to_string_lossy(), state(s, lib)),
        InputArg::Library { name, state: s, lib } => format!("-l{}{}", name.to_string_lossy(), state(s, lib)),
        InputArg::GroupStart => "(".to_owned(),
        InputArg::GroupEnd => ")".to_owned(),
        InputArg::Script { path, state: s, lib } => format!("-T {}{}", path.display(), state(s, lib)),
    });
    shown.collect()
}

const GCC: &str = include_str!("tests/gcc.txt");

#[test]
fn the_line_of_gcc() {
    for flavor in [Flavor::Lld, Flavor::Bfd, Flavor::Gold, Flavor::Mold, Flavor::Wild] {
        let config = interpret(flavor, GCC);
        assert_eq!(config.output, Path::new("out"));
        assert_eq!(config.output_kind, OutputKind::Pie);
        assert!(config.gc_sections && config.undefined_is_reported && !config.static_link);
        assert_eq!(config.library_paths, [Path::new("/usr/lib/gcc/x86_64-linux-gnu/12"), Path::new(".")]);
        let want = "Scrt1.o:n crti.o:n crtbeginS.o:n a.o:n -lm:n -lgcc:n -lgcc_s:n -lc:n -lgcc:n -lgcc_s:n \
            crtendS.o:n crtn.o:n";
        assert_eq!(inputs(&config).join(" "), want);
        assert!(config.unmodelled.is_empty(), "{:?}", config.unmodelled);
        let output: Vec<_> = config.line.iter().filter(|a| matches!(a, LineArg::Output(_))).collect();
        assert!(matches!(output.as_slice(), [LineArg::Output(words)] if words == &["-o", "out"]));
        let others: Vec<_> = config
            .line
            .iter()
            .filter_map(|a| if let LineArg::Other(words) = a { Some(words.join(" ".as_ref())) } else { None })
            .collect();
        assert!(others.contains(&"-dynamic-linker /lib64/ld-linux-x86-64.so.2".into()), "{others:?}");
        assert!(others.contains(&"-m elf_x86_64".into()));
    }
}

#[test]
fn the_line_of_gcc_static_pie_and_static() {
    let config =
        lld("-static -pie --no-dynamic-linker -z text -o x rcrt1.o a.o --start-group -lgcc -lc --end-group");
    assert_eq!(config.output_kind, OutputKind::StaticPie);
    assert!(config.static_link);
    assert_eq!(inputs(&config).join(" "), "rcrt1.o:s a.o:s ( -lgcc:s -lc:s )");
    let config = lld("-static -o x crt1.o a.o");
    assert_eq!((config.output_kind, config.static_link), (OutputKind::Executable, true));
    assert!(config.line.iter().any(|a| matches!(a, LineArg::Other(w) if w == &["-static"])));
}

#[test]
fn the_line_of_clang() {
    let config = lld(
        "--hash-style=both --build-id --eh-frame-hdr -m elf_x86_64 -dynamic-linker /lib64/ld-linux-x86-64.so.2 \
         -o c.out /lib/x86_64-linux-gnu/crt1.o -L/usr/lib/gcc/x86_64-linux-gnu/12 -L/lib c.o -lgcc --as-needed \
         -lgcc_s --no-as-needed -lc -plugin-opt=mcpu=x86-64 -plugin-opt=thinlto /lib/x86_64-linux-gnu/crtn.o",
    );
    assert_eq!(config.output_kind, OutputKind::Executable);
    assert_eq!(
        inputs(&config).join(" "),
        "/lib/x86_64-linux-gnu/crt1.o c.o -lgcc -lgcc_s:n -lc /lib/x86_64-linux-gnu/crtn.o"
    );
    assert!(config.unmodelled.is_empty());
}

#[test]
fn the_line_of_rustc_through_cc() {
    let config = lld(
        "-pie -o hello /tmp/rustc/symbols.o hello.o --as-needed -Bstatic libstd.rlib libcore.rlib -Bdynamic -lgcc_s \
         -lc -L /tmp/rustc/raw-dylibs --eh-frame-hdr -z noexecstack -L lib --gc-sections -z relro -z now -O1 \
         --strip-debug --version-script=/tmp/list --no-undefined-version",
    );
    assert_eq!(
        inputs(&config).join(" "),
        "/tmp/rustc/symbols.o hello.o libstd.rlib:ns libcore.rlib:ns -lgcc_s:n -lc:n"
    );
    assert!(!config.static_link && config.gc_sections);
    assert_eq!(config.version_scripts, [Path::new("/tmp/list")]);
}

#[test]
fn values_in_every_spelling() {
    for text in ["-o x", "-ox", "--output=x", "--output x"] {
        assert_eq!(lld(text).output, Path::new("x"), "{text}");
    }
    for text in ["-lfoo", "-l foo", "--library=foo", "--library foo"] {
        assert_eq!(inputs(&lld(text)), ["-lfoo"], "{text}");
    }
    assert_eq!(inputs(&lld("-l:libx.a")), ["-l:libx.a"]);
    for text in ["-Ldir", "-L dir", "--library-path=dir", "-library-path dir", "--library-path dir"] {
        assert_eq!(lld(text).library_paths, [Path::new("dir")], "{text}");
    }
    for text in ["-e main", "-emain", "--entry=main", "-entry main", "--entry main", "-entry=main"] {
        assert_eq!(lld(text).entry.as_deref(), Some("main"), "{text}");
    }
    for text in ["-T s", "-Ts", "--script=s", "-script s"] {
        assert_eq!(lld(text).scripts, [Path::new("s")], "{text}");
        assert_eq!(inputs(&lld(text)), ["-T s"], "{text}");
    }
    for text in ["-Map m", "-Map=m", "--Map m", "--Map=m"] {
        assert_eq!(lld(text).map.as_deref(), Some(Path::new("m")), "{text}");
    }
    for text in ["-u f", "-uf", "--undefined=f", "--require-defined=f", "--require-defined f"] {
        assert_eq!(lld(text).undefined, ["f"], "{text}");
    }
    for text in ["-z defs", "-zdefs", "--no-undefined"] {
        assert!(lld(&format!("-shared {text}")).undefined_is_reported, "{text}");
    }
    assert_eq!(lld("--defsym a=b+1 --defsym=c=0x10").defsym.len(), 2);
    let defsym = lld("a.o --defsym=c=d=e b.o").defsym;
    let defsym: Vec<_> = defsym.iter().map(|d| (&*d.name, &*d.expression, d.inputs_before)).collect();
    assert_eq!(defsym, [("c", "d=e", 1)]);
    assert_eq!(lld("-rpath /a --rpath=/b -R /c").rpath.len(), 3);
    assert_eq!(lld("-init i -fini=f").fini, "f");
    assert_eq!(lld("--exclude-libs a.a,b.a:ALL").exclude_libs, ["a.a", "b.a", "ALL"]);
}

/// Every option that takes a separate value must swallow it, or a value would be read as an input.
#[test]
fn separate_values_are_no_inputs() {
    let options = include_str!("tests/separate_values_are_no_inputs.txt");
    for option in options.split_whitespace() {
        assert_eq!(inputs(&lld(&format!("{option} value a.o"))), ["a.o"], "{option}");
    }
    let options = "-a -A -b -c -G --gpsize -R -Y -P --audit --depaudit --spare-dynamic-tags --hash-size \
        --error-handling-script --require-defined --ignore-unresolved-symbol --max-cache-size -dT --mri-script";
    for option in options.split_whitespace() {
        assert_eq!(inputs(&interpret(Flavor::Bfd, &format!("{option} 7 a.o"))), ["a.o"], "{option}");
    }
    for option in ["--thread-count", "--icf", "--debug", "--incremental-base", "-optimize", "--plugin-opt"] {
        assert_eq!(inputs(&interpret(Flavor::Gold, &format!("{option} v a.o"))), ["a.o"], "{option}");
    }
    for option in ["--thread-count", "--icf", "-C", "--chroot", "--unique", "--package-metadata"] {
        assert_eq!(inputs(&interpret(Flavor::Mold, &format!("{option} v a.o"))), ["a.o"], "{option}");
    }
    for option in
        ["--trace", "-t", "--thread-count", "--sym-info", "-e", "-auxiliary", "--gc-stats-ignore", "-h"]
    {
        assert_eq!(inputs(&interpret(Flavor::Wild, &format!("{option} v a.o"))), ["a.o"], "{option}");
    }
    for flag in ["--threads", "-fork", "--update-in-place", "--time", "--build-id", "--got-plt-syms"] {
        assert_eq!(inputs(&interpret(Flavor::Wild, &format!("{flag} a.o"))), ["a.o"], "{flag}");
    }
    for flag in
        ["-E", "--unique", "--build-id", "-dc", "-M", "-t", "--threads=4", "--demangle", "-X", "--lto-O2"]
    {
        assert_eq!(inputs(&lld(&format!("{flag} a.o"))), ["a.o"], "{flag}");
    }
}

#[test]
fn one_dash_is_not_always_a_long_option() {
    // lld: -export-dynamic is the flag, but -export-dynamic-symbol is `-e xport-dynamic-symbol`.
    assert!(lld("-export-dynamic").export_dynamic);
    assert_eq!(lld("-export-dynamic-symbol").entry.as_deref(), Some("xport-dynamic-symbol"));
    assert_eq!(lld("-omagic").output, Path::new("magic"));
    assert_eq!(interpret(Flavor::Gold, "-output x").output, Path::new("x"));
    assert_eq!(inputs(&interpret(Flavor::Bfd, "-library")), ["-library"]);
    // GNU ld completes what is the beginning of one option, and no other linker does.
    for prefix in ["-shar", "--whole-arch", "--en=f", "-ent=f", "--export-dynamic-symbol-l=x"] {
        assert_eq!(interpret(Flavor::Bfd, prefix).unmodelled.len(), 1, "{prefix}");
        assert!(interpret(Flavor::Gold, prefix).unmodelled.is_empty(), "{prefix}");
    }
    for word in ["-lm", "-lc", "-L.", "-znow", "-O1", "-melf_x86_64", "-pie", "-EL", "-edead3"] {
        assert!(interpret(Flavor::Bfd, word).unmodelled.is_empty(), "{word}");
    }
    assert_eq!(interpret(Flavor::Bfd, "-G a.o").output_kind, OutputKind::Shared);
    assert_eq!(interpret(Flavor::Bfd, "-G 8 a.o").output_kind, OutputKind::Executable);
}

#[test]
fn input_state() {
    let config = lld(
        "--push-state --whole-archive a.a --pop-state b.a -Bstatic -lx --push-state -Bdynamic --as-needed -ly \
         --pop-state -lz --start-lib c.o --end-lib d.o -( e.a -)",
    );
    assert_eq!(inputs(&config).join(" "), "a.a:w b.a -lx:s -ly:n -lz:s c.o:sl d.o:s ( e.a:s )");
    assert!(!config.static_link);
    let gold = interpret(Flavor::Gold, "-la -static -lb -Bdynamic -lc");
    assert_eq!(inputs(&gold).join(" "), "-la:s -lb:s -lc:s");
    assert!(gold.static_link);
    assert!(!lld("-static -Bdynamic a.o").static_link);
    let wild =
        interpret(Flavor::Wild, "--start-lib a.o --whole-archive b.o --no-whole-archive -lx --end-lib -ly");
    assert_eq!(inputs(&wild).join(" "), "a.o:nl b.o:w -lx:nl -ly");
    assert_eq!(interpret(Flavor::Wild, "--push-state --start-lib a.o --pop-state b.o").unmodelled.len(), 1);
    // A pop without a push changes nothing.
    assert_eq!(inputs(&lld("--as-needed --pop-state -la")), ["-la:n"]);
}

#[test]
fn the_last_of_the_options_about_folding_counts() {
    for (line, icf) in [
        ("a.o", Icf::None),
        ("--icf=safe a.o", Icf::Safe),
        ("-icf=safe a.o", Icf::Safe),
        ("--icf=all a.o", Icf::All),
        ("--icf=safe a.o --icf=none", Icf::None),
        ("--icf=none --icf=all --icf=safe a.o", Icf::Safe),
    ] {
        assert_eq!(lld(line).icf, icf, "{line}");
    }
    assert_eq!(interpret(Flavor::Gold, "--icf all a.o").icf, Icf::All);
}

#[test]
fn later_options_win() {
    assert!(!lld("--gc-sections --no-gc-sections").gc_sections);
    assert!(interpret(Flavor::Wild, "a.o").gc_sections);
    assert!(!lld("-E --no-export-dynamic").export_dynamic);
    assert_eq!(lld("-pie -no-pie").output_kind, OutputKind::Executable);
    assert_eq!(lld("-pie -r").output_kind, OutputKind::Relocatable);
    assert_eq!(lld("-shared").output_kind, OutputKind::Shared);
    assert!(!lld("-shared").undefined_is_reported);
    assert!(!lld("--unresolved-symbols=ignore-all").undefined_is_reported);
    assert!(lld("--warn-unresolved-symbols").undefined_is_reported);
    for (flavor, reported) in
        [(Flavor::Lld, false), (Flavor::Bfd, false), (Flavor::Mold, true), (Flavor::Gold, true)]
    {
        assert_eq!(interpret(flavor, "-z undefs").undefined_is_reported, reported, "{flavor:?}");
    }
    assert_eq!(lld("-z nostart-stop-gc -z start-stop-gc").start_stop_gc, Some(true));
    assert_eq!(lld("-dT d").scripts, [Path::new("d")]);
    assert_eq!(lld("-dT d -T t").scripts, [Path::new("t")]);
}

#[test]
fn what_we_do_not_model_is_named() {
    for text in
        "-b binary|--format=binary|--just-symbols=x|-R /nonexistent/file|--oformat=binary|--no-define-common|-z start-stop-gc"
            .split('|')
    {
        assert_eq!(interpret(Flavor::Bfd, text).unmodelled.len(), 1, "{text}");
    }
    for text in
        "--whole-archive=1|-m elf_i386|--remap-inputs=a=b|--undefined-glob=*|--thinlto-index-only|--thinlto-single-module=x".split('|')
    {
        assert_eq!(lld(text).unmodelled.len(), 1, "{text}");
    }
    assert_eq!(interpret(Flavor::Gold, "--no-define-common").unmodelled.len(), 1);
    for text in ["-b elf", "--format=elf", "-m elf_x86_64", "--icf=all", "--no-gnu-unique", "--unknown", "-q"]
    {
        assert!(lld(text).unmodelled.is_empty(), "{text}");
    }
}

#[test]
fn what_one_linker_refuses_is_malformed() {
    let refused = [(Flavor::Wild, "-dn"), (Flavor::Mold, "-non_shared"), (Flavor::Gold, "-call_shared")];
    for (flavor, text) in refused {
        assert_eq!(interpret(flavor, text).malformed.len(), 1, "{flavor:?} {text}");
        assert!(lld(text).malformed.is_empty(), "{text}");
    }
    assert_eq!(interpret(Flavor::Mold, "--repro").explaining.len(), 1);
}

#[test]
fn unknown_words_stay_in_place() {
    let config = lld("--brand-new-option=x a.o -9 --another");
    let shown: Vec<String> = config.line.iter().map(|a| format!("{a:?}")).collect();
    assert_eq!(
        shown,
        ["Other([\"--brand-new-option=x\"])", "Input(0)", "Other([\"-9\"])", "Other([\"--another\"])"]
    );
    assert_eq!(config.linker_args.len(), 4);
    // An option at the end of the line without its value is the linker's to report.
    assert!(matches!(lld("-o").line.as_slice(), [LineArg::Other(w)] if w == &["-o"]));
    assert_eq!(inputs(&interpret(Flavor::Bfd, "-- -x.o")), ["-x.o"]);
    assert_eq!(inputs(&lld("-")), ["-"]);
}

#[test]
fn parse_takes_our_options_out() {
    let lookup = |name: &str| match name {
        "PATH" => std::env::var_os("PATH"),
        linker::LINKER_VARIABLE => Some("ld.bfd".into()),
        _ => None,
    };
    let args: Vec<OsString> =
        ["a.o", "--prune-level=sections", "-o", "x", "-prune-strict", "-v"].map(Into::into).to_vec();
    let config = parse(&args, None, &Environment::new(&lookup)).unwrap();
    assert_eq!(config.linker_args, ["a.o", "-o", "x", "-v"]);
    assert_eq!((config.prune.level, config.prune.strict), (Level::Sections, true));
    assert_eq!(config.linker.flavor, Flavor::Bfd);
}
