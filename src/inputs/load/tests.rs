//! Whole lines against files on disk.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::process::Command as Process;

use super::*;
use crate::args::{self, Environment};

/// A folder with small objects, an archive, a thin one, a shared library and a script.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let run = |program: &str, words: &str| {
        let status =
            Process::new(program).args(words.split_whitespace()).current_dir(dir.path()).status().unwrap();
        assert!(status.success(), "{program} {words}");
    };
    for name in ["a", "b", "m"] {
        std::fs::write(dir.path().join(format!("{name}.c")), format!("int f_{name}(void) {{ return 1; }}\n"))
            .unwrap();
        run("gcc", &format!("-c {name}.c -o {name}.o"));
    }
    run("ar", "rcs libx.a a.o b.o");
    run("ar", "rcsT libthin.a a.o b.o");
    run("gcc", "-shared -nostdlib -fPIC a.c -o libx.so -Wl,-soname,libx.so.1");
    run(
        "gcc",
        "-shared -nostdlib -fPIC b.c -o libneedy.so -Wl,--no-as-needed -L. -lx -Wl,-soname,libneedy.so.1",
    );
    run("cp", "libx.so libx.so.1");
    std::fs::write(dir.path().join("libgroup.so"), "GROUP ( libx.so.1 libx.a AS_NEEDED ( -lx ) )").unwrap();
    std::fs::write(dir.path().join("odd.ld"), "SECTIONS { .x : { *(.x) } }").unwrap();
    std::fs::write(dir.path().join("garbage.o"), b"\x00\x01garbage\x00").unwrap();
    dir
}

fn load_line(dir: &Path, linker: &str, line: &str) -> Inputs {
    let line = line.replace("DIR", dir.to_str().unwrap());
    let lookup = |name: &str| match name {
        args::linker::LINKER_VARIABLE => Some(linker.into()),
        other => std::env::var_os(other),
    };
    let config = args::parse(&args::words::split(line.as_bytes()), None, &Environment::new(&lookup)).unwrap();
    load(&config).unwrap()
}

/// The text of `shown` for archives of two members: lld reads no symbol table of an archive.
fn as_read(linker: &str, shown: &str) -> String {
    if linker == "ld.lld-19" { shown.replace("/2]", "/0]") } else { shown.to_owned() }
}

/// The sequence of inputs in short form, a word for each item.
fn shown(inputs: &Inputs) -> String {
    let base = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let items = inputs.sequence.iter().map(|item| match item {
        SequenceItem::Object { module, lazy, .. } => {
            format!("{}{}", base(Path::new(&inputs.module_name(*module))), if *lazy { ":lazy" } else { "" })
        }
        SequenceItem::Archive { file, modules, armap, whole, .. } => format!(
            "{}[{}/{}]{}",
            base(&inputs.files[*file].path),
            modules.len(),
            armap.as_ref().map_or(0, Vec::len),
            if *whole { ":whole" } else { "" }
        ),
        SequenceItem::Dso { dso, as_needed, implicit, .. } => format!(
            "{}{}{}",
            inputs.dsos[*dso].soname.clone().unwrap(),
            if *as_needed { ":needed" } else { "" },
            if *implicit { ":implicit" } else { "" }
        ),
        SequenceItem::GroupStart => "(".to_owned(),
        SequenceItem::GroupEnd => ")".to_owned(),
    });
    items.collect::<Vec<_>>().join(" ")
}

