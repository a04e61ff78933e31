//! Operating system interfaces that the standard library lacks.
//!
//! * [`clock`]: conversion of the kernel's receive timestamps to the monotonic clock (pure arithmetic, all platforms).
//! * [`pool`]: receive buffers that are converted to [`bytes::Bytes`] without a copy (all platforms).
//! * `linux`: UDP sockets with control messages and batches, timerfd and CPU clocks.
//!
//! All unsafe code of the library is in one file, `linux/syscall.rs`, whose functions are safe to call. Control messages
//! and socket addresses are encoded and decoded as plain bytes.
#![deny(unsafe_code)]

pub mod clock;
mod error_class;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod pool;

use std::net::{IpAddr, SocketAddr};

pub use error_class::ErrorClass;

/// Converts IPv4-mapped IPv6 addresses, which an IPv6 socket reports for IPv4 peers, to IPv4 addresses, and returns
/// other addresses unchanged.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}
