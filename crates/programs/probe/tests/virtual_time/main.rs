//! All methods over emulated links in virtual time: the estimates, the time they take, and whether a method reports
//! that it could not measure.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod cap_probe;
mod noise;
mod path_chirp;
mod pathload;
mod pathrate;

/// Returns the number of seeds: `few`, or `all` if `LONGHAUL_LONG` requests it.
fn seeds(few: u64, all: u64) -> u64 {
    if std::env::var_os("LONGHAUL_LONG").is_some() { all } else { few }
}
