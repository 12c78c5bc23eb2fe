//! What programs of called values are held to without compiling them.

use super::*;

#[test]
fn a_seed_is_one_program() {
    for seed in 0..20 {
        let (a, b) = (generate(seed), generate(seed));
        assert_eq!(a.units.len(), b.units.len());
        assert!(a.units.iter().zip(&b.units).all(|(x, y)| x.text == y.text && x.flags == y.flags));
    }
}

#[test]
fn every_mark_is_filled_in() {
    for seed in 0..60 {
        for unit in generate(seed).units {
            assert!(!unit.text.contains('@'), "seed {seed}: {}", unit.name);
        }
    }
}

#[test]
fn decoys_are_only_mentioned() {
    let mut decoys = 0;
    for seed in 0..40 {
        let program = generate(seed);
        for unit in &program.units {
            for (at, _) in unit.text.match_indices("decoy") {
                let name =
                    unit.text[at..].trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
                let defined = name.starts_with("(unsigned") || name.starts_with("(void)");
                assert!(defined || !name.starts_with('('), "seed {seed}: a decoy is called");
                decoys += usize::from(defined);
            }
        }
    }
    assert!(decoys > 200, "{decoys}");
}
