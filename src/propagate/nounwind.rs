//! Nounwind: the unwind entries (FDEs) that no unwinding of the program can need.
//!
//! An FDE is needed for a kind of unwinding if two facts hold. Such an unwinding may start while the function is on the stack
//! (*below*). The function or a possible caller has a handler for it (*above*). Backtraces need the first fact alone.
//! *Below* is propagated from starts to callers, *above* from handlers to callees, over the call graph.
//! An indirect call leads to each function whose address is taken. LLVM's thin link propagates `NoUnwind` in the same way.

use rayon::prelude::*;
use rustc_hash::FxHashSet;
use summaries::native::{ComputedCalls, FunctionEntry, computed_calls, function_entries};
use summaries::{
    Atom, AtomIdx, AtomKind, Definition, ModuleKind, ModuleSummary, OwnedRange, Reference, ReferenceKind,
    Symbol, SymbolIdx, SymbolKind, Target,
};

use super::liveness::{Liveness, Witness};
use super::solver::{Lattice, Problem, solve};
use super::unwind_models::{self, Kinds, UnwindRole};
use crate::config::{Config, Icf, OutputKind, UnwindPruning};
use crate::error::lossy;
use crate::ids::{AtomId, Id};
use crate::index::{Edge, EdgeKind, Index, IndexedModule, LinkInputs, RemovedUnwind, RootReason};
use crate::messages;

impl Lattice for Kinds {
    fn join(&mut self, other: &Self) -> bool {
        let before = self.0;
        self.0 |= other.0;
        self.0 != before
    }
}

/// The functions and the calls between them. Key `index.atom_count()` stands for the targets of all indirect calls.
struct CallGraph<'i> {
    index: &'i Index,
    /// By atom: it is live code.
    code: Vec<bool>,
    /// By atom: it may be the target of an indirect call.
    address_taken: Vec<bool>,
    /// By atom: it may be the target of an indirect call that is not of start code.
    called_back: Vec<bool>,
    /// By atom: it is start code, which has no handler.
    start: Vec<bool>,
    /// By atom: it makes no indirect call, and is interrupted by no code of the program.
    direct: Vec<bool>,
    /// Pairs of (callee, caller), sorted: direct calls.
    callers: Vec<(u32, u32)>,
}

impl<'i> CallGraph<'i> {
    fn new(link: LinkInputs<'_>, index: &'i Index, live: &Liveness, findings: &Findings) -> Self {
        let summaries = link.summaries;
        let of_kind = |atom: AtomId| {
            let (position, local) = index.locate(atom);
            let kind = summaries.get(position).and_then(|s| s.atoms.get(local.index())).map(|a| a.kind);
            kind.is_some_and(is_code) && live.is_live(atom)
        };
        let count = index.atom_count();
        let code: Vec<bool> = (0..count).into_par_iter().map(|atom| of_kind(AtomId::new(atom))).collect();
        let mut address_taken = vec![false; count];
        index.roots.iter().for_each(|root| address_taken[root.atom.index()] = true);
        let mut called_back = address_taken.clone();
        let mut callers = Vec::new();
        let start = start_code(link, index);
        let tables = OwnedTables::new(link, index);
        for from in (0..count).map(AtomId::new).filter(|from| live.is_live(*from)) {
            let refers = |edge: &&Edge| index.follows_in_plain(from, edge) && code[edge.target.index()];
            for edge in index.edges_of(from).1.iter().filter(refers) {
                let is_formed = edge.has(Edge::ADDRESS) || edge.kind == EdgeKind::Call && !code[from.index()];
                if is_formed && !tables.stand_for(link, index, from, edge) {
                    address_taken[edge.target.index()] = true;
                    called_back[edge.target.index()] |= !start[from.index()];
                }
                if code[from.index()] && edge.has(Edge::ADDRESS | Edge::CALLS) {
                    callers.push((edge.target.0, from.0));
                }
            }
        }
        callers.par_sort_unstable();
        let computed = computed_calls_of(link, index);
        for ((taken, called_back), calls) in address_taken.iter_mut().zip(&mut called_back).zip(&computed) {
            *taken |= calls.own_address;
            *called_back |= calls.own_address;
        }
        let interrupted =
            findings.interrupts || unwind_models::library_interrupts(link.inputs, link.resolution);
        let direct = computed.iter().map(|calls| !calls.indirect && !interrupted).collect();
        CallGraph { index, code, address_taken, called_back, start, direct, callers }
    }

