//! Replays the corpora of the fuzz targets and some thousand random scripts.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may fail by panicking, and shares its helpers")]
#![allow(
    clippy::duplicate_mod,
    reason = "each check is a file of its own for its fuzz target, with the helpers that it needs"
)]

#[path = "support/hostile.rs"]
mod hostile;
#[path = "support/network.rs"]
mod network;
#[path = "support/order.rs"]
mod order;

use std::path::Path;

use proptest::prelude::*;

fn replay(target: &str, check: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target);
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
    replay("listener", hostile::listener);
    replay("established", hostile::established);
    replay("reassembly", hostile::reassembly);
    replay("cookie", hostile::cookie);
    replay("moves", hostile::moves);
    replay("udp_driver", hostile::merged);
    replay("network", network::network);
    replay("api", order::api);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_scripts_violate_no_invariant(script in prop::collection::vec(any::<u8>(), 0..3000)) {
        hostile::listener(&script);
        hostile::established(&script);
        hostile::reassembly(&script);
        hostile::cookie(&script);
        hostile::moves(&script);
        hostile::merged(&script);
    }

    #[test]
    fn random_scripts_stop_no_transfer(script in prop::collection::vec(any::<u8>(), 0..400)) {
        network::network(&script);
        order::api(&script);
    }

    #[test]
    fn a_slightly_changed_cookie_opens_no_connection(head in any::<[u8; 6]>(), tail in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 8)) {
        let script: Vec<u8> = head.into_iter().chain(tail).collect();
        hostile::cookie(&script);
    }
}
