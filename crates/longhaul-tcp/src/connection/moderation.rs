//! Moderation: while data streams, several segments are sent or received per wake-up, as network cards do with
//! interrupts (`docs/decisions/0049-moderation.md`).
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use longhaul_units::{Bytes, Span, Time};

use super::Connection;

/// Round-trip times with a quarter of the moderation at the start of a stream, and after a silence of one, in which senders
/// measure the path.
const CAREFUL_ROUNDS: u64 = 4;
/// Divisor of the round-trip time: at most this part of it passes while segments are joined.
const PART: u64 = 64;
/// Maximum of that time.
const MAX: Span = Span::from_millis(10);

/// Stream of data segments in one direction.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Times of the first segment since the last silence, and of the last one.
    span: Option<(Time, Time)>,
}

impl Flow {
    /// Records a data segment.
    pub(super) fn note(&mut self, now: Time, round_trip: Option<Span>) {
        let since = self.span.filter(|(_, last)| round_trip.is_some_and(|round_trip| now - *last < round_trip));
        self.span = Some((since.map_or(now, |(since, _)| since), now));
    }

    /// Returns the time for which segments may be joined.
    pub(super) fn patience(&self, now: Time, round_trip: Option<Span>) -> Span {
        let (Some((since, last)), Some(round_trip)) = (self.span, round_trip) else { return Span::ZERO };
        let rounds = (last - since).as_nanos() / round_trip.as_nanos().max(1);
        let part = if rounds < CAREFUL_ROUNDS { PART * 4 } else { PART };
        if now - last < round_trip { (round_trip / part).min(MAX) } else { Span::ZERO }
    }
}

/// Segments of a burst that every path is expected to take (a queue of 10 packets does), and the maximum.
const FEW_SEGMENTS: u64 = 4;
const MANY_SEGMENTS: u64 = 16;
/// Bursts of the length under trial.
const TRIAL_BURSTS: u64 = 4;
/// Parts of a trial's data of which one may be lost, in addition to twice the losses of the round before.
const TRIAL_PART: u64 = 10;
/// Parts of a round's data of which one may be lost before bursts are shortened.
const ROUND_PART: u64 = 50;
/// Round trips until the next trial: at first, and after many that failed.
const FIRST_WAIT: u32 = 4;
const LONGEST_WAIT: u32 = 1024;

/// Length of the bursts that the sender joins. A queue along the path that cannot take a burst drops its end. A greater
/// length is therefore tried with a few bursts at the start of a round trip; it is used if the next round trip reports no more
/// losses than before. A round trip with many losses ends the use of long bursts. The time until the next trial doubles
/// with each failure.
#[derive(Debug)]
pub(super) struct BurstLength {
    /// Maximum length in use, length under trial, and maximum of the next trial, in segments.
    proven: u64,
    tried: u64,
    ceiling: u64,
    /// Segments that the pacing rate releases in the time for which they may be joined.
    wanted: u64,
    step: Step,
    wait: u32,
    /// Segment size, and bytes delivered and lost in this round trip.
    mss: u64,
    delivered: u64,
    lost: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Round trips until the next trial.
    Wait(u32),
    /// The round trip before the trial lost this.
    Trial { lost_before: u64 },
    /// The round trip that reports the losses of the trial.
    Verdict { lost_before: u64 },
}

impl BurstLength {
    pub(super) fn new() -> Self {
        Self {
            proven: FEW_SEGMENTS,
            tried: FEW_SEGMENTS,
            ceiling: MANY_SEGMENTS,
            wanted: 0,
            step: Step::Wait(FIRST_WAIT),
            wait: FIRST_WAIT,
            mss: 0,
            delivered: 0,
            lost: 0,
        }
    }

    /// Returns the length of the next burst, of which the pacing rate would release `wanted`.
    pub(super) fn next(&mut self, wanted: Bytes, mss: Bytes) -> Bytes {
        (self.wanted, self.mss) = (wanted.0 / mss.0.max(1), mss.0);
        let is_trial = matches!(self.step, Step::Trial { .. }) && self.delivered < self.trial_bytes();
        wanted.min(mss * if is_trial { self.tried } else { self.proven })
    }

