//! Property tests: random programs have the oracle's answer, in any order of modules, functions and constraints, with any number of
//! threads.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::oracle::Oracle;
use super::{flow_of_within, module};
use crate::ids::{AtomId, Id};
use crate::propagate::values::ValueFlow;
use crate::propagate::values::budget::{BUDGET, Budget};

const FUNCTIONS: usize = 6;
const DATA: usize = 3;

/// A stream of random choices; after its end every choice is the first.
pub(super) struct Choices<'b>(pub(super) std::slice::Iter<'b, u8>);

impl Choices<'_> {
    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % n.max(1)
    }

    fn value(&mut self) -> String {
        format!("%{}", self.below(6))
    }

    fn offset(&mut self) -> &'static str {
        ["+0", "+8", "+8", "-8", "+16", "+4", "unknown", "+5000"][self.below(8)]
    }

    fn size(&mut self) -> &'static str {
        ["size 8", "size 8", "size 16", "size 4", "size 0"][self.below(5)]
    }

    fn target(&mut self) -> String {
        match self.below(9) {
            n @ 0..4 => format!("f{}", 1 + n),
            4 => "f5".to_owned(),
            n @ 5..8 => format!("d{}", n - 5),
            _ => "outside".to_owned(),
        }
    }

    fn line(&mut self, frame: bool) -> String {
        match self.below(12) {
            0..3 => {
                let place = if self.below(8) == 0 { "+8" } else { "+0" };
                format!("{} = address {} {place}", self.value(), self.target())
            }
            3 if frame => {
                format!("{} = frame {}", self.value(), ["-8", "-16", "+8", "unknown"][self.below(4)])
            }
            3 | 4 => format!("{} = {} {}", self.value(), self.value(), self.offset()),
            5 => format!("{} = load {} {} {}", self.value(), self.value(), self.offset(), self.size()),
            6 => format!("store {} -> {} {} {}", self.value(), self.value(), self.offset(), self.size()),
            7 => format!(
                "copy {} {} -> {} {} {}",
                self.value(),
                self.offset(),
                self.value(),
                self.offset(),
                self.size()
            ),
            8 => match self.below(6) {
                0 => format!("escape {}", self.value()),
                1 => format!("{} = unknown", self.value()),
                2 => format!("atlabel {}", self.value()),
                3 => format!("mention {}", self.target()),
                _ => format!("{} = {}", self.value(), self.value()),
            },
            _ => self.call(frame),
        }
    }

    fn call(&mut self, frame: bool) -> String {
        let mut line = match self.below(3) {
            0 => format!("call direct {}", self.target()),
            _ => format!("call indirect {}", self.value()),
        };
        if self.below(4) == 0 {
            line += " jump";
        }
        if self.below(3) == 0 {
            line += &format!(" actual rax {}", self.value());
        }
        line += &format!(" actual rdi {}", self.value());
        if self.below(3) == 0 {
            line += &format!(" stack {} {}", [8, 16][self.below(2)], self.value());
        }
        if frame && self.below(2) == 0 {
            line += &format!(" instack {}", ["-24", "-16", "-20", "unknown"][self.below(4)]);
        }
        line + &format!(" result rax {}", self.value())
    }

    pub(super) fn program(&mut self) -> Vec<(String, String, bool, bool)> {
        (0..FUNCTIONS)
            .map(|i| {
                let frame = self.below(3) == 0;
                let understood = i == 0 || self.below(8) != 0;
                let mut lines = vec!["param rdi %0".to_owned(), "result rax %1".to_owned()];
                if !frame && self.below(2) == 0 {
                    lines.push("stackparam 8 %2".to_owned());
                }
                if self.below(3) == 0 {
                    lines.push("preserves rdx".to_owned());
                }
                let count = 1 + self.below(8);
                lines.extend((0..count).map(|_| self.line(frame)));
                (format!("f{i}"), lines.join(";"), frame, understood)
            })
            .collect()
    }

    pub(super) fn data(&mut self) -> Vec<(String, String)> {
        (0..DATA)
            .map(|i| {
                let count = self.below(4);
                let lines: Vec<String> = (0..count)
                    .map(|k| format!("{} {}", [0, 8, 16, 20][(k + self.below(2)) % 4], self.target()))
                    .collect();
                (format!("d{i}"), lines.join(";"))
            })
            .collect()
    }
}

