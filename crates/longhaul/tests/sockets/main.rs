//! Streams, listeners and connectors over real sockets.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may fail by panicking, and shares its helpers")]

#[path = "../common/mod.rs"]
mod common;

mod api;
mod as_tokio;
mod cancel;
mod capture;
mod close;
mod connector;
mod net;
mod qlog;
mod qlog_stall;
mod stream;
mod tls;
mod unreachable;