    fn indirect(&self) -> u32 {
        self.code.len() as u32
    }

    fn all_code(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.code).filter(|(_, code)| **code).map(|(atom, _)| atom)
    }
}

/// By atom: it gives function addresses to start code alone, which has no handler: an array of constructors, or the entry of a start file.
fn start_code(link: LinkInputs<'_>, index: &Index) -> Vec<bool> {
    let LinkInputs { inputs, summaries, .. } = link;
    let mut start = Vec::with_capacity(index.atom_count());
    for summary in summaries {
        let is_array = |atom: &Atom| {
            let name = summary.name(atom.name);
            let rest = name.strip_prefix(b".init_array").or_else(|| name.strip_prefix(b".preinit_array"));
            atom.kind == AtomKind::InitFini && matches!(rest, Some([] | [b'.', ..]))
        };
        start.extend(summary.atoms.iter().map(is_array));
    }
    for root in index.roots.iter().filter(|root| root.reason == RootReason::Entry) {
        let (position, _) = index.locate(root.atom);
        let has_handler = summaries[position].atoms.iter().any(|atom| atom.kind == AtomKind::Lsda);
        let is_file = unwind_models::is_entry_file(inputs, index.modules[position].module);
        start[root.atom.index()] |= is_file && !has_handler;
    }
    start
}

/// Jump tables that one function alone reads: that function, and the range in the table's section; sorted.
struct OwnedTables(Vec<(AtomId, u64, u64)>);

impl OwnedTables {
    fn new(link: LinkInputs<'_>, index: &Index) -> Self {
        let of_module = |(this, summary): (&IndexedModule, &&ModuleSummary)| {
            let global =
                |range: &OwnedRange| (AtomId(this.first_atom + range.owner.0), range.start, range.end);
            summary.owned.iter().map(global).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = index.modules.iter().zip(link.summaries).flat_map(of_module).collect();
        all.sort_unstable();
        OwnedTables(all)
    }

    /// Whether an edge from code stands for entries of such tables alone.
    fn stand_for(&self, link: LinkInputs<'_>, index: &Index, from: AtomId, edge: &Edge) -> bool {
        let first = self.0.partition_point(|(owner, _, _)| *owner < from);
        let own = || self.0[first..].iter().take_while(|(owner, _, _)| *owner == from);
        let ((position, local), (of_target, target)) = (index.locate(from), index.locate(edge.target));
        if own().next().is_none() || edge.has(Edge::STRUCTURAL) || position != of_target {
            return false;
        }
        let summary = link.summaries[position];
        let leads_there = |r: &&Reference| summary.target_atom(r.target) == Some(target);
        let is_formed = |r: &&Reference| !matches!(r.kind, ReferenceKind::Call | ReferenceKind::Unwind);
        let in_table = |r: &Reference| {
            let holds = |(_, start, end): &(AtomId, u64, u64)| (*start..*end).contains(&r.offset);
            r.kind == ReferenceKind::Data && own().any(holds)
        };
        let mut formed = summary.references_of(local).iter().filter(leads_there).filter(is_formed).peekable();
        formed.peek().is_some() && formed.all(in_table)
    }
}

/// Kinds of unwinding, propagated over calls: from starts to callers, or from handlers to callees.
struct UnwindPaths<'g> {
    graph: &'g CallGraph<'g>,
    to_callers: bool,
}

