//! Controllers that cannot run are refused when the transport is configured.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use longhaul_noq::{ChoiceError, congestion};

#[test]
fn unknown_names_and_options_out_of_range_are_refused() {
    for (name, part) in [("cubik", "cubik"), ("slow-start(iw=0)+cubic", "iw"), ("copa(delta=1000)", "delta"), ("", "")]
    {
        let error = congestion(name).unwrap_err();
        assert!(matches!(error, ChoiceError::Spec(_)), "{name}: {error}");
        assert!(error.to_string().contains(part), "{name}: {error}");
    }
}

#[test]
fn controllers_that_need_a_pace_are_accepted() {
    congestion("bbr").unwrap();
}
