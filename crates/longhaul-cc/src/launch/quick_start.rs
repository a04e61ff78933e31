//! Quick-Start (RFC 4782): the routers of the path approve a rate, on the SYN or on the first data after a pause, and what is sent in
//! the round trip that follows is paced at it.

use longhaul_units::{Bytes, Rate, Span, Time};

use super::accounted_for;
use crate::compose::{Launch, LaunchStep, LaunchVerdict, Loss, Opening, Overlay, Signal, Stage, Window};
use crate::describe::{Entry, Make, OptionSpec, Safety, Slot};
use crate::growth::divisor;
use crate::{
    Ack, AckCadence, Demands, Episode, Granted, NeedError, Needs, NetworkFeedback, NetworkHeader, NetworkHeaderKind,
    Pace, Path, SegmentKind, Sent, Timeout, initial_window,
};

/// Quick-Start in the registry.
pub(crate) static ENTRY: Entry = Entry {
    name: "quick-start",
    slot: Slot::Launch,
    summary: "a first flight at the rate that the routers of the path approve; where they do not answer, none",
    reference: "RFC 4782",
    options: QuickStartConfig::OPTIONS,
    tested: &["quick-start+limited-slow-start+new-reno", "quick-start+limited-slow-start+cubic"],
    safety: Safety::Shared,
    make: Make::Launch(|values| Box::new(QuickStart::new(QuickStartConfig::from_values(values)))),
};

/// Headers of IPv4, UDP and a segment with timestamps, in bytes: rates on the wire count them (RFC 4782, section 4.4, `H`).
const HEADERS: f64 = 20.0 + 8.0 + 24.0;
/// An approval is good for a round trip, and no longer than this (RFC 4782, section 4.4).
const MAX_VALIDITY: Span = Span::from_secs(3);
/// Limited Slow-Start's bound in segments (RFC 3742), by which the window grows while the flight is validated.
const MAX_SSTHRESH: f64 = 100.0;
/// Pure ACKs in a round trip that the receiver is asked to keep to (RFC 4782, section 4.5).
const ACKS: f64 = 100.0;
/// Round trips in which an answer must come: the request waits for data to ride on, which the transport may not have at once.
const PATIENCE: u32 = 2;

crate::options! {
    /// The configuration of [`QuickStart`].
    #[derive(Eq)]
    pub struct QuickStartConfig {
        /// The rate to ask for, kb/s.
        kilobits: u64 =
            OptionSpec::int("rate", 80, 1_310_720, 20_480, "rate to ask for, kb/s; it is rounded up to 40 x 2^n"),
        /// Requests after the first, while none is approved.
        again: u64 = OptionSpec::int(
            "again", 0, 100, 0,
            "requests more, a round trip apart, while none is approved and nothing is lost",
        ),
    }
}

/// What it is doing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Over, or not begun.
    Idle,
    /// The answer to the request on the SYN has not been told yet.
    Waiting,
    /// The next segment of data asks for this rate; meanwhile the window grows as ever. So many round trips have begun since.
    Asking { rate: Rate, rounds: u32 },
    /// A rate is approved: what is sent until the first ACK, or until then if nothing is, is paced at it. So much was in flight before.
    Sending { pace: Rate, until: Time, earlier: Bytes },
    /// The flight is on its way to be acknowledged.
    Validating,
    /// It is acknowledged, and the receiver still sends few ACKs.
    Easing,
    /// It was lost in part: repaired as if nothing had been approved.
    Repairing,
}

/// Quick-Start.
#[derive(Clone, Debug)]
pub struct QuickStart {
    wanted: Rate,
    again: u64,
    /// Before the handshake is over: the request rides on the SYN.
    opening: bool,
    granted: bool,
    /// Whether the receiver can be asked for fewer ACKs.
    thins: bool,
    phase: Phase,
    /// Requests that may still be made for this opening.
    left: u64,
    /// A flight lost something: nothing is asked any more.
    spent: bool,
    /// Whether there was a loss, a mark or a timeout; and the most in flight since.
    congested: bool,
    largest: Bytes,
    /// The window that would be without an approval, if the connection is past its beginning.
    without: Option<f64>,
    /// Bytes of the flight sent, and delivered.
    sent: Bytes,
    delivered: Bytes,
    /// The window that was approved.
    approved: f64,
    /// Segments for an ACK that the receiver is asked for.
    ratio: u8,
}

