//! Network throughput test `perf`, with the options, the report, and the JSON of iperf3.
//!
//! A control connection carries the parameters ([`protocol`]); then each stream gets a connection of its own or, for
//! UDP, a pair of sockets. Both ends run their halves of the streams, measure them, and exchange
//! the results, so that each can report the other's measurements.
//!
//! | module | contents |
//! |---|---|
//! | [`options`], `limits`, `units` | command line |
//! | `client`, `server`, `greeting`, [`session`] | connection setup, the control connection |
//! | `timing`, `tcp`, `udp`, `pacing` | streams |
//! | `meter`, `usage`, `results` | measurements |
//! | [`text`], `json` | reports |

pub(crate) mod client;
mod greeting;
mod json;
mod limits;
mod meter;
pub mod options;
mod pacing;
pub mod protocol;
mod results;
mod runner;
pub(crate) mod server;
pub mod session;
mod tcp;
pub mod text;
mod timing;
mod udp;
pub(crate) mod units;
mod usage;
