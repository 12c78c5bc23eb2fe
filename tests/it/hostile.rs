//! Broken, foreign and hostile inputs: status and messages of the linker are those of the plain link, and there is no panic.
//!
//! If the linker accepts the input, lto-prune prints one warning that names the file, and the section or symbol if there is one. With
//! `--prune-strict` the status is 1.

use crate::compare;
use crate::run::{Job, Outcome, Session};
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/hostile.txt");

fn prepare(name: &str) -> Session {
    let mut session = Session::new(&format!("hostile/{name}"));
    session.files(FILES, "prepare");
    session.cmd("gcc -O1 -ffunction-sections -g -c main.c x.c");
    session.shims();
    for linker in Linker::ALL {
        tools::shim_dir(&session.path(&format!("plain-{}", linker.name())), &linker.path());
    }
    session
}

/// Link `line` plainly and through us, hold status and messages against each other; our outcome.
fn both(session: &mut Session, linker: Linker, line: &str) -> Outcome {
    let dir = session.dir().to_owned();
    let plain = format!("plain-{}", linker.name());
    // One output name for both: messages may have it.
    let job = |shims: &str| Job::new(&dir, "gcc").arg("-B").arg(shims).words(line).words("-o out");
    let expected = session.run(&job(&plain));
    let _ = std::fs::remove_file(dir.join("out"));
    let actual = session.run(&job("shims").by(linker));
    let what = format!("{line} with {}", linker.name());
    session.check(!actual.stderr.contains("panicked"), &format!("{what}: {}", actual.stderr));
    session.check_eq(&actual.status, &expected.status, &format!("{what}: status\n{}", actual.stderr));
    let messages = |o: &Outcome| compare::messages(&compare::not_ours(&o.stderr), linker);
    session.check_eq(&messages(&actual), &messages(&expected), &format!("{what}: messages"));
    session.check_eq(&dir.join("out").exists(), &expected.ok(), &format!("{what}: output"));
    if expected.ok() {
        session.cmd("./out");
    }
    let _ = std::fs::remove_file(dir.join("out"));
    actual
}

/// The linker takes this `line`, and we can't: one warning that has all of `words`, and strict mode fails.
fn warned(session: &mut Session, linker: Linker, line: &str, words: &[&str]) {
    let outcome = both(session, linker, line);
    session.check(outcome.ok(), &format!("the plain link of {line} fails with {}", linker.name()));
    let lines = compare::ours(&outcome.stderr);
    session.check_eq(&lines.len(), &1, &format!("warnings of {line}: {lines:?}"));
    for word in words {
        session.check(lines[0].contains(word), &format!("no {word} in {}", lines[0]));
    }
    let dir = session.dir().to_owned();
    let strict = session.job("gcc -B shims -Wl,--prune-strict").words(line).words("-o out");
    let strict = session.run(&strict.by(linker));
    session.check(!strict.ok(), "--prune-strict succeeds");
    session.check(!dir.join("out").exists(), "--prune-strict leaves an output");
    for word in words {
        session.check(strict.stderr.contains(word), &format!("no {word} in {}", strict.stderr));
    }
    // The driver hides the linker's own status.
    let direct = session.job("shims/ld --prune-strict -e main").words(line);
    let direct = session.run(&direct.words("-o out").by(linker));
    session.check_eq(&direct.status, &1, "status of --prune-strict");
}

#[test]
fn files_that_are_no_objects() {
    let mut session = prepare("kinds");
    session.write("empty.o", "");
    session.write("garbage.o", b"\x7fELF\x02\x01\x01\x00 and then nothing that makes sense".repeat(9));
    session.write("text.o", "this is neither an object\nnor a linker script ((\n");
    session.write("header.o", b"\x7fELF");
    session.mkdir("folder.o");
    session.write("archive.a", "!<arch>\nnot a member header");
    let bytes = session.bytes("x.o");
    for part in [16, 63, 64, 65, 100, bytes.len() / 2, bytes.len() - 64, bytes.len() - 1] {
        session.write("cut.o", &bytes[..part]);
        for linker in [Linker::Lld, Linker::Bfd] {
            both(&mut session, linker, "main.o cut.o");
        }
    }
    for name in ["empty.o", "garbage.o", "text.o", "header.o", "folder.o", "archive.a", "absent.o"] {
        for linker in Linker::ALL {
            both(&mut session, linker, &format!("main.o x.o {name}"));
        }
    }
}

