//! Active probing over modelled links in virtual time: what each method finds, how long it takes, and when it says that it
//! does not know.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[path = "probing/cap_probe.rs"]
mod cap_probe;

#[path = "probing/pathrate.rs"]
mod pathrate;

#[path = "probing/path_chirp.rs"]
mod path_chirp;
#[path = "probing/pathload.rs"]
mod pathload;

#[path = "probing/noise.rs"]
mod noise;
