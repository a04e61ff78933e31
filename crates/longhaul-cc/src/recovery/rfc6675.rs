//! Window of SACK-based recovery (RFC 6675): the pipe is held at the new threshold.

use crate::compose::{Recovery, RecoveryStep, Stage, Window};
use crate::describe::{Entry, Make, Safety, Slot};
use crate::{Ack, Demands, Detection, Needs, Path};

/// Registry entry.
pub(crate) static ENTRY: Entry = Entry {
    name: "rfc6675",
    slot: Slot::Recovery,
    summary: "the pipe is held at the new threshold; sending stops until it has drained to it",
    reference: "RFC 6675",
    options: &[],
    tested: &["slow-start+new-reno+rfc6675", "rfc6675"],
    safety: Safety::Shared,
    make: Make::Recovery(|_| Box::new(Rfc6675::new())),
};

/// Recovery of RFC 6675. The window is ssthresh at once, and the scoreboard's pipe (here [`Ack::in_flight`]) controls
/// sending.
#[derive(Clone, Debug, Default)]
pub struct Rfc6675 {
    target: f64,
}

impl Rfc6675 {
    /// Creates the recovery, which has no options.
    #[must_use]
    pub const fn new() -> Self {
        Self { target: 0.0 }
    }
}

impl Stage for Rfc6675 {
    fn needs(&self) -> Needs {
        let preferred = Demands { detection: Some(Detection::Sack), ..Demands::default() };
        Needs { preferred, ..Needs::default() }
    }

    fn phase(&self) -> &'static str {
        "recovery"
    }
}

impl Recovery for Rfc6675 {
    fn enter(&mut self, target: f64, _ack: &Ack<'_>, _path: &Path, window: &mut Window) {
        self.target = target;
        window.cwnd = target;
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, _path: &Path, _window: &mut Window) -> RecoveryStep {
        RecoveryStep::Stay
    }

    fn exit(&mut self, _ack: &Ack<'_>, _path: &Path, window: &mut Window) -> RecoveryStep {
        window.cwnd = self.target;
        RecoveryStep::Done
    }
}
