//! Names to dense ids: the one place where a name is hashed.
//!
//! Interning runs in parallel on a sharded map, yet ids don't depend on the schedule: a name's id is the rank of
//! its first mention (by list, then by place in the list). Nothing iterates over the map.

use dashmap::DashMap;
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;

use crate::ids::{Id, SymbolId};

/// The table while and after it is built; frozen once `intern` returns.
#[derive(Debug)]
pub struct SymbolTable<'a> {
    map: DashMap<&'a [u8], u64, FxBuildHasher>,
    /// By id.
    pub names: Vec<&'a [u8]>,
}

impl<'a> SymbolTable<'a> {
    /// Intern lists of names; returns the table and, for each list, the id of each name.
    pub fn intern(lists: &[Vec<&'a [u8]>]) -> (Self, Vec<Vec<SymbolId>>) {
        let total: usize = lists.iter().map(Vec::len).sum();
        let map: DashMap<&'a [u8], u64, FxBuildHasher> =
            DashMap::with_capacity_and_hasher(total / 2, FxBuildHasher);
        let place = |list: usize, i: usize| (list as u64) << 32 | i as u64;
        lists.par_iter().enumerate().for_each(|(l, names)| {
            for (i, name) in names.iter().enumerate() {
                let here = place(l, i);
                map.entry(name).and_modify(|p| *p = (*p).min(here)).or_insert(here);
            }
        });
        let firsts: Vec<Vec<u32>> = lists
            .par_iter()
            .enumerate()
            .map(|(l, names)| {
                let first = |(i, name): (usize, &&'a [u8])| {
                    map.get(*name).is_some_and(|p| *p == place(l, i)).then_some(i as u32)
                };
                names.iter().enumerate().filter_map(first).collect()
            })
            .collect();
        let mut names = Vec::with_capacity(map.len());
        for (list, first) in lists.iter().zip(&firsts) {
            for &i in first {
                let name = list[i as usize];
                map.insert(name, names.len() as u64);
                names.push(name);
            }
        }
        let ids = lists
            .par_iter()
            .map(|list| {
                let id = |name: &&'a [u8]| SymbolId::new(map.get(*name).map_or(0, |id| *id as usize));
                list.iter().map(id).collect()
            })
            .collect();
        (SymbolTable { map, names }, ids)
    }

    /// The id of a name, if anything in the link mentions it.
    pub fn find(&self, name: &[u8]) -> Option<SymbolId> {
        self.map.get(name).map(|id| SymbolId::new(*id as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ranks_of_first_mention() {
        let lists: Vec<Vec<&[u8]>> = vec![vec![b"b", b"a", b"b"], vec![], vec![b"c", b"a"]];
        let (table, ids) = SymbolTable::intern(&lists);
        assert_eq!(table.names, [b"b" as &[u8], b"a", b"c"]);
        assert_eq!(
            ids,
            [vec![SymbolId(0), SymbolId(1), SymbolId(0)], vec![], vec![SymbolId(2), SymbolId(1)]]
        );
        assert_eq!(table.find(b"c"), Some(SymbolId(2)));
        assert_eq!(table.find(b"d"), None);
    }
}
