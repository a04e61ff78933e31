//! ACK frequency: fewer ACKs are requested where they fill a queue of the reverse path (RFC 5690 has the same aim).
//!
//! Where the peer does not grant it, nothing changes.

/// Queueing delay of the reverse path from which fewer ACKs are requested: fraction of the RTT, and least in seconds.
const LONG: (f64, f64) = (0.125, 0.005);
/// Segments per ACK of a receiver that was not asked (RFC 5681, section 4.2), and at most.
const RATIO: (u8, u8) = (2, 32);
/// Minimum number of ACKs per window.
const PER_WINDOW: f64 = 8.0;
/// Round trips until a request shows an effect.
const RESPONSE_ROUNDS: u32 = 2;
/// Round trips without a queue after which more ACKs are requested again, at first and at most.
const PATIENCE: (u32, u32) = (50, 800);

/// Segments per ACK that are requested of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acks {
    ratio: u8,
    /// Round trips since the last request, and without a queue.
    since: u32,
    without: u32,
    /// Round trips without a queue after which more ACKs are requested.
    patience: u32,
    /// Whether the last request was for more ACKs.
    is_raised: bool,
}

impl Default for Acks {
    fn default() -> Self {
        Self { ratio: RATIO.0, since: u32::MAX, without: 0, patience: PATIENCE.0, is_raised: false }
    }
}

impl Acks {
    /// Handles the end of a round trip with a queueing delay of `queueing` seconds on the reverse path, an RTT without
    /// queues of `base` seconds, and a window of `window` segments.
    pub(super) fn on_round(&mut self, queueing: f64, base: f64, window: f64) {
        self.since = self.since.saturating_add(1);
        let most = (window / PER_WINDOW).clamp(f64::from(RATIO.0), f64::from(RATIO.1)) as u8;
        let wanted = if queueing > LONG.1.max(LONG.0 * base) {
            self.without = 0;
            if self.since < RESPONSE_ROUNDS { self.ratio } else { self.ratio.saturating_mul(2) }
        } else {
            self.without += 1;
            if self.without < self.patience { self.ratio } else { (self.ratio / 2).max(RATIO.0) }
        };
        let ratio = wanted.min(most);
        if ratio == self.ratio {
            return;
        }
        // More ACKs brought the queue back.
        let has_returned = self.is_raised && ratio > self.ratio && self.since < PATIENCE.0;
        self.is_raised = ratio < self.ratio;
        if has_returned {
            self.patience = self.patience.saturating_mul(2).min(PATIENCE.1);
        }
        (self.ratio, self.since, self.without) = (ratio, 0, 0);
    }

    /// Returns the segments per ACK to request, or zero for as many as the peer sends unasked.
    pub(super) const fn ratio(&self) -> u8 {
        if self.ratio > RATIO.0 { self.ratio } else { 0 }
    }
}
