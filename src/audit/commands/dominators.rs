//! `audit dominators`: what would go if something went, as a list or as a tree.

use crate::audit::args::{ROWS, Request, rows};
use crate::audit::attribute::symbol;
use crate::audit::graph::dominators::Dominators;
use crate::audit::graph::{NONE, ROOT};
use crate::audit::model::Model;
use crate::audit::table::{Answer, Cell, Table, count};

const COLUMNS: [&str; 6] = ["retained", "%", "own", "atoms", "symbol", "module"];

struct DominatedSizes<'m, 'a> {
    model: &'m Model<'a>,
    dominators: Dominators,
    bytes: Vec<u64>,
    atoms: Vec<u64>,
}

/// The bytes that go with each node of [`Model::graph`], without zero-initialised memory.
pub(crate) fn weights(model: &Model<'_>) -> Vec<u64> {
    std::iter::once(0).chain(model.atoms.iter().map(|a| model.weight(a))).collect()
}

pub(crate) fn answer(model: &Model<'_>, request: &Request) -> Answer {
    let dominators = Dominators::new(&model.graph());
    let bytes = dominators.retained(&weights(model));
    let atoms = dominators.retained(&vec![1; model.atoms.len() + 1]);
    let found = DominatedSizes { model, dominators, bytes, atoms };
    let table = match request.depth {
        Some(depth) => found.tree(depth, rows(request, 5)),
        None => {
            let mut table = found.list();
            table.limit(rows(request, ROWS));
            table.rest = None;
            table
        }
    };
    let total = count(found.total());
    Answer {
        lines: vec![format!(
            "{}: {total} bytes of input are kept, without zero-initialised memory",
            model.report.output
        )],
        tables: vec![table],
        facts: vec![("kept", found.total().into())],
        ..Answer::default()
    }
}

impl DominatedSizes<'_, '_> {
    fn total(&self) -> u64 {
        self.bytes.first().copied().unwrap_or(0)
    }

    fn at(list: &[u64], node: u32) -> u64 {
        list.get(node as usize).copied().unwrap_or(0)
    }

    fn row(&self, node: u32, indent: usize) -> Option<Vec<Cell>> {
        let atom = self.model.atoms.get(Model::atom_of(node)? as usize)?;
        let module = self.model.modules.get(atom.module as usize).map(|m| m.short()).unwrap_or_default();
        let retained = Self::at(&self.bytes, node);
        Some(vec![
            Cell::Number(retained),
            Cell::share(retained as i64, self.total()),
            Cell::Number(self.model.weight(atom)),
            Cell::Number(Self::at(&self.atoms, node)),
            Cell::Text("  ".repeat(indent) + &symbol(self.model, atom)),
            Cell::Text(module),
        ])
    }

    fn list(&self) -> Table {
        let mut table = Table::new("dominators", "", &COLUMNS);
        let mut nodes: Vec<u32> = self.dominators.order.iter().copied().filter(|n| *n != ROOT).collect();
        nodes.sort_by_key(|n| (std::cmp::Reverse(Self::at(&self.bytes, *n)), *n));
        nodes.iter().filter_map(|n| self.row(*n, 0)).for_each(|row| table.row(row));
        table
    }

    fn tree(&self, depth: usize, most: Option<usize>) -> Table {
        let mut table = Table::new("dominators", "", &COLUMNS);
        // Children of each node, the one that retains most first.
        let mut by_parent: Vec<(u32, std::cmp::Reverse<u64>, u32)> = Vec::new();
        for (node, parent) in self.dominators.immediate.iter().enumerate().filter(|(_, p)| **p != NONE) {
            by_parent.push((*parent, std::cmp::Reverse(Self::at(&self.bytes, node as u32)), node as u32));
        }
        by_parent.sort_unstable();
        let mut work = vec![(ROOT, 0)];
        while let Some((node, level)) = work.pop() {
            if let Some(row) = self.row(node, level.max(1) - 1) {
                table.row(row);
            }
            if level == depth {
                continue;
            }
            let first = by_parent.partition_point(|c| c.0 < node);
            let children = by_parent.iter().skip(first).take_while(|c| c.0 == node).map(|c| (c.2, level + 1));
            let children: Vec<_> = children.take(most.unwrap_or(usize::MAX)).collect();
            work.extend(children.into_iter().rev());
        }
        table
    }
}
