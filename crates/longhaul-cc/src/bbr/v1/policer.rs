//! Token-bucket policers: while the bucket lasts they deliver fast, then they drop. Two lossy intervals with the same
//! throughput give one away; its rate is then used as it is, for a while, rather than probed at the price of losses.
//! (Linux's "long-term bandwidth".)

use longhaul_units::Time;

use super::super::sample::Sample;

/// The least and the most rounds that an interval has.
const INTERVAL_ROUNDS: u32 = 4;
const MAX_INTERVAL_ROUNDS: u32 = 4 * INTERVAL_ROUNDS;
/// The loss rate that makes an interval lossy, of what is delivered: Linux's 50/256, nearly a fifth.
const LOSS: f64 = 50.0 / 256.0;
/// Two throughputs are the same within an eighth, or 4 kbit/s.
const RATIO: f64 = 0.125;
const DIFFERENCE: f64 = 500.0;
/// Rounds for which a policer's rate is used before the path is probed again.
const USE_ROUNDS: u32 = 48;
/// The shortest interval that a rate can be told of, seconds.
const LEAST: f64 = 0.001;

/// An interval under way.
#[derive(Clone, Copy, Debug)]
struct Interval {
    since: Time,
    delivered: f64,
    lost: f64,
    rounds: u32,
}

/// The detector.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    interval: Option<Interval>,
    /// The throughput of the interval before, bytes/s.
    before: Option<f64>,
    /// The policer's rate, bytes/s, and for how many rounds it was used.
    in_use: Option<(f64, u32)>,
}

impl Policer {
    /// The policer's rate, bytes/s, while it is in use.
    pub(super) fn rate(&self) -> Option<f64> {
        self.in_use.map(|(rate, _)| rate)
    }

    /// An ACK came: `lost` bytes were lost in total, some of them now if it is `lossy`; `round` began with it. `probing`
    /// says that nothing but the rate holds the sender back. Whether a rate that was in use has been used long enough.
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
        // What is delivered before the first loss is the bucket, not the rate.
        let Some(mut interval) = self.interval.or(lossy.then_some(fresh)) else { return };
        interval.rounds += u32::from(round);
        if sample.app_limited || interval.rounds > MAX_INTERVAL_ROUNDS {
            *self = Self::default();
            return;
        }
        self.interval = Some(interval);
        // An interval ends with a loss: then the bucket is empty.
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

    /// An interval of throughput `bw` has ended.
    fn compare(&mut self, bw: f64) {
        match self.before {
            Some(before) if (bw - before).abs() <= (RATIO * before).max(DIFFERENCE) => {
                self.in_use = Some(((bw + before) / 2.0, 0));
            }
            _ => self.before = Some(bw),
        }
    }
}
