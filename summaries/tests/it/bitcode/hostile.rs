//! Any bytes: no panic, bounded time and memory, and a summary that keeps its invariants.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use summaries::bitcode::error::BitcodeErrorKind;
use summaries::bitcode::ir::TypeId;
use summaries::bitcode::ir::instruction::InstructionKind;
use summaries::bitcode::ir::mentions::MentionSearch;
use summaries::bitcode::stream::walk;
use summaries::{Granularity, Limit, ModuleKind};

use super::corpus::{sample, samples};

/// Read bytes in every way that there is.
fn check(bytes: &[u8]) {
    let summary = summaries::bitcode::extract_at(bytes, Granularity::Sections);
    assert_eq!(summary.kind, ModuleKind::Bitcode);
    assert_eq!(summary.check(), Ok(()));
    assert!(!summary.limits.is_empty());
    let followed = summaries::bitcode::extract_at(bytes, Granularity::Pointers);
    assert_eq!(followed.check(), Ok(()));
    assert!([&summary, &followed].iter().all(|of_module| summaries::extract::agrees(bytes, of_module)));
    let _ = walk(bytes, |_| {});
    let _ = summaries::bitcode::hidden::words(bytes);
    check_ir(bytes);
}

/// Reads every body, and makes every query of the module.
fn check_ir(bytes: &[u8]) {
    let Ok(ir) = summaries::bitcode::ir::read(bytes) else { return };
    for (index, module) in ir.modules.iter().enumerate() {
        let sizes = module.layout.sizes(&module.types);
        let _ = (0..module.types.all.len()).filter_map(|i| sizes.of(TypeId(i as u32))).count();
        let Ok(Some(reader)) = ir.reader(index) else { continue };
        let mut mentions = MentionSearch::new(module);
        for at in 0..module.bodies.len() {
            let Ok(Some(body)) = reader.body(at) else { continue };
            assert!(mentions.of_body(&body).iter().all(|id| module.global(*id).is_some()));
            for instruction in &body.instructions {
                instruction.kind.each_operand(|id| {
                    // A body with an invalid operand is not analysed.
                    assert!(body.definition(id).is_some() || !body.is_understood());
                    let _ = body.type_of(module, id);
                });
                if let InstructionKind::Call(call) = &instruction.kind {
                    let _ = module.attributes.passing(call.attributes);
                }
            }
        }
    }
}

#[test]
fn cut_short_everywhere() {
    for name in ["c-thin", "asm-thin", "14-thin", "c-wrapped"] {
        let bytes = &sample(name).bytes;
        for end in (0..bytes.len()).step_by(if name == "c-thin" { 1 } else { 3 }) {
            check(&bytes[..end]);
        }
    }
    let cut = &sample("cxx-vtables").bytes[..2000];
    let summary = summaries::bitcode::extract_at(cut, Granularity::Sections);
    assert_eq!(summary.limits[0].limit, Limit::MalformedObject);
}