impl Problem for UnwindPaths<'_> {
    type Fact = Kinds;

    fn keys(&self) -> usize {
        self.graph.code.len() + 1
    }

    fn transfer(&self, key: u32, fact: &Kinds, implies: &mut dyn FnMut(u32, Kinds)) {
        let (graph, atom, is_indirect) = (self.graph, key as usize, key == self.graph.indirect());
        let mut imply = |to: u32| implies(to, *fact);
        match (self.to_callers, is_indirect) {
            (true, true) => graph.all_code().filter(|caller| !graph.direct[*caller as usize]).for_each(imply),
            (false, true) => {
                graph.all_code().filter(|callee| graph.called_back[*callee as usize]).for_each(imply)
            }
            (true, false) => {
                let first = graph.callers.partition_point(|(callee, _)| *callee < key);
                let callers = graph.callers[first..].iter().take_while(|(callee, _)| *callee == key);
                callers.for_each(|(_, caller)| imply(*caller));
                if graph.address_taken[atom] {
                    imply(graph.indirect());
                }
            }
            (false, false) if graph.start[atom] => {}
            (false, false) => {
                let calls =
                    |edge: &&Edge| edge.has(Edge::ADDRESS | Edge::CALLS) && graph.code[edge.target.index()];
                let callees = graph.index.edges_of(AtomId(key)).1.iter().filter(calls);
                callees.for_each(|edge| imply(edge.target.0));
                if !graph.direct[atom] {
                    imply(graph.indirect());
                }
            }
        }
    }
}

/// A live reference that may start an unwinding, or that makes unwinding unknown.
struct Finding {
    atom: AtomId,
    symbol: String,
    role: UnwindRole,
    /// It is a direct call, and the address is not taken.
    is_call: bool,
}

/// The facts about unwinding in live code and data.
#[derive(Default)]
struct Findings {
    references: Vec<Finding>,
    /// The atoms that have a handler, and for which kinds.
    handlers: Vec<(AtomId, Kinds)>,
    /// A C++ library may call the program while it has a handler: a class inherits from one of the library, or it gets a callback.
    overrides: bool,
    /// Code of the program may run wherever other code is interrupted.
    interrupts: bool,
    /// A thread may be cancelled, or may end itself: without either the C library forces no unwinding.
    ends_threads: bool,
    /// The largest vtable without type information, in bytes, or 0. Its base class is unknown.
    untyped_class: u64,
    /// The smallest vtable of a C++ library's class whose functions code may inherit, in bytes.
    library_class: Option<u64>,
}

impl Findings {
    /// Add the findings of another module to these.
    fn join(&mut self, other: Findings) {
        self.references.extend(other.references);
        self.handlers.extend(other.handlers);
        self.overrides |= other.overrides;
        self.interrupts |= other.interrupts;
        self.ends_threads |= other.ends_threads;
        self.untyped_class = self.untyped_class.max(other.untyped_class);
        self.library_class = self.library_class.into_iter().chain(other.library_class).min();
    }
}

/// The unwind entries that are removed, given the liveness by references while all of them are kept.
pub fn removed(link: LinkInputs<'_>, index: &Index, live: &Liveness, mode: UnwindPruning) -> RemovedUnwind {
    let LinkInputs { config, inputs, resolution, .. } = link;
    let keep = |why: String| RemovedUnwind { kept: Some(why), ..RemovedUnwind::default() };
    match config.output_kind {
        OutputKind::Relocatable => return keep("the output is relocatable (-r)".to_owned()),
        OutputKind::Shared => return keep("code outside of the link calls a shared library".to_owned()),
        _ => {}
    }
    if let Some(script) = unwind_models::script_with_tables(inputs) {
        return keep(format!("the script {script} names .eh_frame"));
    }
    let findings = findings(link, index, live);
    let path = |finding: &Finding| path(link, index, live, finding.atom);
    let unknown = unwind_models::unknown_library(inputs, resolution);
    let unknown = unknown.or_else(|| unwind_models::renamed(config, inputs)).or_else(|| {
        let what = |f: &Finding| if let UnwindRole::Unknown(what) = f.role { Some(what) } else { None };
        let found = findings.references.iter().find(|f| what(f).is_some())?;
        Some(format!("{} refers to {}, {}", path(found), found.symbol, what(found)?))
    });
    if mode == UnwindPruning::Unused && unknown.is_some() {
        return RemovedUnwind { kept: unknown, ..RemovedUnwind::default() };
    }
    let needed = needed(link, index, live, &findings);
    let start = |kinds: Kinds| {
        let starts = |f: &&Finding| matches!(f.role, UnwindRole::Start(of) if of.0 & kinds.0 != 0);
        // A function that throws by its name is a better explanation than one of a library that may throw.
        let all = findings.references.iter().filter(starts);
        let found = all.min_by_key(|f| unwind_models::start(&f.symbol).is_none())?;
        Some(format!("{} calls {}", path(found), found.symbol))
    };
    let all = needed.iter().fold(0, |all, kinds| all | kinds.0);
    let mut removed =
        RemovedUnwind { kept: unknown.or_else(|| start(Kinds(all))), ..RemovedUnwind::default() };
    let drops = mode == UnwindPruning::Drop;
    let caught = Kinds(all & !Kinds::TRACE.0);
    if drops && caught != Kinds::default() {
        let handler = findings.handlers.iter().find(|(_, kinds)| kinds.0 & caught.0 != 0);
        let handler = handler.map(|(atom, _)| format!(", and {} has a handler", name(link, index, *atom)));
        removed.refused = start(caught).map(|start| start + &handler.unwrap_or_default());
    }
    removed.entries = vec![false; index.atom_count()];
    for (atom, entry) in live_entries(link, index, live) {
        if drops || needed[atom.index()] == Kinds::default() {
            removed.entries[atom.index()] = true;
            removed.count += 1;
            removed.bytes += entry.size;
        } else {
            removed.needed.push((atom, entry.begin));
        }
    }
    // Folding keeps the entry of one of the functions that it joins.
    if config.icf != Icf::None && !drops && !removed.needed.is_empty() {
        return keep(format!(
            "--icf may fold functions that differ in this: {}",
            removed.kept.unwrap_or_default()
        ));
    }
    removed.lsdas = unreferred_lsdas(link, index, live, &removed.entries);
    removed
}

