//! Index, solver and plan from hand-written summaries: no compiler, no linker, no file.
//!
//! The resolution follows the simplest rule (first strong definition, else first weak one), because the tests are about later passes.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use summaries::{Binding, Definition, ModuleSummary, Visibility, text};

use super::{Index, LinkInputs, RootReason, build};
use crate::args::tests::interpret;
use crate::config::{Config, Flavor};
use crate::ids::{AtomId, Id, ModuleId};
use crate::inputs::Inputs;
use crate::plan::{Action, plan};
use crate::propagate::{Liveness, Witness, live};
use crate::resolve::{GlobalSymbol, LoadedModule, Prevailing, Resolution};
use crate::summarize::cache::LinkCache;

/// A link that is made of summaries in text form, for tests.
pub(crate) struct Link {
    pub(crate) summaries: Vec<ModuleSummary>,
    pub(crate) config: Config,
}

impl Link {
    pub(crate) fn new(line: &str, texts: &[&str]) -> Self {
        let summaries = texts.iter().map(|t| text::parse(t).unwrap()).collect();
        Link { summaries, config: interpret(Flavor::Lld, line) }
    }

    pub(crate) fn resolution(&self) -> Resolution<'_> {
        let mut resolution = Resolution::default();
        for (m, summary) in self.summaries.iter().enumerate() {
            let module = ModuleId::new(m);
            let mut loaded = LoadedModule { first_global: 1, ..LoadedModule::default() };
            for (i, symbol) in summary.symbols.iter().enumerate().skip(1) {
                let name = summary.name(symbol.name);
                let known = resolution.symbols.enumerated().find(|(_, s)| s.name == name).map(|(id, _)| id);
                let id = known.unwrap_or_else(|| {
                    resolution.symbols.push(GlobalSymbol {
                        versioned: false,
                        name,
                        prevailing: Prevailing::Undefined { weak: false },
                        visibility: Visibility::Default,
                        referenced_by_dso: false,
                        defined_by_dso: false,
                        strong_reference: false,
                        by_bitcode: false,
                        by_generated_code: false,
                        omittable: false,
                    })
                });
                let old = resolution.symbols[id].prevailing;
                let strong_before = matches!(old, Prevailing::Module { module, symbol }
                    if self.summaries[module.index()].symbols[symbol.index()].binding == Binding::Global);
                let defines = symbol.definition != Definition::Undefined;
                let better = !matches!(old, Prevailing::Module { .. }) || symbol.binding == Binding::Global;
                if defines && !strong_before && better {
                    let symbol = summaries::SymbolIdx::new(i);
                    resolution.symbols[id].prevailing = Prevailing::Module { module, symbol };
                }
                loaded.symbols.push(id);
            }
            resolution.loaded.push(module);
            resolution.modules.push(Some(loaded));
        }
        resolution
    }

    /// The inputs of the index that is built.
    pub(crate) fn inputs<'l>(
        &'l self,
        inputs: &'l Inputs,
        resolution: &'l Resolution<'l>,
        summaries: &'l [&'l ModuleSummary],
    ) -> LinkInputs<'l> {
        LinkInputs { config: &self.config, inputs, resolution, summaries, cached: LinkCache::default() }
    }

    /// Index and liveness, and the plan's kept atoms by "module.section".
    fn run(&self) -> (Index, Liveness, Vec<String>) {
        let inputs = Inputs::default();
        let resolution = self.resolution();
        let summaries: Vec<&ModuleSummary> = self.summaries.iter().collect();
        let index = build(self.inputs(&inputs, &resolution, &summaries));
        let liveness = live(&index);
        let plan = plan(&index, &liveness, &resolution, &summaries);
        let mut kept = Vec::new();
        for (m, (module, summary)) in plan.modules.iter().zip(&self.summaries).enumerate() {
            for (action, atom) in module.atoms.iter().zip(&summary.atoms) {
                if *action == Action::Keep {
                    kept.push(format!("{m}{}", String::from_utf8_lossy(summary.name(atom.name))));
                }
            }
        }
        (index, liveness, kept)
    }
}

const MAIN: &str = include_str!("tests/main_summary.txt");

const HELPER: &str = include_str!("tests/helper_summary.txt");