impl QuickStart {
    /// One that asks for this.
    #[must_use]
    pub const fn new(config: QuickStartConfig) -> Self {
        Self {
            wanted: Rate::from_bits_per_sec(config.kilobits.saturating_mul(1000)),
            again: config.again,
            opening: true,
            granted: false,
            thins: false,
            phase: Phase::Idle,
            left: 0,
            spent: false,
            congested: false,
            largest: Bytes::ZERO,
            without: None,
            sent: Bytes::ZERO,
            delivered: Bytes::ZERO,
            approved: 0.0,
            ratio: 0,
        }
    }

    /// The rate to ask for in the middle of a connection, if it is worth asking: what can be sent in a round trip (RFC 4782, section
    /// 4.1), and after congestion no more than what fits since (section 4.8).
    fn useful_rate(&self, flight: Bytes, path: &Path, window: &Window) -> Option<Rate> {
        let rtt = path.srtt.or(path.handshake_rtt).filter(|_| self.granted && !self.spent)?;
        if path.queued == Bytes::ZERO {
            return (!self.congested).then_some(self.wanted); // not known yet, as with the SYN
        }
        let useful = path.queued + flight;
        let bytes = if self.congested { useful.min(self.largest) } else { useful };
        let rate = Rate::from_bytes_over(bytes, rtt.max(Span::from_nanos(1))).mul_f64(1.0 / share(path));
        (bytes.as_f64() > window.cwnd).then_some(rate.min(self.wanted))
    }

    fn ask(&mut self, flight: Bytes, path: &Path, window: &Window) -> LaunchStep {
        let Some(rate) = self.useful_rate(flight, path, window) else { return self.over() };
        self.phase = Phase::Asking { rate, rounds: 0 };
        LaunchStep::Stay
    }