    fn trial_bytes(&self) -> u64 {
        TRIAL_BURSTS * self.tried * self.mss
    }

    pub(super) fn on_ack(&mut self, delivered: Bytes, lost: Bytes) {
        self.delivered += delivered.0;
        self.lost += lost.0;
    }

    pub(super) fn on_round(&mut self) {
        let (delivered, lost) = (std::mem::take(&mut self.delivered), std::mem::take(&mut self.lost));
        if lost * ROUND_PART > delivered {
            let failed = std::mem::replace(&mut self.proven, FEW_SEGMENTS);
            if failed > FEW_SEGMENTS {
                self.fail(failed);
            }
            self.step = Step::Wait(self.wait);
            return;
        }
        self.step = match self.step {
            Step::Wait(rounds) if rounds > 1 => Step::Wait(rounds - 1),
            Step::Wait(_) => {
                self.tried = self.wanted.min(self.ceiling);
                if self.tried > self.proven { Step::Trial { lost_before: lost } } else { Step::Wait(1) }
            }
            Step::Trial { lost_before } => Step::Verdict { lost_before },
            Step::Verdict { lost_before } if lost <= lost_before * 2 + self.trial_bytes() / TRIAL_PART => {
                (self.proven, self.ceiling) = (self.tried, MANY_SEGMENTS);
                Step::Wait(self.wait)
            }
            Step::Verdict { .. } => {
                self.fail(self.tried);
                Step::Wait(self.wait)
            }
        };
    }

    /// Prepares the trial of half of a length that failed, or of the maximum if half is in use.
    fn fail(&mut self, segments: u64) {
        self.ceiling = if segments / 2 > self.proven { segments / 2 } else { MANY_SEGMENTS };
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
    }
}

impl Connection {
    /// Returns the longest delay of a received segment that is small compared with the round-trip time, if that is known.
    pub(crate) fn tolerable_delay(&self) -> Option<Span> {
        self.rtt.srtt().map(|round_trip| round_trip / PART)
    }