/// Print why unwind entries are kept, or which features break without them.
pub fn tell(config: &Config, removed: &RemovedUnwind) {
    let Some(why) = &removed.kept else { return };
    let (count, kept) = (removed.count, removed.needed.len());
    match (config.prune.unwind, count) {
        (UnwindPruning::Drop, 1..) => messages::warning(
            config,
            format_args!(
                "without unwind entries backtraces end early, and an exception that passes a function ends the program: {why}"
            ),
        ),
        (_, 0) => messages::note(config, format_args!("all unwind entries are kept: {why}")),
        (_, count) => messages::note(
            config,
            format_args!("{kept} of {} functions keep their unwind entries: {why}", count + kept),
        ),
    }
}

/// By atom: for which kinds of unwinding its unwind entries are needed.
fn needed(link: LinkInputs<'_>, index: &Index, live: &Liveness, findings: &Findings) -> Vec<Kinds> {
    let LinkInputs { inputs, resolution, summaries, .. } = link;
    let mut needed = vec![Kinds::default(); index.atom_count()];
    let is_start = |f: &&Finding| matches!(f.role, UnwindRole::Start(_));
    if !findings.references.iter().any(|f| is_start(&f)) {
        return needed;
    }
    let graph = CallGraph::new(link, index, live, findings);
    let mut starts = Vec::new();
    for finding in &findings.references {
        let UnwindRole::Start(kinds) = finding.role else { continue };
        starts.extend(graph.code[finding.atom.index()].then_some((finding.atom.0, kinds)));
        starts.extend((!finding.is_call).then_some((graph.indirect(), kinds)));
    }
    let mut handlers: Vec<(u32, Kinds)> =
        findings.handlers.iter().map(|(atom, kinds)| (atom.0, *kinds)).collect();
    let of_libraries = unwind_models::handled_by_libraries(inputs, resolution, findings.overrides);
    handlers.push((graph.indirect(), of_libraries));
    let solve_towards = |to_callers, facts| solve(&UnwindPaths { graph: &graph, to_callers }, facts);
    let (below, above) = (solve_towards(true, starts), solve_towards(false, handlers));
    for (needed, (below, above)) in needed.iter_mut().zip(below.into_iter().zip(above)) {
        let (below, above) = (below.unwrap_or_default(), above.unwrap_or_default());
        *needed = Kinds(below.0 & (above.0 | Kinds::TRACE.0));
    }
    // The unwinder begins with its own frames, whether or not it finds a handler.
    for (position, this) in index.modules.iter().enumerate() {
        if unwind_models::is_unwinder(inputs, this.module, summaries[position]) {
            needed[index.atoms_of(position)].fill(Kinds::TRACE);
        }
    }
    needed
}

