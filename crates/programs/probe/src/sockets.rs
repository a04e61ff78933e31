//! Driver over sockets: measures a path to a host that reflects probes, and by a transfer to one that receives files.
//!
//! [`Prober`] drives any [`Method`](crate::Method) against a reflector (`longhaul::TcpSocket::set_reflect`), and
//! [`Pinger`] exchanges single packets with it. [`Measurement`] is a whole measurement: the chosen methods one after the other, TCPProbe within a transfer, and a
//! search for the hop at which packets queue. Calls block until the measurement is over.

mod answers;
mod doubts;
mod error;
mod hops;
mod measurement;
mod path;
mod pinger;
mod prober;
mod reach;
mod report;
mod socket;
mod transfer;

pub use error::Error;
pub use hops::{HopFound, Hops};
pub use measurement::{Measurement, Note, Progress};
pub use path::Facts;
pub use pinger::{Echo, Pinger};
pub use prober::Prober;
pub use report::{Found, Outcome, Range, Report};
pub use transfer::{Application, TCP_PROBE};
