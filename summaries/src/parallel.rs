//! A parallel map that the caller provides, because this crate starts no thread.

use std::sync::OnceLock;

/// Runs a piece of work once for every number below a count, in any order and on any thread, and returns when all are done.
pub type ParallelMap<'e> = &'e (dyn Fn(usize, &(dyn Fn(usize) + Sync)) + Sync);

/// The results of a piece of work for every number below `count`, in their order.
pub(crate) fn collect<T: Send + Sync>(
    parallel_map: ParallelMap<'_>,
    count: usize,
    piece: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let slots: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    parallel_map(count, &|number| {
        if let Some(slot) = slots.get(number) {
            slot.get_or_init(|| piece(number));
        }
    });
    slots.into_iter().enumerate().map(|(i, done)| done.into_inner().unwrap_or_else(|| piece(i))).collect()
}

pub fn in_order(count: usize, piece: &(dyn Fn(usize) + Sync)) {
    (0..count).for_each(piece);
}
