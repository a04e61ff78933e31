//! Benchmarks of speed, and code that they share.
//!
//! [`loopback`], [`rpc`], [`shards`] and [`idle`] compare longhaul with kernel TCP, quinn and raw UDP. The same code
//! drives all stream transports over `AsyncRead` and `AsyncWrite`, with packets of the same size. Each side is a
//! process with a single-threaded tokio runtime. The library is empty on other systems than Linux. Comparisons over
//! emulated links are experiments of `longhaul-lab`.
#![cfg(target_os = "linux")]

pub mod bulk;
pub mod contest;
pub mod costs;
pub mod generated;
pub mod idle;
pub mod loopback;
pub mod meter;
pub mod pacing;
pub mod profile;
pub mod realtime;
pub mod report;
pub mod rpc;
pub mod shards;
pub mod transport;
pub mod udp;
pub mod worker;