/// A refused link has only the linker's messages, byte for byte. An old output is kept or removed as by the linker.
#[test]
fn refused_links_are_the_linker_s_alone() {
    let mut session = prepare("refused");
    let dir = session.dir().to_owned();
    let bytes = session.bytes("x.o");
    session.write("cut.o", &bytes[..bytes.len() / 2]);
    session.write("header.o", b"\x7fELF");
    session.write("text.o", "int x;");
    session.write("bad.a", format!("!<arch>\n{}", "no header of a member ".repeat(9)));
    session.write("nothing.c", "int nope(void);\nint main(void) { return nope(); }\n");
    session.cmd("gcc -c nothing.c");
    session.mkdir("folder.o");
    let tails = [
        "-lnope",
        "absent.o",
        "cut.o",
        "header.o",
        "text.o",
        "bad.a",
        "folder.o",
        "nothing.o",
        "main.o",
        "-T absent.ld",
        "--version-script=absent.v",
        "--dynamic-list=absent.l",
        "--no-such-option",
        "@absent.rsp",
        "-l:absent.so",
        "--whole-archive bad.a",
    ];
    for linker in Linker::ALL {
        let mut refused = 0;
        for tail in tails {
            let mut ends = Vec::new();
            for program in [linker.path(), session.path("shims/ld")] {
                session.write("out", "old");
                let job = Job::new(&dir, program).words("main.o x.o").words(tail).words("-e main -o out");
                let outcome = session.run(&job.by(linker));
                let old = std::fs::read(session.path("out")).ok().map(|bytes| bytes == b"old");
                ends.push((outcome, old));
            }
            if !ends[0].0.ok() {
                refused += 1;
                session.check_eq(&ends[1], &ends[0], &format!("{tail} with {}", linker.name()));
            }
        }
        session.check(refused > 10, &format!("{} refuses {refused} links", linker.name()));
    }
}

#[test]
fn archives_with_broken_members() {
    let mut session = prepare("archives");
    session.write("note.txt", "documentation in an archive\n");
    let bytes = session.bytes("x.o");
    session.write("cut.o", &bytes[..bytes.len() / 2]);
    session.cmd("ar qcs libtext.a note.txt x.o");
    session.cmd("ar qc libcut.a cut.o x.o");
    session.cmd("ar qcS libnoindex.a x.o");
    let archive = session.bytes("libtext.a");
    session.write("libshort.a", &archive[..archive.len() - 200]);
    for name in ["libtext.a", "libcut.a", "libnoindex.a", "libshort.a"] {
        for linker in Linker::ALL {
            both(&mut session, linker, &format!("main.o {name}"));
        }
    }
}

#[test]
fn every_byte_of_the_tables_damaged() {
    // The test damages one byte of the header or of the section headers at a time. lld has one thread: on several, their order decides whether it
    // crashes or reports an error.
    let line = "main.o damaged.o -e main -o out --threads=1";
    let mut session = prepare("flipped");
    let dir = session.dir().to_owned();
    let bytes = session.bytes("x.o");
    let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let places = (0..64).chain((table..bytes.len()).step_by(19));
    for place in places {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x81;
        session.write("damaged.o", &damaged);
        let outcome = session.run(&session.job("shims/ld").words(line).by(Linker::Lld));
        let plain = session.run(&Job::new(&dir, Linker::Lld.path()).words(line));
        let what = format!("byte {place} damaged");
        session.check(!outcome.stderr.contains("panicked"), &format!("{what}: {}", outcome.stderr));
        session.check_eq(
            &outcome.status,
            &plain.status,
            &format!("{what}\n{}\n{}", outcome.stderr, plain.stderr),
        );
    }
}

fn assemble(session: &mut Session, name: &str, extra: &str) {
    let text = format!(
        "    .section .text.x,\"ax\",@progbits\n    .globl x\n    .type x,@function\nx:\n    ret\n    .size x, .-x\n\
         {extra}\n    .section .note.GNU-stack,\"\",@progbits\n"
    );
    session.write(&format!("{name}.s"), text);
    session.cmd(&format!("clang-19 -c {name}.s -o {name}.o"));
}

#[test]
fn unknown_section_type() {
    // SHT_LOUSER and up: an application's own. It may hold symbol indices, and renumbering would make them mean
    // something else. Every linker takes it where it is not allocated.
    let mut session = prepare("section-type");
    assemble(&mut session, "strange", "    .section .strange,\"\",@0x80001234\n    .long 1, 2, 3");
    for linker in Linker::ALL {
        warned(&mut session, linker, "main.o strange.o", &["strange.o", ".strange"]);
        session.link(linker, "gcc -B shims main.o strange.o -o out -Wl,--prune-report=report.json");
        let names = crate::reports::limit_names(&session.report("report.json"));
        session.check(names.iter().any(|n| n == "unknown-section-type"), &format!("limits {names:?}"));
    }
}

