//! Sans-IO congestion control: controllers process events and return their decisions in a [`Control`].
//!
//! The transport (longhaul-tcp, or any other) is responsible for bytes in flight, loss detection, round trips, pacing
//! and send-time snapshots. It reports events to a [`Controller`] and reads one [`Control`] after each of them. Most
//! algorithms are small stages that [`Composed`] combines; the [`registry`] builds them from text.
#![forbid(unsafe_code)]

pub mod bbr;
pub mod classify;
pub mod compose;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod control;
pub mod controller;
pub mod copa;
pub mod describe;
pub mod estimate;
pub mod event;
mod factory;
pub mod growth;
pub mod initial_window;
mod instructed;
pub mod launch;
pub mod ledbat;
pub mod needs;
pub mod pacer;
mod params;
pub mod path;
pub mod rcp;
pub mod recovery;
pub mod registry;
#[cfg(any(test, feature = "conformance"))]
mod smoothed;
pub mod steady;
#[cfg(test)]
mod testing;
pub mod udt;
mod unpaced;
mod watch;
pub mod wheel;
mod with_params;
pub mod xcp;

pub use compose::Composed;
pub use control::{
    Control, EcnMark, Estimate, Levels, NetworkHeader, Pace, ProbeKind, ProbePlan, Quantity, Snapshot, Startup,
};
pub use controller::Controller;
pub use event::{
    Ack, AckedSegment, EcnDelta, Episode, LostSegment, NetworkFeedback, PathEvent, ProbeReport, RateSample, RttSample,
    SegmentKind, SendLimit, Sent, Timeout, TxId,
};
pub use factory::{Congestion, ControllerFactory};
pub use needs::{AckCadence, Demands, Detection, Granted, NeedError, Needs, NetworkHeaderKind};
pub use pacer::Pacer;
pub use params::{BuildParams, SavedPath, SavedPathUse};
pub use path::Path;
pub use unpaced::unpaced;
pub use watch::watched;
pub use wheel::TimerWheel;
pub use with_params::with_params;
