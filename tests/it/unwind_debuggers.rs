//! `--prune-unwind=unused`: debuggers find the frames of functions without unwind entries in `.debug_frame`, live and in core files.

use crate::run::Job;
use crate::tools::Linker;
use crate::unwind_entries::{Program, QUIET, UNUSED};

/// The names of functions in lines that have an address, a separator and a name: those of gdb, eu-stack and valgrind.
fn names(text: &str, is_frame: impl Fn(&str) -> bool) -> Vec<String> {
    let name = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| !word.starts_with("0x")).skip(1);
        let first = words.next()?;
        let name = if first == "in" { words.next()? } else { first };
        Some(name.to_owned())
    };
    text.lines().filter(|line| is_frame(line)).filter_map(name).collect()
}

fn is_numbered(line: &str) -> bool {
    line.starts_with('#')
}

/// The frames at a breakpoint in `inner`: live, and in its core file by gdb and by eu-stack.
fn frames(program: &mut Program, out: &str) -> [Vec<String>; 3] {
    let dir = program.session.dir().to_owned();
    let (file, core) = (format!("./{out}"), format!("core.{out}"));
    let gdb = || Job::new(&dir, "gdb").words("-nx -batch -ex").arg("set debuginfod enabled off");
    let live = gdb().arg("-ex").arg("break inner").words("-ex run -ex bt -ex");
    let live = live.arg(format!("generate-core-file {core}")).words("-ex kill --args").arg(&file);
    let live = program.session.must(&live).stdout;
    let dead = program.session.must(&gdb().words("-ex bt").arg(&file).arg(&core)).stdout;
    let stack =
        program.session.job("eu-stack").arg(format!("--core={core}")).arg(format!("--executable={file}"));
    let stack = program.session.run(&stack).stdout;
    [live, dead, stack].map(|text| {
        let mut names = names(&text, is_numbered);
        // gdb shows the innermost frame once more where it stops.
        names.dedup();
        names
    })
}

#[test]
fn debuggers_find_the_same_frames() {
    for (opt, mode) in [("-O2", "-pie"), ("-O2", "-no-pie -static"), ("-Os", "-pie")] {
        let name = format!("gdb{opt}{mode}").replace(' ', "");
        let flags = format!("{opt} -g0 -fomit-frame-pointer");
        let mut program = Program::new(&name, "gcc", &flags, &[("main.c", QUIET)]);
        program.must_link("plain", Linker::Lld, mode, "kept");
        program.must_link("plain", Linker::Lld, &format!("{mode} {UNUSED}"), "out");
        let (kept, out) = (frames(&mut program, "kept"), frames(&mut program, "out"));
        for (kept, out) in kept.iter().zip(&out) {
            let has_all =
                ["inner", "outer", "main"].iter().zip(kept).all(|(expected, name)| expected == name);
            program.check(has_all, &format!("{mode}: {kept:?}"));
            program.session.check_eq(out, kept, mode);
        }
        let has = program.has_main("out");
        program.check(!has, "from .debug_frame alone");
        // Without that section the frames are lost, so it is the one that was read.
        program.session.cmd("objcopy -R .debug_frame out lost");
        let lost = frames(&mut program, "lost");
        program.check(lost[2] != out[2], &format!("{mode}: {lost:?}"));
    }
}

/// A program that reads memory which it has given back, so that valgrind prints where.
const READS_FREED: &str = include_str!("programs/unwind_debuggers_reads_freed.c");

#[test]
fn valgrind_finds_the_same_frames() {
    if std::process::Command::new("valgrind").arg("--version").output().is_err() {
        return eprintln!("valgrind is not installed: nothing is tested");
    }
    let flags = "-O1 -g0 -fomit-frame-pointer";
    let mut program = Program::new("valgrind", "gcc", flags, &[("main.c", READS_FREED)]);
    program.must_link("plain", Linker::Lld, "-pie", "kept");
    program.must_link("plain", Linker::Lld, &format!("-pie {UNUSED}"), "out");
    let frames = |program: &mut Program, out: &str| {
        let job = Job::new(program.session.dir(), "valgrind").arg("-q").arg(format!("./{out}"));
        names(&program.session.run(&job).stderr, |line| line.contains(" at 0x") || line.contains(" by 0x"))
    };
    let (kept, out) = (frames(&mut program, "kept"), frames(&mut program, "out"));
    program.check(kept.starts_with(&["inner", "outer", "main"].map(str::to_owned)), &format!("{kept:?}"));
    program.session.check_eq(&out, &kept, "valgrind");
    let has = program.has_main("out");
    program.check(!has, "from .debug_frame alone");
}
