//! The unwinder finds one entry for each address by `.eh_frame_hdr` with mold.

use object::{Object, ObjectSection};

use crate::run::{Job, Session};
use crate::tools::Linker;

/// A function in a section of its own, with an FDE.
fn function(name: &str, body: &str) -> String {
    format!(
        " .section .text.{name}, \"ax\", @progbits\n .globl {name}\n .type {name}, @function\n{name}: .cfi_startproc\n \
         {body}\n .cfi_endproc\n .size {name}, .-{name}\n"
    )
}

/// Starts of the entries of `.eh_frame_hdr`, in its order (LSB Core, "Exception Frames": a table of pairs of 32 bits).
fn starts(path: &std::path::Path) -> Vec<i32> {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let table = file.section_by_name(".eh_frame_hdr").unwrap().data().unwrap().to_vec();
    let count = u32::from_le_bytes(table[8..12].try_into().unwrap()) as usize;
    let pairs = table[12..].as_chunks::<8>().0;
    pairs.iter().take(count).map(|pair| i32::from_le_bytes(pair[..4].try_into().unwrap())).collect()
}

fn repeated(starts: &[i32]) -> usize {
    starts.array_windows().filter(|[a, b]| a == b).count()
}

#[test]
fn entries_of_no_bytes_are_left_out_behind_mold() {
    let mut session = Session::new("unwinding/empty");
    let dir = session.dir().to_owned();
    session.shims();
    // Of the first module `dead` goes, of the second one nothing.
    let calls = "call empty\n call behind\n call other\n ret";
    let first = [("_start", calls), ("empty", ""), ("behind", "ret"), ("dead", "ret")];
    let second = [("other", "call nothing\n call last\n ret"), ("nothing", ""), ("last", "ret")];
    let text =
        |functions: &[(&str, &str)]| -> String { functions.iter().map(|(n, b)| function(n, b)).collect() };
    session.write("first.s", text(&first));
    session.write("second.s", text(&second));
    session.cmd("gcc -c first.s second.s");
    for (linker, left_in_plain) in [(Linker::Mold, 2), (Linker::Lld, 0)] {
        let line = "--eh-frame-hdr first.o second.o -o out";
        session.must(&Job::new(&dir, linker.path()).words(line));
        session.check_eq(&repeated(&starts(&session.path("out"))), &left_in_plain, "of the plain link");
        session.must(&session.job("shims/ld").by(linker).words(line).words("--prune-strict"));
        session.check_eq(&repeated(&starts(&session.path("out"))), &0, linker.name());
        let bytes = session.bytes("out");
        let has = |name: &str| object::File::parse(&*bytes).unwrap().symbol_by_name(name).is_some();
        session.check(!has("dead") && has("last"), "what is pruned");
    }
}
