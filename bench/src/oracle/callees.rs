//! Callees of indirect calls, held against LLVM's own called value propagation (`opt -passes=called-value-propagation`).
//!
//! A program's modules of bitcode are joined by `llvm-link`, everything but `main` is made internal, and this one module is handed to
//! both: to the pass, which changes no body but writes `!callees`, and to lto-prune, which links it in place of the others. A site
//! is a function and the number of the call among those in it that are of no function; both sides must count the same. What
//! LLVM resolves must be resolved here, by functions that LLVM has too.
//! Left out: calls in functions that are not live here, for which nothing is said.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use summaries::bitcode::ir::function::ValueDefinition;
use summaries::bitcode::ir::instruction::InstructionKind;
use summaries::bitcode::{self, ir};

use crate::Result;
use crate::corpus::{Corpus, Link, find_linker};
use crate::process::run_ok;
use crate::sites::llvm::{UNLIMITED, is_indirect_call};
use crate::table::count;

pub(super) const COLUMNS: [&str; 9] = [
    "link",
    "sites",
    "in what is live",
    "LLVM resolves",
    "lto-prune resolves",
    "both",
    "only LLVM",
    "not contained",
    "fewer than LLVM",
];

pub(super) type Callees = BTreeSet<String>;

/// What lto-prune says of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SiteAnswer {
    /// These and no others; none: nothing is ever called there.
    Resolved(Callees),
    /// It may be anything, for this reason.
    Overdefined(String),
    Dead,
    /// A live function's site that the report doesn't have.
    Missing,
}

#[derive(Debug, Default)]
pub(super) struct CalleeCounts {
    sites: usize,
    live: usize,
    llvm: usize,
    ours: usize,
    both: usize,
    fewer: usize,
    only_llvm: Vec<String>,
    not_contained: Vec<String>,
    pub(super) errors: Vec<String>,
}

impl CalleeCounts {
    pub(super) fn row(&self, link: &Link) -> Vec<String> {
        let (only, outside) = (self.only_llvm.len(), self.not_contained.len());
        let numbers = [self.sites, self.live, self.llvm, self.ours, self.both, only, outside, self.fewer];
        std::iter::once(link.name()).chain(numbers.map(|n| count(n as u64))).collect()
    }

    fn add(&mut self, place: &str, llvm: Option<&Callees>, ours: &SiteAnswer) {
        self.sites += 1;
        if *ours == SiteAnswer::Dead {
            return;
        }
        self.live += 1;
        self.llvm += usize::from(llvm.is_some());
        self.ours += usize::from(matches!(ours, SiteAnswer::Resolved(_)));
        match (llvm, ours) {
            (_, SiteAnswer::Missing) => {
                self.errors.push(format!("{place}: a site that the report doesn't have"))
            }
            (Some(theirs), SiteAnswer::Resolved(ours)) => {
                self.both += 1;
                self.fewer += usize::from(ours.len() < theirs.len());
                if !ours.is_subset(theirs) {
                    let beyond: Vec<&str> = ours.difference(theirs).map(String::as_str).collect();
                    self.not_contained.push(format!("{place}: besides LLVM's: {}", beyond.join(", ")));
                }
            }
            (Some(_), SiteAnswer::Overdefined(because)) => {
                self.only_llvm.push(format!("{place}: resolved by LLVM, not here: {because}"));
            }
            (None, _) | (_, SiteAnswer::Dead) => {}
        }
    }
}

/// Compare a program.
///
/// # Errors
/// If a tool fails, or the two sides don't see the same sites.
pub(super) fn compare(corpus: &Corpus, link: &Link, pruner: &Path) -> Result<CalleeCounts> {
    let scratch = corpus.scratch(&format!("oracle-callees-{}-{}", link.program, link.mode))?;
    let (modules, native) = objects(&link.dir)?;
    let (joined, whole) = (scratch.join("joined.bc"), scratch.join("whole.bc"));
    run_ok(Command::new("llvm-link-19").args(modules).arg("-o").arg(&joined), &scratch)?;
    let mut opt = Command::new("opt-19");
    opt.args(["-passes=internalize", "-internalize-public-api-list=main", "-o"]);
    run_ok(opt.args([&whole, &joined]), &scratch)?;
    let text = scratch.join("callees.ll");
    let mut opt = Command::new("opt-19");
    opt.args(["-passes=called-value-propagation", UNLIMITED, "-S", "-o"]);
    run_ok(opt.args([&text, &whole]), &scratch)?;
    let theirs = callees(&String::from_utf8_lossy(&fs::read(&text)?))?;

    let report = scratch.join("report.json");
    let mut args = vec![whole.display().to_string()];
    args.extend(native.iter().map(|p| p.display().to_string()));
    let inputs = |a: &&String| !link.dir.join(a).is_file() || Path::new(a).is_absolute();
    args.extend(link.linker_args.iter().filter(inputs).cloned());
    let whole_link = Link { linker_args: args, ..link.clone() };
    let mut command = corpus.linker_command(&whole_link, pruner, &scratch.join("pruned"));
    command.env("LTO_PRUNE_LINKER", find_linker("lld")?).env_remove("LTO_PRUNE_FLAGS");
    command.args(["--prune-level=pointers", "--prune-gate=0", "--prune-strict"]);
    run_ok(command.arg(format!("--prune-report={}", report.display())), &scratch)?;
    let report = crate::report::read(&report)?;
    let ours = SiteReport::of(&report, &whole.display().to_string())?;

    let mut compared = CalleeCounts::default();
    let instructions = instructions(&fs::read(&whole)?)?;
    if instructions.len() != theirs.len() {
        return Err("LLVM and our reader see different functions with indirect calls".into());
    }
    for (function, theirs) in &theirs {
        let at = instructions.get(function).map_or(&[][..], Vec::as_slice);
        if at.len() != theirs.len() {
            let error = format!("{function}: {} calls for our reader, {} for LLVM", at.len(), theirs.len());
            return Err(error.into());
        }
        for (number, (at, theirs)) in at.iter().zip(theirs).enumerate() {
            let place = format!("{function}, call {number}");
            let theirs = theirs.as_ref().map(|names| names.iter().map(|n| ours.own_name(n)).collect());
            compared.add(&place, theirs.as_ref(), &ours.site(function, *at));
        }
    }
    // Where the module lies on this machine says nothing.
    let folder = format!("{}/", scratch.display());
    let found = compared.only_llvm.iter().chain(&compared.not_contained);
    compared.errors.extend(found.map(|error| error.replace(&folder, "")));
    Ok(compared)
}

