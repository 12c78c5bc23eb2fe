//! Value flow from hand-written summaries: LLVM's examples, each rule of liveness, and random programs against an oracle.
#![allow(clippy::unwrap_used)]

mod cloning;
mod large;
mod mappings;
mod oracle;
mod oracle_places;
mod library_models;
mod random;
mod stack;
mod stops;

use summaries::models::{Effect, MemoryIdx, Model, PassedArgument, ResultUse, Source};
use summaries::{AtomKind, Definition, ModuleSummary, Target};

use super::*;
use crate::ids::DsoId;
use crate::index::build;
use crate::index::tests::Link;
use crate::inputs::Inputs;
use crate::propagate::live;
use crate::resolve::Prevailing;

/// The fixpoint of modules given as text. Undefined names are functions of a library with these models. `weak_hook` and `strong_hook`
/// have no definition. A module that refers to `unseen_library` has a library without a table.
pub(super) fn flow_of(line: &str, texts: &[&str], models: &[(&str, Model)]) -> (ValueFlow, Vec<String>) {
    flow_of_within(line, texts, models, budget::BUDGET)
}

pub(super) fn flow_of_within(
    line: &str,
    texts: &[&str],
    models: &[(&str, Model)],
    budget: budget::Budget,
) -> (ValueFlow, Vec<String>) {
    let link = Link::new(&format!("{line} --prune-level=pointers"), texts);
    let mut resolution = link.resolution();
    let ids: Vec<SymbolId> = resolution.symbols.ids().collect();
    for id in ids {
        if let Prevailing::Undefined { .. } = resolution.symbols[id].prevailing {
            resolution.symbols[id].prevailing = match resolution.symbols[id].name {
                b"__bss_start" => Prevailing::Linker,
                b"weak_hook" => Prevailing::Undefined { weak: true },
                b"strong_hook" => Prevailing::Undefined { weak: false },
                _ => Prevailing::Dso(DsoId(0)),
            };
        }
    }
    let summaries: Vec<&summaries::ModuleSummary> = link.summaries.iter().collect();
    let index = build(link.inputs(&Inputs::default(), &resolution, &summaries));
    let model = |id: SymbolId| {
        let name = resolution.symbols[id].name;
        models.iter().find(|m| m.0.as_bytes() == name).map(|m| &m.1)
    };
    let sources = FlowInputs {
        config: &link.config,
        resolution: &resolution,
        summaries: &summaries,
        index: &index,
        reachable: &live(&index),
        models: &model,
        memory: &|id| model(id).map(|m| ("", m.memory)),
        unseen_code: resolution.symbols.iter().any(|s| s.name == b"unseen_library"),
        has_sections: false,
        can_stub: &|_| true,
    };
    let names = summaries
        .iter()
        .flat_map(|s| s.atoms.iter().map(|a| String::from_utf8_lossy(s.name(a.name)).into_owned()));
    let flow = flow_within(sources, true, budget);
    // The report must not change the result.
    let silent = flow_within(sources, false, budget).liveness;
    assert_eq!((&silent.witness, &silent.stub), (&flow.liveness.witness, &flow.liveness.stub));
    (flow, names.collect())
}

/// The live atoms and the stubs, by name.
fn outcome(texts: &[&str], models: &[(&str, Model)]) -> (Vec<String>, Vec<String>, ValueFlow) {
    let (flow, names) = flow_of("a.o -o out", texts, models);
    let by = |keep: &dyn Fn(usize) -> bool| {
        names.iter().enumerate().filter(|(i, _)| keep(*i)).map(|(_, n)| n.clone()).collect()
    };
    let live = by(&|i| flow.liveness.is_live(AtomId::new(i)));
    let stubs = by(&|i| flow.liveness.stub[i]);
    (live, stubs, flow)
}

