//! Made-up relocatable objects, as compilers write them for `-ffunction-sections`: each function in a section of its own with its unwind entry, a share
//! of them inline functions that several objects have (COMDAT groups).
//!
//! Names are as long as mangled ones of C++. The same numbers give the same bytes. Left out: data, debug information.

use crate::soak::rng::Rng;

/// Functions that one object defines for itself.
pub(super) const FUNCTIONS: usize = 300;
/// Inline functions besides, each of which so many objects have.
pub(super) const INLINE: usize = 33;
const COPIES: usize = 8;
/// How many calls each function makes.
pub(super) const CALLS: usize = 6;
/// Functions of other objects that an object calls.
const OUTSIDE: usize = 60;

const CALL: [u8; 5] = [0xe8, 0, 0, 0, 0];
const FDE: usize = 24;
const CIE: [u8; 24] =
    [20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0, 0];

struct WrittenSection {
    name: Vec<u8>,
    ty: u32,
    flags: u64,
    data: Vec<u8>,
    link: u32,
    info: u32,
    align: u64,
    entry: u64,
}

/// The numbers of the symbols of an object.
struct Symbols {
    table: Vec<u8>,
    names: Vec<u8>,
    count: u32,
}

impl Symbols {
    fn add(&mut self, name: &str, info: u8, section: u16, size: u64) -> u32 {
        let at = self.names.len() as u32;
        self.names.extend(name.bytes().chain([0]));
        self.table.extend(at.to_le_bytes());
        self.table.extend([info, 0]);
        self.table.extend(section.to_le_bytes());
        self.table.extend(0u64.to_le_bytes());
        self.table.extend(size.to_le_bytes());
        self.count += 1;
        self.count - 1
    }
}

fn name(object: usize, function: usize) -> String {
    format!("_ZN5scale9namespace{object}E8function{function}EPKNS_4TypeE")
}

fn inline_name(number: usize) -> String {
    format!("_ZN5scale6inline6Vector{number}E9push_backEOS1_")
}

fn rela(out: &mut Vec<u8>, offset: u64, ty: u32, symbol: u32, addend: i64) {
    out.extend(offset.to_le_bytes());
    out.extend((u64::from(symbol) << 32 | u64::from(ty)).to_le_bytes());
    out.extend(addend.to_le_bytes());
}

const PC32: u32 = 2;
const PLT32: u32 = 4;
const GLOBAL_FUNCTION: u8 = 0x12;
const WEAK_FUNCTION: u8 = 0x22;
const ALLOC_EXEC: u64 = 6;
const IN_GROUP: u64 = 0x200;

/// Whether a function is only called by others of its kind, of which none is called from elsewhere.
fn is_dead(function: usize) -> bool {
    function % 3 == 2
}

