//! The operating system under longhaul: what the standard library does not offer of it.
//!
//! * [`clock`]: mapping the kernel's receive stamps onto the monotonic clock (pure arithmetic, every platform).
//! * [`pool`]: receive buffers that become [`bytes::Bytes`] without a copy (every platform).
//! * `linux`: UDP sockets with control messages and batches, timerfd, CPU clocks, TUN devices, network
//!   namespaces, and pairs of virtual cards between them.
//!
//! All unsafe code of longhaul is in one file, `linux/syscall.rs`, whose functions are safe to call; control messages,
//! socket addresses and interface requests are encoded and decoded as plain bytes.
#![deny(unsafe_code)]

pub mod clock;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod pool;