/// The text of a module: one function per section, each with the lines of its body and the references that these need.
pub(super) fn module(functions: &[(&str, &str)], data: &[(&str, &str)], outside: &[&str]) -> String {
    let mut text = "module native pointers\nsymbol \"\"\n".to_owned();
    for (name, _) in functions {
        text += &format!("symbol {name} global func in [t.{name}] size 32\n");
    }
    for (name, _) in data {
        text += &format!("symbol {name} global object in [{name}] size 32\n");
    }
    for name in outside {
        text += &format!("symbol {name} global\n");
    }
    let mut flow = String::new();
    for (i, (name, body)) in functions.iter().enumerate() {
        let section = i + 1;
        text += &format!("atom t.{name} code section {section} size 32 flags exec,standard\n");
        flow += &format!("function [t.{name}]\n  entry [t.{name}] @0\n");
        let lines = body.split(';').map(str::trim).filter(|l| !l.is_empty());
        for (at, line) in (4..).zip(lines) {
            if let Some(target) = line.strip_prefix("mention ") {
                // No constraint accounts for this reference.
                text += &format!("  address @{at} {target} -4\n");
            } else {
                let words: Vec<&str> = line.split_whitespace().collect();
                for (kind, word) in [("address", "address"), ("call", "direct")] {
                    if let Some(k) = words.iter().position(|w| *w == word) {
                        text += &format!("  {kind} @{at} {} -4\n", words[k + 1]);
                        flow += &format!("  accounts section {section} @{at}\n");
                    }
                }
                flow += &format!("  {}\n", line.replace("call", &format!("site section {section} @{at}")));
            }
        }
    }
    for (i, (name, body)) in data.iter().enumerate() {
        let section = functions.len() + i + 1;
        text += &format!("atom {name} data section {section} size 32 flags write,standard\n");
        for line in body.split(';').map(str::trim).filter(|l| !l.is_empty()) {
            text += &format!("  data @{line}\n");
        }
    }
    text + &flow
}

/// Whether the atom of this number is code.
fn is_code(summary: &ModuleSummary, atom: u32) -> bool {
    summary.atoms[atom as usize].kind == AtomKind::Code
}

/// The atom of a target that the module defines.
fn defined(summary: &ModuleSummary, target: Target) -> Option<u32> {
    match target {
        Target::Atom(atom) => Some(atom.0),
        Target::Symbol(symbol) => match summary.symbols[symbol.index()].definition {
            Definition::Atom(atom) => Some(atom.0),
            _ => None,
        },
    }
}

#[test]
fn a_comparison_routine_passed_as_an_argument() {
    let text = module(
        &[
            ("_start", "%0 = address less; call direct sort actual rdi %0; %1 = address other"),
            ("sort", "param rdi %0; call indirect %0"),
            ("less", ""),
            ("other", ""),
        ],
        &[],
        &[],
    );
    let (live, stubs, flow) = outcome(&[&text], &[]);
    assert_eq!((live, stubs), (strings(&["t._start", "t.sort", "t.less"]), strings(&["t.other"])));
    assert_eq!(flow.sites[0].targets, [(AtomId(2), Some(0))]);
    assert_eq!((flow.statistics.unwrap().resolved, flow.statistics.unwrap().overdefined), (1, 0));
    assert_eq!(flow.liveness.witness[2], Some(crate::propagate::Witness::Called { caller: AtomId(1) }));
}

#[test]
fn select_and_returned_functions_and_recursion() {
    let text = module(
        &[
            ("_start", "call direct choose result rax %0; call indirect %0 result rax %1; call indirect %1"),
            // Both branches, and a recursive call.
            (
                "choose",
                "%0 = address f; %0 = address g; result rax %1; %1 = %0; call direct choose result rax %1",
            ),
            ("f", "%0 = address h; result rax %0"),
            ("g", ""),
            ("h", ""),
            ("unused", ""),
        ],
        &[],
        &[],
    );
    let (live, stubs, flow) = outcome(&[&text], &[]);
    assert_eq!(live, strings(&["t._start", "t.choose", "t.f", "t.g", "t.h"]));
    assert!(stubs.is_empty());
    assert_eq!(flow.sites[1].targets, [(AtomId(4), Some(0))]);
}

