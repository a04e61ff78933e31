//! Active measurement of a path: its capacity and the bandwidth available to a new flow, from probe packets of chosen
//! sizes and times.
//!
//! A [`Method`] is sans-IO: it plans trains of packets, takes reports of their arrival, and provides an estimate at any
//! time. A driver sends the trains and creates the reports. Without features, the crate contains only the methods, and
//! depends on neither sockets nor a runtime.
//!
//! | module | content |
//! |---|---|
//! | `method` | [`Method`], and the types that it exchanges with its driver |
//! | `kind` | [`MethodKind`], the catalogue: names and construction |
//! | `buffer` | [`BufferDelay`], from the RTTs of a transfer |
//! | `cap_probe`, `pathrate` | the methods that measure capacity |
//! | `pathload`, `path_chirp` | the methods that measure available bandwidth |
//! | `turns` | sessions with one train at a time |
//! | `options` | constants of the methods |
//! | `sim`, by the feature `sim` (default) | driver over an emulated path in virtual time |
//! | `sockets`, by the feature `sockets` | driver over UDP sockets, TCPProbe within a transfer, search for the queueing hop |
//!
//! All items except those of the drivers are at the root of the crate.
//!
//! CapProbe on a link of 80 Mb/s behind one of 1 Gb/s, in virtual time:
//!
//! ```
//! # #[cfg(feature = "sim")] {
//! use longhaul_link::LinkConfig;
//! use longhaul_probe::MethodKind;
//! use longhaul_probe::sim::ProbedPath;
//! use longhaul_units::{Rate, Span, Time};
//!
//! let hop = |mbit: u64| LinkConfig::new(Rate::from_bits_per_sec(mbit * 1_000_000), Span::from_millis(20));
//! let mut path = ProbedPath::new([hop(1000), hop(80)], Span::from_millis(40)).unwrap();
//! let mut method = MethodKind::CapProbe.create();
//! let probing = path.run(&mut *method, Time::ZERO, Time::ZERO + Span::from_secs(60));
//! let capacity = probing.estimate.capacity.unwrap().value.as_bits_per_sec();
//! assert!(probing.done && (79_000_000..81_000_000).contains(&capacity));
//! # }
//! ```
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod buffer;
mod cap_probe;
mod kind;
mod loss_rate;
mod method;
mod options;
mod path_chirp;
mod pathload;
mod pathrate;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "sockets")]
pub mod sockets;
mod turns;

pub use buffer::BufferDelay;
pub use kind::MethodKind;
pub use longhaul_cc::estimate::RateRange;
pub use loss_rate::LossRate;
pub use method::{Arrived, Estimate, Method, Next, Planned, Train, TrainReport, missing_from};
