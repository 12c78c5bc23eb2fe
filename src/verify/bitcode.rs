//! The check of a rewritten module of bitcode against its plan.
//!
//! Every value must be in its place. A kept one is unchanged, the body of a stub traps, and a dropped one is a weak
//! declaration, which needs no definition. No kept value may mention a dropped one: the linker would use a null
//! address without a message. The IR itself is checked, and not the references that the plan was made from. Metadata
//! is not checked, as code does not need it. The reader is that of emission, and so is the text of a stub's assembly.

use summaries::bitcode;
use summaries::bitcode::file::BitcodeFile;
use summaries::bitcode::ir::constants::ConstantKind;
use summaries::bitcode::ir::function::{Body, ValueDefinition};
use summaries::bitcode::ir::instruction::InstructionKind;
use summaries::bitcode::ir::mentions::MentionSearch;
use summaries::bitcode::ir::{self, Global, GlobalKind, IrModule, ValueId};
use summaries::bitcode::linkage::Linkage;
use summaries::bitcode::module::GlobalValue;
use summaries::bitcode::symbols::{self, ValueAt};

use super::closure::SymbolFacts;
use crate::emit::bitcode::{ValueFate, assembly};
use crate::error::{Error, Result, Stage};

/// Compare `pruned` with `original` and the fate of each value.
///
/// # Errors
/// The first value that is wrong.
pub fn bitcode(
    name: &str,
    original: &[u8],
    pruned: &[u8],
    fate: &dyn Fn(ValueAt) -> ValueFate,
) -> Result<()> {
    let failed = |what: String| Error::new(Stage::Verify, what).in_file(name);
    let read = |bytes| bitcode::read(bytes).map_err(|e| failed(format!("LLVM bitcode: {e}")));
    let (before, after) = (read(original)?, read(pruned)?);
    if before.modules.len() != after.modules.len() {
        return Err(failed("a module is missing".to_owned()));
    }
    for (m, (old, new)) in before.modules.iter().zip(&after.modules).enumerate() {
        if old.values.len() != new.values.len() || old.asm != new.asm {
            return Err(failed("its values are not what they were".to_owned()));
        }
        for (v, (old, new)) in old.values.iter().zip(&new.values).enumerate() {
            let at = ValueAt { module: m as u32, value: v as u32 };
            if !is_right(old, new, fate(at)) {
                let symbol = String::from_utf8_lossy(old.name).into_owned();
                return Err(failed(format!("is not {}", word(fate(at)))).at_symbol(symbol));
            }
        }
        let entries = |file: &BitcodeFile<'_>| {
            let summary = file.modules.get(m).and_then(|module| module.summary.as_ref());
            summary.map(|s| s.entries.iter().map(|e| e.value).collect::<Vec<u32>>())
        };
        let kept = |list: Vec<u32>| {
            let stays = |value: &u32| fate(ValueAt { module: m as u32, value: *value }) != ValueFate::Drop;
            list.into_iter().filter(stays).collect::<Vec<u32>>()
        };
        if entries(&before).map(kept) != entries(&after) {
            return Err(failed("its summary has other entries than it should".to_owned()));
        }
    }
    match wrong(&before, (original, pruned), fate) {
        Ok(None) => Ok(()),
        Ok(Some(IrMismatch::Mention(from, to))) => {
            Err(failed(format!("mentions {to}, which is dropped")).at_symbol(from))
        }
        Ok(Some(IrMismatch::Body(function))) => {
            Err(failed("is not made of what it should be".to_owned()).at_symbol(function))
        }
        Err(error) => Err(failed(format!("LLVM bitcode: {error}"))),
    }
}

enum IrMismatch {
    /// The first value is kept and mentions the second, which is dropped.
    Mention(String, String),
    /// The value of this name changed, or is a stub that does not trap.
    Body(String),
}

