//! Replay of the corpora of the fuzz targets that need several crates of the core, and some random scripts.
#![allow(unreachable_pub, reason = "a test shares its checks with the fuzz targets")]

mod emitters;
mod timers;

use longhaul_tests_core::replay;
use proptest::prelude::*;

#[test]
fn corpora() {
    replay("timers", timers::timers);
    replay("emitters", emitters::emitters);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_breaks_no_promise(script in prop::collection::vec(any::<u8>(), 0..1000)) {
        timers::timers(&script);
        emitters::emitters(&script);
    }
}
