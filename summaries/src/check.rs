//! The check of a summary from outside: the invariants that later passes index by.
//!
//! A summary is a table of ids, which the tool follows without looking. So a summary from a file or a text is checked once, and not used
//! if that fails. Whether it describes a given object is decided by the hash of the input in its file.

mod functions;

use crate::ids::{AtomIdx, GroupIdx, NameRef, SymbolIdx};
use crate::summary::{Atom, AtomKind, Definition, ModuleSummary, ReferenceKind, Target};

/// The invariant that a summary breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    #[error("the name of {0} {1} is outside the table of names")]
    Name(&'static str, usize),
    #[error("{0} {1} refers to a symbol, atom or group that is not there")]
    Id(&'static str, usize),
    #[error("{0} {1} is out of order or overlaps the one before")]
    Order(&'static str, usize),
    #[error(
        "atom {0}: the alignment is no power of two, the range too long, or the kind does not fit the section"
    )]
    Atom(usize),
    #[error("group {0} and its members do not agree")]
    Membership(usize),
    #[error("{0} {1}: a place, atom or edge that is not there")]
    Split(&'static str, usize),
    #[error("function {0}: an atom, value or register that is not there, or tables out of order")]
    Function(usize),
}

impl ModuleSummary {
    /// Check every invariant of the types: ids and names in range, tables in order, atoms of one section without overlaps, commons last, groups
    /// and their members in agreement, and tables of split sections and functions in order and in range.
    pub fn check(&self) -> Result<(), CheckError> {
        for (i, symbol) in self.symbols.iter().enumerate() {
            self.check_name(symbol.name, "symbol", i)?;
            let fits = match symbol.definition {
                Definition::Atom(atom) => self.atom(atom).is_some_and(|a| a.kind != AtomKind::Common),
                Definition::Common(atom) => self.atom(atom).is_some_and(|a| a.kind == AtomKind::Common),
                Definition::Undefined | Definition::Absolute | Definition::OtherSection(_) => true,
            };
            if !fits {
                return Err(CheckError::Id("symbol", i));
            }
        }
        self.check_atoms()?;
        self.check_groups()?;
        for (i, reference) in self.references.iter().enumerate() {
            let target = match reference.target {
                Target::Symbol(symbol) => self.has_symbol(symbol),
                Target::Atom(atom) => self.atom(atom).is_some(),
            };
            if !target || self.atom(reference.from).is_none() {
                return Err(CheckError::Id("reference", i));
            }
            let before = i.checked_sub(1).and_then(|b| self.references.get(b));
            if before.is_some_and(|b| (b.from, b.offset) > (reference.from, reference.offset)) {
                return Err(CheckError::Order("reference", i));
            }
        }
        self.check_split()?;
        functions::check(self)
    }

    /// The same summary with a table of names that holds each name of a symbol or atom once, in order of first use. Equal contents
    /// are equal summaries in this form.
    pub fn with_canonical_names(&self) -> ModuleSummary {
        let mut names = Vec::new();
        let mut known: std::collections::HashMap<&[u8], NameRef> = std::collections::HashMap::new();
        let mut intern = |name: NameRef| {
            let bytes = self.name(name);
            if bytes.is_empty() {
                return NameRef::default();
            }
            *known.entry(bytes).or_insert_with(|| {
                let start = names.len() as u32;
                names.extend_from_slice(bytes);
                NameRef { start, len: bytes.len() as u32 }
            })
        };
        let mut canonical = ModuleSummary { names: Vec::new(), ..self.clone() };
        for symbol in &mut canonical.symbols {
            symbol.name = intern(symbol.name);
        }
        for atom in &mut canonical.atoms {
            atom.name = intern(atom.name);
        }
        canonical.names = names;
        canonical
    }

    fn check_split(&self) -> Result<(), CheckError> {
        let sorted = |ok: bool, what, i| if ok { Ok(()) } else { Err(CheckError::Order(what, i)) };
        for (i, resolved) in self.resolved.iter().enumerate() {
            let before = i.checked_sub(1).and_then(|b| self.resolved.get(b));
            let ordered = before
                .is_none_or(|b| (b.section, b.field.saturating_add(4)) <= (resolved.section, resolved.field));
            sorted(ordered, "resolved reference", i)?;
            let field = (resolved.field, resolved.field.checked_add(4));
            let fits = self.atom(resolved.from).is_some_and(|from| {
                from.section == resolved.section
                    && from.offset <= field.0
                    && field.1.is_some_and(|end| end <= from.offset.saturating_add(from.size))
            }) && self.atom(resolved.target).is_some_and(|to| to.section == resolved.section);
            // The edge must be among the references, or liveness would miss it.
            let edge = || {
                let own = self.references_of(resolved.from);
                let at = own.partition_point(|r| r.offset < resolved.field);
                own.get(at..)
                    .unwrap_or(&[])
                    .iter()
                    .take_while(|r| r.offset == resolved.field)
                    .any(|r| r.target == Target::Atom(resolved.target) && r.kind != ReferenceKind::Unwind)
            };
            if !fits || !edge() {
                return Err(CheckError::Split("resolved reference", i));
            }
        }
        for (i, range) in self.owned.iter().enumerate() {
            let before = i.checked_sub(1).and_then(|b| self.owned.get(b));
            sorted(before.is_none_or(|b| (b.atom, b.end) <= (range.atom, range.start)), "owned range", i)?;
            let fits = range.start < range.end
                && self
                    .atom(range.atom)
                    .is_some_and(|a| a.offset <= range.start && range.end <= a.offset.saturating_add(a.size))
                && self.atom(range.owner).is_some_and(|owner| owner.kind.is_alloc());
            if !fits {
                return Err(CheckError::Split("owned range", i));
            }
        }
        for (i, retarget) in self.retargets.iter().enumerate() {
            let before = i.checked_sub(1).and_then(|b| self.retargets.get(b));
            let place = (retarget.section, retarget.offset);
            sorted(before.is_none_or(|b| (b.section, b.offset) < place), "retarget", i)?;
            if self.atom(retarget.target).is_none_or(|a| a.kind == AtomKind::Common) {
                return Err(CheckError::Split("retarget", i));
            }
        }
        Ok(())
    }

    fn atom(&self, atom: AtomIdx) -> Option<&Atom> {
        self.atoms.get(atom.index())
    }

    fn has_symbol(&self, symbol: SymbolIdx) -> bool {
        symbol.index() < self.symbols.len()
    }

    fn check_name(&self, name: NameRef, what: &'static str, index: usize) -> Result<(), CheckError> {
        let end = (name.start as usize).checked_add(name.len as usize);
        match end.is_some_and(|end| end <= self.names.len()) {
            true => Ok(()),
            false => Err(CheckError::Name(what, index)),
        }
    }

    fn check_atoms(&self) -> Result<(), CheckError> {
        let mut before: Option<&Atom> = None;
        for (i, atom) in self.atoms.iter().enumerate() {
            self.check_name(atom.name, "atom", i)?;
            let end = atom.offset.checked_add(atom.size);
            let common = atom.kind == AtomKind::Common;
            if end.is_none() || !atom.align.is_power_of_two() || common != (atom.section == Atom::NO_SECTION)
            {
                return Err(CheckError::Atom(i));
            }
            // NO_SECTION is the largest index, so that commons are last; they have no position and so no order.
            let apart = before.is_none_or(|b| {
                b.section < atom.section
                    || (b.section == atom.section
                        && (common
                            || (b.offset < atom.offset && b.offset.saturating_add(b.size) <= atom.offset)))
            });
            if !apart {
                return Err(CheckError::Order("atom", i));
            }
            if atom.link_order.is_some_and(|a| self.atom(a).is_none())
                || atom.group.is_some_and(|g| !self.has_group(g))
            {
                return Err(CheckError::Id("atom", i));
            }
            before = Some(atom);
        }
        Ok(())
    }

    fn has_group(&self, group: GroupIdx) -> bool {
        group.index() < self.groups.len()
    }

    fn check_groups(&self) -> Result<(), CheckError> {
        let mut members = 0usize;
        for (i, group) in self.groups.iter().enumerate() {
            if !self.has_symbol(group.signature) {
                return Err(CheckError::Id("group", i));
            }
            let own = |a: &AtomIdx| self.atom(*a).is_some_and(|a| a.group == Some(GroupIdx::new(i)));
            if !group.members.is_sorted_by(|a, b| a < b) || !group.members.iter().all(own) {
                return Err(CheckError::Membership(i));
            }
            members = members.saturating_add(group.members.len());
        }
        // Each member belongs to its group, and no atom to two, so that equal counts make it mutual.
        match self.atoms.iter().filter(|a| a.group.is_some()).count() == members {
            true => Ok(()),
            false => Err(CheckError::Membership(self.groups.len())),
        }
    }
}
