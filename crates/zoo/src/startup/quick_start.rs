//! Quick-Start (RFC 4782): the routers of the path approve a rate, requested on the SYN or on the first data after an
//! idle period, and the data of the following round trip is paced at this rate.

use longhaul_cc::compose::{
    LossEvent, Opening, Overlay, Signal, Stage, Startup, StartupResponse, Step, Window, accounted_for,
};
use longhaul_cc::internal::divisor;
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{
    Ack, AckFrequency, Demands, Episode, Granted, NeedError, Needs, NetworkFeedback, NetworkHeader, NetworkHeaderKind,
    Pace, Path, SegmentKind, Sent, Timeout, initial_window, update,
};
use longhaul_units::{Bytes, Rate, Span, Time};

use crate::router_assisted::HEADERS;

pub(crate) static ENTRY: Entry = Entry::startup("quick-start", |values| Box::new(QuickStart::from_values(values)))
    .described("sends the first flight at the rate that the path's routers approve; needs their answer", "RFC 4782")
    .with_options(QuickStart::OPTIONS)
    .tested_in(&["quick-start+limited-slow-start+new-reno", "quick-start+limited-slow-start+cubic"])
    .internet_safe();

/// Upper bound of the validity of an approval, which is otherwise one round trip (RFC 4782, section 4.4).
const MAX_VALIDITY: Span = Span::from_secs(3);
/// `max_ssthresh` of Limited Slow-Start in segments (RFC 3742). The window grows by that algorithm while the flight is
/// validated.
const MAX_SSTHRESH: f64 = 100.0;
/// Maximum number of pure ACKs per round trip that the receiver is asked to send (RFC 4782, section 4.5).
const ACKS: f64 = 100.0;
/// Number of round trips within which an answer must arrive. The request is sent on data, which the transport may not
/// have at once.
const PATIENCE: u32 = 2;

