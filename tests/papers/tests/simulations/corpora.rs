//! Replay of the corpora of the fuzz targets that choose any composition, and some random scripts.
#![allow(unreachable_pub, reason = "a test shares its checks with the fuzz targets")]

mod controllers;
mod tls;

use longhaul_tests_papers::replay;
use proptest::prelude::*;

#[test]
fn corpora() {
    replay("controllers", controllers::controllers);
    replay("tls", tls::tls);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_breaks_no_promise(script in prop::collection::vec(any::<u8>(), 0..1000)) {
        controllers::controllers(&script);
        tls::tls(&script);
    }
}
