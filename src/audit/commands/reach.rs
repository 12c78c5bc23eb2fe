//! `audit reach`: whether the code of functions is in a program, as a proof of absence for advisories, with documents of OpenVEX 0.2.0 and
//! CycloneDX 1.6.
//!
//! The report lists the atoms that the link removed, and the linked file shows any other copy of their code: see
//! [`evidence`](crate::audit::evidence). A proof rests on these two alone, and not on value flow. A document says `not_affected` only for
//! code that is proved to be absent. The same question at the same `--timestamp` gives the same bytes.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::args::Environment;
use crate::audit::args::{ROWS, Request, rows};
use crate::audit::attribute::{place, symbol};
use crate::audit::commands::why::QueryGraph;
use crate::audit::evidence::names::{DebugName, SymbolForms, WantedFunction};
use crate::audit::evidence::{
    ArchiveFunction, CodeSymbol, LinkedProgram, UndescribedCode, archive_functions,
};
use crate::audit::find::{find, is_module, modules_and_symbols};
use crate::audit::graph::{NumberedEdge, ROOT};
use crate::audit::model::{Atom, AtomState, Model};
use crate::audit::table::{Answer, Cell, DocumentFormat, Format, Table, count, document};
use crate::error::{Error, Result, Stage};
use crate::hashing;
use crate::ids::named;
use crate::report::table::first_names;

named! {
    /// Whether the code of a function is in the program, the surest reason against its absence first.
    #[derive(PartialOrd, Ord)]
    enum PresenceVerdict {
        Reachable = "reachable",
        Present = "present",
        Inlined = "inlined",
        Imported = "imported",
        Unknown = "unknown",
        Removed = "removed",
        Absent = "absent",
    }
}

/// The verdict on one function, with its reasons.
struct PresenceFinding {
    name: String,
    verdict: PresenceVerdict,
    because: String,
    /// Reasons why it may be in the program although nothing shows it.
    doubts: Vec<String>,
    path: Vec<NumberedEdge>,
}

impl PresenceFinding {
    fn is_proved(&self) -> bool {
        self.verdict >= PresenceVerdict::Removed && self.doubts.is_empty()
    }

    /// The verdict for a document, with its reason.
    fn sentence(&self) -> String {
        let doubts = self.doubts.join("; ");
        match (self.verdict, doubts.is_empty()) {
            (PresenceVerdict::Removed | PresenceVerdict::Absent, false) => {
                format!("{} is {}, but that is not proved: {doubts}.", self.name, self.verdict.name())
            }
            (PresenceVerdict::Removed, true) => {
                format!("{} is removed by the link ({}).", self.name, self.because)
            }
            _ => format!("{} is {}: {}.", self.name, self.verdict.name(), self.because),
        }
    }
}

/// The symbols of the question, in its order.
pub(crate) fn names(request: &Request) -> Result<Vec<String>> {
    let mut names: Vec<String> = request.names.iter().map(|n| n.to_string_lossy().into_owned()).collect();
    if let Some(path) = request.value("from") {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|e| Error::io(Stage::Arguments, path, "read the list of symbols", e))?;
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        names.extend(lines.filter(|line| !line.is_empty()).map(str::to_owned));
    }
    if names.is_empty() {
        return Err(Error::new(Stage::Arguments, "the list of symbols is empty"));
    }
    Ok(names)
}

