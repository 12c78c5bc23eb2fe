//! Holding what ran against what was proved: every target that was seen is in the static set of its site, and it and its caller
//! are kept.
//!
//! A site that is overdefined may call anything that is kept. A site of a function whose values are followed must be
//! in the report, but for jumps that never left their function (tables of a switch), and for calls through a register
//! that holds one symbol's address, which are direct calls to the analysis: they must have called one thing, that the function's
//! own relocations name. What lies in no section that is known can't be compared; it is counted.
//!
//! A static program calls the resolver of each IFUNC that a relocation of the linked file names. The pruned link has no such
//! relocation for one that nothing live mentions: that it is dropped is no miss.

use std::collections::BTreeSet;

use super::report::{Claim, InputPlace, State, TraceReport, TracedAtom};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// In the program, at a place of an input if that is known.
    Inside(Option<InputPlace>, u64),
    /// The resolver of an IFUNC that the linked file asks for.
    Resolver,
    /// In a shared library, by its names; none: code made at run time.
    Library(BTreeSet<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Executed {
    pub(super) address: u64,
    pub(super) place: Option<InputPlace>,
    pub(super) jump: bool,
    pub(super) targets: Vec<Seen>,
    /// Symbols that the relocations of the caller name.
    pub(super) mentions: BTreeSet<String>,
}

/// What came of it. The sites are counted once each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SiteComparison {
    /// Sites of calls and of jumps that left their function.
    pub(super) executed: usize,
    pub(super) resolved: usize,
    pub(super) overdefined: usize,
    /// In functions whose values are not followed.
    pub(super) not_followed: usize,
    /// Through a register that holds one symbol's address: no indirect calls to the analysis.
    pub(super) direct: usize,
    /// Jumps that stayed in their function: no calls, whether the report has the site or not.
    pub(super) tables: usize,
    /// Pairs of site and target that were held against the report.
    pub(super) pairs: usize,
    /// Sites and targets in no section that is known.
    pub(super) unplaced: Vec<u64>,
    pub(super) misses: Vec<Miss>,
}

/// Something ran that the analysis says can't.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Miss {
    pub(super) what: &'static str,
    /// Address of the site in the plain program.
    pub(super) site: u64,
    pub(super) place: InputPlace,
    pub(super) caller: String,
    pub(super) target: String,
}

pub(super) fn compare(report: &TraceReport, executed: &[Executed]) -> SiteComparison {
    let mut comparison = SiteComparison::default();
    for site in executed {
        let located = site.place.and_then(|place| Some((place, report.atom_at(place)?)));
        match located {
            Some((place, atom)) => comparison.add(report, site, place, atom),
            None => comparison.unplaced.push(site.address),
        }
    }
    comparison
}

impl SiteComparison {
    fn add(&mut self, report: &TraceReport, site: &Executed, place: InputPlace, atom: usize) {
        let claim = report.claims.get(&place);
        let mut found = Vec::new();
        if report.atoms[atom].state != "kept" {
            found.push(("its caller is not kept", String::new()));
        }
        let mut leaves = !site.jump;
        for target in &site.targets {
            let (stays, problem) = match target {
                Seen::Library(names) => (false, of_library(claim, names)),
                Seen::Resolver => (false, None),
                Seen::Inside(target_place, address) => {
                    let target_atom = target_place.and_then(|p| Some((p, report.atom_at(p)?)));
                    let Some((target_place, target_atom)) = target_atom else {
                        self.unplaced.push(*address);
                        continue;
                    };
                    let stays = site.jump && same_function(report, atom, target_atom, target_place);
                    (stays, inside(report, claim, target_atom, target_place, stays))
                }
            };
            self.pairs += 1;
            leaves |= !stays;
            found.extend(problem);
        }
        let followed = report.atoms[atom].function.is_some();
        let direct = claim.is_none() && followed && leaves;
        if direct && !is_direct(report, site) {
            found.push(("the site is not in the report", String::new()));
        }
        match claim.map(|c| c.state) {
            _ if !leaves => self.tables += 1,
            None if direct => self.direct += 1,
            None => (self.executed, self.not_followed) = (self.executed + 1, self.not_followed + 1),
            Some(State::Overdefined) => {
                (self.executed, self.overdefined) = (self.executed + 1, self.overdefined + 1)
            }
            // A site that can't run and ran is a miss, and not resolved.
            Some(State::Never) => self.executed += 1,
            Some(State::Resolved) => (self.executed, self.resolved) = (self.executed + 1, self.resolved + 1),
        }
        let caller = report.describe(atom);
        self.misses.extend(found.into_iter().map(|(what, target)| Miss {
            what,
            site: site.address,
            place,
            caller: caller.clone(),
            target,
        }));
    }
}