#[test]
fn every_byte_changed() {
    // A multiplicative generator, so that a failure comes again.
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = move |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % n.max(1)
    };
    for name in ["c-thin", "cxx-vtables", "cxx-split", "rust-plugin", "14-thin"] {
        let original = &sample(name).bytes;
        for round in 0..1000 {
            let mut bytes = original.clone();
            for _ in 0..=round % 4 {
                let at = next(bytes.len());
                bytes[at] = next(256) as u8;
            }
            check(&bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mutations(
        which in 0usize..8,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let mut bytes = samples()[which].bytes.clone();
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        check(&bytes);
    }

    #[test]
    fn noise(tail in prop::collection::vec(any::<u8>(), 0..600)) {
        check(&[b"BC\xc0\xde", &tail[..]].concat());
    }
}

#[derive(Default)]
struct Bits {
    bits: Vec<bool>,
}

impl Bits {
    fn put(&mut self, value: u64, width: u32) -> &mut Self {
        self.bits.extend((0..width).map(|i| value.checked_shr(i).unwrap_or(0) & 1 != 0));
        self
    }

    fn vbr(&mut self, mut value: u64, width: u32) -> &mut Self {
        let more = 1u64 << (width - 1);
        while value >= more {
            self.put(value & (more - 1) | more, width);
            value >>= width - 1;
        }
        self.put(value, width)
    }

    fn align(&mut self) -> &mut Self {
        self.bits.resize(self.bits.len().next_multiple_of(32), false);
        self
    }

    /// A block's header, with everything up to the end of the stream inside.
    fn enter(&mut self, block: u64, width: u64, words: u64) -> &mut Self {
        self.put(1, 2).vbr(block, 8).vbr(width, 4).align().put(words, 32)
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |c: &[bool]| c.iter().rev().fold(0u8, |v, b| v << 1 | u8::from(*b));
        [b"BC\xc0\xde", &self.bits.chunks(8).map(byte).collect::<Vec<u8>>()[..]].concat()
    }
}

fn kind_of(bytes: &[u8]) -> BitcodeErrorKind {
    let start = Instant::now();
    let kind = walk(bytes, |_| {}).unwrap_err().kind;
    assert!(start.elapsed() < Duration::from_secs(5), "{kind}");
    kind
}

#[test]
fn records_larger_than_the_file() {
    // A record of 2^40 operands: memory is not reserved for operands that the file lacks.
    let mut bits = Bits::default();
    bits.enter(99, 3, 4).put(3, 3).vbr(1, 6).vbr(1 << 40, 6).align().put(0, 64);
    assert_eq!(kind_of(&bits.bytes()), BitcodeErrorKind::Truncated);
    // A block that is longer than the file.
    let mut bits = Bits::default();
    bits.enter(99, 3, 1 << 30).put(0, 64);
    assert_eq!(kind_of(&bits.bytes()), BitcodeErrorKind::BlockTooLong);
    // Abbreviation ids without bits.
    let mut bits = Bits::default();
    bits.enter(99, 0, 1).put(0, 64);
    assert_eq!(kind_of(&bits.bytes()), BitcodeErrorKind::AbbreviationWidth(0));
}

#[test]
fn literals_are_no_amplifier() {
    // An abbreviation of 20,000 literals, and records of it that take three bits each.
    let literals = 20_000;
    let mut bits = Bits::default();
    let words = 200_000;
    bits.enter(99, 3, words).put(2, 3).vbr(literals, 5);
    for _ in 0..literals {
        bits.put(1, 1).vbr(7, 8);
    }
    let end = 32 * (words as usize + 2);
    while bits.bits.len() < end {
        bits.put(4, 3);
    }
    assert_eq!(kind_of(&bits.bytes()), BitcodeErrorKind::TooMuchWork);
}

#[test]
fn elements_without_bits() {
    // An array of elements of width 0 could be as long as it says.
    let mut bits = Bits::default();
    bits.enter(99, 3, 8).put(2, 3).vbr(3, 5);
    bits.put(1, 1).vbr(7, 8).put(0, 1).put(3, 3).put(0, 1).put(1, 3).vbr(0, 5);
    bits.put(4, 3).vbr(1 << 50, 6).align().put(0, 256);
    assert_eq!(kind_of(&bits.bytes()), BitcodeErrorKind::BadAbbreviation);
}

#[test]
fn deep_nesting_is_bounded_by_its_size() {
    let depth = 50_000u64;
    let mut bits = Bits::default();
    for i in 0..depth {
        let left = (depth - i - 1) * 2;
        bits.put(1, 2).vbr(30, 8).vbr(2, 4).align().put(left, 32);
    }
    bits.put(0, 64);
    check(&bits.bytes());
}

#[test]
fn a_newer_summary_keeps_the_module() {
    // The version's operand is the first record of the summary block: 10 in six bits becomes 15.
    let original = &sample("c-thin").bytes;
    let mut found = 0;
    for bit in 0..original.len() * 8 - 40 {
        // Low bits first.
        let has_bit = |at: usize| original[at / 8] >> (at % 8) & 1 == 1;
        if (0..6).any(|i| has_bit(bit + i) != [false, true, false, true, false, false][i]) {
            continue;
        }
        let mut bytes = original.clone();
        for (i, value) in [1, 0, 1, 0].iter().enumerate() {
            // 10 is 0b1010; 15 sets bits 0 and 2.
            let at = bit + i;
            bytes[at / 8] |= value << (at % 8);
        }
        let Ok(file) = summaries::bitcode::read(&bytes) else { continue };
        let Some(index) = &file.modules[0].summary else { continue };
        if index.version == 15 {
            found += 1;
            assert!(index.entries.is_empty() && !index.is_read());
            let summary = summaries::bitcode::extract_at(&bytes, Granularity::Sections);
            let limits: Vec<Limit> = summary.limits.iter().map(|l| l.limit).collect();
            assert!(limits.contains(&Limit::BitcodeSummaryVersion), "{limits:?}");
            // The first atom refers to all that a linker sees.
            let globals = summaries::bitcode::symbols::of_file(&file).symbols.len();
            assert_eq!(summary.references_of(summaries::AtomIdx(0)).len(), globals);
            assert_eq!(summary.references.len(), globals);
        }
    }
    assert!(found > 0, "the version was never changed");
}