/// The text of a program; f0 is the entry.
pub(super) fn text(program: &[(String, String, bool, bool)], data: &[(String, String)]) -> String {
    let functions: Vec<(&str, &str)> = program.iter().map(|f| (f.0.as_str(), f.1.as_str())).collect();
    let data: Vec<(&str, &str)> = data.iter().map(|d| (d.0.as_str(), d.1.as_str())).collect();
    let mut text = module(&functions, &data, &["outside"]);
    for (name, _, frame, understood) in program {
        let head = format!("function [t.{name}]\n");
        if *frame {
            text = text.replace(&head, &format!("function [t.{name}] frame\n"));
        }
        if !understood {
            // These lines belong to the header, until the next function.
            let head = if *frame { format!("function [t.{name}] frame\n") } else { head };
            let start = text.find(&head).unwrap();
            let end = text[start + 8..].find("function ").map_or(text.len(), |e| start + 8 + e);
            text.replace_range(start..end, "");
        }
    }
    text
}

/// The facts that must not depend on order: the live atoms, the stubs and the resolved sites, by name.
pub(super) type OracleAnswer =
    (BTreeSet<String>, BTreeSet<String>, BTreeSet<(String, u64, BTreeSet<(String, Option<i64>)>, bool)>);

pub(super) fn answer(flow: &ValueFlow, names: &[String]) -> OracleAnswer {
    let by = |keep: &dyn Fn(usize) -> bool| {
        names.iter().enumerate().filter(|(i, _)| keep(*i)).map(|(_, n)| n.clone()).collect()
    };
    let site = |s: &crate::propagate::values::CallTargets| {
        let targets = s.targets.iter().map(|t| (names[t.0.0 as usize].clone(), t.1)).collect();
        (names[s.caller.0 as usize].clone(), s.offset, targets, !s.overdefined.is_empty())
    };
    (
        by(&|i| flow.liveness.is_live(AtomId::new(i))),
        by(&|i| flow.liveness.stub[i]),
        flow.sites.iter().map(site).collect(),
    )
}

/// The least and the greatest answer that is correct. They differ if a known callee of an overdefined site escaped. The solver joins the
/// two if it finds the callee before the unknown.
fn expected_between(text: &str, has_copies: bool) -> (OracleAnswer, OracleAnswer) {
    let summary = summaries::text::parse(text).unwrap();
    let most = Oracle::run(&summary, 0, has_copies);
    let least = Oracle::run_without(&summary, 0, has_copies, most.covered_calls(&summary));
    (answer_of(&summary, &least), answer_of(&summary, &most))
}

/// Whether `more` includes every live atom, stub and callee of `less`.
fn is_within(less: &OracleAnswer, more: &OracleAnswer) -> bool {
    // A stub in `less` is live or a stub in `more`.
    more.0.is_superset(&less.0)
        && less.1.iter().all(|stub| more.0.contains(stub) || more.1.contains(stub))
        && less.2.iter().all(|(caller, offset, targets, unknown)| {
            let found = more.2.iter().find(|s| (&s.0, s.1) == (caller, *offset));
            found.is_some_and(|(_, _, found, overdefined)| {
                let covers =
                    |t: &(String, Option<i64>)| found.contains(t) || found.contains(&(t.0.clone(), None));
                *overdefined || !unknown && targets.iter().all(covers)
            })
        })
}

