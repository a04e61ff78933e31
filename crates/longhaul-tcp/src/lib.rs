//! TCP, sans-IO: connections, their scoreboard and loss detection, and the endpoint that tells them apart.
//!
//! Nothing here knows sockets, threads or clocks: bytes and times come in, bytes and deadlines go out. See
//! [`Connection`] for the order of calls.
#![forbid(unsafe_code)]

#[cfg(feature = "bench-internals")]
#[doc(hidden)]
pub mod bench;
mod config;
pub mod connection;
pub mod endpoint;
mod error;
mod info;
mod ranges;
mod reassembly;
mod rtt;
mod scoreboard;
mod send_buffer;
mod seq;
mod state;
mod timestamps;

pub use config::{Config, EndpointConfig, KeepAlive, MIN_KEEP_ALIVE};
pub use connection::{Batch, Blocked, Connection, Event, Payload, SegmentMeta, SegmentRef};
pub use endpoint::{
    ConnId, DatagramMeta, Destination, Endpoint, EndpointEvent, EndpointStats, LoadError, LoadReason, PathCache,
    PathCacheConfig, PathMetrics, Tuple,
};
pub use error::{ConnectionError, HostError};
pub use info::{AckRateInfo, Info, NetworkInfo, PairInfo, ProbeInfo, SavedPathInfo};
pub use longhaul_wire::Ecn;
pub use state::State;
