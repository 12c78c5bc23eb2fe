//! Valid summaries of any shape, decided by a stream of bytes (which proptest then shrinks).

use summaries::registers::PRESERVABLE;
use summaries::relation::{CallSite, Callee, Constraint, FormatArguments, FunctionSummary, Place};
use summaries::*;

/// A stream of choices; at its end every choice is the first.
pub(crate) struct SummaryChoices<'b>(pub(crate) std::slice::Iter<'b, u8>);

impl SummaryChoices<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    fn flag(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The number is small, or any other one.
    fn number(&mut self) -> u64 {
        match self.below(3) {
            0 => u64::from(self.byte()),
            1 => u64::from(u16::from_le_bytes([self.byte(), self.byte()])),
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    fn name(&mut self) -> Vec<u8> {
        match self.below(4) {
            0 => Vec::new(),
            1 => self
                .pick(&[
                    &b"main"[..],
                    b".text",
                    b".note.GNU-stack",
                    b"#1",
                    b"a b",
                    b"[x]",
                    b"1",
                    b"-4",
                    b"x;y",
                ])
                .to_vec(),
            _ => (0..self.below(6)).map(|_| self.byte()).collect(),
        }
    }

    /// A summary that passes its check.
    pub(crate) fn summary(&mut self) -> ModuleSummary {
        let mut s = ModuleSummary::opaque();
        s.kind = self.pick(&[ModuleKind::Opaque, ModuleKind::Native, ModuleKind::Bitcode]);
        s.granularity = self.pick(&[Granularity::Sections, Granularity::Functions, Granularity::Pointers]);
        s.without_debug = self.pick(&[false, true]);
        let (section_atoms, commons) = (self.below(6), self.below(3));
        let (atoms, symbols) = (section_atoms + commons, self.below(7));
        let groups = if symbols > 0 { self.below(3) } else { 0 };
        for i in 0..symbols {
            let name = self.name();
            let name = s.push_name(&name);
            let definition = match self.below(5) {
                1 => Definition::Absolute,
                2 if section_atoms > 0 => Definition::Atom(AtomIdx::new(self.below(section_atoms))),
                3 if commons > 0 => Definition::Common(AtomIdx::new(section_atoms + self.below(commons))),
                4 => Definition::OtherSection(self.number() as u32),
                _ => Definition::Undefined,
            };
            s.symbols.push(Symbol {
                name,
                binding: self.pick(&[Binding::Local, Binding::Global, Binding::Weak, Binding::Unique]),
                visibility: self.pick(&[
                    Visibility::Default,
                    Visibility::Protected,
                    Visibility::Hidden,
                    Visibility::Internal,
                ]),
                kind: self.pick(&[
                    SymbolKind::NoType,
                    SymbolKind::Object,
                    SymbolKind::Func,
                    SymbolKind::Section,
                    SymbolKind::File,
                    SymbolKind::Common,
                    SymbolKind::Tls,
                    SymbolKind::Ifunc,
                    SymbolKind::Other,
                ]),
                definition,
                value: self.number(),
                size: if i % 2 == 0 { 0 } else { self.number() },
            });
        }
        for _ in 0..groups {
            let signature = SymbolIdx::new(self.below(symbols));
            s.groups.push(Group {
                section: self.number() as u32,
                signature,
                comdat: self.flag(),
                members: Vec::new(),
            });
        }
        let (mut section, mut offset) = (0, 0);
        for i in 0..atoms {
            let common = i >= section_atoms;
            // Either the next part of the same section, or another section.
            if i == 0 || self.flag() {
                section += 1 + u32::from(self.byte());
                offset = 0;
            } else {
                offset += 1;
            }
            let size = u64::from(self.byte());
            let group = (groups > 0 && self.flag()).then(|| GroupIdx::new(self.below(groups)));
            if let Some(group) = group {
                s.groups[group.index()].members.push(AtomIdx::new(i));
            }
            let name = self.name();
            let name = s.push_name(&name);
            s.atoms.push(Atom {
                section: if common { Atom::NO_SECTION } else { section },
                offset: if common { 0 } else { offset },
                size,
                align: 1 << self.below(64),
                kind: if common {
                    AtomKind::Common
                } else {
                    self.pick(&[
                        AtomKind::Code,
                        AtomKind::ReadOnlyData,
                        AtomKind::Data,
                        AtomKind::Bss,
                        AtomKind::TlsData,
                        AtomKind::TlsBss,
                        AtomKind::InitFini,
                        AtomKind::Note,
                        AtomKind::Lsda,
                        AtomKind::Debug,
                        AtomKind::NonAlloc,
                    ])
                },
                flags: self.number() as u32,
                name,
                group,
                link_order: self.flag().then(|| AtomIdx::new(self.below(atoms))),
            });
            offset += size;
        }
        if atoms > 0 {
            self.references(&mut s);
            self.split_tables(&mut s);
            self.functions(&mut s);
        }
        for _ in 0..self.below(3) {
            s.limits.push(LimitRecord {
                limit: self.pick(Limit::ALL),
                section: self.flag().then(|| self.number() as u32),
                offset: self.flag().then(|| self.number()),
                bytes: self.number(),
                detail: String::from_utf8_lossy(&self.name()).into_owned(),
            });
        }
        s
    }

    /// Tables of split sections; a resolved reference is an edge besides.
    fn split_tables(&mut self, s: &mut ModuleSummary) {
        for from in (0..s.atoms.len()).map(AtomIdx::new) {
            let atom = &s.atoms[from.index()];
            let (section, offset, size) = (atom.section, atom.offset, atom.size);
            let alloc = (0..s.atoms.len()).map(AtomIdx::new).filter(|a| s.atoms[a.index()].kind.is_alloc());
            let alloc: Vec<AtomIdx> = alloc.collect();
            let inside =
                (0..s.atoms.len()).map(AtomIdx::new).filter(|a| s.atoms[a.index()].section == section);
            let inside: Vec<AtomIdx> = inside.collect();
            if atom.kind == AtomKind::Common {
                continue;
            }
            if size >= 2 && self.flag() && !alloc.is_empty() {
                let (start, end) = (offset, offset + 1 + self.below(size as usize) as u64);
                s.owned.push(OwnedRange { atom: from, start, end, owner: self.pick(&alloc) });
            }
            if size >= 4 && self.flag() {
                let field = offset + self.below(size as usize - 3) as u64;
                let target = self.pick(&inside);
                s.resolved.push(ResolvedReference { section, field, from, target });
                let edge = Reference {
                    from,
                    offset: field,
                    kind: self.pick(&[ReferenceKind::Call, ReferenceKind::Address]),
                    target: Target::Atom(target),
                    addend: 0,
                };
                s.references.push(edge);
            }
        }
        s.references.sort_by_key(|r| (r.from, r.offset));
        let placed: Vec<AtomIdx> = (0..s.atoms.len())
            .map(AtomIdx::new)
            .filter(|a| s.atoms[a.index()].kind != AtomKind::Common)
            .collect();
        let mut offset = 0;
        for section in 0..if placed.is_empty() { 0 } else { self.below(4) as u32 } {
            offset += u64::from(self.byte());
            s.retargets.push(Retarget { section, offset, target: self.pick(&placed) });
        }
    }

    fn references(&mut self, s: &mut ModuleSummary) {
        for _ in 0..self.below(8) {
            let target = match self.flag() && !s.symbols.is_empty() {
                true => Target::Symbol(SymbolIdx::new(self.below(s.symbols.len()))),
                false => Target::Atom(AtomIdx::new(self.below(s.atoms.len()))),
            };
            s.references.push(Reference {
                from: AtomIdx::new(self.below(s.atoms.len())),
                offset: self.number(),
                kind: self.pick(&[
                    ReferenceKind::Call,
                    ReferenceKind::Address,
                    ReferenceKind::Data,
                    ReferenceKind::Got,
                    ReferenceKind::Tls,
                    ReferenceKind::Unwind,
                    ReferenceKind::Debug,
                ]),
                target,
                addend: self.number() as i64,
            });
        }
        s.references.sort_by_key(|r| (r.from, r.offset));
    }

    /// Functions of code atoms, no atom in two.
    fn functions(&mut self, s: &mut ModuleSummary) {
        let code = (0..s.atoms.len()).map(AtomIdx::new);
        let mut code =
            code.filter(|a| s.atoms[a.index()].kind == AtomKind::Code).collect::<Vec<_>>().into_iter();
        while let Some(atom) = code.next() {
            if self.flag() {
                let parts = if self.flag() { code.next().into_iter().collect() } else { Vec::new() };
                let function = self.function(s, atom, parts);
                s.functions.push(function);
            }
        }
    }

    fn function(&mut self, s: &ModuleSummary, atom: AtomIdx, parts: Vec<AtomIdx>) -> FunctionSummary {
        let values = 1 + self.below(9) as u32;
        let frame = self.flag();
        let mut entries: Vec<_> = (0..self.below(3))
            .map(|_| (if self.flag() { atom } else { parts.first().copied().unwrap_or(atom) }, self.number()))
            .collect();
        entries.sort();
        entries.dedup();
        let mut constraints: Vec<_> = (0..self.below(8)).map(|_| self.constraint(s, values, frame)).collect();
        constraints.sort();
        constraints.dedup();
        let mut call_sites: Vec<_> = (0..self.below(4)).map(|_| self.call_site(s, values, frame)).collect();
        call_sites.sort_by_key(|site| (site.section, site.offset));
        let mut covered_references: Vec<_> =
            (0..self.below(4)).map(|_| (self.number() as u32, self.number())).collect();
        covered_references.sort();
        covered_references.dedup();
        let mut address_taken_only: Vec<Target> = (0..self.below(3)).map(|_| self.target(s)).collect();
        address_taken_only.sort();
        address_taken_only.dedup();
        FunctionSummary {
            address_taken_only,
            atom,
            parts,
            entries,
            values,
            parameters: self.registers(values),
            stack_parameters: if frame { Vec::new() } else { self.cells(values) },
            frame,
            results: self.registers(values),
            preserved: self.number() & PRESERVABLE,
            indirect_entry_values: (0..self.below(3)).map(|_| self.value(values)).collect(),
            constraints,
            call_sites,
            covered_references,
        }
    }

    fn value(&mut self, values: u32) -> ValueIdx {
        ValueIdx::new(self.below(values as usize))
    }

    fn offset(&mut self) -> Option<i64> {
        self.flag().then(|| self.number() as i64)
    }

    fn place(&mut self, values: u32) -> Place {
        Place { value: self.value(values), offset: self.offset() }
    }

    fn target(&mut self, s: &ModuleSummary) -> Target {
        match self.flag() && !s.symbols.is_empty() {
            true => Target::Symbol(SymbolIdx::new(self.below(s.symbols.len()))),
            false => Target::Atom(AtomIdx::new(self.below(s.atoms.len()))),
        }
    }

    fn registers(&mut self, values: u32) -> Vec<(u8, ValueIdx)> {
        let mut register = 0;
        let mut registers = Vec::new();
        for _ in 0..self.below(4) {
            register += 1 + self.below(16) as u8;
            if register < 48 {
                registers.push((register - 1, self.value(values)));
            }
        }
        registers
    }

    fn cells(&mut self, values: u32) -> Vec<(i32, ValueIdx)> {
        (0..self.below(3)).map(|i| (8 * (i as i32 + 1), self.value(values))).collect()
    }

    fn constraint(&mut self, s: &ModuleSummary, values: u32, frame: bool) -> Constraint {
        let (from, to) = (self.value(values), self.value(values));
        let size = self.number() as u32;
        match self.below(9) {
            0 => Constraint::Address { to, target: self.target(s), offset: self.number() as i64 },
            1 if frame => Constraint::Frame { to, offset: self.offset() },
            2 => Constraint::Load { from: self.place(values), to, size },
            3 => Constraint::Store { from, to: self.place(values), size },
            4 => Constraint::Copy { from: self.place(values), to: self.place(values), size },
            5 => Constraint::Unknown { to },
            6 => Constraint::Escape { from },
            7 => Constraint::EscapeCode { from },
            _ => Constraint::Assign { from, to, offset: self.offset() },
        }
    }

    fn call_site(&mut self, s: &ModuleSummary, values: u32, frame: bool) -> CallSite {
        CallSite {
            section: self.number() as u32,
            offset: self.number(),
            callee: match self.flag() {
                true => Callee::Direct { target: self.target(s), offset: self.number() as i64 },
                false => Callee::Indirect(self.value(values)),
            },
            jump: self.flag(),
            actuals: self.registers(values),
            stack: self.cells(values),
            no_vectors: self.flag(),
            formats: if self.flag() {
                vec![(7, FormatArguments { count: 3, strings: 5 })]
            } else {
                Vec::new()
            },
            stack_in_frame: (frame && self.flag()).then(|| self.offset()),
            results: self.registers(values),
        }
    }
}