pub(crate) fn answer(
    model: &Model,
    program: Result<&LinkedProgram, &String>,
    names: &[String],
    request: &Request,
    env: &Environment<'_>,
) -> Result<Answer> {
    let link = PresenceQuestion::new(model, program, request.value("scope") == Some("file"));
    let findings: Vec<PresenceFinding> = names.iter().map(|name| link.finding(name)).collect();
    let mut table = Table::new("symbols", "", &["symbol", "verdict", "proved", "because"]);
    let mut paths = Table::new("paths", "shortest paths", &["symbol", "reference", "place", "to"]);
    let mut sums: BTreeMap<PresenceVerdict, u64> = BTreeMap::new();
    // Symbols with the same doubts share a line.
    let mut doubts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for finding in &findings {
        *sums.entry(finding.verdict).or_default() += 1;
        let proved = match (finding.verdict, finding.is_proved()) {
            (PresenceVerdict::Removed | PresenceVerdict::Absent, true) => "yes",
            (PresenceVerdict::Removed | PresenceVerdict::Absent, false) => "no",
            _ => "",
        };
        let cells = [&*finding.name, finding.verdict.name(), proved, &finding.because];
        table.row(cells.map(Cell::from).to_vec());
        link.question.steps(&finding.path, &mut paths, Some(finding.name.as_str().into()));
        for doubt in finding.doubts.iter().filter(|_| finding.verdict >= PresenceVerdict::Removed) {
            doubts.entry(doubt).or_default().push(&finding.name);
        }
    }
    table.limit(rows(request, ROWS));
    paths.limit(rows(request, ROWS));
    let all: Vec<String> =
        sums.iter().map(|(verdict, n)| format!("{} {}", count(*n), verdict.name())).collect();
    let proved = findings.iter().all(PresenceFinding::is_proved);
    let of = |names: &[&str]| match names {
        [one] => format!("{one} is"),
        [one, rest @ ..] => format!("{one} and {} more are", count(rest.len() as u64)),
        [] => String::new(),
    };
    let notes = doubts.iter().map(|(doubt, names)| format!("{} not proved: {doubt}.", of(names)));
    let document = match request.format {
        Format::Document(DocumentFormat::OpenVex) => {
            document(&VexClaim::read(request, env, link.statement(&findings))?.open_vex())
        }
        Format::Document(DocumentFormat::CycloneDx) => {
            document(&VexClaim::read(request, env, link.statement(&findings))?.cyclone_dx())
        }
        _ => String::new(),
    };
    Ok(Answer {
        lines: vec![format!("{}: {}", model.report.output, all.join(", "))],
        notes: notes.collect(),
        facts: vec![("output", model.report.output.as_str().into()), ("proved", proved.into())],
        tables: vec![table, paths],
        failed: !proved,
        document,
    })
}

/// A link with the tables that every symbol needs.
struct PresenceQuestion<'m> {
    model: &'m Model,
    question: QueryGraph<'m>,
    program: Option<&'m LinkedProgram>,
    file_alone: bool,
    /// By atom: whether the file has it, and the names of its symbols.
    present: Vec<bool>,
    symbols: Vec<Vec<SymbolForms<'m>>>,
    /// The names of the symbols of code in the file, and of the imports.
    in_file: Vec<SymbolForms<'m>>,
    imports: Vec<SymbolForms<'m>>,
    /// The functions of the archives that the link loaded members of.
    in_archives: OnceCell<Vec<ArchiveFunction>>,
    /// The names of the functions of start files and of the compiler's helpers.
    runtime: BTreeSet<&'m str>,
    /// The names of functions whose bodies were replaced by traps.
    stubs: BTreeSet<&'m str>,
    /// Reasons that hold for every symbol.
    doubts: Vec<String>,
}

