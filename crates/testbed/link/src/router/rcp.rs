//! RCP router: one rate for all flows (N. Dukkipati, Rate Control Protocol, PhD thesis, Stanford, 2007).

use std::ops::RangeInclusive;

use longhaul_units::{Rate, Span, Time};
use longhaul_wire::network::{Forward, Request, WireRate};

use super::{Answer, rtt};
use crate::hook::View;
use crate::parameters::text_parameters;

/// Packet size in bytes for the unit of the minimum rate (the authors' ns-2 code).
const PACKET: f64 = 1000.0;

/// Minimum reported RTT, in seconds.
const LEAST_RTT: f64 = 1e-6;

text_parameters! {
    /// Parameters of an RCP router. Defaults without another source are those of the authors' ns-2 code.
    pub struct RcpConfig {
        /// Gain of the spare rate; 0.001 to 10, default 0.4.
        alpha: f64 = 0.4, number("RCP alpha", 0.001..=10.0);
        /// Gain of the queue; 0 to 10, default 0.4.
        beta: f64 = 0.4, number("RCP beta", 0.0..=10.0);
        /// Target utilization of the link; 0.01 to 1, default 1.
        gamma: f64 = 1.0, number("RCP gamma", 0.01..=1.0);
        /// Interval between rate updates, or the mean RTT if that is shorter; 10 us to 1 s, default 10 ms.
        interval: Span = Span::from_millis(10), span("RCP interval", Span::from_micros(10)..=Span::from_secs(1));
        /// Initial rate as a fraction of the link's rate; 0 to 1, default 0.05.
        first_rate: f64 = 0.05, share("first RCP rate");
        /// Mean RTT until the first one is reported; 1 us to 1000 s, default 200 ms.
        first_rtt: Span = Span::from_millis(200), span("first RCP RTT", RTTS);
        /// Minimum rate in packets of 1000 bytes per mean RTT; 0 to 100, default 0.01.
        least: f64 = 0.01, number("minimum RCP rate", 0.0..=100.0);
        /// Maximum RTT, to which longer ones are reduced; 1 us to 1000 s, default 10 s. An addition: the thesis trusts
        /// the senders' values.
        rtt_max: Span = Span::from_secs(10), span("maximum RCP RTT", RTTS);
    }
}

const RTTS: RangeInclusive<Span> = Span::from_micros(1)..=Span::from_secs(1000);

/// State of the router. Rates are in bytes per second, times in seconds.
#[derive(Debug)]
pub(super) struct Rcp {
    config: RcpConfig,
    rtt: f64,
    /// Starts with the first packet that finds the link with a rate. Its intervals count from time zero, so that an
    /// idle router advertises the rate it would have reached by then.
    clock: Option<Clock>,
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    rate: f64,
    interval: Span,
    ends: Time,
    /// Bytes that arrived in this interval, and the part of them that is transmitted in the next one.
    arrived: f64,
    spill: f64,
    /// Number of bytes in packets that reported an RTT, and the sum of bytes times RTT.
    told: f64,
    told_rtt: f64,
}

impl Rcp {
    pub(super) fn new(config: RcpConfig) -> Self {
        Self { config, rtt: config.first_rtt.min(config.rtt_max).as_secs_f64(), clock: None }
    }

    pub(super) fn turn(&mut self, now: Time, view: &View) {
        let Some(capacity) = view.rate.map(capacity) else { return };
        let Self { config, rtt, clock } = self;
        let clock = clock.get_or_insert_with(|| Clock::new(config, *rtt, capacity));
        while clock.ends <= now && clock.ends < Time::MAX {
            let is_silent = clock.arrived == 0.0 && clock.spill == 0.0 && clock.told == 0.0;
            // Without traffic, all intervals change the rate by the same factor, so that long idle periods take one
            // step.
            let nanos = clock.interval.as_nanos().max(1);
            let missed = if is_silent { (now - clock.ends).as_nanos() / nanos } else { 0 };
            clock.end(config, rtt, capacity, view.bytes as f64, missed.saturating_add(1));
        }
    }