longhaul_cc::options! {
    pub(crate) struct QuickStart {
        wanted: Rate [|kilobits: u64| Rate::from_bits_per_sec(kilobits.saturating_mul(1000))] =
            OptionSpec::int("rate", 80, 1_310_720, 20_480, "requested rate, kb/s, rounded up to 40 x 2^n"),
        again: u64 = OptionSpec::int(
            "again", 0, 100, 0,
            "number of repeated requests, one per RTT, until one is approved or a loss occurs",
        ),
        /// Whether the handshake is still in progress, so that the request is sent on the SYN.
        opening: bool => true,
        granted: bool => false,
        /// Whether the receiver can be asked to send fewer ACKs.
        thins: bool => false,
        phase: Phase => Phase::Idle,
        /// Number of requests that remain for this opening.
        left: u64 => 0,
        /// Whether a flight had losses, after which there are no further requests.
        spent: bool => false,
        /// Whether there was a loss, an ECN mark or a timeout, and the largest flight since then.
        congested: bool => false,
        largest: Bytes => Bytes::ZERO,
        /// Window without an approval, unless the connection has just started.
        without: Option<f64> => None,
        /// Bytes of the flight sent and delivered.
        sent: Bytes => Bytes::ZERO,
        delivered: Bytes => Bytes::ZERO,
        approved: f64 => 0.0,
        /// Number of segments per ACK that the receiver is asked to use.
        ratio: u8 => 0,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    Idle,
    /// The answer to the request on the SYN is awaited.
    Waiting,
    /// The next data segment requests this rate. Until the answer arrives, the window grows as usual. `rounds` is the
    /// number of round trips so far.
    Asking {
        rate: Rate,
        rounds: u32,
    },
    /// A rate is approved. Data is paced at it until the first ACK of the flight, or until the approval expires unused.
    /// `earlier` is the data that was in flight before.
    Sending {
        pace: Rate,
        until: Time,
        earlier: Bytes,
    },
    /// The flight has been sent and is not yet fully acknowledged.
    Validating,
    /// The flight is acknowledged, and the ACK frequency is raised step by step.
    Easing,
    /// Part of the flight was lost, and recovery proceeds as without an approval.
    Recovery,
}

impl QuickStart {
    /// Returns the rate to request within a connection, if a request is useful: the data that can be sent in a round
    /// trip (RFC 4782, section 4.1). After congestion, it is limited to the largest flight since then (section 4.8).
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

    fn ask(&mut self, flight: Bytes, path: &Path, window: &Window) -> Step {
        let Some(rate) = self.useful_rate(flight, path, window) else { return self.over() };
        self.phase = Phase::Asking { rate, rounds: 0 };
        Step::Stay
    }

    /// Handles a denial: makes another request if allowed, which requires that there was no congestion (RFC 4782,
    /// section 4.8).
    fn denied(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        grow(ack, path, window);
        if self.left == 0 || self.congested || !window.below_threshold() {
            return self.over();
        }
        self.left -= 1;
        self.without = Some(window.cwnd);
        self.ask(ack.in_flight, path, window)
    }

    fn asking(&mut self, rate: Rate, rounds: u32, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
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
                Step::Stay
            }
        }
    }

    /// Sets the window to the amount that the approved rate fills in a round trip (RFC 4782, section 4.4): `R T /
    /// (MSS + H)` segments.
    fn approved(&mut self, ack: &Ack<'_>, rate: Rate, path: &Path, window: &mut Window) -> Step {
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
        Step::Stay
    }

    fn over(&mut self) -> Step {
        self.phase = Phase::Idle;
        Step::Done
    }

    /// Returns the lower bound of the window after an approval that was not used up.
    fn floor(&self, path: &Path) -> f64 {
        let initial = || initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        self.without.unwrap_or_else(initial)
    }

    /// Processes an ACK in the round trip of the approval. ACKs of data sent before it have no effect (RFC 4782,
    /// section 4.4). At the first ACK of the flight, the window becomes the amount that was sent, not the amount that
    /// was allowed.
    fn sending(&mut self, earlier: Bytes, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        if ack.delivered <= earlier {
            if let Phase::Sending { earlier, .. } = &mut self.phase {
                *earlier -= ack.delivered;
            }
            return Step::Stay;
        }
        window.cwnd = self.sent.as_f64().max(self.floor(path));
        self.phase = Phase::Validating;
        self.validate(ack.delivered - earlier, ack, path, window)
    }

    /// Increases the window as in Limited Slow-Start until the whole flight is delivered.
    fn validate(&mut self, delivered: Bytes, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        self.delivered += delivered;
        grow(ack, path, window);
        if self.delivered < self.sent {
            return Step::Stay;
        }
        self.phase = Phase::Easing;
        self.ease(window)
    }

    /// Ends the start when the ACK ratio, which halves per round trip, has returned to two (RFC 4782, section 4.5), or
    /// when the window reaches its threshold. Until then, the window grows as before.
    fn ease(&mut self, window: &Window) -> Step {
        if self.asked_ratio() > 0 && window.below_threshold() { Step::Stay } else { self.over() }
    }

    /// Returns the segments per ACK to request, if more than two.
    const fn asked_ratio(&self) -> u8 {
        match self.phase {
            Phase::Sending { .. } | Phase::Validating | Phase::Easing if self.ratio > 2 => self.ratio,
            _ => 0,
        }
    }

    /// Records congestion. From then on, requests are limited to the largest flight since then.
    fn on_congestion(&mut self) {
        (self.congested, self.largest) = (true, Bytes::ZERO);
    }
}

fn share(path: &Path) -> f64 {
    let mss = path.mss.as_f64().max(1.0);
    mss / (mss + HEADERS)
}

/// Increases the window as in Limited Slow-Start (RFC 3742), up to its threshold.
fn grow(ack: &Ack<'_>, path: &Path, window: &mut Window) {
    if !ack.cwnd_limited || !window.below_threshold() {
        return;
    }
    let bytes = ack.delivered.as_f64() / divisor(window.cwnd, MAX_SSTHRESH * path.mss.as_f64());
    window.cwnd = (window.cwnd + bytes).min(window.ssthresh);
}

impl Stage for QuickStart {
    fn needs(&self) -> Needs {
        let preferred = update!(Demands {
            network_header: Some(NetworkHeaderKind::QuickStart),
            pacing: true,
            whole_window: true,
            ack_frequency: AckFrequency::Varied,
            ..Demands::default()
        });
        update!(Needs { preferred, ..Needs::default() })
    }

