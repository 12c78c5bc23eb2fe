//! Bodies of functions against LLVM's assembly language: opcodes in order, whom calls name, and which global values each body mentions.
//!
//! Which opcode an instruction has follows from types (`fadd`, `add`), so that types are held too; that names agree shows that value ids do. Debug records and their
//! intrinsics are in neither list.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use summaries::bitcode::file::BitcodeFile;
use summaries::bitcode::ir::TypeId;
use summaries::bitcode::ir::function::Body;
use summaries::bitcode::ir::instruction::{CallKind, InstructionKind as Kind, IrCall, IrInstruction, binary};
use summaries::bitcode::ir::mentions::MentionSearch;
use summaries::bitcode::ir::types::Type;
use summaries::bitcode::ir::{IrModule, ValueId, read};

use super::corpus::{run, sample, samples};
use super::values::{disassemble, name};

/// A function: its instructions, and the names that they mention.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) instructions: Vec<String>,
    pub(super) mentions: BTreeSet<String>,
}

type Functions = BTreeMap<String, Function>;

const BINARY: &[[&str; 2]] = &[
    ["add", "fadd"],
    ["sub", "fsub"],
    ["mul", "fmul"],
    ["udiv", "udiv"],
    ["sdiv", "fdiv"],
    ["urem", "urem"],
    ["srem", "frem"],
    ["shl", "shl"],
    ["lshr", "lshr"],
    ["ashr", "ashr"],
    ["and", "and"],
    ["or", "or"],
    ["xor", "xor"],
];

const CASTS: &[&str] = &[
    "trunc",
    "zext",
    "sext",
    "fptoui",
    "fptosi",
    "uitofp",
    "sitofp",
    "fptrunc",
    "fpext",
    "ptrtoint",
    "inttoptr",
    "bitcast",
    "addrspacecast",
    "ptrtoaddr",
];

fn is_float(module: &IrModule, ty: TypeId) -> bool {
    match module.types.get(ty).unwrap() {
        Type::Float(_) => true,
        Type::Vector { element, .. } => is_float(module, *element),
        _ => false,
    }
}

/// The callee's name, if it is a global value.
fn callee(call: &IrCall, file: &BitcodeFile<'_>, index: usize) -> String {
    match file.modules[index].values.get(call.callee.0 as usize) {
        Some(value) => format!(" {}", String::from_utf8_lossy(value.name)),
        None => String::new(),
    }
}

fn opcode(
    module: &IrModule,
    body: &Body,
    instruction: &IrInstruction,
    file: &BitcodeFile<'_>,
    index: usize,
) -> String {
    let word = match &instruction.kind {
        Kind::Unary { .. } => "fneg",
        Kind::Binary { opcode, left, .. } => {
            // Only what compares typed pointers has a type that does not follow, and only logic is done with it.
            let Some(ty) = instruction.ty else {
                assert!(module.types.pointer().is_none() && *opcode >= binary::AND, "{instruction:?}");
                return BINARY[*opcode as usize][0].to_owned();
            };
            assert_eq!(body.type_of(module, *left).unwrap_or(ty), ty);
            BINARY[*opcode as usize][usize::from(is_float(module, ty))]
        }
        Kind::Cast { opcode, .. } => CASTS[*opcode as usize],
        Kind::GetElementPtr { .. } => "getelementptr",
        Kind::Select { .. } => "select",
        Kind::ExtractValue { .. } => "extractvalue",
        Kind::InsertValue { .. } => "insertvalue",
        Kind::ExtractElement { .. } => "extractelement",
        Kind::InsertElement { .. } => "insertelement",
        Kind::ShuffleVector { .. } => "shufflevector",
        Kind::Compare { predicate: 32.., .. } => "icmp",
        Kind::Compare { .. } => "fcmp",
        Kind::Load { .. } => "load",
        Kind::Store { .. } => "store",
        Kind::CompareExchange { .. } => "cmpxchg",
        Kind::AtomicRmw { .. } => "atomicrmw",
        Kind::Fence => "fence",
        Kind::Alloca { .. } => "alloca",
        Kind::Phi { .. } => "phi",
        Kind::Call(call) => {
            let word = match call.kind {
                CallKind::Call { .. } => "call",
                CallKind::Invoke { .. } => "invoke",
                CallKind::CallBr { .. } => "callbr",
            };
            return format!("{word}{}", callee(call, file, index));
        }
        Kind::Return(_) => "ret",
        Kind::Branch { .. } | Kind::ConditionalBranch { .. } => "br",
        Kind::Switch { .. } => "switch",
        Kind::IndirectBranch { .. } => "indirectbr",
        Kind::Resume(_) => "resume",
        Kind::LandingPad { .. } => "landingpad",
        Kind::CatchSwitch { .. } => "catchswitch",
        Kind::CatchPad { .. } => "catchpad",
        Kind::CleanupPad { .. } => "cleanuppad",
        Kind::CatchReturn { .. } => "catchret",
        Kind::CleanupReturn { .. } => "cleanupret",
        Kind::VaArg { .. } => "va_arg",
        Kind::Freeze(_) => "freeze",
        Kind::Unreachable => "unreachable",
    };
    word.to_owned()
}

