//! The protocol in virtual time: states and segments, streams over impaired paths, recovery, windows, and hostile peers.
//! Also rules that hold in all crates of the core.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod any_pair;
mod corpora;
#[cfg(target_os = "linux")]
mod debug_output;
mod hostile;
mod ipv6;
mod lifetimes;
mod metamorphic;
mod recovery;
mod segment_lists;
mod slow_start;
mod streams;
mod windows;
