//! Length of the bursts into which the sender joins segments (`docs/decisions/0049-moderation.md`).

use longhaul_units::Bytes;

/// Number of segments in a burst that every path is expected to accept (a queue of 10 packets does), and the maximum
/// number.
const FEW_SEGMENTS: u64 = 4;
const MANY_SEGMENTS: u64 = 16;
/// Maximum number of bytes: the capacity of one offloaded send.
const MOST: Bytes = Bytes(65_536);
const TRIAL_BURSTS: u64 = 4;
/// One in this many parts of a trial's data may be lost, in addition to twice the losses of the previous round trip.
const TRIAL_PART: u64 = 10;
/// A round trip has many losses if it loses more than one in this many parts of its data, and more than this many
/// segments.
const ROUND_PART: u64 = 50;
const ROUND_SEGMENTS: u64 = 4;
/// Number of round trips until the next trial: initially, and after many failed trials.
const FIRST_WAIT: u32 = 4;
const LONGEST_WAIT: u32 = 1024;

/// Maximum length of bursts.
///
/// If a queue on the path cannot hold a burst, it drops the end of the burst. A greater length is therefore tried with
/// a few bursts, and used if the next round trip reports few losses. A round trip with many losses, or a timeout, ends
/// the use of long bursts. The time until the next trial doubles with each failure, and halves whenever it passes with
/// long bursts in use.
#[derive(Debug)]
pub(super) struct BurstLength {
    /// Maximum length in use, and maximum of the next trial, in segments.
    proven: u64,
    ceiling: u64,
    /// Number of segments that the pacing rate releases in the time during which they may be joined.
    wanted: u64,
    step: TrialStep,
    wait: u32,
    /// Segment size, and bytes delivered and lost in this round trip.
    mss: u64,
    delivered: u64,
    lost: u64,
}

#[derive(Clone, Copy, Debug)]
enum TrialStep {
    /// Round trips until the next trial.
    Wait(u32),
    /// Bursts of `tried` segments, of which `left` remain. The previous round trip lost `lost_before` bytes.
    Trial { tried: u64, left: u64, lost_before: u64 },
    /// The round trip that reports the losses of the trial.
    Verdict { tried: u64, lost_before: u64 },
}

impl BurstLength {
    pub(super) const fn new() -> Self {
        Self {
            proven: FEW_SEGMENTS,
            ceiling: MANY_SEGMENTS,
            wanted: 0,
            step: TrialStep::Wait(FIRST_WAIT),
            wait: FIRST_WAIT,
            mss: 0,
            delivered: 0,
            lost: 0,
        }
    }

    /// Returns the maximum length of the next burst, of which the pacing rate would release `wanted`.
    pub(super) fn limit(&mut self, wanted: Bytes, mss: Bytes) -> Bytes {
        let wanted = wanted.min(MOST);
        (self.wanted, self.mss) = (wanted.0 / mss.0.max(1), mss.0);
        let segments = match self.step {
            TrialStep::Trial { tried, left: 1.., .. } => tried,
            _ => self.proven,
        };
        wanted.min(mss * segments)
    }

    /// Records a burst. Shorter bursts, for which the window had no room, provide no information about the length under
    /// trial.
    pub(super) const fn on_sent(&mut self, burst: Bytes) {
        if let TrialStep::Trial { tried, left, .. } = &mut self.step
            && burst.0 > (*tried - 1) * self.mss
        {
            *left = left.saturating_sub(1);
        }
    }

    pub(super) fn on_ack(&mut self, delivered: Bytes, lost: Bytes) {
        self.delivered += delivered.0;
        self.lost += lost.0;
    }

    pub(super) fn on_round(&mut self) {
        let (delivered, lost) = (std::mem::take(&mut self.delivered), std::mem::take(&mut self.lost));
        if lost > (delivered / ROUND_PART).max(ROUND_SEGMENTS * self.mss) {
            return self.fall_back();
        }
        self.step = match self.step {
            TrialStep::Wait(rounds) if rounds > 1 => TrialStep::Wait(rounds - 1),
            TrialStep::Wait(_) => {
                if self.proven > FEW_SEGMENTS {
                    self.wait = (self.wait / 2).max(FIRST_WAIT);
                }
                self.begin_trial(lost)
            }
            TrialStep::Trial { tried, left: 0, lost_before } => TrialStep::Verdict { tried, lost_before },
            // The window had no room for all bursts of the trial.
            TrialStep::Trial { tried, .. } if self.wanted >= tried => self.step,
            TrialStep::Trial { .. } => self.begin_trial(lost),
            TrialStep::Verdict { tried, lost_before } => {
                if lost <= lost_before * 2 + TRIAL_BURSTS * tried * self.mss / TRIAL_PART {
                    (self.proven, self.ceiling) = (tried, MANY_SEGMENTS);
                } else {
                    self.fail(tried);
                }
                TrialStep::Wait(self.wait)
            }
        };
    }

