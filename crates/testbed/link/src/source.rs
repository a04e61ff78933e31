//! Sans-IO cross traffic: which packets or transfers are sent when.

mod http;
mod pareto;
mod synthetic;
mod vectors;

use longhaul_units::{Bytes, Rate, Span, Time};

pub use http::HttpWorkload;
pub use pareto::BoundedPareto;
pub use synthetic::Synthetic;
pub use vectors::{Adu, ConnectionVector, Side};

use crate::random::Random;

const SCALE: u64 = 1_000_000_000;

/// Distribution of the burst and pause lengths of an on-off source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Durations {
    /// Exponential distribution.
    Exponential,
    /// Pareto distribution with this shape, which is above 1. Below 2, a sum of such sources is self-similar
    /// (Willinger et al. 1997). ns-2's default is 1.5.
    Pareto(f64),
}

/// Source of equally sized packets: an endless iterator of send times and sizes.
#[derive(Clone, Debug)]
pub struct Source {
    size: u32,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Cbr(Ticks),
    Poisson { next: Time, mean_gap: f64, random: Random },
    OnOff(OnOff),
}

/// Exact send times at a constant rate.
#[derive(Clone, Debug)]
struct Ticks {
    next: Time,
    /// Fraction of a nanosecond after `next`, in units of 1/`rate`.
    fraction: u64,
    rate: u64,
}

#[derive(Clone, Debug)]
struct OnOff {
    ticks: Ticks,
    burst_ends: Time,
    on: Span,
    off: Span,
    durations: Durations,
    random: Random,
}

impl Source {
    /// Sends packets of `size` bytes at a constant rate, the first at `start`. At rate 0 there is only one packet.
    pub fn cbr(start: Time, rate: Rate, size: u32) -> Self {
        Self { size, kind: Kind::Cbr(Ticks::new(start, rate)) }
    }

    /// Sends packets of `size` bytes at a mean rate from `start`, with exponentially distributed gaps.
    pub fn poisson(start: Time, rate: Rate, size: u32, mut random: Random) -> Self {
        let mean_gap = rate.time_for(Bytes(u64::from(size))).as_secs_f64();
        let next = start + exponential(&mut random, mean_gap);
        Self { size, kind: Kind::Poisson { next, mean_gap, random } }
    }

    /// Sends bursts of packets of `size` bytes at a constant rate, separated by pauses; `on` and `off` are the mean
    /// lengths. The first burst begins at `start`.
    pub fn on_off(
        start: Time,
        rate: Rate,
        size: u32,
        (on, off): (Span, Span),
        durations: Durations,
        mut random: Random,
    ) -> Self {
        let burst_ends = start + durations.draw(on, &mut random);
        let ticks = Ticks::new(start, rate);
        Self { size, kind: Kind::OnOff(OnOff { ticks, burst_ends, on, off, durations, random }) }
    }
}

impl Iterator for Source {
    type Item = (Time, u32);

    fn next(&mut self) -> Option<Self::Item> {
        let at = match &mut self.kind {
            Kind::Cbr(ticks) => ticks.take(self.size),
            Kind::Poisson { next, mean_gap, random } => {
                let at = *next;
                *next += exponential(random, *mean_gap);
                at
            }
            Kind::OnOff(on_off) => on_off.take(self.size),
        };
        Some((at, self.size))
    }
}

impl Ticks {
    fn new(next: Time, rate: Rate) -> Self {
        Self { next, fraction: 0, rate: rate.as_bytes_per_sec() }
    }

    fn take(&mut self, size: u32) -> Time {
        let at = self.next;
        let Some(nanos) = (self.fraction + u64::from(size) * SCALE).checked_div(self.rate) else {
            self.next = Time::MAX;
            return at;
        };
        self.fraction = (self.fraction + u64::from(size) * SCALE) % self.rate;
        self.next += Span::from_nanos(nanos);
        at
    }
}

impl OnOff {
    fn take(&mut self, size: u32) -> Time {
        while self.ticks.next >= self.burst_ends && self.ticks.next < Time::MAX {
            let begins = self.burst_ends + self.durations.draw(self.off, &mut self.random);
            self.burst_ends = begins + self.durations.draw(self.on, &mut self.random);
            (self.ticks.next, self.ticks.fraction) = (begins, 0);
        }
        self.ticks.take(size)
    }
}

impl Durations {
    /// Draws a duration of at least 1 ns, so that time always advances.
    fn draw(self, mean: Span, random: &mut Random) -> Span {
        let span = match self {
            Self::Exponential => exponential(random, mean.as_secs_f64()),
            Self::Pareto(shape) => {
                let scale = mean.as_secs_f64() * (shape - 1.0) / shape;
                Span::from_secs_f64(scale * random.pareto(shape))
            }
        };
        span.max(Span::from_nanos(1))
    }
}

fn exponential(random: &mut Random, mean_secs: f64) -> Span {
    Span::from_secs_f64(random.exponential() * mean_secs)
}

#[cfg(test)]
mod tests;
