//! Sans-IO TCP: connections with their scoreboard and loss detection, and the endpoint that demultiplexes segments
//! to them.
//!
//! The crate uses no sockets, threads or clocks: the caller passes in datagrams and the time, and takes out
//! datagrams and deadlines. See [`Connection`] for the order of calls.
#![forbid(unsafe_code)]
#![warn(clippy::multiple_inherent_impl)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod batch;
#[cfg(feature = "_internals")]
#[doc(hidden)]
#[path = "scoreboard/tests/bench.rs"]
pub mod bench;
mod config;
pub mod connection;
mod debug;
pub mod endpoint;
mod error;
mod keys;
mod mobility;
mod observer;
mod path_cache;
mod ranges;
mod reassembly;
mod rtt;
#[cfg_attr(not(test), expect(clippy::indexing_slicing, reason = "indices into its own ring"))]
mod scoreboard;
#[cfg_attr(not(test), expect(clippy::indexing_slicing, reason = "positions in its own blocks"))]
mod send_buffer;
mod seq;
mod state;
mod timestamps;
mod tuple;

pub use batch::{Batch, SegmentRef};
pub use config::{Config, EndpointConfig, KeepAlive, MIN_KEEP_ALIVE};
pub use connection::{Blocked, Connection, Due, Event, Payload, Reader, SegmentMeta, Status, Writer};
pub use endpoint::{ConnId, DatagramMeta, Destination, Endpoint, EndpointEvent, EndpointGroup, EndpointStats};
pub use error::{ConnectionError, HostError};
pub use info::{
    AckRateInfo, Info, InitialSequence, Metrics, NegotiatedOptions, NetworkInfo, PairInfo, Parameters, ProbeInfo,
    SavedPathInfo,
};
pub use longhaul_wire::Ecn;
pub use mobility::{Mobility, MoveTags};
pub use observer::{
    ConnectionEvent, Detail, EcnState, IncomingObservers, LossTrigger, Observer, RecoveryState, Rejection,
    SegmentRecord, TimerKind,
};
pub use path_cache::{LoadError, LoadReason, PathCache, PathCacheConfig, PathMetrics};
pub use reassembly::Chunks;
pub use state::State;
pub use tuple::Tuple;

// Types that many modules need.
use connection::info;
use info::{Stats, add};
use rtt::RttEstimator;
use scoreboard::{Burst, Record, Scoreboard};
use timestamps::TimestampClock;