/// Newer tools turn these into debug records, which are no instructions.
fn is_debug(line: &str) -> bool {
    line.contains("llvm.dbg.")
}

pub(super) fn ours(bytes: &[u8], index: usize) -> Functions {
    let (ir, file) = (read(bytes).unwrap(), summaries::bitcode::read(bytes).unwrap());
    let module = &ir.modules[index];
    assert!(module.is_understood(), "{:?} {:?}", module.unknown, module.types.unknown);
    assert!(module.attributes.unknown.is_empty(), "{:?}", module.attributes.unknown);
    assert_eq!(module.globals.len(), file.modules[index].values.len());
    let named =
        |id: &ValueId| String::from_utf8(file.modules[index].values[id.0 as usize].name.to_vec()).unwrap();
    let (reader, mut mentions) = (ir.reader(index).unwrap().unwrap(), MentionSearch::new(module));
    let mut functions = Functions::new();
    for at in 0..module.bodies.len() {
        let body = reader.body(at).unwrap().unwrap();
        let name = named(&body.function);
        assert!(body.is_understood(), "{name}: {:?}", body.unknown);
        let instructions = body.instructions.iter().map(|i| opcode(module, &body, i, &file, index));
        let instructions: Vec<String> = instructions.filter(|l| !is_debug(l)).collect();
        let mentioned =
            mentions.of_body(&body).iter().map(named).filter(|n| !is_debug(n) && !n.is_empty()).collect();
        functions.insert(name, Function { instructions, mentions: mentioned });
    }
    functions
}

/// Names behind each `@`; what is in quotes otherwise is no name.
fn names(line: &str) -> Vec<String> {
    let (mut found, mut rest, mut quoted) = (Vec::new(), line, false);
    while let Some(at) = rest.find(['@', '"']) {
        if rest.as_bytes()[at] == b'"' {
            quoted = !quoted;
            rest = &rest[at + 1..];
        } else if quoted {
            rest = &rest[at + 1..];
        } else {
            let (found_name, behind) = name(&rest[at + 1..]);
            found.push(found_name);
            rest = behind;
        }
    }
    found
}

/// The line without metadata: attachments behind `, !`, arguments of that type.
fn without_metadata(line: &str) -> String {
    let mut line = line.to_owned();
    // `metadata ptr @g` is a mention in metadata.
    while let Some(at) = line.find("metadata ptr @").or_else(|| line.find("metadata i8* @")) {
        let end = line[at..].find([',', ')']).map_or(line.len(), |e| at + e);
        line.replace_range(at..end, "");
    }
    line
}

/// The callee of a call: the first name that an argument list follows, outside of all parentheses.
fn callee_name(line: &str) -> Option<String> {
    let (mut depth, mut quoted) = (0, false);
    for (i, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            '@' if depth == 0 => {
                let (found, behind) = name(&line[i + 1..]);
                return behind.starts_with('(').then_some(found);
            }
            '%' if depth == 0 && line[i..].contains('(') => {
                let word: &str = line[i..].split([' ', ',', ')']).next().unwrap();
                if word.contains('(') {
                    return None;
                }
            }
            _ => {}
        }
    }
    None
}

