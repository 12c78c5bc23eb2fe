//! Places of addresses, held against the symbol tables of inputs and program: each function of an input lies where the linked
//! program's symbol of that name is.

use std::fs;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSymbol};

use super::layout::Layout;
use super::report::{InputPlace, TraceReport};
use super::tests::scratch;

/// Sections of one name: two of the same size that differ, and two that don't. `kept` is what main refers to.
fn assembly(kept: &[&str]) -> String {
    let mut out = String::from(".text\n.globl main\n.type main,@function\nmain:\n");
    for name in kept {
        out.push_str(&format!("call {name}\n"));
    }
    out.push_str("xor %eax, %eax\nret\n.size main, .-main\n");
    for (i, (name, byte)) in [("first", 1), ("second", 2), ("third", 3), ("fourth", 3)].iter().enumerate() {
        out.push_str(&format!(
            ".section .text.same,\"ax\",@progbits,unique,{i}\n.globl {name}\n.type {name},@function\n\
             {name}: mov ${byte}, %eax\ncall helper\nret\n.size {name}, .-{name}\n"
        ));
    }
    out + ".section .note.GNU-stack,\"\",@progbits\n"
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Link `main.o` and `lib.a(helper.o)` in `dir`; the layout, and where each function is in program and input.
fn link(dir: &Path, kept: &[&str], flags: &[&str]) -> (Layout, Vec<(String, u64, Option<InputPlace>)>) {
    fs::write(dir.join("main.s"), assembly(kept)).unwrap();
    fs::write(
        dir.join("helper.c"),
        "static int x; int other(void) { return x; } int helper(void) { return x++; }",
    )
    .unwrap();
    run(Command::new("gcc")
        .args(["-c", "main.s", "helper.c", "-O1", "-ffunction-sections"])
        .current_dir(dir));
    run(Command::new("ar").args(["rc", "lib.a", "helper.o"]).current_dir(dir));
    let lld = crate::corpus::find_linker("lld").unwrap();
    let link = ["main.o", "lib.a", "-e", "main", "-Map=map", "-o", "linked"];
    run(Command::new(lld).args(link).args(flags).current_dir(dir));
    let modules = vec![(None, "main.o".to_owned()), (Some("lib.a".to_owned()), "helper.o".to_owned())];
    let report = TraceReport { modules, ..TraceReport::default() };
    let layout = Layout::read(&dir.join("linked"), &dir.join("map"), dir, &report).unwrap();
    let inputs = ["main.o", "helper.o"].map(|f| fs::read(dir.join(f)).unwrap());
    let inputs = inputs.each_ref().map(|bytes| object::File::parse(&**bytes).unwrap());
    let bytes = fs::read(dir.join("linked")).unwrap();
    let linked = object::File::parse(&*bytes).unwrap();
    let mut functions = Vec::new();
    for symbol in linked.symbols().filter(|s| s.kind() == object::SymbolKind::Text && s.size() > 0) {
        let name = symbol.name().unwrap();
        let place = inputs.iter().enumerate().find_map(|(module, file)| {
            let here = file.symbols().find(|s| s.name() == Ok(name) && s.is_definition())?;
            let section = here.section_index()?.0 as u32;
            Some(InputPlace { module, section, offset: here.address() })
        });
        functions.push((name.to_owned(), symbol.address(), place));
    }
    (layout, functions)
}

#[test]
fn sections_of_one_name_are_told_apart() {
    let dir = scratch("layout");
    let all = ["first", "second", "third", "fourth"];
    let (layout, functions) = link(&dir, &all, &[]);
    assert_eq!(functions.len(), 7);
    for (name, address, place) in functions {
        assert_eq!(layout.place_of(address), place, "{name}");
        let inside = place.map(|p| InputPlace { offset: p.offset + 2, ..p });
        assert_eq!(layout.place_of(address + 2), inside, "{name} + 2");
    }
    assert!(layout.unknown.is_empty());
    let called = layout.mentions(InputPlace { module: 0, section: 1, offset: 0 }, 5);
    assert_eq!(called.into_iter().collect::<Vec<_>>(), ["first"]);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_can_not_be_told_apart_has_no_place() {
    let dir = scratch("layout-gc");
    let (layout, functions) = link(&dir, &["second", "fourth"], &["--gc-sections"]);
    for (name, address, place) in functions {
        // `third` has the same bytes, and lld's map does not say which of the two went.
        let expected = if name == "fourth" { None } else { place };
        assert_eq!(layout.place_of(address), expected, "{name}");
    }
    assert_eq!(layout.unknown.len(), 1);
    fs::remove_dir_all(dir).unwrap();
}
