//! Which section of the linked file each atom is in.
//!
//! Where an input byte landed is not in a report: an atom is assigned to the section of the output that its name leads to, and
//! whatever a section holds besides is named by `attribute`. Left out: linker scripts that put sections elsewhere.

use super::model::{Atom, AtomState, Model};

impl Model<'_> {
    /// Assign each atom that is in the output to a section of it.
    pub(super) fn place(&mut self) {
        let present = self.present();
        let mut sections: Vec<(&str, u32)> = Vec::new();
        for (i, part) in self.parts.iter().enumerate().filter(|(_, p)| p.what == "section") {
            sections.push((&part.name, i as u32));
        }
        sections.sort_unstable();
        let is_zero = |part: u32| self.parts.get(part as usize).is_some_and(|p| p.bytes == 0 && p.size > 0);
        let find = |name: &str, zero: bool| {
            let at = sections.partition_point(|s| s.0 < name);
            let found = sections.iter().skip(at).take_while(|s| s.0 == name).map(|s| s.1);
            found.clone().find(|s| is_zero(*s) == zero).or_else(|| found.clone().next())
        };
        let placed: Vec<Option<u32>> = self
            .atoms
            .iter()
            .zip(&present)
            .map(|(atom, present)| if *present { section_of(atom, &find) } else { None })
            .collect();
        for (atom, part) in self.atoms.iter_mut().zip(placed) {
            atom.placed = part;
        }
    }

    /// By atom: whether the linked file has it.
    pub(super) fn present(&self) -> Vec<bool> {
        if self.report.pruned {
            return self.atoms.iter().map(|a| a.state != AtomState::Dropped).collect();
        }
        // The originals were linked. Sections go whole there, so one atom that lives by the linker's rules keeps the others.
        if !self.report.linker.gc_sections {
            return self.atoms.iter().map(|a| !a.discarded).collect();
        }
        let mut live: Vec<(u32, Option<u32>)> = Vec::new();
        live.extend(self.atoms.iter().filter(|a| a.linker_live).map(|a| (a.module, a.section_index)));
        live.sort_unstable();
        live.dedup();
        let is_live = |a: &Atom<'_>| match a.section_index {
            Some(_) => live.binary_search(&(a.module, a.section_index)).is_ok(),
            None => a.linker_live,
        };
        self.atoms.iter().map(|a| !a.discarded && is_live(a)).collect()
    }
}

/// Where linkers put a section, by name: a section of the output of that name, else of the longest part of it that ends before
/// a dot; what old names mean besides.
fn section_of(atom: &Atom<'_>, find: &dyn Fn(&str, bool) -> Option<u32>) -> Option<u32> {
    let zero = atom.is_zero();
    let own: &str = match &*atom.kind {
        "common" => ".bss",
        _ => &atom.section,
    };
    let mut name = own;
    loop {
        if let Some(found) = find(name, zero) {
            return Some(found);
        }
        match name.rfind('.') {
            Some(dot) if dot > 0 => name = name.get(..dot).unwrap_or_default(),
            _ => break,
        }
    }
    let starts = |prefix: &str| own.starts_with(prefix);
    let other = match own {
        _ if starts(".gnu.linkonce.t") => ".text",
        _ if starts(".gnu.linkonce.r") => ".rodata",
        _ if starts(".gnu.linkonce.d") => ".data",
        _ if starts(".gnu.linkonce.b") => ".bss",
        _ if starts(".ctors") => ".init_array",
        _ if starts(".dtors") => ".fini_array",
        _ => return None,
    };
    find(other, zero)
}
