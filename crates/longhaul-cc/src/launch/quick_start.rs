//! Quick-Start (RFC 4782): the routers of the path approve a rate on the SYN, and the first flight is paced at it.

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::compose::{Launch, LaunchStep, LaunchVerdict, Loss, Opening, Overlay, Stage, Window};
use crate::registry::{Entry, Make, OptionSpec, Safety, Slot};
use crate::{
    Ack, Demands, Episode, Granted, NeedError, Needs, NetworkFeedback, NetworkHeader, NetworkHeaderKind, Pace, Path,
    SegmentKind, Sent, initial_window,
};

/// Quick-Start in the registry.
pub(crate) static ENTRY: Entry = Entry {
    name: "quick-start",
    slot: Slot::Launch,
    summary: "a first flight at the rate that the routers of the path approve; where they do not answer, none",
    reference: "RFC 4782",
    options: &[OptionSpec::int("rate", 80, 1_310_720, 20_480, "rate to ask for, kb/s; it is rounded up to 40 x 2^n")],
    tested: &["quick-start+limited-slow-start+new-reno", "quick-start+limited-slow-start+cubic"],
    safety: Safety::Shared,
    make: Make::Launch(|values| Box::new(QuickStart::new(values.int("rate")))),
};

/// Headers of IPv4, UDP and a segment with timestamps, in bytes: rates on the wire count them (RFC 4782, section 4.4, `H`).
const HEADERS: f64 = 20.0 + 8.0 + 24.0;
/// An approval is good for a round trip, and no longer than this (RFC 4782, section 4.4).
const MAX_VALIDITY: Span = Span::from_secs(3);
/// Limited Slow-Start's bound in segments (RFC 3742), by which the window grows while the flight is validated.
const MAX_SSTHRESH: f64 = 100.0;

/// What it is doing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Over, or not begun.
    Idle,
    /// The answer to the request on the SYN has not been told yet.
    Waiting,
    /// A rate is approved: what is sent until the first ACK, or until then if nothing is, is paced at it.
    Sending { pace: Rate, until: Time },
    /// The flight is on its way to be acknowledged.
    Validating,
    /// It was lost in part: repaired as if nothing had been approved.
    Repairing,
}

/// Quick-Start.
#[derive(Clone, Debug)]
pub struct QuickStart {
    wanted: Rate,
    /// Before the handshake is over: the request rides on the SYN.
    opening: bool,
    granted: bool,
    phase: Phase,
    /// Bytes of the flight sent, and delivered.
    sent: Bytes,
    delivered: Bytes,
}

impl QuickStart {
    /// One that asks for `kilobits` thousand bits a second.
    #[must_use]
    pub fn new(kilobits: u64) -> Self {
        let wanted = Rate::from_bits_per_sec(kilobits.saturating_mul(1000));
        Self { wanted, opening: true, granted: false, phase: Phase::Idle, sent: Bytes::ZERO, delivered: Bytes::ZERO }
    }

    /// The window that the approved rate fills in a round trip (RFC 4782, section 4.4): `R T / (MSS + H)` segments.
    fn approved(&mut self, now: Time, rate: Rate, path: &Path, window: &mut Window) -> LaunchStep {
        let Some(rtt) = path.handshake_rtt.or(path.srtt) else { return self.over() };
        let mss = path.mss.as_f64();
        let payload = rate.mul_f64(mss / (mss + HEADERS));
        let approved = payload.bytes_in(rtt).as_f64();
        if approved <= window.cwnd {
            return self.over();
        }
        window.cwnd = approved;
        (self.sent, self.delivered) = (Bytes::ZERO, Bytes::ZERO);
        self.phase = Phase::Sending { pace: payload, until: now + rtt.min(MAX_VALIDITY) };
        LaunchStep::Stay
    }

    fn over(&mut self) -> LaunchStep {
        self.phase = Phase::Idle;
        LaunchStep::Done
    }

    /// The first ACK of the flight: the window is what was sent, and not what might have been.
    fn first_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> LaunchStep {
        let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        window.cwnd = self.sent.as_f64().max(initial);
        self.phase = Phase::Validating;
        self.validate(ack, path, window)
    }

