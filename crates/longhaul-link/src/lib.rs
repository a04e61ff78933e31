//! Emulated networks, sans-IO: one model of links, queues, losses and topologies for virtual and real time.
//!
//! A [`Link`] is one direction of a link: a policer, a queue, a transmitter and a medium. A [`Network`] joins links over
//! static routes; [`topology`] has the usual shapes. Both are driven from outside: offer packets, ask when something is
//! due, poll what has arrived. An event queue in virtual time and a relay with real sockets drive the same code, and
//! the times that come out are those of the model, to the nanosecond, however late a driver calls. Nothing here reads
//! a clock or the system's random numbers, and nothing allocates for a packet once the queues have grown.
//!
//! [`router`]s at the outputs answer what segments ask of them. [`source`] makes cross traffic, [`scenario`] has links with names, and [`spec`] reads links from a command line.
//! `docs/link.md` describes the model: the stages in their order, and what is exact and what is random.
//!
//! ```
//! use longhaul_link::{Limit, Link, LinkConfig, Packet};
//! use longhaul_units::{Rate, Span, Time};
//!
//! // 20 Mb/s, 250 ms one way, a queue of 50 packets.
//! let config = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), Span::from_millis(250)).queue(Limit::Packets(50));
//! let mut link = Link::new(config, 1, 0)?;
//! link.offer(Time::ZERO, Packet::new(1500, "a segment".as_bytes().to_vec()));
//!
//! // 1500 bytes take 600 us, and the light another 250 ms.
//! let due = Time::ZERO + Span::from_micros(250_600);
//! assert_eq!(link.next_event(), Some(due));
//! let (at, packet) = link.poll(due).expect("it has arrived");
//! assert_eq!((at, packet.payload.as_slice()), (due, "a segment".as_bytes()));
//! # Ok::<(), longhaul_link::ConfigError>(())
//! ```
#![forbid(unsafe_code)]

mod arrivals;
mod config;
mod histogram;
mod hook;
mod link;
pub mod log;
mod loss;
mod medium;
mod network;
mod overhead;
mod packet;
mod policer;
mod queue;
mod random;
pub mod router;
pub mod scenario;
pub mod source;
pub mod spec;
mod stats;
pub mod topology;
mod trace;
mod transmit;
mod validate;

pub use config::{
    Corruption, GilbertElliott, LinkConfig, LinkRate, Loss, Mtu, Outage, OutageKind, Policer, Reordering, Step,
};
pub use histogram::Histogram;
pub use hook::{Hook, Router, View};
pub use link::Link;
pub use longhaul_wire::Ecn;
pub use network::{Delivery, Network, NetworkError, Schedule};
pub use overhead::Overhead;
pub use packet::{Packet, Payload, dscp};
pub use queue::{Classes, CoDelConfig, Discipline, DualPi2Config, Limit, PieConfig, QueueConfig, RedConfig, Threshold};
pub use random::Random;
pub use router::{RouterConfig, RouterStats};
pub use stats::{Cause, ClassStats, LinkStats, MAX_CLASSES, Occupancy};
pub use trace::{OPPORTUNITY, TUN_PREFIX, Trace, TraceError};
pub use validate::ConfigError;
