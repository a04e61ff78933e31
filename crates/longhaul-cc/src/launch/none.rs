//! No launch: growth starts from the initial window.

use longhaul_units::Time;

use crate::Path;
use crate::compose::{Launch, LaunchStep, Opening, Stage, Window};
use crate::describe::{Entry, Make, Safety, Slot};

/// No launch in the registry.
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

/// Hands over at once.
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
