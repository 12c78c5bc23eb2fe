//! Any bytes: no panic, bounded time, and a summary that keeps its invariants.

use std::time::{Duration, Instant};

use crate::compilers::{assembled, object};
use summaries::format;
use summaries::relation::FunctionSummary;
use summaries::{AtomIdx, Limit, ModuleSummary, Target, ValueIdx};

const CPP: &str = "#include <string>\nextern void g(std::string); template <class T> void f(T x) { try { g(x); } catch (int) {} }\n\
                   thread_local int t; int common_like; void h() { t++; f(std::string(\"x\")); }";

fn cplusplus() -> Vec<u8> {
    object(&["g++", "-c", "-O1", "-ffunction-sections"], "cpp", CPP)
}

fn check(bytes: &[u8]) -> ModuleSummary {
    let summary = summaries::extract::extract(bytes, summaries::Granularity::Sections);
    assert_eq!(summary.check(), Ok(()));
    // Damage may bring a limit or take one away, and must not break an invariant.
    let divided = summaries::extract::extract(bytes, summaries::Granularity::Functions);
    assert_eq!(divided.check(), Ok(()));
    for of_object in [&summary, &divided] {
        assert!(summaries::extract::agrees(bytes, of_object));
    }
    summary
}

#[test]
fn cut_off_at_every_byte() {
    let bytes = cplusplus();
    let start = Instant::now();
    for end in 0..bytes.len() {
        let summary = check(&bytes[..end]);
        assert!(!summary.limits.is_empty(), "cut at {end}");
    }
    assert!(start.elapsed() < Duration::from_secs(60));
    assert!(check(&bytes).limits.is_empty());
}

/// A generator of our own, so that a failure can be repeated.
struct Lcg(u64);

impl Lcg {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

#[test]
fn damaged_bytes() {
    damage(&cplusplus());
    // One section of several functions, with a jump table.
    let source = "extern int g(int); static int f(int x) { return g(x); } int h(int x) { switch (x) { case 0: return f(1); \
                  case 1: return g(2); case 2: return f(3) + 1; case 3: return g(0) * x; case 4: return f(9); case 5: return 7; } return 0; }";
    damage(&object(&["gcc", "-c", "-O1", "-fpic"], "c", source));
}

fn damage(bytes: &[u8]) {
    let mut random = Lcg(7);
    // Most damage is in the tables: the file header, and the section headers at the end.
    let headers = bytes.len() - 64 * 20;
    for round in 0..6_000 {
        let mut damaged = bytes.to_vec();
        for _ in 0..=random.next(4) {
            let at = match round % 4 {
                0 => random.next(64),
                1 | 2 => headers + random.next(bytes.len() - headers),
                _ => random.next(bytes.len()),
            };
            damaged[at] = match random.next(3) {
                0 => 0xff,
                1 => damaged[at] ^ (1 << random.next(8)),
                _ => random.next(256) as u8,
            };
        }
        check(&damaged);
    }
}

/// Section headers that linkers refuse: relocations for a table, for no section, or twice for one section, and invalid compressed sections.
#[test]
fn headers_that_linkers_refuse() {
    let bytes = cplusplus();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes(bytes[0x3c..0x3e].try_into().unwrap()));
    let header = |i: usize| headers + 64 * i;
    let (of_type, flags, info) = (|i| word(header(i) + 4), 8, 44);
    let is_stopped = |at: usize, value: u32| {
        let mut damaged = bytes.clone();
        damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
        check(&damaged).limits.iter().any(|record| record.limit == Limit::MalformedObject)
    };
    let relocations: Vec<usize> = (0..count).filter(|i| of_type(*i) == 4).collect();
    assert!(relocations.len() > 2);
    for i in &relocations {
        for table in (0..count).filter(|table| [0, 2, 3, 4, 17].contains(&of_type(*table))) {
            assert!(is_stopped(header(*i) + info, table as u32), "relocations {i} of {table}");
        }
        let other = relocations.iter().find(|other| other != &i).unwrap();
        assert!(is_stopped(header(*i) + info, word(header(*other) + info)), "{i} and {other} of one section");
    }
    for i in (1..count).filter(|i| of_type(*i) == 1) {
        let at = header(i) + flags;
        assert!(is_stopped(at, word(at) | 1 << 11), "section {i} is compressed");
    }
}

/// Many headers that claim the same bytes, and many names in one endless string.
#[test]
fn tables_that_overlap_take_no_quadratic_time() {
    let mut source = String::from(".section .strings,\"a\"\n");
    for i in 0..3000 {
        source += &format!(".section .a{i},\"a\"\n.quad x\n");
    }
    let mut bytes = assembled(&source);
    let shoff = u64::from_le_bytes(*bytes[40..].first_chunk().unwrap()) as usize;
    let file_size = bytes.len() as u64 / 24 * 24;
    for header in (shoff..bytes.len() - 63).step_by(64) {
        if bytes[header + 4] == 4 {
            bytes[header + 24..header + 32].copy_from_slice(&0u64.to_le_bytes());
            bytes[header + 32..header + 40].copy_from_slice(&file_size.to_le_bytes());
        }
    }
    let start = Instant::now();
    let summary = check(&bytes);
    assert_eq!(summary.limits[0].limit, Limit::MalformedObject);
    assert!(start.elapsed() < Duration::from_secs(5));

    let name = "n".repeat(5_000_000);
    let mut bytes = assembled(&format!(
        ".globl {name}\n{}",
        (0..50_000).map(|i| format!(".globl s{i}\n")).collect::<String>()
    ));
    let range = summaries::native::find_section(&bytes, b".symtab").unwrap();
    let strtab = summaries::native::find_section(&bytes, b".strtab").unwrap();
    let long = bytes[strtab].windows(9).position(|w| w == b"nnnnnnnnn").unwrap() as u32;
    for symbol in bytes[range].chunks_exact_mut(24).skip(1) {
        symbol[..4].copy_from_slice(&long.to_le_bytes());
    }
    let start = Instant::now();
    let summary = check(&bytes);
    assert_eq!(summary.symbols.last().unwrap().name.len, 5_000_000);
    assert!(start.elapsed() < Duration::from_secs(10));
}