/// The object of this number, of so many. Its first function calls the next object's; the first object has the entry.
pub(super) fn object(number: usize, objects: usize) -> Vec<u8> {
    let mut rng = Rng::new(1, number as u64);
    let mut symbols = Symbols { table: vec![0; 24], names: vec![0], count: 1 };
    let defined = FUNCTIONS + INLINE;
    // Section 1 is the symbol table, 2 its names, 3 the unwind entries with their relocations in 4; then two for each function, and a
    // group before each inline one.
    let code = |function: usize| 5 + 2 * function + function.saturating_sub(FUNCTIONS - 1);
    for function in 0..defined {
        symbols.add("", 3, code(function) as u16, 0);
    }
    let locals = symbols.count;
    let size = (CALLS * CALL.len() + 1) as u64;
    let first_inline = number / COPIES * INLINE;
    let mut functions = Vec::with_capacity(defined);
    for function in 0..FUNCTIONS {
        functions.push(symbols.add(&name(number, function), GLOBAL_FUNCTION, code(function) as u16, size));
    }
    for inline in 0..INLINE {
        let section = code(FUNCTIONS + inline) as u16;
        functions.push(symbols.add(&inline_name(first_inline + inline), WEAK_FUNCTION, section, size));
    }
    if number == 0 {
        symbols.add("_start", GLOBAL_FUNCTION, code(0) as u16, size);
    }
    let next = (number + 1 < objects).then(|| symbols.add(&name(number + 1, 0), 0x10, 0, 0));
    // Pairs of live ones and dead ones.
    let mut outside = Vec::with_capacity(OUTSIDE);
    for call in 0..OUTSIDE {
        let function = rng.below(FUNCTIONS / 3) * 3 + if call % 3 == 2 { 2 } else { call % 3 };
        let of = rng.below(objects);
        if outside.iter().all(|(_, known)| *known != (of, function)) && of != number {
            outside.push((symbols.add(&name(of, function), 0x10, 0, 0), (of, function)));
        }
    }
    let outside =
        |dead: bool| -> Vec<u32> { outside.iter().filter(|o| is_dead(o.1.1) == dead).map(|o| o.0).collect() };
    let outside = [false, true].map(outside);
    let callees = |dead: bool| {
        let own = (0..FUNCTIONS).zip(&functions).filter(|(function, _)| is_dead(*function) == dead);
        own.map(|(_, symbol)| *symbol).chain(outside[usize::from(dead)].iter().copied()).collect::<Vec<u32>>()
    };
    let (live, dead) = (callees(false), callees(true));
    // Each function of other objects is called: symbols that nothing refers to are roots.
    let mut uncalled = outside.each_ref().map(|symbols| symbols.iter());
    let inline = functions.get(FUNCTIONS..).unwrap_or(&[]);
    let section = |name: Vec<u8>, ty: u32, flags: u64, data: Vec<u8>| WrittenSection {
        name,
        ty,
        flags,
        data,
        link: 0,
        info: 0,
        align: 16,
        entry: 0,
    };
    let mut sections: Vec<WrittenSection> = Vec::with_capacity(2 * defined + INLINE + 8);
    let (mut frames, mut frame_relas) = (CIE.to_vec(), Vec::new());
    for function in 0..defined {
        let group = if function < FUNCTIONS { 0 } else { IN_GROUP };
        if group != 0 {
            let members = [1, code(function) as u32, code(function) as u32 + 1];
            let data = members.iter().flat_map(|word| word.to_le_bytes()).collect();
            let signature = functions.get(function).copied().unwrap_or(0);
            sections.push(WrittenSection {
                link: 1,
                info: signature,
                align: 4,
                entry: 4,
                ..section(b".group".to_vec(), 17, 0, data)
            });
        }
        let mut bytes: Vec<u8> = CALL.repeat(CALLS);
        bytes.push(0xc3);
        let mut relas = Vec::with_capacity(24 * CALLS);
        let is_dead = function < FUNCTIONS && is_dead(function);
        let all = if is_dead { &dead } else { &live };
        for call in 0..CALLS {
            let callee = match (function, call) {
                (0, 0) => next.unwrap_or(0),
                (_, 1) if function < FUNCTIONS => inline.get(rng.below(INLINE)).copied().unwrap_or(0),
                (_, 2) if let Some(symbol) = uncalled[usize::from(is_dead)].next() => *symbol,
                _ => all.get(rng.below(all.len())).copied().unwrap_or(0),
            };
            let callee = if callee == 0 { functions.first().copied().unwrap_or(0) } else { callee };
            rela(&mut relas, (call * CALL.len() + 1) as u64, PLT32, callee, -4);
        }
        let text = format!(
            ".text.{}",
            if function < FUNCTIONS {
                name(number, function)
            } else {
                inline_name(first_inline + function - FUNCTIONS)
            }
        );
        sections.push(section(text.clone().into_bytes(), 1, ALLOC_EXEC | group, bytes));
        let table = section(format!(".rela{text}").into_bytes(), 4, 0x40 | group, relas);
        sections.push(WrittenSection { link: 1, info: code(function) as u32, align: 8, entry: 24, ..table });
        let at = frames.len() as u64;
        frames.extend((FDE as u32 - 4).to_le_bytes());
        frames.extend((at as u32 + 4).to_le_bytes());
        rela(&mut frame_relas, at + 8, PC32, 1 + function as u32, 0);
        frames.extend([0; 4]);
        frames.extend((size as u32).to_le_bytes());
        frames.extend([0; FDE - 16]);
    }
    let mut all = vec![
        section(Vec::new(), 0, 0, Vec::new()),
        WrittenSection {
            link: 2,
            info: locals,
            align: 8,
            entry: 24,
            ..section(b".symtab".to_vec(), 2, 0, symbols.table)
        },
        WrittenSection { align: 1, ..section(b".strtab".to_vec(), 3, 0, symbols.names) },
        WrittenSection { align: 8, ..section(b".eh_frame".to_vec(), 1, 2, frames) },
        WrittenSection {
            link: 1,
            info: 3,
            align: 8,
            entry: 24,
            ..section(b".rela.eh_frame".to_vec(), 4, 0x40, frame_relas)
        },
    ];
    all.extend(sections);
    all.push(WrittenSection { align: 1, ..section(b".shstrtab".to_vec(), 3, 0, Vec::new()) });
    file(all)
}