/// Objects of a link: those of bitcode, and the others. Archives hold the same ones.
fn objects(dir: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut modules, mut native) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "o") {
            let list = if bitcode::is_bitcode(&fs::read(&path)?) { &mut modules } else { &mut native };
            list.push(path);
        }
    }
    modules.sort();
    native.sort();
    Ok((modules, native))
}

/// The name after `@`, quoted or not.
fn name(text: &str) -> Option<&str> {
    let name = text.split_once('@')?.1;
    match name.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => name.split(|c: char| !c.is_ascii_alphanumeric() && !"-$._".contains(c)).next(),
    }
}

/// Indirect calls by function in the order of the text, with what `!callees` says.
///
/// # Errors
/// If a node of metadata isn't there.
pub(super) fn callees(text: &str) -> Result<BTreeMap<String, Vec<Option<Callees>>>> {
    let mut nodes: BTreeMap<&str, Callees> = BTreeMap::new();
    for (node, list) in text.lines().filter(|l| l.starts_with('!')).filter_map(|l| l.split_once(" = ")) {
        // A function that is gone left a null.
        let Some(list) = list.trim_start_matches("distinct ").strip_prefix("!{") else { continue };
        let quoted = |n: &str| name(n.strip_prefix("ptr ")?).map(str::to_owned);
        nodes.insert(node, list.trim_end_matches('}').split(", ").filter_map(quoted).collect());
    }
    let mut found: BTreeMap<String, Vec<Option<Callees>>> = BTreeMap::new();
    let (mut function, mut indirect) = ("", false);
    for line in text.lines() {
        if line.starts_with("define ") {
            function = name(line).ok_or("a function without a name")?;
        } else if line.starts_with(' ') {
            let goes_on = line.trim_start().starts_with("to label ");
            indirect = is_indirect_call(line) || indirect && goes_on;
            if indirect && !goes_on {
                found.entry(function.to_owned()).or_default().push(None);
            }
            // That of an invoke is in its second line. One that was indirect once may have it too.
            if let Some((_, node)) = line.split_once(", !callees ").filter(|_| indirect) {
                let node = node.split(',').next().unwrap_or_default();
                let callees = nodes.get(node).ok_or_else(|| format!("no node {node}"))?;
                let site = found.get_mut(function).and_then(|s| s.last_mut());
                *site.ok_or("callees of no indirect call")? = Some(callees.clone());
            }
        }
    }
    Ok(found)
}

/// Numbers of the instructions that are indirect calls, by function: calls of an argument or of what an instruction gives.
fn instructions(bytes: &[u8]) -> Result<BTreeMap<String, Vec<u64>>> {
    let file = bitcode::read(bytes).map_err(|e| e.to_string())?;
    let ir = ir::read(bytes).map_err(|e| e.to_string())?;
    let ([module], [ir_module]) = (file.modules.as_slice(), ir.modules.as_slice()) else {
        return Err("not one module".into());
    };
    let reader = ir.reader(0).map_err(|e| e.to_string())?.ok_or("no module")?;
    let mut found = BTreeMap::new();
    for index in 0..ir_module.bodies.len() {
        let body = reader.body(index).map_err(|e| e.to_string())?.ok_or("no body")?;
        let is_indirect = |kind: &InstructionKind| {
            let InstructionKind::Call(call) = kind else { return false };
            let definition = body.definition(call.callee);
            matches!(definition, Some(ValueDefinition::Parameter(_) | ValueDefinition::Instruction(_)))
        };
        let numbers = (0..).zip(&body.instructions).filter(|(_, i)| is_indirect(&i.kind));
        let numbers: Vec<u64> = numbers.map(|(n, _)| n).collect();
        if !numbers.is_empty() {
            let value = module.values.get(body.function.0 as usize).ok_or("a body of no function")?;
            found.insert(String::from_utf8_lossy(value.name).into_owned(), numbers);
        }
    }
    Ok(found)
}

