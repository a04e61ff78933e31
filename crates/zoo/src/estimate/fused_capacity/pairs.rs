//! Stored probe pairs of a fused estimate.

use longhaul_cc::estimate::PairSample;
use longhaul_units::{Bytes, Span, Time};

use super::agree;

pub(super) const KEPT: usize = 32;
/// Number of the newest pairs that are never dropped, because they show whether the path has changed.
const NEWEST: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pair {
    at: Time,
    /// Number of pairs that preceded this one.
    number: u32,
    /// Delay of the first packet.
    delay: Span,
    /// CapProbe's sum of delays.
    sum: Span,
    pub(super) dispersion: Span,
}

impl Pair {
    /// Returns the weight of the pair, 0 to 1. Its dispersion can be wrong by the queueing delay of its first packet.
    fn weight(&self, least: Span) -> f64 {
        let (dispersion, waited) = (self.dispersion.as_secs_f64(), (self.delay - least).as_secs_f64());
        dispersion / (dispersion + 2.0 * waited)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Evidence {
    /// Weighted mean of the dispersions that agree with that of the best pair.
    pub(super) dispersion: Span,
    /// Queueing delay of the best pair's first packet.
    pub(super) waited: Span,
    /// Sum of the weights of the pairs that agree with the best one, including itself.
    pub(super) weight: f64,
    /// Number of pairs that agree with the best one.
    pub(super) agreeing: u32,
}

/// Up to 32 pairs of packets of the same size: the newest 16, and of the others those with the smallest sums of delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pairs {
    kept: [Pair; KEPT],
    len: usize,
    /// Size of the second packet in bytes.
    pub(super) bytes: Bytes,
    pub(super) taken: u32,
    /// Number of consecutive pairs, up to the newest, that did not agree with the best one.
    pub(super) strays: u32,
}

impl Pairs {
    pub(super) const fn new(bytes: Bytes) -> Self {
        let none = Pair { at: Time::ZERO, number: 0, delay: Span::ZERO, sum: Span::ZERO, dispersion: Span::ZERO };
        Self { kept: [none; KEPT], len: 0, bytes, taken: 0, strays: 0 }
    }

    pub(super) fn all(&self) -> &[Pair] {
        self.kept.get(..self.len).unwrap_or_default()
    }

    fn retain(&mut self, keep: impl Fn(&Pair) -> bool) {
        let all = self.kept;
        let mut left = all.iter().take(self.len).filter(|pair| keep(pair));
        self.len = 0;
        for (slot, pair) in self.kept.iter_mut().zip(&mut left) {
            *slot = *pair;
            self.len += 1;
        }
    }

    pub(super) fn forget(&mut self, from: Time) {
        if self.all().iter().any(|pair| pair.at < from) {
            self.retain(|pair| pair.at >= from);
        }
    }

    /// Adds a pair. If there is no space, the one with the largest sum of delays is dropped, but never one of the
    /// newest 16.
    pub(super) fn take(&mut self, sample: &PairSample, at: Time) {
        if self.len == KEPT {
            let old = |pair: &&Pair| pair.number.saturating_add(NEWEST) <= self.taken;
            let worst =
                self.all().iter().filter(old).max_by_key(|pair| (pair.sum, pair.number)).map(|pair| pair.number);
            self.retain(|pair| Some(pair.number) != worst);
        }
        if let Some(slot) = self.kept.get_mut(self.len) {
            let PairSample { first_delay: delay, dispersion, .. } = *sample;
            *slot = Pair { at, number: self.taken, delay, sum: sample.sum(), dispersion };
            self.len += 1;
        }
        self.taken = self.taken.saturating_add(1);
    }

    /// Returns the best pair, which has the smallest sum of delays among the pairs whose dispersion is at most
    /// `slowest`.
    pub(super) fn best(&self, slowest: Span) -> Option<&Pair> {
        self.all().iter().filter(|pair| pair.dispersion <= slowest).min_by_key(|pair| (pair.sum, pair.number))
    }

    /// Returns the result of the pairs with a dispersion of at most `slowest`; a delay of `least` means no queueing.
    pub(super) fn evidence(&self, least: Span, slowest: Span) -> Option<Evidence> {
        let best = self.best(slowest)?;
        let agreeing = || self.all().iter().filter(|pair| agree(pair.dispersion, best.dispersion));
        let weight: f64 = agreeing().map(|pair| pair.weight(least)).sum();
        let sum: f64 = agreeing().map(|pair| pair.weight(least) * pair.dispersion.as_secs_f64()).sum();
        Some(Evidence {
            dispersion: Span::from_secs_f64(sum / weight),
            waited: best.delay - least,
            weight,
            agreeing: u32::try_from(agreeing().count()).unwrap_or(u32::MAX),
        })
    }

    /// Counts the newest pair as contradicting, or resets the count if it agrees. Returns whether it agrees. Without
    /// a best pair no pair contradicts.
    pub(super) fn judge_newest(&mut self, slowest: Span) -> bool {
        let newest = self.all().last().map(|pair| pair.dispersion);
        let best = self.best(slowest).map(|pair| pair.dispersion);
        let agrees = newest.zip(best).is_none_or(|(newest, best)| agree(newest, best));
        self.strays = if agrees { 0 } else { self.strays.saturating_add(1) };
        agrees
    }

    /// Returns whether the newest `count` pairs, at most 16, agree with one another.
    pub(super) fn newest_agree(&self, count: u32) -> bool {
        let newest = self.all().iter().rev().take(count as usize);
        let Some(last) = self.all().last() else { return false };
        newest.clone().count() >= count as usize
            && newest.into_iter().all(|pair| agree(pair.dispersion, last.dispersion))
    }

    /// Drops all pairs except the contradicting ones, which then become the reference.
    pub(super) fn keep_strays(&mut self) {
        let from = self.taken.saturating_sub(self.strays);
        self.retain(|pair| pair.number >= from);
        (self.taken, self.strays) = (self.strays, 0);
        for pair in self.kept.iter_mut().take(self.len) {
            pair.number = pair.number.saturating_sub(from);
        }
    }
}