#[test]
fn unknown_relocation_type() {
    let mut session = prepare("relocation-type");
    assemble(&mut session, "strange", "    .section .data.d,\"aw\",@progbits\nd:  .quad x\n    .quad x");
    // The first relocation against `x`: its type is the low half of r_info.
    let mut bytes = session.bytes("strange.o");
    let r_64 = (1u32..40).find_map(|symbol| {
        let info = (u64::from(symbol) << 32 | 1).to_le_bytes();
        bytes.windows(8).position(|w| w == info)
    });
    bytes[r_64.expect("an R_X86_64_64 relocation")] = 0xf7;
    session.write("strange.o", bytes);
    for linker in Linker::ALL {
        both(&mut session, linker, "main.o strange.o");
    }
}

#[test]
fn malformed_unwind_section() {
    let mut session = prepare("unwind");
    let frame =
        "    .section .eh_frame,\"a\",@progbits\n    .long 0x7ffffff0\n    .long 0\n    .quad x\n    .long 5";
    assemble(&mut session, "strange", frame);
    for linker in Linker::ALL {
        both(&mut session, linker, "main.o strange.o");
    }
}

#[test]
fn inputs_that_change_during_the_link() {
    // The linker changes an input before it links. The pruned output is then not used.
    let mut session = prepare("changing");
    let dir = session.dir().to_owned();
    let linker = session
        .write("ld.lld", format!("#!/bin/sh\n: > x.o\nexec {} \"$@\"\n", Linker::Lld.path().display()));
    session.must(&session.job("chmod").arg("+x").arg(&linker));
    let job = session.job("shims/ld main.o x.o -e main -o out");
    let outcome = session.run(&job.env("LTO_PRUNE_LINKER", &linker));
    // lld takes an empty file for nothing, and finds nothing undefined in what the originals are now.
    let plain = session.run(&Job::new(&dir, Linker::Lld.path()).words("main.o x.o -e main -o plain"));
    session.check_eq(&outcome.status, &plain.status, &outcome.stderr);
    if plain.ok() {
        session.says(&outcome.stderr, "x.o: the file changed while it was linked");
        let read = |name: &str| std::fs::read(dir.join(name)).unwrap();
        session.check(read("out") == read("plain"), "the output is not that of the originals");
    }
}

#[test]
fn little_memory_and_few_files() {
    let mut session = prepare("limits");
    for linker in Linker::ALL {
        for limit in ["-v 60000", "-v 90000", "-v 150000", "-v 300000", "-n 8", "-n 16"] {
            let mut statuses = Vec::new();
            // Near the limit mold fails at random. It runs several times; the pruned link must succeed, or fail in one of the same ways.
            let plain = std::iter::repeat_n(linker.path(), if linker == Linker::Mold { 8 } else { 1 });
            for program in plain.chain([session.path("shims/ld")]) {
                let line = format!("ulimit {limit}; exec {} main.o x.o -e main -o out", program.display());
                let outcome = session.run(&session.job("sh").arg("-c").arg(line).by(linker));
                session.check(!outcome.stderr.contains("panicked"), &outcome.stderr);
                statuses.push(outcome.status);
            }
            let ours = statuses.pop();
            let chance = linker == Linker::Mold && ours == Some(0);
            let is_one = chance || ours.is_some_and(|ours| statuses.contains(&ours));
            session
                .check(is_one, &format!("{} with {limit}: {ours:?} instead of {statuses:?}", linker.name()));
        }
    }
}

#[test]
fn copies_that_outgrow_the_limit_of_files() {
    let mut session = prepare("outgrown");
    let dir = session.dir().to_owned();
    // A section that is in the copy of its object, and which linkers leave out of the output.
    assemble(
        &mut session,
        "big",
        ".section .big,\"e\"\n.zero 400000\n.text\n.type dead_too,@function\ndead_too: ret\n.size dead_too, 1\n",
    );
    for linker in Linker::ALL {
        let line = |limit: &str, program: &std::path::Path| {
            let line = format!("ulimit -f {limit}; exec {} main.o big.o -e main -o out", program.display());
            Job::new(&dir, "sh").arg("-c").arg(line).by(linker)
        };
        let read = || std::fs::read(dir.join("out")).unwrap();
        session.must(&line("200", &linker.path()));
        let plain = read();
        let outcome = session.must(&line("200", &session.path("shims/ld")));
        let says = outcome.stderr.contains("; linking the originals");
        session.check(says, &format!("{}: {}", linker.name(), outcome.stderr));
        session.check(read() == plain, "the output is not that of the originals");
        let outcome = session.must(&line("unlimited", &session.path("shims/ld")));
        session.check_eq(&outcome.stderr, &String::new(), "what a link without the limit says");
    }
}

