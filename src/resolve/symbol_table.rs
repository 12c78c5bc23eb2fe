//! Names to dense ids: the one place where a name is hashed, once for each occurrence.
//!
//! Interning runs in parallel on a sharded map, yet ids don't depend on the schedule. A name first gets a provisional number, and in the
//! end the rank of its first occurrence (by list, then by place in the list). Nothing iterates over the map.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dashmap::DashMap;
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;

use crate::ids::{Id, SymbolId};

/// A name with its hash, so that the map grows without a look at the names, which lie all over the inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HashedName<'a> {
    hash: u64,
    name: &'a [u8],
}

impl<'a> HashedName<'a> {
    pub(super) fn new(name: &'a [u8]) -> Self {
        HashedName { hash: FxBuildHasher.hash_one(name), name }
    }
}

impl Hash for HashedName<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A name of any lifetime, for look-ups in the map.
trait AnyName {
    fn hashed(&self) -> HashedName<'_>;
}

impl AnyName for HashedName<'_> {
    fn hashed(&self) -> HashedName<'_> {
        *self
    }
}

impl<'n, 'a: 'n> Borrow<dyn AnyName + 'n> for HashedName<'a> {
    fn borrow(&self) -> &(dyn AnyName + 'n) {
        self
    }
}

impl Hash for dyn AnyName + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hashed().hash(state);
    }
}

impl PartialEq for dyn AnyName + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.hashed() == other.hashed()
    }
}

impl Eq for dyn AnyName + '_ {}

/// The number of locks of the map: so many more than threads that threads seldom wait.
fn shards() -> usize {
    (64 * rayon::current_num_threads()).next_power_of_two()
}

/// The table while and after it is built; frozen once `intern` returns.
#[derive(Debug)]
pub struct SymbolTable<'a> {
    /// By name: the provisional number that the first thread to meet it gave it.
    map: DashMap<HashedName<'a>, u32, FxBuildHasher>,
    /// The id of each provisional number.
    ids: Vec<SymbolId>,
    /// By final number: the name, in the bytes of an input.
    pub names: Vec<&'a [u8]>,
}

impl<'a> SymbolTable<'a> {
    /// Intern lists of names; returns the table and, for each list, the id of each name.
    pub fn intern(lists: &[Vec<&'a [u8]>]) -> (Self, Vec<Vec<SymbolId>>) {
        let total: usize = lists.iter().map(Vec::len).sum();
        let map: DashMap<HashedName<'a>, u32, FxBuildHasher> =
            DashMap::with_capacity_and_hasher_and_shard_amount(total / 2, FxBuildHasher, shards());
        // By provisional number, the first occurrence. A number is in use only after its entry is in the map.
        let firsts: Vec<AtomicU64> = (0..total).into_par_iter().map(|_| AtomicU64::new(u64::MAX)).collect();
        let next = AtomicU32::new(0);
        let mut ids: Vec<Vec<SymbolId>> = lists
            .par_iter()
            .enumerate()
            .map(|(l, names)| {
                let number = |(i, name): (usize, &&'a [u8])| {
                    let number = *map
                        .entry(HashedName::new(name))
                        .or_insert_with(|| next.fetch_add(1, Ordering::Relaxed));
                    let (first, here) = (&firsts[number as usize], (l as u64) << 32 | i as u64);
                    // Few are first occurrences, and a read is cheaper than a contended write.
                    if here < first.load(Ordering::Relaxed) {
                        first.fetch_min(here, Ordering::Relaxed);
                    }
                    SymbolId(number)
                };
                names.iter().enumerate().map(number).collect()
            })
            .collect();
        let firsts = firsts.iter().take(map.len()).map(|first| first.load(Ordering::Relaxed));
        let mut order: Vec<(u64, u32)> = firsts.zip(0..).collect();
        order.par_sort_unstable();
        let name = |first: u64| lists[(first >> 32) as usize][(first & u64::from(u32::MAX)) as usize];
        let names = order.iter().map(|(first, _)| name(*first)).collect();
        let mut ranks = vec![SymbolId(0); order.len()];
        for (rank, (_, number)) in order.iter().enumerate() {
            ranks[*number as usize] = SymbolId::new(rank);
        }
        ids.par_iter_mut().for_each(|list| list.iter_mut().for_each(|id| *id = ranks[id.index()]));
        (SymbolTable { map, ids: ranks, names }, ids)
    }

    /// The id of a name, if any file or option of the link has it.
    pub fn find(&self, name: &[u8]) -> Option<SymbolId> {
        self.map.get(&HashedName::new(name) as &dyn AnyName).map(|number| self.ids[*number as usize])
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
