//! `lto-prune audit html` in a headless browser: the page runs its own checks, and the tests read its elements.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::audit::linked;
use crate::run::Session;
use crate::tools::Linker;

fn audit(session: &mut Session, words: &str) -> String {
    session.cmd(&format!("lto-prune audit {words}")).stdout
}

/// The page as the browser has it after its scripts have run.
fn dom(session: &mut Session, page: &Path, hash: &str) -> String {
    // As root it has no sandbox of its own.
    let job = session
        .job("chromium --headless --no-sandbox --disable-gpu --window-size=1400,1000 --dump-dom")
        .arg(format!("--user-data-dir={}", session.path("profile").display()))
        .arg(format!("file://{}#{hash}", page.display()));
    let text = session.must(&job).stdout;
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// The text of the element with this id.
fn inside<'t>(session: &Session, text: &'t str, id: &str, tag: &str) -> &'t str {
    let found = text.split_once(&format!("id=\"{id}\"")).and_then(|t| t.1.split_once('>'));
    match found.and_then(|t| t.1.split_once(&format!("</{tag}>"))) {
        Some((inside, _)) => inside,
        None => session.fail(&format!("the page has no {id}: {text}")),
    }
}

fn check(session: &mut Session, page: &Path) -> Value {
    let text = dom(session, page, "selfcheck");
    let found = inside(session, &text, "selfcheck", "pre");
    let found: Value = serde_json::from_str(found).unwrap_or_else(|e| session.fail(&format!("{e}: {found}")));
    session.check_eq(&found["failures"], &Value::Array(Vec::new()), &page.display().to_string());
    found
}

#[test]
fn the_page_is_right_about_one_report_and_two() {
    let mut session = Session::new("audit/page");
    linked(&mut session, "old", "fixtures/audit/main.c", "", Linker::Lld, "");
    linked(&mut session, "new", "fixtures/audit/main.c", "-DGROW", Linker::Lld, "");
    let one = session.path("one.html");
    audit(&mut session, "html -o one.html new.json");
    let two = session.path("two.html");
    std::fs::write(&two, audit(&mut session, "html --old=old.json new.json")).unwrap();
    for page in [&one, &two] {
        let found = check(&mut session, page);
        session.check(found["items"].as_u64() > Some(30), &format!("{found}"));
        session.check(found["times"]["why"].is_number(), &format!("{found}"));
        session.check(found["imports"].as_u64() > Some(0), &format!("{found}"));
    }
    // The whole first: what the link removed, with its module.
    let removed = audit(&mut session, "garbage --csv -n 0 new.json");
    let dead = removed.lines().find(|line| line.contains("main.o")).unwrap().to_owned();
    let text = dom(&mut session, &one, "");
    let panel = inside(&session, &text, "panel", "section").to_owned();
    let name = dead.split(',').find(|cell| cell.starts_with(char::is_alphabetic)).unwrap();
    session.check(
        panel.contains("Removed: ") && panel.contains(name),
        &format!("no {name} of {dead} in {panel}"),
    );
    // The page of deeper shows the references that keep it, and its name.
    let text = dom(&mut session, &one, "group=section&show=deeper");
    let panel = inside(&session, &text, "panel", "section").to_owned();
    for words in
        ["deeper", "root: entry", "main.o:(.text.first+0x", "What refers to it", "lto-prune audit why"]
    {
        session.check(panel.contains(words), &format!("no {words:?} in {panel}"));
    }
    // An import lists its users, and a user lists its imports.
    let text = dom(&mut session, &one, "show=__libc_start_main");
    let panel = inside(&session, &text, "panel", "section").to_owned();
    for words in ["Defined by: libc.so.6", "crt1.o:(.text+0x", "_start", "lto-prune audit why"] {
        session.check(panel.contains(words), &format!("no {words:?} in {panel}"));
    }
    let text = dom(&mut session, &one, "show=_start");
    let panel = inside(&session, &text, "panel", "section").to_owned();
    session.check(panel.contains("__libc_start_main</button> of libc.so.6"), &panel);
    let text = dom(&mut session, &one, "search=libc_start");
    let found = inside(&session, &text, "found", "span");
    session.check(found.ends_with("and 1 symbol of others"), found);
    let text = dom(&mut session, &two, "areas=change&search=extra");
    session.check(inside(&session, &text, "found", "span").starts_with("1 found"), "extra is found");
    let text = dom(&mut session, &two, "areas=change&show=extra");
    let panel = inside(&session, &text, "panel", "section").to_owned();
    session.check(panel.contains("new: +"), &format!("extra is new: {panel}"));
}

/// Without a report nothing says what keeps a thing, and the page must not say it either.
#[test]
fn the_page_of_a_file_explains_nothing() {
    let mut session = Session::new("audit/page-file");
    linked(&mut session, "main", "fixtures/audit/main.c", "-g", Linker::Lld, "");
    let page = session.path("main.html");
    for words in ["html -o main.html main", "html --all -o main.html main", "html -o main.html main.d/main.o"]
    {
        audit(&mut session, words);
        let found = check(&mut session, &page);
        session.check(found["items"].as_u64() > Some(10), &format!("{found}"));
        let text = dom(&mut session, &page, "show=deeper");
        let panel = inside(&session, &text, "panel", "section").to_owned();
        session.check(panel.contains("deeper") && panel.contains(".text"), &panel);
        for word in ["retained", "audit why", "what would go with it", "No symbol of an input"] {
            let shown = text.split_once("<script").map_or(&*text, |t| t.0);
            session.check(!shown.contains(word), &format!("{words}: {word} in {panel}"));
        }
    }
}

#[test]
fn names_of_templates_are_text() {
    let mut session = Session::new("audit/page-names");
    let source: PathBuf = session.write(
        "names.cpp",
        "template <class T> struct Box { T of(T t); };\n\
         template <class T> __attribute__((noipa)) T Box<T>::of(T t) { return t + 1; }\n\
         int main(int n, char **) { return Box<Box<int> *>().of(0) != nullptr && Box<int>().of(n); }\n",
    );
    linked(&mut session, "names", source.to_str().unwrap(), "", Linker::Lld, "");
    let page = session.path("names.html");
    audit(&mut session, "html -o names.html names.json");
    check(&mut session, &page);
    let text = dom(&mut session, &page, "group=namespace&search=Box<int>::of");
    let panel = inside(&session, &text, "panel", "section").to_owned();
    session.check(panel.contains("Box<int>::of(int)"), &panel);
}
