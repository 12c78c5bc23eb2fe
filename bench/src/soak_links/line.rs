//! The random line of a program: the order of its inputs, the state that they are read in, the options.
//!
//! All words are for the compiler driver. Options that make every link fail are left out, and those by which linkers
//! differ in what they print about dropped code.

use super::program::{LinkProgram, Mode, ModuleContainer};
use crate::rng::Rng;

/// An option needs a file beside the objects: name and contents.
pub(crate) type SideFile = (&'static str, String);

/// The words between the driver's own, and the files that they name.
pub(crate) fn generate(rng: &mut Rng, program: &LinkProgram) -> (Vec<String>, Vec<SideFile>) {
    let mut files = Vec::new();
    let mut words = options(rng, program, &mut files);
    let mut items: Vec<Vec<String>> = Vec::new();
    for module in &program.modules {
        if module.place == ModuleContainer::Object {
            items.push(vec![module.object()]);
        }
    }
    rng.shuffle(&mut items);
    let mut archives: Vec<Vec<String>> = (0..program.archives).map(|a| archive(rng, a)).collect();
    let mut tail: Vec<Vec<String>> = (0..program.libraries).map(|l| library(rng, l)).collect();
    let mut rest: Vec<Vec<String>> = Vec::new();
    match rng.below(3) {
        0 if !archives.is_empty() => {
            rest.push(vec!["-Wl,--start-group".into()]);
            rest.append(&mut archives);
            rest.push(vec!["-Wl,--end-group".into()]);
        }
        1 => {
            rest.extend(archives.iter().cloned());
            // Twice under --whole-archive would define everything twice.
            rest.extend(archives.into_iter().filter(|a| a.len() == 1));
        }
        _ => rest.append(&mut archives),
    }
    rng.shuffle(&mut tail);
    match rng.below(4) {
        0 => {
            items.append(&mut rest);
            items.append(&mut tail);
        }
        1 => {
            items.append(&mut tail);
            items.append(&mut rest);
        }
        2 => {
            tail.append(&mut items);
            items = tail;
            items.append(&mut rest);
        }
        _ => {
            let at = rng.below(items.len() + 1);
            let after = items.split_off(at);
            items.append(&mut rest);
            items.extend(after);
            items.append(&mut tail);
        }
    }
    words.extend(items.into_iter().flatten());
    (words, files)
}

fn archive(rng: &mut Rng, number: usize) -> Vec<String> {
    let name = format!("liba{number}.a");
    if rng.chance(12) {
        return vec!["-Wl,--whole-archive".into(), name, "-Wl,--no-whole-archive".into()];
    }
    vec![name]
}

fn library(rng: &mut Rng, number: usize) -> Vec<String> {
    let state = *rng.pick(&["-Wl,--as-needed", "-Wl,--no-as-needed"]);
    vec!["-Wl,--push-state".into(), state.into(), format!("./libd{number}.so"), "-Wl,--pop-state".into()]
}

fn options(rng: &mut Rng, program: &LinkProgram, files: &mut Vec<SideFile>) -> Vec<String> {
    let mut words: Vec<String> = program.mode.link_flags().iter().map(|w| (*w).to_owned()).collect();
    let mut add = |word: &str| words.push(word.to_owned());
    if rng.chance(45) {
        add("-Wl,--gc-sections");
        if rng.chance(30) {
            add(rng.pick::<&str>(&["-Wl,-z,nostart-stop-gc", "-Wl,-z,start-stop-gc"]));
        }
    }
    add("-Wl,-rpath-link,.");
    if rng.chance(15) && !program.mode.is_static() {
        add("-Wl,--export-dynamic");
    }
    if rng.chance(20) {
        add("-Wl,--allow-shlib-undefined");
    }
    if rng.chance(10) {
        add(&format!("-Wl,-u,f{}", rng.below(10)));
    }
    if rng.chance(6) {
        add(&format!("-Wl,--wrap=f{}", rng.below(10)));
    }
    if rng.chance(6) {
        add(&format!("-Wl,--defsym=f{}=f{}", rng.below(5), 5 + rng.below(5)));
    }
    if rng.chance(10) {
        add(rng.pick::<&str>(&[
            "-Wl,--exclude-libs,ALL",
            "-Wl,--exclude-libs,liba0.a",
            "-Wl,--exclude-libs,liba1.a:liba0.a",
        ]));
    }
    if rng.chance(10) {
        add("-Wl,-z,now");
    }
    if rng.chance(10) {
        add("-Wl,-z,muldefs");
    }
    if rng.chance(8) {
        add(&format!("-Wl,--export-dynamic-symbol=f{}", rng.below(10)));
    }
    if rng.chance(8) {
        files.push(("list", format!("{{ f{}; v{}; }};\n", rng.below(10), rng.below(5))));
        add("-Wl,--dynamic-list=list");
    }
    if program.mode == Mode::Shared {
        if rng.chance(30) {
            files.push(("version", "VER_1 { global: start_here; f1; f2; v*; local: *; };\n".to_owned()));
            add("-Wl,--version-script=version");
        }
        match rng.below(6) {
            0 => add("-Wl,-Bsymbolic"),
            1 => add("-Wl,-Bsymbolic-functions"),
            2 => add("-Wl,-z,defs"),
            _ => {}
        }
    }
    words
}
