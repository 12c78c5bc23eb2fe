//! A module of bitcode that was rewritten, read again and held against its plan.
//!
//! Every value is there in its place: what is kept is what it was, a stub has a body, and what is dropped is a weak declaration, which asks for no
//! definition. Nothing that stays mentions what is gone: the linker would take a null address for it and say nothing, so this is asked of the
//! IR itself, whatever references the plan was made from. Left out: metadata, which mentions nothing that code needs; and this shares its reader with
//! emission, because there is no other.

use summaries::bitcode;
use summaries::bitcode::file::BitcodeFile;
use summaries::bitcode::ir::mentions::Mentions;
use summaries::bitcode::ir::{self, ValueId};
use summaries::bitcode::linkage::Linkage;
use summaries::bitcode::module::{GlobalValue, ValueKind};
use summaries::bitcode::symbols::{self, ValueAt};

use super::Facts;
use crate::emit::bitcode::Action;
use crate::error::{Error, Result, Stage};

/// Hold `pruned` against `original` and what was to be done with each value.
///
/// # Errors
/// The first value that is not what it has to be.
pub fn bitcode(name: &str, original: &[u8], pruned: &[u8], fate: &dyn Fn(ValueAt) -> Action) -> Result<()> {
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
            let stays = |value: &u32| fate(ValueAt { module: m as u32, value: *value }) != Action::Drop;
            list.into_iter().filter(stays).collect::<Vec<u32>>()
        };
        if entries(&before).map(kept) != entries(&after) {
            return Err(failed("its summary has other entries than it should".to_owned()));
        }
    }
    match dangling(&before, pruned, fate) {
        Ok(None) => Ok(()),
        Ok(Some((from, to))) => Err(failed(format!("mentions {to}, which is dropped")).at_symbol(from)),
        Err(error) => Err(failed(format!("LLVM bitcode: {error}"))),
    }
}

/// A value that stays and in the pruned `bytes` mentions one that is dropped: the names of both, by the original file.
fn dangling(
    file: &BitcodeFile<'_>,
    bytes: &[u8],
    fate: &dyn Fn(ValueAt) -> Action,
) -> bitcode::error::Result<Option<(String, String)>> {
    let ir = ir::read(bytes)?;
    for (m, (module, of_ir)) in file.modules.iter().zip(&ir.modules).enumerate() {
        let fate = |value: ValueId| fate(ValueAt { module: m as u32, value: value.0 });
        let is_intrinsic =
            |v: &GlobalValue<'_>| v.kind == ValueKind::Function && v.name.starts_with(b"llvm.");
        let goes = |value: &ValueId| {
            let of = module.values.get(value.0 as usize);
            fate(*value) == Action::Drop && of.is_some_and(|v| !is_intrinsic(v))
        };
        let name = |value: ValueId| {
            let of = module.values.get(value.0 as usize);
            String::from_utf8_lossy(of.map_or(&[][..], |v| v.name)).into_owned()
        };
        let mut mentions = Mentions::new(of_ir);
        for (v, (value, global)) in module.values.iter().zip(&of_ir.globals).enumerate() {
            let id = ValueId(v as u32);
            if fate(id) == Action::Drop || symbols::is_metadata(module, value) {
                continue;
            }
            let mut operands = Vec::new();
            global.each_operand(|operand| operands.push(operand));
            if let Some(to) = mentions.of_values(operands).iter().find(|to| goes(to)) {
                return Ok(Some((name(id), name(*to))));
            }
        }
        let Some(reader) = ir.reader(m)? else { continue };
        for index in 0..of_ir.bodies.len() {
            let Some(body) = reader.body(index)? else { continue };
            if let Some(to) = mentions.of_body(&body).iter().find(|to| goes(to)) {
                return Ok(Some((name(body.function), name(*to))));
            }
        }
    }
    Ok(None)
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Keep => "what it was",
        Action::Drop => "gone",
        Action::Stub => "a stub",
    }
}

fn is_right(old: &GlobalValue<'_>, new: &GlobalValue<'_>, action: Action) -> bool {
    let is_weak = new.declaration && new.linkage == Linkage::ExternWeak;
    match action {
        // Intrinsics stay, whatever is said of them.
        Action::Drop => is_weak || old == new && old.name.starts_with(b"llvm."),
        Action::Keep | Action::Stub => {
            let same = |f: fn(&GlobalValue<'_>) -> u64| f(old) == f(new);
            old.name == new.name
                && old.kind == new.kind
                && old.linkage == new.linkage
                && old.visibility == new.visibility
                && old.section == new.section
                && old.comdat == new.comdat
                && same(|v| u64::from(v.declaration))
                && same(|v| u64::from(v.thread_local))
                && same(|v| v.align)
                && (action == Action::Keep || !new.declaration)
        }
    }
}

/// What a module of bitcode defines and refers to.
pub fn bitcode_facts(name: String, bytes: &[u8]) -> Facts<'_> {
    let file = bitcode::read(bytes).unwrap_or_default();
    let symbols = symbols::of_file(&file).symbols;
    let defined = symbols.iter().filter(|s| !s.undefined).map(|s| s.name).collect();
    // What is weak needs no definition.
    let referenced = symbols.iter().filter(|s| s.undefined && !s.weak).map(|s| s.name).collect();
    Facts { name, defined, referenced }
}