pub(super) fn theirs(text: &str) -> Functions {
    let mut functions = Functions::new();
    let mut open: Option<(String, Function)> = None;
    let mut joined = false;
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("define ") {
            let at = head.find('@').unwrap();
            // Personality and prefix are the function's, not the body's.
            let (found, _) = name(&head[at + 1..]);
            open = Some((found, Function::default()));
            continue;
        }
        let Some((_, function)) = &mut open else { continue };
        if line == "}" {
            let (found, function) = open.take().unwrap();
            functions.insert(found, function);
            continue;
        }
        let trimmed = line.trim_start();
        if trimmed.is_empty() || trimmed.starts_with(';') || trimmed.starts_with('#') || is_debug(trimmed) {
            continue;
        }
        let indent = line.len() - trimmed.len();
        if indent == 0 {
            // A label, or a directive of use lists.
            continue;
        }
        let mut line = without_metadata(trimmed);
        if let Some(at) = line.find(" ; ") {
            line.truncate(at);
        }
        // One without a name has a number in its place.
        let is_name = |n: &String| !n.bytes().all(|b| b.is_ascii_digit());
        function.mentions.extend(names(&line).into_iter().filter(is_name));
        // Of a switch, a landing pad or an invoke, whose lines go on.
        if joined {
            joined = !trimmed.starts_with(']');
            continue;
        }
        if indent > 2 || trimmed.starts_with(']') || trimmed.starts_with("to label") {
            continue;
        }
        let mut body = line.as_str();
        if body.starts_with('%') {
            body = body.split_once(" = ").unwrap().1;
        }
        for lead in ["tail ", "musttail ", "notail "] {
            body = body.strip_prefix(lead).unwrap_or(body);
        }
        let word = body.split([' ', ',']).next().unwrap();
        joined = word == "switch" && trimmed.ends_with('[');
        let word = if ["call", "invoke", "callbr"].contains(&word) {
            match callee_name(body) {
                Some(callee) => format!("{word} {callee}"),
                None => word.to_owned(),
            }
        } else {
            word.to_owned()
        };
        function.instructions.push(word);
    }
    functions
}

/// Hold both against each other; gives how many functions and instructions were.
pub(super) fn compare(what: &str, got: &Functions, want: &Functions) -> (usize, usize) {
    let mut instructions = 0;
    assert_eq!(got.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>(), "{what}");
    for (name, want) in want {
        let got = &got[name];
        for (i, (got, want)) in got.instructions.iter().zip(&want.instructions).enumerate() {
            assert_eq!(got, want, "{what}, {name}, instruction {i}");
        }
        assert_eq!(got.instructions.len(), want.instructions.len(), "{what}, {name}");
        assert_eq!(got.mentions, want.mentions, "{what}, {name}");
        instructions += got.instructions.len();
    }
    (want.len(), instructions)
}

#[test]
fn bodies_are_what_llvm_says() {
    let (mut functions, mut instructions) = (0, 0);
    for sample in samples().iter().filter(|s| s.name != "cxx-split") {
        let Some(text) = disassemble(sample) else { continue };
        let found = compare(&sample.name, &ours(&sample.bytes, 0), &theirs(&text));
        functions += found.0;
        instructions += found.1;
    }
    println!("{functions} functions, {instructions} instructions");
    assert!(
        functions > 150 && instructions > 6_000,
        "only {functions} functions, {instructions} instructions"
    );
}

#[test]
fn bodies_of_each_module_of_a_split_unit() {
    let bytes = &sample("cxx-split").bytes;
    let dir = tempfile::tempdir().unwrap();
    let (path, one) = (dir.path().join("t.bc"), dir.path().join("one.bc"));
    std::fs::write(&path, bytes).unwrap();
    for index in 0..2 {
        run(Command::new("llvm-modextract-19").args(["-n", &index.to_string(), "-o"]).arg(&one).arg(&path));
        let text = run(Command::new("llvm-dis-19").args(["-o", "-"]).arg(&one));
        let theirs = theirs(&String::from_utf8_lossy(&text));
        let (functions, _) = compare("cxx-split", &ours(bytes, index), &theirs);
        assert!(functions > 0);
    }
}

#[test]
fn bodies_of_rustc_are_understood() {
    let mut functions = 0;
    for sample in samples().iter().filter(|s| s.tools.is_none()) {
        functions += ours(&sample.bytes, 0).len();
    }
    println!("{functions} functions");
    assert!(functions > 100, "only {functions} functions");
}

#[test]
fn bodies_of_rustc_are_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let source = "pub fn sum(m: &mut std::collections::BTreeMap<String, Vec<f64>>) -> f64 {\n\
        m.entry(\"x\".into()).or_default().push(1.5); m.values().flatten().map(|x| x.sqrt() * 2.0).sum() }\n\
        pub fn wide(s: &str) -> Result<u128, std::num::ParseIntError> { Ok(s.parse::<u128>()? / 3) }\n";
    std::fs::write(dir.path().join("r.rs"), source).unwrap();
    for level in ["-Copt-level=0", "-Copt-level=2"] {
        run(Command::new("rustc").current_dir(dir.path()).args([
            "--crate-type=lib",
            level,
            "-Ccodegen-units=1",
            "--emit=llvm-bc=r.bc,llvm-ir=r.ll",
            "r.rs",
        ]));
        let bytes = std::fs::read(dir.path().join("r.bc")).unwrap();
        let text = std::fs::read_to_string(dir.path().join("r.ll")).unwrap();
        let (functions, instructions) = compare(level, &ours(&bytes, 0), &theirs(&text));
        assert!(functions > 2 && instructions > 100, "{functions} functions, {instructions} instructions");
    }
}