/// What the report says of one module's sites.
struct SiteReport {
    /// The sites by function and number of the instruction.
    sites: BTreeMap<(String, u64), SiteAnswer>,
    live: BTreeSet<String>,
    /// The first name of what has several: aliases, and assembly that isn't divided into its functions.
    names: BTreeMap<String, String>,
}

impl SiteReport {
    fn of(root: &Value, module: &str) -> Result<SiteReport> {
        if root["pruned"] != Value::Bool(true) {
            return Err("the originals were linked".into());
        }
        let list = |value: &Value, name: &str| -> Result<Vec<Value>> {
            Ok(value[name].as_array().ok_or_else(|| format!("the report has no {name}"))?.clone())
        };
        let position = list(root, "modules")?.iter().position(|m| m["name"] == module);
        let position = position.ok_or("the module is not in the report")?;
        let atoms = list(root, "atoms")?;
        let first = |v: &Value| v["symbols"][0].as_str().unwrap_or_default().to_owned();
        let (mut live, mut names): (BTreeSet<String>, _) = (BTreeSet::new(), BTreeMap::new());
        // Names of the module itself hide local ones of others.
        let (own, others): (Vec<_>, Vec<_>) = atoms.iter().partition(|a| a["module"] == position);
        for atom in others.iter().chain(&own) {
            for name in list(atom, "symbols")?.iter().filter_map(Value::as_str) {
                names.insert(name.to_owned(), first(atom));
            }
        }
        live.extend(own.into_iter().filter(|a| a["state"] == "kept").map(first));
        let mut sites = BTreeMap::new();
        for site in list(root, "call_sites")?.iter().filter(|s| s["module"] == position) {
            let atom = |v: &Value| v.as_u64().and_then(|a| atoms.get(a as usize)).map(first);
            let caller = atom(&site["caller"]).ok_or("a site without a caller")?;
            // The front end counts instructions in steps of 16, for sites that are several.
            let number = site["offset"].as_u64().ok_or("a site without a place")? >> 4;
            let said = match site["state"].as_str() {
                Some("overdefined") => {
                    SiteAnswer::Overdefined(site["because"].as_str().unwrap_or("not said").to_owned())
                }
                _ => {
                    let targets = list(site, "targets")?;
                    let mut names: Callees = targets.iter().filter_map(|t| atom(&t["atom"])).collect();
                    let externals = list(site, "externals")?;
                    names.extend(externals.iter().filter_map(|e| e.as_str().map(str::to_owned)));
                    SiteAnswer::Resolved(names)
                }
            };
            sites.insert((caller, number), said);
        }
        Ok(SiteReport { sites, live, names })
    }

    fn own_name(&self, name: &str) -> String {
        self.names.get(name).map_or(name, String::as_str).to_owned()
    }

    fn site(&self, function: &str, number: u64) -> SiteAnswer {
        let function = self.own_name(function);
        if !self.live.contains(&function) {
            return SiteAnswer::Dead;
        }
        self.sites.get(&(function, number)).cloned().unwrap_or(SiteAnswer::Missing)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> Callees {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn sites_of_a_text() {
        let text = "\
define internal i32 @f(ptr %0) {
  %2 = tail call i32 %0(i32 1), !callees !7
  %3 = call i32 @g(), !callees !9
  %4 = invoke i32 %0()
          to label %5 unwind label %6, !callees !8
  %5 = invoke i32 @g()
          to label %6 unwind label %7, !callees !9
}
define i32 @\"g h\"() {
  %1 = call i32 %0(), !dbg !1
}
!7 = !{ptr @f, ptr @\"g h\"}
!8 = distinct !{null, ptr @g}
";
        let found = callees(text).unwrap();
        assert_eq!(found["f"], [Some(set(&["f", "g h"])), Some(set(&["g"]))]);
        assert_eq!(found["g h"], [None]);
        assert!(callees(&text.replace("!8 = ", "!9 = ")).is_err());
    }

    #[test]
    fn what_is_wrong() {
        let theirs = set(&["f", "g"]);
        for (ours, errors) in [
            (SiteAnswer::Resolved(set(&["f"])), (0, 0, 0)),
            (SiteAnswer::Resolved(set(&["f", "h"])), (0, 1, 0)),
            (SiteAnswer::Overdefined("why".into()), (1, 0, 0)),
            (SiteAnswer::Missing, (0, 0, 1)),
            (SiteAnswer::Dead, (0, 0, 0)),
        ] {
            let mut compared = CalleeCounts::default();
            compared.add("f, call 0", Some(&theirs), &ours);
            let found = (compared.only_llvm.len(), compared.not_contained.len(), compared.errors.len());
            assert_eq!(found, errors, "{ours:?}");
        }
    }
}
