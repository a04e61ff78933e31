//! A sender of 2004: what the window has room for leaves at once.

use longhaul_cc::registry::Safety;
use longhaul_cc::{
    Ack, BuildParams, Congestion, Control, Controller, ControllerFactory, Granted, NeedError, Needs, Pace, Path,
    PathEvent, Sent, Snapshot, Timeout,
};
use longhaul_units::{Bytes, Rate, Time};

/// The same controller without the transport's own pacing.
pub(crate) fn unpaced(congestion: Congestion) -> Congestion {
    Congestion::new(Factory(congestion))
}

#[derive(Debug)]
struct Factory(Congestion);

impl ControllerFactory for Factory {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        Box::new(Unpaced(self.0.build(params)))
    }

    fn name(&self) -> String {
        self.0.name()
    }

    fn safety(&self) -> Safety {
        Safety::Private
    }
}

#[derive(Debug)]
struct Unpaced(Box<dyn Controller>);

impl Controller for Unpaced {
    fn name(&self) -> String {
        self.0.name()
    }

    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        self.0.on_granted(granted, path)
    }

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        self.0.on_sent(event, path);
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.0.on_ack(event, path);
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.0.on_timeout(event, path);
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.0.on_event(event, path);
    }

    fn on_tick(&mut self, now: Time, path: &Path) {
        self.0.on_tick(now, path);
    }

    fn next_tick(&self) -> Option<Time> {
        self.0.next_tick()
    }

    fn control(&self) -> Control {
        let mut control = self.0.control();
        control.pace = control.pace.or(Some(Pace { rate: Rate::MAX, quantum: Some(Bytes(1 << 16)) }));
        control
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }
}
