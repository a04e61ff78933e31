//! Composition of a controller from stages.
//!
//! [`Composed`] controls the window and determines the order of events; each stage implements one mechanism:
//!
//! * [`Startup`], the start-up scheme, may open the window at once (after the handshake, an idle period or a timeout),
//!   and may respond to a loss itself;
//! * [`SlowStart`], the slow-start variant, increases the window quickly until it hands over to congestion avoidance;
//! * [`CongestionAvoidance`], the congestion-avoidance algorithm, keeps the window at its share of the network;
//! * [`LossClassifier`] judges whether congestion caused a loss;
//! * [`Recovery`] controls the window during loss recovery.
//!
//! The response to a loss consists of classification, the start-up scheme's own response if it has one, the decrease
//! by congestion avoidance, and recovery; after its end, congestion avoidance continues. [`Composed`] undoes spurious
//! decreases for all algorithms.

mod composed;
mod restart;
mod stage;
mod types;

pub use crate::avoidance::{ECN_BETA, additive};
pub use crate::slow_start::{AckLimit, IW_OPTION, L_OPTION, raise};
pub use crate::startup::{DSCP_LE, DSCP_OPTION, accounted_for};
pub use composed::{Composed, Stages};
pub use stage::{CongestionAvoidance, LossClassifier, Recovery, SlowStart, Stage, Startup};
pub use types::{
    AvoidanceStep, CongestionEvent, Handoff, LossCause, LossEvent, Opening, Overlay, Reason, Signal, StageEvent,
    StartupResponse, Step, Target, Window,
};
