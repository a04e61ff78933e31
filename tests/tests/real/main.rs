//! Real sockets, and the kernel's TCP as the peer.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod ecn;
mod kernel_peer;
mod probes;
mod veth_pairs;
