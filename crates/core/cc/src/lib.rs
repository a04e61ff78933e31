//! Sans-IO congestion control: controllers process events and return their decisions in a [`Control`].
//!
//! The transport (longhaul-tcp, or any other) is responsible for bytes in flight, loss detection, round trips, pacing
//! and send-time snapshots. It reports events to a [`Controller`] and reads one [`Control`] after each of them. Most
//! algorithms are small stages that [`Composed`](compose::Composed) combines; the [`registry`] builds them from text.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]
#![forbid(unsafe_code)]

mod avoidance;
mod bbr;
mod classify;
mod cloning;
pub mod compose;
mod control;
mod controller;
mod copa;
mod copa_cubic;
mod describe;
pub mod estimate;
mod event;
mod factory;
mod forward;
pub mod initial_window;
mod ledbat;
mod needs;
mod observed;
mod pacer;
mod params;
mod path;
mod recovery;
pub mod registry;
mod slow_start;
mod startup;
mod update;
mod wheel;

pub use control::{
    Control, EcnMark, Estimate, Estimates, Levels, NetworkHeader, Pace, ProbeKind, ProbePlan, Quantity, Snapshot,
    StartupOutcome,
};
pub use controller::Controller;
pub use event::{
    Ack, AckedSegment, Episode, LostSegment, NetworkFeedback, PathEvent, RateSample, RttSample, SegmentKind, SendLimit,
    Sent, Timeout, TxId,
};
pub use factory::{Congestion, ControllerFactory};
pub use needs::{AckFrequency, Demands, Detection, Granted, NeedError, Needs, NetworkHeaderKind};
pub use observed::observed;
pub use pacer::Pacer;
pub use params::{BuildParams, SavedPath, SavedPathUse};
pub use path::Path;
pub use wheel::TimerWheel;

/// Algorithms and estimators as types, for the other crates of this project. Not part of the public interface: semantic
/// versioning does not cover it.
#[doc(hidden)]
pub mod internal {
    pub use crate::avoidance::NewReno;
    /// Components that BBR versions 1 and 3 share.
    pub mod bbr {
        pub use crate::bbr::{Base, MIN_RTT_WINDOW, Sample};
    }

    /// Components that `copa-cubic` and `tide` share.
    pub mod copa_cubic {
        pub use crate::copa::delays::Delays;
        pub use crate::copa_cubic::capacity::Capacity;
        pub use crate::forward::{cubic, needs};
    }

    pub use crate::classify::bbe::{KEEP_CONG, RTT_MIN_WINDOW, expiry};
    pub use crate::estimate::cap_probe::{CapProbe, CapProbeConfig, CapProbeEstimate};
    pub use crate::estimate::congestion_level::CongestionLevel;
    pub use crate::estimate::packet_pair::PacketPair;
    pub use crate::estimate::tcp_probe::TcpProbe;
    pub use crate::recovery::Prr;
    pub use crate::slow_start::{StandardSlowStart, divisor};
    pub use crate::startup::{SwiftStart, SwiftStartConfig, bound};

    /// Components that Swift Start shares with its original version and with `pacing-only`.
    pub mod swift_start {
        pub use crate::startup::swift_start::estimate::{TickClock, capacity_window};
        pub use crate::startup::swift_start::pacing::Departures;
        pub use crate::startup::swift_start::{FLIGHT, Flight, GAMMA, PairEstimate, TICK, grow, is_disturbed};
    }

    pub use longhaul_units::{Span, Time};

    /// Names for the expansion of [`options!`](crate::options).
    pub mod options {
        pub use crate::describe::{FromValue, OptionKind, OptionSpec, Value, Values};
    }
}

#[cfg(test)]
mod tests;
