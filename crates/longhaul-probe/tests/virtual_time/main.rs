//! All methods over emulated links in virtual time: the estimates, the time they take, and whether a method reports
//! that it could not measure.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod cap_probe;
mod noise;
mod path_chirp;
mod pathload;
mod pathrate;