    /// Denied. Where another request is allowed it is made: before any congestion (RFC 4782, section 4.8).
    fn denied(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> LaunchStep {
        grow(ack, path, window);
        if self.left == 0 || self.congested || !window.below_threshold() {
            return self.over();
        }
        self.left -= 1;
        self.without = Some(window.cwnd);
        self.ask(ack.in_flight, path, window)
    }

    /// An ACK while an answer is awaited.
    fn asking(&mut self, rate: Rate, rounds: u32, ack: &Ack<'_>, path: &Path, window: &mut Window) -> LaunchStep {
        match ack.network {
            Some(NetworkFeedback::QuickStart(rate)) => {
                grow(ack, path, window);
                self.without = Some(window.cwnd);
                self.approved(ack, rate, path, window)
            }
            Some(_) => self.denied(ack, path, window),
            None => {
                let rounds = rounds.saturating_add(u32::from(ack.round_start));
                if rounds > PATIENCE {
                    return self.denied(ack, path, window);
                }
                grow(ack, path, window);
                self.phase = Phase::Asking { rate, rounds };
                LaunchStep::Stay
            }
        }
    }

    /// The window that the approved rate fills in a round trip (RFC 4782, section 4.4): `R T / (MSS + H)` segments.
    fn approved(&mut self, ack: &Ack<'_>, rate: Rate, path: &Path, window: &mut Window) -> LaunchStep {
        let handshake = path.handshake_rtt.filter(|_| self.without.is_none());
        let Some(rtt) = handshake.or(ack.rtt.map(|sample| sample.rtt)).or(path.srtt) else { return self.over() };
        let payload = rate.mul_f64(share(path));
        let approved = payload.bytes_in(rtt).as_f64();
        if approved <= window.cwnd {
            return self.over();
        }
        (window.cwnd, self.approved) = (approved, approved);
        (self.sent, self.delivered) = (Bytes::ZERO, Bytes::ZERO);
        let ratio = approved / path.mss.as_f64().max(1.0) / ACKS;
        self.ratio = if self.thins { ratio as u8 } else { 0 }; // saturating
        self.phase = Phase::Sending { pace: payload, until: ack.now + rtt.min(MAX_VALIDITY), earlier: ack.in_flight };
        LaunchStep::Stay
    }

    fn over(&mut self) -> LaunchStep {
        self.phase = Phase::Idle;
        LaunchStep::Done
    }

    /// The least window after an approval that was not used up.
    fn floor(&self, path: &Path) -> f64 {
        let initial = || initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        self.without.unwrap_or_else(initial)
    }

    /// An ACK in the round trip of the approval: of what had left before, as ever (RFC 4782, section 4.4); or the first of the flight,
    /// when the window becomes what was sent, and not what might have been.
    fn sending(&mut self, earlier: Bytes, ack: &Ack<'_>, path: &Path, window: &mut Window) -> LaunchStep {
        if ack.delivered <= earlier {
            if let Phase::Sending { earlier, .. } = &mut self.phase {
                *earlier -= ack.delivered;
            }
            return LaunchStep::Stay;
        }
        window.cwnd = self.sent.as_f64().max(self.floor(path));
        self.phase = Phase::Validating;
        self.validate(ack.delivered - earlier, ack, path, window)
    }

    /// Until the whole flight is delivered the window grows as in Limited Slow-Start.
    fn validate(&mut self, delivered: Bytes, ack: &Ack<'_>, path: &Path, window: &mut Window) -> LaunchStep {
        self.delivered += delivered;
        grow(ack, path, window);
        if self.delivered < self.sent {
            return LaunchStep::Stay;
        }
        self.phase = Phase::Easing;
        self.ease(window)
    }

    /// The ratio of ACKs halves each round trip (RFC 4782, section 4.5); until it is two again the window grows as before.
    fn ease(&mut self, window: &Window) -> LaunchStep {
        if self.asked_ratio() > 0 && window.below_threshold() { LaunchStep::Stay } else { self.over() }
    }

    /// Segments for an ACK, where more than two are to be asked for.
    const fn asked_ratio(&self) -> u8 {
        match self.phase {
            Phase::Sending { .. } | Phase::Validating | Phase::Easing if self.ratio > 2 => self.ratio,
            _ => 0,
        }
    }

    /// Congestion: what was in flight before says nothing any more.
    fn on_congestion(&mut self) {
        (self.congested, self.largest) = (true, Bytes::ZERO);
    }
}

/// The part of what is sent that is payload.
fn share(path: &Path) -> f64 {
    let mss = path.mss.as_f64().max(1.0);
    mss / (mss + HEADERS)
}

/// The window grows as in Limited Slow-Start (RFC 3742), as far as its threshold.
fn grow(ack: &Ack<'_>, path: &Path, window: &mut Window) {
    if !ack.cwnd_limited || !window.below_threshold() {
        return;
    }
    let bytes = ack.delivered.as_f64() / divisor(window.cwnd, MAX_SSTHRESH * path.mss.as_f64());
    window.cwnd = (window.cwnd + bytes).min(window.ssthresh);
}

impl Stage for QuickStart {
    fn needs(&self) -> Needs {
        let preferred = Demands {
            network_header: Some(NetworkHeaderKind::QuickStart),
            pacing: true,
            whole_window: true,
            ack_cadence: AckCadence::Varied,
            ..Demands::default()
        };
        Needs { preferred, ..Needs::default() }
    }

