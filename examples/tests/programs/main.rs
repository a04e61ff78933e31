//! The programs as users run them.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod common;

mod cli;
mod perf;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod probe_hops;
