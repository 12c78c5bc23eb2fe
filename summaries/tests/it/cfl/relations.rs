//! What callers see of a function: LLVM's examples for its CFL alias analyses, by dereference level, and the fallback.

use summaries::cfl::{
    Attribute, ExternalRelation, InterfaceBase, InterfaceValue, MOST_FACTS, Relations, relations,
};
use summaries::relation::FunctionSummary;

fn function(body: &str) -> FunctionSummary {
    let head = "module native pointers\nsymbol \"\"\nsymbol g\natom t code section 1 size 8 flags exec\nfunction [t]";
    summaries::text::parse(&format!("{head}{body}")).unwrap().functions.remove(0)
}

const FIRST: InterfaceBase = InterfaceBase::Parameter(7);
const SECOND: InterfaceBase = InterfaceBase::Parameter(6);
const RESULT: InterfaceBase = InterfaceBase::Result(0);

fn seen(body: &str) -> (Vec<ExternalRelation>, Vec<(InterfaceValue, Attribute)>) {
    match relations(&function(body), MOST_FACTS) {
        Relations::Closed { relations, attributes } => (relations, attributes),
        Relations::Everything => panic!("the budget is spent"),
    }
}

fn relation(from: (InterfaceBase, u8), to: (InterfaceBase, u8), offset: Option<i64>) -> ExternalRelation {
    let value = |(base, level)| InterfaceValue { base, level };
    ExternalRelation { from: value(from), to: value(to), offset }
}

fn has(body: &str, from: (InterfaceBase, u8), to: (InterfaceBase, u8)) -> bool {
    seen(body).0.iter().any(|r| *r == ExternalRelation { offset: r.offset, ..relation(from, to, None) })
}

#[test]
fn a_parameter_is_returned() {
    let (found, attributes) = seen("\n param rdi %0\n param rsi %1\n result rax %2\n %2 = %0 +8");
    assert_eq!(found, [relation((FIRST, 0), (RESULT, 0), Some(8))]);
    assert_eq!(attributes, [(InterfaceValue { base: RESULT, level: 0 }, Attribute::Caller)]);
}

#[test]
fn levels_of_dereference() {
    // return *a; return **a; *a = b; **a = b; *a = *b; *a = &g
    let load = "\n param rdi %0\n result rax %1\n %1 = load %0 +0 size 8";
    assert_eq!(seen(load).0, [relation((FIRST, 1), (RESULT, 0), Some(0))]);
    let twice = "\n param rdi %0\n result rax %2\n %1 = load %0 +0 size 8\n %2 = load %1 +0 size 8";
    assert_eq!(seen(twice).0, [relation((FIRST, 2), (RESULT, 0), Some(0))]);
    let store = "\n param rdi %0\n param rsi %1\n store %1 -> %0 +0 size 8";
    assert_eq!(seen(store).0, [relation((SECOND, 0), (FIRST, 1), Some(0))]);
    let deep = "\n param rdi %0\n param rsi %1\n %2 = load %0 +0 size 8\n store %1 -> %2 +0 size 8";
    assert_eq!(seen(deep).0, [relation((SECOND, 0), (FIRST, 2), Some(0))]);
    let copied = "\n param rdi %0\n param rsi %1\n copy %1 +0 -> %0 +0 size 8";
    assert_eq!(seen(copied).0, [relation((SECOND, 1), (FIRST, 1), Some(0))]);
    let body = "\n param rdi %0\n %1 = address g +4\n store %1 -> %0 +0 size 8";
    let found = seen(body);
    assert!(matches!(
        found.0[..],
        [ExternalRelation {
            from: InterfaceValue { base: InterfaceBase::Global(_), level: 0 },
            offset: Some(4),
            ..
        }]
    ));
    assert_eq!(found.1, [(InterfaceValue { base: FIRST, level: 1 }, Attribute::Global)]);
}

#[test]
fn through_memory_of_its_own() {
    // A local holds a, and is read back; another one is not.
    let body = " frame\n param rdi %0\n param rsi %1\n result rax %4\n %2 = frame -8\n %3 = frame -24\n \
                store %0 -> %2 +0 size 8\n store %1 -> %3 +0 size 8\n %4 = load %2 +0 size 8";
    assert!(has(body, (FIRST, 0), (RESULT, 0)) && !has(body, (SECOND, 0), (RESULT, 0)));
    // What the caller passes twice is distinguished here, and joined by whoever calls with one address for both.
    let body =
        "\n param rdi %0\n param rsi %1\n result rax %2\n store %1 -> %0 +0 size 8\n %2 = load %0 +0 size 8";
    assert!(has(body, (SECOND, 0), (RESULT, 0)) && has(body, (SECOND, 0), (FIRST, 1)));
}

#[test]
fn calls_and_what_escapes() {
    let body = "\n param rdi %0\n site section 1 @0x4 indirect %0 actual rsi %1 result rax %2\n %1 = load %0 +8 size 8\n result rax %2\n escape %1";
    assert!(
        has(body, (FIRST, 0), (InterfaceBase::Called(0), 0))
            && has(body, (FIRST, 1), (InterfaceBase::Actual(0, 6), 0))
    );
    assert!(has(body, (InterfaceBase::Returned(0, 0), 0), (RESULT, 0)));
    let escaped = (InterfaceValue { base: FIRST, level: 1 }, Attribute::Escaped);
    assert!(seen(body).1.contains(&escaped));
    let unknown = seen("\n param rdi %0\n store %1 -> %0 +0 size 8\n %1 = unknown").1;
    assert!(unknown.contains(&(InterfaceValue { base: FIRST, level: 1 }, Attribute::Unknown)));
}

#[test]
fn recursion_through_memory_is_finite() {
    // A list: a = *a.
    let body = "\n param rdi %0\n result rax %1\n %1 = %0 +0\n %1 = load %1 +8 size 8";
    for level in 0..=summaries::cfl::MOST_LEVELS {
        assert!(has(body, (FIRST, level), (RESULT, 0)), "{level}");
    }
    assert_eq!(seen(body), seen(body));
}

#[test]
fn the_budget_is_everything() {
    let f = function("\n param rdi %0\n result rax %1\n %1 = load %0 +0 size 8");
    assert_eq!(relations(&f, 1), Relations::Everything);
    assert_ne!(relations(&f, 1000), Relations::Everything);
}

/// What `lto-prune dump` says of them, and that reading the text passes it over.
#[test]
fn relations_are_comments_of_the_text_form() {
    let text = "module native pointers\nsymbol \"\"\nsymbol g\natom t code section 1 size 8 flags exec\nfunction [t]\n param rdi %0\n result rax %1\n %1 = load %0 +16 size 8\n";
    let summary = summaries::text::parse(text).unwrap();
    let dumped = summaries::text::dump_with_relations(&summary);
    let comments: Vec<&str> = dumped.lines().skip_while(|l| !l.starts_with("; callers of")).collect();
    assert_eq!(
        comments,
        [
            "; callers of [t]: 1 relations, 1 attributes",
            ";   (parameter rdi, 1) -> (result rax, 0) +0",
            ";   (result rax, 0) is the caller's",
        ]
    );
    assert_eq!(summaries::text::parse(&dumped).unwrap(), summary);
}