#[test]
fn libraries_and_scripts_in_the_order_of_the_line() {
    let dir = folder();
    for linker in ["ld.lld-19", "ld.bfd", "ld.gold", "ld.mold"] {
        let line = "DIR/m.o -LDIR -lx -Bstatic -lx -Bdynamic -l:libx.a -lgroup --start-lib DIR/b.o --end-lib \
            --whole-archive -lthin";
        let inputs = load_line(dir.path(), linker, line);
        // mold reads an archive once.
        let want = match linker {
            "ld.mold" => {
                "m.o libx.so.1 libx.a[2/2] ( libx.so.1 libx.so.1:needed ) b.o:lazy libthin.a[2/2]:whole"
            }
            _ => {
                "m.o libx.so.1 libx.a[2/2] libx.a[2/2] ( libx.so.1 libx.a[2/2] libx.so.1:needed ) b.o:lazy \
                libthin.a[2/2]:whole"
            }
        };
        assert_eq!(shown(&inputs), as_read(linker, want), "{linker}: {:?}", inputs.limits);
        assert!(inputs.limits.is_empty(), "{linker}: {:?}", inputs.limits);
        assert_eq!(inputs.sequence.len(), inputs.origins.len());
        assert_eq!(inputs.origins[5], Some(4));
        // libx.so and libx.so.1 are two files; libx.a is one, however often it is named.
        assert_eq!((inputs.dsos.len(), inputs.modules.len()), (2, 1 + 2 + 1 + 2));
        assert_eq!(inputs.opened.len(), 1);
        let SequenceItem::Dso { token, .. } = &inputs.sequence[1] else { panic!() };
        assert_eq!(token, "-lx");
        let thin = inputs.modules.ids().last().unwrap();
        assert_eq!(inputs.module_name(thin), format!("{}(b.o)", dir.path().join("libthin.a").display()));
        assert!(inputs.module_bytes(thin).starts_with(b"\x7fELF"));
    }
}

#[test]
fn ids_do_not_depend_on_threads() {
    let dir = folder();
    let line = "DIR/m.o DIR/a.o DIR/libx.a DIR/libthin.a -LDIR -lgroup DIR/libneedy.so";
    let names = |inputs: &Inputs| inputs.modules.ids().map(|m| inputs.module_name(m)).collect::<Vec<_>>();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let one = pool.install(|| load_line(dir.path(), "ld.lld-19", line));
    let many = load_line(dir.path(), "ld.lld-19", line);
    assert_eq!((names(&one), shown(&one)), (names(&many), shown(&many)));
}

#[test]
fn what_the_linker_will_refuse_is_a_limit() {
    let dir = folder();
    let limits = |line: &str| {
        let inputs = load_line(dir.path(), "ld.lld-19", line);
        inputs.limits.iter().map(|(_, l)| l.limit).collect::<Vec<_>>()
    };
    assert_eq!(limits("DIR/none.o"), [Limit::UnreadableInput]);
    assert_eq!(limits("-LDIR -lnone"), [Limit::UnreadableInput]);
    assert_eq!(limits("DIR/garbage.o"), [Limit::UnreadableInput]);
    assert_eq!(limits("DIR"), [Limit::UnreadableInput]);
    assert_eq!(limits("DIR/a.o --remap-inputs=a=b"), [Limit::UnmodelledOption]);
    // A pipe: opening it would block, and take what the linker is to read.
    assert!(Process::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap().success());
    assert_eq!(limits("DIR/pipe"), [Limit::UnreadableInput]);
    assert_eq!(limits("DIR/a.o --version-script DIR/pipe"), [Limit::UnreadableInput]);
    assert_eq!(limits("DIR/odd.ld"), [Limit::UnmodelledScript]);
    // Loaded twice, its definitions are duplicates, which is for resolution to see.
    assert_eq!(limits("DIR/a.o DIR/a.o"), []);
    assert_eq!(limits("-Bstatic DIR/libx.so"), [Limit::LinkError]);
    assert_eq!(limits("DIR/a.o -T DIR/odd.ld"), []);
    assert_eq!(limits("DIR/a.o -T DIR/none.ld"), [Limit::UnreadableInput]);
    std::fs::write(dir.path().join("cut.a"), b"!<arch>\nx.o/").unwrap();
    assert_eq!(limits("DIR/cut.a"), [Limit::MalformedObject]);
    std::fs::write(dir.path().join("loop.ld"), format!("INPUT({}/loop.ld)", dir.path().display())).unwrap();
    assert!(limits("DIR/loop.ld").contains(&Limit::UnmodelledScript));
    std::fs::remove_file(dir.path().join("b.o")).unwrap();
    assert_eq!(limits("DIR/libthin.a"), [Limit::UnreadableInput]);
}

