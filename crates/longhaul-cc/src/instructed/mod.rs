//! Common parts of the router-assisted controllers: when to stop following routers, and the plain TCP that follows.

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

/// Number of round trips without an answer in any ACK that counts as a denial. One round trip may have lost all
/// answers, three hardly.
const SILENT_ROUNDS: u32 = 3;
/// If two segments take longer than this at the current rate, they are sent one by one, because routers respond to a
/// queue of pairs.
const BATCH_SPAN: Span = Span::from_micros(250);
/// Decrease factor of RFC 5681.
const HALF: f64 = 0.5;

/// Size in bytes of the headers of IPv4, UDP, and a segment with timestamps, because routers count complete packets.
pub(crate) const HEADERS: f64 = 20.0 + 8.0 + 24.0;

/// Returns the requirements of a router-assisted controller.
pub(crate) fn needs(kind: NetworkHeaderKind) -> Needs {
    let required = Demands { network_header: Some(kind), pacing: true, ..Demands::default() };
    // The rate of the first round trip may be as high as any later one.
    let preferred = Demands { whole_window: true, ..Demands::default() };
    Needs { required, preferred }
}

/// Returns a pace of `rate` payload bytes per second, at least 1 byte/s. If the segments of a pair would be apart,
/// they are sent one by one.
pub(crate) fn pace(rate: Rate, mss: Bytes) -> Pace {
    let slow = rate.bytes_in(BATCH_SPAN) < mss * 2;
    Pace { rate: rate.max(Rate::from_bytes_per_sec(1)), quantum: slow.then_some(mss.max(Bytes(1))) }
}

/// Plain TCP, to which a controller falls back permanently if routers do not answer.
#[derive(Debug)]
pub(crate) struct Fallback {
    params: BuildParams,
    granted: Granted,
    silent_rounds: u32,
    plain: Option<Box<Composed>>,
    /// Total of delivered bytes at which all data sent before the denial has arrived.
    drained: Bytes,
}

impl Fallback {
    pub(crate) fn new(params: &BuildParams) -> Self {
        Self { params: *params, granted: Granted::basic(), silent_rounds: 0, plain: None, drained: Bytes::ZERO }
    }

    /// Returns the controller in use after a denial.
    pub(crate) fn plain(&self) -> Option<&Composed> {
        self.plain.as_deref()
    }

    /// Returns the same controller for updates.
    pub(crate) fn plain_mut(&mut self) -> Option<&mut Composed> {
        self.plain.as_deref_mut()
    }

    /// Passes an ACK to plain TCP and returns true, if it is in use. Data sent at the routers' rate does not increase
    /// its window.
    pub(crate) fn on_ack(&mut self, event: &Ack<'_>, path: &Path) -> bool {
        let Some(plain) = self.plain.as_deref_mut() else { return false };
        let earns = event.total_delivered > self.drained;
        plain.on_ack(&Ack { cwnd_limited: event.cwnd_limited && earns, ..*event }, path);
        true
    }

    /// Stores the events that plain TCP will need.
    pub(crate) fn note(&mut self, event: &PathEvent) {
        match *event {
            PathEvent::Established { granted, .. } => self.granted = granted,
            PathEvent::Detection(detection) => self.granted.detection = detection,
            _ => {}
        }
    }

    /// Returns whether this ACK carries a denial, or is the last of too many without an answer.
    pub(crate) fn is_denied(&mut self, ack: &Ack<'_>) -> bool {
        match ack.network {
            Some(NetworkFeedback::Denied) => return true,
            Some(_) => self.silent_rounds = 0,
            None if ack.round_start && ack.delivered > Bytes::ZERO => self.silent_rounds += 1,
            None => {}
        }
        self.silent_rounds >= SILENT_ROUNDS
    }

    /// Switches to NewReno at this ACK, as after a handshake, with a window of at most `window`.
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
        // No stage requires anything, so that this cannot fail.
        let _ = plain.on_granted(&self.granted, path);
        plain.on_event(&PathEvent::Established { now, granted: self.granted }, path);
        self.plain = Some(Box::new(plain));
    }
}

#[cfg(test)]
mod tests;
