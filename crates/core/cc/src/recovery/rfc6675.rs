//! Window of SACK-based recovery (RFC 6675): the pipe is held at the new threshold.

use crate::compose::{Recovery, Stage, Step, Window};
use crate::describe::Entry;
use crate::{Ack, Demands, Detection, Needs, Path};

pub(crate) static ENTRY: Entry = Entry::recovery("rfc6675", |_| Box::new(Rfc6675::new()))
    .described("sends when the pipe has drained to the new threshold, and keeps it there", "RFC 6675")
    .tested_in(&["slow-start+new-reno+rfc6675", "rfc6675"])
    .internet_safe();

/// Recovery of RFC 6675. The window is ssthresh at once, and the scoreboard's pipe (here [`Ack::in_flight`]) controls
/// sending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rfc6675 {
    target: f64,
}

impl Rfc6675 {
    pub(crate) const fn new() -> Self {
        Self { target: 0.0 }
    }
}

impl Stage for Rfc6675 {
    fn needs(&self) -> Needs {
        let preferred = Demands { detection: Some(Detection::Sack), ..Demands::default() };
        Needs { preferred, ..Needs::default() }
    }
}

impl Recovery for Rfc6675 {
    fn enter(&mut self, target: f64, _ack: &Ack<'_>, _path: &Path, window: &mut Window) {
        self.target = target;
        window.cwnd = target;
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, _path: &Path, _window: &mut Window) -> Step {
        Step::Stay
    }

    fn exit(&mut self, _ack: &Ack<'_>, _path: &Path, window: &mut Window) -> Step {
        window.cwnd = self.target;
        Step::Done
    }
}
