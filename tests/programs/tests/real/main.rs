//! The kernel's TCP as the peer, and low-priority probes on real sockets.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod kernel_peer;
mod probes;