/// Whether the site has called one thing, that its function mentions.
fn is_direct(report: &TraceReport, site: &Executed) -> bool {
    match site.targets.as_slice() {
        [Seen::Library(names)] => !names.is_disjoint(&site.mentions),
        [Seen::Inside(Some(place), _)] => {
            let target = report.atom_at(*place).and_then(|atom| report.atoms.get(atom));
            let mentioned = |t: &TracedAtom| t.symbols.iter().any(|s| site.mentions.contains(s));
            // What an IFUNC's resolver chose has a name of its own.
            let chosen = !report.ifuncs.is_disjoint(&site.mentions);
            target.is_some_and(|t| t.place == *place && (chosen || mentioned(t)))
        }
        _ => false,
    }
}

/// A jump to a place of its own function that is not where the function is entered.
fn same_function(report: &TraceReport, from: usize, to: usize, place: InputPlace) -> bool {
    let function = |atom: usize| report.atoms[atom].function.unwrap_or(atom);
    function(from) == function(to) && place != report.atoms[function(to)].place
}

/// What is wrong with a target in the program, with its name.
fn inside(
    report: &TraceReport,
    claim: Option<&Claim>,
    atom: usize,
    place: InputPlace,
    stays: bool,
) -> Option<(&'static str, String)> {
    let name = || {
        let start = report.atoms[atom].place.offset;
        match place.offset - start {
            0 => report.describe(atom),
            offset => format!("{} + {offset:#x}", report.describe(atom)),
        }
    };
    match report.atoms[atom].state.as_str() {
        "kept" => {}
        "stub" => return Some(("the target is a stub", name())),
        _ => return Some(("the target is dropped", name())),
    }
    let claim = claim.filter(|_| !stays)?;
    let known = claim.targets.contains(&(atom, None)) || claim.targets.contains(&(atom, Some(place.offset)));
    match claim.state {
        State::Overdefined => None,
        State::Never => Some(("the site is said never to call", name())),
        State::Resolved => (!known).then(|| ("the target is not in the set", name())),
    }
}

