//! Sequence of pathChirp's trains: chirps that find the range of rates, then chirps that count towards the estimate.

use std::collections::VecDeque;

use longhaul_link::statistics::{mean, sample_deviation};
use longhaul_units::{Rate, Span};

use super::PathChirpConfig;
use super::rules::{chirp, chirp_estimate, gaps, noise};
use crate::pathrate::rules::around;
use crate::turns::{Plan, Session};
use crate::{Arrived, Estimate, MethodKind};

/// Number of standard deviations around the mean that contain 95 % of a normal distribution.
const NORMAL_95: f64 = 1.96;

/// Result of one chirp in bytes per second.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Rate at which delays start to rise at all.
    early: f64,
    /// Rate at which delays start to rise by more than noise.
    late: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Procedure {
    config: PathChirpConfig,
    /// Lowest and highest rate of the next chirp in bytes per second.
    range: (f64, f64),
    /// Result of the last chirp, which determines the rest after the next one.
    last: Option<f64>,
    warm: u32,
    chirps: u32,
    kept: VecDeque<Sample>,
    ended: bool,
}

impl Procedure {
    pub(crate) fn new(config: PathChirpConfig) -> Self {
        let bytes = |rate: Rate| rate.as_bytes_per_sec() as f64;
        let range = (bytes(config.low), bytes(config.high));
        Self { config, range, last: None, warm: 0, chirps: 0, kept: VecDeque::new(), ended: false }
    }

    /// Mean over the chirps that count, and the half-width of its 95 % confidence interval.
    fn interval(&self, part: fn(&Sample) -> f64) -> Option<(f64, f64)> {
        let kept: Vec<f64> = self.kept.iter().map(part).collect();
        let mean = mean(&kept)?;
        Some((mean, NORMAL_95 * sample_deviation(&kept).unwrap_or(0.0) / (kept.len() as f64).sqrt()))
    }

    fn converged(&self) -> bool {
        self.kept.len() >= self.config.least as usize
            && self.interval(|sample| sample.early).is_some_and(|(mean, half)| half < self.config.half_width * mean)
    }

    fn keep(&mut self, sample: Sample) {
        self.last = Some(sample.early);
        if self.warm < self.config.warm_up {
            self.warm += 1;
        } else {
            self.kept.push_back(sample);
            if self.kept.len() > self.config.window as usize {
                self.kept.pop_front();
            }
        }
        let around = self.interval(|sample| sample.early).map_or(sample.early, |(mean, _)| mean);
        self.range = (around * self.config.below, around * self.config.above);
    }

    fn sample(&self, packets: &[Option<Arrived>]) -> Option<Sample> {
        let rule = &self.config.excursions;
        let gaps = gaps(packets, rule)?;
        let estimate = |least| chirp_estimate(&gaps, least, rule).filter(|rate| rate.is_finite() && *rate >= 1.0);
        Some(Sample { early: estimate(0.0)?, late: estimate(noise(&gaps) * rule.noise)? })
    }
}

impl Session for Procedure {
    const KIND: MethodKind = MethodKind::PathChirp;

    fn plan(&mut self) -> Option<Plan> {
        if self.ended {
            return None;
        }
        let packets = chirp(self.range, self.config.size, self.config.spread);
        let bytes: f64 = packets.iter().map(|packet| packet.size.as_f64()).sum();
        let pause = self.last.map_or(Span::ZERO, |rate| Span::from_secs_f64(bytes / (rate * self.config.load)));
        Some(Plan { packets, rest: pause.min(self.config.most_rest) })
    }

    fn learn(&mut self, packets: &[Option<Arrived>]) {
        self.chirps = self.chirps.saturating_add(1);
        if let Some(sample) = self.sample(packets) {
            self.keep(sample);
        }
        self.ended |= self.converged() || self.chirps >= self.config.chirps;
    }

    fn estimate(&self) -> Estimate {
        let both = self.interval(|sample| sample.early).zip(self.interval(|sample| sample.late));
        let Some(((early, early_half), (late, late_half))) = both else { return Estimate::default() };
        // The first rate at which delays rise exceeds the available bandwidth, and the previous rate does not.
        let (low, high) =
            ((early - early_half).max(0.0) / self.config.spread, late.max(early) + late_half.max(early_half));
        Estimate {
            available: Some(around(early, (low, high))),
            converged: self.converged(),
            confidence: if self.kept.len() < 2 { 0.0 } else { (low / high).clamp(0.0, 1.0) },
            ..Estimate::default()
        }
    }
}
