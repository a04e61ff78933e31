//! Streams over impaired paths with published algorithms, too: data always arrives without errors, and the protocol rules hold at every event.
//! `LONGHAUL_CASES` sets the number of cases, and `LONGHAUL_LONG` triples it.

use longhaul_tests_papers::registry;
use longhaul_tests_papers::streams::{self, Case, config};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// Generates cases with all algorithms.
fn case() -> impl Strategy<Value = Case> {
    registry();
    streams::case()
}

proptest! {
    #![proptest_config(config(500, 1_500))]

    #[test]
    fn every_byte_arrives_once_in_order_and_the_rules_hold(case in case()) {
        case.run().map_err(TestCaseError::fail)?;
    }

    /// One application or both release the connection early: by a RST, or by not reading further.
    #[test]
    fn whoever_leaves_the_rules_hold_and_nothing_stays(case in case(), aborts in [0u64..3_000, 0u64..3_000], early in any::<bool>()) {
        case.run_leaving(aborts, early).map_err(TestCaseError::fail)?;
    }
}
