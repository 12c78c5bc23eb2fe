//! `audit html`: one page with a report, or two, that needs no network: a map of sizes, search, and the references that keep each atom.
//!
//! The page is a constant text with tables of numbers; names are in one list, by position. The items of the map are those of [`items`], so
//! they add up to the length of the file. Retained sizes and dominators are computed here, and paths in the browser. For a cut, the page
//! names the command.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::attribute::{GroupBy, ItemNames, View, items, symbol};
use super::commands::why::weights;
use super::demangle::demangle;
use super::graph::dominators::Dominators;
use super::graph::{NONE, ROOT};
use super::matching;
use super::model::{Atom, AtomState, Model, ModuleReport};
use crate::error::{Error, Result, Stage};
use crate::report::graph::HOLDS;
use crate::terminal;

/// The page lists so many removed things.
const MOST_REMOVED: usize = 200;
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: [&str; 4] =
    [include_str!("tree.js"), include_str!("imports.js"), include_str!("view.js"), include_str!("check.js")];

/// The data of the page. Numbers are positions in `strings` or in the tables; -1 stands for none.
#[derive(Serialize)]
struct Page {
    strings: Vec<String>,
    output: u32,
    /// The linker that linked it, and the level.
    how: u32,
    report: u32,
    size: u64,
    /// Whether the report is of a link that was pruned.
    pruned: bool,
    /// Whether it is known what keeps each atom. Without a report the page has no atoms.
    explains: bool,
    /// Bytes of input that are kept: what the root of the dominators retains.
    kept: u64,
    old: Option<OldReport>,
    /// Each is the pair of archive and name.
    modules: Vec<(i64, u32)>,
    /// Each is the pair of name and category.
    sections: Vec<(u32, u32)>,
    items: Items,
    atoms: Atoms,
    graph: Edges,
    /// Each is a triple of atom, reason and symbol.
    roots: Vec<(u32, u32, i64)>,
    imports: Imports,
    removed: Removed,
}

/// Functions and objects of the inputs that the link does not have, the largest first.
#[derive(Serialize)]
struct Removed {
    /// Bytes of all of them, listed or not.
    size: u64,
    count: usize,
    /// Each is a triple of name, module and bytes. Of more than [`MOST_REMOVED`] the smallest are missing.
    list: Vec<(u32, u32, u64)>,
}

#[derive(Serialize)]
struct OldReport {
    report: u32,
    size: u64,
}

/// Bytes of the file, by name, module and section of the output.
#[derive(Default, Serialize)]
struct Items {
    name: Vec<u32>,
    module: Vec<i64>,
    section: Vec<u32>,
    space: Vec<i64>,
    now: Vec<i64>,
    old: Vec<i64>,
    /// The largest of those that have the name.
    atom: Vec<i64>,
    atoms: Vec<u32>,
}

#[derive(Default, Serialize)]
struct Atoms {
    name: Vec<u32>,
    module: Vec<u32>,
    section: Vec<u32>,
    offset: Vec<u64>,
    code: Vec<u8>,
    own: Vec<u64>,
    retained: Vec<u64>,
    dominator: Vec<i64>,
}

#[derive(Default, Serialize)]
struct Edges {
    kinds: Vec<String>,
    start: Vec<u32>,
    target: Vec<u32>,
    kind: Vec<u8>,
    offset: Vec<i64>,
}

#[derive(Default)]
struct Strings {
    list: Vec<String>,
    at: FxHashMap<String, u32>,
}

impl Strings {
    fn of(&mut self, text: &str) -> u32 {
        if let Some(at) = self.at.get(text) {
            return *at;
        }
        let at = self.list.len() as u32;
        self.list.push(text.to_owned());
        self.at.insert(text.to_owned(), at);
        at
    }
}

/// Name, number of the module among those of both reports, section.
type RowKey = (String, Option<u32>, String);

/// An item as its report has it. Rows of two reports with one key are one item.
struct Row {
    category: String,
    space: Option<String>,
    bytes: i64,
    /// These are the bytes and position of the largest.
    atom: Option<(i64, u32)>,
    atoms: u32,
}

/// The items by key, each key once.
fn rows(model: &Model, numbers: &[u32], view: View) -> Result<BTreeMap<RowKey, Row>> {
    let (names, spaces) =
        (ItemNames::new(model, GroupBy::Symbol, 1), ItemNames::new(model, GroupBy::Namespace, usize::MAX));
    let mut rows: BTreeMap<RowKey, Row> = BTreeMap::new();
    for item in items(model, view)? {
        let atom = item.atom.map(|a| model.atom(a));
        let part = model.part(item.part);
        let module = atom.and_then(|a| numbers.get(a.module as usize).copied());
        let row = rows.entry((names.of(&item), module, part.name.clone())).or_insert_with(|| Row {
            category: part.category.to_string(),
            // A name in brackets stands for none.
            space: atom.map(|_| spaces.of(&item)).filter(|s| !s.starts_with('[')),
            bytes: 0,
            atom: None,
            atoms: 0,
        });
        row.bytes += item.bytes;
        row.atoms += u32::from(atom.is_some());
        row.atom = row.atom.max(item.atom.map(|a| (item.bytes, a)));
    }
    Ok(rows)
}

