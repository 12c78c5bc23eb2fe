//! Constraint generation for LLVM IR: constraints of functions and references of data, in the same form as the native front end's.
//!
//! The IR has named values, typed memory and explicit arguments, so nothing is recovered. But the module is optimised again before it
//! runs, and link-time optimisation may use any definition's body or contents. So a reference to a definition that may be replaced refers
//! to both definitions. If a function cannot be analysed, all that it refers to escapes. If a module cannot be analysed, it is linked
//! unchanged. Metadata is ignored; `resolve` in the tool adds the references of code generation.

mod abi;
mod assembly;
mod body;
mod calls;
mod exposures;
mod initializer;
mod intrinsics;
mod mapping;
mod numbers;
mod names;
mod places;

use std::ops::Range;

use rustc_hash::FxHashSet;

use super::file::BitcodeFile;
use super::ir::attributes::kind;
use super::ir::constants::ConstantKind;
use super::ir::function::Body;
use super::ir::mentions::MentionSearch;
use super::ir::{self, BodyReader, GlobalKind, IrModule, ValueId};
use super::linkage::Linkage;
use super::lower::Numbering;
use super::module::Module;
use super::symbols;
use crate::ids::{AtomIdx, ValueIdx};
use crate::limit::{Limit, LimitRecord};
use crate::parallel::{ParallelMap, collect};
use crate::relation::FunctionSummary;
use crate::summary::{Reference, ReferenceKind, Target};
use body::BodySummary;
use names::{GlobalNames, GlobalNumbers, NotFollowed};
use places::{ConstantValues, LABEL};

/// The initializers of a module may have this many constants, in addition to the number of constants in the module.
const INITIALIZER_BUDGET: usize = 1 << 20;

/// Bodies of a work item: enough to amortise the scheduling, and the reading of the module's abbreviations.
const PIECE: usize = 64;

/// The map from values of a function's body to values of its summary, for a comparison of the two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalValues {
    pub atom: AtomIdx,
    /// Parameters, instructions and constants that are operands, ascending. Values that are not listed hold no address.
    pub values: Vec<(ValueId, ValueIdx)>,
}

/// The value flow of a module: references, summaries, sizes and limits.
#[derive(Debug, Default)]
pub(super) struct ModuleValueFlow {
    /// The references by atom, then in the order of the module.
    pub(super) references: Vec<Reference>,
    /// The elements are indexed by atom.
    pub(super) functions: Vec<FunctionSummary>,
    /// The sizes in bytes: of a variable in memory, and of the bitcode block of a function's body.
    pub(super) sizes: Vec<(AtomIdx, u64)>,
    /// Functions that may take arguments in any register.
    pub(super) takes_registers: Vec<AtomIdx>,
    /// Functions that have assembly in them, or may.
    pub(super) runs_unseen: Vec<AtomIdx>,
    pub(super) limits: Vec<LimitRecord>,
    /// The local values of each of `functions`, in the order of the module; only if requested.
    pub(super) locals: Vec<LocalValues>,
}

/// The functions with a basic block whose address a body takes, ascending.
fn labelled(body: &Body) -> Vec<ValueId> {
    let of = body.constants.all.iter().filter_map(|constant| match constant.kind {
        ConstantKind::BlockAddress { function, .. } => Some(function),
        _ => None,
    });
    let mut of: Vec<ValueId> = of.collect();
    of.sort_unstable();
    of.dedup();
    of
}

/// Insert into an ascending list unless it is there.
fn insert(list: &mut Vec<ValueId>, value: ValueId) {
    if let Err(at) = list.binary_search(&value) {
        list.insert(at, value);
    }
}

/// The requested results; each request includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FlowRequest {
    /// The references of each function and initializer ([`ModuleValueFlow::references`]), and their sizes.
    References,
    /// The functions of [`ModuleValueFlow::functions`], and their limits.
    Functions,
    /// The map from values of a body to values of its summary ([`ModuleValueFlow::locals`]), for a comparison.
    Locals,
}

