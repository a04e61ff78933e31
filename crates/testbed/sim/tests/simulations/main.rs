//! Simulations of endpoints on networks, and their captures, logs and time series.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod endpoints;
mod feedback;
mod networks;
mod path_cache;
mod pcap;
mod qlog;
mod series;