    fn begin_trial(&self, lost_before: u64) -> TrialStep {
        let tried = self.wanted.min(self.ceiling);
        if tried > self.proven {
            TrialStep::Trial { tried, left: TRIAL_BURSTS, lost_before }
        } else if self.proven > FEW_SEGMENTS {
            TrialStep::Wait(self.wait)
        } else {
            TrialStep::Wait(1)
        }
    }

    /// Ends the use of long bursts, and any trial.
    pub(super) fn fall_back(&mut self) {
        let used = std::mem::replace(&mut self.proven, FEW_SEGMENTS);
        let blamed = match self.step {
            TrialStep::Trial { tried, .. } | TrialStep::Verdict { tried, .. } => tried,
            TrialStep::Wait(_) => used,
        };
        if blamed > FEW_SEGMENTS {
            self.fail(blamed);
        }
        self.step = TrialStep::Wait(self.wait);
    }

    /// Prepares a trial of half the length that failed, or of the maximum if half is already in use.
    fn fail(&mut self, segments: u64) {
        self.ceiling = if segments / 2 > self.proven { segments / 2 } else { MANY_SEGMENTS };
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
    }
}

#[cfg(test)]
mod tests {
    //! The numbers are those of `docs/decisions/0049-moderation.md`.

    use super::*;

    const MSS: Bytes = Bytes(1000);

    /// Bursts over a path whose round trips deliver 1000 segments. The pacing rate would release `wanted` segments at
    /// once.
    struct Rounds {
        bursts: BurstLength,
        wanted: u64,
    }

    impl Rounds {
        fn new(wanted: u64) -> Self {
            Self { bursts: BurstLength::new(), wanted }
        }

        fn limit(&mut self) -> u64 {
            self.bursts.limit(MSS * self.wanted, MSS).0 / MSS.0
        }

        /// Sends ten bursts in a round trip that loses `lost` segments. Returns their lengths.
        fn round(&mut self, lost: u64) -> [u64; 10] {
            let lengths = [(); 10].map(|()| {
                let length = self.limit();
                self.bursts.on_sent(MSS * length);
                length
            });
            self.end_round(lost);
            lengths
        }

        fn end_round(&mut self, lost: u64) {
            self.bursts.on_ack(MSS * 1000, MSS * lost);
            self.bursts.on_round();
        }

        /// Lets round trips without losses pass until the next trial, which loses `lost` segments. Returns their
        /// number, and the lengths before the trial and in it.
        fn trial(&mut self, lost: u64) -> (u32, u64, u64) {
            let mut count = 0;
            let lengths = loop {
                let lengths = self.round(0);
                if lengths[0] != lengths[9] {
                    break lengths;
                }
                count += 1;
            };
            assert_eq!(
                lengths.map(|length| length == lengths[0]),
                [true, true, true, true, false, false, false, false, false, false]
            );
            assert_eq!(self.round(lost), [lengths[9]; 10], "the losses are reported a round trip later");
            (count, lengths[9], lengths[0])
        }
    }

    #[test]
    fn long_bursts_are_used_after_a_trial_with_few_losses() {
        for lost in [0, 5, 20] {
            let mut rounds = Rounds::new(30);
            assert_eq!([(); 4].map(|()| rounds.round(lost)), [[4; 10]; 4]);
            assert_eq!(rounds.round(lost), [16, 16, 16, 16, 4, 4, 4, 4, 4, 4]);
            assert_eq!([rounds.round(lost), rounds.round(lost)], [[4; 10], [16; 10]]);
        }
        let mut rounds = Rounds::new(30);
        assert_eq!(rounds.trial(6), (4, 4, 16), "a tenth of 64 segments");
        assert_eq!(rounds.limit(), 16);
    }

    /// The next trial is of half of a length that failed, if that is not in use, and each failure doubles the wait.
    #[test]
    fn a_trial_with_more_losses_is_repeated_later() {
        let mut rounds = Rounds::new(30);
        assert_eq!(rounds.trial(7), (4, 4, 16));
        assert_eq!(rounds.trial(200), (8, 4, 8), "many losses of a round trip are a failure, too");
        assert_eq!(rounds.trial(7), (16, 4, 16));
        assert_eq!(rounds.trial(200), (32, 4, 8));
        for wait in [64, 128, 256, 512, 1024, 1024] {
            assert_eq!(rounds.trial(7).0, wait);
        }
    }

    /// Each time that the wait has passed with long bursts in use, the next one is half as long.
    #[test]
    fn the_wait_is_shorter_after_long_use() {
        let mut rounds = Rounds::new(30);
        assert_eq!(rounds.trial(7), (4, 4, 16));
        assert_eq!(rounds.trial(3), (8, 4, 8), "a tenth of 32 segments");
        assert_eq!(rounds.trial(7), (8, 8, 16));
        assert_eq!(rounds.trial(7), (8, 8, 16));
        assert_eq!(rounds.trial(0), (8, 8, 16));
        // Round trips with long bursts in use, and those from the timeout that ends their use to the next trial.
        for (used, next) in [(0, 128), (63, 128), (64, 64), (96, 32)] {
            let mut rounds = Rounds::new(30);
            for lost in [7, 200, 7, 200, 0] {
                rounds.trial(lost);
            }
            (0..used).for_each(|_| assert_eq!(rounds.round(0), [16; 10]));
            rounds.bursts.fall_back();
            assert_eq!(rounds.trial(0).0, next, "{used}");
        }
    }

