//! Links of compilers that choose their linker themselves: each with its own linker, and with the shim of that name.
//!
//! No variable names a linker here. A compiler that is not installed leaves its row out, with a note.

use std::path::Path;
use std::process::Command;

use super::pair::{LinkPair, Side};
use super::rules::{self, Difference};
use crate::Result;
use crate::process;
use crate::table::Table;

/// A link, done by a shell command that writes `out`. `$B` is `-B` with the folder of the shims, or empty.
struct DriverLink {
    name: &'static str,
    program: &'static str,
    command: &'static str,
}

const LINKS: &[DriverLink] = &[
    DriverLink { name: "gcc", program: "gcc", command: "gcc $B -O1 main.c dead.c -o out" },
    DriverLink { name: "gcc -flto", program: "gcc", command: "gcc $B -flto -O1 main.c dead.c -o out" },
    DriverLink {
        name: "gcc, bfd",
        program: "ld.bfd",
        command: "gcc $B -fuse-ld=bfd -O1 main.c dead.c -o out",
    },
    DriverLink {
        name: "gcc, gold",
        program: "ld.gold",
        command: "gcc $B -fuse-ld=gold -O1 main.c dead.c -o out",
    },
    DriverLink {
        name: "gcc, mold",
        program: "ld.mold",
        command: "gcc $B -fuse-ld=mold -O1 main.c dead.c -o out",
    },
    DriverLink {
        name: "clang, lld",
        program: "clang-19",
        command: "clang-19 $B -fuse-ld=lld -O1 main.c dead.c -o out",
    },
    DriverLink {
        name: "clang, wild",
        program: "wild",
        command: "clang-19 ${B:---ld-path=wild} ${B:+-fuse-ld=wild} -O1 main.c dead.c -o out",
    },
    DriverLink {
        name: "musl-gcc -static",
        program: "musl-gcc",
        command: "musl-gcc -static $B -O1 main.c dead.c -o out",
    },
    DriverLink { name: "Free Pascal", program: "fpc", command: "fpc -v0 ${B:+-FD${B#-B}} main.pas -oout" },
    DriverLink { name: "gccgo", program: "gccgo", command: "gccgo $B main.go -o out" },
    DriverLink {
        name: "Go, external linker",
        program: "go",
        command: "GOCACHE=$PWD/../go go build -ldflags \"-linkmode=external -extldflags '$B'\" -o out main.go",
    },
    DriverLink {
        name: "rustc -Clinker-plugin-lto",
        program: "rustc",
        command: "rustc -O -Clinker-plugin-lto ${B:+-Clink-self-contained=-linker -Clink-arg=$B} main.rs -o out",
    },
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

fn side(link: &DriverLink, dir: &Path, name: &str, shims: Option<&Path>) -> Result<Side> {
    let folder = dir.join(name);
    std::fs::create_dir_all(&folder)?;
    for (file, text) in FILES {
        std::fs::write(folder.join(file), text)?;
    }
    let option = shims.map(|shims| format!("-B{}", shims.display())).unwrap_or_default();
    let mut command = Command::new("sh");
    command.args(["-c", link.command]).current_dir(&folder).env("B", option).env("LC_ALL", "C");
    command.env_remove("LTO_PRUNE_FLAGS").env_remove("LTO_PRUNE_LINKER");
    Side::of_command(&mut command, &folder, "out")
}

/// The table of these links, and the differences that no rule explains.
pub(super) fn compare(pruner: &Path, dir: &Path) -> Result<(String, Vec<String>)> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    let shims = dir.join("shims");
    std::fs::create_dir_all(dir)?;
    process::run_ok(Command::new(pruner).arg("install-shims").arg(&shims), dir)?;
    let mut table = Table::new(&["compiler, linker", "link", "differences explained", "not explained"]);
    let mut unexplained = Vec::new();
    for (index, link) in LINKS.iter().enumerate() {
        if !is_installed(link.program) {
            table.row(&[link.name, "not installed", "", ""].map(str::to_owned));
            continue;
        }
        let dir = dir.join(index.to_string());
        let plain = side(link, &dir, "plain", None)?;
        let pruned = side(link, &dir, "pruned", Some(&shims))?;
        let pair = LinkPair { plain, pruned, report: None };
        let all = pair.differences();
        let words: Vec<String> = link.command.split_whitespace().map(str::to_owned).collect();
        let is_explained = |line: &String| {
            rules::explain(&Difference {
                line,
                all: &all,
                plain: &pair.plain.facts,
                words: &words,
                plain_linked: pair.plain.linked,
                overwrites_input: false,
            })
            .is_some()
        };
        let (explained, left): (Vec<&String>, Vec<&String>) = all.iter().partition(|line| is_explained(line));
        let state = match (pair.plain.linked, pair.is_pruned()) {
            (false, _) => "fails",
            (true, true) => "pruned",
            (true, false) => "the same file",
        };
        let counts = [explained.len(), left.len()].map(|n| n.to_string());
        table.row(&[vec![link.name.to_owned(), state.to_owned()], counts.to_vec()].concat());
        unexplained.extend(left.iter().map(|line| format!("{}: {line}", link.name)));
    }
    Ok((table.as_str().to_owned(), unexplained))
}
