//! Tail loss probes (RFC 8985, section 7).

use longhaul_units::{Span, Time};

use super::super::Connection;
use super::super::timers::Timer;
use super::AckOutcome;

/// RFC 8985, section 7.2: the probe timeout allows for a peer that delays its ACK of a lone segment.
const MAX_ACK_DELAY: Span = Span::from_millis(200);
/// The probe timeout is no shorter, however short the path: a peer whose process waits for its turn on the CPU is
/// late by this much (QUIC allows 25 ms for the like, RFC 9002, section 6.2.1).
const MIN_PROBE_TIMEOUT: Span = Span::from_millis(25);
/// RFC 8985, section 7.2: without an RTT sample.
const BLIND_PROBE_TIMEOUT: Span = Span::from_secs(1);

/// The tail loss probe in flight (RFC 8985, section 7.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct TailProbe {
    end: u64,
    retransmission: bool,
}

impl Connection {
    /// RFC 8985, section 7.4.2: whether the tail loss probe repaired a loss.
    pub(super) fn check_tail_probe(&mut self, ack: &AckOutcome) {
        let Some(probe) = self.loss.tail_probe.filter(|p| self.snd.una >= p.end) else { return };
        let reported = ack.dsack.is_some_and(|(_, right)| right == probe.end);
        let beyond = self.snd.una > probe.end;
        if !probe.retransmission || reported || beyond || (ack.duplicate && ack.newly_sacked == 0) {
            self.loss.tail_probe = None;
        }
        self.loss.tail_repaired = probe.retransmission && !reported && beyond;
    }

    pub(super) fn probe_deadline(&self, now: Time) -> Time {
        let mut wait = match self.rtt.srtt() {
            Some(srtt) => (srtt * 2).max(MIN_PROBE_TIMEOUT),
            None => BLIND_PROBE_TIMEOUT,
        };
        if self.snd.board.len() == 1 {
            wait += MAX_ACK_DELAY;
        }
        let at = now + wait;
        self.timers.get(Timer::Rto).map_or(at, |rto| at.min(rto))
    }

    /// RFC 8985, section 7.3: a new segment if there is one, else the last sent.
    pub(in super::super) fn on_probe_timeout(&mut self, now: Time) {
        if self.loss.is_repairing() {
            // Unless the retransmission timer was due at the same time, an outage is probed.
            self.probe_outage(now);
            return;
        }
        self.loss.probe_allowed = false;
        let window = self.snd.window_edge().saturating_sub(self.snd.nxt);
        if self.snd.unsent() > 0 && window >= u64::from(self.mss()).min(self.snd.unsent()) {
            self.loss.extra = 1;
            self.loss.tail_probe = Some(TailProbe { end: self.snd.nxt, retransmission: false });
        } else if let Some((index, record)) = self.snd.board.last_unsacked() {
            self.loss.tail_probe = Some(TailProbe { end: record.end(), retransmission: true });
            self.loss.probe = Some(index);
        }
        self.loss.forced = true;
        self.timers.arm(Timer::Rto, now + self.rtt.rto());
        self.stats.tail_probes += 1;
    }
}