#[test]
fn gnu_ld_alone_follows_dt_needed() {
    let dir = folder();
    let line = "DIR/m.o DIR/libneedy.so -rpath-link DIR";
    assert_eq!(shown(&load_line(dir.path(), "ld.lld-19", line)), "m.o libneedy.so.1");
    assert_eq!(shown(&load_line(dir.path(), "ld.bfd", line)), "m.o libneedy.so.1 libx.so.1:needed:implicit");
    assert_eq!(shown(&load_line(dir.path(), "ld.bfd", "DIR/m.o DIR/libneedy.so")), "m.o libneedy.so.1");
    let both = load_line(dir.path(), "ld.bfd", "DIR/m.o DIR/libneedy.so DIR/libx.so -rpath-link DIR");
    assert_eq!(shown(&both), "m.o libneedy.so.1 libx.so.1");
    // The default directories of GNU ld: libc without any -L, and the libraries that it needs.
    let libc = load_line(dir.path(), "ld.bfd", "DIR/m.o -lc");
    assert!(
        shown(&libc).contains("libc.so.6") && shown(&libc).contains("libc_nonshared.a"),
        "{}",
        shown(&libc)
    );
    assert!(libc.limits.is_empty(), "{:?}", libc.limits);
}

#[test]
fn sysroot_prefixes() {
    let dir = folder();
    let sysroot = dir.path().join("root");
    std::fs::create_dir_all(sysroot.join("lib")).unwrap();
    std::fs::copy(dir.path().join("libx.a"), sysroot.join("lib/liby.a")).unwrap();
    std::fs::write(sysroot.join("lib/libs.a"), "GROUP ( /lib/liby.a )").unwrap();
    for linker in ["ld.lld-19", "ld.bfd", "ld.gold", "ld.mold"] {
        let inputs = load_line(dir.path(), linker, "--sysroot=DIR/root -L=/lib -ly -ls");
        let want = if linker == "ld.mold" { "liby.a[2/2] ( )" } else { "liby.a[2/2] ( liby.a[2/2] )" };
        assert_eq!(shown(&inputs), as_read(linker, want), "{linker} {:?}", inputs.limits);
    }
}

/// The linker's own trace of a real line names the objects and libraries that we load, and no others.
#[test]
fn the_trace_of_each_linker() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("h.cc"), "#include <iostream>\nint main() { std::cout << 1; }\n").unwrap();
    let object = dir.path().join("h.o");
    let made =
        Process::new("g++").args(["-c", "h.cc", "-o", "h.o"]).current_dir(dir.path()).status().unwrap();
    assert!(made.success());
    let driver = Process::new("g++").args(["-###", "-o", "h", "-lpthread"]).arg(&object).output().unwrap();
    let text = String::from_utf8(driver.stderr).unwrap();
    let line = text.lines().find(|l| l.contains("collect2")).unwrap();
    let words = args::words::split(line.as_bytes());
    // Without the plugin, which reads libraries a second time; the rest of gcc's own words is kept.
    let plugin = |w: &&OsString| !w.to_string_lossy().contains("plugin");
    let words: Vec<OsString> = words.iter().skip(1).filter(plugin).cloned().collect();
    for linker in ["ld.lld-19", "ld.bfd", "ld.gold", "ld.mold"] {
        let lookup = |name: &str| match name {
            args::linker::LINKER_VARIABLE => Some(linker.into()),
            other => std::env::var_os(other),
        };
        let config = args::parse(&words, None, &Environment::new(&lookup)).unwrap();
        let inputs = load(&config).unwrap();
        assert!(inputs.limits.is_empty(), "{linker}: {:?}", inputs.limits);
        let output =
            Process::new(linker).args(&words).args(["--trace", "-o", "h"]).current_dir(dir.path()).output();
        let output = output.unwrap();
        let trace =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let of_trace = |l: &str| l.trim_start_matches("trace: ").trim_start_matches("mold: ").to_owned();
        let named = |l: &String| l.ends_with(".o") || l.contains(".so");
        let real = |l: String| Path::new(&l).canonicalize().unwrap();
        let theirs: std::collections::BTreeSet<PathBuf> =
            trace.lines().map(of_trace).filter(named).filter(|l| Path::new(l).exists()).map(real).collect();
        let ours = inputs.sequence.iter().filter_map(|item| match item {
            SequenceItem::Object { module, .. } => Some(inputs.modules[*module].file),
            SequenceItem::Dso { dso, .. } => Some(inputs.dsos[*dso].file),
            _ => None,
        });
        let ours: std::collections::BTreeSet<PathBuf> =
            ours.map(|f| inputs.files[f].path.canonicalize().unwrap()).collect();
        // A trace may name scripts (libc.so, libm.so), and leave out what is not needed.
        let scripts: Vec<PathBuf> =
            inputs.opened.iter().map(|f| inputs.files[*f].path.canonicalize().unwrap()).collect();
        let unknown: Vec<_> = theirs.iter().filter(|p| !ours.contains(*p) && !scripts.contains(p)).collect();
        assert!(unknown.is_empty(), "{linker} opens {unknown:?}, we have {ours:?}");
        for part in ["libstdc++.so.6", "libc.so.6", "crti.o", "h.o"] {
            let has = |set: &std::collections::BTreeSet<PathBuf>| {
                set.iter().any(|p| p.to_string_lossy().contains(part))
            };
            assert!(has(&ours) && has(&theirs), "{linker}: {part} in {theirs:?}");
        }
    }
}

