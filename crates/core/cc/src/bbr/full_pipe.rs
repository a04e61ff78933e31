//! Detection of a full pipe, in which sending faster does not increase the delivery rate.

/// Factor by which the delivery rate must increase to count as growth.
const GROWTH: f64 = 1.25;
/// Consecutive rounds without growth after which the pipe is full. Receive windows grow and bursts of other flows
/// pass in fewer rounds.
const ROUNDS: u32 = 3;

/// Detects a plateau of the delivery rate (draft-ietf-ccwg-bbr, `BBRCheckFullBWReached`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    baseline: f64,
    rounds: u32,
    pub(super) full: bool,
}

impl FullPipe {
    /// A new search from `baseline` bytes/s.
    pub(super) const fn from(baseline: f64) -> Self {
        Self { baseline, rounds: 0, full: false }
    }

    /// Processes the end of a round whose rate was `bw` bytes/s, limited only by the network.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_without_a_quarter_more_fill_the_pipe() {
        let mut pipe = FullPipe::default();
        for bw in [100.0, 125.0, 156.0, 160.0, 195.0] {
            pipe.on_round(bw);
            assert!(!pipe.full, "{bw}");
        }
        // 156 is slightly less than 125 x 1.25, but 160 is more: the baseline is 160, and 195 is less than 200.
        pipe.on_round(199.9);
        assert!(!pipe.full);
        pipe.on_round(0.0);
        assert!(pipe.full);
        pipe.on_round(1e9);
        assert!(pipe.full);
    }
}