    pub(super) fn arrives(&mut self, now: Time, view: &View, bytes: u64, request: Option<Request>) {
        let (Some(rate), Some(clock)) = (view.rate, &mut self.clock) else { return };
        let bytes = bytes as f64;
        if let Some(Request::Rcp { rtt_micros, .. }) = request
            && let Some(rtt) = rtt(rtt_micros, self.config.rtt_max)
        {
            clock.told += bytes;
            clock.told_rtt += bytes * rtt;
        }
        let (left, takes) = ((clock.ends - now).as_secs_f64(), bytes / capacity(rate));
        let here = if takes > left { bytes * left / takes } else { bytes };
        clock.arrived += here;
        clock.spill += bytes - here;
    }

    pub(super) fn answer(&self, view: &View, forward: &mut Forward) -> Answer {
        let Request::Rcp { rate, .. } = &mut forward.request else { return Answer::Passed };
        let (Some(_), Some(clock)) = (view.rate, self.clock) else { return Answer::Granted };
        // Advertise at least one byte per second, so that no sender stops forever.
        let own = Rate::from_bytes_per_sec((clock.rate as u64).max(1));
        if own >= rate.rate() {
            return Answer::Granted;
        }
        *rate = WireRate::new(own);
        Answer::Lowered
    }
}

impl Clock {
    fn new(config: &RcpConfig, rtt: f64, capacity: f64) -> Self {
        let interval = interval(config, rtt);
        let rate = clip(config, rtt, capacity, config.first_rate * capacity);
        Self { rate, interval, ends: Time::ZERO + interval, arrived: 0.0, spill: 0.0, told: 0.0, told_rtt: 0.0 }
    }

    /// Ends `count` equal intervals, beginning with the current one, while `queue` bytes wait.
    fn end(&mut self, config: &RcpConfig, rtt: &mut f64, capacity: f64, queue: f64, count: u64) {
        let length = self.interval.as_secs_f64();
        let load = self.arrived / length;
        if self.told > 0.0 {
            let mean = self.told_rtt / self.told;
            // A shorter RTT moves the mean less; the weight is proportional to the rate.
            let share = if mean >= *rtt { 1.0 } else { (self.rate / capacity).min(1.0) * mean / *rtt };
            *rtt = (*rtt + (share * length / *rtt).min(1.0) * (mean - *rtt)).max(LEAST_RTT);
        }
        // Rate update of the thesis: R = R (1 + T/d (alpha (gamma C - y) - beta Q/d) / (gamma C)).
        let target = config.gamma * capacity;
        let spare = config.alpha * (target - load) - config.beta * queue / *rtt;
        let factor = (1.0 + length / *rtt * spare / target).max(0.0);
        self.rate = clip(config, *rtt, capacity, self.rate * power(factor, count));
        self.ends += self.interval * (count - 1);
        self.interval = interval(config, *rtt);
        self.ends += self.interval;
        (self.arrived, self.spill, self.told, self.told_rtt) = (self.spill, 0.0, 0.0, 0.0);
    }
}

fn capacity(rate: Rate) -> f64 {
    rate.as_bytes_per_sec().max(1) as f64
}

fn interval(config: &RcpConfig, rtt: f64) -> Span {
    config.interval.min(Span::from_secs_f64(rtt)).max(Span::from_micros(1))
}

/// Limits a rate to the range from the minimum to the target utilization; the latter takes precedence.
fn clip(config: &RcpConfig, rtt: f64, capacity: f64, rate: f64) -> f64 {
    rate.max(config.least * PACKET / rtt).min(config.gamma * capacity)
}

/// Computes a power by repeated squaring, because the standard library's result differs between platforms.
fn power(base: f64, mut exponent: u64) -> f64 {
    let (mut square, mut result) = (base, 1.0);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests;