#[test]
fn inputs_of_a_script_stand_in_its_place() {
    let dir = folder();
    let script = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text.replace('@', dir.path().to_str().unwrap())).unwrap();
    };
    script("t.ld", "SEARCH_DIR(@) INPUT(@/a.o) GROUP(-lx AS_NEEDED(-lneedy))");
    let line = "--start-group DIR/m.o --end-group -Bstatic -T DIR/t.ld -Bdynamic DIR/b.o";
    for linker in ["ld.lld-19", "ld.bfd"] {
        let inputs = load_line(dir.path(), linker, &line.replace("-Bstatic", ""));
        let implicit = if linker == "ld.bfd" { " libx.so.1:implicit" } else { "" };
        let want = format!("( m.o ) a.o ( libx.so.1 libneedy.so.1:needed ) b.o{implicit}");
        assert_eq!(shown(&inputs).replace(" libx.so.1:implicit", ""), want.replace(implicit, ""), "{linker}");
        assert!(inputs.limits.is_empty(), "{linker}: {:?}", inputs.limits);
        // The state of the line holds for the inputs of the script.
        let inputs = load_line(dir.path(), linker, line);
        assert_eq!(shown(&inputs), as_read(linker, "( m.o ) a.o ( libx.a[2/2] ) b.o"), "{linker}");
    }
    script("comma.ld", "INPUT(@/a.o, @/b.o)");
    for linker in ["ld.lld-19", "ld.bfd", "ld.mold"] {
        let inputs = load_line(dir.path(), linker, "-T DIR/comma.ld");
        assert_eq!(inputs.limits.len(), 1, "{linker}");
    }
    // gold ends with an internal error.
    let inputs = load_line(dir.path(), "ld.gold", line);
    assert!(inputs.limits.iter().any(|(_, l)| l.limit == Limit::UnmodelledScript), "{:?}", inputs.limits);
    let inputs = load_line(dir.path(), "ld.bfd", "DIR/m.o -dT DIR/t.ld");
    assert!(inputs.limits.iter().any(|(_, l)| l.limit == Limit::UnmodelledScript), "{:?}", inputs.limits);
    // Versions of GNU ld search one or the other folder first.
    std::fs::create_dir(dir.path().join("other")).unwrap();
    std::fs::copy(dir.path().join("libx.a"), dir.path().join("other/libx.a")).unwrap();
    for (linker, is_ambiguous) in [("ld.bfd", true), ("ld.lld-19", false)] {
        let inputs = load_line(dir.path(), linker, "-LDIR/other DIR/m.o -T DIR/t.ld");
        let found = inputs.limits.iter().any(|(_, l)| l.limit == Limit::UnmodelledScript);
        assert_eq!(found, is_ambiguous, "{linker}: {:?}", inputs.limits);
    }
}