    /// If the routers or the peer do not support Quick-Start, the slow-start variant begins as usual.
    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        self.opening = false;
        self.granted = granted.network_header == Some(NetworkHeaderKind::QuickStart) && granted.pacing;
        self.thins = granted.ack_frequency;
        Ok(())
    }

    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        if matches!(ack.episode, Episode::Enter | Episode::Again) || ack.ecn_echo {
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
        let plain = update!(Overlay { ack_ratio: self.asked_ratio(), ..Overlay::default() });
        match self.phase {
            Phase::Idle if self.opening => {
                update!(Overlay { header: Some(NetworkHeader::QuickStart { rate: self.wanted }), ..plain })
            }
            Phase::Asking { rate, .. } => {
                update!(Overlay { header: Some(NetworkHeader::QuickStart { rate }), ..plain })
            }
            Phase::Sending { pace, .. } => update!(Overlay { pace: Some(Pace::new(pace)), ..plain }),
            _ => plain,
        }
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Recovery => "recovery",
            Phase::Idle => "handshake",
            _ => "quick-start",
        }
    }
}

impl Startup for QuickStart {
    /// Begins with the answer to the SYN's request, or with a request on the first data after an idle period. A
    /// connection without an idle period makes further requests only if so configured.
    fn begin(&mut self, opening: Opening, _now: Time, path: &Path, window: &mut Window) -> Step {
        match opening {
            Opening::Connection if self.granted => {
                (self.left, self.without) = (self.again, None);
                self.phase = Phase::Waiting;
                Step::Stay
            }
            Opening::Idle => {
                (self.left, self.without) = (0, Some(window.cwnd));
                self.ask(Bytes::ZERO, path, window)
            }
            Opening::Timeout => {
                self.on_congestion();
                self.over()
            }
            _ => self.over(),
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
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
            (Phase::Recovery, _) => {
                self.delivered += ack.delivered;
                if accounted_for(ack, self.delivered, self.sent) { self.over() } else { Step::Stay }
            }
            _ => self.over(),
        }
    }

    /// Responds to a loss or an ECN mark in the flight. At the beginning of a connection, slow start from the initial
    /// window follows, up to half of the bytes delivered (RFC 4782, section 4.6). Later in a connection, the window is
    /// half of the approved one, or the window without an approval if that is smaller (section 4.8).
    fn on_loss(&mut self, loss: &LossEvent<'_>, path: &Path, window: &mut Window) -> StartupResponse {
        match self.phase {
            Phase::Sending { .. } | Phase::Validating => {}
            // A loss in data for which an ECN mark has already caused a response.
            Phase::Recovery if loss.signal == Signal::Loss => {
                self.delivered += loss.ack.delivered;
                return StartupResponse::Handled;
            }
            _ => return StartupResponse::Delegate,
        }
        self.spent = true;
        self.delivered += loss.ack.delivered;
        let least = 2.0 * path.mss.as_f64();
        window.ssthresh = window.ssthresh.min(self.delivered.as_f64() / 2.0).max(least);
        let most = self.without.map_or(f64::INFINITY, |_| self.approved / 2.0);
        window.cwnd = window.cwnd.min(self.floor(path)).min(most).max(path.mss.as_f64());
        self.phase = Phase::Recovery;
        StartupResponse::Handled
    }

    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> Step {
        match self.phase {
            // Nothing was sent in time, so the approval has expired.
            Phase::Sending { until, .. } if until <= now && self.sent == Bytes::ZERO => {
                window.cwnd = self.floor(path);
                self.over()
            }
            _ => Step::Stay,
        }
    }

    fn on_timeout(&mut self, _timeout: &Timeout, path: &Path, window: &mut Window) -> Option<f64> {
        if matches!(self.phase, Phase::Sending { .. }) {
            window.cwnd = window.cwnd.min(self.sent.as_f64().max(self.floor(path)));
        }
        None
    }

    fn abort(&mut self) {
        self.spent |= matches!(self.phase, Phase::Sending { .. } | Phase::Validating);
        self.phase = Phase::Idle;
    }
}

#[cfg(test)]
mod tests;
