//! The targets of relocations against code: the function of each.
//!
//! A relocation by section symbol means a place. It is `addend` for an absolute one. In decoded code, a PC-relative
//! one also has the distance from its field to the end of the instruction; in undecoded code this is 4 to 8 bytes.
//! The place must be an instruction of one function, or the target section is refused. In data a PC-relative one
//! needs a proved base: see [`super::jump_tables`].
//!
//! A tag may bias an address. An address just before a function may mean this function, unless it would then have a
//! name ([`NamedFunctions`]).
//!
//! A relocation by function symbol does not change. It must lead into the part of the symbol, which the symbol keeps.
//! A PC-relative one in data (`.long f - table`) means the function.

use object::endian::LittleEndian as LE;

use super::division::{SectionPlace, SplitContext, TextPlace};
use super::metadata::Metadata;
use super::text::{InstructionCursor, SplitOutcome, Text};
use crate::ids::SymbolIdx;
use crate::limit::Limit;
use crate::native::decode::{Field, Instruction};
use crate::native::relocations::types::{
    R_X86_64_32, R_X86_64_32S, R_X86_64_64, R_X86_64_GOTOFF64, R_X86_64_PC32, R_X86_64_PC64, R_X86_64_PLT32,
};
use crate::native::relocations::{self, Rela, ignores_addend, symbol_of, type_of};
use crate::native::sections::is_eh_frame;
use crate::summary::{AtomKind, Binding, Definition, Symbol, SymbolKind, Target, atom_flags};

/// A relocation by section symbol, and its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RetargetedRelocation {
    pub(super) at: SectionPlace,
    /// Position of the target in the list of texts.
    pub(super) text: usize,
    pub(super) target: u64,
}

/// A PC-relative relocation of 32 bits in data against the section symbol of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PcRelativeReference {
    pub(super) at: SectionPlace,
    pub(super) text: usize,
    pub(super) addend: i64,
}

/// A reference to a place in data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DataReference {
    pub(super) to: SectionPlace,
    /// The text and the offset of the field that it is from; `None` if it is from elsewhere.
    pub(super) from: Option<(usize, u64)>,
}

/// The references of an object's relocations.
#[derive(Debug, Default)]
pub(super) struct SplitReferences {
    pub(super) retargets: Vec<RetargetedRelocation>,
    /// Jumps by section symbol: the field and the target.
    pub(super) jumps: Vec<(TextPlace, TextPlace)>,
    /// PC-relative fields in data, sorted by place.
    pub(super) relative: Vec<PcRelativeReference>,
    /// Sorted. It is only filled if there are relative references, or addresses that look like no label.
    pub(super) data: Vec<DataReference>,
    /// Addresses that may mean the next function ([`Text::keep_biased_together`]): text, offset, and the place of the
    /// reference.
    pub(super) addresses: Vec<(usize, u64, SectionPlace)>,
    /// Addresses in data that are no labels, unless they are entries of a table ([`super::jump_tables`]).
    pub(super) mid_function_addresses: Vec<RetargetedRelocation>,
    /// The functions that relocations name, by text and offset.
    pub(super) named: Vec<(usize, u64)>,
}

/// The contents of a section with relocations.
#[derive(Clone, Copy)]
pub(super) enum ReferenceSource {
    /// Decoded code: position of the text.
    Code(usize),
    /// It is in code that was not decoded.
    Raw,
    Data,
    Unwind,
    /// It is in a section that is not loaded.
    Other,
}