struct PageBuilder<'m> {
    model: &'m Model,
    strings: Strings,
    /// The modules of the new report, then those that only the old one has.
    modules: Vec<(i64, u32)>,
    sections: Vec<(u32, u32)>,
    section_at: FxHashMap<(u32, u32), u32>,
    /// By atom: its number in the page, or [`NONE`].
    live: Vec<u32>,
}

impl PageBuilder<'_> {
    /// Number the modules of a report by `numbers`.
    fn modules(&mut self, model: &Model, numbers: &[u32]) {
        for (module, number) in model.report.modules.iter().zip(numbers) {
            if *number as usize == self.modules.len() {
                let archive = module.archive.as_ref().map_or(-1, |a| i64::from(self.strings.of(a)));
                self.modules.push((archive, self.strings.of(&module.name)));
            }
        }
    }

    fn section(&mut self, name: &str, category: &str) -> u32 {
        let key = (self.strings.of(name), self.strings.of(category));
        let at = self.sections.len() as u32;
        *self.section_at.entry(key).or_insert_with(|| {
            self.sections.push(key);
            at
        })
    }

    fn live(&self, atom: u32) -> Option<u32> {
        self.live.get(atom as usize).copied().filter(|a| *a != NONE)
    }

    /// One item of the page from the rows of the new and the old report.
    fn item(&mut self, items: &mut Items, key: &RowKey, [new, old]: [Option<&Row>; 2]) {
        let Some(row) = new.or(old) else { return };
        items.name.push(self.strings.of(&key.0));
        items.module.push(key.1.map_or(-1, i64::from));
        items.section.push(self.section(&key.2, &row.category));
        items.space.push(row.space.as_ref().map_or(-1, |s| i64::from(self.strings.of(s))));
        items.now.push(new.map_or(0, |r| r.bytes));
        items.old.push(old.map_or(0, |o| o.bytes));
        let atom = new.and_then(|r| r.atom).and_then(|a| self.live(a.1));
        items.atom.push(atom.map_or(-1, i64::from));
        items.atoms.push(row.atoms);
    }

    fn items(&mut self, old: Option<&Model>, view: View) -> Result<Items> {
        let paths = |model: &Model| model.report.modules.iter().map(ModuleReport::full).collect::<Vec<_>>();
        let matched = matching::files(&old.map(paths).unwrap_or_default(), &paths(self.model));
        self.modules(self.model, &matched.new);
        if let Some(old) = old {
            self.modules(old, &matched.old);
        }
        let new_rows = rows(self.model, &matched.new, view)?;
        let old_rows = old.map(|o| rows(o, &matched.old, view)).transpose()?.unwrap_or_default();
        let mut items = Items::default();
        for key in new_rows.keys().chain(old_rows.keys()).collect::<BTreeSet<_>>() {
            self.item(&mut items, key, [new_rows.get(key), old_rows.get(key)]);
        }
        Ok(items)
    }

    fn atoms(&mut self) -> (Atoms, u64) {
        let model = self.model;
        let dominators = Dominators::new(&model.graph());
        let weights = weights(model);
        let retained = dominators.retained(&weights);
        let mut atoms = Atoms::default();
        for (i, atom) in model.atoms.iter().enumerate() {
            if self.live(i as u32).is_none() {
                continue;
            }
            let node = Model::node(i as u32);
            let of = |list: &[u64]| list.get(node as usize).copied().unwrap_or(0);
            atoms.name.push(self.strings.of(&symbol(model, atom)));
            // The modules of the new report come first.
            atoms.module.push(atom.module);
            atoms.section.push(self.strings.of(&atom.section));
            atoms.offset.push(atom.offset);
            atoms.code.push(u8::from(atom.kind == "code"));
            atoms.own.push(of(&weights));
            atoms.retained.push(of(&retained));
            let above = dominators.immediate.get(node as usize).copied().filter(|n| *n != NONE);
            let above = above.and_then(Model::atom_of).and_then(|a| self.live(a));
            atoms.dominator.push(above.map_or(-1, i64::from));
        }
        (atoms, retained.get(ROOT as usize).copied().unwrap_or(0))
    }

    /// Functions and objects that the link does not have.
    fn removed(&mut self) -> Removed {
        let model = self.model;
        let is_removed = |a: &&Atom| a.state == AtomState::Dropped && a.size > 0 && !a.is_zero();
        let mut all: Vec<&Atom> = model.atoms.iter().filter(is_removed).collect();
        all.sort_by_key(|a| Reverse(a.size));
        let list = all.iter().take(MOST_REMOVED).map(|a| {
            let name = a.name().map_or_else(|| Cow::Owned(format!("[{}]", a.section)), Cow::Borrowed);
            (self.strings.of(&name), self.strings.of(&model.module_of(a).full()), a.size)
        });
        let list = list.collect();
        Removed { size: all.iter().fold(0, |sum, a| sum.saturating_add(a.size)), count: all.len(), list }
    }

    fn imports(&mut self) -> Imports {
        let mut imports = Imports::default();
        for (import, edges) in self.model.used_imports() {
            imports.name.push(self.strings.of(&demangle(&import.symbol)));
            imports.by.push(self.strings.of(import.definer()));
            imports.start.push(imports.from.len() as u32);
            for (edge, from) in edges.iter().filter_map(|e| Some((e, self.live(e.from)?))) {
                imports.from.push(from);
                imports.kind.push(edge.kind);
                imports.offset.push(edge.offset);
            }
        }
        imports.start.push(imports.from.len() as u32);
        imports
    }

    fn edges(&self) -> Edges {
        let model = self.model;
        let kinds = model.report.graph.kinds.iter().map(|k| k.to_string()).collect();
        let mut edges = Edges { kinds, start: vec![0], ..Edges::default() };
        let mut from = 0u32;
        let held = model.edges.iter().filter(|e| e.flags & HOLDS != 0);
        for (edge, source, target) in held.filter_map(|e| Some((e, self.live(e.from)?, self.live(e.to)?))) {
            while from < source {
                from += 1;
                edges.start.push(edges.target.len() as u32);
            }
            edges.target.push(target);
            edges.kind.push(edge.kind);
            edges.offset.push(edge.offset);
        }
        let live = self.live.iter().filter(|a| **a != NONE).count();
        edges.start.resize(live + 1, edges.target.len() as u32);
        edges
    }
}