/// Damage that only one linker refuses, and only if it reads the section or the relocation: a dropped section would hide the error.
#[test]
fn damage_that_a_linker_sees_only_in_what_stays() {
    let source = ".section .text.f,\"ax\"\nf: .cfi_startproc\nret\n.cfi_endproc\n.section .text.g,\"ax\"\ng: .byte 1,2,3,4,5,6,7,8\n";
    let bytes = assembled(source);
    assert!(check(&bytes).limits.is_empty());
    let headers = u64::from_le_bytes(*bytes[40..].first_chunk().unwrap()) as usize;
    let header_of = |name: &[u8]| {
        let start = summaries::native::find_section(&bytes, name).unwrap().start as u64;
        let is_named =
            |h: &usize| bytes[*h + 24..*h + 32] == start.to_le_bytes() && bytes[*h + 32..*h + 40] != [0; 8];
        (headers..bytes.len()).step_by(64).find(is_named).unwrap()
    };
    let damaged = |at: usize, value: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        check(&bytes).limits.iter().map(|l| l.limit).collect::<Vec<_>>()
    };
    // The first entry of the section headers is zero: its alignment.
    assert_eq!(damaged(headers + 48, &[7]), [Limit::MalformedObject]);
    // Of another section's bytes, of the file's header.
    assert_eq!(damaged(header_of(b".text.f") + 32, &[9]), [Limit::MalformedObject]);
    assert_eq!(damaged(header_of(b".text.g") + 24, &[0]), [Limit::MalformedObject]);
    let symbols = summaries::native::find_section(&bytes, b".symtab").unwrap().start;
    assert_eq!(damaged(symbols + 4, &[10]), [Limit::MalformedObject]);
    // A thread-local variable in code.
    assert_eq!(damaged(symbols + 24 + 4, &[6]), [Limit::MalformedObject]);
    let unwind = summaries::native::find_section(&bytes, b".rela.eh_frame").unwrap().start;
    assert_eq!(damaged(unwind + 8, &[7]), [Limit::MalformedUnwind]);
    for ty in ["JUMP_SLOT", "TPOFF64", "TLSDESC", "RELATIVE"] {
        let bytes = assembled(&format!(".section .text.f,\"ax\"\n.quad 0\n.reloc 0, R_X86_64_{ty}, x\n"));
        let atoms = check(&bytes).atoms;
        assert!(atoms.iter().any(|a| a.has(summaries::atom_flags::RARE_RELOCATION)), "{ty}");
    }
}

#[test]
fn damaged_summaries() {
    let summary = summaries::extract::extract(&cplusplus(), summaries::Granularity::Sections);
    let encoded = format::encode(&summary, [1; 32]);
    assert_eq!(format::decode(&encoded).unwrap(), (summary, [1; 32]));
    for end in (0..encoded.len()).step_by(7) {
        assert!(format::decode(&encoded[..end]).is_err());
    }
    let mut random = Lcg(11);
    for _ in 0..6_000 {
        let mut damaged = encoded.clone();
        let at = random.next(damaged.len());
        damaged[at] = random.next(256) as u8;
        if let Ok((read, _)) = format::decode(&damaged) {
            assert_eq!(read.check(), Ok(()));
        }
    }
}

/// A summary of a function with inconsistent parts is not used.
#[test]
fn functions_that_do_not_fit() {
    let text = include_str!("programs/hostile_functions_that_do_not_fit.txt");
    let good = summaries::text::parse(text).unwrap();
    assert_eq!(good.check(), Ok(()));
    type Damage = fn(&mut FunctionSummary);
    let damages: [(&str, Damage); 16] = [
        ("is data", |f| f.atom = AtomIdx(1)),
        ("has data", |f| f.parts = vec![AtomIdx(1)]),
        ("is entered elsewhere", |f| f.entries = vec![(AtomIdx(1), 0)]),
        ("is entered in no order", |f| f.entries = vec![(AtomIdx(0), 8), (AtomIdx(0), 0)]),
        ("has parameters in no order", |f| f.parameters.reverse()),
        ("returns a value that is none", |f| f.results[0].1 = ValueIdx(4)),
        ("returns in no register", |f| f.results[0].0 = 64),
        ("is passed its own frame", |f| f.stack_parameters[0].0 = 0),
        ("has its parameters in a frame", |f| f.frame = true),
        ("has labels without a value", |f| f.indirect_entry_values[0] = ValueIdx(4)),
        ("preserves what is not preserved", |f| f.preserved = !0),
        ("has the address of nothing", |f| f.address_taken_only = vec![Target::Atom(AtomIdx(2))]),
        ("passes a value that is none", |f| f.call_sites[0].actuals[0].1 = ValueIdx(4)),
        ("passes the return address", |f| f.call_sites[0].stack[0].0 = 0),
        ("passes cells in no order", |f| f.call_sites[0].stack.reverse()),
        ("passes a frame that it has not", |f| f.call_sites[0].stack_in_frame = Some(Some(0))),
    ];
    for (what, damage) in damages {
        let mut damaged = good.clone();
        damage(&mut damaged.functions[0]);
        assert!(damaged.check().is_err(), "a function that {what}");
    }
}
