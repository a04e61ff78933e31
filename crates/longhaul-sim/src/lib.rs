//! Virtual time: two `longhaul-tcp` endpoints joined by an emulated path, run by an event queue.
//!
//! Everything is deterministic: one seed decides every loss, delay and flipped bit, and the [trace hash](Sim::trace)
//! of two runs with the same seed is the same. A run has four parts that do not know each other: the [`Queue`] of
//! events in virtual time, a [`Link`] for each direction, a [`Host`] at each end with its endpoint and
//! [sessions](Session), and the [`Tap`]s that watch every datagram.
//!
//! ```
//! use longhaul_sim::{LinkConfig, Plan, Setup, Sim};
//! use longhaul_units::{Rate, Span};
//!
//! let mut path = LinkConfig::delay(Span::from_millis(20));
//! path.rate = Some(Rate::from_bits_per_sec(10_000_000));
//! path.loss = 0.01;
//! let mut sim = Sim::new(Setup::symmetric(7, path));
//! let (client, server) = sim.open(Plan::bulk(100_000), Plan::sink());
//! sim.run(Span::from_secs(60), Sim::all_done);
//! assert_eq!(sim.session(server).read, 100_000);
//! assert!(sim.session(client).ended_well());
//! ```
#![forbid(unsafe_code)]

mod host;
mod link;
mod packet;
mod pattern;
mod plan;
mod queue;
mod random;
mod session;
mod sim;
mod tap;

pub use host::Host;
pub use link::{Fate, Link, LinkConfig, LinkStats, QueueLimit, Reordering};
pub use packet::{Packet, UDP_HEADER, ip_header};
pub use pattern::Pattern;
pub use plan::{Begin, Close, Plan, Turn};
pub use queue::Queue;
pub use random::Random;
pub use session::Session;
pub use sim::{HostSetup, SessionId, Setup, Sim, Step};
pub use tap::{Sighting, Tap, TraceHash};
