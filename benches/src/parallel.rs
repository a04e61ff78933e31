//! Work on all processors.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `work` on every cell, on all processors; the results in the order of the cells.
pub(crate) fn in_parallel<C: Sync, R: Send>(cells: &[C], work: impl Fn(&C) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    with_threads(threads, cells, work)
}

/// `work` on every cell, on so many at a time; the results in the order of the cells.
pub(crate) fn with_threads<C: Sync, R: Send>(threads: usize, cells: &[C], work: impl Fn(&C) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(index) else { return };
                    let result = work(cell);
                    if let Ok(mut done) = done.lock() {
                        done.insert(index, result);
                    }
                }
            });
        }
    });
    done.into_inner().unwrap_or_default().into_values().collect()
}
