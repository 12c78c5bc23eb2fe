//! Liveness of bitcode, held against the combined index of lld's own thin link.
//!
//! Both start from what code outside of the bitcode may refer to. lld's index lets everything live that something live mentions; value flow
//! asks whether it can be called. So what lld finds live and lto-prune takes out must be proved, by facts of lld's own index: nothing
//! that lto-prune keeps calls it directly there, no indirect call of the report may go to it, and where something kept mentions it, its
//! address did not escape by that and stays (a stub). Anything else is an error. Beside it the same question is asked of the plain references that our reader finds in the IR:
//! they must reach all that lld finds live, so that no reference is missing before value flow begins.
//! Left out: whether what value flow says is never called is never called, which `bench trace` and the checks ask of running programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::index::{DefinitionKind, Guid, Index};
use super::ours::{PrunedLink, Witness};
use crate::Result;
use crate::corpus::{Corpus, Link, find_linker, rust_linker};
use crate::lto::copy;
use crate::process::run_ok;
use crate::symbols::text_size;
use crate::table::count;

pub(super) const COLUMNS: [&str; 12] = [
    "link",
    "values",
    "live in lld's",
    "by plain references",
    "live in ours",
    "only lld's",
    "mentioned, not called",
    "behind those",
    "unexplained",
    "only ours",
    "`.text` lld",
    "`.text` ours",
];

/// Why something that lld's index finds live is not kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LivenessReason {
    /// Something kept mentions it, and nothing calls it.
    Mentioned,
    /// In the bitcode only what isn't kept either mentions it.
    Behind,
    /// The difference in words, for a person to explain.
    Unexplained(String),
}

#[derive(Debug, Default)]
pub(super) struct LivenessCounts {
    values: usize,
    lld: usize,
    plain: usize,
    ours: usize,
    pub(super) dropped: Vec<(String, LivenessReason)>,
    /// What keeps what lld's index finds dead, with how many values.
    pub(super) kept: BTreeMap<String, usize>,
    pub(super) errors: Vec<String>,
    text: (u64, u64),
}

impl LivenessCounts {
    pub(super) fn row(&self, link: &Link) -> Vec<String> {
        let reasons = |r: fn(&LivenessReason) -> bool| self.dropped.iter().filter(|(_, d)| r(d)).count();
        let mut row = vec![link.name()];
        let numbers = [
            self.values,
            self.lld,
            self.plain,
            self.ours,
            self.dropped.len(),
            reasons(|r| *r == LivenessReason::Mentioned),
            reasons(|r| *r == LivenessReason::Behind),
            self.errors.len(),
            self.kept.values().sum(),
        ];
        row.extend(numbers.map(|n| count(n as u64)));
        row.extend([self.text.0, self.text.1].map(count));
        row
    }
}

/// Link by lld with `--save-temps` on a copy, and pruned with a report, and compare.
///
/// # Errors
/// If a link fails, or says what isn't understood here.
pub(super) fn compare(corpus: &Corpus, link: &Link, ours: &Path) -> Result<LivenessCounts> {
    let scratch = corpus.scratch(&format!("oracle-{}-{}", link.program, link.mode))?;
    let lld: PathBuf = if link.program == "hexyl" { rust_linker()? } else { find_linker("lld")? };
    let report = scratch.join("report.json");
    let mut command = corpus.linker_command(link, ours, &scratch.join("pruned"));
    command.env("LTO_PRUNE_LINKER", &lld).env_remove("LTO_PRUNE_FLAGS");
    command.args(["--prune-level=pointers", "--prune-gate=0", "--prune-strict"]);
    run_ok(command.arg(format!("--prune-report={}", report.display())), &scratch)?;

    // lld puts its temporary files beside the modules too.
    let here = Link { dir: scratch.join("link"), ..link.clone() };
    copy(&link.dir, &here.dir)?;
    let plain = scratch.join("plain");
    run_ok(corpus.linker_command(&here, &lld, &plain).arg("--save-temps"), &scratch)?;
    let index = Index::read(&plain, &scratch)?;
    fs::remove_dir_all(&here.dir)?;

    let ours = PrunedLink::read(&report, &link.dir)?;
    let mut compared = of(&index, &ours);
    compared.text = (text_size(&plain)?, text_size(&scratch.join("pruned"))?);
    if compared.text.1 > compared.text.0 {
        compared.errors.push("`.text` is larger than lld's alone".to_owned());
    }
    Ok(compared)
}

/// The module of an entry as our report names it.
fn label(module: &str) -> String {
    match module.strip_suffix(')').and_then(|m| m.rsplit_once(" at ")) {
        Some((member, offset)) if offset.bytes().all(|b| b.is_ascii_digit()) => format!("{member})"),
        _ => module.to_owned(),
    }
}

