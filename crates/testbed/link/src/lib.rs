//! Sans-IO emulation of networks: one model of links, queues, losses and topologies for virtual and real time.
//!
//! A [`Link`] is one direction of a link: a policer, a queue, a transmitter and a medium. A [`Network`] joins links
//! over static routes; [`topology`] builds the usual shapes. The caller drives both: it offers packets, asks for the
//! time of the next event, and polls for arrivals. A simulator with an event queue in virtual time and a relay with
//! real sockets run the same code. All times are those of the model, exact to the nanosecond even if the caller polls
//! late. This crate reads no clock and takes no random numbers from the operating system. Once the queues have grown
//! to their working size, it does not allocate per packet.
//!
//! A [`router`] at the output of a link answers the requests in segments. [`source`] generates cross traffic,
//! [`scenario`] lists named links, and [`spec`] parses links from command-line options. [`statistics`] and [`text`] show
//! what was measured. `docs/link.md` describes the
//! model: the stages and their order, and which parts are exact and which random.
//!
//! ```
//! use longhaul_link::{Limit, Link, LinkConfig, Packet};
//! use longhaul_units::{Rate, Span, Time};
//!
//! // 20 Mb/s, a one-way delay of 250 ms, and a queue of 50 packets.
//! let config = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), Span::from_millis(250)).queue(Limit::Packets(50));
//! let mut link = Link::new(config, 1, 0)?;
//! link.offer(Time::ZERO, Packet::new(1500, "a segment".as_bytes().to_vec()));
//!
//! // Transmission of 1500 bytes takes 600 us, and propagation another 250 ms.
//! let due = Time::ZERO + Span::from_micros(250_600);
//! assert_eq!(link.next_event(), Some(due));
//! let (at, packet) = link.poll(due).expect("it has arrived");
//! assert_eq!((at, packet.payload.as_slice()), (due, "a segment".as_bytes()));
//! # Ok::<(), longhaul_link::ConfigError>(())
//! ```
#![forbid(unsafe_code)]

mod arrivals;
mod config;
mod events;
mod histogram;
mod hook;
mod link;
pub mod log;
mod loss;
mod medium;
mod network;
mod overhead;
mod packet;
mod parameters;
mod policer;
mod queue;
mod random;
pub mod router;
pub mod scenario;
pub mod source;
pub mod spec;
pub mod statistics;
mod stats;
pub mod text;
pub mod topology;
mod trace;
mod transmit;
mod validate;

pub use config::{
    Bleaching, Corruption, GilbertElliott, LinkConfig, LinkRate, Loss, Mtu, Outage, OutageKind, Phase, Policer,
    Reordering, Step,
};
pub use events::EventQueue;
pub use histogram::Histogram;
pub use hook::{Hook, Router, View};
pub use link::Link;
pub use longhaul_wire::Ecn;
pub use network::{Delivery, Network, NetworkError, Schedule};
pub use overhead::Overhead;
pub use packet::{Packet, Payload, dscp};
pub use queue::{Classes, CoDelConfig, Discipline, DualPi2Config, Limit, PieConfig, QueueConfig, RedConfig};
pub use random::Random;
pub use router::{RouterConfig, RouterStats};
pub use stats::{Cause, ClassStats, LinkStats, MAX_CLASSES};
pub use trace::{OPPORTUNITY, TUN_PREFIX, Trace, TraceError};
pub use validate::ConfigError;