    /// Where nobody answers, growth begins as usual.
    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        self.opening = false;
        self.granted = granted.network_header == Some(NetworkHeaderKind::QuickStart) && granted.pacing;
        self.thins = granted.ack_cadence;
        Ok(())
    }

    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        if matches!(ack.episode, Episode::Enter | Episode::Again) || ack.ecn.congestion {
            self.on_congestion();
        } else {
            self.largest = self.largest.max(ack.prior_in_flight);
        }
        true
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
        let plain = Overlay { ack_ratio: self.asked_ratio(), ..Overlay::default() };
        match self.phase {
            Phase::Idle if self.opening => {
                Overlay { header: Some(NetworkHeader::QuickStart { rate: self.wanted }), ..plain }
            }
            Phase::Asking { rate, .. } => Overlay { header: Some(NetworkHeader::QuickStart { rate }), ..plain },
            Phase::Sending { pace, .. } => Overlay { pace: Some(Pace { rate: pace, quantum: None }), ..plain },
            _ => plain,
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
    /// The SYN has asked; after a pause the first data does. A connection that was never idle asks again only if it is told to.
    fn begin(&mut self, opening: Opening, _now: Time, path: &Path, window: &mut Window) -> LaunchStep {
        match opening {
            Opening::Connection if self.granted => {
                (self.left, self.without) = (self.again, None);
                self.phase = Phase::Waiting;
                LaunchStep::Stay
            }
            Opening::Idle => {
                (self.left, self.without) = (0, Some(window.cwnd));
                self.ask(Bytes::ZERO, path, window)
            }
            Opening::Timeout => {
                self.on_congestion();
                self.over()
            }
            Opening::Connection | Opening::Asked => self.over(),
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> LaunchStep {
        if ack.round_start && matches!(self.phase, Phase::Validating | Phase::Easing) {
            self.ratio /= 2;
        }
        match (self.phase, ack.network) {
            (Phase::Waiting, Some(NetworkFeedback::QuickStart(rate))) => self.approved(ack, rate, path, window),
            (Phase::Waiting, Some(_)) if self.left > 0 => self.denied(ack, path, window),
            (Phase::Asking { rate, rounds }, _) => self.asking(rate, rounds, ack, path, window),
            (Phase::Sending { earlier, .. }, _) => self.sending(earlier, ack, path, window),
            (Phase::Validating, _) => self.validate(ack.delivered, ack, path, window),
            (Phase::Easing, _) => {
                grow(ack, path, window);
                self.ease(window)
            }
            (Phase::Repairing, _) => {
                self.delivered += ack.delivered;
                if accounted_for(ack, self.delivered, self.sent) { self.over() } else { LaunchStep::Stay }
            }
            _ => self.over(),
        }
    }

    /// A loss or a mark in the flight. At the beginning: slow start from the initial window, up to half of what was delivered (RFC
    /// 4782, section 4.6). Later: half of the approved window, or the one without an approval if that is less (section 4.8).
    fn on_loss(&mut self, loss: &Loss<'_>, path: &Path, window: &mut Window) -> LaunchVerdict {
        match self.phase {
            Phase::Sending { .. } | Phase::Validating => {}
            // Among data that a mark was answered for already.
            Phase::Repairing if loss.signal == Signal::Loss => {
                self.delivered += loss.ack.delivered;
                return LaunchVerdict::Handled;
            }
            _ => return LaunchVerdict::Delegate,
        }
        self.spent = true;
        self.delivered += loss.ack.delivered;
        let least = 2.0 * path.mss.as_f64();
        window.ssthresh = window.ssthresh.min(self.delivered.as_f64() / 2.0).max(least);
        let most = self.without.map_or(f64::INFINITY, |_| self.approved / 2.0);
        window.cwnd = window.cwnd.min(self.floor(path)).min(most).max(path.mss.as_f64());
        self.phase = Phase::Repairing;
        LaunchVerdict::Handled
    }

    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> LaunchStep {
        match self.phase {
            // Nothing was sent in time: the approval is void.
            Phase::Sending { until, .. } if until <= now && self.sent == Bytes::ZERO => {
                window.cwnd = self.floor(path);
                self.over()
            }
            _ => LaunchStep::Stay,
        }
    }

    fn on_timeout(&mut self, _timeout: &Timeout, path: &Path, window: &mut Window) {
        if matches!(self.phase, Phase::Sending { .. }) {
            window.cwnd = window.cwnd.min(self.sent.as_f64().max(self.floor(path)));
        }
    }

    fn abort(&mut self) {
        self.spent |= matches!(self.phase, Phase::Sending { .. } | Phase::Validating);
        self.phase = Phase::Idle;
    }
}

#[cfg(test)]
mod tests;
