//! The protocol in virtual time: states and segments, streams over impaired paths, recovery, windows, and hostile peers.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod ack_frequency;
mod any_pair;
mod arrival_times;
mod flipped_pairs;
mod hostile;
mod ipv6;
mod lifetimes;
mod metamorphic;
mod probes;
mod recovery;
mod segment_lists;
mod streams;
mod windows;