/// The page of a report, compared with an older one if there is one.
pub(super) fn page(model: &Model, old: Option<&Model>, all: bool) -> Result<String> {
    let models: Vec<&Model> = std::iter::once(model).chain(old).collect();
    let view = View::new(&models, all, false);
    let mut next = 0;
    let number = |a: &Atom| {
        if a.state == AtomState::Dropped || model.elf.is_some() {
            return NONE;
        }
        next += 1;
        next - 1
    };
    let live = model.atoms.iter().map(number).collect();
    let mut maker = PageBuilder {
        model,
        strings: Strings::default(),
        modules: Vec::new(),
        sections: Vec::new(),
        section_at: FxHashMap::default(),
        live,
    };
    let items = maker.items(old, view)?;
    let (atoms, kept) = maker.atoms();
    let graph = maker.edges();
    let mut roots = Vec::with_capacity(model.report.roots.len());
    for root in &model.report.roots {
        if let Some(atom) = maker.live(root.atom) {
            let symbol = root.symbol.as_ref().map_or(-1, |s| i64::from(maker.strings.of(s)));
            roots.push((atom, maker.strings.of(&root.reason), symbol));
        }
    }
    let (imports, removed) = (maker.imports(), maker.removed());
    let pruned =
        if model.report.pruned { String::new() } else { format!(", {}", model.report.why_not_pruned()) };
    let how = match model.elf {
        Some(kind) => kind.name().to_owned(),
        None => format!("{}, level {}{pruned}", model.report.linker.dialect, model.report.level),
    };
    let how = how + if view == View::Loaded { ", loaded bytes" } else { ", all bytes of the file" };
    let old = old.map(|m| OldReport { report: maker.strings.of(&m.path), size: view.size(m) });
    let page = Page {
        output: maker.strings.of(&model.report.output),
        how: maker.strings.of(&how),
        report: maker.strings.of(&model.path),
        size: view.size(model),
        pruned: model.report.pruned,
        explains: model.elf.is_none(),
        kept,
        old,
        items,
        atoms,
        graph,
        roots,
        imports,
        removed,
        modules: maker.modules,
        sections: maker.sections,
        strings: maker.strings.list,
    };
    let failed = |e| Error::new(Stage::Report, format!("cannot write the page: {e}"));
    Ok(filled(&terminal::json(&serde_json::to_string(&page).map_err(failed)?)))
}

/// The page with its data, in which no name ends the script that it is in.
fn filled(data: &str) -> String {
    let data = data.replace('<', "\\u003c");
    let script = SCRIPT.join("\n");
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + script.len() + data.len());
    let mut rest = PAGE;
    for (mark, text) in [("/*STYLE*/", STYLE), ("/*DATA*/", &*data), ("/*SCRIPT*/", &*script)] {
        let Some((before, after)) = rest.split_once(mark) else { continue };
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Imports, by position. The users of import `i` are the rows from `start[i]` up to `start[i + 1]`.
#[derive(Default, Serialize)]
struct Imports {
    name: Vec<u32>,
    /// The library, or another definer.
    by: Vec<u32>,
    start: Vec<u32>,
    from: Vec<u32>,
    kind: Vec<u8>,
    offset: Vec<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_the_data() {
        let page = filled("[\"</script><script>/*SCRIPT*/\"]");
        assert!(page.contains("[\"\\u003c/script>\\u003cscript>/*SCRIPT*/\"]"), "{page}");
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains("/*STYLE*/") && !page.contains("/*DATA*/"));
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let page = filled("{}");
        for word in ["http:", "https:", "src=", "<link", "import ", "fetch(", "url("] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
