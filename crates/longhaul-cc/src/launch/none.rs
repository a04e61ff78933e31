//! No start-up scheme: the slow-start variant starts from the initial window.

use longhaul_units::Time;

use crate::Path;
use crate::compose::{Launch, LaunchStep, Opening, Stage, Window};
use crate::describe::{Entry, Make, Safety, Slot};

/// Registry entry of the empty start-up scheme.
pub(crate) static ENTRY: Entry = Entry {
    name: "none",
    slot: Slot::Launch,
    summary: "growth starts from the initial window",
    reference: "RFC 6928",
    options: &[],
    tested: &["cubic", "new-reno"],
    safety: Safety::Shared,
    make: Make::Launch(|_| Box::new(NoLaunch)),
};

/// Start-up scheme that lets the slow-start variant begin at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLaunch;

impl Stage for NoLaunch {
    fn phase(&self) -> &'static str {
        "handshake"
    }
}

impl Launch for NoLaunch {
    fn begin(&mut self, _opening: Opening, _now: Time, _path: &Path, _window: &mut Window) -> LaunchStep {
        LaunchStep::Done
    }

    fn is_absent(&self) -> bool {
        true
    }
}
