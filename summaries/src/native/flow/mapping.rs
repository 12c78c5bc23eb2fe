//! Backward constant propagation to native calls that may map memory at an address of the program's choice ([`crate::mapping`]).
//!
//! The analysis reads the instructions before the call on every path, up to a place that control may enter from elsewhere. For a call
//! through a register that holds the function's address, it reads the call sites of the value flow. A call may choose the mapped address
//! unless an argument is a constant that leaves the choice to the kernel. Data that holds the function's address counts as such a call,
//! and so does code without a summary that takes it. Other uses of the function's address in analysed code are decided at link time.
//! System calls by the program's own instructions are not covered.

use object::endian::LittleEndian as LE;
use rustc_hash::FxHashSet;

use super::module::FlowModule;
use crate::ids::{AtomIdx, SymbolIdx};
use crate::limit::{Limit, LimitRecord};
use crate::mapping::{Mapping, mapping};
use crate::native::decode::{self, Flow, Instruction, Step, Steps};
use crate::native::relocations::types::{R_X86_64_PC32, R_X86_64_PLT32};
use crate::native::relocations::{symbol_of, type_of};
use crate::native::split::Division;
use crate::relation::{Callee, FunctionSummary};
use crate::summary::{Symbol, SymbolKind, Target};

/// The use of the function's address by an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MappingCallUse {
    /// It calls it, and leaves the place open.
    LeavesOpen,
    MayChoose,
    /// The code takes the function's address, and calls it elsewhere or not at all.
    Takes,
}

/// The code of an atom, decoded, with its relocations.
struct AtomCode<'a> {
    atom: AtomIdx,
    /// The offset of its first byte from the start of the section.
    start: u64,
    bytes: &'a [u8],
    instructions: Vec<Instruction>,
    /// The places that control may enter from elsewhere, sorted.
    entered: Vec<u64>,
    /// Jumps from one place to another, by their target: (target, number of the instruction). Sorted.
    jumps: Vec<(u64, usize)>,
}

impl AtomCode<'_> {
    fn bytes_of(&self, instruction: &Instruction) -> &[u8] {
        let at = u64::from(instruction.offset).saturating_sub(self.start);
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        self.bytes.get(at..at.saturating_add(usize::from(instruction.len))).unwrap_or(&[])
    }

    /// Whether the instruction is a call of the kernel or a debugger: `int3`, `int n`, `int1`.
    fn is_interrupt(&self, number: usize) -> bool {
        let of = self.instructions.get(number).map(|i| self.bytes_of(i));
        of.and_then(|bytes| bytes.first()).is_some_and(|byte| matches!(byte, 0xcc | 0xcd | 0xf1))
    }

    /// The predecessors of the instruction, by number; `None` if control may come from elsewhere, or has no known source.
    fn sources(&self, number: usize) -> Option<Vec<usize>> {
        let at = u64::from(self.instructions.get(number)?.offset);
        let previous = number.checked_sub(1)?;
        if self.entered.binary_search(&at).is_ok() {
            return None;
        }
        let to_it = self.jumps.partition_point(|j| j.0 < at);
        let to_it = self.jumps.get(to_it..).unwrap_or(&[]).iter().take_while(|j| j.0 == at);
        let mut sources: Vec<usize> = to_it.map(|j| j.1).collect();
        match self.instructions.get(previous)?.flow {
            Flow::Next | Flow::Conditional => sources.push(previous),
            // The result of a call is not analysed.
            Flow::Call | Flow::IndirectCall => return None,
            // A handler of the signal may continue after the instruction.
            Flow::Stop if self.is_interrupt(previous) => sources.push(previous),
            Flow::Jump | Flow::JumpRegister | Flow::JumpMemory | Flow::Stop => {}
        }
        Some(sources).filter(|s| !s.is_empty())
    }
}

/// Reads the code of a module for [`FlowModule::used`].
struct CodeReader<'s, 'p> {
    division: &'p Division,
    /// The places that have a name or that another atom refers to: (section, offset), sorted.
    places: Vec<(u32, u64)>,
    /// The code of the atom that was requested last.
    last: Option<AtomCode<'s>>,
}

