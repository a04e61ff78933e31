//! Simulator in virtual time: `longhaul-tcp` endpoints and other traffic sources on a `longhaul-link` network.
//!
//! Everything is deterministic: the seed decides every loss, delay and flipped bit, and two runs with the same seed
//! have the same [trace hash](Sim::trace) on any machine and in any build. A [`Setup`] contains a
//! [topology](longhaul_link::topology) with a [`Host`] at each node that is not a router. Connections can be opened
//! between any two hosts, immediately or later, with an application at each end that follows its [`Plan`]. Cross
//! traffic and whole workloads can be [added](Sim::add_traffic). [`Tap`]s see every datagram, and a [`Pcap`] writes
//! them to a file. A [`Series`] records the state of a sender over time, and a [`Qlog`] the events at one end of a
//! connection. An [`Agent`] is another transport in longhaul's place.
//!
//! Two hosts with a bottleneck in each direction:
//!
//! ```
//! use longhaul_link::{LinkConfig, Loss};
//! use longhaul_sim::{Plan, Setup, Sim};
//! use longhaul_units::{Rate, Span};
//!
//! let path = LinkConfig::new(Rate::from_bits_per_sec(10_000_000), Span::from_millis(20)).loss(Loss::Uniform(0.01));
//! let mut sim = Sim::new(Setup::symmetric(7, path));
//! let (client, server) = sim.open(Plan::bulk(100_000), Plan::sink());
//! sim.run(Span::from_secs(60), Sim::all_done);
//! assert_eq!(sim.session(server).read, 100_000);
//! assert!(sim.session(client).ended_well());
//! ```
//!
//! A dumbbell with three hosts on each side, and Poisson traffic that competes with the connections:
//!
//! ```
//! use longhaul_link::source::Source;
//! use longhaul_link::topology::{Duplex, dumbbell};
//! use longhaul_link::{Limit, LinkConfig, Random};
//! use longhaul_sim::{Plan, Setup, Sim};
//! use longhaul_units::{Rate, Span, Time};
//!
//! let rate = Rate::from_bits_per_sec(10_000_000);
//! let shared = LinkConfig::new(rate, Span::from_millis(20)).queue(Limit::Packets(50));
//! let access = || (0..3).map(|_| Duplex::delay(Span::from_millis(1)));
//! let net = dumbbell(Duplex::symmetric(shared), access(), access());
//! let mut sim = Sim::new(Setup::new(7, net.topology));
//! let pairs: Vec<_> = net.left.iter().zip(&net.right).map(|(l, r)| (*l as usize, *r as usize)).collect();
//! let end = Time::ZERO + Span::from_secs(10);
//! let poisson = Source::poisson(Time::ZERO, rate.mul_f64(0.2), 500, Random::new(7, 99));
//! let cross = sim.add_traffic(pairs[2].0, pairs[2].1, poisson, end);
//! let timed = Plan::timed(Span::from_secs(9));
//! let flows: Vec<_> = pairs[..2].iter().map(|(l, r)| sim.open_between(*l, *r, timed, Plan::sink())).collect();
//! sim.run_for(Span::from_secs(12));
//! assert!(flows.iter().all(|(client, _)| sim.session(*client).ended_well()));
//! assert!(sim.traffic(cross).received > 1_000);
//! ```
#![forbid(unsafe_code)]

mod agent;
mod card;
mod host;
mod nat;
mod packet;
mod pattern;
mod pcap;
mod plan;
mod qlog;
mod script;
mod series;
mod session;
mod setup;
mod sim;
mod tap;

pub use agent::{Agent, Progress};
pub use host::Host;
pub use nat::Nat;
pub use packet::{Packet, Parcel, TTL, UDP_HEADER, ip_header};
pub use pattern::Pattern;
pub use pcap::Pcap;
pub use plan::{Begin, Close, Content, OnOff, Plan, Turn};
pub use qlog::Qlog;
pub use series::{Series, SeriesId};
pub use session::Session;
pub use setup::{HostSetup, Setup, SetupError, full_segments};
pub use sim::{Epoch, LinkHook, PopulationId, SessionId, Sim, Step, Traffic, TrafficId, Visit};
pub use tap::{Sighting, Tap, TraceHash};
