//! ACK frequency: fewer ACKs are requested if they fill a queue of the reverse path (with the same aim as RFC 5690).
//!
//! If the peer does not grant it, nothing changes.

/// Queueing delay of the reverse path above which fewer ACKs are requested: fraction of the RTT, and minimum in
/// seconds.
pub(super) const LONG: (f64, f64) = (0.125, 0.005);
/// Number of segments per ACK of a receiver without a request (RFC 5681, section 4.2), and maximum.
const RATIO: (u8, u8) = (2, 32);
/// Minimum number of ACKs per window.
const PER_WINDOW: f64 = 8.0;
/// Number of round trips until a request shows an effect.
const RESPONSE_ROUNDS: u32 = 2;
/// Number of round trips without a queue after which more ACKs are requested again: initial value and maximum.
const PATIENCE: (u32, u32) = (50, 800);

#[derive(Clone, Copy, Debug)]
pub(super) struct Acks {
    ratio: u8,
    /// Number of round trips since the last request, and number without a queue.
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
        let is_long = queueing > LONG.1.max(LONG.0 * base);
        self.without = if is_long { 0 } else { self.without + 1 };
        let wanted = match is_long {
            true if self.since >= RESPONSE_ROUNDS => self.ratio.saturating_mul(2),
            false if self.without >= self.patience => (self.ratio / 2).max(RATIO.0),
            _ => self.ratio,
        };
        let ratio = wanted.min(most);
        if ratio == self.ratio {
            return;
        }
        // More ACKs brought the queue back.
        if ratio > self.ratio && self.is_raised && self.since < PATIENCE.0 {
            self.patience = self.patience.saturating_mul(2).min(PATIENCE.1);
        }
        self.is_raised = !is_long && ratio < self.ratio;
        (self.ratio, self.since, self.without) = (ratio, 0, 0);
    }

    /// Returns the segments per ACK to request, or zero for the peer's default.
    pub(super) const fn ratio(&self) -> u8 {
        if self.ratio > RATIO.0 { self.ratio } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ratios after each of `rounds` round trips of 100 ms and 1000 segments.
    fn ratios(acks: &mut Acks, queueing: f64, rounds: usize) -> Vec<u8> {
        let round = |_| {
            acks.on_round(queueing, 0.1, 1000.0);
            acks.ratio()
        };
        (0..rounds).map(round).collect()
    }

    /// The ratio doubles every second round trip with a queue of more than an eighth of the RTT, up to 32.
    #[test]
    fn a_queue_makes_acks_fewer() {
        let mut acks = Acks::default();
        assert_eq!(ratios(&mut acks, 0.0125, 3), [0; 3]);
        assert_eq!(ratios(&mut acks, 0.0126, 9), [4, 4, 8, 8, 16, 16, 32, 32, 32]);
    }

    /// Queues below 5 ms do not count.
    #[test]
    fn short_queues_do_not_count() {
        let mut acks = Acks::default();
        acks.on_round(0.005, 0.01, 1000.0);
        assert_eq!(acks.ratio(), 0);
        acks.on_round(0.0051, 0.01, 1000.0);
        assert_eq!(acks.ratio(), 4);
    }

    /// At least eight ACKs per window remain, whatever the queue.
    #[test]
    fn a_small_window_keeps_its_acks() {
        let mut acks = Acks::default();
        for (window, ratio) in [(31.0, 3), (23.0, 0), (40.0, 0), (40.0, 4), (80.0, 4), (80.0, 8)] {
            acks.on_round(1.0, 0.1, window);
            assert_eq!(acks.ratio(), ratio, "{window} segments");
        }
    }

    /// After 50 round trips without a queue, the ratio halves; if the queue comes back, after 100.
    #[test]
    fn acks_return_when_the_queue_is_gone() {
        let mut acks = Acks::default();
        ratios(&mut acks, 1.0, 3);
        assert_eq!(ratios(&mut acks, 0.0, 50)[48..], [8, 4]);
        assert_eq!(ratios(&mut acks, 1.0, 2), [4, 8]);
        assert_eq!(ratios(&mut acks, 0.0, 100)[98..], [8, 4]);
        assert_eq!(ratios(&mut acks, 0.0, 100)[98..], [4, 0]);
    }
}
