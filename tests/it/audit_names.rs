//! Names in `lto-prune audit`: files of one name in several folders, functions of an undivided section, the forms of a symbol, and files that are no
//! report.

use serde_json::Value;

use crate::audit::{audit, json, reported, sizes};
use crate::run::Session;
use crate::tools::{self, Linker};

const FILES: &str = include_str!("programs/audit_names.txt");

/// Compile with gcc or g++, by the source's name.
fn compile(session: &mut Session, source: &str, object: &str, flags: &str) {
    let compiler = if source.ends_with(".cpp") { "g++" } else { "gcc" };
    session.cmd(&format!("{compiler} -O1 -c {flags} {source} -o {object}"));
}

/// A program of modules `util.o`, each in a folder: (folder, how often its function does something).
fn of_folders(session: &mut Session, name: &str, folders: &[(&str, usize)]) {
    let mut main = String::new();
    let mut objects = format!("{name}/main.o");
    let mut calls = String::new();
    for (folder, work) in folders {
        session.mkdir(&format!("{name}/{folder}"));
        let body = "volatile int s = x; s += x;\n".replace("s += x;", &"s += x;".repeat(*work));
        let helper = format!("__attribute__((noipa)) static int helper(int x) {{ {body} return s; }}\n");
        let run = format!("int {folder}_run(int x) {{ return helper(x) + 1; }}\n");
        session.write(&format!("{name}/{folder}/util.c"), helper + &run);
        let path = format!("{name}/{folder}/util");
        compile(session, &format!("{path}.c"), &format!("{path}.o"), "");
        objects += &format!(" {path}.o");
        main += &format!("int {folder}_run(int);\n");
        calls += &format!(" + {folder}_run(n)");
    }
    session.write(&format!("{name}/main.c"), format!("{main}int main(int n) {{ return n{calls}; }}\n"));
    compile(session, &format!("{name}/main.c"), &format!("{name}/main.o"), "");
    reported(session, &format!("{name}.out"), &objects, Linker::Lld);
}

#[test]
fn files_of_one_name_are_told_apart() {
    let mut session = Session::new("audit/folders");
    of_folders(&mut session, "old", &[("a", 20), ("b", 2), ("gone", 2)]);
    of_folders(&mut session, "new", &[("a", 2), ("b", 20), ("come", 2)]);
    let answer = json(&mut session, "diff --json old.out.json new.out.json");
    let change = |symbol: &str, module: &str| {
        let rows = answer["diff"].as_array().unwrap();
        let row =
            rows.iter().find(|r| r["symbol"] == symbol && r["module"].as_str().unwrap().ends_with(module));
        row.map(|r| (r["what"].as_str().unwrap().to_owned(), r["change"].as_i64().unwrap()))
    };
    let function = |session: &mut Session, object: &str| sizes(session, object)["helper"] as i64;
    let grown = function(&mut session, "new/b/util.o") - function(&mut session, "old/b/util.o");
    session.check(grown > 50, &format!("{grown} bytes more"));
    session.check_eq(&change("helper", "b/util.o"), &Some(("grown".to_owned(), grown)), "b");
    session.check_eq(&change("helper", "a/util.o"), &Some(("shrunk".to_owned(), -grown)), "a");
    let what = |symbol: &str, module: &str| change(symbol, module).map(|c| c.0).unwrap_or_default();
    session.check_eq(&what("helper", "come/util.o").as_str(), &"added", "another of the name");
    session.check_eq(&what("helper", "gone/util.o").as_str(), &"removed", "another of the name");
    let text = audit(&mut session, "diff --by=module old.out.json new.out.json").stdout;
    session.check(text.contains("new/b/util.o") && text.contains("old/gone/util.o"), &text);

    // The page has an item for each file, with and without an older report.
    for (words, both) in [
        ("html -o page.html new.out.json", false),
        ("html --old=old.out.json -o page.html new.out.json", true),
    ] {
        let status = audit(&mut session, words).status;
        session.check_eq(&status, &0, words);
        let page = session.text("page.html");
        let data = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap().1;
        let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
        let text = |at: &Value| data["strings"][at.as_u64().unwrap() as usize].as_str().unwrap();
        let items = &data["items"];
        let mut found = Vec::new();
        for (i, name) in items["name"].as_array().unwrap().iter().enumerate() {
            if text(name) == "helper" {
                let module = items["module"][i].as_u64().unwrap() as usize;
                let folder = text(&data["modules"][module][1]).rsplit('/').nth(1).unwrap().to_owned();
                found.push((folder, items["now"][i].as_i64().unwrap() - items["old"][i].as_i64().unwrap()));
            }
        }
        found.sort();
        let folders: Vec<&str> = found.iter().map(|f| f.0.as_str()).collect();
        if both {
            session.check_eq(&folders, &vec!["a", "b", "come", "gone"], words);
            session.check_eq(&(found[0].1, found[1].1), &(-grown, grown), words);
        } else {
            session.check_eq(&folders, &vec!["a", "b", "come"], words);
        }
    }

    // One of several statics.
    for (name, of) in
        [("b/util.o:helper", 1), ("new/b/util.o:helper", 1), ("util.o:helper", 3), ("helper", 3)]
    {
        let answer = audit(&mut session, &format!("why {name} new.out.json")).stdout;
        session.check_eq(&answer.lines().filter(|l| l.starts_with("helper in ")).count(), &of, &answer);
    }
}