fn of_library(claim: Option<&Claim>, names: &BTreeSet<String>) -> Option<(&'static str, String)> {
    let name = || match names.first() {
        Some(_) => names.iter().map(String::as_str).collect::<Vec<_>>().join(" = "),
        None => "code of no file's symbol".into(),
    };
    let claim = claim?;
    match claim.state {
        State::Overdefined => None,
        State::Never => Some(("the site is said never to call", name())),
        State::Resolved => {
            (claim.externals.is_disjoint(names)).then(|| ("the target is not in the set", name()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: InputPlace = InputPlace { module: 0, section: 1, offset: 0x20 };
    const SITE: InputPlace = InputPlace { module: 0, section: 1, offset: 0x28 };
    const CALLED: InputPlace = InputPlace { module: 0, section: 1, offset: 0x40 };
    const OTHER: InputPlace = InputPlace { module: 1, section: 4, offset: 0 };

    fn atom(place: InputPlace, name: &str, function: usize) -> TracedAtom {
        TracedAtom {
            place,
            size: 0x20,
            state: "kept".into(),
            function: Some(function),
            section: ".text".into(),
            symbols: vec![name.into()],
            code: true,
        }
    }

    /// `main` has one site; `called` and, in another module, `other` exist.
    fn report(claim: Option<Claim>) -> TraceReport {
        let mut report = TraceReport {
            modules: vec![(None, "a.o".into()), (Some("lib.a".into()), "b.o".into())],
            atoms: vec![atom(MAIN, "main", 0), atom(CALLED, "called", 1), atom(OTHER, "other", 2)],
            claims: claim.into_iter().map(|c| (SITE, c)).collect(),
            ..TraceReport::default()
        };
        report.index();
        report
    }

    fn claim(state: State, targets: &[(usize, Option<u64>)], externals: &[&str]) -> Claim {
        Claim {
            state,
            targets: targets.iter().copied().collect(),
            externals: externals.iter().map(|e| (*e).to_owned()).collect(),
            causes: Vec::new(),
            because: None,
        }
    }

    fn ran(jump: bool, target: Seen) -> Vec<Executed> {
        vec![Executed {
            address: 0x1028,
            place: Some(SITE),
            jump,
            targets: vec![target],
            mentions: BTreeSet::new(),
        }]
    }

    fn at(place: InputPlace) -> Seen {
        Seen::Inside(Some(place), 0x9000)
    }

    fn misses(claim: Option<Claim>, jump: bool, target: Seen) -> Vec<&'static str> {
        compare(&report(claim), &ran(jump, target)).misses.iter().map(|m| m.what).collect()
    }

    #[test]
    fn a_target_in_the_set_is_fine() {
        let exact = claim(State::Resolved, &[(1, Some(0x40))], &[]);
        let anywhere = claim(State::Resolved, &[(2, None)], &[]);
        for (claim, place) in [(exact, CALLED), (anywhere, OTHER)] {
            let got = compare(&report(Some(claim)), &ran(false, at(place)));
            assert_eq!((got.executed, got.resolved, got.pairs, got.misses.len()), (1, 1, 1, 0));
        }
        let external = claim(State::Resolved, &[], &["puts"]);
        let names = ["_IO_puts", "puts"].map(str::to_owned).into();
        assert!(misses(Some(external), false, Seen::Library(names)).is_empty());
    }

    #[test]
    fn a_target_outside_the_set_is_a_miss() {
        let wrong = claim(State::Resolved, &[(1, Some(0x40))], &["exit"]);
        for target in
            [at(OTHER), at(InputPlace { offset: 0x44, ..CALLED }), Seen::Library(["puts".to_owned()].into())]
        {
            assert_eq!(misses(Some(wrong.clone()), false, target), ["the target is not in the set"]);
        }
        let unnamed = Seen::Library(BTreeSet::new());
        assert_eq!(misses(Some(wrong), false, unnamed), ["the target is not in the set"]);
    }

    #[test]
    fn a_site_that_never_calls_and_one_that_is_not_reported_are_misses() {
        let never = claim(State::Never, &[], &[]);
        assert_eq!(misses(Some(never), false, at(CALLED)), ["the site is said never to call"]);
        assert_eq!(misses(None, false, at(CALLED)), ["the site is not in the report"]);
    }

    #[test]
    fn a_constant_in_a_register_is_direct_if_the_caller_mentions_it() {
        let mut executed = ran(false, at(OTHER));
        executed[0].mentions.insert("other".into());
        let got = compare(&report(None), &executed);
        assert_eq!((got.executed, got.direct, got.misses.len()), (0, 1, 0));
        executed[0].mentions = ["chosen".to_owned()].into();
        let mut with_ifunc = report(None);
        assert_eq!(compare(&with_ifunc, &executed).misses.len(), 1);
        with_ifunc.ifuncs.insert("chosen".into());
        assert_eq!(compare(&with_ifunc, &executed).direct, 1);
        executed[0].mentions.insert("other".into());
        executed[0].targets.push(at(CALLED));
        assert_eq!(compare(&report(None), &executed).misses.len(), 1);
    }

    #[test]
    fn what_runs_must_be_kept() {
        let anything = claim(State::Overdefined, &[], &[]);
        for (state, what) in [("stub", "the target is a stub"), ("dropped", "the target is dropped")] {
            let mut report = report(Some(anything.clone()));
            report.atoms[1].state = state.into();
            let got = compare(&report, &ran(false, at(CALLED)));
            assert_eq!(got.misses.iter().map(|m| m.what).collect::<Vec<_>>(), [what]);
        }
        let mut report = report(Some(anything));
        report.atoms[0].state = "dropped".into();
        assert_eq!(compare(&report, &ran(false, at(OTHER))).misses[0].what, "its caller is not kept");
    }

    #[test]
    fn a_jump_inside_its_function_is_no_call() {
        let inner = at(InputPlace { offset: 0x30, ..MAIN });
        let got = compare(&report(None), &ran(true, inner.clone()));
        assert_eq!((got.executed, got.tables, got.misses.len()), (0, 1, 0));
        // Leaving it is, and so is a jump to its own start.
        assert_eq!(misses(None, true, at(OTHER)), ["the site is not in the report"]);
        assert_eq!(misses(None, true, at(MAIN)), ["the site is not in the report"]);
        let wrong = claim(State::Resolved, &[(1, Some(0x40))], &[]);
        let got = compare(&report(Some(wrong.clone())), &ran(true, inner.clone()));
        assert_eq!((got.executed, got.tables, got.misses.len()), (0, 1, 0));
        assert_eq!(misses(Some(wrong), false, inner), ["the target is not in the set"]);
    }

    #[test]
    fn what_is_in_no_known_section_is_counted() {
        let mut executed = ran(false, Seen::Inside(None, 0x9000));
        executed.push(Executed { address: 0x77, place: None, ..executed[0].clone() });
        let got = compare(&report(Some(claim(State::Overdefined, &[], &[]))), &executed);
        assert_eq!((got.unplaced.as_slice(), got.executed, got.pairs), ([0x9000, 0x77].as_slice(), 1, 0));
    }
}
