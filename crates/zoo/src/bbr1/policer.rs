//! Detection of token-bucket policers, which deliver fast while they have tokens and then drop packets. Two consecutive
//! lossy intervals with the same throughput indicate a policer. Its rate is then used for some rounds without probing,
//! which would cause losses. (Linux's "long-term bandwidth".)

use longhaul_cc::internal::bbr::Sample;
use longhaul_units::Time;

const INTERVAL_ROUNDS: u32 = 4;
const MAX_INTERVAL_ROUNDS: u32 = 4 * INTERVAL_ROUNDS;
/// Loss rate of a lossy interval, relative to the delivered data: Linux's 50/256, nearly a fifth.
const LOSS: f64 = 50.0 / 256.0;
/// Two throughputs are equal if they differ by at most an eighth, or by 4 kbit/s.
const RATIO: f64 = 0.125;
const DIFFERENCE: f64 = 500.0;
/// Number of rounds for which a policer's rate is used before the next probe.
const USE_ROUNDS: u32 = 48;
/// Shortest interval for which a rate is calculated, seconds.
const LEAST: f64 = 0.001;

#[derive(Clone, Copy, Debug)]
struct Interval {
    since: Time,
    delivered: f64,
    lost: f64,
    rounds: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    interval: Option<Interval>,
    /// The throughput of the previous interval, bytes/s.
    before: Option<f64>,
    /// Policer rate in bytes/s, and the number of rounds for which it has been used.
    in_use: Option<(f64, u32)>,
}

impl Policer {
    pub(super) fn rate(&self) -> Option<f64> {
        self.in_use.map(|(rate, _)| rate)
    }

    /// Processes an ACK: `lost` bytes were lost in total, some of them detected at this ACK if it is `lossy`; `round`
    /// means that it starts a round. `probing` means that only the rate limits the sender. Returns whether a rate has
    /// been used long enough.
    pub(super) fn on_ack(&mut self, sample: &Sample, lost: f64, round: bool, lossy: bool, probing: bool) -> bool {
        if let Some((_, rounds)) = &mut self.in_use {
            *rounds += u32::from(round && probing);
            let over = *rounds >= USE_ROUNDS;
            if over {
                *self = Self::default();
            }
            return over;
        }
        self.watch(sample, lost, round, lossy);
        false
    }

    fn watch(&mut self, sample: &Sample, lost: f64, round: bool, lossy: bool) {
        let delivered = sample.total_delivered.as_f64();
        let fresh = Interval { since: sample.now, delivered, lost, rounds: 0 };
        // Data delivered before the first loss used accumulated tokens and does not reflect the rate.
        let Some(mut interval) = self.interval.or(lossy.then_some(fresh)) else { return };
        interval.rounds += u32::from(round);
        if sample.app_limited || interval.rounds > MAX_INTERVAL_ROUNDS {
            *self = Self::default();
            return;
        }
        self.interval = Some(interval);
        // An interval ends with a loss, because the bucket is then empty.
        if interval.rounds < INTERVAL_ROUNDS || !lossy {
            return;
        }
        let (gone, came) = (lost - interval.lost, delivered - interval.delivered);
        let elapsed = (sample.now - interval.since).as_secs_f64();
        if came > 0.0 && gone >= LOSS * came && elapsed >= LEAST {
            self.interval = Some(fresh);
            self.compare(came / elapsed);
        }
    }

    /// Compares the interval that has just ended, which had throughput `bw`, with the previous one.
    fn compare(&mut self, bw: f64) {
        match self.before {
            Some(before) if (bw - before).abs() <= (RATIO * before).max(DIFFERENCE) => {
                self.in_use = Some(((bw + before) / 2.0, 0));
            }
            _ => self.before = Some(bw),
        }
    }
}