#[test]
fn a_global_holds_a_function() {
    let text = module(
        &[
            ("_start", "%0 = address table; %1 = load %0 +8 size 8; call indirect %1"),
            ("zero", ""),
            ("eight", ""),
            ("stored", ""),
            ("never", "%0 = address table; %1 = address stored; store %1 -> %0 +8 size 8"),
        ],
        &[("table", "0 zero; 8 eight; 16 never")],
        &[],
    );
    let (live, stubs, _) = outcome(&[&text], &[]);
    // `never` is not called, so its store does not count.
    assert_eq!(live, strings(&["t._start", "t.eight", "table"]));
    assert_eq!(stubs, strings(&["t.zero", "t.never"]));
}

#[test]
fn what_escapes_lives() {
    let body = "%0 = address f; call direct outside actual rdi %0; mention g; %1 = address table";
    let functions =
        [("_start", body), ("f", "param rdi %0; call indirect %0"), ("g", ""), ("h", ""), ("i", "")];
    let text = module(&functions, &[("table", "0 h; 8 more"), ("more", "0 i")], &["outside"]);
    let (live, stubs, flow) = outcome(&[&text], &[]);
    assert_eq!(live, strings(&["t._start", "t.f", "t.g", "table", "more"]));
    assert_eq!(stubs, strings(&["t.h", "t.i"]));
    assert_eq!(flow.sites[0].overdefined, [OverdefinedReason::Parameter]);
    // The table escapes by an unknown call, and so do its functions.
    let body = format!("{body}; call direct outside actual rdi %1");
    let functions = [("_start", body.as_str()), functions[1], functions[2], functions[3], functions[4]];
    let text = module(&functions, &[("table", "0 h; 8 more"), ("more", "0 i")], &["outside"]);
    assert!(outcome(&[&text], &[]).1.is_empty());
}

#[test]
fn models_of_library_functions() {
    let sort = Effect::Calls {
        function: Source::Argument(3),
        arguments: [PassedArgument::Within(0), PassedArgument::Within(0), PassedArgument::Nothing],
        returned: ResultUse::Dropped,
    };
    let model = |effect| Model { effects: vec![effect], ..Model::default() };
    let models = [
        ("qsort", model(sort)),
        ("malloc", model(Effect::ReturnsFresh)),
        (
            "memcpy",
            model(Effect::Copies { from: Source::Argument(1), to: Source::Argument(0), aligned: true }),
        ),
        ("puts", Model::default()),
    ];
    let text = module(
        &[
            (
                "_start",
                "%0 = address table; %1 = address less; %2 = address f; \
                call direct qsort actual rcx %1 actual rdi %0; call direct puts actual rdi %2; \
                call direct malloc result rax %3; call direct malloc result rax %4; \
                call direct memcpy actual rsi %0 actual rdi %3; \
                %5 = load %3 +8 size 8; call indirect %5; %6 = load %4 +8 size 8; call indirect %6",
            ),
            // The parameter of the comparison function is an element of the table.
            ("less", "param rsi %0; %1 = load %0 +0 size 8; call indirect %1; param rdi %2"),
            ("f", ""),
            ("g", ""),
            ("h", ""),
        ],
        &[("table", "0 g; 8 h")],
        &["qsort", "malloc", "memcpy", "puts"],
    );
    let (live, stubs, flow) = outcome(&[&text], &models);
    assert_eq!((live.len(), stubs), (5, strings(&["t.f"])));
    assert_eq!(
        (
            flow.statistics.unwrap().resolved,
            flow.statistics.unwrap().empty,
            flow.statistics.unwrap().overdefined
        ),
        (2, 1, 0)
    );
    // Without models everything escapes.
    assert!(outcome(&[&text], &[]).1.is_empty());
}

