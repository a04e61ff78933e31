//! Explores interleavings of models of `longhaul`'s threads: all of those of a small model, and random ones of the others,
//! more of them with `LONGHAUL_LONG`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use longhaul_interleavings::interleavings;
use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};
use tokio::runtime::Builder;

/// Number of interleavings of each random scheduler with each runtime.
const RUNS: usize = 250;
/// Changes of priorities in an interleaving of probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010).
const DEPTH: usize = 3;
const SEED: u64 = 20_261_129;

fn config() -> Config {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::Print;
    config.stack_size = 1 << 20;
    config
}

/// Runs random interleavings, once with a runtime of one thread, and once with one of several: a driver follows tasks of
/// the latter only.
fn explore(model: fn()) {
    let runs = if std::env::var_os("LONGHAUL_LONG").is_some() { 20 * RUNS } else { RUNS };
    for mut runtime in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let runtime = runtime.worker_threads(1).build().unwrap();
        let _context = runtime.enter();
        Runner::new(RandomScheduler::new_from_seed(SEED, runs), config()).run(model);
        Runner::new(PctScheduler::new_from_seed(SEED, DEPTH, runs), config()).run(model);
    }
}

fn explore_all(model: fn()) {
    Runner::new(DfsScheduler::new(None, false), config()).run(model);
}

#[test]
fn an_accepted_connection_is_not_lost() {
    explore_all(interleavings::an_accepted_connection_is_not_lost);
}

#[test]
fn each_connection_wakes_a_task() {
    explore(interleavings::each_connection_wakes_a_task);
}

#[test]
fn a_connection_is_made_and_used() {
    explore(interleavings::a_connection_is_made_and_used);
}

#[test]
fn data_wakes_all_who_wait_for_it() {
    explore(interleavings::data_wakes_all_who_wait_for_it);
}

#[test]
fn shards_pass_datagrams_on() {
    explore(interleavings::shards_pass_datagrams_on);
}

#[test]
fn each_timer_fires_once() {
    explore(interleavings::each_timer_fires_once);
}

#[test]
fn a_dropped_timer_does_not_fire_for_its_successor() {
    explore(interleavings::a_dropped_timer_does_not_fire_for_its_successor);
}
