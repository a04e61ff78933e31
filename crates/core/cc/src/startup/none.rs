//! No start-up scheme: the slow-start variant starts from the initial window.

use longhaul_units::Time;

use crate::Path;
use crate::compose::{Opening, Stage, Startup, Step, Window};
use crate::describe::Entry;

pub(crate) static ENTRY: Entry = Entry::startup("none", |_| Box::new(NoStartup))
    .described("no start-up scheme: slow start begins from the initial window", "RFC 6928")
    .tested_in(&["cubic", "new-reno"])
    .internet_safe();

/// Start-up scheme that lets the slow-start variant begin at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoStartup;

impl Stage for NoStartup {}

impl Startup for NoStartup {
    fn begin(&mut self, _opening: Opening, _now: Time, _path: &Path, _window: &mut Window) -> Step {
        Step::Done
    }

    fn is_absent(&self) -> bool {
        true
    }
}