/// The file of these sections, the last of which takes their names.
fn file(mut sections: Vec<WrittenSection>) -> Vec<u8> {
    let (mut names, mut at_names) = (vec![0], Vec::with_capacity(sections.len()));
    for section in &sections {
        at_names.push(names.len() as u32);
        names.extend(section.name.iter().copied().chain([0]));
    }
    let count = sections.len() as u16;
    if let Some(last) = sections.last_mut() {
        last.data = names;
    }
    let mut out = b"\x7fELF\x02\x01\x01".to_vec();
    out.resize(64, 0);
    // That of section 0 says nothing.
    let mut headers = vec![0; 64];
    for (section, name) in sections.iter().zip(at_names).skip(1) {
        while !out.len().is_multiple_of(section.align.max(1) as usize) {
            out.push(0);
        }
        headers.extend(name.to_le_bytes());
        headers.extend(section.ty.to_le_bytes());
        for word in [section.flags, 0, out.len() as u64, section.data.len() as u64] {
            headers.extend(word.to_le_bytes());
        }
        headers.extend(section.link.to_le_bytes());
        headers.extend(section.info.to_le_bytes());
        headers.extend(section.align.to_le_bytes());
        headers.extend(section.entry.to_le_bytes());
        out.extend(&section.data);
    }
    while !out.len().is_multiple_of(8) {
        out.push(0);
    }
    let at = out.len() as u64;
    out.extend(headers);
    let mut set = |at: usize, bytes: &[u8]| {
        if let Some(slot) = out.get_mut(at..at + bytes.len()) {
            slot.copy_from_slice(bytes);
        }
    };
    set(16, &1u16.to_le_bytes());
    set(18, &62u16.to_le_bytes());
    set(20, &1u32.to_le_bytes());
    set(40, &at.to_le_bytes());
    set(52, &64u16.to_le_bytes());
    set(58, &64u16.to_le_bytes());
    set(60, &count.to_le_bytes());
    set(62, &(count - 1).to_le_bytes());
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use object::{Object, ObjectComdat, ObjectSection, ObjectSymbol};

    use super::*;

    #[test]
    fn objects_are_well_formed() {
        let bytes = object(1, 20);
        assert_eq!(bytes, super::object(1, 20));
        let file = object::File::parse(&*bytes).unwrap();
        let functions = file.symbols().filter(|s| s.kind() == object::SymbolKind::Text && s.is_definition());
        assert_eq!(functions.count(), FUNCTIONS + INLINE);
        assert_eq!(file.comdats().count(), INLINE);
        assert!(file.comdats().all(|group| group.sections().count() == 2));
        let code: Vec<_> = file.sections().filter(|s| s.kind() == object::SectionKind::Text).collect();
        assert!(code.iter().all(|s| s.relocations().count() == CALLS && s.size() == (5 * CALLS + 1) as u64));
        assert_eq!(code.len(), FUNCTIONS + INLINE);
        let frames = file.section_by_name(".eh_frame").unwrap();
        assert_eq!(frames.relocations().count(), FUNCTIONS + INLINE);
        // The next object is called, dead functions by dead ones alone.
        let names = |dead: bool| {
            let sections = file.sections().filter(move |s| s.name().unwrap().starts_with(".text._ZN5scale9"));
            let own = sections.enumerate().filter(move |(number, _)| is_dead(*number) == dead);
            own.flat_map(|(_, s)| s.relocations().collect::<Vec<_>>()).filter_map(|(_, r)| match r.target() {
                object::RelocationTarget::Symbol(symbol) => file.symbol_by_index(symbol).ok()?.name().ok(),
                _ => None,
            })
        };
        assert!(names(false).any(|callee| callee == name(2, 0)));
        let number = |name: &str| name.split_once("E8function")?.1.strip_suffix("EPKNS_4TypeE")?.parse().ok();
        assert!(names(false).filter_map(number).all(|function| !is_dead(function)));
        // Section 0 says nothing: some linkers refuse one that does.
        let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
        assert!(bytes[table..table + 56].iter().all(|byte| *byte == 0));
    }
}
