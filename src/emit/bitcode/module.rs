//! The rewriter of one module: its records of values, the bodies of its functions, and the blocks that name values or
//! places.
//!
//! The bodies come in the order of the functions' records (LLVM, `rememberAndSkipFunctionBody`). The table of their
//! places must agree, or the module is rejected.

use summaries::bitcode::codes::{block, metadata, module as code, types as ty, value_symtab};
use summaries::bitcode::module::{Module, ValueKind};
use summaries::bitcode::stream::Event;
use summaries::bitcode::symbols::ValueAt;

use super::copier::BitstreamCopier;
use super::error::{RewriteError, Unsupported, ValueFate};
use super::stub::{self, StubTypes};
use super::survey::{Survey, Types};
use super::values::ValueNames;
use super::{summary, values};
use crate::hashing;

/// The fate of each value of a module, by value id.
pub(super) fn fates(
    survey: &Survey<'_>,
    number: u32,
    module: &Module<'_>,
    actions: &impl Fn(ValueAt) -> ValueFate,
) -> Result<Vec<ValueFate>, RewriteError> {
    let mut fates = Vec::with_capacity(module.values.len());
    for (id, value) in module.values.iter().enumerate() {
        let at = ValueAt { module: number, value: id as u32 };
        let action = actions(at);
        if let Some(why) = survey.forbids(at, action) {
            return Err(RewriteError::Value { at, why });
        }
        fates.push(if value.is_intrinsic() { ValueFate::Keep } else { action });
    }
    let fate = |id: u32| fates.get(id as usize).copied().unwrap_or(ValueFate::Keep);
    for (id, value) in module.values.iter().enumerate().filter(|(id, _)| fate(*id as u32) == ValueFate::Keep)
    {
        let to = match value.kind {
            ValueKind::Alias { aliasee } => aliasee,
            ValueKind::Ifunc { resolver } => resolver,
            _ => continue,
        };
        // LLVM needs a definition behind an alias.
        if fate(to) == ValueFate::Drop {
            return Err(RewriteError::Refers { from: ValueAt { module: number, value: id as u32 }, to });
        }
    }
    Ok(fates)
}

/// A module of the source, and the fates of its values.
#[derive(Clone, Copy)]
pub(super) struct SourceModule<'c, 'a> {
    pub(super) number: u32,
    pub(super) module: &'c Module<'a>,
    pub(super) types: &'c Types,
    /// The elements are indexed by value id.
    pub(super) fates: &'c [ValueFate],
    /// The hash depends on the original's too: see [`ModulePlan::same_source`](crate::plan::ModulePlan::same_source).
    pub(super) keeps_identity: bool,
}

/// A module, whose block has been opened.
pub(super) struct Rewriter<'c, 'a> {
    copier: &'c mut BitstreamCopier<'a>,
    of: SourceModule<'c, 'a>,
    names: &'c mut ValueNames<'a>,
    stub_types: Option<StubTypes>,
    /// The origin of places in the source and in the output, in bits.
    base: (u64, u64),
    /// Value id of the next record of a value.
    next_value: usize,
    /// The value ids of functions whose bodies were not read yet.
    bodies: std::vec::IntoIter<u32>,
    /// By value id: the place of the body in the source, and in the output if it is kept. Sorted, as bodies come in
    /// the order of ids.
    places: Vec<(u32, u64, Option<u64>)>,
    /// The field for the place of the table of places, in bits of the output, and its value in the source.
    table: Option<(u64, u64)>,
    /// The hash, which LLVM writes last, has been written.
    is_hashed: bool,
}

impl<'c, 'a> Rewriter<'c, 'a> {
    pub(super) fn new(
        copier: &'c mut BitstreamCopier<'a>,
        of: SourceModule<'c, 'a>,
        names: &'c mut ValueNames<'a>,
        base: (u64, u64),
    ) -> Self {
        let SourceModule { module, types, fates, .. } = of;
        let has_body =
            |i: usize| module.values.get(i).is_some_and(|v| v.kind == ValueKind::Function && !v.declaration);
        let bodies: Vec<u32> = (0..module.values.len()).filter(|i| has_body(*i)).map(|i| i as u32).collect();
        Rewriter {
            copier,
            of,
            names,
            stub_types: fates.contains(&ValueFate::Stub).then(|| StubTypes::of(types)),
            base,
            next_value: 0,
            bodies: bodies.into_iter(),
            places: Vec::new(),
            table: None,
            is_hashed: false,
        }
    }

