//! The recipes of docs/RECIPES.md, run block by block as they stand there, each on a small project of its build system.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::run::{Job, Session};
use crate::tools;

const FILES: &str = include_str!("programs/recipes.txt");

/// The shell blocks below each heading; those before the first heading belong to all.
fn recipes() -> BTreeMap<String, Vec<String>> {
    let page = std::fs::read_to_string(tools::repository().join("docs/RECIPES.md")).unwrap();
    let mut recipes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut heading, mut block) = (String::new(), None::<String>);
    for line in page.lines() {
        match &mut block {
            Some(_) if line == "```" => recipes.entry(heading.clone()).or_default().extend(block.take()),
            Some(text) => *text += &format!("{line}\n"),
            None if line == "```sh" => block = Some(String::new()),
            None => heading = line.strip_prefix("## ").map_or(heading, str::to_owned),
        }
    }
    recipes
}

/// The files of some projects of the text.
fn project(name: &str, projects: &str) -> Session {
    let session = Session::new(&format!("recipes/{}", name.replace(' ', "-")));
    projects.split(' ').for_each(|project| session.files(FILES, project));
    session
}

/// Run a recipe on the files of projects.
fn run(name: &str, projects: &str) -> Session {
    run_in(project(name, projects), name)
}

/// Run a recipe in the folder of a test, which stands for the user's home.
fn run_in(mut session: Session, name: &str) -> Session {
    let dir = session.dir().to_owned();
    let recipes = recipes();
    let blocks = recipes[""].iter().chain(&recipes[name]).map(String::as_str).collect::<Vec<_>>();
    let path = tools::path_with(tools::lto_prune().parent().unwrap());
    let mut job = session.job("bash").arg("-euc").arg(blocks.concat()).env("PATH", path);
    // cargo and rustup are where they are.
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    for (variable, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        job = job.env(variable, std::env::var_os(variable).unwrap_or_else(|| home.join(folder).into()));
    }
    job = job.env("HOME", &dir).env("CARGO_TARGET_DIR", dir.join("target"));
    let outcome = session.must(&job);
    let said = outcome.stdout + &outcome.stderr;
    session.check(name == "Completions" || said.contains("lto-prune"), &said);
    session
}

/// The program prints 2 and has no dead function, and there is a report of its name.
fn check(session: Session, program: &str) {
    check_reported(session, program, "app", true);
}

fn check_reported(mut session: Session, program: &str, output: &str, is_pruned: bool) {
    let dir = session.dir().to_owned();
    let outcome = session.must(&Job::new(&dir, dir.join(program)));
    session.check_eq(&outcome.stdout.as_str(), &"2\n", "output of the program");
    let facts = session.facts(program);
    session.check(facts.defined.contains("helper"), "helper is gone");
    for name in ["dead", "dead_helper"] {
        session.check(!facts.defined.contains(name), &format!("{name} is not gone"));
    }
    // cargo links `app-` and a hash, and names that `app` afterwards.
    let mut reports = std::fs::read_dir(session.path("reports")).unwrap().map(|entry| entry.unwrap().path());
    let of_program = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(output);
    let report = reports.find(of_program).unwrap_or_else(|| session.fail("no report"));
    let report = crate::reports::report(&session, &report);
    session.check_eq(&report["pruned"], &is_pruned.into(), "pruned");
    // The log of the build has what the compiler may hide.
    let log = session.text("prune.log");
    let output = report["output"].as_str().unwrap();
    session.check(log.lines().any(|line| line.starts_with(&format!("lto-prune: {output}: "))), &log);
}

#[test]
fn make() {
    check(run("make", "C make"), "app");
}

#[test]
fn autotools() {
    // A release has a configure script that is newer than its sources.
    let mut release = project("Autotools", "C Autotools");
    release.cmd("autoreconf -i");
    check(run_in(release, "Autotools"), "app");
}

#[test]
fn cmake() {
    // So old that it links with -rdynamic, but for the policy.
    check(run("CMake", "C CMake"), "build/app");
}

