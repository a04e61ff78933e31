//! Replay of the corpora of the fuzz targets that need several crates, and some random scripts.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may fail by panicking, and shares its checks")]

mod controllers;
mod emitters;
mod timers;
mod tls;

use std::path::Path;

use proptest::prelude::*;

fn replay(target: &str, check: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let seeds = std::fs::read_dir(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut replayed = 0;
    for seed in seeds {
        let path = seed.unwrap().path();
        println!("{}", path.display());
        check(&std::fs::read(&path).unwrap());
        replayed += 1;
    }
    assert!(replayed > 0, "no seeds in {}", directory.display());
}

#[test]
fn corpora() {
    replay("controllers", controllers::controllers);
    replay("timers", timers::timers);
    replay("emitters", emitters::emitters);
    replay("tls", tls::tls);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_breaks_no_promise(script in prop::collection::vec(any::<u8>(), 0..1000)) {
        controllers::controllers(&script);
        timers::timers(&script);
        emitters::emitters(&script);
        tls::tls(&script);
    }
}
