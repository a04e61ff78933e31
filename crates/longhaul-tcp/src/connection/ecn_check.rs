//! Whether the peer echoes congestion marks: where there are losses, or all is quiet for long, a mark is made, and its echo
//! waited for (RFC 3168, section 20.2).

use longhaul_wire::Ecn;

use super::Connection;
use crate::info::add;

/// Round trips that make one ground for suspicion, as each loss episode does. A law that goes by delay may lose nothing at all
/// beside others, once it hears of no marks: grounds by losses alone let Vegas keep 15 % more than it has without ECN.
const QUIET_ROUNDS: u32 = 50;
/// From each echo to the next question it takes twice as many grounds, from one up to these: RFC 3168 asks for it to be done
/// sparingly.
const MOST: u32 = 24;
/// Echoes that may be missing. Not one: the network has cleared marks for a while, or was changed under the connection.
const MAX_MISSING: u64 = 2;

/// What is known of the peer's echoes.
#[derive(Clone, Copy, Debug)]
pub(super) struct EcnCheck {
    /// Grounds for suspicion since the peer was last seen to echo a mark of ours.
    grounds: u32,
    /// Round trips that do not count among those yet.
    rounds: u32,
    /// How many grounds make the next question.
    patience: u32,
    asked: Option<Asked>,
    /// Segments that left marked, and those whose mark was not echoed.
    marked: u64,
    missing: u64,
}

/// The segment that left with "congestion experienced".
#[derive(Clone, Copy, Debug)]
struct Asked {
    start: u64,
    end: u64,
    delivered: bool,
}

impl Default for EcnCheck {
    fn default() -> Self {
        Self { grounds: 0, rounds: 0, patience: 1, asked: None, marked: 0, missing: 0 }
    }
}

impl EcnCheck {
    /// Losses were found where there were none, as on a path that drops and does not mark. Echoes in between do not count
    /// against that: who echoes now and then would else conceal the rest, and honest peers are asked ever less.
    pub(super) fn on_episode(&mut self) {
        self.grounds = self.grounds.saturating_add(1);
    }

    /// A round trip begins.
    pub(super) fn on_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= QUIET_ROUNDS {
            self.rounds = 0;
            self.on_episode();
        }
    }

    /// Whether the peer is suspected, and is not being asked.
    pub(super) fn is_due(&self) -> bool {
        self.grounds >= self.patience && self.asked.is_none() && !self.has_failed()
    }

    pub(super) fn on_sent(&mut self, start: u64, end: u64) {
        add(&mut self.marked, 1);
        self.asked = Some(Asked { start, end, delivered: false });
    }

    /// Where the segment begins whose mark is to be echoed.
    pub(super) fn asked_at(&self) -> Option<u64> {
        self.asked.map(|asked| asked.start)
    }

    /// It was delivered. If it was not sent just `once`, what has come may be a copy without the mark: nothing is learnt.
    pub(super) fn on_delivered(&mut self, once: bool) {
        self.asked = self.asked.filter(|_| once).map(|asked| Asked { delivered: true, ..asked });
    }

    /// Digests an ACK up to `una`, and whether it has an echo: whether that is of our own mark. One that comes before the
    /// segment is of a mark of the network, and the answer to it, which ends all echoes, may overtake the question's.
    pub(super) fn on_ack(&mut self, una: u64, echo: bool) -> bool {
        let Some(asked) = self.asked else { return false };
        let delivered = asked.delivered || una >= asked.end;
        if echo {
            self.asked = None;
            if delivered {
                self.grounds = 0;
                self.patience = (self.patience * 2).min(MOST);
            }
            return delivered;
        }
        if una >= asked.end {
            self.asked = None;
            add(&mut self.missing, 1);
        }
        false
    }

    /// Whether so many echoes were missing that marks are no use on this connection.
    pub(super) const fn has_failed(&self) -> bool {
        self.missing >= MAX_MISSING
    }

    /// Segments that left marked, and those whose mark was not echoed.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.marked, self.missing)
    }
}

impl Connection {
    /// The ECN field of the next new segment, of `len` bytes of payload: the peer is asked when no echo is under way.
    pub(super) fn next_ecn(&self, len: u16, mtu_probe: bool) -> Ecn {
        let usual = self.ecn();
        let may_ask = self.ext.ecn_check.is_due()
            && usual != Ecn::NotEct
            && !self.snd.cwr_due
            // Without SACK what was sent twice is often not to be told from what was not, and an honest echo costs a decrease.
            && self.negotiated.sack
            && self.snd.una > self.snd.ece_answered_until
            && !self.loss.is_repairing()
            && len > 0
            && !mtu_probe;
        if may_ask { Ecn::Ce } else { usual }
    }

    /// The new segment of these offsets leaves, and carries a mark if `ecn` says so.
    pub(super) fn note_ecn(&mut self, ecn: Ecn, start: u64, end: u64) {
        if ecn == Ecn::Ce {
            self.ext.ecn_check.on_sent(start, end);
        }
    }
}