#[test]
fn cmake_package() {
    let page = std::fs::read_to_string(tools::repository().join("docs/RECIPES.md")).unwrap();
    let enable = page.split_once("```cmake\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    let session = project("CMake package", "C CMake");
    let lists = session.text("CMakeLists.txt").replace("3.0", "3.16");
    let plain = "add_executable(plain main.c)\ntarget_link_libraries(plain helper)\n";
    session.write("CMakeLists.txt", lists + plain + enable);
    let session = run_in(session, "CMake package");
    let plain = session.facts("build/plain");
    session.check(plain.defined.contains("dead"), "a target that was not named is pruned");
    let made = session.text("build/CMakeFiles/app.dir/link.txt");
    session.check(made.contains("--prune-unwind=unused"), &made);
    check(session, "build/app");
}

#[test]
fn meson() {
    check(run("Meson", "C Meson"), "build/app");
    check(run("Meson native file", "C Meson"), "build/app");
}

#[test]
fn cargo() {
    // The linker itself removes nearly all that can be removed from it.
    let session = run("cargo", "cargo");
    check_reported(session, "target/release/app", "app", false);
}

#[test]
fn cargo_subcommand() {
    let mut session = run("cargo subcommand", "cargo");
    let dir = session.dir().to_owned();
    let outcome = session.cmd("target/release/app");
    session.check_eq(&outcome.stdout.as_str(), &"2\n", "output of the program");
    let reports = std::fs::read_dir(session.path("target/lto-prune/reports")).unwrap().count();
    session.check_eq(&reports, &1, "reports");
    // Flags of the user stay, wherever cargo has them from, and options go to the links.
    let flag = "[\"--cfg\", \"chosen\"]";
    let other = "[target.aarch64-unknown-linux-gnu]\nrustflags = []\n";
    let places = [
        ("build", None, format!("[build]\nrustflags = {flag}\n{other}")),
        ("text", None, "[build]\nrustflags = \"--cfg chosen\"\n".to_owned()),
        ("target", None, format!("[target.x86_64-unknown-linux-gnu]\nrustflags = {flag}\n")),
        ("variable", Some("--cfg chosen"), String::new()),
    ];
    // Words behind -- are the program's; a build script is no program.
    session.write("build.rs", "fn main() { println!(\"cargo::rerun-if-changed=build.rs\"); }\n");
    let words = "cargo run --release -- --prune-stats";
    let ran = session
        .must(&Job::new(&dir, tools::lto_prune()).words(words).env("CARGO_TARGET_DIR", dir.join("target")));
    session.check_eq(&ran.stdout.as_str(), &"3\n", "the program gets its words");
    let rust = session.text("src/main.rs");
    session.write("src/main.rs", format!("#[cfg(not(chosen))]\ncompile_error!(\"no flags\");\n{rust}"));
    for (place, variable, config) in places {
        session.write(".cargo/config.toml", config);
        let words = format!("cargo build --target-dir {place} --prune-level=off:functions");
        let mut job =
            Job::new(&dir, tools::lto_prune()).words(&words).env("CARGO_TARGET_DIR", dir.join("none"));
        if let Some(flags) = variable {
            job = job.env("RUSTFLAGS", flags);
        }
        let outcome = session.must(&job);
        session.says(&outcome.stderr, "lto-prune: the reports are in ");
        session.check(!outcome.stderr.contains("build_script"), &outcome.stderr);
        session.says(&outcome.stderr, "app");
        let again = session.must(&job);
        session.says(&again.stderr, "cargo linked no program");
    }
}

#[test]
fn another_linker() {
    check(run("Another linker", "C make"), "app");
}

#[test]
fn musl() {
    check(run("musl", "C make"), "app");
}

#[test]
fn go() {
    if !tools::is_installed("go") {
        return;
    }
    // Go links with -rdynamic, and its own command has the output renamed afterwards.
    // Enough is dead to be worth it in a program of that size.
    check_reported(run("Go", "Go"), "app", "a.out", true);
}

#[test]
fn free_pascal() {
    if !tools::is_installed("fpc") {
        return;
    }
    let mut session = run("Free Pascal", "Pascal");
    let outcome = session.cmd("./app");
    session.check_eq(&outcome.stdout.as_str(), &"2\n", "output of the program");
    session.check(session.path("reports/app.json").exists(), "no report");
}

#[test]
fn every_recipe_is_run() {
    let names: Vec<String> = recipes().into_keys().collect();
    let known = "|Another linker|Autotools|CMake|CMake package|Completions|Free Pascal|Go|Meson|Meson native file|cargo|\
        cargo subcommand|make|musl";
    assert_eq!(names.join("|"), known);
    let session = run_in(Session::new("recipes/Completions"), "Completions");
    for name in ["lto-prune.bash", "_lto-prune", "lto-prune.fish"] {
        session.check(session.path(name).exists(), &format!("no {name}"));
    }
}