#[test]
fn functions_of_a_section_that_was_left_whole() {
    let mut session = Session::new("audit/whole");
    session.files(FILES, "functions_of_a_section_that_was_left_whole");
    compile(&mut session, "main.c", "main.o", "-g");
    reported(&mut session, "main", "main.o -Wl,--prune-level=sections", Linker::Lld);
    let sizes = sizes(&mut session, "main.o");
    let answer = json(&mut session, "top --all --json main.json");
    let rows = answer["top"].as_array().unwrap();
    for name in ["large", "small", "main"] {
        let row = rows.iter().find(|r| r["symbol"] == name).unwrap_or(&Value::Null);
        session.check_eq(&row["bytes"], &Value::from(sizes[name]), name);
    }
    let sum: i64 = rows.iter().map(|r| r["bytes"].as_i64().unwrap()).sum();
    session.check_eq(&sum, &(std::fs::metadata(session.path("main")).unwrap().len() as i64), "top adds up");
    let text = audit(&mut session, "top main.json").stdout;
    session.check(text.contains("in 1 undivided sections"), &text);
    let text = audit(&mut session, "why small main.json").stdout;
    session.check(text.contains("main.o:(.text)") && text.contains("3 symbols share it"), &text);
    session.write("b.toml", format!("[symbol]\nlarge = {}\nsmall = 1\n", sizes["large"]));
    let text = audit(&mut session, "budget b.toml main.json").stdout;
    session.check(text.contains("1 limit is broken") && text.contains("OVER"), &text);
}

#[test]
fn every_way_to_say_a_name() {
    let mut session = Session::new("audit/names");
    session.files(FILES, "every_way_to_say_a_name");
    compile(&mut session, "main.cpp", "main.o", "-ffunction-sections -fdata-sections");
    reported(&mut session, "main", "main.o", Linker::Lld);
    let asked = |session: &mut Session, command: &str, name: &str| {
        let outcome =
            session.run(&session.job("lto-prune audit").words(command).arg(name).words("main.json"));
        let first = outcome.stdout.lines().next().unwrap_or_default().to_owned();
        (outcome.status, first + &outcome.stderr)
    };
    for (name, of) in [
        ("_ZNK3BoxIiE2ofEi", "Box<int>::of(int) const in "),
        ("Box<int>::of(int) const", "Box<int>::of(int) const in "),
        ("Box<int>::of(int)", "Box<int>::of(int) const in "),
        ("Box<int>::of", "Box<int>::of(int) const in "),
        ("Box<…>::of", "Box<int>::of(int) const in "),
        ("twice<int>", "int twice<int>(int) in "),
        ("twice*", "int twice<int>(int) in "),
        ("vtable for Box<int>", "vtable for Box<int> in "),
        ("named(std::string const&)", "named"),
        ("named", "named"),
        ("main.o:main", "main in main.o:("),
        ("main.o:(.text.main)", "main in main.o:("),
        ("[main.o:(.text.main)]", "main in main.o:("),
    ] {
        let (status, said) = asked(&mut session, "why", name);
        session.check(status == 0 && said.starts_with(of), &format!("{name}: {said}"));
    }
    let (status, said) = asked(&mut session, "why", "Bax<int>::of");
    session.check(status == 2 && said.contains("no module in the link defines Bax<int>::of"), &said);
    let (status, said) = asked(&mut session, "why --keep=nosuch", "named");
    session.check(status == 2 && said.contains("--keep=nosuch: no module"), &said);

    // Limits of a file that exists, by each of its names, and of one that does not.
    session.files(FILES, "every_way_to_say_a_name_2");
    let answer = json(&mut session, "budget --json b.toml main.json");
    let rows = answer["budget"].as_array().unwrap();
    let of = |name: &str| rows.iter().find(|r| r["name"] == name).unwrap()["status"].as_str().unwrap();
    for (name, status) in [
        ("Box<int>::of", "ok"),
        ("main", "ok"),
        ("mian", "NOTHING"),
        ("gone", "ok"),
        (".txt", "NOTHING"),
        ("[objects]", "ok"),
        ("main.o", "ok"),
    ] {
        session.check_eq(&of(name), &status, name);
    }
    session.check_eq(&answer["broken"], &Value::from(2), "limits of nothing are broken");
}

#[test]
fn files_that_are_no_reports() {
    let mut session = Session::new("audit/no-report");
    session.write("main.c", "int main(void) { return 0; }\n");
    compile(&mut session, "main.c", "main.o", "");
    reported(&mut session, "main", "main.o", Linker::Lld);
    session.write("budget.toml", "total = 1\n");
    for (words, expected) in [
        ("dominators main", "main is a linked file; audit dominators needs its report too"),
        ("top main main.o", "main is a linked program, and no link line begins with it"),
        ("diff main main.json", "main is an ELF executable and main.json is a report: compare two"),
        ("top .", ".: a folder is neither a report"),
        (
            "why main b main.json",
            "main.json is a report, but b is no link line; audit why takes SYMBOL REPORT",
        ),
        ("budget main.json budget.toml", "audit budget takes FILE REPORT"),
    ] {
        let outcome = audit(&mut session, words);
        let (status, said) = (outcome.status, outcome.stderr);
        session.check(status == 2 && said.contains(expected), &format!("{words}: {said}"));
    }
    let outcome = session.run(
        &session.job("bash").arg("-c").arg("\"$0\" audit top main.json >/dev/full").arg(tools::lto_prune()),
    );
    session.check(outcome.status == 2 && outcome.stderr.contains("standard output"), &outcome.stderr);
}