    fn fate(&self, id: u32) -> ValueFate {
        self.of.fates.get(id as usize).copied().unwrap_or(ValueFate::Keep)
    }

    /// Rewrite the module to its end.
    pub(super) fn run(mut self) -> Result<(), RewriteError> {
        let drops = self.of.fates.iter().any(|f| *f != ValueFate::Keep);
        loop {
            match self.copier.next()? {
                Event::Enter(_) if self.is_hashed => {
                    return Err(Unsupported::Place("a block behind the hash").into());
                }
                // The reader must see this block.
                Event::Enter(block::BLOCKINFO) => self.records(block::BLOCKINFO, &[], |_, _| Ok(()))?,
                Event::Enter(block::TYPE_NEW) if self.stub_types.is_some() => self.type_table()?,
                Event::Enter(block::FUNCTION) => self.body()?,
                Event::Enter(block::VALUE_SYMTAB) => self.table_of_places()?,
                Event::Enter(block::METADATA) if drops => self.metadata()?,
                Event::Enter(id @ (block::GLOBALVAL_SUMMARY | block::FULL_LTO_GLOBALVAL_SUMMARY)) => {
                    let index = self.of.module.summary.as_ref();
                    let index = index.ok_or(Unsupported::Place("a summary"))?;
                    let fates = self.of.fates;
                    let action = |id: u32| fates.get(id as usize).copied().unwrap_or(ValueFate::Keep);
                    let functions = summary::fates(index, self.of.number, &action)?;
                    self.copier.open(id);
                    summary::rewrite(self.copier, functions, &action)?;
                }
                Event::Enter(block) => {
                    self.copier.copy_block(block)?;
                }
                Event::Record(code) => self.record(code)?,
                Event::Leave => break,
                Event::End => return Err(Unsupported::Place("a module's end").into()),
            }
        }
        if self.bodies.next().is_some() {
            return Err(Unsupported::Place("a function's body").into());
        }
        self.copier.close(&[])?;
        // It is overwritten once the table is written.
        match self.table {
            Some(_) => Err(Unsupported::Place("the table of functions").into()),
            None => Ok(()),
        }
    }

