//! Common parts of the router-assisted controllers: when to stop following routers, and plain TCP as their replacement.

use core::fmt;

use longhaul_cc::compose::{Composed, Stages};
use longhaul_cc::internal::{NewReno, StandardSlowStart};
use longhaul_cc::{
    Ack, BuildParams, Control, Controller, Demands, Granted, Needs, NetworkFeedback, NetworkHeaderKind, Pace, Path,
    PathEvent, Sent, Snapshot, Timeout, initial_window, update,
};
use longhaul_units::{Bytes, Rate, Span, Time};

/// Number of round trips without an answer in any ACK that count as a denial. All answers of one round trip may be
/// lost, but hardly those of three.
const SILENT_ROUNDS: u32 = 3;
/// If two segments take longer than this at the current rate, they are sent one at a time, because routers respond to a
/// queue of pairs.
const BATCH_SPAN: Span = Span::from_micros(250);

/// Size in bytes of the headers of IPv4, UDP, and a segment with timestamps, because routers count complete packets.
pub(crate) const HEADERS: f64 = 20.0 + 8.0 + 24.0;

/// Returns a pace of `rate` payload bytes per second, at least 1 byte/s. Segments are sent one at a time if the rate
/// would separate the segments of a pair.
pub(crate) fn pace(rate: Rate, mss: Bytes) -> Pace {
    let slow = rate.bytes_in(BATCH_SPAN) < mss * 2;
    update!(Pace { quantum: slow.then_some(mss.max(Bytes(1))), ..Pace::new(rate.max(Rate::from_bytes_per_sec(1))) })
}

/// Plain TCP, to which a controller falls back permanently if routers do not answer.
#[derive(Clone, Debug)]
struct Fallback {
    params: BuildParams,
    granted: Granted,
    silent_rounds: u32,
    plain: Option<Box<Composed>>,
    /// Total of delivered bytes at which all data sent before the denial has arrived.
    drained: Bytes,
}

impl Fallback {
    fn new(params: &BuildParams) -> Self {
        Self { params: *params, granted: Granted::basic(), silent_rounds: 0, plain: None, drained: Bytes::ZERO }
    }

    /// Passes an ACK to plain TCP and returns true, if it is in use. Data sent at the routers' rate does not increase
    /// its window.
    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) -> bool {
        let Some(plain) = self.plain.as_deref_mut() else { return false };
        let earns = event.total_delivered > self.drained;
        plain.on_ack(&update!(Ack { cwnd_limited: event.cwnd_limited && earns, ..*event }), path);
        true
    }

    /// Records an event that plain TCP may need later.
    fn note(&mut self, event: &PathEvent) {
        if let PathEvent::Established { granted, .. } = *event {
            self.granted = granted;
        }
    }

    /// Returns whether this ACK carries a denial, or exceeds the allowed time without an answer.
    fn is_denied(&mut self, ack: &Ack<'_>) -> bool {
        match ack.network {
            Some(NetworkFeedback::Denied) => return true,
            Some(_) => self.silent_rounds = 0,
            None if ack.round_start && ack.delivered > Bytes::ZERO => self.silent_rounds += 1,
            None => {}
        }
        self.silent_rounds >= SILENT_ROUNDS
    }

    /// Switches to NewReno at this ACK, with the state after a handshake and a window of at most `window`.
    fn fall_back(&mut self, ack: &Ack<'_>, path: &Path, window: Bytes) {
        let now = ack.now;
        self.drained = ack.total_delivered + ack.in_flight;
        let segments = u32::try_from(window.0 / path.mss.0.max(1)).unwrap_or(u32::MAX);
        let first = segments.clamp(1, initial_window::DEFAULT_SEGMENTS);
        // No start-up scheme, and PRR, as by default.
        let mut stages = Stages::new("new-reno");
        stages.slow_start = Box::new(StandardSlowStart::new(first, 0));
        stages.avoidance = Box::new(NewReno::default());
        let mut plain = Composed::new(stages, &self.params);
        // This cannot fail, because no stage requires a feature.
        let _ = plain.on_granted(&self.granted, path);
        plain.on_event(&PathEvent::Established { now, granted: self.granted }, path);
        self.plain = Some(Box::new(plain));
    }
}

/// Behaviour of a router-assisted controller while it follows the routers.
pub(crate) trait FollowRouters: Clone + fmt::Debug + Send + Sync {
    const HEADER: NetworkHeaderKind;

    /// Processes an ACK. If it is a denial, or its answer cannot be from a router, returns the maximum window for plain
    /// TCP, which takes over.
    fn on_ack(&mut self, event: &Ack<'_>, path: &Path, denied: bool) -> Option<Bytes>;

    fn on_timeout(&mut self, event: &Timeout, path: &Path);

    fn on_event(&mut self, event: &PathEvent, path: &Path);

    fn control(&self) -> Control;

    fn snapshot(&self) -> Snapshot;
}

/// A router-assisted controller, which becomes plain TCP after a denial.
#[derive(Clone, Debug)]
pub(crate) struct RouterAssisted<F> {
    name: String,
    follower: F,
    fallback: Fallback,
}

impl<F> RouterAssisted<F> {
    pub(crate) fn new(name: String, follower: F, params: &BuildParams) -> Self {
        Self { name, follower, fallback: Fallback::new(params) }
    }
}

impl<F: FollowRouters + 'static> Controller for RouterAssisted<F> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn needs(&self) -> Needs {
        let required = update!(Demands { network_header: Some(F::HEADER), pacing: true, ..Demands::default() });
        // The rate of the first round trip may already be the full rate.
        let preferred = update!(Demands { whole_window: true, ..Demands::default() });
        update!(Needs { required, preferred, ..Needs::default() })
    }

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        if let Some(plain) = &mut self.fallback.plain {
            plain.on_sent(event, path);
        }
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        if self.fallback.on_ack(event, path) {
            return;
        }
        let denied = self.fallback.is_denied(event);
        if let Some(window) = self.follower.on_ack(event, path, denied) {
            self.fallback.fall_back(event, path, window);
        }
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        match &mut self.fallback.plain {
            Some(plain) => plain.on_timeout(event, path),
            None => self.follower.on_timeout(event, path),
        }
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        if let Some(plain) = &mut self.fallback.plain {
            return plain.on_event(event, path);
        }
        self.fallback.note(event);
        self.follower.on_event(event, path);
    }

    fn on_tick(&mut self, now: Time, path: &Path) {
        if let Some(plain) = &mut self.fallback.plain {
            plain.on_tick(now, path);
        }
    }

    fn next_tick(&self) -> Option<Time> {
        self.fallback.plain.as_ref().and_then(|plain| plain.next_tick())
    }

    fn control(&self) -> Control {
        self.fallback.plain.as_ref().map_or_else(|| self.follower.control(), |plain| plain.control())
    }

    fn snapshot(&self) -> Snapshot {
        self.fallback.plain.as_ref().map_or_else(|| self.follower.snapshot(), |plain| plain.snapshot())
    }
}

#[cfg(test)]
mod tests;
