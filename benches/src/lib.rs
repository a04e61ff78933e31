//! The benches of longhaul that have rivals in them, and what they share.
//!
//! [`loopback`] and [`rpc`] compare longhaul with kernel TCP, quinn and raw UDP. To be comparable, all stream
//! transports are driven by the very same code over `AsyncRead` and `AsyncWrite`, with packets of the same size, each
//! side in a process of its own on a single-threaded tokio runtime. Linux only: elsewhere the library is empty.
#![cfg(target_os = "linux")]

pub(crate) mod behind;
pub mod bulk;
pub mod contest;
pub mod costs;
pub mod emulated;
pub mod estimates;
pub mod fairness;
mod generated;
pub mod kernel;
pub mod loopback;
pub mod matrix;
pub mod meter;
mod parallel;
pub mod peers;
pub mod realtime;
pub mod report;
pub mod rpc;
pub mod scores;
pub mod starts;
pub mod stats;
mod subjects;
pub mod transport;
pub mod udp;
pub mod worker;