/// One bit of a section header is wrong, in live and in dead code, in data and in debug information: a link that the linker refuses is
/// refused with us.
#[test]
fn damaged_section_headers() {
    let mut session = Session::new("hostile/headers");
    let dir = session.dir().to_owned();
    session.files(FILES, "damaged_section_headers");
    let gcc = session.job("gcc -O1 -fno-pic -fno-inline -fno-asynchronous-unwind-tables -c a.c");
    session.must(&gcc.clone().words("-ffunction-sections -fdata-sections -o sections.o"));
    session.must(&gcc.words("-g -fno-function-sections -fno-data-sections -o debug.o"));
    session.files(FILES, "damaged_section_headers_2");
    session.cmd("gcc -O1 -fno-pic -ffunction-sections -c group.c");
    session.shims();
    // The offsets in a header of: type, flags, the file offset, size, sh_link, sh_info.
    let bits =
        [(4, 1), (4, 0x16), (9, 8), (24, 1), (24, 8), (25, 1), (32, 8), (40, 1), (40, 8), (44, 1), (44, 8)];
    let linkers = [Linker::Lld, Linker::Bfd, Linker::Gold, Linker::Mold].into_iter().enumerate();
    for (object, (turn, linker)) in ["sections.o", "debug.o", "group.o"]
        .into_iter()
        .flat_map(|object| linkers.clone().map(move |l| (object, l)))
    {
        let good = session.bytes(object);
        let headers = u64::from_le_bytes(good[0x28..0x30].try_into().unwrap()) as usize;
        let count = usize::from(u16::from_le_bytes(good[0x3c..0x3e].try_into().unwrap()));
        let names: Vec<String> = object::Object::sections(&object::File::parse(&*good).unwrap())
            .map(|s| object::ObjectSection::name(&s).unwrap().to_owned())
            .collect();
        let (mut refused, mut differing) = (0, Vec::new());
        let mut damages = Vec::new();
        for (section, (field, bit)) in (1..count).flat_map(|section| bits.map(|bit| (section, bit))) {
            // Dead code is removed with its relocations, damaged or not.
            if !names[section - 1].ends_with(".dead") || ![24, 25].contains(&field) {
                damages.push((headers + 64 * section + field, bit));
            }
        }
        // The size of the entries of a group.
        damages.extend((1..count).filter(|s| names[*s - 1] == ".group").map(|s| (headers + 64 * s + 56, 1)));
        // Emission writes debug sections anew. Their relocations get other types: R_X86_64_64 becomes R_X86_64_PC32, PLT32, TPOFF32.
        for section in (1..count).filter(|s| names[*s - 1].starts_with(".rela.debug")) {
            let start = headers + 64 * section + 24;
            let table = u64::from_le_bytes(good[start..start + 8].try_into().unwrap()) as usize;
            damages.extend([1 ^ 2, 1 ^ 4, 1 ^ 23].map(|bits| (table + 24 + 8, bits)));
        }
        // Two of the four linkers get each damaged object.
        for (at, bit) in damages.into_iter().skip(turn % 2).step_by(2) {
            let mut bytes = good.clone();
            bytes[at] ^= bit;
            session.write("damaged.o", &bytes);
            let run = |session: &mut Session, program| {
                // gold runs on and on with some objects, not every time.
                let job = session.job("timeout -s KILL 20").arg(program).words("damaged.o -o out");
                session.run(&job.by(linker))
            };
            let plain = run(&mut session, linker.path());
            // gold's own failures say nothing about the object. The status of one that was ended is that of the signal.
            let is_ended = linker == Linker::Gold && plain.status == 137;
            if plain.ok() || is_ended || plain.stderr.contains("internal error") {
                continue;
            }
            refused += 1;
            let ours = run(&mut session, dir.join("shims/ld"));
            // A linker that crashes prints addresses; mold's threads print in any order.
            let is_ordered = plain.status == 1 && linker != Linker::Mold;
            if ours.ok() || is_ordered && ours != plain {
                differing.push(format!("byte {at:#x} ^ {bit}: {}{}", plain.stderr, ours.stderr));
            }
        }
        let what = format!("{object}, {}", linker.name());
        session.check(differing.is_empty(), &format!("{what}:\n{}", differing.join("\n")));
        session.check(refused > 4, &format!("{what} refuses {refused} objects"));
    }
}
