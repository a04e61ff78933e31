//! The example `perf`: a timed source and its sink, with iperf3's options, report and JSON.
//!
//! A control connection carries the parameters ([`protocol`]), then each stream gets a connection of its own (or, for
//! UDP, a pair of sockets). Both ends [run](runner) their halves of the streams, [measure](meter) them, and exchange
//! the results, so that each can report what the other saw.
//!
//! | module | does |
//! |---|---|
//! | [`options`], [`limits`], [`units`] | the command line |
//! | [`client`], [`server`], [`greeting`], [`session`] | who connects to whom |
//! | [`timing`], [`tcp`], [`udp`], [`pacing`] | the streams |
//! | [`meter`], [`usage`], [`results`] | what is measured |
//! | [`text`], [`json`] | what is printed |

pub mod client;
pub mod greeting;
pub mod json;
pub mod limits;
pub mod meter;
pub mod options;
pub mod pacing;
pub mod protocol;
pub mod results;
pub mod runner;
pub mod server;
pub mod session;
pub mod tcp;
pub mod text;
pub mod timing;
pub mod udp;
pub mod units;
pub mod usage;
