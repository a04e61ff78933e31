//! What controllers share that do what routers say: when they have to stop it, and the plain TCP that follows.

use longhaul_units::{Bytes, Rate, Span};

use crate::classify::AllCongestion;
use crate::compose::{Composed, Stages};
use crate::growth::SlowStart;
use crate::launch::NoLaunch;
use crate::recovery::Prr;
use crate::steady::NewReno;
use crate::{
    Ack, BuildParams, Controller, Demands, Granted, Needs, NetworkFeedback, NetworkHeaderKind, Pace, Path, PathEvent,
    initial_window,
};

/// So many round trips whose ACKs bring no answer are a denial: one may have lost them all, three hardly.
const SILENT_ROUNDS: u32 = 3;
/// Where a pair of segments would leave in more time than this, they leave one by one: a queue of pairs is a queue that
/// routers answer.
const BATCH_SPAN: Span = Span::from_micros(250);
/// RFC 5681's halves.
const HALF: f64 = 0.5;

/// Headers of IPv4, UDP, and a segment with timestamps, in bytes: routers count what is on the wire.
pub(crate) const HEADERS: f64 = 20.0 + 8.0 + 24.0;

/// What such a controller cannot do without.
pub(crate) fn needs(kind: NetworkHeaderKind) -> Needs {
    let required = Demands { network_header: Some(kind), pacing: true, ..Demands::default() };
    // The rate of the first round trip is no less than that of any other.
    let preferred = Demands { whole_window: true, ..Demands::default() };
    Needs { required, preferred }
}

/// A pace of `rate` payload bytes a second: never none, and without pairs where they would be apart.
pub(crate) fn pace(rate: Rate, mss: Bytes) -> Pace {
    let slow = rate.bytes_in(BATCH_SPAN) < mss * 2;
    Pace { rate: rate.max(Rate::from_bytes_per_sec(1)), quantum: slow.then_some(mss.max(Bytes(1))) }
}

/// Plain TCP, to which a controller falls back for good when routers do not answer.
#[derive(Debug)]
pub(crate) struct Fallback {
    params: BuildParams,
    granted: Granted,
    silent_rounds: u32,
    plain: Option<Box<Composed>>,
    /// Bytes delivered in all when everything has arrived that left before the denial.
    drained: Bytes,
}

impl Fallback {
    pub(crate) fn new(params: &BuildParams) -> Self {
        Self { params: *params, granted: Granted::basic(), silent_rounds: 0, plain: None, drained: Bytes::ZERO }
    }

    /// The controller in force once there was a denial.
    pub(crate) fn plain(&self) -> Option<&Composed> {
        self.plain.as_deref()
    }

    /// The same, to be told something.
    pub(crate) fn plain_mut(&mut self) -> Option<&mut Composed> {
        self.plain.as_deref_mut()
    }

    /// Tells plain TCP of an ACK, if it is in force; says whether it is. What left at the rate of routers earns it no window.
    pub(crate) fn on_ack(&mut self, event: &Ack<'_>, path: &Path) -> bool {
        let Some(plain) = self.plain.as_deref_mut() else { return false };
        let earns = event.total_delivered > self.drained;
        plain.on_ack(&Ack { cwnd_limited: event.cwnd_limited && earns, ..*event }, path);
        true
    }

    /// Notes what plain TCP will have to know.
    pub(crate) fn note(&mut self, event: &PathEvent) {
        match *event {
            PathEvent::Established { granted, .. } => self.granted = granted,
            PathEvent::Detection(detection) => self.granted.detection = detection,
            _ => {}
        }
    }

    /// Whether this ACK says that routers do not answer, or is the last of too many that say nothing.
    pub(crate) fn is_denied(&mut self, ack: &Ack<'_>) -> bool {
        match ack.network {
            Some(NetworkFeedback::Denied) => return true,
            Some(_) => self.silent_rounds = 0,
            None if ack.round_start && ack.delivered > Bytes::ZERO => self.silent_rounds += 1,
            None => {}
        }
        self.silent_rounds >= SILENT_ROUNDS
    }

    /// From this ACK on there is NewReno, as after a handshake, but with no more than `window`.
    pub(crate) fn fall_back(&mut self, ack: &Ack<'_>, path: &Path, window: Bytes) {
        let now = ack.now;
        self.drained = ack.total_delivered + ack.in_flight;
        let segments = u32::try_from(window.0 / path.mss.0.max(1)).unwrap_or(u32::MAX);
        let first = segments.clamp(1, initial_window::DEFAULT_SEGMENTS);
        let stages = Stages {
            name: "new-reno".to_owned(),
            launch: Box::new(NoLaunch),
            growth: Box::new(SlowStart::new(first, 0)),
            steady: Box::new(NewReno::new(HALF, HALF)),
            classifier: Box::new(AllCongestion),
            recovery: Box::new(Prr::new()),
        };
        let mut plain = Composed::new(stages, &self.params);
        // None of its parts requires anything.
        let _ = plain.on_granted(&self.granted, path);
        plain.on_event(&PathEvent::Established { now, granted: self.granted }, path);
        self.plain = Some(Box::new(plain));
    }
}

#[cfg(test)]
mod tests;
