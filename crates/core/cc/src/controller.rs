//! The interface between a transport and a congestion controller.

use core::fmt::Debug;

use longhaul_units::{Span, Time};

use crate::cloning::CloneController;
use crate::{Ack, Control, NeedError, Needs, Path, PathEvent, SavedPathUse, Sent, Snapshot, Timeout};

/// A congestion controller. The trait is object-safe; the [`registry`](crate::registry) or the application builds
/// controllers.
///
/// A controller is `Clone`, and so is `Box<dyn Controller>`: a transport that migrates a connection to another path may keep
/// a copy of its state. It is `Sync`, so that a transport may read its decisions by a shared reference.
///
/// # Contract
///
/// * `now` in events never decreases.
/// * Before the SYN is sent, [`control`](Self::control) is read once, and the SYN carries its `header`.
/// * After the handshake [`on_granted`](Self::on_granted) is called once, then [`PathEvent::Established`].
/// * After every call, the transport reads [`control`](Self::control) and [`next_tick`](Self::next_tick).
/// * [`on_ack`](Self::on_ack) is called after the scoreboard, the RTT estimator and loss detection have processed the
///   segment. It may be omitted if the segment reports no new delivery, mark or loss. Losses that were detected after the
///   call may be reported by a second one at the same time, which delivers nothing.
/// * `control().cwnd` limits [`Ack::in_flight`]; it is at least one segment at all times.
/// * Ticks may be late.
pub trait Controller: CloneController + Debug + Send + Sync {
    /// Returns the name in its shortest text form, as the registry parses it: `cubic`,
    /// `swift-start(gamma=4)+westwood`.
    fn name(&self) -> String;

    /// Returns the features that the controller requires and prefers. The result is constant.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Receives the granted features when the peer's options are known. A controller that can work without a required
    /// need falls back here. The default implementation fails if a required need is missing.
    ///
    /// # Errors
    /// Returns an error if a required need is missing and there is no fallback; the connection then fails.
    fn on_granted(&mut self, granted: &crate::Granted, path: &Path) -> Result<(), NeedError> {
        let _ = path;
        match self.needs().required.missing(granted) {
            Some(need) => Err(NeedError { controller: self.name(), need }),
            None => Ok(()),
        }
    }

    /// A segment was sent.
    fn on_sent(&mut self, event: &Sent, path: &Path) {
        let _ = (event, path);
    }

    /// A run of segments was sent: `event` describes the first, and all `count` segments are alike, with the same
    /// number of bytes. `path` is that of the last one; for the earlier ones, more data was still queued. Calls
    /// [`on_sent`](Self::on_sent) for each by default.
    fn on_sent_run(&mut self, event: &Sent, count: u64, path: &Path) {
        let mut event = *event;
        for left in (0..count).rev() {
            self.on_sent(&event, &Path { queued: path.queued + event.bytes * left, ..*path });
            event.tx.0 += 1;
            event.in_flight_before += event.bytes;
        }
    }

    /// An ACK was processed.
    fn on_ack(&mut self, event: &Ack<'_>, path: &Path);

    /// The retransmission timer expired.
    fn on_timeout(&mut self, event: &Timeout, path: &Path);

    /// Processes an event other than sending, ACKs and timeouts.
    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        let _ = (event, path);
    }

    /// Called at the time returned by [`next_tick`](Self::next_tick).
    fn on_tick(&mut self, now: Time, path: &Path) {
        let _ = (now, path);
    }

    /// Returns the time at which [`on_tick`](Self::on_tick) should be called. If it is not in the future, the call
    /// follows as soon as the transport has sent all permitted data. A transport without a timer for it makes the call
    /// together with its next event, up to a round trip late or, if nothing is in flight, with the next segment that it
    /// sends.
    fn next_tick(&self) -> Option<Time> {
        None
    }

    /// Returns the controller's current decisions.
    fn control(&self) -> Control;

    /// Returns whether a new controller would be equivalent after `idle` without transmissions. The transport may then
    /// drop this one. When there is data to send, it builds a new one, and reports the grants and the known properties
    /// of the path to it. This reduces the memory of idle connections.
    fn is_dispensable(&self, idle: Span) -> bool {
        let _ = idle;
        false
    }

    /// Returns how [`BuildParams::saved_path`](crate::BuildParams::saved_path) was used. The transport counts the
    /// outcomes, and removes an entry that was refused from the metrics cache.
    fn saved_path_use(&self) -> SavedPathUse {
        SavedPathUse::Unused
    }

    /// Returns values for logs only.
    fn snapshot(&self) -> Snapshot;
}

#[cfg(test)]
mod tests {
    use longhaul_units::Bytes;

    use super::*;
    use crate::TxId;

    /// Records what it is told of sent segments.
    #[derive(Clone, Debug, Default)]
    struct Recorder(Vec<(Sent, Bytes)>);

    impl Controller for Recorder {
        fn name(&self) -> String {
            "recorder".into()
        }

        fn on_sent(&mut self, event: &Sent, path: &Path) {
            self.0.push((*event, path.queued));
        }

        fn on_ack(&mut self, _event: &Ack<'_>, _path: &Path) {}

        fn on_timeout(&mut self, _event: &Timeout, _path: &Path) {}

        fn control(&self) -> Control {
            Control::window(Bytes(1))
        }

        fn snapshot(&self) -> Snapshot {
            Snapshot::new("")
        }
    }

    #[test]
    fn a_run_is_reported_segment_by_segment() {
        let sent = |tx, in_flight| {
            let mut event = Sent::new(Time::from_nanos(5), TxId(tx), Bytes(100));
            event.in_flight_before = Bytes(in_flight);
            event.tag = 9;
            event
        };
        let mut path = Path::new(Bytes(100));
        path.queued = Bytes(70);
        let mut recorder = Recorder::default();
        recorder.on_sent_run(&sent(3, 1000), 0, &path);
        assert_eq!(recorder.0, []);
        recorder.on_sent_run(&sent(3, 1000), 3, &path);
        let expected = [(sent(3, 1000), Bytes(270)), (sent(4, 1100), Bytes(170)), (sent(5, 1200), Bytes(70))];
        assert_eq!(recorder.0, expected);
    }
}
