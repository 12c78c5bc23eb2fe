//! Random numbers that are the same on every machine and for ever: a seed names a program.
//!
//! xorshift64* (Vigna), seeded through splitmix64 so that neighbouring seeds share nothing. A crate of random
//! numbers may change its streams between versions, and with them what a recorded seed means.

#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream number `stream` of `seed`; streams of one seed are independent.
    pub(crate) fn new(seed: u64, stream: u64) -> Rng {
        let mut z =
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // Zero is the one state that xorshift never leaves.
        Rng(if z == 0 { 0x9e37_79b9_7f4a_7c15 } else { z })
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`, which must not be 0. The bias is far below what matters here.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) % n as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of `items`, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A constant as a C literal: often small, sometimes wide.
    pub(crate) fn literal(&mut self) -> String {
        match self.below(3) {
            0 => format!("{}u", self.below(16)),
            1 => format!("{}u", self.below(1000)),
            _ => format!("{:#x}u", self.next() as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_for_ever() {
        let mut rng = Rng::new(1, 0);
        let first: Vec<usize> = (0..8).map(|_| rng.below(100)).collect();
        let mut again = Rng::new(1, 0);
        assert!(first.iter().all(|n| again.below(100) == *n));
        assert_ne!(Rng::new(1, 0).next(), Rng::new(1, 1).next());
        assert_ne!(Rng::new(1, 0).next(), Rng::new(2, 0).next());
    }
}