fn of(index: &Index, ours: &PrunedLink) -> LivenessCounts {
    let mut compared = LivenessCounts::default();
    let mut lld: BTreeMap<Guid, bool> = BTreeMap::new();
    for entry in &index.entries {
        *lld.entry(entry.guid).or_default() |= entry.live;
    }
    let live: BTreeSet<Guid> = lld.iter().filter(|(_, live)| **live).map(|(g, _)| *g).collect();
    compared.values = lld.len();
    compared.lld = live.len();
    for guid in lld.keys().filter(|g| !ours.definitions.contains_key(g) && !ours.metadata.contains(g)) {
        compared.errors.push(format!("{}: in lld's index, and no value of ours", ours.name(*guid)));
    }
    let plain = ours.reached(&index.roots);
    compared.plain = lld.keys().filter(|g| plain.contains(g)).count();
    for guid in live.difference(&plain) {
        compared.errors.push(format!("{}: no reference of ours reaches it", ours.name(*guid)));
    }
    compared.ours = lld.keys().filter(|g| ours.is_kept(**g)).count();

    // What lld knows of who mentions and calls whom, as far as both sides find the source live.
    let mut mentioned: BTreeSet<Guid> = BTreeSet::new();
    let mut called: BTreeMap<Guid, Guid> = BTreeMap::new();
    let mut behind: BTreeSet<Guid> = BTreeSet::new();
    for entry in index.entries.iter().filter(|e| e.live) {
        if !ours.is_kept_in(entry.guid, &label(&entry.module)) {
            behind.extend(entry.refs.iter().chain(&entry.calls));
            continue;
        }
        mentioned.extend(&entry.refs);
        // Whoever has the address of an alias has that of what it names.
        if entry.kind == DefinitionKind::Alias {
            called.extend(entry.refs.iter().map(|r| (*r, entry.guid)));
        }
        called.extend(entry.calls.iter().map(|c| (*c, entry.guid)));
    }
    let roots: BTreeSet<&str> = index.roots.iter().map(String::as_str).collect();
    for guid in &live {
        if ours.is_kept(*guid) || ours.metadata.contains(guid) {
            continue;
        }
        let name = ours.name(*guid);
        let reason = match (called.get(guid), needed(ours, *guid)) {
            (Some(caller), _) => LivenessReason::Unexplained(format!("{} calls it", ours.name(*caller))),
            (None, Some(words)) => LivenessReason::Unexplained(words),
            (None, None) if mentioned.contains(guid) && ours.is_stub(*guid) => LivenessReason::Mentioned,
            (None, None) if mentioned.contains(guid) => LivenessReason::Unexplained(
                "something kept mentions it, and not even its address stays".to_owned(),
            ),
            (None, None) if roots.contains(name.as_str()) || ours.kept.contains(guid) => {
                LivenessReason::Unexplained("it is seen outside of the bitcode".to_owned())
            }
            (None, None) if behind.contains(guid) => LivenessReason::Behind,
            (None, None) => LivenessReason::Unexplained("nothing leads to it that goes too".to_owned()),
        };
        if let LivenessReason::Unexplained(words) = &reason {
            compared.errors.push(format!("{name}: lld finds it live, and it goes: {words}"));
        }
        compared.dropped.push((name, reason));
    }
    for guid in lld.keys().filter(|g| !live.contains(g) && ours.is_kept(**g)) {
        *compared.kept.entry(keeps(ours, &live, *guid)).or_default() += 1;
    }
    compared
}

/// Why a value may be needed according to the report, though it is not kept: a call of it, or a mention that is more than its address.
fn needed(ours: &PrunedLink, guid: Guid) -> Option<String> {
    for definition in ours.definitions.get(&guid).into_iter().flatten() {
        if let Some(caller) = ours.called.get(&definition.atom) {
            return Some(format!("{} may call it", ours.describe(*caller)));
        }
        let is_stub = ours.state(definition.atom) == "stub";
        let mentions = ours.mentions.get(&definition.atom).into_iter().flatten();
        for mention in mentions.filter(|m| ours.state(m.from) == "kept") {
            let address = matches!(mention.kind.as_str(), "address" | "data" | "got") && !mention.escaped;
            if !(is_stub && address) {
                return Some(format!("{} from {}", mention.kind, ours.describe(mention.from)));
            }
        }
    }
    None
}

