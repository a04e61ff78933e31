//! The seam between a transport and a congestion controller.

use core::fmt::Debug;

use longhaul_units::Time;

use crate::{
    Ack, Control, Estimate, NeedError, Needs, Path, PathEvent, SavedPathUse, Sent, Snapshot, Startup, Timeout,
};

/// A congestion controller. Object-safe; made by the [`registry`](crate::registry) or by hand.
///
/// # Contract
///
/// * `now` in events never goes back.
/// * Before the SYN leaves, [`control`](Self::control) is read once: its `header` rides on the SYN.
/// * After the handshake [`on_granted`](Self::on_granted) is called once, then [`PathEvent::Established`].
/// * Every call is followed by a read of [`control`](Self::control) and [`next_tick`](Self::next_tick).
/// * `Ack` is delivered after the scoreboard, RTT and loss detection have digested the segment; a segment that
///   acknowledges, marks and loses nothing new need not be reported.
/// * The bound of `control().cwnd` is on [`Ack::in_flight`]; it is finite and at least one segment at all times.
pub trait Controller: Debug + Send {
    /// The name in its shortest text form, as the registry parses it: `cubic`, `swift-start(gamma=4)+westwood`.
    fn name(&self) -> String;

    /// What the controller needs; constant.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// What there is, once the peer's options are known. A controller that can do without a required need falls back
    /// here; the default fails if one is missing.
    ///
    /// # Errors
    /// A required need is missing and there is no fallback: the connection fails.
    fn on_granted(&mut self, granted: &crate::Granted, path: &Path) -> Result<(), NeedError> {
        let _ = path;
        match self.needs().required.missing(granted) {
            Some(need) => Err(NeedError { controller: self.name(), need }),
            None => Ok(()),
        }
    }

    /// A segment left.
    fn on_sent(&mut self, event: &Sent, path: &Path) {
        let _ = (event, path);
    }

    /// An ACK was digested.
    fn on_ack(&mut self, event: &Ack<'_>, path: &Path);

    /// The retransmission timer fired.
    fn on_timeout(&mut self, event: &Timeout, path: &Path);

    /// Something rare happened.
    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        let _ = (event, path);
    }

    /// The time asked for by [`next_tick`](Self::next_tick) has come.
    fn on_tick(&mut self, now: Time, path: &Path) {
        let _ = (now, path);
    }

    /// When the controller wants [`on_tick`](Self::on_tick) called.
    fn next_tick(&self) -> Option<Time> {
        None
    }

    /// The controller's answer now.
    fn control(&self) -> Control;

    /// What came of [`BuildParams::saved_path`](crate::BuildParams::saved_path): the transport counts it, and a memory that was refused
    /// is not kept.
    fn saved_path_use(&self) -> SavedPathUse {
        SavedPathUse::Unused
    }

    /// What became of its start-up scheme, for logs only.
    fn startup(&self) -> Startup {
        Startup::Absent
    }

    /// Values for logs only.
    fn snapshot(&self) -> Snapshot;

    /// Tells what it has estimated so far, for logs only. No name comes twice.
    fn estimates(&self, tell: &mut dyn FnMut(Estimate)) {
        let _ = tell;
    }
}
