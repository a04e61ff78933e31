//! System calls: UDP sockets, timers and clocks, network namespaces and TUN devices.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod namespace;
mod timer;
mod udp;
