//! Network throughput test `perf`, with the options, the report, and the JSON of iperf3.
//!
//! A control connection carries the parameters ([`protocol`]); then each stream gets a connection of its own or, for
//! UDP, a pair of sockets. Both ends [run](runner) their halves of the streams, [measure](meter) them, and exchange
//! the results, so that each can report the other's measurements.
//!
//! | module | contents |
//! |---|---|
//! | [`options`], [`limits`], [`units`] | command line |
//! | [`client`], [`server`], [`greeting`], [`session`] | connection setup, the control connection |
//! | [`timing`], [`tcp`], [`udp`], [`pacing`] | streams |
//! | [`meter`], [`usage`], [`results`] | measurements |
//! | [`text`], [`json`] | reports |

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
