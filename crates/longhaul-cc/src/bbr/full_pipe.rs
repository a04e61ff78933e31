//! Whether sending faster still brings more.

/// Growth of the delivery rate that counts as growth.
const GROWTH: f64 = 1.25;
/// Rounds in a row without it that tell that the pipe is full: receive windows grow, and others' bursts pass, in fewer.
const ROUNDS: u32 = 3;

/// The estimator of a plateau in the delivery rate (draft-ietf-ccwg-bbr, `BBRCheckFullBWReached`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    baseline: f64,
    rounds: u32,
    full: bool,
}

impl FullPipe {
    /// A new search that begins at `baseline` bytes/s.
    pub(super) const fn from(baseline: f64) -> Self {
        Self { baseline, rounds: 0, full: false }
    }

    /// A round has ended whose rate, which nothing but the network limited, was `bw` bytes/s.
    pub(super) fn on_round(&mut self, bw: f64) {
        if self.full {
            return;
        }
        if bw >= self.baseline * GROWTH {
            *self = Self::from(bw);
            return;
        }
        self.rounds += 1;
        self.full = self.rounds >= ROUNDS;
    }

    pub(super) const fn is_full(&self) -> bool {
        self.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_without_a_quarter_more_fill_the_pipe() {
        let mut pipe = FullPipe::default();
        for bw in [100.0, 125.0, 156.0, 160.0, 195.0] {
            pipe.on_round(bw);
            assert!(!pipe.is_full(), "{bw}");
        }
        // 156 was a little less than 125 x 1.25, and 160 more: the baseline is 160 now, and 195 less than 200.
        pipe.on_round(199.9);
        assert!(!pipe.is_full());
        pipe.on_round(0.0);
        assert!(pipe.is_full());
        pipe.on_round(1e9);
        assert!(pipe.is_full());
    }
}