impl<'m> PresenceQuestion<'m> {
    fn new(model: &'m Model, program: Result<&'m LinkedProgram, &String>, file_alone: bool) -> Self {
        let forms = |symbols: &'m [_]| symbols.iter().map(|s: &String| SymbolForms::new(s)).collect();
        let of_runtime = |a: &Atom| model.module_of(a).is_runtime();
        let names = |is: &dyn Fn(&Atom) -> bool| -> BTreeSet<&'m str> {
            model.atoms.iter().filter(|a| is(a)).flat_map(|a| a.symbols.iter().map(String::as_str)).collect()
        };
        let mut link = PresenceQuestion {
            model,
            question: QueryGraph::new(model, &[], &[], &[]),
            program: program.ok(),
            file_alone,
            present: model.present(),
            symbols: model.atoms.iter().map(|a| forms(&a.symbols)).collect(),
            in_file: program
                .map(|p| p.symbols.iter().map(|s| SymbolForms::new(&s.name)).collect())
                .unwrap_or_default(),
            in_archives: OnceCell::new(),
            imports: model.report.imports.iter().map(|i| SymbolForms::new(&i.symbol)).collect(),
            runtime: names(&of_runtime),
            stubs: names(&|a| model.report.pruned && a.state == AtomState::Stub),
            doubts: Vec::new(),
        };
        let opaque = model.report.modules.iter().find(|m| m.kind == "opaque");
        link.doubts.extend(opaque.map(|m| format!("{} was not analysed", m.short())));
        let in_runtime_section = |a: &&Atom| {
            matches!(&*a.section, ".init" | ".fini") && a.state == AtomState::Kept && !of_runtime(a)
        };
        let other = model.atoms.iter().find(in_runtime_section);
        link.doubts.extend(
            other.map(|a| format!("{} is code that debug information leaves out", place(model, a, None))),
        );
        match program {
            Ok(program) => link.doubts.extend(program.debug.unreadable.clone()),
            Err(why) => link.doubts.push(format!("inlined copies are not known: {why}")),
        }
        link
    }

    /// Whether a symbol of the file is that of a function whose body the link replaced by a trap.
    fn is_stub(&self, program: &LinkedProgram, symbol: &str, address: u64) -> bool {
        self.stubs.contains(symbol) && program.is_trap(address)
    }

    /// The atoms that have the name, and whether it is one of a single module.
    fn atoms(&self, name: &str) -> (Vec<usize>, WantedFunction, bool) {
        let has = |wanted: &WantedFunction, module: &str| -> Vec<usize> {
            let is_of = |at: &usize| {
                module.is_empty() || is_module(self.model.module_of(&self.model.atoms[*at]), module)
            };
            let named = self.symbols.iter().enumerate().filter(|(_, s)| s.iter().any(|s| wanted.is(s)));
            named.map(|(at, _)| at).filter(is_of).collect()
        };
        let whole = WantedFunction::new(name);
        let found = has(&whole, "");
        if !found.is_empty() {
            return (found, whole, false);
        }
        for (module, symbol) in modules_and_symbols(name) {
            let wanted = WantedFunction::new(symbol);
            let found = has(&wanted, module);
            if !found.is_empty() {
                return (found, wanted, true);
            }
        }
        (found, whole, false)
    }

    fn finding(&self, name: &str) -> PresenceFinding {
        let (mut doubts, mut path) = (self.doubts.clone(), Vec::new());
        let (verdict, because) = self.verdict(name, &mut doubts, &mut path);
        PresenceFinding { name: name.to_owned(), verdict, because, doubts, path }
    }

    /// The verdict with its reason; the doubts and a shortest path to the function are added.
    fn verdict(
        &self,
        name: &str,
        doubts: &mut Vec<String>,
        shortest: &mut Vec<NumberedEdge>,
    ) -> (PresenceVerdict, String) {
        let (atoms, wanted, of_module) = self.atoms(name);
        let by_name = self.by_name(&wanted);
        let (copies, removed_copies) = self.inlined(&wanted, doubts);
        let also = if copies.is_empty() { String::new() } else { format!("; inlined into {copies}") };
        let model = self.model;
        let atom = |at: usize| &model.atoms[at];
        let in_file = |at: &&usize| {
            let stub = model.report.pruned && atom(**at).state == AtomState::Stub;
            self.present.get(**at) == Some(&true) && !stub
        };
        let kept: Vec<usize> = atoms.iter().filter(in_file).copied().collect();
        let at = |list: &[usize]| some(list.iter().map(|at| place(model, atom(*at), None)));
        let paths = kept
            .iter()
            .filter_map(|at| self.question.graph.shortest(ROOT, Model::node(*at as u32), |_, _, _| true));
        if let Some(path) = paths.min_by_key(Vec::len) {
            let shared = kept.iter().map(|at| atom(*at).shares.len()).max().unwrap_or(0);
            let whole = match shared {
                0 => String::new(),
                n => format!(", in a section that was left whole with {} symbols", count(n as u64)),
            };
            *shortest = path;
            return (PresenceVerdict::Reachable, format!("{}{whole}{also}", at(&kept)));
        }
        if !kept.is_empty() {
            let why = match model.report.pruned {
                true => "no path to it is known".to_owned(),
                false => format!("nothing refers to it; {}", model.report.why_not_pruned()),
            };
            return (PresenceVerdict::Present, format!("{}: {why}{also}", at(&kept)));
        }
        let used = self.imports.iter().zip(model.used_imports()).filter(|(forms, _)| wanted.is(forms));
        let used: Vec<_> = used.map(|(_, used)| used).filter(|used| used.0.definer() != "nothing").collect();
        if let Some((import, edges)) = used.first() {
            let users = edges.iter().map(|e| symbol(model, model.atom(e.from)));
            let by = format!("{} defines it; used by {}{also}", import.definer(), some(users));
            return (PresenceVerdict::Imported, by);
        }
        if let Some(found) = by_name {
            if !of_module {
                return (PresenceVerdict::Present, format!("{found}{also}"));
            }
            doubts.push(format!("{found}, perhaps of another module"));
        }
        if !copies.is_empty() {
            return (PresenceVerdict::Inlined, format!("into {copies}"));
        }
        if !model.report.analysed || model.report.linked != "succeeded" {
            let because = format!("the link was not analysed; {}", model.report.why_not_pruned());
            return (PresenceVerdict::Unknown, because);
        }
        self.undescribed(&atoms, doubts);
        if atoms.is_empty() && removed_copies {
            let because = "it was inlined into code that was removed, and nowhere else".to_owned();
            return (PresenceVerdict::Removed, because);
        }
        if let Some(member) = self.not_loaded(&wanted).filter(|_| atoms.is_empty()) {
            let because = format!("{member} defines it and was not loaded");
            return (PresenceVerdict::Absent, because);
        }
        if atoms.is_empty() {
            let libraries = self.program.map(|p| p.libraries.join(", ")).unwrap_or_default();
            if !self.file_alone && !libraries.is_empty() {
                doubts.push(format!(
                    "{libraries} may contain it, which the program loads (--scope=file leaves shared libraries aside)"
                ));
            }
            let message = find(model, name).err().map(|e| e.message).unwrap_or_default();
            return (PresenceVerdict::Absent, message);
        }
        let data = atoms.iter().any(|at| atom(*at).kind != "code");
        doubts.extend(data.then(|| "it is data, of which copies are not known".to_owned()));
        let stub = atoms.iter().any(|at| atom(*at).state == AtomState::Stub);
        let trap = if stub { "; a trap stands in its place" } else { "" };
        (PresenceVerdict::Removed, format!("{}{trap}", at(&atoms)))
    }

    /// A member of an archive of the link that defines the function, if no module does.
    fn not_loaded(&self, wanted: &WantedFunction) -> Option<&str> {
        let functions = self.in_archives.get_or_init(|| {
            let archives: BTreeSet<&str> =
                self.model.report.modules.iter().filter_map(|m| m.archive.as_deref()).collect();
            archive_functions(&archives.into_iter().collect::<Vec<_>>())
        });
        let found = functions.iter().find(|f| wanted.is(&SymbolForms::new(&f.name)));
        found.map(|f| f.member.as_str())
    }

    /// A symbol or a debugging entry of the file that has the name of the function.
    fn by_name(&self, wanted: &WantedFunction) -> Option<String> {
        let program = self.program?;
        let symbols = program.symbols.iter().zip(&self.in_file).filter(|(_, forms)| wanted.is(forms));
        let symbol = symbols.map(|s| s.0).find(|s| !self.is_stub(program, &s.name, s.address));
        if let Some(CodeSymbol { name, address, .. }) = symbol {
            return Some(format!("the symbol {name} is at {address:#x} of the file"));
        }
        let mut entries = program.debug.functions.iter().filter(|(name, _)| wanted.is_entry(name));
        let is_trap = |address: u64| !self.stubs.is_empty() && program.is_trap(address);
        let entry = entries.find(|(_, address)| !is_trap(*address));
        entry.map(|(name, address)| {
            format!("debug information has {} at {address:#x} of the file", name.shown())
        })
    }

    /// The functions of the file into which it was inlined, empty if none is known, and whether removed code has a copy.
    fn inlined(&self, wanted: &WantedFunction, doubts: &mut Vec<String>) -> (String, bool) {
        let Some(program) = self.program else { return (String::new(), false) };
        let copies = program.debug.inlined.iter().filter(|copy| wanted.is_entry(&copy.function));
        let mut into: BTreeSet<&DebugName> = BTreeSet::new();
        let mut removed = false;
        for copy in copies {
            into.extend(&copy.into);
            removed |= copy.removed;
        }
        // Of code that was folded, debug information describes one origin.
        if removed && self.model.report.linker.icf != "none" {
            doubts.push(
                "it is inlined into code that was removed or folded into the same code (--icf)".to_owned(),
            );
        }
        (some(into.iter().map(|name| name.shown())), removed)
    }

    /// Add a doubt if some code has no debug information, so that it may hold inlined copies of these atoms.
    fn undescribed(&self, atoms: &[usize], doubts: &mut Vec<String>) {
        let Some(program) = self.program else { return };
        // Start files are no part of a program's sources, unless the question is about them.
        let is_of_runtime = atoms.iter().any(|at| self.model.module_of(&self.model.atoms[*at]).is_runtime());
        let is_known = |symbol: &CodeSymbol| {
            self.is_stub(program, &symbol.name, symbol.address)
                || !is_of_runtime && self.runtime.contains(&*symbol.name)
        };
        let code = program.undescribed(&is_known);
        let bytes: u64 = code.iter().map(|c| c.bytes).sum();
        let names = |code: &[UndescribedCode]| some(code.iter().map(|c| c.name.clone()));
        if program.debug.described.is_empty() {
            doubts.push(
                "inlined copies can't be ruled out: the file has no debug information of its code".to_owned(),
            );
        } else if !code.is_empty() {
            doubts.push(format!(
                "inlined copies can't be ruled out: {} bytes of code have no debug information that lists them: {}",
                count(bytes),
                names(&code)
            ));
        }
    }

    /// The statement that the findings allow.
    fn statement(&self, findings: &[PresenceFinding]) -> VexStatement {
        let proved = findings.iter().all(PresenceFinding::is_proved);
        let sentences: Vec<String> = findings.iter().map(PresenceFinding::sentence).collect();
        let mut text = sentences.join(" ");
        if proved {
            let hash = self.model.report.file.as_ref().map(|file| &*file.blake3).unwrap_or_default();
            text += &format!(
                " No symbol, function or inlined copy of this name is in the file {} (blake3 {hash}), whose code is described by debug \
                 information except for start files of the compiler.",
                self.model.report.output
            );
            let libraries = self.program.map(|p| p.libraries.join(", ")).unwrap_or_default();
            if !libraries.is_empty() {
                text += &format!(
                    " The shared libraries that it loads are not part of this statement: {libraries}."
                );
            }
        }
        VexStatement { not_present: proved, text }
    }
}

