//! Streams, listeners and connectors over real sockets.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may fail by panicking, and shares its helpers")]

mod common;

mod api;
mod as_tokio;
mod buffered;
mod cancel;
mod capture;
mod close;
mod connector;
mod documents;
mod early_answer;
#[cfg(target_os = "linux")]
mod ecn;
mod fairness;
mod moderation;
mod net;
mod piggyback;
#[cfg(feature = "qlog")]
mod qlog;
#[cfg(target_os = "linux")]
mod shards;
mod share;
#[cfg(target_os = "linux")]
mod strays;
mod stream;
mod tls;
mod traces;
mod unreachable;
#[cfg(target_os = "linux")]
mod veth_pairs;