/// Analyse the values of a file. `Err` is the reason why it is linked unchanged.
pub(super) fn follow(
    bytes: &[u8],
    file: &BitcodeFile<'_>,
    numbering: &Numbering,
    sections: &(dyn Fn(AtomIdx) -> u32 + Sync),
    wanted: FlowRequest,
    parallel_map: ParallelMap<'_>,
) -> Result<ModuleValueFlow, String> {
    let ir = ir::read(bytes).map_err(|e| e.to_string())?;
    if file.modules.is_empty() || file.modules.len() != ir.modules.len() {
        return Err("LLVM bitcode without a module".to_owned());
    }
    let mut out = ModuleValueFlow::default();
    for (number, (module, ir_module)) in file.modules.iter().zip(&ir.modules).enumerate() {
        if !ir_module.is_understood() {
            let what: Vec<&str> =
                [&ir_module.unknown, &ir_module.types.unknown, &ir_module.constants.unknown]
                    .into_iter()
                    .flatten()
                    .map(String::as_str)
                    .collect();
            return Err(format!("LLVM bitcode with {}", what.join(", ")));
        }
        let (Some(atoms), Some(symbols)) = (numbering.atoms.get(number), numbering.symbols.get(number))
        else {
            return Err("LLVM bitcode whose values are not understood".to_owned());
        };
        let numbers = GlobalNumbers { atoms, symbols };
        let sizes = ir_module.layout.sizes(&ir_module.types);
        let names = GlobalNames::new(module, ir_module, &numbers);
        let values = ConstantValues { module: ir_module, sizes: &sizes, body: None };
        let builder = || ModuleFlowBuilder {
            module,
            ir: ir_module,
            numbers,
            names: &names,
            values,
            mentions: MentionSearch::new(ir_module),
            wanted,
            out: ModuleValueFlow::default(),
        };
        let mut variables = builder();
        variables.check()?;
        variables.variables()?;
        out.append(variables.out);
        let pieces = ir_module.bodies.len().div_ceil(PIECE);
        let functions = collect(parallel_map, pieces, |piece| {
            let reader = ir.reader(number).map_err(|e| e.to_string())?;
            let mut functions = builder();
            let first = piece * PIECE;
            let bodies = first..ir_module.bodies.len().min(first + PIECE);
            functions.functions(&reader.ok_or("LLVM bitcode without a module")?, bodies, sections)?;
            Ok::<_, String>(functions.out)
        });
        for piece in functions {
            out.append(piece?);
        }
    }
    out.references.sort_by_key(|r| (r.from, r.offset));
    out.functions.sort_by_key(|f| f.atom);
    Ok(out)
}

impl ModuleValueFlow {
    /// Appends the value flow of a later part of the file.
    fn append(&mut self, mut later: ModuleValueFlow) {
        self.references.append(&mut later.references);
        self.functions.append(&mut later.functions);
        self.sizes.append(&mut later.sizes);
        self.takes_registers.append(&mut later.takes_registers);
        self.runs_unseen.append(&mut later.runs_unseen);
        self.limits.append(&mut later.limits);
        self.locals.append(&mut later.locals);
    }
}

struct ModuleFlowBuilder<'m> {
    module: &'m Module<'m>,
    ir: &'m IrModule,
    numbers: GlobalNumbers<'m>,
    names: &'m GlobalNames<'m>,
    values: ConstantValues<'m>,
    mentions: MentionSearch<'m>,
    wanted: FlowRequest,
    out: ModuleValueFlow,
}

