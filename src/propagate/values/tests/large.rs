//! Large random programs with about the mixture of constraints of sqlite3. They test that the result does not depend on threads and
//! order, and measure the cost of a million constraints.

use std::fmt::Write;

use super::*;

/// A linear congruential generator (Knuth's MMIX).
struct KnuthStream(u64);

impl KnuthStream {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }
}

/// The number of constraints of a function, calls included.
const LINES: usize = 60;
/// The number of values of each function.
const VALUES: usize = 40;

/// The body of a function. Of a hundred lines 45 copy, 12 displace, 12 load, 7 store, 3 take addresses, and the others call. Most calls
/// are to neighbouring functions, and one in twelve is indirect.
fn body(numbers: &mut KnuthStream, own: usize, functions: usize, data: usize) -> String {
    let mut body = "param rdi %0; param rsi %1; param rdx %2; result rax %3".to_owned();
    for _ in 0..LINES {
        let (a, b) = (numbers.below(VALUES), numbers.below(VALUES));
        let offset = numbers.below(8) * 8;
        let _ = match numbers.below(100) {
            0..45 => write!(body, "; %{a} = %{b}"),
            45..52 => write!(body, "; %{a} = %{b} unknown"),
            52..57 => write!(body, "; %{a} = %{b} +{offset}"),
            57..69 => write!(body, "; %{a} = load %{b} +{offset} size 8"),
            69..76 => write!(body, "; store %{a} -> %{b} +{offset} size 8"),
            76 => write!(body, "; %{a} = address f{}", numbers.below(functions)),
            77..79 => write!(body, "; %{a} = address d{}", numbers.below(data)),
            79 => write!(body, "; call indirect %{a} actual rdi %{b} result rax %{a}"),
            80 if own.is_multiple_of(64) => {
                write!(body, "; call direct outside actual rdi %{b} result rax %{a}")
            }
            _ => {
                let callee = (own + 1 + numbers.below(40)) % functions;
                write!(body, "; call direct f{callee} actual rdi %{a} actual rsi %{b} result rax %{b}")
            }
        };
    }
    body
}

/// A program with so many constraints; `backwards` reverses the order of its functions.
fn program(seed: u64, constraints: usize, backwards: bool) -> String {
    let (functions, data) = (constraints / LINES, constraints / LINES / 4);
    let mut numbers = KnuthStream(seed);
    let mut all: Vec<(String, String)> =
        (0..functions).map(|i| (format!("f{i}"), body(&mut numbers, i, functions, data))).collect();
    let pointers: Vec<(String, String)> = (0..data)
        .map(|i| (format!("d{i}"), format!("0 f{}; 8 d{}", numbers.below(functions), numbers.below(data))))
        .collect();
    if backwards {
        all.reverse();
    }
    let all: Vec<(&str, &str)> = all.iter().map(|(n, b)| (n.as_str(), b.as_str())).collect();
    let pointers: Vec<(&str, &str)> = pointers.iter().map(|(n, b)| (n.as_str(), b.as_str())).collect();
    module(&all, &pointers, &["outside"])
}

fn solved(text: &str, threads: usize, budget: budget::Budget) -> (ValueFlow, Vec<String>) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| flow_of_within("a.o -e f0 -o out", &[text], &[], budget))
}

#[test]
fn threads_and_runs_do_not_matter() {
    let text = program(1, 6000, false);
    for budget in [
        budget::BUDGET,
        budget::Budget {
            clones: 0,
            unseen_values: 1024,
            objects: 4,
            pairs: 2,
            alike: 1,
            room: 0,
            free: 0,
            steps: [1, 2, 100],
            most: [usize::MAX; 3],
        },
    ] {
        let (one, _) = solved(&text, 1, budget);
        for threads in [1, 4] {
            let (other, _) = solved(&text, threads, budget);
            assert_eq!((&one.sites, one.statistics), (&other.sites, other.statistics));
            assert_eq!(one.liveness.witness, other.liveness.witness);
            assert_eq!(one.liveness.stub, other.liveness.stub);
        }
    }
}

#[test]
fn the_order_of_functions_does_not_matter_within_the_budget() {
    let free = budget::Budget {
        clones: 0,
        unseen_values: 1024,
        objects: usize::MAX,
        pairs: usize::MAX,
        alike: 2,
        room: 0,
        free: usize::MAX,
        steps: [0; 3],
        most: [0; 3],
    };
    let live = |backwards| {
        let (flow, names) = solved(&program(2, 6000, backwards), 1, free);
        let all = names.iter().enumerate();
        let mut live: Vec<_> = all.map(|(i, n)| (n.clone(), flow.liveness.is_live(AtomId::new(i)))).collect();
        live.sort();
        (
            live,
            flow.statistics.map(|s| (s.resolved, s.overdefined, s.empty, s.called, s.escaped, s.mentioned)),
        )
    };
    assert_eq!(live(false), live(true));
}

/// Prints time and steps: `cargo test --release -p lto-prune -- --ignored --nocapture a_million`.
#[test]
#[ignore = "to measure"]
fn a_million_constraints() {
    let text = program(3, 1_000_000, false);
    let (whole, _) = solved(&text, 1, budget::BUDGET);
    let statistics = whole.statistics.unwrap();
    println!("{statistics:?}");
    assert!(statistics.steps < 100 * statistics.constraints);
}
