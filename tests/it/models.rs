//! Models of library functions, compared with the functions: the programs of `fixtures/library_models` call them, and print where results point,
//! which addresses were stored, and the arguments of callbacks.
//!
//! The test finds effects that a model lacks, for the arguments of these calls only.

use std::collections::BTreeSet;

use summaries::models::{Effect, Library, Model, PassedArgument, Source, StoredAddress, builtin};

use crate::run::Session;
use crate::tools;

/// A call in the program: which objects each argument mentions, in order.
struct Call {
    arguments: Vec<Vec<usize>>,
}

impl Call {
    /// The call of `name` on a line of the program.
    fn read(line: &str, name: &str) -> Call {
        let macro_end = line.find(", ").map_or(0, |i| i + 2);
        let body = &line[macro_end..];
        let Some(start) = body.find(&format!("{name}(")) else { return Call { arguments: Vec::new() } };
        let (mut depth, mut arguments) = (0, vec![String::new()]);
        for c in body[start + name.len()..].chars() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                ',' if depth == 1 => arguments.push(String::new()),
                _ => {}
            }
            if depth == 0 {
                break;
            }
            arguments.last_mut().unwrap().push(c);
        }
        let objects = |text: &String| {
            let after =
                text.match_indices("o[").filter_map(|(i, _)| text[i + 2..].chars().next()?.to_digit(10));
            after.map(|d| d as usize).collect()
        };
        Call { arguments: arguments.iter().map(objects).collect() }
    }

    fn has_object(&self, argument: u8) -> bool {
        self.arguments.get(usize::from(argument)).is_some_and(|a| !a.is_empty())
    }

    fn is(&self, argument: u8, object: usize) -> bool {
        self.arguments.get(usize::from(argument)).is_some_and(|a| a.contains(&object))
    }
}

/// The object that an address points to, as the program prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    None,
    Other,
    /// The object, and whether it is its first byte.
    Object(usize, bool),
}

fn place(word: &str) -> Place {
    match word {
        "none" => Place::None,
        "other" => Place::Other,
        _ => Place::Object(word.trim_start_matches('~').parse().unwrap(), !word.starts_with('~')),
    }
}

/// Whether the model lets the function return that.
fn may_return(model: &Model, call: &Call, result: Place) -> bool {
    model.effects.iter().any(|effect| match (result, effect) {
        (Place::None, _) => true,
        // Nodes lead to any of them, but to no place inside of one.
        (Place::Object(_, start), Effect::ReturnsLinked { .. } | Effect::Relinks { returns: true, .. }) => {
            start
        }
        (Place::Object(k, start), Effect::Returns { argument, exact }) => {
            call.is(*argument, k) && (start || !exact)
        }
        // The test does not know the former contents of an object, only that the argument is an object.
        (Place::Object(..), Effect::ReturnsContents { argument: n, .. }) => call.has_object(*n),
        (Place::Object(..), e) => {
            matches!(e, Effect::ReturnsHeld | Effect::ReturnsWithinContentsOfHeld | Effect::ReturnsUnknown)
        }
        (Place::Other, Effect::Returns { argument, .. }) => {
            call.arguments.get(usize::from(*argument)).is_some_and(Vec::is_empty)
        }
        (Place::Other, e) => matches!(
            e,
            Effect::ReturnsFresh
                | Effect::ReturnsAligned
                | Effect::ReturnsLibrary
                | Effect::ReturnsHeld
                | Effect::ReturnsUnknown
        ),
    }) || result == Place::None
}

/// Whether the model lets the function store such an address in the object.
fn may_store(model: &Model, call: &Call, object: usize, what: Place) -> bool {
    model.effects.iter().any(|effect| match effect {
        Effect::Stores { what: stored, to: Source::Argument(to), .. } if call.is(*to, object) => {
            match (stored, what) {
                (
                    StoredAddress::Within(n) | StoredAddress::Place { argument: n, .. },
                    Place::Object(k, _),
                ) => call.is(*n, k),
                (StoredAddress::Contents(n), Place::Object(..)) => call.has_object(*n),
                (StoredAddress::Held | StoredAddress::Unknown, _) => true,
                (StoredAddress::Fresh | StoredAddress::Aligned | StoredAddress::Library, Place::Other) => {
                    true
                }
                _ => false,
            }
        }
        Effect::Relinks { .. } => matches!(what, Place::Object(_, true)),
        Effect::Copies { to: Source::Argument(to), .. } => call.is(*to, object),
        _ => false,
    })
}

