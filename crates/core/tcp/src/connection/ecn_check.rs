//! Validation of the peer's ECN echoes: the sender occasionally sends a segment with CE itself and checks that the peer
//! echoes the mark (RFC 3168, section 20.2). Loss episodes and long periods without losses are reasons for a test. The
//! module also detects a path that drops ECN-capable segments.

use longhaul_cc::EcnMark;
use longhaul_wire::Ecn;

use crate::{EcnState, add};

/// Number of round trips that count as one reason for a test, like a loss episode. A delay-based algorithm that
/// receives no marks may compete with other flows without any loss: with tests after losses alone, Vegas keeps 15 %
/// more throughput than without ECN.
const QUIET_ROUNDS: u32 = 50;
/// Upper bound of the number of reasons for a test. It starts at one and doubles with each echo, because RFC 3168
/// recommends testing sparingly.
const MOST: u32 = 24;
/// Number of missing echoes after which ECN is no longer used. A single one may be due to a path that temporarily
/// clears marks, or to a path change.
const MAX_MISSING: u64 = 2;
/// Number of consecutive flights after which ECN is no longer used if only retransmissions arrive, which are not
/// ECN-capable. A single lost flight may be due to an outage; with 5 % loss, the probability that three messages of one
/// segment in a row are lost is 1 in 8,000.
const MAX_DROPPED: u8 = 3;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnCheck {
    /// Number of reasons for a test since the peer last echoed one of our marks.
    reasons: u32,
    /// Number of round trips since the last one that counted as a reason.
    rounds: u32,
    echoed: u32,
    asked: Option<EchoTest>,
    /// Number of segments that were marked, and of marks that were not echoed.
    pub(super) marked: u64,
    pub(super) missing: u64,
    /// Start offset of the next flight whose loss counts.
    next_flight: u64,
    /// Number of flights since the last ECN-capable segment arrived of which only retransmissions have arrived.
    dropped: u8,
    /// Whether ECN is not used after all: a SYN or SYN-ACK without ECN setup was sent, or an earlier connection has
    /// found that the path drops ECN-capable segments.
    pub(super) is_off: bool,
}

#[derive(Clone, Copy, Debug)]
struct EchoTest {
    start: u64,
    end: u64,
    delivered: bool,
}

impl EcnCheck {
    /// Counts a loss episode, whose cause may be a path that drops packets instead of marking them. Echoes in between
    /// do not reset the count: otherwise occasional echoes would conceal missing ones. Peers that echo our marks are
    /// tested ever less frequently.
    pub(super) fn on_episode(&mut self) {
        self.reasons = self.reasons.saturating_add(1);
    }

    pub(super) fn on_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= QUIET_ROUNDS {
            self.rounds = 0;
            self.on_episode();
        }
    }

    /// Returns whether a test is due and none is in progress.
    pub(super) fn is_due(&self) -> bool {
        // The number of reasons that are needed doubles with each echo.
        self.reasons >= 1_u32.checked_shl(self.echoed).unwrap_or(MOST).min(MOST)
            && self.asked.is_none()
            && !self.has_failed()
    }

    pub(super) fn on_sent(&mut self, start: u64, end: u64) {
        add(&mut self.marked, 1);
        self.asked = Some(EchoTest { start, end, delivered: false });
    }

    /// Returns the start of the segment whose mark is to be echoed.
    pub(super) fn asked_at(&self) -> Option<u64> {
        self.asked.map(|asked| asked.start)
    }

    /// Records the delivery of the marked segment. If it was sent more than `once`, an unmarked copy may have
    /// arrived, and the test is void.
    pub(super) fn on_delivered(&mut self, once: bool) {
        self.asked = self.asked.filter(|_| once).map(|asked| EchoTest { delivered: true, ..asked });
    }

    /// Processes an ACK up to `una`. Returns whether its echo belongs to our own mark. An echo before the segment's
    /// delivery belongs to a mark by the network. CWR in response to that may also end our echo, so the test is void.
    pub(super) fn on_ack(&mut self, una: u64, echo: bool) -> bool {
        let Some(asked) = self.asked else { return false };
        let delivered = asked.delivered || una >= asked.end;
        if echo {
            self.asked = None;
            if delivered {
                (self.reasons, self.echoed) = (0, self.echoed.saturating_add(1));
            }
            return delivered;
        }
        if una >= asked.end {
            self.asked = None;
            add(&mut self.missing, 1);
        }
        false
    }

    /// Records the arrival of a segment that starts at `start`: the ECN-capable transmission, or a `retransmission`,
    /// while data up to `nxt` has been sent. A path that drops ECN-capable segments passes only retransmissions (RFC
    /// 3168, section 6.1.5). A flight counts if it was first sent after the loss of the previously counted flight was
    /// recovered.
    pub(super) fn on_arrival(&mut self, start: u64, retransmission: bool, nxt: u64) {
        if self.drops_ect() {
            return;
        }
        if !retransmission {
            (self.next_flight, self.dropped) = (0, 0);
        } else if start >= self.next_flight {
            (self.next_flight, self.dropped) = (nxt, self.dropped + 1);
        }
    }

    pub(super) const fn drops_ect(&self) -> bool {
        self.dropped >= MAX_DROPPED
    }

    /// Returns whether segments are no longer sent as ECN-capable: echoes were missing, ECN-capable segments do not
    /// arrive, or ECN was [turned off](Self::turn_off).
    pub(super) const fn has_failed(&self) -> bool {
        self.missing >= MAX_MISSING || self.drops_ect() || self.is_off
    }

    /// Returns the ECN field of new data segments, as requested by the controller, given whether ECN was `negotiated`.
    pub(super) fn codepoint(&self, wanted: EcnMark, negotiated: bool) -> Ecn {
        match wanted {
            _ if !negotiated || self.has_failed() => Ecn::NotEct,
            EcnMark::Ect0 => Ecn::Ect0,
            EcnMark::Ect1 => Ecn::Ect1,
            EcnMark::NotEct => Ecn::NotEct,
        }
    }

    pub(super) fn state(&self, negotiated: bool) -> EcnState {
        match () {
            () if !negotiated => EcnState::Off,
            () if self.has_failed() => EcnState::Failed,
            () if self.asked.is_some() => EcnState::Testing,
            () => EcnState::Capable,
        }
    }
}