pub(super) fn read(
    context: &SplitContext<'_, '_>,
    metadata: &[Metadata],
    texts: &mut [Text<'_>],
) -> SplitReferences {
    let mut found = SplitReferences::default();
    for own in context.relas.chunk_by(|a, b| a.0 == b.0) {
        let Some((section, _)) = own.first() else { continue };
        if metadata.binary_search_by_key(section, |m| m.section).is_ok() {
            continue;
        }
        let source = source(context, texts, *section);
        let begins: Vec<u64> = match source {
            ReferenceSource::Unwind => {
                let unwind = context.unwind.iter().filter(|unwind| unwind.index == *section);
                unwind.flat_map(|unwind| unwind.fdes().map(|fde| fde.pc_begin())).collect()
            }
            _ => Vec::new(),
        };
        let mut reader = ReferenceReader {
            context,
            section: *section,
            source,
            begins,
            instructions: InstructionCursor::default(),
        };
        for (_, rela) in own {
            reader.relocation(rela, texts, &mut found);
        }
    }
    found.relative.sort_unstable();
    if found.relative.is_empty() && found.mid_function_addresses.is_empty() {
        found.data = Vec::new();
    } else {
        for symbol in context.symbols.iter().filter(|s| s.kind != SymbolKind::Section) {
            // A named symbol is an object of its own.
            if let Definition::Atom(atom) = symbol.definition
                && let Some(section) = context.section_of(atom)
                && context.text_of(section).is_none()
            {
                found.data.push(DataReference { to: (section, symbol.value), from: None });
            }
        }
        found.data.sort_unstable();
    }
    let named = NamedFunctions::new(context, texts);
    for (text, offset, at) in &found.addresses {
        if named.excludes(*at, texts, *text, *offset) {
            continue;
        }
        if let Some(text) = texts.get_mut(*text) {
            text.keep_biased_together(*offset);
        }
    }
    for text in texts.iter_mut() {
        text.form_parts();
    }
    found
}

/// Refuse the targets of two relocations at one place, because tables by place must be unambiguous.
pub(super) fn one_meaning_each(texts: &mut [Text<'_>], retargets: &mut [RetargetedRelocation]) {
    retargets.sort_unstable();
    for pair in retargets.windows(2) {
        if let [a, b] = pair
            && a.at == b.at
        {
            for text in [a.text, b.text] {
                if let Some(text) = texts.get_mut(text) {
                    text.refuse(Limit::AmbiguousTarget, format!("two relocations at {:#x}", a.at.1));
                }
            }
        }
    }
}

pub(super) fn source(context: &SplitContext<'_, '_>, texts: &[Text<'_>], section: u32) -> ReferenceSource {
    let Some(header) = context.tables.sections.get(section as usize) else { return ReferenceSource::Other };
    if is_eh_frame(header.ty, context.tables.name(header.name)) {
        return ReferenceSource::Unwind;
    }
    let position = context.atoms.partition_point(|a| a.section < section);
    match context.atoms.get(position).filter(|a| a.section == section) {
        Some(atom) if !atom.kind.is_alloc() => ReferenceSource::Other,
        Some(atom) if atom.kind == AtomKind::Code || atom.has(atom_flags::EXEC) => {
            match context.text_of(section).filter(|t| texts.get(*t).is_some_and(|t| t.decoded)) {
                Some(text) => ReferenceSource::Code(text),
                None => ReferenceSource::Raw,
            }
        }
        Some(_) => ReferenceSource::Data,
        None => ReferenceSource::Other,
    }
}

struct ReferenceReader<'c, 'a, 't> {
    context: &'c SplitContext<'a, 't>,
    section: u32,
    source: ReferenceSource,
    begins: Vec<u64>,
    instructions: InstructionCursor,
}

impl ReferenceReader<'_, '_, '_> {
    fn relocation(&mut self, rela: &Rela, texts: &mut [Text<'_>], found: &mut SplitReferences) {
        let symbol = symbol_of(rela);
        let Some(entry) = self.context.symbols.get(symbol.index()) else { return };
        let Definition::Atom(atom) = entry.definition else { return };
        let Some(section) = self.context.section_of(atom) else { return };
        let instruction = self.instruction(rela, texts);
        let Some(text) = self.context.text_of(section) else {
            return self.to_data(rela, (section, entry.value), instruction, found);
        };
        let outcome =
            if matches!(relocations::target(self.context.symbols, symbol), Ok(Some(Target::Atom(_)))) {
                self.by_section(rela, text, instruction, texts, found)
            } else {
                if !matches!(self.source, ReferenceSource::Unwind | ReferenceSource::Other) {
                    found.named.push((text, entry.value));
                }
                self.by_symbol(rela, symbol, text, instruction, texts)
            };
        if let (Err((limit, what)), Some(target)) = (outcome, texts.get_mut(text)) {
            let (ty, place) = (type_of(rela), rela.r_offset.get(LE));
            let from = self.context.describe(self.section);
            let why = format!("relocation of type {ty} at {place:#x} of section {from}: {what}");
            match self.source {
                // An unloaded section does not affect code.
                ReferenceSource::Other => target.keep_undivided(limit, why),
                _ => target.refuse(limit, why),
            }
        }
    }

    /// The instruction of a relocation in decoded code.
    fn instruction(&mut self, rela: &Rela, texts: &[Text<'_>]) -> Option<Instruction> {
        let ReferenceSource::Code(source) = self.source else { return None };
        self.instructions.seek(texts.get(source)?, rela.r_offset.get(LE)).copied()
    }

    fn by_section(
        &self,
        rela: &Rela,
        text: usize,
        instruction: Option<Instruction>,
        texts: &[Text<'_>],
        found: &mut SplitReferences,
    ) -> SplitOutcome {
        let Some(target) = texts.get(text) else { return Ok(()) };
        let (place, addend) = (rela.r_offset.get(LE), rela.r_addend.get(LE));
        let unclear = |what: &str| Err((Limit::AmbiguousTarget, what.to_owned()));
        let offset = match self.source {
            ReferenceSource::Code(_) => match instruction.and_then(|i| meaning(rela, &i)) {
                Some(delta) => delta,
                None => return unclear("by section symbol in such an instruction"),
            },
            ReferenceSource::Data => match type_of(rela) {
                R_X86_64_64 | R_X86_64_32 | R_X86_64_32S => addend,
                R_X86_64_PC32 => {
                    found.relative.push(PcRelativeReference { at: (self.section, place), text, addend });
                    return Ok(());
                }
                _ => return unclear("by section symbol in data"),
            },
            ReferenceSource::Raw => return self.in_raw_code(rela, text, target, found),
            ReferenceSource::Unwind if self.begins.binary_search(&place).is_ok() => return Ok(()),
            ReferenceSource::Unwind => return unclear("by section symbol in an unwind table"),
            ReferenceSource::Other => {
                return Err((
                    Limit::DebugInfo,
                    "by section symbol, in a section that is not loaded".to_owned(),
                ));
            }
        };
        let offset = u64::try_from(offset).unwrap_or(u64::MAX);
        match target.function_at(offset) {
            Some(_) if instruction.is_some_and(|i| accesses(&i, place)) => {
                Err((Limit::CodeAsData, format!("an instruction reads or writes {offset:#x}")))
            }
            Some(_) if target.is_boundary(offset) || !target.decoded => {
                if !instruction.is_some_and(|i| i.field == Field::Branch) {
                    // A table of labels belongs to their function.
                    let own = match instruction {
                        Some(_) if self.section != target.section => None,
                        Some(_) => target.function_at(place),
                        None => target.function_at(offset),
                    };
                    let is_far = target.is_far_from_start(offset)
                        && !(matches!(self.source, ReferenceSource::Data)
                            && is_hand_written(self.context, (self.section, place)));
                    if is_far && !super::code::is_label(target, own, offset) {
                        if !matches!(self.source, ReferenceSource::Data) {
                            return unclear("an address in the middle of a function");
                        }
                        found.mid_function_addresses.push(RetargetedRelocation {
                            at: (self.section, place),
                            text,
                            target: offset,
                        });
                    }
                    found.addresses.push((text, offset, (self.section, place)));
                }
                if let (ReferenceSource::Code(from), Some(true)) =
                    (self.source, instruction.map(|i| i.is_jump()))
                {
                    found.jumps.push(((from, place), (text, offset)));
                }
                found.retargets.push(RetargetedRelocation {
                    at: (self.section, place),
                    text,
                    target: offset,
                });
                Ok(())
            }
            Some(_) => unclear("into the middle of an instruction"),
            None => Err((Limit::ReferenceIntoPadding, format!("to {offset:#x}, which is in no function"))),
        }
    }

    /// In undecoded code, every place that the relocation may mean must be in one part.
    fn in_raw_code(
        &self,
        rela: &Rela,
        text: usize,
        target: &Text<'_>,
        found: &mut SplitReferences,
    ) -> SplitOutcome {
        let addend = rela.r_addend.get(LE);
        let at = (self.section, rela.r_offset.get(LE));
        let offset = |n: i64| addend.checked_add(n).and_then(|t| u64::try_from(t).ok());
        let meant = match type_of(rela) {
            R_X86_64_PC32 | R_X86_64_PLT32 => {
                let mut parts = (4..=8).map(|n| offset(n).and_then(|t| target.part_at(t)));
                let first = parts.next().flatten();
                offset(4).filter(|_| first.is_some() && parts.all(|p| p == first))
            }
            // A base with an addend would hardly be the start of a function.
            R_X86_64_64 | R_X86_64_32 | R_X86_64_32S => offset(0).filter(|t| {
                target.function_at(*t).is_some_and(|f| target.functions.get(f).is_some_and(|f| f.start == *t))
            }),
            _ => None,
        };
        match meant {
            Some(target) => {
                found.retargets.push(RetargetedRelocation { at, text, target });
                Ok(())
            }
            None => Err((Limit::AmbiguousTarget, "from code that was not decoded".to_owned())),
        }
    }

    fn by_symbol(
        &self,
        rela: &Rela,
        symbol: SymbolIdx,
        text: usize,
        instruction: Option<Instruction>,
        texts: &[Text<'_>],
    ) -> SplitOutcome {
        let (Some(target), Some(entry)) = (texts.get(text), self.context.symbols.get(symbol.index())) else {
            return Ok(());
        };
        if entry.kind == SymbolKind::Section {
            return Err((Limit::AmbiguousTarget, "by a section symbol of its own kind".to_owned()));
        }
        let (ty, addend) = (type_of(rela), rela.r_addend.get(LE));
        let delta = match self.source {
            ReferenceSource::Unwind | ReferenceSource::Other => return Ok(()),
            _ if ignores_addend(ty) => return Ok(()),
            ReferenceSource::Code(_) => instruction.and_then(|i| meaning(rela, &i)),
            // The addend may be from the last byte of the field to the end of the longest instruction.
            ReferenceSource::Raw
                if matches!(ty, R_X86_64_PC32 | R_X86_64_PLT32) && (-8..=-4).contains(&addend) =>
            {
                return Ok(());
            }
            ReferenceSource::Raw => None,
            // It is a distance to a table whose start is unknown here.
            ReferenceSource::Data if matches!(ty, R_X86_64_PC32 | R_X86_64_PC64) => return Ok(()),
            ReferenceSource::Data => Some(addend),
        };
        let own = target.part_at(entry.value);
        let reached = delta.and_then(|d| entry.value.checked_add_signed(d)).and_then(|t| target.part_at(t));
        match reached.is_some() && reached == own {
            true => Ok(()),
            false => Err((Limit::AmbiguousTarget, format!("symbol {} with addend {addend:#x}", symbol.0))),
        }
    }

    /// Note a reference to data, to find the starts of tables.
    fn to_data(
        &self,
        rela: &Rela,
        symbol: SectionPlace,
        instruction: Option<Instruction>,
        found: &mut SplitReferences,
    ) {
        let mut push = |delta: Option<i64>, from| {
            if let Some(offset) = delta.and_then(|d| symbol.1.checked_add_signed(d)) {
                found.data.push(DataReference { to: (symbol.0, offset), from });
            }
        };
        let addend = rela.r_addend.get(LE);
        match self.source {
            ReferenceSource::Code(text) => {
                let from = Some((text, rela.r_offset.get(LE)));
                push(instruction.and_then(|i| meaning(rela, &i)).or(Some(addend)), from);
            }
            ReferenceSource::Raw if matches!(type_of(rela), R_X86_64_PC32 | R_X86_64_PLT32) => {
                for distance in [4, 5, 6, 8] {
                    push(addend.checked_add(distance), None);
                }
            }
            ReferenceSource::Raw | ReferenceSource::Data => push(Some(addend), None),
            ReferenceSource::Unwind | ReferenceSource::Other => {}
        }
    }
}

/// Whether a place in data belongs to assembly (`1: nop; .pushsection places; .quad 1b`), which names places in code
/// directly: it is in no object, and compilers do not choose its section's name.
pub(super) fn is_hand_written(context: &SplitContext<'_, '_>, (section, place): SectionPlace) -> bool {
    let header = context.tables.sections.get(section as usize);
    let chosen = header.is_none_or(|header| context.tables.name(header.name).starts_with(b"."));
    let holds = |symbol: &Symbol| match symbol.definition {
        Definition::Atom(atom) if context.section_of(atom) == Some(section) => {
            symbol.value <= place && place - symbol.value < symbol.size
        }
        _ => false,
    };
    !chosen && !context.symbols.iter().any(holds)
}

/// The functions that data names. An address without a name is not one of these less a tag.
struct NamedFunctions {
    /// By text and function: it has no local symbol. Compilers use the names of such functions in data. In code clang
    /// may use an address relative to a label (`.Lf$local`).
    global: Vec<Vec<bool>>,
    /// The objects in data: section, start and end, sorted. They are not assembly of the program.
    objects: Vec<(u32, u64, u64)>,
}

impl NamedFunctions {
    fn new(context: &SplitContext<'_, '_>, texts: &[Text<'_>]) -> Self {
        let mut global: Vec<Vec<bool>> = texts.iter().map(|t| vec![true; t.functions.len()]).collect();
        let mut objects = Vec::new();
        for symbol in context.symbols.iter().filter(|s| s.kind != SymbolKind::Section) {
            let Definition::Atom(atom) = symbol.definition else { continue };
            let Some(section) = context.section_of(atom) else { continue };
            match context.text_of(section) {
                Some(text) if symbol.binding == Binding::Local => {
                    let function = texts.get(text).and_then(|t| t.function_at(symbol.value));
                    let known = function.and_then(|f| global.get_mut(text)?.get_mut(f));
                    if let Some(known) = known {
                        *known = false;
                    }
                }
                None if symbol.kind == SymbolKind::Object => {
                    objects.push((section, symbol.value, symbol.value.saturating_add(symbol.size)));
                }
                _ => {}
            }
        }
        objects.sort_unstable();
        NamedFunctions { global, objects }
    }

    /// Whether an unnamed address at this place can't mean the function behind `offset` less a tag.
    fn excludes(&self, (section, place): SectionPlace, texts: &[Text<'_>], text: usize, offset: u64) -> bool {
        let before = self.objects.partition_point(|(s, start, _)| (*s, *start) <= (section, place));
        let object = before.checked_sub(1).and_then(|at| self.objects.get(at));
        let is_of_object = object.is_some_and(|(s, _, end)| *s == section && place < *end);
        let function = texts.get(text).and_then(|t| t.function_at(offset));
        let next = function.and_then(|f| self.global.get(text)?.get(f + 1));
        is_of_object && next.is_none_or(|global| *global)
    }
}

/// Whether the relocation at `place` is in an operand that reads or writes memory.
fn accesses(instruction: &Instruction, place: u64) -> bool {
    instruction.field == Field::RipRelative { access: true } && instruction.displacement_at() == place
}

/// The distance from the symbol of a relocation in a decoded instruction to the meant place; `None` if it is unknown.
fn meaning(rela: &Rela, instruction: &Instruction) -> Option<i64> {
    let (place, addend) = (rela.r_offset.get(LE), rela.r_addend.get(LE));
    let is_displacement = place == instruction.displacement_at() && instruction.displacement().1 != 0;
    match type_of(rela) {
        R_X86_64_PC32 | R_X86_64_PLT32
            if is_displacement && matches!(instruction.field, Field::Branch | Field::RipRelative { .. }) =>
        {
            addend.checked_add(i64::try_from(instruction.end().checked_sub(place)?).ok()?)
        }
        // The registers that are added to an absolute displacement are unknown. GOTOFF64 is an immediate.
        R_X86_64_64 | R_X86_64_32 | R_X86_64_32S if is_displacement => {
            (instruction.field == Field::Displacement { registers: false }).then_some(addend)
        }
        R_X86_64_64 | R_X86_64_32 | R_X86_64_32S | R_X86_64_GOTOFF64 => Some(addend),
        _ => None,
    }
}
