//! Constraint generation for calls: the callees, and the values that are passed and returned.
//!
//! If another definition may prevail over one of this module, a call reaches both: link-time optimisation may inline the module's own.
//! Arguments of inline assembly escape, unless it does nothing or only asks the processor for numbers ([`assembly`]). A function is not
//! analysed if a call has a convention other than the C one, or an operand bundle that changes the call. The same holds for a `musttail`
//! call in a variadic function, which passes on all arguments (LLVM, "Language Reference", `call`).

use super::super::ir::ValueId;
use super::super::ir::constants::ConstantKind;
use super::super::ir::instruction::{CallArgument, CallKind, IrCall, IrInstruction};
use super::abi::{self, ArgumentPlaces, Slot};
use super::body::BodyBuilder;
use super::names::NotFollowed;
use super::{assembly, intrinsics};
use crate::ids::ValueIdx;
use crate::registers::Register;
use crate::relation::{CallSite, Callee, Constraint, Place};

/// Tags of operand bundles that describe the call and have no effect.
const HARMLESS_BUNDLES: [&[u8]; 3] = [b"kcfi", b"ptrauth", b"convergencectrl"];

impl<'m> BodyBuilder<'m> {
    pub(super) fn call(
        &mut self,
        call: &'m IrCall,
        instruction: &IrInstruction,
        to: Option<ValueIdx>,
    ) -> Result<(), NotFollowed> {
        let module = self.module();
        if let Some(name) = self.names.intrinsic(call.callee) {
            return intrinsics::call(self, name, call, instruction, to);
        }
        for bundle in &call.bundles {
            let tag = module.bundle_tags.get(bundle.tag as usize);
            if !tag.is_some_and(|tag| HARMLESS_BUNDLES.contains(&tag.as_slice())) {
                return Err(NotFollowed("a call with operands of its own"));
            }
        }
        let callee = self.values.constant(call.callee).map(|c| &c.kind);
        if let Some(ConstantKind::InlineAsm { text, constraints }) = callee {
            if assembly::does_nothing(text, constraints) {
                return Ok(());
            }
            if assembly::gives_numbers(text, constraints) {
                call.each_operand(|operand| self.compare(operand));
                return Ok(());
            }
            self.has_assembly |= !text.is_empty();
            return self.unseen(call, to);
        }
        let passing = abi::passing(module, call.attributes, call.calling_convention)
            .ok_or(NotFollowed("arguments that are passed in a way of their own"))?;
        if matches!(call.kind, CallKind::Call { must_tail: true, .. }) && self.is_variadic() {
            return Err(NotFollowed("a call that passes on what the function got without a name"));
        }
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            match argument {
                CallArgument::Value(value) => arguments.push(*value),
                CallArgument::Block(_) | CallArgument::Metadata(_) => {
                    return Err(NotFollowed("an argument that is no value"));
                }
            }
        }
        let parameters = module.types.function(call.function_type).map_or(&[][..], |(_, types, _)| types);
        // If the callee value has no function type, the call gives the types.
        let types = arguments
            .iter()
            .enumerate()
            .map(|(i, id)| self.body.type_of(module, *id).or_else(|| parameters.get(i).copied()));
        let places = abi::arguments(module, self.values.sizes, types, &passing);
        let mut site = self.new_site(call, to)?;
        match places {
            ArgumentPlaces::Each(slots) => {
                for (id, slot) in arguments.iter().zip(slots) {
                    let Some(value) = self.value(*id)? else { continue };
                    match slot {
                        Slot::Register(register) => site.actuals.push((register, value)),
                        Slot::Stack(offset) => site.stack.push((offset, value)),
                    }
                }
                site.actuals.sort_unstable();
            }
            ArgumentPlaces::Any => {
                let any = self.fresh();
                let stack = self.frame(None);
                for (i, id) in arguments.iter().enumerate() {
                    if passing.by_value.contains(&(i as u32))
                        && let Some(value) = self.value(*id)?
                    {
                        let (from, to) =
                            (Place { value, offset: Some(0) }, Place { value: stack, offset: None });
                        self.push(Constraint::Copy { from, to, size: 0 });
                        // The address is never in a register, but the pointee's bytes may be.
                        self.push(Constraint::Load { from: Place { value, offset: None }, to: any, size: 0 });
                        continue;
                    }
                    self.assign(*id, Some(any), Some(0))?;
                }
                self.push(Constraint::Store { from: any, to: Place { value: stack, offset: None }, size: 0 });
                site.actuals = abi::passed().map(|register| (register, any)).collect();
                site.stack_in_frame = Some(None);
            }
        }
        self.callees(call.callee, site)
    }

    fn is_variadic(&self) -> bool {
        self.names.function(self.body.function).is_none_or(|f| f.variadic)
    }

    fn new_site(&mut self, call: &IrCall, to: Option<ValueIdx>) -> Result<CallSite, NotFollowed> {
        let module = self.module();
        let (result, _, _) =
            module.types.function(call.function_type).ok_or(NotFollowed("a call of no function type"))?;
        let registers: &[Register] = match to {
            Some(_) => abi::results(module, self.values.sizes, result),
            None => &[],
        };
        Ok(CallSite {
            section: self.section,
            offset: u64::from(self.instruction) << 4,
            callee: Callee::Indirect(ValueIdx(0)),
            jump: false,
            actuals: Vec::new(),
            stack: Vec::new(),
            no_vectors: false,
            formats: Vec::new(),
            stack_in_frame: None,
            results: to.into_iter().flat_map(|to| registers.iter().map(move |r| (*r, to))).collect(),
        })
    }

    /// The sites of a call: one for each possible definition, or one for all functions that the callee value holds.
    fn callees(&mut self, callee: ValueId, site: CallSite) -> Result<(), NotFollowed> {
        let places = self.values.places(callee).ok_or(NotFollowed("a constant of very many parts"))?;
        let direct = match places.as_slice() {
            [(global, Some(0))] if self.names.is_function(*global) => self.names.targets(*global),
            _ => Vec::new(),
        };
        if direct.is_empty() {
            let value = match self.value(callee)? {
                Some(value) => value,
                // Code at a number: its value holds nothing, as a pointer.
                None if self.is_number(callee) => self.fresh(),
                // A null pointer: nothing is called.
                None => return Ok(()),
            };
            self.site(CallSite { callee: Callee::Indirect(value), ..site });
            return Ok(());
        }
        for (i, target) in direct.into_iter().enumerate() {
            let callee = Callee::Direct { target, offset: 0 };
            let offset = site.offset.saturating_add(i as u64);
            self.site(CallSite { callee, offset, ..site.clone() });
        }
        Ok(())
    }

    /// External code gets the arguments, and may return any escaped address.
    pub(super) fn unseen(&mut self, call: &IrCall, to: Option<ValueIdx>) -> Result<(), NotFollowed> {
        for argument in call.arguments.iter().chain(call.bundles.iter().flat_map(|b| &b.operands)) {
            if let CallArgument::Value(value) = argument {
                self.escape(*value)?;
            }
        }
        if let Some(to) = to {
            self.push(Constraint::Unknown { to });
        }
        Ok(())
    }
}
