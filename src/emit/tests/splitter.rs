//! A front end for tests: splits the executable sections of small objects that compilers made, by the listing of
//! `objdump` and without proof.
//!
//! It takes for granted what the real one proves: that all code is compiled code, that function symbols bound it, and that
//! a relocation `R_X86_64_PC32` in data is an entry of the jump table whose start code refers to last before it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use goblin::elf::Elf;
use summaries::{
    AtomIdx, Definition, ModuleSummary, OwnedRange, Reference, ReferenceKind, ResolvedReference, Retarget,
    SymbolKind, Target, native,
};

use super::tools::{Workshop, run};

const R_64: u32 = 1;
const R_PC32: u32 = 2;
const R_32: u32 = 10;
const R_32S: u32 = 11;

/// An instruction as `objdump` lists it.
struct Instruction {
    start: u64,
    bytes: Vec<u8>,
    text: String,
}

impl Instruction {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn is_branch(&self) -> bool {
        let word = self.text.trim_start_matches("bnd ").split_whitespace().next().unwrap_or("");
        word.starts_with('j') || word.starts_with("call") || word.starts_with("loop")
    }

    /// Where a near branch or a RIP-relative operand goes, and where the field is that says so.
    fn place(&self) -> Option<(u64, u64, u64)> {
        let hex = |s: &str| u64::from_str_radix(s.trim_start_matches("0x"), 16).ok();
        let target = if self.is_branch() && !self.text.contains('*') {
            self.text.split_whitespace().find_map(|w| if w.starts_with('<') { None } else { hex(w) })?
        } else {
            hex(self.text.split('#').nth(1)?.split_whitespace().next()?)?
        };
        let distance = target.wrapping_sub(self.end()) as i64;
        let wide = (distance as i32).to_le_bytes();
        let at = (0..self.bytes.len().saturating_sub(3)).rev().find(|i| self.bytes[*i..*i + 4] == wide);
        match at {
            Some(at) => Some((target, self.start + at as u64, 4)),
            None => Some((target, self.end() - 1, 1)),
        }
    }

    fn falls_through(&self) -> bool {
        let word =
            self.text.trim_start_matches("bnd ").trim_start_matches("repz ").trim_start_matches("notrack ");
        !["ret", "jmp", "ud2", "hlt", "int3", "call"].iter().any(|w| word.starts_with(w))
    }

    fn is_padding(&self) -> bool {
        ["nop", "data16", "cs nop", "xchg   %ax,%ax"].iter().any(|w| self.text.starts_with(w))
    }
}

fn disassemble(shop: &Workshop, bytes: &[u8], section: &Elf<'_>, index: usize) -> Vec<Instruction> {
    // The contents alone, so that neither relocations nor symbols change the listing.
    let range = section.section_headers[index].file_range().unwrap();
    let file = shop.write("code.bin", &bytes[range]);
    let listing =
        run(Command::new("objdump").args(["-D", "-w", "-b", "binary", "-m", "i386:x86-64"]).arg(file));
    let parse = |line: &str| {
        let mut fields = line.split('\t');
        let start = u64::from_str_radix(fields.next()?.trim().strip_suffix(':')?, 16).ok()?;
        let bytes = fields.next()?.split_whitespace().map(|b| u8::from_str_radix(b, 16).unwrap()).collect();
        Some(Instruction { start, bytes, text: fields.next().unwrap_or("").trim().to_owned() })
    };
    listing.lines().filter_map(parse).collect()
}

#[derive(Clone, Copy)]
struct Raw {
    section: u32,
    offset: u64,
    kind: u32,
    symbol: usize,
    addend: i64,
}