/// By atom: whether it may call functions of the program indirectly, and whether it has its own address.
fn computed_calls_of(link: LinkInputs<'_>, index: &Index) -> Vec<ComputedCalls> {
    let LinkInputs { config, inputs, resolution, summaries, .. } = link;
    let mut may_call_back: Vec<bool> =
        resolution.symbols.iter().map(|s| !unwind_models::calls_nothing(config, inputs, s)).collect();
    for (this, summary) in index.modules.iter().zip(summaries) {
        for (i, symbol) in summary.symbols.iter().enumerate().filter(|(_, s)| s.kind == SymbolKind::Ifunc) {
            if let (Some(id), Definition::Atom(_)) =
                (resolution.symbol_id(this.module, SymbolIdx::new(i)), symbol.definition)
            {
                may_call_back[id.index()] = true;
            }
        }
    }
    let of_module = |position: usize| {
        let (this, summary) = (&index.modules[position], summaries[position]);
        let mut computed = match summary.kind == ModuleKind::Native && !this.kept_whole {
            true => computed_calls(inputs.module_bytes(this.module), summary),
            false => vec![ComputedCalls::UNKNOWN; summary.atoms.len()],
        };
        for r in summary.references.iter().filter(|r| r.kind != ReferenceKind::Unwind) {
            let Target::Symbol(symbol) = r.target else { continue };
            let leaves = match resolution.symbol_id(this.module, symbol) {
                Some(id) => may_call_back[id.index()],
                None => summary.symbols.get(symbol.index()).is_some_and(|s| s.kind == SymbolKind::Ifunc),
            };
            computed[r.from.index()].indirect |= leaves;
        }
        computed
    };
    (0..index.modules.len()).into_par_iter().flat_map_iter(of_module).collect()
}

/// The findings of all live references.
fn findings(link: LinkInputs<'_>, index: &Index, live: &Liveness) -> Findings {
    let LinkInputs { config, inputs, resolution, .. } = link;
    let roles: Vec<Option<UnwindRole>> =
        resolution.symbols.iter().map(|symbol| unwind_models::role(config, inputs, symbol)).collect();
    let of_cxx = unwind_models::names_of_cxx_libraries(inputs);
    let all = (0..index.modules.len()).into_par_iter();
    let all: Vec<Findings> =
        all.map(|position| findings_of_module(link, index, live, &roles, &of_cxx, position)).collect();
    let mut joined = Findings::default();
    all.into_iter().for_each(|of_module| joined.join(of_module));
    joined.ends_threads |= unwind_models::is_thread_end_a_root(link, index);
    let of_c_library = |finding: &Finding| {
        let (position, _) = index.locate(finding.atom);
        unwind_models::is_c_library(inputs, index.modules[position].module)
    };
    if !joined.ends_threads {
        let is_forced = |finding: &Finding| finding.role == UnwindRole::Start(Kinds::FORCED);
        joined.references.retain(|finding| !is_forced(finding) || !of_c_library(finding));
    }
    // A vtable has at least the entries of the vtable of its base.
    joined.overrides |= joined.library_class.is_some_and(|size| size <= joined.untyped_class);
    joined
}