    /// Until the whole flight is delivered the window grows as in Limited Slow-Start.
    fn validate(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> LaunchStep {
        self.delivered += ack.delivered;
        if ack.cwnd_limited {
            let bound = MAX_SSTHRESH * path.mss.as_f64();
            let share = if window.cwnd <= bound { 1.0 } else { 0.5 * bound / window.cwnd };
            window.cwnd += ack.delivered.as_f64() * share;
        }
        if self.delivered < self.sent { LaunchStep::Stay } else { self.over() }
    }
}

impl Stage for QuickStart {
    fn needs(&self) -> Needs {
        let preferred = Demands {
            network_header: Some(NetworkHeaderKind::QuickStart),
            pacing: true,
            whole_window: true,
            ..Demands::default()
        };
        Needs { preferred, ..Needs::default() }
    }

    /// Where nobody answers, growth begins as usual.
    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        self.opening = false;
        self.granted = granted.network_header == Some(NetworkHeaderKind::QuickStart) && granted.pacing;
        Ok(())
    }

    fn observes(&self) -> bool {
        false
    }

    fn on_sent(&mut self, sent: &Sent, _path: &Path) {
        if matches!(self.phase, Phase::Sending { .. }) && sent.kind == SegmentKind::Data {
            self.sent += sent.bytes;
        }
    }

    fn next_tick(&self) -> Option<Time> {
        match self.phase {
            Phase::Sending { until, .. } if self.sent == Bytes::ZERO => Some(until),
            _ => None,
        }
    }

    fn overlay(&self) -> Overlay {
        match self.phase {
            Phase::Idle if self.opening => {
                Overlay { header: Some(NetworkHeader::QuickStart { rate: self.wanted }), ..Overlay::default() }
            }
            Phase::Sending { pace, .. } => {
                Overlay { pace: Some(Pace { rate: pace, quantum: None }), ..Overlay::default() }
            }
            _ => Overlay::default(),
        }
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Repairing => "recovery",
            Phase::Idle => "handshake",
            _ => "quick-start",
        }
    }
}

impl Launch for QuickStart {
    fn begin(&mut self, opening: Opening, _now: Time, _path: &Path, _window: &mut Window) -> LaunchStep {
        if opening != Opening::Connection || !self.granted {
            return self.over();
        }
        self.phase = Phase::Waiting;
        LaunchStep::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> LaunchStep {
        match (self.phase, ack.network) {
            (Phase::Waiting, Some(NetworkFeedback::QuickStart(rate))) => self.approved(ack.now, rate, path, window),
            (Phase::Sending { .. }, _) if ack.delivered > Bytes::ZERO => self.first_ack(ack, path, window),
            (Phase::Sending { .. }, _) => LaunchStep::Stay,
            (Phase::Validating, _) => self.validate(ack, path, window),
            (Phase::Repairing, _) if matches!(ack.episode, Episode::In | Episode::Again) => LaunchStep::Stay,
            _ => self.over(),
        }
    }

    /// A loss or a mark in the flight: slow start from the initial window, up to half of what was delivered (RFC 4782, section
    /// 4.6.2).
    fn on_loss(&mut self, loss: &Loss<'_>, path: &Path, window: &mut Window) -> LaunchVerdict {
        if !matches!(self.phase, Phase::Sending { .. } | Phase::Validating) {
            return LaunchVerdict::Delegate;
        }
        self.delivered += loss.ack.delivered;
        window.ssthresh = (self.delivered.as_f64() / 2.0).max(2.0 * path.mss.as_f64());
        window.cwnd = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64().min(window.cwnd);
        self.phase = Phase::Repairing;
        LaunchVerdict::Handled
    }

    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> LaunchStep {
        match self.phase {
            // Nothing was sent in time: the approval is void.
            Phase::Sending { until, .. } if until <= now && self.sent == Bytes::ZERO => {
                window.cwnd = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
                self.over()
            }
            _ => LaunchStep::Stay,
        }
    }

    fn abort(&mut self) {
        self.phase = Phase::Idle;
    }
}

#[cfg(test)]
mod tests;
