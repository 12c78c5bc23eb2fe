//! The relations of a function against the Andersen-style analysis of LLVM 14 (`opt -cfl-anders-aa -aa-eval`).
//!
//! Pointers that LLVM proves apart must be apart here too, in the closure of the relations that the front end makes of the same
//! function: from the bitcode of LLVM 14, and from that of LLVM 19, whose pointers have no types. The numbers are exact, and there is a reason
//! for each function with a pair that is not apart here.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use summaries::bitcode::ir::{self, ValueId};
use summaries::relation::{Constraint, FunctionSummary, Place};
use summaries::{Granularity, SymbolIdx, Target, ValueIdx, bitcode};

use super::corpus::run;
use crate::cfl::brute;

const SOURCE: &str = include_str!("aliases.c");

/// The modulus of offsets; no object of the program is as large.
const LARGE_RING: i64 = 4096;

/// A pointer: the type of what it points to, and its name.
type Pointer = (String, String);

/// The last word, which is the name of an operand, and the type before it.
fn operand(text: &str) -> Option<Pointer> {
    let (ty, name) = text.trim().rsplit_once(' ')?;
    let plain = |n: &str| n.bytes().all(|b| b.is_ascii_alphanumeric() || b"._".contains(&b));
    let is_name = name.strip_prefix(['%', '@']).is_some_and(plain);
    is_name.then(|| (ty.strip_suffix('*').unwrap_or(ty).to_owned(), name.to_owned()))
}

/// The pairs that `-aa-eval -print-no-aliases` separates, by function.
fn apart(text: &str) -> BTreeMap<String, Vec<(Pointer, Pointer)>> {
    let mut function = "";
    let mut found: BTreeMap<String, Vec<(Pointer, Pointer)>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Function: ") {
            function = rest.split(':').next().unwrap();
        }
        let Some(pair) = line.trim_start().strip_prefix("NoAlias:") else { continue };
        let (first, second) = pair.split_once(", ").unwrap();
        // Constant expressions have no value of their own.
        if let (Some(first), Some(second)) = (operand(first), operand(second)) {
            found.entry(function.to_owned()).or_default().push((first, second));
        }
    }
    found
}

/// The names of parameters and results by function, in the order of their numbers.
fn names(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut function = String::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.strip_prefix("define ").and_then(|l| l.split_once('@')) {
            let (name, rest) = rest.split_once('(').unwrap();
            name.clone_into(&mut function);
            let parameters = rest.rsplit_once(')').unwrap().0.split(", ").filter_map(operand);
            found.insert(function.clone(), parameters.map(|p| p.1).collect());
        }
        let result = line.strip_prefix("  %").and_then(|l| l.split_once(" = "));
        if let Some((name, _)) = result {
            found.get_mut(&function).unwrap().push(format!("%{name}"));
        }
    }
    found
}

/// Bytes of an access through a pointer to this type, as `-aa-eval` asks.
fn size(ty: &str) -> u32 {
    match ty {
        "i8" => 1,
        "i32" => 4,
        "i64" => 8,
        "%struct.node" => 24,
        "%struct.pair" => 16,
        "[4 x i64]" => 32,
        "[8 x i64]" => 64,
        _ if ty.ends_with('*') => 8,
        _ => panic!("a pointer to {ty}"),
    }
}

/// The function among code that may do anything with what it is given, and that has the address of every symbol.
fn opened(function: &FunctionSummary) -> [FunctionSummary; 1] {
    let mut of = function.clone();
    // The symbol of number 0 is the function itself.
    let mut targets: Vec<Target> = Vec::new();
    for constraint in &mut of.constraints {
        if let Constraint::Address { target, .. } = constraint {
            let known = targets.iter().position(|t| t == target);
            let number = known.unwrap_or(targets.len());
            if known.is_none() {
                targets.push(*target);
            }
            *target = Target::Symbol(SymbolIdx::new(number + 1));
        }
    }
    for number in 0..targets.len() {
        let to = ValueIdx(of.values);
        of.values += 1;
        let target = Target::Symbol(SymbolIdx::new(number + 1));
        of.constraints.push(Constraint::Address { to, target, offset: 0 });
        of.constraints.push(Constraint::Escape { from: to });
    }
    let sites = std::mem::take(&mut of.call_sites);
    let given = of.parameters.iter().map(|p| p.1).chain(of.stack_parameters.iter().map(|p| p.1));
    let given = given.chain(sites.iter().flat_map(|s| &s.results).map(|r| r.1));
    of.constraints.extend(given.map(|to| Constraint::Unknown { to }));
    let actuals = sites.iter().flat_map(|s| &s.actuals).map(|a| a.1);
    let stack = sites.iter().flat_map(|s| &s.stack).map(|s| s.1);
    let taken = of.results.iter().map(|r| r.1).chain(actuals).chain(stack);
    of.constraints.extend(taken.map(|from| Constraint::Escape { from }));
    [of]
}

/// The number of pairs that LLVM separates, by the result here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Compared {
    pairs: usize,
    apart: usize,
    others: BTreeMap<String, usize>,
}

