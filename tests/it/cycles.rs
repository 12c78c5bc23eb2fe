//! The dependency graph of files has no cycle of more than two files of a crate.
//!
//! A file depends on the files whose modules its paths name: in `use` declarations, and behind `crate`, `super`, `self` or the name of a child. Test
//! code, visibility and macros do not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::rust_files;

/// The tokens of code: names, `::` and single characters.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        tokens.push(token);
        rest = behind.trim_start();
    }
    tokens
}

/// The paths of a `use` tree, whose first token is the next of `rest`.
fn tree<'a>(rest: &mut std::slice::Iter<'_, &'a str>, before: &[&'a str], found: &mut Vec<Vec<&'a str>>) {
    let mut path = before.to_vec();
    while let Some(token) = rest.as_slice().first().copied().filter(|t| !matches!(*t, "," | "}" | ";")) {
        rest.next();
        if token == "{" {
            while rest.as_slice().first().is_some_and(|t| !matches!(*t, "}" | ";")) {
                tree(rest, &path, found);
                while rest.as_slice().first() == Some(&",") {
                    rest.next();
                }
            }
            rest.next();
            return;
        }
        if token != "::" {
            path.push(token);
        }
    }
    found.push(path);
}

/// All paths that the code names, each as a list of names.
fn paths(code: &str) -> Vec<Vec<&str>> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut rest = tokens.iter();
    while let Some(token) = rest.next() {
        if *token == "use" {
            tree(&mut rest, &[], &mut found);
            continue;
        }
        let mut path = vec![*token];
        while let [separator, name, ..] = rest.as_slice()
            && *separator == "::"
        {
            path.push(name);
            rest.next();
            rest.next();
        }
        if path.len() > 1 {
            found.push(path);
        }
    }
    found
}

/// The code of the library: without comments, test modules, and visibilities.
fn code(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some((before, behind)) = text.split_once("#[cfg(test)]")
        && let Some((item, rest)) = behind.split_once("mod tests;")
        && item.lines().all(|line| line.is_empty() || line.starts_with("#["))
    {
        text = format!("{before}{rest}");
    }
    let text = text.split("#[cfg(test)]").next().unwrap_or("");
    let without_comment = |line: &str| {
        let line = line.split("//").next().unwrap_or("");
        match line.split_once("pub(in ").and_then(|(before, rest)| Some((before, rest.split_once(')')?.1))) {
            Some((before, behind)) => format!("{before}{behind}\n"),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(without_comment).collect()
}

/// The number of a file, by the path of its module.
type Modules<'f> = BTreeMap<Vec<&'f str>, usize>;

/// The file that a path in `module` leads to.
fn resolve<'f>(path: &[&'f str], module: &[&'f str], modules: &Modules<'f>) -> Option<usize> {
    let up = path.iter().take_while(|name| **name == "super").count();
    let (mut at, names) = match path.first()? {
        &"crate" => (Vec::new(), &path[1..]),
        &"self" => (module.to_vec(), &path[1..]),
        &"super" => (module[..module.len().checked_sub(up)?].to_vec(), &path[up..]),
        child => {
            let is_child = modules.contains_key(&[module, &[*child]].concat());
            (module.to_vec(), path.get(..if is_child { path.len() } else { 0 }).filter(|p| !p.is_empty())?)
        }
    };
    for name in names {
        at.push(name);
        if !modules.contains_key(&at) {
            at.pop();
            break;
        }
    }
    modules.get(&at).copied()
}

#[test]
fn at_most_two_files_depend_on_each_other() {
    let all = rust_files();
    for root in ["src/", "summaries/src/"] {
        let files: Vec<(Vec<&str>, String)> = all
            .iter()
            .filter_map(|(path, text)| {
                let path = path.strip_prefix(root)?.strip_suffix(".rs").filter(|p| *p != "main")?;
                let mut module: Vec<&str> = path.split('/').collect();
                if module.contains(&"tests") {
                    return None;
                }
                module.pop_if(|last| matches!(*last, "mod" | "lib"));
                Some((module, code(text)))
            })
            .collect();
        let modules: Modules<'_> = files.iter().enumerate().map(|(i, (m, _))| (m.clone(), i)).collect();
        let edges: Vec<BTreeSet<usize>> = files
            .iter()
            .enumerate()
            .map(|(i, (module, code))| {
                let to = paths(code).into_iter().filter_map(|path| resolve(&path, module, &modules));
                to.filter(|to| *to != i).collect()
            })
            .collect();
        let reached = |from: usize| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(at) = next.pop() {
                next.extend(edges[at].iter().copied().filter(|to| seen.insert(*to)));
            }
            seen
        };
        let reach: Vec<BTreeSet<usize>> = (0..files.len()).map(reached).collect();
        assert!(
            edges.iter().map(BTreeSet::len).sum::<usize>() > files.len(),
            "{root}: hardly an edge is found"
        );
        let circles: BTreeSet<Vec<String>> = (0..files.len())
            .map(|i| {
                reach[i].iter().filter(|j| reach[**j].contains(&i)).map(|j| files[*j].0.join("::")).collect()
            })
            .filter(|circle: &Vec<String>| circle.len() > 2)
            .collect();
        assert!(circles.is_empty(), "{root}: {circles:#?}");
    }
}