/// The first three of some names.
fn some(names: impl Iterator<Item = String>) -> String {
    match first_names(names, 3) {
        (named, 0) => named,
        (named, more) => format!("{named} and {} more", count(more as u64)),
    }
}

/// Seconds from 1970 to the year 10000, whose dates RFC 3339 can't write.
const END_OF_9999: u64 = 253_402_300_800;

/// The statement of a document about a vulnerability.
struct VexStatement {
    /// Whether the code is proved to be absent.
    not_present: bool,
    /// The argument, or the reason why there is no proof.
    text: String,
}

/// The contents of a VEX document: the statement, and the options that say whose it is and about which product and vulnerability.
struct VexClaim<'r> {
    statement: VexStatement,
    vulnerability: &'r str,
    product: &'r str,
    author: &'r str,
    time: String,
    /// It is made of the hash of all others, so that equal documents have the same one.
    id: String,
}

impl<'r> VexClaim<'r> {
    /// # Errors
    /// `--timestamp` or `SOURCE_DATE_EPOCH` is no time.
    fn read(request: &'r Request, env: &Environment<'_>, statement: VexStatement) -> Result<Self> {
        let time = timestamp(request.value("timestamp"), env)?;
        let vulnerability = request.value("vulnerability").unwrap_or_default();
        let product = request.value("product").unwrap_or_default();
        let author = request.value("author").unwrap_or("Unknown Author");
        let parts = [vulnerability, product, author, &statement.text, &time];
        let id = urn(&hashing::hash_of_parts(&parts.map(str::as_bytes)));
        Ok(VexClaim { statement, vulnerability, product, author, time, id })
    }

