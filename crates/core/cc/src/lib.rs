//! Sans-IO congestion control: controllers process events and return their decisions in a [`Control`].
//!
//! ```text
//!    transport: longhaul-tcp, QUIC, yours              longhaul-cc
//!  ┌────────────────────────────────────┐  on_sent    ┌─────────────────────────────┐
//!  │ bytes in flight, loss detection,   │  on_ack     │ Controller                  │
//!  │ round trips, RTT, pacing           │  on_timeout │   Composed of stages: start,│
//!  │                                    │ ──────────► │   slow start, avoidance,    │
//!  │ sends while in_flight < cwnd,      │             │   loss classifier, recovery │
//!  │ at the pace                        │ ◄────────── │   or bbr, copa, copa-cubic… │
//!  └────────────────────────────────────┘  control    └─────────────────────────────┘
//! ```
//!
//! The transport is responsible for bytes in flight, loss detection, round trips, pacing and send-time snapshots. It
//! reports events to a [`Controller`] and reads one [`Control`] after each of them. Most algorithms are small stages that
//! [`Composed`](compose::Composed) combines; the [`registry`] builds them from text. What a controller cannot do without,
//! it says in its [`Needs`].
//!
//! # A controller in a loop of your own
//!
//! A sender over 20 Mb/s and 50 ms with a queue of one bandwidth-delay product. It acknowledges once per round trip:
//!
//! ```
//! use longhaul_cc::{
//!     Ack, BuildParams, Congestion, Episode, Granted, Path, PathEvent, RateSample, RttSample, Sent, TxId, update,
//! };
//! use longhaul_units::{Bytes, Span, Time};
//!
//! let congestion: Congestion = "cubic".parse()?;
//! let mss = Bytes(1200);
//! let mut controller = congestion.build(&update!(BuildParams { mss, ..BuildParams::default() }));
//! let (mut now, trip, bdp) = (Time::ZERO, Span::from_millis(50), Bytes(125_000));
//! let mut path = update!(Path { handshake_rtt: Some(trip), min_rtt: Some(trip), ..Path::new(mss) });
//! let granted = Granted::basic();
//! controller.on_granted(&granted, &path)?;
//! controller.on_event(&PathEvent::Established { now, granted }, &path);
//!
//! let (mut number, mut total, mut recovers) = (0, Bytes::ZERO, false);
//! for _ in 0..400 {
//!     // The whole window leaves. A transport with a pacer follows `control().pace`.
//!     let (count, sent_at) = (controller.control().cwnd.0 / mss.0, now);
//!     for index in 0..count {
//!         let sent = Sent::new(now, TxId(number), mss);
//!         controller.on_sent(&update!(Sent { in_flight_before: mss * index, ..sent }), &path);
//!         number += 1;
//!     }
//!     // More than the path and its queue hold is lost. What is queued takes longer.
//!     let sent = mss * count;
//!     let lost = sent - bdp * 2;
//!     let delivered = sent - lost;
//!     let rtt = trip.mul_f64((delivered.as_f64() / bdp.as_f64()).max(1.0));
//!     now += rtt;
//!     total += delivered;
//!     (path.srtt, path.latest_rtt) = (Some(rtt), Some(rtt));
//!     // An episode of recovery lasts for a window of data: here until the next ACK.
//!     let episode = match (lost > Bytes::ZERO, recovers) {
//!         (true, _) => Episode::Enter,
//!         (false, true) => Episode::Exit,
//!         (false, false) => Episode::None,
//!     };
//!     recovers = lost > Bytes::ZERO;
//!     let ack = update!(Ack {
//!         cumulative: delivered,
//!         delivered,
//!         newly_lost: lost,
//!         total_delivered: total,
//!         rtt: Some(RttSample::new(rtt, sent_at)),
//!         rate: Some(RateSample::new(delivered, rtt)),
//!         prior_in_flight: sent,
//!         flight_size: sent,
//!         cwnd_limited: true,
//!         round_start: true,
//!         episode,
//!         ..Ack::new(now)
//!     });
//!     controller.on_ack(&ack, &path);
//!     if controller.next_tick().is_some_and(|due| due <= now) {
//!         controller.on_tick(now, &path);
//!     }
//! }
//! let share = total.as_f64() / bdp.as_f64() * trip.as_secs_f64() / now.as_secs_f64();
//! assert!(share > 0.95, "{share}");
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
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