#[test]
fn references_go_to_the_prevailing_definition() {
    let (index, liveness, kept) = Link::new("a.o -o out", &[MAIN, HELPER]).run();
    assert_eq!(kept, ["0.text.start", "1.text.helper", "1.text.strong"]);
    // The witnesses of the strong `both`: helper calls it, _start calls that, the entry is a root.
    let mut chain = Vec::new();
    let mut atom = AtomId(4);
    while let Some(Witness::Edge(edge)) = liveness.witness[atom.index()] {
        atom = index.edge_source(edge);
        chain.push(atom);
    }
    assert_eq!(chain, [AtomId(3), AtomId(0)]);
    assert_eq!(index.roots.iter().map(|r| r.reason).collect::<Vec<_>>(), [RootReason::Entry]);
}

#[test]
fn options_make_roots() {
    let kept = |line: &str| Link::new(line, &[MAIN, HELPER]).run().2;
    assert!(kept("a.o -u unused -o out").contains(&"1.text.unused".to_owned()));
    assert!(kept("a.o --defsym=x=dead+4 -o out").contains(&"0.text.dead".to_owned()));
    assert!(kept("a.o -init dead -o out").contains(&"0.text.dead".to_owned()));
    assert_eq!(
        kept("a.o --export-dynamic -o out").len(),
        5,
        "all but the weak `both`, which doesn't prevail"
    );
    assert_eq!(kept("a.o -shared -o out").len(), 5);
}

#[test]
fn groups_metadata_and_custom_sections() {
    let module = include_str!("tests/groups_metadata_and_custom_sections.txt");
    let kept = |line: &str| Link::new(line, &[module]).run().2;
    let common = ["0.text.start", "0.text.sig", "0.rodata.sig", "0meta"];
    assert_eq!(kept("a.o --gc-sections -o out"), common);
    assert_eq!(kept("a.o -o out"), [&common[..], &["0custom"]].concat());
}

/// A random module graph as summaries, with its edges as (from, to) over all atoms.
pub(crate) fn random_link(edges: &[(usize, usize)], modules: usize, atoms: usize) -> Link {
    let texts: Vec<String> = (0..modules)
        .map(|m| {
            let mut symbols = String::from("module native\nsymbol \"\"\n");
            let mut bodies = String::new();
            for a in 0..atoms {
                let n = m * atoms + a;
                symbols += &format!("symbol f{n} global func in [.text.f{n}] size 4\n");
                bodies += &format!(
                    "atom .text.f{n} code section {} size 0x100 align 1 flags exec,standard\n",
                    a + 1
                );
                for (k, (_, to)) in edges.iter().filter(|(from, _)| *from == n).enumerate() {
                    bodies += &format!("  call @{:#x} f{to} -4\n", k * 4);
                }
            }
            let foreign = edges.iter().filter(|(from, to)| from / atoms == m && to / atoms != m);
            let mut names: Vec<usize> = foreign.map(|(_, to)| *to).collect();
            names.sort_unstable();
            names.dedup();
            symbols += &names.iter().map(|n| format!("symbol f{n} global\n")).collect::<String>();
            symbols + &bodies
        })
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Link::new("a.o -e f0 -u f5 -o out", &texts)
}

proptest! {
    #[test]
    fn liveness_is_reachability(edges in prop::collection::vec((0usize..24, 0usize..24), 0..60)) {
        let link = random_link(&edges, 4, 6);
        let mut reached = [false; 24];
        (reached[0], reached[5]) = (true, true);
        for _ in 0..24 {
            for (from, to) in &edges {
                reached[*to] |= reached[*from];
            }
        }
        let expected: Vec<String> =
            (0..24).filter(|n| reached[*n]).map(|n| format!("{}.text.f{n}", n / 6)).collect();
        prop_assert_eq!(link.run().2, expected);
    }

    #[test]
    fn one_thread_and_many_agree(edges in prop::collection::vec((0usize..24, 0usize..24), 0..60)) {
        let link = random_link(&edges, 4, 6);
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| { let (index, liveness, _) = link.run(); (index.edges, liveness.witness) })
        };
        prop_assert_eq!(run(1), run(3));
    }
}