    fn open_vex(&self) -> Value {
        let mut statement = json!({
            "vulnerability": { "name": self.vulnerability },
            "products": [{ "@id": self.product }],
            "status": "under_investigation",
            "status_notes": self.statement.text,
        });
        if self.statement.not_present {
            statement["status"] = "not_affected".into();
            statement["justification"] = "vulnerable_code_not_present".into();
        }
        json!({
            "@context": "https://openvex.dev/ns/v0.2.0",
            "@id": self.id,
            "author": self.author,
            "timestamp": self.time,
            "version": 1,
            "tooling": tool(),
            "statements": [statement],
        })
    }

    fn cyclone_dx(&self) -> Value {
        let mut analysis = json!({ "state": "in_triage", "detail": self.statement.text });
        if self.statement.not_present {
            analysis = json!({
                "state": "not_affected",
                "justification": "code_not_present",
                "detail": self.statement.text,
            });
        }
        let mut component = json!({ "type": "application", "bom-ref": self.product, "name": self.product });
        if self.product.starts_with("pkg:") {
            component["purl"] = Value::from(self.product);
        }
        json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "serialNumber": self.id,
            "version": 1,
            "metadata": {
                "timestamp": self.time,
                "authors": [{ "name": self.author }],
                "tools": { "components": [
                    { "type": "application", "name": "lto-prune", "version": env!("CARGO_PKG_VERSION") },
                ] },
                "component": component,
            },
            "vulnerabilities": [{
                "id": self.vulnerability,
                "analysis": analysis,
                "affects": [{ "ref": self.product }],
            }],
        })
    }
}