#[test]
fn memory_that_a_library_owns() {
    let held = vec![
        Effect::Holds(Source::Argument(1)),
        Effect::ReturnsHeld,
        Effect::Calls {
            function: Source::Argument(1),
            arguments: [PassedArgument::Library; 3],
            returned: ResultUse::Kept,
        },
    ];
    let models = [
        ("signal", Model { effects: held, memory: MemoryIdx(1), ..Model::default() }),
        ("fopen", Model { effects: vec![Effect::ReturnsLibrary], ..Model::default() }),
        ("sigaction", Model { effects: vec![Effect::ReturnsHeld], memory: MemoryIdx(1), ..Model::default() }),
    ];
    let start = "%0 = address f; call direct signal actual rsi %0; call direct signal result rax %1; call indirect %1; \
                call direct fopen result rax %2; %3 = address g; store %3 -> %2 +8 size 8; \
                %4 = load %2 +64 size 8; call indirect %4; %5 = address h; \
                call direct sigaction result rax %6; call indirect %6";
    let text_of = |start: &str| {
        let names = ["signal", "fopen", "sigaction", "open_memstream"];
        module(
            &[("_start", start), ("f", "result rax %0; %0 = address i"), ("g", ""), ("h", ""), ("i", "")],
            &[],
            &names,
        )
    };
    let text = text_of(start);
    let (live, stubs, flow) = outcome(&[&text], &models);
    // The library keeps the handler's result. The program may read values from a stream that it stored there.
    assert_eq!(live, strings(&["t._start", "t.f", "t.g", "t.i"]));
    assert_eq!(stubs, strings(&["t.h"]));
    let targets: Vec<Vec<AtomId>> =
        flow.sites.iter().map(|s| s.targets.iter().map(|t| t.0).collect()).collect();
    // Functions with models for the same memory return the values that the other one stored.
    let held = vec![AtomId(1), AtomId(4)];
    assert_eq!(targets, [held.clone(), vec![AtomId(2)], held]);
    assert_eq!(flow.statistics.unwrap().overdefined, 0);
    // External code reads the values stored there.
    let text =
        text_of(&format!("{start}; %7 = address h; store %7 -> %2 size 8; call direct open_memstream"));
    let (live, stubs, flow) = outcome(&[&text], &models);
    assert_eq!((live.len(), stubs.len()), (5, 0));
    assert_eq!(flow.statistics.unwrap().escaped, 5);
}

/// An absolute symbol may be a variable: values stored there escape, and a load may return anything.
#[test]
fn memory_at_a_number() {
    let start = "%0 = address f; %1 = address register; store %0 -> %1 size 8; %2 = load %1 +8 size 8; \
                call indirect %2; %3 = address g";
    let text = module(&[("_start", start), ("f", ""), ("g", "")], &[], &["register"]);
    let text = text.replace("symbol register global\n", "symbol register global absolute\n");
    let (live, stubs, flow) = outcome(&[&text], &[]);
    assert_eq!((live, stubs), (strings(&["t._start", "t.f"]), strings(&["t.g"])));
    assert_eq!(flow.statistics.unwrap().overdefined, 1);
}

/// A function that is read, written or copied needs its body, also if it was not analysed.
#[test]
fn bytes_of_code() {
    let functions = ["read", "written", "from", "to", "unread", "opaque"];
    let start = "%0 = address read; %1 = load %0 +4 size 4; %2 = address written; store %1 -> %2 size 1; \
                %3 = address from; %4 = address data; copy %3 +0 -> %4 +0 size 16; \
                %5 = address to; copy %4 +0 -> %5 +0 size 16; %6 = address unread; %7 = address opaque; %8 = load %7 size 4";
    let bodies: Vec<(&str, &str)> =
        [("_start", start)].into_iter().chain(functions.map(|f| (f, ""))).collect();
    let text = module(&bodies, &[("data", "")], &[]);
    let text = text.replace("function [t.opaque]\n  entry [t.opaque] @0\n", "");
    let (live, stubs, _) = outcome(&[&text], &[]);
    assert_eq!(live, strings(&["t._start", "t.read", "t.written", "t.from", "t.to", "t.opaque", "data"]));
    assert_eq!(stubs, strings(&["t.unread"]));
}