/// Whether the model lets the function call back with such arguments.
fn may_call(model: &Model, call: &Call, passed: &[Place]) -> bool {
    model.effects.iter().any(|effect| {
        let Effect::Calls { function: Source::Argument(_), arguments, .. } = effect else { return false };
        arguments.iter().zip(passed).all(|(word, place)| match (word, place) {
            (_, Place::None) => true,
            (PassedArgument::Argument(n), Place::Object(k, start)) => call.is(*n, *k) && *start,
            (PassedArgument::Within(n), Place::Object(k, _)) => call.is(*n, *k),
            (PassedArgument::Contents(_) | PassedArgument::Unknown, _) => true,
            (PassedArgument::Library, Place::Other) => true,
            _ => false,
        })
    })
}

struct Seen {
    functions: usize,
    results: usize,
    stores: usize,
    calls: usize,
}

/// Hold what a program of the fixture says against the models of a library.
fn hold(program: &str, soname: &str, libraries_on_line: &str) -> Seen {
    let mut session = Session::new(&format!("library_models/{program}"));
    let source = tools::repository().join("fixtures/library_models").join(program);
    // As they are called, not as the compiler knows them.
    let job = session.job("gcc -O0 -w -fno-builtin -pthread -o out").arg(&source);
    session.must(&job.words(libraries_on_line));
    let program = session.job("./out");
    let ran = session.must(&program);
    let text = std::fs::read_to_string(&source).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let libraries = builtin().unwrap();
    let library = libraries.iter().find(|l| l.soname == soname).unwrap();
    let (mut wrong, seen) = judge(&session, &ran.stdout, &lines, library);
    if !wrong.is_empty() {
        // A text that ends within an address makes a number of it, which is an address now and then, but not twice.
        let ran = session.must(&program);
        let (again, _) = judge(&session, &ran.stdout, &lines, library);
        wrong.retain(|fact| again.contains(fact));
    }
    session.check_eq(&wrong, &Vec::new(), "what no model says");
    seen
}

/// The facts that a program of these lines printed and no model says, and how many there are of each kind.
fn judge(session: &Session, printed: &str, lines: &[&str], library: &Library) -> (Vec<String>, Seen) {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    let (mut results, mut stores, mut calls) = (0, 0, 0);
    for line in printed.lines() {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let number: usize = words.next().unwrap().parse().unwrap();
        let which = format!("o[{}]", words.next().unwrap());
        let call = Call::read(&lines[number - 1].replace("o[k]", &which), name);
        let data = library.data.contains_key(name);
        let Some(model) = library.functions.get(name).filter(|_| !data) else {
            session.check(data, &format!("{name} has no model"));
            continue;
        };
        seen.insert(name);
        for fact in words {
            let (what, value) = fact.split_once('=').unwrap();
            let fine = match what {
                "result" => {
                    results += usize::from(value != "none");
                    may_return(model, &call, place(value))
                }
                "store" => {
                    stores += 1;
                    let (object, stored) = value.split_once('<').unwrap();
                    may_store(model, &call, object.parse().unwrap(), place(stored))
                }
                "call" => {
                    calls += 1;
                    let passed: Vec<Place> = value.split(',').map(place).collect();
                    may_call(model, &call, &passed)
                }
                _ => false,
            };
            if !fine {
                wrong.push(format!("{name} (line {number}): {fact}"));
            }
        }
    }
    (wrong, Seen { functions: seen.len(), results, stores, calls })
}

// The calls are there, and do things.

#[test]
fn functions_do_what_their_models_say() {
    let seen = hold("main.c", "libc.so.6", "");
    assert!(seen.functions >= 120 && seen.results >= 70 && seen.stores >= 20 && seen.calls >= 3);
}

#[test]
fn functions_of_cxx_do_what_their_models_say() {
    let seen = hold("cxx.c", "libstdc++.so.6", "-lstdc++");
    assert!(seen.functions == 49 && seen.results >= 40 && seen.stores >= 20);
}

#[test]
fn functions_of_the_mathematical_library_do_what_their_models_say() {
    let seen = hold("math.c", "libm.so.6", "-lm");
    assert!(seen.functions == 11 && seen.stores == 0);
}

#[test]
fn functions_of_the_unwinder_do_what_their_models_say() {
    let seen = hold("unwind.c", "libgcc_s.so.1", "-lgcc_s");
    assert!(seen.functions == 10 && seen.results >= 6 && seen.calls == 1);
}
