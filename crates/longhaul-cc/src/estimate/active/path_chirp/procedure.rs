//! The order of pathChirp's trains: chirps that find the range, then chirps that count.

use std::collections::VecDeque;

use longhaul_units::{Rate, Span};

use super::super::statistics::{deviation, mean};
use super::super::turns::{Plan, Session};
use super::super::{Arrived, Estimate, RateRange};
use super::config::PathChirpConfig;
use super::rules::{chirp, chirp_estimate, gaps};

/// Of a normal distribution 95 % lie within so many standard deviations.
const NORMAL_95: f64 = 1.96;

#[derive(Clone, Debug)]
pub(super) struct Procedure {
    config: PathChirpConfig,
    /// The lowest and the highest rate of the next chirp, in bytes a second.
    range: (f64, f64),
    /// What the last chirp said, for the range while nothing else is known.
    last: Option<f64>,
    warm: u32,
    chirps: u32,
    kept: VecDeque<f64>,
    ended: bool,
}

impl Procedure {
    pub(super) fn new(config: PathChirpConfig) -> Self {
        let bytes = |rate: Rate| rate.as_bytes_per_sec() as f64;
        let range = (bytes(config.low), bytes(config.high));
        Self { config, range, last: None, warm: 0, chirps: 0, kept: VecDeque::new(), ended: false }
    }

    /// The mean of the chirps that count, and the half-width of its 95 % confidence interval.
    fn interval(&self) -> Option<(f64, f64)> {
        let kept: Vec<f64> = self.kept.iter().copied().collect();
        let mean = mean(&kept)?;
        Some((mean, NORMAL_95 * deviation(&kept) / (kept.len() as f64).sqrt()))
    }

    fn converged(&self) -> bool {
        self.kept.len() >= self.config.least as usize
            && self.interval().is_some_and(|(mean, half)| half < self.config.half_width * mean)
    }

    pub(super) fn estimate(&self) -> Estimate {
        let Some((mean, half)) = self.interval() else { return Estimate::default() };
        let rate = |bytes: f64| Rate::from_bytes_per_sec(bytes.max(0.0).round() as u64);
        let sure = if self.kept.len() < 2 { 0.0 } else { (1.0 - half / mean).clamp(0.0, 1.0) };
        Estimate {
            available: Some(RateRange { low: rate(mean - half), value: rate(mean), high: rate(mean + half) }),
            converged: self.converged(),
            confidence: sure,
            ..Estimate::default()
        }
    }

    fn keep(&mut self, estimate: f64) {
        self.last = Some(estimate);
        if self.warm < self.config.warm_up {
            self.warm += 1;
        } else {
            self.kept.push_back(estimate);
            if self.kept.len() > self.config.window as usize {
                self.kept.pop_front();
            }
        }
        let around = self.interval().map_or(estimate, |(mean, _)| mean);
        self.range = (around * self.config.below, around * self.config.above);
    }
}

impl Session for Procedure {
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
        let rule = &self.config.excursions;
        let estimate = gaps(packets, rule).and_then(|gaps| chirp_estimate(&gaps, rule));
        if let Some(estimate) = estimate.filter(|estimate| estimate.is_finite() && *estimate >= 1.0) {
            self.keep(estimate);
        }
        self.ended |= self.converged() || self.chirps >= self.config.chirps;
    }

    fn stop(&mut self) {
        self.ended = true;
    }
}
