//! RCP's router: one rate for everybody (N. Dukkipati, Rate Control Protocol, PhD thesis, Stanford, 2007).

use longhaul_units::{Rate, Span, Time};
use longhaul_wire::network::{Forward, Request, WireRate};

use super::{Answer, rtt};
use crate::hook::View;
use crate::validate::{ConfigError, range, span_range};

/// Bytes of the packet in which the least rate counts (the authors' ns-2 code).
const PACKET: f64 = 1000.0;

/// The least RTT there is to be told, in seconds.
const LEAST_RTT: f64 = 1e-6;

/// How a router of RCP finds its rate. Defaults without another source are those of the authors' ns-2 code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RcpConfig {
    /// Gain of the spare rate; 0.001 to 10, 0.4.
    pub alpha: f64,
    /// Gain of the queue; 0 to 10, 0.4.
    pub beta: f64,
    /// The part of the link's rate that is to be used; 0.01 to 1, 1.
    pub gamma: f64,
    /// How long a rate stands, or the mean RTT if that is less; 10 us to 1 s, 10 ms.
    pub interval: Span,
    /// The first rate, as a part of the link's; 0 to 1, 0.05.
    pub first_rate: f64,
    /// The mean RTT until one is heard of; 1 us to 1000 s, 200 ms.
    pub first_rtt: Span,
    /// The least rate, in packets of 1000 bytes per mean RTT; 0 to 100, 0.01.
    pub least: f64,
    /// A longer RTT counts as this one; 1 us to 1000 s, 10 s. Ours: the thesis trusts what senders say.
    pub rtt_max: Span,
}

impl Default for RcpConfig {
    fn default() -> Self {
        Self {
            alpha: 0.4,
            beta: 0.4,
            gamma: 1.0,
            interval: Span::from_millis(10),
            first_rate: 0.05,
            first_rtt: Span::from_millis(200),
            least: 0.01,
            rtt_max: Span::from_secs(10),
        }
    }
}

impl RcpConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let rtts = Span::from_micros(1)..=Span::from_secs(1000);
        range("RCP alpha", self.alpha, 0.001..=10.0)?;
        range("RCP beta", self.beta, 0.0..=10.0)?;
        range("RCP gamma", self.gamma, 0.01..=1.0)?;
        span_range("RCP interval", self.interval, Span::from_micros(10)..=Span::from_secs(1))?;
        range("first RCP rate", self.first_rate, 0.0..=1.0)?;
        span_range("first RCP RTT", self.first_rtt, rtts.clone())?;
        range("least RCP rate", self.least, 0.0..=100.0)?;
        span_range("longest RCP RTT", self.rtt_max, rtts)
    }
}

/// Rates are bytes a second, times seconds.
#[derive(Debug)]
pub(super) struct Rcp {
    config: RcpConfig,
    /// Mean RTT.
    rtt: f64,
    /// Once a packet found the link with a rate. It begins with the link: a router that was idle until then tells that.
    clock: Option<Clock>,
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    /// The rate that is told.
    rate: f64,
    /// Length and end of the interval.
    interval: Span,
    ends: Time,
    /// Bytes that came in this interval, and what of their transmission is in the next.
    arrived: f64,
    spill: f64,
    /// Bytes of packets that told an RTT, and the sum of bytes times RTT.
    told: f64,
    told_rtt: f64,
}

impl Rcp {
    pub(super) fn new(config: RcpConfig) -> Self {
        Self { config, rtt: config.first_rtt.min(config.rtt_max).as_secs_f64(), clock: None }
    }

    /// Ends the intervals that end by `now`.
    pub(super) fn turn(&mut self, now: Time, view: &View) {
        let Some(capacity) = view.rate.map(capacity) else { return };
        let Self { config, rtt, clock } = self;
        let clock = clock.get_or_insert_with(|| Clock::new(config, *rtt, capacity));
        while clock.ends <= now && clock.ends < Time::MAX {
            let is_silent = clock.arrived == 0.0 && clock.spill == 0.0 && clock.told == 0.0;
            // Silent intervals all change the rate by the same factor: a link that was idle for hours catches up at once.
            let nanos = clock.interval.as_nanos().max(1);
            let missed = if is_silent { (now - clock.ends).as_nanos() / nanos } else { 0 };
            clock.end(config, rtt, capacity, view.bytes as f64, missed.saturating_add(1));
        }
    }

    /// A packet comes to the queue.
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

    /// Writes the router's rate into a request if that is less.
    pub(super) fn answer(&self, view: &View, forward: &mut Forward) -> Answer {
        let Request::Rcp { rate, .. } = &mut forward.request else { return Answer::Passed };
        let (Some(_), Some(clock)) = (view.rate, self.clock) else { return Answer::Granted };
        // Nobody is told to stop for good.
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

    /// Ends this interval and others like it, `count` in all, while `queue` bytes wait.
    fn end(&mut self, config: &RcpConfig, rtt: &mut f64, capacity: f64, queue: f64, count: u64) {
        let length = self.interval.as_secs_f64();
        let load = self.arrived / length;
        if self.told > 0.0 {
            let mean = self.told_rtt / self.told;
            // Short RTTs count for less, and the less the lower the rate is.
            let share = if mean >= *rtt { 1.0 } else { (self.rate / capacity).min(1.0) * mean / *rtt };
            *rtt = (*rtt + (share * length / *rtt).min(1.0) * (mean - *rtt)).max(LEAST_RTT);
        }
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

/// From the least rate to what is to be used; where that is less, it counts.
fn clip(config: &RcpConfig, rtt: f64, capacity: f64, rate: f64) -> f64 {
    rate.max(config.least * PACKET / rtt).min(config.gamma * capacity)
}

/// By squaring: the library's powers differ between platforms.
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
