//! The pairs that a fused estimate rests on.

use longhaul_units::{Bytes, Span, Time};

use super::super::packet_pair::PairSample;
use super::FusedConfig;

/// How many pairs are kept.
pub(super) const KEPT: usize = 32;
/// So many of the newest are never the ones to go: the newest tell whether the path has changed.
const NEWEST: u32 = 16;

/// A pair that counts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair {
    at: Time,
    /// Pairs that came before it.
    number: u32,
    /// The first packet's delay.
    delay: Span,
    /// CapProbe's sum of delays.
    sum: Span,
    dispersion: Span,
}

impl Pair {
    /// How much the pair counts, 0 to 1: its dispersion can be wrong by what its first packet waited.
    fn weight(&self, least: Span) -> f64 {
        let (dispersion, waited) = (self.dispersion.as_secs_f64(), (self.delay - least).as_secs_f64());
        dispersion / (dispersion + 2.0 * waited)
    }
}

/// What the pairs say together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Evidence {
    /// The mean of the dispersions that agree with the best pair's, by weight.
    pub(super) dispersion: Span,
    /// What the best pair's first packet waited.
    pub(super) waited: Span,
    /// The sum of the weights of the pairs that agree with the best, itself included.
    pub(super) weight: f64,
    /// How many they are.
    pub(super) agreeing: u32,
}

/// Up to 32 pairs of packets of one size: the newest 16, and of the others those that waited least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pairs {
    kept: [Pair; KEPT],
    len: usize,
    /// Bytes of a second packet.
    pub(super) bytes: Bytes,
    /// All that were taken.
    pub(super) taken: u32,
    /// How many in a row, the newest last, did not agree with the best one.
    pub(super) strays: u32,
}

impl Pairs {
    pub(super) const fn new(bytes: Bytes) -> Self {
        let none = Pair { at: Time::ZERO, number: 0, delay: Span::ZERO, sum: Span::ZERO, dispersion: Span::ZERO };
        Self { kept: [none; KEPT], len: 0, bytes, taken: 0, strays: 0 }
    }

    fn all(&self) -> &[Pair] {
        self.kept.get(..self.len).unwrap_or_default()
    }

    /// Their dispersions in the order in which they came.
    #[cfg(test)]
    pub(super) fn dispersions(&self) -> impl DoubleEndedIterator<Item = Span> {
        self.all().iter().map(|pair| pair.dispersion)
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

    /// Forgets what came before `from`.
    pub(super) fn forget(&mut self, from: Time) {
        if self.all().iter().any(|pair| pair.at < from) {
            self.retain(|pair| pair.at >= from);
        }
    }

    /// Takes a pair.
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

    /// The pair with the least sum of delays of those that are not slower than `slowest`.
    fn best(&self, slowest: Span) -> Option<&Pair> {
        self.all().iter().filter(|pair| pair.dispersion <= slowest).min_by_key(|pair| (pair.sum, pair.number))
    }

    /// What the pairs say whose dispersion is at most `slowest`, where nothing waits that needs `least`.
    pub(super) fn evidence(&self, config: &FusedConfig, least: Span, slowest: Span) -> Option<Evidence> {
        let best = self.best(slowest)?;
        let agreeing = || self.all().iter().filter(|pair| config.agree(pair.dispersion, best.dispersion));
        let weight: f64 = agreeing().map(|pair| pair.weight(least)).sum();
        let sum: f64 = agreeing().map(|pair| pair.weight(least) * pair.dispersion.as_secs_f64()).sum();
        Some(Evidence {
            dispersion: Span::from_secs_f64(sum / weight),
            waited: best.delay - least,
            weight,
            agreeing: u32::try_from(agreeing().count()).unwrap_or(u32::MAX),
        })
    }

    /// Counts the newest pair among the strays, or ends their row; whether it ended it. Without a best nothing strays.
    pub(super) fn judge_newest(&mut self, config: &FusedConfig, slowest: Span) -> bool {
        let newest = self.all().last().map(|pair| pair.dispersion);
        let best = self.best(slowest).map(|pair| pair.dispersion);
        let agrees = newest.zip(best).is_none_or(|(newest, best)| config.agree(newest, best));
        self.strays = if agrees { 0 } else { self.strays.saturating_add(1) };
        agrees
    }

    /// Whether the newest `count` pairs, at most 16, agree with one another.
    pub(super) fn newest_agree(&self, config: &FusedConfig, count: u32) -> bool {
        let newest = self.all().iter().rev().take(count as usize);
        let Some(last) = self.all().last() else { return false };
        newest.clone().count() >= count as usize
            && newest.into_iter().all(|pair| config.agree(pair.dispersion, last.dispersion))
    }

    /// Drops all but the strays, which are strays no more.
    pub(super) fn keep_strays(&mut self) {
        let from = self.taken.saturating_sub(self.strays);
        self.retain(|pair| pair.number >= from);
        (self.taken, self.strays) = (self.strays, 0);
        for pair in self.kept.iter_mut().take(self.len) {
            pair.number = pair.number.saturating_sub(from);
        }
    }
}
