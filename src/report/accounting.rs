//! Bytes by category, exactly: the categories of an object add up to its file size plus its zero-initialised memory.
//!
//! Whatever a section can't account for (headers, padding, what a malformed table hides) is `other`, computed as
//! the rest, so that the sum can't be wrong by construction and the difference of two sums is the difference of two files.

use object::LittleEndian;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader};
use serde::Serialize;

const LE: LittleEndian = LittleEndian;

/// Names of the categories, in the order of [`Sizes`].
pub const CATEGORIES: [&str; 10] =
    ["code", "rodata", "data", "bss", "unwind", "relocations", "symbols", "debug", "non-alloc", "other"];
const BSS: usize = 3;
/// How many categories at the beginning are code and data.
const CODE_AND_DATA: usize = 4;
const OTHER: usize = 9;
const ADDRSIG: elf::SectionType = elf::SectionType(0x6fff_4c03);

/// The bytes of each of the [`CATEGORIES`].
pub type Sizes = [u64; 10];

/// Bytes of all loaded modules, as they came and as they were given to the linker.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Totals {
    pub categories: Vec<CategoryTotal>,
    /// The sums of what the program has in memory for itself (`code and data`), and of all else (`bookkeeping`).
    pub groups: Vec<CategoryTotal>,
    pub plain: u64,
    pub pruned: u64,
    /// `plain - pruned`; the sum of the categories' differences.
    pub difference: i64,
}

#[derive(Debug, Clone, Serialize)]
pub struct CategoryTotal {
    pub category: &'static str,
    pub plain: u64,
    pub pruned: u64,
    pub difference: i64,
}

fn difference(plain: u64, pruned: u64) -> i64 {
    (plain as i64).wrapping_sub(pruned as i64)
}

impl Totals {
    /// Join the sizes of modules: each as it came, and as it was given to the linker.
    pub fn new(modules: impl Iterator<Item = (Sizes, Sizes)>) -> Self {
        let (mut plain, mut pruned) = (Sizes::default(), Sizes::default());
        for (before, after) in modules {
            plain.iter_mut().zip(before).for_each(|(sum, n)| *sum = sum.saturating_add(n));
            pruned.iter_mut().zip(after).for_each(|(sum, n)| *sum = sum.saturating_add(n));
        }
        let total = |category, plain, pruned| CategoryTotal {
            category,
            plain,
            pruned,
            difference: difference(plain, pruned),
        };
        let categories = CATEGORIES.iter().zip(plain).zip(pruned);
        let all = |sizes: &[u64]| sizes.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
        let (plain_contents, plain_rest) = plain.split_at(CODE_AND_DATA);
        let (pruned_contents, pruned_rest) = pruned.split_at(CODE_AND_DATA);
        let (all_plain, all_pruned) = (all(&plain), all(&pruned));
        Totals {
            categories: categories
                .map(|((category, plain), pruned)| total(category, plain, pruned))
                .collect(),
            groups: vec![
                total("code and data", all(plain_contents), all(pruned_contents)),
                total("bookkeeping", all(plain_rest), all(pruned_rest)),
            ],
            plain: all_plain,
            pruned: all_pruned,
            difference: difference(all_plain, all_pruned),
        }
    }
}

pub fn sizes(data: &[u8]) -> Sizes {
    let mut sizes = Sizes::default();
    let Ok(header) = elf::FileHeader64::<LittleEndian>::parse(data) else {
        sizes[OTHER] = data.len() as u64;
        return sizes;
    };
    if let Ok(sections) = header.sections(LE, data) {
        for section in sections.iter() {
            let name = sections.section_name(LE, section).unwrap_or(b"");
            if let Some(category) = category(section, name) {
                // What a header says, which need not be so.
                sizes[category] = sizes[category].saturating_add(section.sh_size(LE));
            }
        }
    }
    let named = (0..OTHER).filter(|c| *c != BSS).fold(0, |sum: u64, c| sum.saturating_add(sizes[c]));
    if named > data.len() as u64 {
        // Sections that overlap, or tables that lie: nothing can be said of the parts.
        sizes = Sizes::default();
        sizes[OTHER] = data.len() as u64;
        return sizes;
    }
    sizes[OTHER] = data.len() as u64 - named;
    sizes
}

fn category(section: &elf::SectionHeader64<LittleEndian>, name: &[u8]) -> Option<usize> {
    let flags = section.sh_flags(LE).0;
    let has = |flag: u64| flags & flag != 0;
    let index = match section.sh_type(LE) {
        elf::SHT_NULL => return None,
        elf::SHT_NOBITS => BSS,
        elf::SHT_RELA | elf::SHT_REL => 5,
        elf::SHT_SYMTAB | elf::SHT_STRTAB | elf::SHT_SYMTAB_SHNDX | elf::SHT_GROUP => 6,
        ADDRSIG => 6,
        _ if name == b".eh_frame" || name.starts_with(b".gcc_except_table") => 4,
        _ if !has(elf::SHF_ALLOC.0) && name.starts_with(b".debug") => 7,
        _ if !has(elf::SHF_ALLOC.0) => 8,
        _ if has(elf::SHF_EXECINSTR.0) => 0,
        _ if has(elf::SHF_WRITE.0) => 2,
        _ => 1,
    };
    Some(index)
}
