//! Experiments of papers in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod satellite;
mod swift_start;
