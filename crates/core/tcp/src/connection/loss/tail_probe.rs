//! Tail loss probes (RFC 8985, section 7).

use longhaul_units::{Span, Time};

use super::AckOutcome;
use crate::RttEstimator;
use crate::connection::{Loss, Sender, Timer, Timers};

/// Allowance for a delayed ACK of a single outstanding segment (RFC 8985, section 7.2).
const MAX_ACK_DELAY: Span = Span::from_millis(200);
/// Minimum probe timeout. On short paths it allows for the scheduling delay of the peer's process (RFC 9002, section
/// 6.2.1, uses 25 ms for the same purpose).
const MIN_PROBE_TIMEOUT: Span = Span::from_millis(25);
/// Probe timeout without an RTT sample (RFC 8985, section 7.2).
const BLIND_PROBE_TIMEOUT: Span = Span::from_secs(1);

/// State of tail loss probes (RFC 8985, section 7.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TailLossProbe {
    pub(super) in_flight: Option<InFlight>,
    /// Whether no RTT sample was taken since the last probe (RFC 8985, section 7.3).
    pub(crate) waits_for_sample: bool,
    /// Whether a probe has retransmitted a segment that was lost.
    pub(super) was_needed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    end: u64,
    retransmission: bool,
}

impl TailLossProbe {
    pub(super) fn may_send(&self) -> bool {
        !self.waits_for_sample && self.in_flight.is_none()
    }

    pub(super) fn send(&mut self, end: u64, retransmission: bool) {
        self.in_flight = Some(InFlight { end, retransmission });
    }

    /// Checks whether an ACK up to `una` shows that the probe retransmitted a lost segment (RFC 8985, section 7.4.2).
    pub(super) fn on_ack(&mut self, una: u64, ack: &AckOutcome) {
        let Some(probe) = self.in_flight.filter(|probe| una >= probe.end) else { return };
        let reported = ack.dsack.is_some_and(|(_, right)| right == probe.end);
        let beyond = una > probe.end;
        if !probe.retransmission || reported || beyond || (ack.duplicate && ack.newly_sacked == 0) {
            self.in_flight = None;
        }
        self.was_needed = probe.retransmission && !reported && beyond;
    }
}

/// Returns the probe timeout (RFC 8985, section 7.2).
pub(super) fn deadline(now: Time, rtt: &RttEstimator, outstanding: usize, timers: &Timers) -> Time {
    let mut wait = match rtt.srtt {
        Some(srtt) => (srtt * 2).max(MIN_PROBE_TIMEOUT),
        None => BLIND_PROBE_TIMEOUT,
    };
    if outstanding == 1 {
        wait += MAX_ACK_DELAY;
    }
    let at = now + wait;
    timers.get(Timer::Rto).map_or(at, |rto| at.min(rto))
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per mechanism")]
impl Loss {
    /// Permits a tail loss probe (RFC 8985, section 7.3): a new segment if possible, else the last one sent.
    pub(crate) fn send_tail_probe(&mut self, snd: &Sender, mss: u16) {
        self.tail.waits_for_sample = true;
        let window = snd.usable_window();
        if snd.unsent() > 0 && window >= u64::from(mss).min(snd.unsent()) {
            self.grant.extra = 1;
            self.tail.send(snd.nxt, false);
        } else if let Some((index, record)) = snd.board.last_unsacked() {
            self.tail.send(record.end(), true);
            self.grant.probe = Some(index);
        }
        self.grant.forced = true;
    }
}