#[test]
fn tagged_addresses_and_labels_that_are_called() {
    let text = module(
        &[
            (
                "_start",
                "%0 = address f; %1 = %0 +1; %2 = %1 unknown; %3 = address g; call indirect %2 actual rdi %3; \
                %4 = address inner +8; %5 = address h; call indirect %4 actual rsi %5",
            ),
            ("f", "param rdi %0; call indirect %0"),
            ("g", ""),
            ("h", ""),
            ("inner", "atlabel %0; call indirect %0"),
        ],
        &[],
        &[],
    );
    let (live, stubs, flow) = outcome(&[&text], &[]);
    assert_eq!((live.len(), stubs.len()), (5, 0));
    assert_eq!(flow.sites.iter().map(|s| s.targets.len()).collect::<Vec<_>>(), [1, 1, 1, 1]);
}

#[test]
fn labels_and_functions_that_were_not_understood() {
    let text = module(
        &[
            (
                "_start",
                "%0 = address plain; call indirect %0 actual rdi %1; %1 = address f; %2 = address inner +8; \
                %3 = address g; call direct taker actual rdi %2",
            ),
            ("plain", "mention h"),
            ("f", ""),
            ("inner", "atlabel %0; call indirect %0"),
            ("g", ""),
            ("h", ""),
            ("taker", "param rdi %0"),
        ],
        &[],
        &[],
    );
    let text = text.replace("function [t.plain]\n  entry [t.plain] @0\n", "");
    let (live, stubs, _) = outcome(&[&text], &[]);
    // `plain` has no summary: its arguments escape, and all functions that it refers to are live. A label keeps its function.
    assert_eq!(live, strings(&["t._start", "t.plain", "t.f", "t.inner", "t.h", "t.taker"]));
    assert_eq!(stubs, strings(&["t.g"]));
}

#[test]
fn a_summary_that_accounts_for_what_it_does_not_name_is_not_believed() {
    let text = module(&[("_start", "mention f; %0 = address g"), ("f", ""), ("g", "")], &[], &[]);
    let accounted =
        text.replacen("  entry [t._start] @0\n", "  entry [t._start] @0\n  accounts section 1 @4\n", 1);
    assert_ne!(text, accounted);
    assert_eq!(outcome(&[&accounted], &[]).1, strings(&["t.g"]));
}

#[test]
fn shared_libraries_may_be_preempted() {
    let text = module(
        &[("_start", "%0 = address f; call direct own actual rdi %0"), ("own", ""), ("f", "")],
        &[],
        &[],
    );
    let (flow, _) = flow_of("a.o -shared -o out", &[&text], &[]);
    assert!(flow.liveness.stub.iter().all(|s| !s));
    let (flow, _) = flow_of("a.o -o out", &[&text], &[]);
    assert_eq!(flow.liveness.stub, [false, false, true]);
}

#[test]
fn what_a_callee_leaves_alone_is_there_behind_the_call() {
    let call = "%0 = address f; call direct leaver actual rdx %0 result rdx %1; call indirect %1";
    let stubs = |body: &str| {
        let text = module(&[("_start", call), ("leaver", body), ("f", ""), ("g", "")], &[], &[]);
        outcome(&[&text], &[]).1
    };
    assert_eq!(stubs("preserves rdx xmm0"), strings(&[]));
    assert_eq!(stubs("preserves xmm0"), strings(&["t.f"]));
    assert_eq!(stubs("%0 = address g; result rdx %0"), strings(&["t.f"]));
    // Unknown code may also preserve rax, although it takes no argument there.
    let call = "%0 = address f; %2 = unknown; call indirect %2 actual rax %0 result rax %1; call indirect %1";
    let text = module(&[("_start", call), ("f", "")], &[], &[]);
    assert_eq!(outcome(&[&text], &[]).1, strings(&[]));
}

fn strings(of: &[&str]) -> Vec<String> {
    of.iter().map(|s| (*s).to_owned()).collect()
}
