//! Network throughput test `perf`, with the options, the report, and the JSON of iperf3.
//!
//! A control connection carries the parameters ([`protocol`]); then each stream gets its own connection or, for UDP, a
//! pair of sockets. Both ends run their halves of the streams, measure them, and exchange the results, so that each can
//! report the other's measurements.
//!
//! | module | contents |
//! |---|---|
//! | [`options`], `limits`, `units` | command line |
//! | `client`, `server`, `greeting`, `session` | connection setup, the control connection |
//! | `timing`, `tcp`, `udp`, `pacing` | streams |
//! | `meter`, `usage`, `results` | measurements |
//! | `report`, `text`, `json`, [`reporter`] | the report as a value, as text and as JSON, and its output |

pub(crate) mod client;
mod greeting;
mod json;
mod limits;
mod meter;
pub mod options;
mod pacing;
pub mod protocol;
mod report;
pub mod reporter;
mod results;
mod runner;
pub(crate) mod server;
mod session;
mod tcp;
mod text;
mod timing;
mod udp;
pub(crate) mod units;
mod usage;