/// Why a value lives that lld's index finds dead: what is first on the way to it and isn't such a value itself.
fn keeps(ours: &PrunedLink, live: &BTreeSet<Guid>, guid: Guid) -> String {
    let kept = ours.definitions.get(&guid).into_iter().flatten().find(|d| ours.state(d.atom) == "kept");
    let Some(mut at) = kept.map(|d| d.atom) else { return "not kept".to_owned() };
    // Witnesses have no circles; if they had, this ends all the same.
    for _ in 0..=ours.atoms.len() {
        match ours.atoms.get(at).map(|a| &a.witness) {
            Some(Witness::Root(reason)) => return format!("root: {reason}"),
            Some(Witness::Reference { from, kind }) => match ours.values.get(from) {
                Some(source) if live.contains(source) => return format!("{kind} from what lld finds live"),
                Some(_) => at = *from,
                None => return format!("{kind} from native code or data"),
            },
            Some(Witness::Nothing) | None => return "no witness".to_owned(),
        }
    }
    "a circle of witnesses".to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::index::Entry;
    use super::super::ours::{Definition, Mention, OracleAtom};
    use super::*;

    /// Values 1.. of one module, by state; each is its own atom.
    fn ours(states: &[&str], kept: &[Guid]) -> PrunedLink {
        let mut ours = PrunedLink { labels: vec!["a.o".into()], ..PrunedLink::default() };
        for (i, state) in states.iter().enumerate() {
            let guid = i as Guid + 1;
            ours.atoms.push(OracleAtom::new(0, state, Witness::Nothing));
            ours.definitions.insert(guid, vec![Definition { module: 0, atom: i }]);
            ours.values.insert(i, guid);
            ours.kept.insert(guid);
        }
        ours.kept.retain(|g| kept.contains(g));
        ours
    }

    fn entry(guid: Guid, refs: &[Guid], calls: &[Guid]) -> Entry {
        let (refs, calls) = (refs.to_vec(), calls.to_vec());
        Entry { guid, module: "a.o".into(), kind: DefinitionKind::Function, live: true, refs, calls }
    }

    fn reasons(index: &Index, ours: &PrunedLink) -> Vec<bool> {
        of(index, ours).dropped.iter().map(|(_, r)| matches!(r, LivenessReason::Unexplained(_))).collect()
    }

    #[test]
    fn what_goes_is_proved() {
        // 1 mentions 2, which calls 3.
        let entries = vec![entry(1, &[2], &[]), entry(2, &[], &[3]), entry(3, &[], &[])];
        let index = Index { entries, ..Index::default() };
        let mut world = ours(&["kept", "stub", "dropped"], &[1]);
        world.references.extend([(1, BTreeSet::from([2])), (2, BTreeSet::from([3]))]);
        let compared = of(&index, &world);
        assert_eq!(compared.errors, Vec::<String>::new());
        let found: Vec<LivenessReason> = compared.dropped.into_iter().map(|(_, r)| r).collect();
        assert_eq!(found, [LivenessReason::Mentioned, LivenessReason::Behind]);

        let mention = |kind: &str, escaped| vec![Mention { from: 0, kind: kind.into(), escaped }];
        for (mention, wrong) in
            [(mention("data", false), false), (mention("data", true), true), (mention("called", false), true)]
        {
            world.mentions.insert(1, mention);
            assert_eq!(reasons(&index, &world), [wrong, false]);
        }
        world.mentions.clear();
        world.called.insert(1, 0);
        assert_eq!(reasons(&index, &world), [true, false]);
    }

    #[test]
    fn what_is_not_proved_is_an_error() {
        // A direct call; an address that is gone; a reference that our reader doesn't have; a value that it doesn't know.
        let called = Index { entries: vec![entry(1, &[], &[2]), entry(2, &[], &[])], ..Index::default() };
        assert_eq!(reasons(&called, &ours(&["kept", "stub"], &[1, 2])), [true]);
        // It is in `llvm.used`, or assembly names it; nothing that goes leads to it.
        let used = Index { entries: vec![entry(1, &[], &[]), entry(2, &[], &[])], ..Index::default() };
        assert_eq!(reasons(&used, &ours(&["kept", "dropped"], &[1, 2])), [true]);
        assert_eq!(reasons(&used, &ours(&["kept", "dropped"], &[1])), [true]);
        let behind = Index { entries: vec![entry(1, &[], &[2]), entry(2, &[], &[])], ..Index::default() };
        assert_eq!(reasons(&behind, &ours(&["dropped", "dropped"], &[1])), [true, false]);
        let mentioned = Index { entries: vec![entry(1, &[2], &[]), entry(2, &[], &[])], ..Index::default() };
        assert_eq!(reasons(&mentioned, &ours(&["kept", "dropped"], &[1, 2])), [true]);
        assert_eq!(of(&mentioned, &ours(&["kept", "kept"], &[1])).errors.len(), 1);
        assert_eq!(of(&mentioned, &ours(&["kept"], &[1, 2])).errors.len(), 3);
    }

    #[test]
    fn members_of_archives() {
        assert_eq!(label("liba.a(b.o at 6258)"), "liba.a(b.o)");
        assert_eq!(label("dir at 7/a.o"), "dir at 7/a.o");
    }
}
