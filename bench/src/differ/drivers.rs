//! Links of compilers that choose their linker: each with that linker, and with the shim of its name.
//!
//! No variable names a linker here. A compiler that is not installed has a row that says so.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::pair::{LinkPair, Side};
use crate::process::run_ok;
use crate::rules::{self, Difference, RuleCounts};
use crate::table::Table;

/// Name, program that must be installed, and a shell command that writes `out`. `$B` is `-B` with the folder of the shims, or empty.
const LINKS: &[[&str; 3]] = &[
    ["gcc", "gcc", "gcc $B -O1 main.c dead.c -o out"],
    ["gcc -flto", "gcc", "gcc $B -flto -O1 main.c dead.c -o out"],
    ["gcc, bfd", "ld.bfd", "gcc $B -fuse-ld=bfd -O1 main.c dead.c -o out"],
    ["gcc, gold", "ld.gold", "gcc $B -fuse-ld=gold -O1 main.c dead.c -o out"],
    ["gcc, mold", "ld.mold", "gcc $B -fuse-ld=mold -O1 main.c dead.c -o out"],
    ["clang, lld", "clang-19", "clang-19 $B -fuse-ld=lld -O1 main.c dead.c -o out"],
    ["clang, wild", "wild", "clang-19 ${B:---ld-path=wild} ${B:+-fuse-ld=wild} -O1 main.c dead.c -o out"],
    ["musl-gcc -static", "musl-gcc", "musl-gcc -static $B -O1 main.c dead.c -o out"],
    ["Free Pascal", "fpc", "fpc -v0 ${B:+-FD${B#-B}} main.pas -oout"],
    ["gccgo", "gccgo", "gccgo $B main.go -o out"],
    [
        "Go, external linker",
        "go",
        "GOCACHE=$PWD/../go go build -ldflags \"-linkmode=external -extldflags '$B'\" -o out main.go",
    ],
    [
        "rustc -Clinker-plugin-lto",
        "rustc",
        "rustc -O -Clinker-plugin-lto ${B:+-Clink-self-contained=-linker -Clink-arg=$B} main.rs -o out",
    ],
];

const FILES: &[(&str, &str)] = &[
    (
        "main.c",
        "#include <stdio.h>\nint main(int argc, char **argv) { printf(\"%d\\n\", argc); return 0; }\n",
    ),
    ("dead.c", "__attribute__((visibility(\"hidden\"))) int dead(int x) { return x * 3; }\n"),
    ("main.pas", "program main;\nbegin\n  writeln(1);\nend.\n"),
    ("main.go", "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(1) }\n"),
    ("main.rs", "fn main() { println!(\"{}\", std::env::args().count()); }\n"),
];

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn side(command: &str, dir: &Path, name: &str, shims: Option<&Path>) -> Result<Side> {
    let folder = dir.join(name);
    std::fs::create_dir_all(&folder)?;
    for (file, text) in FILES {
        std::fs::write(folder.join(file), text)?;
    }
    let option = shims.map(|shims| format!("-B{}", shims.display())).unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(&folder).env("B", option).env("LC_ALL", "C");
    shell.env_remove("LTO_PRUNE_FLAGS").env_remove("LTO_PRUNE_LINKER");
    Side::of_command(&mut shell, &folder, "out")
}

/// The table of these links, and the differences that no rule explains.
pub(super) fn compare(pruner: &Path, dir: &Path) -> Result<(String, Vec<String>)> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    let shims = dir.join("shims");
    std::fs::create_dir_all(dir)?;
    run_ok(Command::new(pruner).arg("install-shims").arg(&shims), dir)?;
    let mut table = Table::new("compiler, linker | link | differences explained | not explained");
    let mut unexplained = Vec::new();
    for (index, [name, program, command]) in LINKS.iter().enumerate() {
        if !is_installed(program) {
            table.row(&[name, "not installed", "", ""].map(str::to_owned));
            continue;
        }
        let dir = dir.join(index.to_string());
        let pair = LinkPair {
            plain: side(command, &dir, "plain", None)?,
            pruned: side(command, &dir, "pruned", Some(&shims))?,
        };
        let (all, mut counts) = (pair.differences(), RuleCounts::new());
        let words = crate::texts::words(command);
        let difference = Difference::new(&all, &pair.plain.facts, &words);
        let left = rules::unexplained(difference, &mut counts);
        let state = match (pair.plain.linked, pair.is_pruned()) {
            (false, _) => "fails",
            (true, true) => "pruned",
            (true, false) => "the same file",
        };
        let counts = [counts.values().sum(), left.len()].map(|n: usize| n.to_string());
        table.row(&[vec![(*name).to_owned(), state.to_owned()], counts.to_vec()].concat());
        unexplained.extend(left.iter().map(|line| format!("{name}: {line}")));
    }
    Ok((table.as_str().to_owned(), unexplained))
}