fn findings_of_module(
    link: LinkInputs<'_>,
    index: &Index,
    live: &Liveness,
    roles: &[Option<UnwindRole>],
    of_cxx: &FxHashSet<&[u8]>,
    position: usize,
) -> Findings {
    let LinkInputs { inputs, resolution, summaries, .. } = link;
    let (this, summary) = (&index.modules[position], summaries[position]);
    let is_runtime = unwind_models::is_runtime(inputs, this.module);
    let is_bitcode = summary.kind == ModuleKind::Bitcode;
    let mut found = Findings { untyped_class: largest_untyped(summary), ..Findings::default() };
    for (local, atom) in summary.atoms.iter().enumerate() {
        let id = AtomId::new(this.first_atom as usize + local);
        if !live.is_live(id) || !atom.kind.is_alloc() {
            continue;
        }
        let is_code = is_code(atom.kind);
        if let Some(role) = unwind_models::role_of_section(summary.name(atom.name)) {
            let symbol = lossy(summary.name(atom.name));
            found.references.push(Finding { atom: id, symbol, role, is_call: false });
        }
        let references = summary.references_of(AtomIdx::new(local));
        let symbol_of = |r: &Reference| match r.target {
            Target::Symbol(symbol) => Some(symbol),
            Target::Atom(_) => None,
        };
        for (r, symbol) in references.iter().filter_map(|r| Some((r, symbol_of(r)?))) {
            let global = resolution.symbol_id(this.module, symbol);
            // With --wrap the object has another name.
            let name = global.map_or(summary.symbol_name(symbol), |id| resolution.symbols[id].name);
            let name = unwind_models::unversioned(name);
            found.interrupts |= !is_runtime && unwind_models::is_one_of(unwind_models::INTERRUPTING, name);
            found.ends_threads |= unwind_models::is_one_of(unwind_models::THREAD_ENDS, name);
            let definition = summary.symbols.get(symbol.index()).map(|s| s.definition);
            let role = match global.and_then(|id| roles[id.index()]) {
                _ if matches!(definition, Some(Definition::OtherSection(_))) && !is_bitcode => {
                    Some(UnwindRole::Unknown("the unwind tables"))
                }
                Some(role @ (UnwindRole::Cxx | UnwindRole::CxxData)) if is_code => {
                    let table =
                        global.and_then(|id| unwind_models::base_table_size(inputs, &resolution.symbols[id]));
                    found.library_class = found.library_class.into_iter().chain(table).min();
                    let is_function = role == UnwindRole::Cxx;
                    found.overrides |= is_function && unwind_models::takes_callback(name);
                    is_function.then_some(UnwindRole::Start(Kinds::THROW))
                }
                Some(UnwindRole::Cxx | UnwindRole::CxxData) => {
                    found.overrides = true;
                    None
                }
                role => role,
            };
            let Some(role) = role.filter(|role| !matches!(role, UnwindRole::Unknown(_)) || !is_runtime)
            else {
                continue;
            };
            // Only the C library is known to continue at the end of the frames.
            let looks = name == unwind_models::FORCED_UNWIND && !is_runtime;
            let role = if looks { UnwindRole::Start(Kinds(Kinds::FORCED.0 | Kinds::TRACE.0)) } else { role };
            let is_call = r.kind == ReferenceKind::Call && is_code;
            found.references.push(Finding { atom: id, symbol: lossy(name), role, is_call });
        }
        let named = |r: &Reference| symbol_of(r).map(|symbol| summary.symbol_name(symbol));
        let unwind = references.iter().filter(|r| r.kind == ReferenceKind::Unwind || is_bitcode);
        let (personalities, lsdas): (Vec<&Reference>, Vec<&Reference>) = match is_bitcode {
            // Bitcode has no LSDA yet.
            true => unwind
                .filter(|r| named(r).is_some_and(|n| lossy(n).contains("personality")))
                .map(|r| (r, r))
                .unzip(),
            false => unwind.partition(|r| !leads_to_lsda(summary, r)),
        };
        let kinds = unwind_models::handled(
            personalities.into_iter().map(|r| named(r).unwrap_or_default()),
            !lsdas.is_empty(),
        );
        found.handlers.extend((kinds != Kinds::default()).then_some((id, kinds)));
    }
    for symbol in &summary.symbols {
        if let Definition::Atom(atom) = symbol.definition
            && of_cxx.contains(unwind_models::unversioned(summary.name(symbol.name)))
        {
            found.handlers.push((AtomId::new(this.first_atom as usize + atom.index()), Kinds::THROW));
        }
    }
    found
}

fn is_code(kind: AtomKind) -> bool {
    matches!(kind, AtomKind::Code | AtomKind::InitFini)
}

fn leads_to_lsda(summary: &ModuleSummary, r: &Reference) -> bool {
    let atom = summary.target_atom(r.target).and_then(|atom| summary.atoms.get(atom.index()));
    atom.is_some_and(|atom| atom.kind == AtomKind::Lsda)
}

