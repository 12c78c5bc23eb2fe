//! The random line of a program: the order of its inputs, the state in which they are read, the options.
//!
//! All words are for the compiler driver. Options that make every link fail are left out, and options that make linkers print messages about
//! dropped code.

use super::program::{LinkProgram, ModuleContainer};
use crate::rng::Rng;

/// A file that an option needs: name and contents.
pub(crate) type SideFile = (&'static str, String);

/// The words between the driver's own, and the files that they name.
pub(crate) fn generate(rng: &mut Rng, program: &LinkProgram) -> (Vec<String>, Vec<SideFile>) {
    let mut files = Vec::new();
    let mut words = options(rng, program, &mut files);
    let objects = program.modules.iter().filter(|module| module.place == ModuleContainer::Object);
    let mut items: Vec<String> = objects.map(|module| module.object.clone()).collect();
    rng.shuffle(&mut items);
    let mut archives: Vec<String> = Vec::new();
    for number in 0..program.archives {
        archives.push(match rng.chance(12) {
            true => format!("-Wl,--whole-archive liba{number}.a -Wl,--no-whole-archive"),
            false => format!("liba{number}.a"),
        });
    }
    match rng.below(3) {
        0 if !archives.is_empty() => {
            archives.insert(0, "-Wl,--start-group".into());
            archives.push("-Wl,--end-group".into());
        }
        // Twice under --whole-archive would define everything twice.
        1 => archives.extend(archives.clone().into_iter().filter(|a| !a.contains(' '))),
        _ => {}
    }
    let mut libraries: Vec<String> = Vec::new();
    for number in 0..program.libraries {
        let state = *rng.pick(&["-Wl,--as-needed", "-Wl,--no-as-needed"]);
        libraries.push(format!("-Wl,--push-state {state} ./libd{number}.so -Wl,--pop-state"));
    }
    rng.shuffle(&mut libraries);
    let rest = items.split_off(rng.below(items.len() + 1));
    let order = match rng.below(4) {
        0 => [items, rest, archives, libraries],
        1 => [items, rest, libraries, archives],
        2 => [libraries, items, rest, archives],
        _ => [items, archives, rest, libraries],
    };
    words.extend(order.iter().flatten().flat_map(|item| crate::texts::words(item)));
    (words, files)
}

fn options(rng: &mut Rng, program: &LinkProgram, files: &mut Vec<SideFile>) -> Vec<String> {
    let mut words: Vec<String> = crate::texts::words(program.mode);
    words.push("-Wl,-rpath-link,.".to_owned());
    let (f, g, v) = (rng.below(5), 5 + rng.below(5), rng.below(5));
    let exclude = *rng.pick(&["ALL", "liba0.a", "liba1.a:liba0.a"]);
    let start_stop = *rng.pick(&["nostart-stop-gc", "start-stop-gc"]);
    let mut add = |percent: usize, word: String| {
        let is_added = rng.chance(percent);
        words.extend(is_added.then(|| format!("-Wl,{word}")));
        is_added
    };
    if add(45, "--gc-sections".into()) {
        add(30, format!("-z,{start_stop}"));
    }
    add(if program.mode.contains("static") { 0 } else { 15 }, "--export-dynamic".into());
    add(20, "--allow-shlib-undefined".into());
    add(10, format!("-u,f{g}"));
    add(6, format!("--wrap=f{f}"));
    add(6, format!("--defsym=f{f}=f{g}"));
    add(10, format!("--exclude-libs,{exclude}"));
    add(10, "-z,now".into());
    add(10, "-z,muldefs".into());
    add(8, format!("--export-dynamic-symbol=f{f}"));
    if add(8, "--dynamic-list=list".into()) {
        files.push(("list", format!("{{ f{g}; v{v}; }};\n")));
    }
    if program.mode == "-shared" {
        if add(30, "--version-script=version".into()) {
            files.push(("version", "VER_1 { global: start_here; f1; f2; v*; local: *; };\n".to_owned()));
        }
        if !add(17, "-Bsymbolic".into()) && !add(20, "-Bsymbolic-functions".into()) {
            add(25, "-z,defs".into());
        }
    }
    words
}
