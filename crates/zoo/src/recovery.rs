//! Recovery algorithms: the window during loss recovery.

pub(crate) mod new_reno;
pub(crate) mod probing;
pub(crate) mod rapid_start_recovery;