fn compare(bitcode_file: &Path, dis: &str, llvm: &BTreeMap<String, Vec<(Pointer, Pointer)>>) -> Compared {
    let text = run(Command::new(dis).arg(bitcode_file).args(["-o", "-"]));
    let names = names(&String::from_utf8(text).unwrap());
    let bytes = std::fs::read(bitcode_file).unwrap();
    let (file, ir) = (bitcode::read(&bytes).unwrap(), ir::read(&bytes).unwrap());
    let summary = bitcode::extract_at(&bytes, Granularity::Pointers);
    let locals = bitcode::local_values(&bytes).unwrap();
    let numbering = bitcode::numbering(&file, Granularity::Pointers);
    let globals = &file.modules[0].values;
    let reader = ir.reader(0).unwrap().unwrap();
    let mut compared = Compared::default();
    for index in 0..ir.modules[0].bodies.len() {
        let body = reader.body(index).unwrap().unwrap();
        let function = String::from_utf8_lossy(globals[body.function.0 as usize].name).into_owned();
        let first = body.first_parameter.0;
        let results = body.instructions.iter().filter_map(|i| i.value);
        let ids: Vec<ValueId> = (first..first + body.parameters).map(ValueId).chain(results).collect();
        assert_eq!(ids.len(), names[&function].len(), "{function}");
        let ids: BTreeMap<&str, ValueId> = names[&function].iter().map(String::as_str).zip(ids).collect();
        let atom = numbering.atoms[0][body.function.0 as usize].unwrap();
        let values = &locals.iter().find(|l| l.atom == atom).unwrap().values;
        let value = |name: &str| -> ValueIdx {
            let global = || globals.iter().position(|v| name.as_bytes().strip_prefix(b"@") == Some(v.name));
            let id = ids.get(name).copied().unwrap_or_else(|| ValueId(global().unwrap() as u32));
            let found = values.binary_search_by_key(&id, |v| v.0);
            values[found.unwrap_or_else(|_| panic!("{function}: no value {name}"))].1
        };
        let of = summary.functions.iter().find(|f| f.atom == atom).unwrap();
        let opened = opened(of);
        let solution = brute::solve_in(&opened, LARGE_RING);
        for (a, b) in llvm.get(&function).into_iter().flatten() {
            let access = |p: &Pointer| (Place { value: value(&p.1), offset: Some(0) }, size(&p.0));
            compared.pairs += 1;
            match solution.may_alias(access(a), access(b)) {
                false => compared.apart += 1,
                true => *compared.others.entry(function.clone()).or_default() += 1,
            }
        }
    }
    compared
}

/// The program by clang 14, after some passes, and the pairs that LLVM 14 separates in it.
fn compiled(dir: &Path, passes: &[&str]) -> BTreeMap<String, Vec<(Pointer, Pointer)>> {
    std::fs::write(dir.join("t.c"), SOURCE).unwrap();
    let opt = || {
        let mut opt = Command::new("opt-14");
        opt.current_dir(dir).arg("-enable-new-pm=0");
        opt
    };
    let flags = "-O0 -w -Xclang -disable-O0-optnone -fno-discard-value-names -emit-llvm -c t.c -o raw.bc";
    run(Command::new("clang-14").current_dir(dir).args(flags.split(' ')));
    run(opt().args(passes).args(["raw.bc", "-o", "t.bc"]));
    run(Command::new("opt-19").current_dir(dir).args(["t.bc", "-o", "upgraded.bc"]));
    let flags = "-disable-basic-aa -cfl-anders-aa -aa-eval -print-no-aliases -disable-output t.bc";
    let output = opt().args(flags.split(' ')).output().unwrap();
    assert!(output.status.success());
    apart(&String::from_utf8(output.stderr).unwrap())
}

#[test]
fn pointers_that_llvm_separates() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // In `arrays` one of a pair is an address in the frame at an unknown distance, and the frame is one object. In `given` external code gets a local
    // later, and may return it as the argument: constraints have no order.
    let others = |list: &[(&str, usize)]| list.iter().map(|(f, n)| ((*f).to_owned(), *n)).collect();
    let plain = Compared { pairs: 557, apart: 537, others: others(&[("arrays", 16), ("given", 4)]) };
    let sroa = Compared { pairs: 20, apart: 19, others: others(&[("given", 1)]) };
    // With typed pointers the type of a local's address is not looked up: a store of it has an unknown number of bytes.
    for (passes, expected, typed) in [(&[][..], plain, 146), (&["-sroa"], sroa, 9)] {
        let llvm = compiled(dir, passes);
        let found = compare(&dir.join("upgraded.bc"), "llvm-dis-19", &llvm);
        assert_eq!(found, expected, "{passes:?}, as LLVM 19 reads it");
        let found = compare(&dir.join("t.bc"), "llvm-dis-14", &llvm);
        assert_eq!((found.pairs, found.apart), (expected.pairs, typed), "{passes:?}: {found:?}");
    }
}
