//! Round trips counted by packets: a round ends when a segment is delivered that was sent after its beginning.

use longhaul_units::Bytes;

/// Counts rounds (draft-ietf-ccwg-bbr, `BBRUpdateRound`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    /// Total delivered bytes when the round began.
    began: Bytes,
    pub count: u64,
    /// Whether the current ACK begins a round.
    pub start: bool,
}

impl Rounds {
    /// Begins a round (`BBRStartRound`) with `delivered` bytes delivered in total. The current round is not counted.
    pub const fn restart(&mut self, delivered: Bytes) {
        self.began = delivered;
    }

    /// Processes an ACK whose newest segment was sent when `prior` bytes were delivered, of `delivered` at present;
    /// `None` without a sample.
    pub fn on_ack(&mut self, prior: Option<Bytes>, delivered: Bytes) {
        self.start = prior.is_some_and(|prior| prior >= self.began);
        if self.start {
            self.restart(delivered);
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_with_the_first_segment_sent_in_it() {
        let mut rounds = Rounds::default();
        let starts = [(0, 10), (0, 20), (5, 30), (10, 40), (39, 50), (40, 60)].map(|(prior, delivered)| {
            rounds.on_ack(Some(Bytes(prior)), Bytes(delivered));
            rounds.start
        });
        assert_eq!((starts, rounds.count), ([true, false, false, true, false, true], 3));
        rounds.on_ack(None, Bytes(70));
        assert!(!rounds.start);
    }
}