fn answer_of(summary: &summaries::ModuleSummary, oracle: &Oracle) -> OracleAnswer {
    let name = |a: u32| String::from_utf8_lossy(summary.name(summary.atoms[a as usize].name)).into_owned();
    let mut sites = BTreeSet::new();
    for (f, function) in summary.functions.iter().enumerate().filter(|(_, f)| oracle.live.contains(&f.atom.0))
    {
        for (i, site) in function.call_sites.iter().enumerate() {
            if let summaries::relation::Callee::Indirect(_) = site.callee {
                let (mut targets, mut unknown) = (BTreeSet::new(), false);
                let is_copy = |at: &(usize, usize)| at.0 % summary.functions.len() == f && at.1 == i;
                for (_, site) in oracle.sites.iter().filter(|(at, _)| is_copy(at)) {
                    targets.extend(&site.0);
                    unknown |= site.1;
                }
                let covered = |t: &&(u32, Option<i64>)| t.1.is_some() && targets.contains(&(t.0, None));
                let targets = targets.iter().filter(|t| !unknown && !covered(t));
                let targets = targets.map(|t| (name(t.0), t.1)).collect();
                sites.insert((name(function.atom.0), site.offset, targets, unknown));
            }
        }
    }
    (oracle.live.iter().map(|a| name(*a)).collect(), oracle.stubs().iter().map(|a| name(*a)).collect(), sites)
}

/// Solve with pairwise copies, without a budget of pairs.
fn run(text: &str) -> OracleAnswer {
    run_alike(text, BUDGET.alike, BUDGET.room)
}

/// The same. Sets with at least `alike` elements have group nodes, and unused sets are collected at once.
fn run_alike(text: &str, alike: usize, room: usize) -> OracleAnswer {
    let budget = Budget { alike, room, pairs: usize::MAX, clones: 0, ..BUDGET };
    let (flow, names) = flow_of_within("a.o -e f0 -o out", &[text], &[], budget);
    answer(&flow, &names)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn is_between_the_oracles(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut choices = Choices(bytes.iter());
        let (program, data) = (choices.program(), choices.data());
        let text = text(&program, &data);
        let (least, most) = expected_between(&text, false);
        for found in [run(&text), run_alike(&text, bytes.len() % 3, 0)] {
            prop_assert!(is_within(&least, &found) && is_within(&found, &most), "{least:?}\n{found:?}\n{most:?}\n{text}");
        }
    }

    /// Clones for calls have the same solution as copies of the functions.
    #[test]
    fn clones_are_between_the_oracles(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut choices = Choices(bytes.iter());
        let text = text(&choices.program(), &choices.data());
        let (least, most) = expected_between(&text, true);
        let budget = Budget { pairs: usize::MAX, clones: usize::MAX, ..BUDGET };
        let (flow, names) = flow_of_within("a.o -e f0 -o out", &[&text], &[], budget);
        let found = answer(&flow, &names);
        prop_assert!(is_within(&least, &found) && is_within(&found, &most), "{least:?}\n{found:?}\n{most:?}\n{text}");
    }

    /// Every program exceeds this budget, and the result remains sound.
    #[test]
    fn what_is_over_budget_only_adds(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        objects in 0usize..3,
        free in 0usize..300,
        steps in prop::array::uniform3(0usize..4),
    ) {
        let budget = Budget { objects, pairs: objects, alike: objects, clones: 0, unseen_values: 1024, room: 0, free, steps, most: [usize::MAX; 3] };
        let mut choices = Choices(bytes.iter());
        let text = text(&choices.program(), &choices.data());
        let (exact, (flow, names)) = (expected_between(&text, false).0, flow_of_within("a.o -e f0 -o out", &[&text], &[], budget));
        let joined = answer(&flow, &names);
        let (again, _) = flow_of_within("a.o -e f0 -o out", &[&text], &[], budget);
        prop_assert_eq!(&joined, &answer(&again, &names));
        prop_assert!(is_within(&exact, &joined), "{}", text);
    }

    #[test]
    fn order_does_not_matter(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        order in Just((1..FUNCTIONS).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut choices = Choices(bytes.iter());
        let (program, data) = (choices.program(), choices.data());
        let mut shuffled: Vec<_> = order.iter().map(|i| program[*i].clone()).collect();
        shuffled.push(program[0].clone());
        let reversed: Vec<_> = data.iter().rev().cloned().collect();
        let ordered = text(&program, &data);
        let (least, most) = expected_between(&ordered, false);
        prop_assume!(least == most);
        prop_assert_eq!(run(&ordered), run(&text(&shuffled, &reversed)));
    }
}