impl ModuleFlowBuilder<'_> {
    fn atom(&self, value: usize) -> Option<AtomIdx> {
        self.numbers.atom(value)
    }

    /// Refuse a module whose data has no place in a summary.
    fn check(&self) -> Result<(), String> {
        for (v, (value, global)) in self.module.values.iter().zip(&self.ir.globals).enumerate() {
            let name = || String::from_utf8_lossy(value.name).into_owned();
            if symbols::base_object(self.module, v as u32).is_none() {
                return Err(format!("LLVM bitcode with the alias {} of an expression", name()));
            }
            if let GlobalKind::Function { prologue: Some(_), .. }
            | GlobalKind::Function { prefix: Some(_), .. } = global.kind
            {
                return Err(format!("LLVM bitcode with data before function {}", name()));
            }
        }
        if self.module.values.len() != self.ir.globals.len() {
            return Err("LLVM bitcode whose values are not understood".to_owned());
        }
        Ok(())
    }

    /// Add a reference to each target of a value: both definitions if one may be replaced.
    fn refer(&mut self, from: AtomIdx, offset: u64, kind: ReferenceKind, value: ValueId, addend: i64) {
        for target in self.names.targets(value) {
            self.out.references.push(Reference { from, offset, kind, target, addend });
        }
    }

    fn variables(&mut self) -> Result<(), String> {
        let mut budget = INITIALIZER_BUDGET.saturating_add(self.ir.values() as usize);
        for (v, global) in self.ir.globals.iter().enumerate() {
            let (GlobalKind::Variable { initializer }, Some(atom)) = (global.kind, self.atom(v)) else {
                continue;
            };
            let value = self.module.values.get(v);
            let name = || String::from_utf8_lossy(value.map_or(&[][..], |v| v.name)).into_owned();
            let size = self.values.sizes.of(global.ty).map(|s| s.alloc);
            let size =
                size.ok_or_else(|| format!("LLVM bitcode with variable {} of unknown size", name()))?;
            self.out.sizes.push((atom, size));
            let Some(initializer) = initializer else { continue };
            let stored = initializer::stored(self.values, initializer, &mut budget);
            let stored =
                stored.ok_or_else(|| format!("LLVM bitcode with an initializer of {} too large", name()))?;
            for found in stored {
                let (value, offset) = found.place;
                // Code that takes the address from here may call the function with any arguments.
                if self.wanted >= FlowRequest::Functions
                    && let Some(maps) = mapping::of(self.module, value)
                {
                    let names = [maps.name, self.module.values.get(v).map_or(&[][..], |v| v.name)];
                    let names = names.map(String::from_utf8_lossy);
                    let detail = format!("variable {} holds the address of {}", names[1], names[0]);
                    let limit = Limit::FixedMapping;
                    self.out.limits.push(LimitRecord {
                        limit,
                        section: None,
                        offset: None,
                        bytes: 0,
                        detail,
                    });
                }
                let kind = if found.plain { ReferenceKind::Data } else { ReferenceKind::Address };
                self.refer(atom, found.at, kind, value, offset.unwrap_or(LABEL));
            }
        }
        Ok(())
    }

    fn functions(
        &mut self,
        reader: &BodyReader<'_>,
        bodies: Range<usize>,
        sections: &dyn Fn(AtomIdx) -> u32,
    ) -> Result<(), String> {
        for index in bodies {
            let body = reader.body(index).map_err(|e| e.to_string())?.ok_or("a body that is not there")?;
            let Some(atom) = self.atom(body.function.0 as usize) else { continue };
            let name = self.module.values.get(body.function.0 as usize).map_or(&[][..], |v| v.name);
            if !body.is_understood() {
                let name = String::from_utf8_lossy(name);
                return Err(format!("LLVM bitcode with function {name} that is not understood"));
            }
            let linkage = self.module.values.get(body.function.0 as usize).map(|v| v.linkage);
            // No code is made of a copy for inlining.
            if let Some(place) =
                self.ir.bodies.get(index).filter(|_| linkage != Some(Linkage::AvailableExternally))
            {
                self.out.sizes.push((atom, place.place.size()));
            }
            let section = sections(atom);
            let mut mentioned = self.mentions.of_body(&body);
            let (summary, escaping, compared) = match self.wanted >= FlowRequest::Functions {
                true => self.summarise(&body, name, atom, section),
                false => (None, Vec::new(), Vec::new()),
            };
            let mut labelled = labelled(&body);
            // Type tests recognise the address by the metadata of the function, which a stub does not have.
            if body.has_type {
                insert(&mut labelled, body.function);
                insert(&mut mentioned, body.function);
            }
            // The address of a label is an offset other than the entry, so that its function is not made a stub.
            let mentioned = mentioned.into_iter().map(|value| {
                let addend = if labelled.binary_search(&value).is_ok() { LABEL } else { 0 };
                (value, addend)
            });
            self.mentions_of(atom, section, mentioned, summary, &escaping, &compared);
            let personality = match self.ir.global(body.function).map(|g| g.kind) {
                Some(GlobalKind::Function { personality, .. }) => personality,
                _ => None,
            };
            for value in self.mentions.of_values(personality) {
                self.refer(atom, 0, ReferenceKind::Unwind, value, 0);
            }
        }
        Ok(())
    }

    /// The summary of a function, if it is analysed; then the global values that also escape and those that it compares.
    fn summarise(
        &mut self,
        body: &Body,
        name: &[u8],
        atom: AtomIdx,
        section: u32,
    ) -> (Option<FunctionSummary>, Vec<ValueId>, Vec<ValueId>) {
        let values = ConstantValues { body: Some(body), ..self.values };
        let mut limit = |limit, detail| {
            self.out.limits.push(LimitRecord {
                limit,
                section: Some(section),
                offset: None,
                bytes: 0,
                detail,
            });
        };
        if let Some(callee) = mapping::chooses_a_place(self.module, values, body) {
            let names = [callee, name].map(String::from_utf8_lossy);
            let detail = format!("function {}: a call of {} may say where", names[1], names[0]);
            limit(Limit::FixedMapping, detail);
        }
        let function = self.names.function(body.function);
        let attributes = &self.ir.attributes;
        let is_naked = function
            .as_ref()
            .is_none_or(|f| attributes.of_function(f.attributes, kind::NAKED).unwrap_or(true));
        let is_ordinary =
            function.is_some_and(|f| abi::passing(self.ir, f.attributes, f.convention).is_some());
        if !is_ordinary {
            self.out.takes_registers.push(atom);
        }
        let summary = match is_naked {
            true => Err(NotFollowed("assembly for a body")),
            false => body::summarise(values, body, self.names, atom, section),
        };
        match summary {
            Ok(BodySummary { summary, escaping, compared, local, constants, has_assembly }) => {
                if has_assembly {
                    self.out.runs_unseen.push(atom);
                }
                if self.wanted >= FlowRequest::Locals {
                    let local = (body.first_parameter.0..).map(ValueId).zip(local);
                    let all = local.chain(constants).filter_map(|(id, value)| Some((id, value?)));
                    let mut values: Vec<(ValueId, ValueIdx)> = all.collect();
                    values.sort_unstable();
                    self.out.locals.push(LocalValues { atom, values });
                }
                (Some(summary), escaping, compared)
            }
            Err(NotFollowed(what)) => {
                let detail = format!("function {}: {what}", String::from_utf8_lossy(name));
                let section = Some(section);
                let limit = Limit::NotPsabi;
                self.out.limits.push(LimitRecord { limit, section, offset: None, bytes: 0, detail });
                self.out.runs_unseen.push(atom);
                (None, Vec::new(), Vec::new())
            }
        }
    }

    /// The references of a function: one for each global value that it refers to, at distinct places. If the value also escapes, there is
    /// a second one without a constraint.
    fn mentions_of(
        &mut self,
        atom: AtomIdx,
        section: u32,
        mentioned: impl Iterator<Item = (ValueId, i64)>,
        summary: Option<FunctionSummary>,
        escaping: &[ValueId],
        compared: &[ValueId],
    ) {
        let mut at = 0;
        let mut covered_references = Vec::new();
        let mut address_taken_only = Vec::new();
        let named: FxHashSet<Target> = summary.iter().flat_map(|s| s.named()).collect();
        for (value, addend) in mentioned {
            self.refer(atom, at, ReferenceKind::Address, value, addend);
            // Intrinsic functions are not linked, so they need no reference.
            if summary.is_some() && !self.names.targets(value).is_empty() {
                let targets = self.names.targets(value);
                // A reference that has neither a constraint nor a comparison escapes.
                if compared.binary_search(&value).is_ok() || targets.iter().all(|t| named.contains(t)) {
                    covered_references.push((section, at));
                    address_taken_only.extend(targets.into_iter().filter(|t| !named.contains(t)));
                }
            }
            at += 1;
        }
        for value in escaping {
            self.refer(atom, at, ReferenceKind::Address, *value, 0);
            at += 1;
        }
        if let Some(mut summary) = summary {
            address_taken_only.sort_unstable();
            address_taken_only.dedup();
            (summary.covered_references, summary.address_taken_only) =
                (covered_references, address_taken_only);
            self.out.functions.push(summary);
        }
    }
}
