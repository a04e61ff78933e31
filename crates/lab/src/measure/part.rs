//! The part of a run that a measure covers, and arithmetic on its samples.

use std::ops::Range;

use longhaul_units::Span;
use longhaul_units::statistics::mean;

use super::Asked;
use crate::world::{FlowSample, FlowState, Outcome, Sample};

/// The part of a run that a measure covers.
pub(super) struct Part<'a> {
    pub(super) asked: &'a Asked<'a>,
    pub(super) outcome: &'a Outcome,
    pub(super) from: Span,
    pub(super) to: Span,
}

impl<'a> Part<'a> {
    pub(super) fn new(asked: &'a Asked<'a>, outcome: &'a Outcome) -> Self {
        let (from, to) = match asked.times[..] {
            [] => (Span::ZERO, outcome.duration),
            [to] => (Span::ZERO, to),
            [from, to, ..] => (from, to),
        };
        Self { asked, outcome, from, to }
    }

    /// The instant at which a measure is taken: its only time, or the end of the run.
    pub(super) fn when(&self) -> Span {
        self.to
    }

    /// The start of the part: the first time, or the start of the run.
    pub(super) fn since(&self) -> Span {
        self.asked.times.first().copied().unwrap_or_default()
    }

    /// Returns the indices of the flows of the first name.
    pub(super) fn flows(&self) -> Range<usize> {
        self.flows_of(0)
    }

    pub(super) fn flows_of(&self, nth: usize) -> Range<usize> {
        self.asked.flows.get(nth).and_then(|name| self.outcome.flows.get(*name)).cloned().unwrap_or(0..0)
    }

    pub(super) fn ends(&self) -> (&'a Sample, &'a Sample) {
        (self.outcome.at(self.from), self.outcome.at(self.to))
    }

    pub(super) fn seconds(&self) -> f64 {
        (self.to - self.from).as_secs_f64()
    }

    pub(super) fn each(&self, what: impl Fn(&FlowSample) -> f64) -> Vec<f64> {
        self.each_of(0, what)
    }

    pub(super) fn each_of(&self, nth: usize, what: impl Fn(&FlowSample) -> f64) -> Vec<f64> {
        let (from, to) = self.ends();
        let range = self.flows_of(nth);
        from.flows[range.clone()].iter().zip(&to.flows[range]).map(|(from, to)| what(to) - what(from)).collect()
    }

    pub(super) fn sum(&self, what: impl Fn(&FlowSample) -> f64) -> f64 {
        self.each(what).iter().sum()
    }

    /// Returns the mean over the flows for which the value is known.
    pub(super) fn mean_state(&self, what: impl Fn(&FlowState) -> Option<f64>) -> Option<f64> {
        let states = &self.outcome.at(self.when()).states;
        mean(&states.get(self.flows())?.iter().flatten().filter_map(what).collect::<Vec<_>>())
    }

    /// Returns the estimate of each sender at each full second, `None` where it has none.
    pub(super) fn estimates_by_second(&self) -> Vec<Option<f64>> {
        let seconds = self.from.as_nanos().div_ceil(1_000_000_000)..=self.to.as_nanos() / 1_000_000_000;
        let states = seconds.filter_map(|second| self.outcome.at(Span::from_secs(second)).states.get(self.flows()));
        states.flatten().map(|state| state.as_ref()?.estimate(self.asked.estimate)).collect()
    }

    /// Returns the total goodput in Mb/s in each full second from a time on.
    pub(super) fn each_second(&self, from: Span) -> Vec<f64> {
        self.each_second_of(0, from)
    }

    pub(super) fn each_second_of(&self, nth: usize, from: Span) -> Vec<f64> {
        let range = self.flows_of(nth);
        let read = |second: u64| -> f64 {
            self.outcome.at(Span::from_secs(second)).flows[range.clone()].iter().map(|flow| flow.read).sum()
        };
        let first = from.as_nanos().div_ceil(1_000_000_000);
        let end = self.outcome.duration.as_nanos() / 1_000_000_000;
        (first..end).map(|second| (read(second + 1) - read(second)) * 8e-6).collect()
    }
}

pub(super) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

pub(super) fn percent(part: f64, whole: f64) -> Option<f64> {
    ratio(100.0 * part, whole)
}