    /// Returns the time for which the driver may leave further data of the peer unread. It is zero at the start of the
    /// connection and while the peer has requested an ACK per segment.
    pub(crate) fn read_patience(&self, now: Time) -> Span {
        if !self.config.moderation || self.rcv.acks.is_each_acknowledged(self.config.ack_every()) {
            return Span::ZERO;
        }
        self.rcv.inflow.patience(now, self.rtt.srtt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Option<Span> = Some(Span::from_millis(64));

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// Records segments every 10 ms from the start to `millis`. Returns what is permitted `later` milliseconds after that.
    fn patience_after(millis: u64, later: u64, round_trip: Option<Span>) -> Span {
        let mut flow = Flow::default();
        (0..=millis / 10).for_each(|i| flow.note(at(i * 10), round_trip));
        flow.patience(at(millis + later), round_trip)
    }

    #[test]
    fn a_steady_stream_may_wait_for_a_64th_of_the_round_trip() {
        let milli = Span::from_millis(1);
        let patience = [0, 250, 260].map(|millis| patience_after(millis, 0, ROUND_TRIP));
        assert_eq!(patience, [milli / 4, milli / 4, milli]);
        assert_eq!([63, 64].map(|later| patience_after(260, later, ROUND_TRIP)), [milli, Span::ZERO], "the end");
        assert_eq!(patience_after(10_000, 0, Some(Span::from_millis(800))), MAX);
        assert_eq!(patience_after(10_000, 0, None), Span::ZERO);
    }

    const MSS: Bytes = Bytes(1000);

    /// Length of bursts over a path whose rounds deliver 1000 segments and lose so many, until the next round. The pacing
    /// rate would release bursts of `wanted` segments.
    struct Rounds {
        bursts: BurstLength,
        wanted: u64,
    }

    impl Rounds {
        fn new(wanted: u64) -> Self {
            Self { bursts: BurstLength::new(), wanted }
        }

        fn burst(&mut self) -> u64 {
            self.bursts.next(MSS * self.wanted, MSS).0 / MSS.0
        }

        /// Returns the lengths of bursts after each ten delivered segments, without repetitions.
        fn round(&mut self, lost: u64) -> Vec<u64> {
            let mut lengths = vec![self.burst()];
            for _ in 0..100 {
                self.bursts.on_ack(MSS * 10, Bytes::ZERO);
                lengths.push(self.burst());
            }
            self.bursts.on_ack(Bytes::ZERO, MSS * lost);
            self.bursts.on_round();
            lengths.dedup();
            lengths
        }

        /// Lets rounds without losses pass until the next trial, which loses `lost`. Returns the rounds until the trial, and
        /// its lengths.
        fn trial(&mut self, lost: u64) -> (usize, Vec<u64>) {
            let usual = self.bursts.proven;
            let mut count = 0;
            let trial = loop {
                let lengths = self.round(0);
                if lengths != [usual.min(self.wanted)] {
                    break lengths;
                }
                count += 1;
            };
            assert_eq!(self.round(lost), [usual], "the losses are reported a round later");
            (count, trial)
        }
    }

    /// Four bursts of 16 segments, each ACK reporting ten.
    #[test]
    fn long_bursts_are_used_after_a_trial_without_more_losses() {
        for lost in [0, 5, 20] {
            let mut rounds = Rounds::new(30);
            let lengths: Vec<_> = (0..6).map(|_| rounds.round(lost)).collect();
            assert_eq!(lengths[..4], [[4], [4], [4], [4]]);
            assert_eq!(lengths[4..], [vec![16, 4], vec![4]]);
            assert_eq!(rounds.round(20), [16]);
        }
        let mut rounds = Rounds::new(30);
        assert_eq!(rounds.trial(6), (4, vec![16, 4]), "a tenth of 64 segments");
        assert_eq!(rounds.burst(), 16);
    }

    /// The next trial is of half of a length that failed, if that is not in use, and each failure doubles the time until it.
    #[test]
    fn a_trial_with_more_losses_is_repeated_later() {
        let mut rounds = Rounds::new(30);
        assert_eq!(rounds.trial(7), (4, vec![16, 4]));
        assert_eq!(rounds.trial(4), (8, vec![8, 4]));
        assert_eq!(rounds.trial(7), (16, vec![16, 4]));
        assert_eq!(rounds.trial(3), (32, vec![8, 4]), "a tenth of 32 segments");
        assert_eq!(rounds.trial(7), (32, vec![16, 8]));
        for wait in [64, 128, 256, 512, 1024, 1024] {
            assert_eq!(rounds.trial(7), (wait, vec![16, 8]));
        }
    }

    /// The losses of slow start, with short bursts, do not lengthen the time.
    #[test]
    fn a_round_with_many_losses_ends_long_bursts() {
        let mut rounds = Rounds::new(30);
        for lost in [500, 21, 21] {
            assert_eq!(rounds.round(lost), [4]);
        }
        assert_eq!(rounds.trial(0), (4, vec![16, 4]));
        assert_eq!(rounds.round(21), [16]);
        assert_eq!(rounds.trial(0), (8, vec![8, 4]));
        assert_eq!(rounds.trial(0), (8, vec![16, 8]));
    }

    /// What the pacing rate does not release is not tried, and not exceeded.
    #[test]
    fn slow_streams_have_short_bursts() {
        let mut rounds = Rounds::new(4);
        for _ in 0..20 {
            assert_eq!(rounds.round(0), [4]);
        }
        rounds.wanted = 3;
        assert_eq!(rounds.round(0), [3]);
        rounds.wanted = 7;
        assert_eq!(rounds.trial(0), (1, vec![7, 4]));
        assert_eq!(rounds.round(0), [7]);
        rounds.wanted = 30;
        assert_eq!(rounds.round(0), [7]);
    }

    #[test]
    fn a_stream_begins_again_after_a_pause_of_one_round_trip() {
        let mut flow = Flow::default();
        let mut patience = |millis| {
            flow.note(at(millis), ROUND_TRIP);
            flow.patience(at(millis), ROUND_TRIP)
        };
        assert_eq!([0, 63, 126, 189, 252].map(&mut patience), [Span::from_micros(250); 5]);
        assert_eq!([patience(256), patience(256 + 63)], [Span::from_millis(1); 2]);
        assert_eq!(patience(256 + 63 + 64), Span::from_micros(250));
    }
}