    /// A path whose first queue takes `queue` segments of a burst and drops the others. Returns the mean length of the
    /// bursts that it takes whole, and the share of all segments that it drops.
    fn through(queue: u64) -> (f64, f64) {
        let mut bursts = BurstLength::new();
        let (mut whole, mut count, mut sent, mut dropped, mut dropped_before) = (0, 0, 0, 0, 0);
        for _ in 0..5000 {
            let mut now = 0;
            for _ in 0..60 {
                let length = bursts.limit(MSS * 30, MSS);
                bursts.on_sent(length);
                let length = length.0 / MSS.0;
                if length <= queue {
                    (whole, count) = (whole + length, count + 1);
                }
                (sent, now) = (sent + length, now + length.saturating_sub(queue));
            }
            bursts.on_ack(MSS * 600, MSS * dropped_before);
            bursts.on_round();
            (dropped, dropped_before) = (dropped + now, now);
        }
        (whole as f64 / count as f64, dropped as f64 / sent as f64)
    }

    /// For every queue, bursts are at least a third as long as the queue permits, and the trials cost fewer segments than a
    /// round trip may lose.
    #[test]
    fn a_queue_that_drops_the_end_of_bursts_bounds_their_length() {
        for queue in 4..=20 {
            let (length, dropped) = through(queue);
            assert!(length >= queue.min(16) as f64 / 3.0, "{queue}: {length}");
            assert!(if queue < 16 { dropped < 0.02 } else { dropped == 0.0 }, "{queue}: {dropped}");
        }
    }

    /// The losses of slow start, with short bursts, do not lengthen the wait.
    #[test]
    fn many_losses_and_timeouts_end_long_bursts() {
        let mut rounds = Rounds::new(30);
        for lost in [500, 21, 21] {
            assert_eq!(rounds.round(lost), [4; 10]);
        }
        assert_eq!(rounds.trial(0), (4, 4, 16));
        assert_eq!([rounds.round(21), rounds.round(0)], [[16; 10], [4; 10]]);
        assert_eq!(rounds.trial(0), (7, 4, 8));
        rounds.bursts.fall_back();
        assert_eq!(rounds.trial(0), (16, 4, 16), "half of 8 is in use");
        rounds.bursts.fall_back();
        (0..32).for_each(|_| assert_eq!(rounds.round(0)[0], 4));
        assert_eq!(rounds.limit(), 8);
        rounds.bursts.fall_back();
        assert_eq!(rounds.trial(0).0, 64, "the trial has failed");
    }

    /// One loss per round trip is not many, however small the window is.
    #[test]
    fn a_few_losses_are_not_many() {
        let mut bursts = BurstLength::new();
        for _ in 0..7 {
            _ = bursts.limit(MSS * 30, MSS);
            (0..4).for_each(|_| bursts.on_sent(MSS * 16));
            bursts.on_ack(MSS * 40, MSS * 4);
            bursts.on_round();
        }
        assert_eq!(bursts.limit(MSS * 30, MSS), MSS * 16);
    }

    /// Without bursts of the length under trial, the trial goes on.
    #[test]
    fn short_bursts_show_nothing() {
        let mut rounds = Rounds::new(30);
        (0..4).for_each(|_| assert_eq!(rounds.round(0), [4; 10]));
        for _ in 0..5 {
            assert_eq!(rounds.limit(), 16);
            (0..10).for_each(|_| rounds.bursts.on_sent(MSS * 15));
            rounds.end_round(0);
        }
        assert_eq!(rounds.trial(0), (0, 4, 16));
    }

    /// Bursts are neither tried nor sent longer than the pacing rate releases at a time.
    #[test]
    fn slow_streams_have_short_bursts() {
        let mut rounds = Rounds::new(4);
        for _ in 0..20 {
            assert_eq!(rounds.round(0), [4; 10]);
        }
        rounds.wanted = 3;
        assert_eq!(rounds.round(0), [3; 10]);
        rounds.wanted = 7;
        assert_eq!(rounds.trial(0), (1, 4, 7));
        rounds.wanted = 30;
        assert_eq!(rounds.round(0), [7; 10]);
    }

    #[test]
    fn bursts_have_at_most_64_kib() {
        let mut bursts = BurstLength::new();
        for _ in 0..6 {
            assert_eq!(bursts.limit(Bytes(1 << 20), Bytes(9000)), Bytes(36_000));
            bursts.on_ack(Bytes(1 << 20), Bytes::ZERO);
            bursts.on_round();
            (0..4).for_each(|_| bursts.on_sent(Bytes(63_000)));
        }
        assert_eq!(bursts.limit(Bytes(1 << 20), Bytes(9000)), Bytes(63_000));
    }
}