    fn record(&mut self, code: u32) -> Result<(), RewriteError> {
        if self.is_hashed {
            return Err(Unsupported::Place("a record behind the hash").into());
        }
        match code {
            code::GLOBALVAR | code::FUNCTION | code::ALIAS | code::IFUNC => {
                let fate = self.of.fates.get(self.next_value).copied().unwrap_or(ValueFate::Keep);
                self.next_value += 1;
                match fate {
                    ValueFate::Keep => {}
                    ValueFate::Drop => {
                        let new = values::dropped(code, self.copier.operands(), self.of.types, self.names);
                        let (code, ops) = new.ok_or(Unsupported::Place("a value's type"))?;
                        self.copier.replace(code, &ops);
                    }
                    ValueFate::Stub => {
                        let ops = values::stubbed(self.copier.operands());
                        self.copier.replace(code, &ops);
                    }
                }
            }
            code::VSTOFFSET => {
                // The record ends with a field of 32 bits, which is overwritten when the place is known.
                let place = self.copier.operands().first().copied().unwrap_or_default();
                self.copier.copy_record();
                let field = self.copier.out.at().saturating_sub(32);
                if place != 0 && self.copier.fixed_at_end() != Some(place) {
                    return Err(Unsupported::Place("the place of the table of functions").into());
                }
                self.table = (place != 0).then_some((field, place));
            }
            code::HASH if self.of.fates.iter().any(|f| *f != ValueFate::Keep) => {
                let out = &self.copier.out;
                let written = out.bytes().get((self.base.1 / 8) as usize..).unwrap_or_default();
                let (rest, names) = (out.rest().to_le_bytes(), self.names.text());
                let original = match self.of.keeps_identity {
                    true => self.copier.operands().iter().flat_map(|word| word.to_le_bytes()).collect(),
                    false => Vec::new(),
                };
                let digest = hashing::hash_of_parts(&[written, &rest, names[0], names[1], &original]);
                let words = digest.chunks_exact(4).map(|w| w.iter().fold(0, |v, b| v << 8 | u64::from(*b)));
                let words: Vec<u64> = words.take(5).collect();
                self.copier.replace(code, &words);
                self.is_hashed = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Copy a block of records only, and let `change` see each of them. `added` is appended.
    fn records(
        &mut self,
        block: u32,
        added: &[(u32, &[u64])],
        mut change: impl FnMut(&mut Self, u32) -> Result<(), RewriteError>,
    ) -> Result<(), RewriteError> {
        self.copier.open(block);
        loop {
            match self.copier.next()? {
                Event::Record(code) => change(self, code)?,
                Event::Leave => return self.copier.close(added),
                Event::Enter(_) | Event::End => return Err(Unsupported::Place("a block").into()),
            }
        }
    }

    /// Add the types that stubs need.
    fn type_table(&mut self) -> Result<(), RewriteError> {
        let added = self.stub_types.as_ref().map(|types| types.added.clone()).unwrap_or_default();
        let added: Vec<(u32, &[u64])> = added.iter().map(|(code, ops)| (*code, &ops[..])).collect();
        self.records(block::TYPE_NEW, &added, |this, code| {
            if code == ty::NUMENTRY {
                let count = this.copier.operands().first().copied().unwrap_or_default();
                let count = count.checked_add(added.len() as u64).ok_or(Unsupported::Size)?;
                this.copier.replace(ty::NUMENTRY, &[count]);
            }
            Ok(())
        })
    }

    /// A place as the table has it: in words, one more than from the identification on.
    fn place(at: u64, base: u64) -> Result<u64, RewriteError> {
        let bits = at.checked_sub(base).filter(|bits| bits % 32 == 0);
        Ok(bits.ok_or(Unsupported::Place("a function's body"))? / 32 + 1)
    }

    fn body(&mut self) -> Result<(), RewriteError> {
        let id = self.bodies.next().ok_or(Unsupported::Place("a function's body"))?;
        let began = self.copier.began();
        let at = match self.fate(id) {
            ValueFate::Keep => Some(self.copier.copy_block(block::FUNCTION)?),
            ValueFate::Drop => {
                self.copier.drop_block();
                None
            }
            ValueFate::Stub => {
                let at = self.copier.drop_block();
                let types = self.stub_types.as_ref().ok_or(Unsupported::Place("a stub"))?;
                let name = self.of.module.values.get(id as usize).map_or(&[][..], |v| v.name);
                let text = stub::assembly(name);
                let mut fits = true;
                self.copier.write_block(block::FUNCTION, stub::WIDTH, |out| {
                    fits = types.write_body(&text, out);
                })?;
                if !fits {
                    return Err(Unsupported::Size.into());
                }
                Some(at)
            }
        };
        let at = at.map(|at| Self::place(at, self.base.1)).transpose()?;
        self.places.push((id, Self::place(began, self.base.0)?, at));
        Ok(())
    }

    fn table_of_places(&mut self) -> Result<(), RewriteError> {
        let wrong = Unsupported::Place("the table of functions");
        let began = self.copier.began();
        let at = self.copier.open(block::VALUE_SYMTAB);
        if let Some((field, old)) = self.table.take() {
            let place = Self::place(at, self.base.1)?;
            let fits = u32::try_from(place).is_ok_and(|place| self.copier.out.patch(field, place));
            if old != Self::place(began, self.base.0)? || !fits {
                return Err(wrong.into());
            }
        }
        loop {
            match self.copier.next()? {
                Event::Record(value_symtab::FNENTRY) => {
                    let ops = self.copier.operands();
                    let &[id, place] = ops else { return Err(wrong.into()) };
                    let of_id = |(other, ..): &(u32, u64, Option<u64>)| u64::from(*other).cmp(&id);
                    let found = self.places.binary_search_by(of_id).ok().and_then(|i| self.places.get(i));
                    match found {
                        Some((_, old, Some(new))) if *old == place => {
                            self.copier.replace(value_symtab::FNENTRY, &[id, *new])
                        }
                        Some((_, old, None)) if *old == place => self.copier.drop_record(),
                        _ => return Err(wrong.into()),
                    }
                }
                Event::Leave => return self.copier.close(&[]),
                Event::Record(_) | Event::Enter(_) | Event::End => return Err(wrong.into()),
            }
        }
    }

    /// Remove the attachments of dropped values. No place of the module lies behind them.
    fn metadata(&mut self) -> Result<(), RewriteError> {
        self.records(block::METADATA, &[], |this, code| {
            let id = this.copier.operands().first().and_then(|id| u32::try_from(*id).ok());
            if code == metadata::GLOBAL_DECL_ATTACHMENT
                && id.is_some_and(|id| this.fate(id) == ValueFate::Drop)
            {
                this.copier.drop_record();
            }
            Ok(())
        })
    }
}
