//! Random numbers that are the same on every machine: a seed is a test case.
//!
//! xorshift64* (Vigna), seeded through splitmix64. A crate may change its streams between versions, and with them the meaning of a seed.

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
        // xorshift never leaves the state zero.
        Rng(if z == 0 { 0x9e37_79b9_7f4a_7c15 } else { z })
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`; 0 for 0. Its bias is negligible here.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) % (n as u64).max(1)) as usize
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// True in `percent` of 100 draws.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, which must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// One of the words of a text.
    pub(crate) fn word<'t>(&mut self, words: &'t str) -> &'t str {
        let words: Vec<&'t str> = words.split(' ').collect();
        words[self.below(words.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
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