/// The summary of an object with an atom for each function.
pub(super) fn split(shop: &Workshop, bytes: &[u8]) -> ModuleSummary {
    let old = native::extract(bytes);
    let elf = Elf::parse(bytes).unwrap();
    let header = |i: u32| &elf.section_headers[i as usize];
    let executable = |i: u32| header(i).sh_flags & 4 != 0;
    let raw: Vec<Raw> = elf
        .shdr_relocs
        .iter()
        .flat_map(|(table, entries)| {
            let section = elf.section_headers[*table].sh_info;
            entries.iter().map(move |r| Raw {
                section,
                offset: r.r_offset,
                kind: r.r_type,
                symbol: r.r_sym,
                addend: r.r_addend.unwrap_or(0),
            })
        })
        .filter(|r| {
            let name = elf.shdr_strtab.get_at(header(r.section).sh_name).unwrap();
            header(r.section).sh_flags & 2 != 0 && name != ".eh_frame"
        })
        .collect();
    let related: BTreeSet<(u32, u64)> = raw.iter().map(|r| (r.section, r.offset)).collect();

    // Starts of atoms, tied where control passes without a field of 32 bits.
    let mut code: BTreeMap<u32, Vec<Instruction>> = BTreeMap::new();
    let mut starts: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for atom in old.atoms.iter().filter(|a| a.section != u32::MAX && executable(a.section) && a.size > 0) {
        let instructions = disassemble(shop, bytes, &elf, atom.section as usize);
        let functions = old.symbols.iter().enumerate().filter(|(_, s)| {
            matches!(s.kind, SymbolKind::Func | SymbolKind::Ifunc)
                && matches!(s.definition, Definition::Atom(a) if old.atoms[a.index()].section == atom.section)
        });
        let mut at: Vec<u64> = functions.map(|(_, s)| s.value).collect();
        at.sort_unstable();
        at.dedup();
        assert!(at.first().is_none_or(|f| *f == 0), "bytes before the first function");
        let mut tied = BTreeSet::new();
        let atom_of = |at: &[u64], x: u64| at.partition_point(|s| *s <= x).saturating_sub(1);
        for i in &instructions {
            let Some((target, field, width)) = i.place() else { continue };
            if width == 1 && !related.contains(&(atom.section, field)) {
                let (a, b) = (atom_of(&at, i.start), atom_of(&at, target));
                tied.extend(a.min(b) + 1..=a.max(b));
            }
        }
        for k in 1..at.len() {
            let last = instructions.iter().rfind(|i| i.start < at[k] && !i.is_padding());
            if last.is_some_and(|i| i.start >= at[k - 1] && i.falls_through()) {
                tied.insert(k);
            }
        }
        at = at.iter().enumerate().filter(|(k, _)| !tied.contains(k)).map(|(_, s)| *s).collect();
        if at.len() > 1 {
            starts.insert(atom.section, at);
        }
        code.insert(atom.section, instructions);
    }

    let mut new = ModuleSummary { atoms: Vec::new(), references: Vec::new(), ..old.clone() };
    let mut first: Vec<usize> = Vec::new();
    for atom in &old.atoms {
        first.push(new.atoms.len());
        let whole = vec![0];
        let at = starts.get(&atom.section).unwrap_or(&whole);
        for (k, start) in at.iter().enumerate() {
            let end = at.get(k + 1).copied().unwrap_or(atom.size);
            new.atoms.push(summaries::Atom { offset: *start, size: end - start, ..atom.clone() });
        }
    }
    let section_atom: BTreeMap<u32, usize> = old
        .atoms
        .iter()
        .enumerate()
        .filter(|(_, a)| a.section != u32::MAX)
        .map(|(i, a)| (a.section, i))
        .collect();
    let atom_at = |section: u32, offset: u64| {
        let start = first[section_atom[&section]];
        let k = starts.get(&section).map_or(0, |at| at.partition_point(|s| *s <= offset).saturating_sub(1));
        AtomIdx::new(start + k)
    };
    let all_of = |a: AtomIdx| {
        let count = starts.get(&old.atoms[a.index()].section).map_or(1, Vec::len);
        (first[a.index()]..first[a.index()] + count).map(AtomIdx::new)
    };

    // What code means by section symbol and addend.
    let section_of = |r: &Raw| {
        let symbol = elf.syms.get(r.symbol).unwrap();
        (symbol.st_type() == 3).then_some(symbol.st_shndx as u32)
    };
    let after = |r: &Raw| {
        let i = code[&r.section].iter().find(|i| i.start <= r.offset && r.offset < i.end()).unwrap();
        (i.end() - r.offset) as i64
    };
    let mut tables: BTreeMap<(u32, u64), AtomIdx> = BTreeMap::new();
    for r in raw.iter().filter(|r| executable(r.section)) {
        if let Some(target) = section_of(r).filter(|t| !executable(*t)) {
            let biased = matches!(r.kind, R_PC32 | 4);
            let place = r.addend + if biased { after(r) } else { 0 };
            tables.insert((target, place as u64), atom_at(r.section, r.offset));
        }
    }
    let mut owned: BTreeMap<(u32, u64), (u64, AtomIdx)> = BTreeMap::new();
    for r in &raw {
        let Some(target) = section_of(r).filter(|t| starts.contains_key(t)) else {
            // An entry that goes to a section of one function belongs to its table too.
            continue;
        };
        let place = match r.kind {
            R_64 | R_32 | R_32S => r.addend,
            _ if executable(r.section) => r.addend + after(r),
            R_PC32 => {
                let (&(section, base), &owner) = tables.range(..=(r.section, r.offset)).next_back().unwrap();
                assert_eq!(section, r.section);
                let entry = owned.entry((section, base)).or_insert((r.offset + 4, owner));
                entry.0 = entry.0.max(r.offset + 4);
                r.addend - (r.offset - base) as i64
            }
            kind => panic!("relocation {kind}"),
        };
        let target = atom_at(target, place as u64);
        new.retargets.push(Retarget { section: r.section, offset: r.offset, target });
    }
    new.retargets.sort_unstable();
    new.owned = owned
        .into_iter()
        .map(|((section, start), (end, owner))| OwnedRange {
            atom: atom_at(section, start),
            start,
            end,
            owner,
        })
        .collect();

    for r in &old.references {
        let section = old.atoms[r.from.index()].section;
        let froms: Vec<AtomIdx> = match r.kind {
            // Which FDE it is of does not matter here: there is one exception table.
            ReferenceKind::Unwind => all_of(r.from).collect(),
            _ => {
                let owner = new.owned.iter().find(|o| {
                    o.atom == AtomIdx::new(first[r.from.index()]) && (o.start..o.end).contains(&r.offset)
                });
                vec![owner.map_or_else(|| atom_at(section, r.offset), |o| o.owner)]
            }
        };
        let target = match r.target {
            Target::Atom(t) if starts.contains_key(&old.atoms[t.index()].section) => {
                let found = new
                    .retargets
                    .binary_search_by_key(&(section, r.offset), |r| (r.section, r.offset))
                    .unwrap();
                Target::Atom(new.retargets[found].target)
            }
            Target::Atom(t) => Target::Atom(AtomIdx::new(first[t.index()])),
            symbol => symbol,
        };
        new.references.extend(froms.into_iter().map(|from| Reference { from, target, ..*r }));
    }
    for &section in starts.keys() {
        for i in &code[&section] {
            let Some((target, field, 4)) = i.place() else { continue };
            let (from, to) = (atom_at(section, i.start), atom_at(section, target));
            if from == to || related.contains(&(section, field)) {
                continue;
            }
            new.resolved.push(ResolvedReference { section, field, from, target: to });
            let kind = if i.is_branch() { ReferenceKind::Call } else { ReferenceKind::Address };
            new.references.push(Reference { from, offset: field, kind, target: Target::Atom(to), addend: 0 });
        }
    }
    new.resolved.sort_by_key(|r| (r.section, r.field));
    new.references.sort_by_key(|r| (r.from, r.offset));
    for symbol in &mut new.symbols {
        let (Definition::Atom(a) | Definition::Common(a)) = symbol.definition else { continue };
        let section = old.atoms[a.index()].section;
        let of_section = symbol.kind == SymbolKind::Section || !starts.contains_key(&section);
        let atom = if of_section { AtomIdx::new(first[a.index()]) } else { atom_at(section, symbol.value) };
        symbol.definition = match symbol.definition {
            Definition::Atom(_) => Definition::Atom(atom),
            _ => Definition::Common(atom),
        };
    }
    for group in &mut new.groups {
        group.members = group.members.iter().flat_map(|m| all_of(*m)).collect();
    }
    for atom in &mut new.atoms {
        atom.link_order = atom.link_order.map(|a| AtomIdx::new(first[a.index()]));
    }
    new.check().unwrap();
    new
}
