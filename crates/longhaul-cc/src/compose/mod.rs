//! The inner seam: small stages that make up a controller.
//!
//! [`Composed`] owns the window and the order of things; the stages know one idea each:
//!
//! * [`Launch`] may open the window at once (after the handshake, after idleness, after a timeout) and may answer a
//!   loss itself;
//! * [`Growth`] raises the window quickly until it hands over with a reason: slow start and its kin;
//! * [`Steady`] holds the window at the network's share: the law of increase and decrease;
//! * [`LossClassifier`] says what a loss meant;
//! * [`Recovery`] owns the window while losses are repaired.
//!
//! A loss is answered in this order: classify, the launch's veto, the law's decrease, recovery until its end, and the
//! law again. Undo of a spurious decrease lives in [`Composed`], once for all laws.

mod composed;
mod restart;
mod stage;
mod types;

pub use composed::{Composed, Stages};
pub use stage::{Growth, Launch, LossClassifier, Recovery, Stage, Steady};
pub use types::{
    Cause, GrowthStep, Handoff, LaunchStep, LaunchVerdict, Loss, Opening, Overlay, Reason, RecoveryStep, Signal,
    SteadyStep, Target, Verdict, Window,
};

#[cfg(test)]
mod tests;
