//! Archives made by binutils and LLVM, and synthetic ones for cases that no tool makes.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use super::*;

fn run(dir: &Path, program: &str, args: &[&str]) {
    let status = Command::new(program).args(args).current_dir(dir).status().unwrap();
    assert!(status.success(), "{program} {args:?}");
}

/// Objects a.o, b.o and one with a long name in a folder, each defining a function of its own.
fn objects() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    for (file, symbol) in [("a", "alpha"), ("b", "beta"), ("sub/a_rather_long_member_name", "gamma")] {
        let source = dir.path().join(format!("{file}.c"));
        std::fs::write(&source, format!("int {symbol}(void) {{ return 1; }}\n")).unwrap();
        run(dir.path(), "gcc", &["-c", &format!("{file}.c"), "-o", &format!("{file}.o")]);
    }
    dir
}

/// The names in the symbol table, each with its member.
fn symbols(bytes: &[u8], archive: &Archive) -> Vec<(String, String)> {
    let table = archive.symbols.as_ref().unwrap().iter();
    let name = |at: &Range<usize>| String::from_utf8(bytes[at.clone()].to_vec()).unwrap();
    table.map(|(at, m)| (name(at), archive.members[*m].name.clone())).collect()
}

fn expected(long: &str) -> Vec<(String, String)> {
    [("alpha", "a.o"), ("beta", "b.o"), ("gamma", long)].map(|(s, m)| (s.to_owned(), m.to_owned())).to_vec()
}

const LONG: &str = "sub/a_rather_long_member_name.o";

/// Of a basename of 15 characters GNU ar leaves the padding behind the number of the long name.
#[test]
fn thin_members_of_any_length() {
    for length in 12..19 {
        let dir = objects();
        let member = format!("{:x<1$}.o", "", length - 2);
        std::fs::rename(dir.path().join("a.o"), dir.path().join("sub").join(&member)).unwrap();
        run(dir.path(), "ar", &["csrDT", "thin.a", &format!("sub/{member}")]);
        let archive = parse(&std::fs::read(dir.path().join("thin.a")).unwrap()).unwrap();
        assert_eq!(archive.members[0].name, format!("sub/{member}"));
    }
}

#[test]
fn archives_of_real_tools() {
    let dir = objects();
    let base = "a_rather_long_member_name.o";
    for (program, flags, name) in [
        ("ar", "rcs", base),
        ("ar", "rcsT", LONG),
        ("llvm-ar-19", "rcs", base),
        ("llvm-ar-19", "rcsT", LONG),
        ("llvm-ar-19", "--format=bsd", base),
    ] {
        let file = format!("{}{flags}.a", program.replace('-', ""));
        let file = file.replace('=', "_");
        let flags: Vec<&str> = if flags.starts_with('-') { vec![flags, "rcs"] } else { vec![flags] };
        let args: Vec<&str> = flags.iter().copied().chain([file.as_str(), "a.o", "b.o", LONG]).collect();
        run(dir.path(), program, &args);
        let bytes = std::fs::read(dir.path().join(&file)).unwrap();
        let archive = parse(&bytes).unwrap();
        assert_eq!(symbols(&bytes, &archive), expected(name), "{program} {flags:?}");
        for member in &archive.members {
            if archive.thin {
                assert!(dir.path().join(&member.name).exists());
            } else {
                let original = if member.name == base { LONG } else { &member.name };
                let want = std::fs::read(dir.path().join(original)).unwrap();
                // BSD pads a member to eight bytes.
                assert!(bytes[member.data.clone()].starts_with(&want), "{}", member.name);
            }
        }
        truncations(&bytes);
    }
}

/// Every prefix is an archive or an error, never a panic.
fn truncations(bytes: &[u8]) {
    for end in 0..bytes.len().min(2_000) {
        let _ = parse(&bytes[..end]);
    }
    for i in 0..bytes.len().min(1_000) {
        let mut bytes = bytes.to_vec();
        bytes[i] ^= 0xff;
        let _ = parse(&bytes);
        bytes[i] = b'9';
        let _ = parse(&bytes);
    }
}

fn member(name: &str, data: &[u8]) -> Vec<u8> {
    let mut out = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len()).into_bytes();
    out.extend_from_slice(data);
    if data.len() % 2 == 1 {
        out.push(b'\n');
    }
    out
}

fn hand_made(members: &[Vec<u8>]) -> Vec<u8> {
    [ARCHIVE.to_vec(), members.concat()].concat()
}

#[test]
fn duplicate_names_are_told_apart_by_offset() {
    // The table names the second `x.o` only: header at 8 + 60 + 16 (table) + 60 + 4 (first member).
    let second = 8 + 60 + 16 + 60 + 4;
    let mut table = Vec::new();
    table.extend_from_slice(&1_u32.to_be_bytes());
    table.extend_from_slice(&(second as u32).to_be_bytes());
    table.extend_from_slice(b"symbol\0\0");
    let bytes = hand_made(&[member("/", &table), member("x.o/", b"1234"), member("x.o/", b"567")]);
    let archive = parse(&bytes).unwrap();
    assert_eq!(archive.members.len(), 2);
    assert_eq!(symbols(&bytes, &archive), [("symbol".to_owned(), "x.o".to_owned())]);
    assert_eq!(archive.symbols.unwrap()[0].1, 1);
    assert_eq!(&bytes[archive.members[1].data.clone()], b"567");
}

#[test]
fn sym64_and_corner_cases() {
    let mut table = Vec::new();
    table.extend_from_slice(&1_u64.to_be_bytes());
    table.extend_from_slice(&(8 + 60 + 18_u64).to_be_bytes());
    table.extend_from_slice(b"s\0");
    let bytes = hand_made(&[member("/SYM64/", &table), member("y.o/", b"")]);
    assert_eq!(symbols(&bytes, &parse(&bytes).unwrap()), [("s".to_owned(), "y.o".to_owned())]);

    assert_eq!(parse(b"!<arch>\n").unwrap(), Archive::default());
    assert!(parse(b"").is_err() && parse(b"!<arch").is_err());
    // A table that names no member, a long name that isn't there, sizes that lie.
    table[8..16].copy_from_slice(&9999_u64.to_be_bytes());
    assert!(parse(&hand_made(&[member("/SYM64/", &table), member("y.o/", b"")])).is_err());
    assert!(parse(&hand_made(&[member("/77", b"x")])).is_err());
    assert!(parse(&hand_made(&[member("#1/99", b"x")])).is_err());
    let mut lying = hand_made(&[member("z.o/", b"abcd")]);
    lying[8 + 48..8 + 58].copy_from_slice(b"9999999999");
    assert!(parse(&lying).unwrap_err().contains("past the end"));
    lying[8 + 48..8 + 58].copy_from_slice(b"-1        ");
    assert!(parse(&lying).unwrap_err().contains("bad size"));
    // A huge count in a table allocates nothing in advance beyond the table's own size.
    let huge = u32::MAX.to_be_bytes();
    assert!(parse(&hand_made(&[member("/", &huge)])).is_err());
}