impl<'s> CodeReader<'s, '_> {
    /// Reads the code of an atom, if it wasn't the last.
    fn turn_to(&mut self, module: &'s FlowModule<'_, '_>, atom: AtomIdx) {
        if self.last.as_ref().is_none_or(|code| code.atom != atom) {
            self.last = module.decoded(self.division, &self.places, atom);
        }
    }

    /// The instruction at this offset in the atom that was requested last.
    fn instruction_at(&self, at: u64) -> Option<&Instruction> {
        let code = self.last.as_ref()?;
        code.instructions.get(code.instructions.partition_point(|i| i.end() <= at))
    }
}

/// The kind of mapping that a symbol makes; `symbols` is sorted.
fn of(symbols: &[(SymbolIdx, &'static Mapping)], symbol: SymbolIdx) -> Option<&'static Mapping> {
    let at = symbols.binary_search_by_key(&symbol, |s| s.0).ok()?;
    symbols.get(at).map(|s| s.1)
}

impl FlowModule<'_, '_> {
    /// Count the calls that may choose a place.
    pub(super) fn find_mappings(
        &self,
        division: &Division,
        functions: &[FunctionSummary],
        limits: &mut Vec<LimitRecord>,
    ) {
        let symbols = (0..self.symbols.len()).map(SymbolIdx::new);
        let symbols: Vec<_> =
            symbols.filter_map(|s| Some((s, mapping(self.name(Target::Symbol(s)))?))).collect();
        if symbols.is_empty() {
            return;
        }
        let own =
            |f: &FunctionSummary| std::iter::once(f.atom).chain(f.parts.iter().copied()).collect::<Vec<_>>();
        let mut followed: Vec<AtomIdx> = functions.iter().flat_map(own).collect();
        followed.sort_unstable();
        let mut code = CodeReader { division, places: self.places_led_to(division), last: None };
        let mut chooses = |atom: AtomIdx, at: u64, mapping: &Mapping| {
            let why = format!("a call of {} at {at:#x} may say where", String::from_utf8_lossy(mapping.name));
            self.limit(Limit::FixedMapping, &[atom], &why, limits);
        };
        for (section, rela) in &self.relas {
            let symbol = symbol_of(rela);
            let Some(mapping) = of(&symbols, symbol) else { continue };
            let at = rela.r_offset.get(LE);
            let Some((atom, _)) = self.place(*section, at).filter(|(atom, _)| self.may_run(*atom)) else {
                continue;
            };
            let what = if self.is_code(*section) {
                self.used(atom, at, mapping, &mut code)
            } else {
                MappingCallUse::MayChoose
            };
            if what == MappingCallUse::MayChoose
                || what == MappingCallUse::Takes && followed.binary_search(&atom).is_err()
            {
                chooses(atom, at, mapping);
            }
        }
        // Calls through a register that holds the address.
        for site in functions.iter().flat_map(|f| &f.call_sites) {
            let Callee::Direct { target: Target::Symbol(symbol), .. } = site.callee else { continue };
            let Some(mapping) = of(&symbols, symbol) else { continue };
            let Some((atom, _)) = self.place(site.section, site.offset) else { continue };
            let used = self.used(atom, site.offset, mapping, &mut code);
            let end = code.instruction_at(site.offset).map_or(site.offset, Instruction::end);
            let own = self.relas_of(site.section, site.offset, end);
            if own.iter().all(|(_, rela)| symbol_of(rela) != symbol) && used != MappingCallUse::LeavesOpen {
                chooses(atom, site.offset, mapping);
            }
        }
    }

    /// The use of the function's address by the instruction that has the byte at `at`.
    fn used<'s>(
        &'s self,
        atom: AtomIdx,
        at: u64,
        mapping: &Mapping,
        reader: &mut CodeReader<'s, '_>,
    ) -> MappingCallUse {
        reader.turn_to(self, atom);
        let Some(code) = &reader.last else { return MappingCallUse::MayChoose };
        let call = code.instructions.partition_point(|i| i.end() <= at);
        match code.instructions.get(call) {
            Some(i) if matches!(i.flow, Flow::Next | Flow::Stop) => MappingCallUse::Takes,
            Some(_) if self.leaves_the_place_open(code, call, mapping) => MappingCallUse::LeavesOpen,
            _ => MappingCallUse::MayChoose,
        }
    }

    /// The places that have a name or that control may enter from another atom. Another atom refers to them by a field that the assembler
    /// resolved, or by a function's name and a distance.
    fn places_led_to(&self, division: &Division) -> Vec<(u32, u64)> {
        let branches = division.resolved.iter().filter(|r| r.branch).map(|r| (r.section, r.target));
        let place = |symbol: &Symbol| Some((self.section_of(symbol)?, symbol.value));
        let named = self.symbols.iter().filter(|s| s.kind != SymbolKind::Section).filter_map(place);
        let by_distance = self.relas.iter().filter_map(|(_, rela)| {
            let symbol = self.symbols.get(symbol_of(rela).index())?;
            let counts =
                matches!(type_of(rela), R_X86_64_PC32 | R_X86_64_PLT32) && symbol.kind != SymbolKind::Section;
            let (section, value) = place(symbol).filter(|_| counts)?;
            Some((section, value.checked_add_signed(rela.r_addend.get(LE).checked_add(4)?)?))
        });
        let mut places: Vec<_> = branches.chain(named).chain(by_distance).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The decoded code of an atom; `None` if its instructions or entries are unknown. `places` are those of [`Self::places_led_to`].
    fn decoded(&self, division: &Division, places: &[(u32, u64)], atom: AtomIdx) -> Option<AtomCode<'_>> {
        let (section, start, bytes) = self.code(atom)?;
        division.understood.binary_search(&section).ok()?;
        let mut instructions = Vec::new();
        decode::decode(bytes, u32::try_from(start).ok()?, &mut instructions).ok()?;
        let mut entered = self.entries_of(atom);
        entered.extend(self.labels_in(&[atom]).into_iter().map(|l| l.offset));
        entered.extend(self.handlers(atom).ok()?.into_iter().map(|handler| handler.pad));
        let mut jumps = Vec::new();
        for (number, i) in instructions.iter().enumerate() {
            let Some(target) = i.target().and_then(|t| u64::try_from(t).ok()) else { continue };
            match i.flow {
                Flow::Jump | Flow::Conditional => jumps.push((target, number)),
                // A field with a relocation is not an offset in the code.
                Flow::Next if self.has_relocation(atom, i) => {}
                _ => entered.push(target),
            }
        }
        let own = (section, start)..(section, start.checked_add(bytes.len() as u64)?);
        let first = places.partition_point(|place| *place < own.start);
        let own = places.get(first..).unwrap_or(&[]).iter().take_while(|place| **place < own.end);
        entered.extend(own.map(|place| place.1));
        // A jump over a prefix leads into an instruction.
        let into = |target: &u64| {
            let at = instructions.partition_point(|i| i.end() <= *target);
            instructions.get(at).map(|i| u64::from(i.offset)).filter(|o| o < target)
        };
        entered.extend(jumps.iter().filter_map(|(target, _)| into(target)));
        entered.sort_unstable();
        jumps.sort_unstable();
        Some(AtomCode { atom, start, bytes, instructions, entered, jumps })
    }

    /// Whether the instructions before a call leave the address to the kernel on every path to it.
    fn leaves_the_place_open(&self, code: &AtomCode<'_>, call: usize, mapping: &Mapping) -> bool {
        let mut steps = Steps::new();
        let (mut seen, mut before) = (FxHashSet::default(), vec![call]);
        while let Some(number) = before.pop() {
            let Some(sources) = code.sources(number) else { return false };
            for source in sources {
                let Some(i) = code.instructions.get(source).filter(|_| seen.insert(source)) else { continue };
                match steps.step(code.bytes_of(i)) {
                    Step::Constant { to, value } if to == mapping.register => {
                        if !mapping.leaves_it_open(value) || self.has_relocation(code.atom, i) {
                            return false;
                        }
                    }
                    step if step.may_write(mapping.register) => return false,
                    _ => before.push(source),
                }
            }
        }
        true
    }

    /// Whether a relocation fills a field of the instruction, which is then not a constant.
    fn has_relocation(&self, atom: AtomIdx, instruction: &Instruction) -> bool {
        let section = self.atoms.get(atom.index()).map(|a| a.section);
        section.is_none_or(|s| !self.relas_of(s, u64::from(instruction.offset), instruction.end()).is_empty())
    }
}