/// The largest vtable that does not say what its class inherits from, in bytes, or 0 (Itanium C++ ABI, 2.5).
///
/// Such tables have no type information (`-fno-rtti`). In a stripped object any table of functions without a symbol may be one.
fn largest_untyped(summary: &ModuleSummary) -> u64 {
    let mut named = vec![false; summary.atoms.len()];
    let mut largest = 0;
    for symbol in summary.symbols.iter().filter(|symbol| !summary.name(symbol.name).is_empty()) {
        let Definition::Atom(atom) = symbol.definition else { continue };
        if let Some(named) = named.get_mut(atom.index()) {
            *named = true;
        }
        let type_at = symbol.value.wrapping_add(8);
        if summary.name(symbol.name).starts_with(b"_ZTV")
            && summary.references_of(atom).iter().all(|r| r.offset != type_at)
        {
            largest = largest.max(symbol.size);
        }
    }
    for (at, atom) in summary.atoms.iter().enumerate().filter(|(at, _)| !named[*at]) {
        let is_data = atom.kind.is_alloc() && !is_code(atom.kind) && atom.kind != AtomKind::Lsda;
        let functions =
            || summary.references_of(AtomIdx::new(at)).iter().filter(|r| r.kind == ReferenceKind::Data);
        if is_data && functions().count() > 1 {
            largest = largest.max(atom.size);
        }
    }
    largest
}

/// The FDEs of live atoms in modules that can be rewritten, by atom and place.
fn live_entries(link: LinkInputs<'_>, index: &Index, live: &Liveness) -> Vec<(AtomId, FunctionEntry)> {
    let LinkInputs { inputs, summaries, .. } = link;
    let of_module = |position: usize| {
        let (this, summary) = (&index.modules[position], summaries[position]);
        let mut entries = match summary.kind == ModuleKind::Native && !this.kept_whole {
            true => function_entries(inputs.module_bytes(this.module), summary),
            false => Vec::new(),
        };
        entries.sort_unstable_by_key(|entry| (entry.atom, entry.begin));
        let global = |entry: FunctionEntry| (AtomId(this.first_atom + entry.atom.0), entry);
        entries.into_iter().map(global).filter(|(atom, _)| live.is_live(*atom)).collect::<Vec<_>>()
    };
    (0..index.modules.len()).into_par_iter().flat_map_iter(of_module).collect()
}

/// By atom: it is an LSDA, and every FDE of live code that refers to it is removed.
fn unreferred_lsdas(link: LinkInputs<'_>, index: &Index, live: &Liveness, removed: &[bool]) -> Vec<bool> {
    let mut lsdas = Vec::with_capacity(index.atom_count());
    lsdas.extend(link.summaries.iter().flat_map(|s| &s.atoms).map(|atom| atom.kind == AtomKind::Lsda));
    for from in (0..index.atom_count()).filter(|from| !removed[*from] && live.is_live(AtomId::new(*from))) {
        let edges = index.edges_of(AtomId::new(from)).1;
        edges.iter().filter(|e| e.kind == EdgeKind::Unwind).for_each(|e| lsdas[e.target.index()] = false);
    }
    lsdas
}

/// The functions on a shortest path from a root to an atom, with the atom's module.
fn path(link: LinkInputs<'_>, index: &Index, live: &Liveness, atom: AtomId) -> String {
    let (mut names, mut at) = (vec![name(link, index, atom)], atom);
    while let Some(Witness::Edge(edge)) = live.witness[at.index()] {
        at = index.edge_source(edge);
        names.push(name(link, index, at));
    }
    names.reverse();
    let (position, _) = index.locate(atom);
    format!("{}: {}", link.inputs.module_name(index.modules[position].module), names.join(" -> "))
}

/// The first name of an atom, or that of its section. An atom of several functions has both.
fn name(link: LinkInputs<'_>, index: &Index, atom: AtomId) -> String {
    let (position, local) = index.locate(atom);
    let summary = link.summaries[position];
    let is_own = |symbol: &&Symbol| {
        matches!(symbol.definition, Definition::Atom(atom) if atom == local)
            && !matches!(symbol.kind, SymbolKind::Section | SymbolKind::File)
            && symbol.name.len > 0
    };
    let section = summary.atoms.get(local.index()).map_or(&[][..], |atom| summary.name(atom.name));
    let own: Vec<&Symbol> = summary.symbols.iter().filter(is_own).collect();
    let first = own.first().map_or(section, |symbol| summary.name(symbol.name));
    let mut functions: Vec<u64> =
        own.iter().filter(|symbol| symbol.kind == SymbolKind::Func).map(|symbol| symbol.value).collect();
    functions.sort_unstable();
    functions.dedup();
    match functions.len() {
        0 | 1 => lossy(first),
        count => format!("{} with {} and {} more", lossy(section), lossy(first), count - 1),
    }
}