/// The first mistake in the kept values of the `pruned` bytes. Names are those of the original file.
fn wrong(
    file: &BitcodeFile<'_>,
    (original, pruned): (&[u8], &[u8]),
    fate: &dyn Fn(ValueAt) -> ValueFate,
) -> bitcode::error::Result<Option<IrMismatch>> {
    let (before, ir) = (ir::read(original)?, ir::read(pruned)?);
    for (m, (module, of_ir)) in file.modules.iter().zip(&ir.modules).enumerate() {
        let fate = |value: ValueId| fate(ValueAt { module: m as u32, value: value.0 });
        let goes = |value: &ValueId| {
            let of = module.values.get(value.0 as usize);
            fate(*value) == ValueFate::Drop && of.is_some_and(|v| !v.is_intrinsic())
        };
        let name = |value: ValueId| {
            let of = module.values.get(value.0 as usize);
            String::from_utf8_lossy(of.map_or(&[][..], |v| v.name)).into_owned()
        };
        let mut mentions = MentionSearch::new(of_ir);
        for (v, (value, global)) in module.values.iter().zip(&of_ir.globals).enumerate() {
            let id = ValueId(v as u32);
            let is_metadata = symbols::is_metadata(module, value) && !symbols::keeps_its_elements(value.name);
            if fate(id) == ValueFate::Drop || is_metadata {
                continue;
            }
            let old = before.modules.get(m).and_then(|m| m.globals.get(v));
            if fate(id) == ValueFate::Keep && old.map(without_body) != Some(without_body(global)) {
                return Ok(Some(IrMismatch::Body(name(id))));
            }
            let mut operands = Vec::new();
            global.each_operand(|operand| operands.push(operand));
            if let Some(to) = mentions.of_values(operands).iter().find(|to| goes(to)) {
                return Ok(Some(IrMismatch::Mention(name(id), name(*to))));
            }
        }
        let (Some(old), Some(reader)) = (before.reader(m)?, ir.reader(m)?) else { continue };
        // Bodies are in the order of their functions, without those of dropped ones.
        let mut bodies = 0..of_ir.bodies.len();
        for index in 0..before.modules.get(m).map_or(0, |m| m.bodies.len()) {
            let Some(was) = old.body(index)? else { continue };
            if fate(was.function) == ValueFate::Drop {
                continue;
            }
            let body = bodies.next().map(|index| reader.body(index)).transpose()?.flatten();
            let Some(body) = body else { return Ok(Some(IrMismatch::Body(name(was.function)))) };
            let expected = || {
                let of = module.values.get(was.function.0 as usize);
                assembly(of.map_or(&[][..], |v| v.name))
            };
            let is_right = match fate(was.function) {
                ValueFate::Stub => body.function == was.function && traps(of_ir, &body, &expected()),
                ValueFate::Keep | ValueFate::Drop => body == was,
            };
            if !is_right {
                return Ok(Some(IrMismatch::Body(name(was.function))));
            }
            if let Some(to) = mentions.of_body(&body).iter().find(|to| goes(to)) {
                return Ok(Some(IrMismatch::Mention(name(body.function), name(*to))));
            }
        }
    }
    Ok(None)
}

/// A global value without its body, whose place changes when other bodies are dropped.
fn without_body(global: &Global) -> Global {
    let mut global = *global;
    if let GlobalKind::Function { body, .. } = &mut global.kind {
        *body = None;
    }
    global
}

/// Whether a body is the assembly that traps, and `unreachable`.
fn traps(module: &IrModule, body: &Body, expected: &str) -> bool {
    let [first, last] = body.instructions.as_slice() else { return false };
    let InstructionKind::Call(call) = &first.kind else { return false };
    let constant = match body.definition(call.callee) {
        Some(ValueDefinition::Constant(index)) => body.constants.all.get(index as usize),
        _ => module.constant(call.callee),
    };
    constant.is_some_and(
        |c| matches!(&c.kind, ConstantKind::InlineAsm { text, .. } if **text == *expected.as_bytes()),
    ) && matches!(last.kind, InstructionKind::Unreachable)
}

fn word(action: ValueFate) -> &'static str {
    match action {
        ValueFate::Keep => "what it was",
        ValueFate::Drop => "gone",
        ValueFate::Stub => "a stub",
    }
}

fn is_right(old: &GlobalValue<'_>, new: &GlobalValue<'_>, action: ValueFate) -> bool {
    let is_weak = new.declaration && new.linkage == Linkage::ExternWeak;
    match action {
        // Intrinsics are always kept.
        ValueFate::Drop => is_weak || old == new && old.is_intrinsic(),
        ValueFate::Keep => old == new,
        ValueFate::Stub => old == new && !new.declaration,
    }
}

/// The names that a module of bitcode defines and refers to. A rewritten module has no symbol table. Names in inline
/// assembly are only in that of the `original`, and the assembly is kept.
pub fn bitcode_facts<'a>(original: &'a [u8], pruned: Option<&'a [u8]>) -> SymbolFacts {
    let symbols = |bytes: &'a [u8]| bitcode::read(bytes).map(|file| symbols::of_file(&file).symbols);
    let mut all = symbols(pruned.unwrap_or(original)).unwrap_or_default();
    if pruned.is_some() {
        let of_assembly = symbols(original).unwrap_or_default().into_iter().filter(|s| s.value.is_none());
        all.extend(of_assembly);
    }
    let defined = all.iter().filter(|s| !s.undefined).map(|s| s.name);
    // A weak reference needs no definition.
    let referenced = all.iter().filter(|s| s.undefined && !s.weak).map(|s| s.name);
    SymbolFacts::new(defined, referenced)
}