fn tool() -> String {
    format!("lto-prune {} audit reach", env!("CARGO_PKG_VERSION"))
}

/// A name for the document, made of a hash: a UUID of version 8 (RFC 9562).
fn urn(hash: &[u8; 32]) -> String {
    let mut digits: Vec<char> = hashing::hex(hash).chars().take(32).collect();
    for (at, digit) in [(12, '8'), (16, '8')] {
        if let Some(slot) = digits.get_mut(at) {
            *slot = digit;
        }
    }
    let groups = [(0, 8), (8, 4), (12, 4), (16, 4), (20, 12)];
    let group = |(start, length): (usize, usize)| digits.iter().skip(start).take(length).collect::<String>();
    format!("urn:uuid:{}", groups.map(group).join("-"))
}

/// The time of the document: what was given, else `SOURCE_DATE_EPOCH`, else now.
fn timestamp(given: Option<&str>, env: &Environment<'_>) -> Result<String> {
    let wrong = |message: String| Error::new(Stage::Arguments, message);
    let epoch = env.get("SOURCE_DATE_EPOCH").map(|v| v.to_string_lossy().into_owned());
    let time = match (given, epoch) {
        (Some(time), _) => humantime::parse_rfc3339(time)
            .map_err(|_| wrong(format!("--timestamp is as 2026-01-31T12:00:00Z, not {time}")))?,
        (None, Some(text)) => {
            let seconds = text.parse().ok().filter(|seconds| *seconds < END_OF_9999);
            let seconds = seconds
                .ok_or_else(|| wrong(format!("SOURCE_DATE_EPOCH is a number of seconds, not {text}")))?;
            UNIX_EPOCH + Duration::from_secs(seconds)
        }
        (None, None) => SystemTime::now(),
    };
    Ok(humantime::format_rfc3339_seconds(time).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_an_identifier_of_its_own() {
        let id = urn(&[0xff; 32]);
        assert_eq!(id, "urn:uuid:ffffffff-ffff-8fff-8fff-ffffffffffff");
    }
}
