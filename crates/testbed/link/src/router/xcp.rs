//! XCP router: efficiency and fairness controller (D. Katabi, M. Handley, C. Rohrs, Congestion control for high
//! bandwidth-delay product networks, SIGCOMM 2002), with throughputs in place of windows as in the ns-2 code.

use std::ops::RangeInclusive;

use longhaul_units::{Span, Time};
use longhaul_wire::network::{Forward, Request, WireDelta};

use super::{Answer, rtt};
use crate::hook::View;
use crate::parameters::text_parameters;

text_parameters! {
    /// Parameters of an XCP router. Defaults without another source are those of the ns-2 code.
    pub struct XcpConfig {
        /// Gain of the spare rate; 0.001 to 1, default 0.4 (SIGCOMM 2002, section 3.5.1).
        alpha: f64 = 0.4, number("XCP alpha", 0.001..=1.0);
        /// Gain of the queue; 0 to 1, default 0.226 (SIGCOMM 2002, section 3.5.1).
        beta: f64 = 0.226, number("XCP beta", 0.0..=1.0);
        /// Fraction of the traffic that is redistributed in each interval: taken from all senders, and given to all
        /// equally; 0 to 1, default 0.1 (SIGCOMM 2002, section 3.5.2).
        shuffle: f64 = 0.1, share("XCP shuffle fraction");
        /// Control interval until the first RTT is reported; after that, it is the mean RTT; 1 ms to 60 s, default 50
        /// ms.
        first_interval: Span = Span::from_millis(50), span("first XCP interval", LONG);
        /// Minimum control interval; 100 us to 1 s, default 1 ms.
        least_interval: Span = Span::from_millis(1), span("minimum XCP interval", SHORT);
        /// Minimum interval over which the minimum queue is measured; 100 us to 1 s, default 2 ms.
        least_queue_interval: Span = Span::from_millis(2), span("minimum XCP queue interval", SHORT);
        /// Maximum RTT, to which longer ones are reduced; 1 ms to 60 s, default 1 s.
        rtt_max: Span = Span::from_secs(1), span("maximum XCP RTT", LONG);
    }
}

const SHORT: RangeInclusive<Span> = Span::from_micros(100)..=Span::from_secs(1);
const LONG: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(60);

/// State of the controller. Rates and feedback are in bytes per second, times in seconds.
#[derive(Debug, Default)]
pub(super) struct Xcp {
    config: XcpConfig,
    clock: Option<Clock>,
    rtt: f64,
    /// Sums over this interval: bytes arrived, X (the time between two packets of a sender), and X times RTT.
    bytes: f64,
    gaps: f64,
    gaps_rtt: f64,
    /// Remaining positive and negative feedback in this interval.
    give: f64,
    take: f64,
    /// Positive feedback per second of X, and negative feedback per byte.
    per_gap: f64,
    per_byte: f64,
    /// Minimum queue of the last queue interval, and of this one.
    queue: f64,
    least_queue: f64,
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    interval: Span,
    ends: Time,
    queue_interval: Span,
    queue_ends: Time,
}

impl Xcp {
    pub(super) fn new(config: XcpConfig) -> Self {
        Self { config, rtt: config.first_interval.as_secs_f64(), ..Self::default() }
    }

    pub(super) fn turn(&mut self, now: Time, view: &View) {
        let Some(rate) = view.rate else { return };
        let (capacity, queue) = (rate.as_bytes_per_sec().max(1) as f64, view.bytes as f64);
        let mut clock = self.clock.unwrap_or_else(|| Clock::new(self.config.first_interval, now));
        self.least_queue = self.least_queue.min(queue);
        while clock.next().is_some_and(|due| due <= now) {
            if self.is_at_rest(queue) {
                clock.skip(now);
            }
            if clock.queue_ends <= clock.ends {
                (self.queue, self.least_queue) = (self.least_queue, queue);
                clock.queue_interval = self.queue_interval(capacity, queue);
                clock.queue_ends += clock.queue_interval;
            } else {
                self.divide(clock.interval.as_secs_f64(), capacity);
                clock.interval = Span::from_secs_f64(self.rtt).max(self.config.least_interval);
                clock.ends += clock.interval;
            }
        }
        self.clock = Some(clock);
    }

    pub(super) fn arrives(&mut self, bytes: u64, request: Option<Request>) {
        if self.clock.is_none() {
            return;
        }
        self.bytes += bytes as f64;
        if let Some((gap, rtt)) = self.gap(bytes, request) {
            self.gaps += gap;
            self.gaps_rtt += gap * rtt;
        }
    }

    pub(super) fn answer(&mut self, view: &View, bytes: u64, forward: &mut Forward) -> Answer {
        let gap = self.gap(bytes, Some(forward.request)).map(|(gap, _)| gap);
        let Request::Xcp { delta, .. } = &mut forward.request else { return Answer::Passed };
        let asked = delta.bytes_per_sec();
        let granted = match gap {
            _ if view.rate.is_none() || self.clock.is_none() => asked,
            // A sender that reports no RTT cannot use positive feedback.
            None => asked.min(0),
            // Round down: fractions of a byte per second remain with the router.
            Some(gap) => asked.min(self.feedback(gap, bytes as f64, asked as f64).floor() as i64),
        };
        if granted >= asked {
            return Answer::Granted;
        }
        *delta = WireDelta::new(granted);
        Answer::Lowered
    }

    /// Returns a packet's feedback, at most `asked`, and deducts it from the remaining feedback of this interval.
    fn feedback(&mut self, gap: f64, bytes: f64, asked: f64) -> f64 {
        let mut gives = self.give.min(self.per_gap * gap);
        let mut takes = self.take.min(self.per_byte * bytes);
        let feedback = gives - takes;
        let granted = feedback.min(asked);
        if asked < feedback {
            // If an upstream router grants less, the difference counts as taken here, which leaves more for the other
            // senders.
            takes = self.take.min(takes + (feedback - asked));
            gives = asked + takes;
        }
        self.give = (self.give - gives.max(0.0)).max(0.0);
        self.take = (self.take - takes).max(0.0);
        if self.give == 0.0 {
            self.per_gap = 0.0;
        }
        if self.take == 0.0 {
            self.per_byte = 0.0;
        }
        granted
    }

    /// Ends a control interval: computes the feedback to distribute in the next one.
    fn divide(&mut self, length: f64, capacity: f64) {
        let load = self.bytes / length;
        let is_known = self.gaps > 0.0;
        self.rtt = if is_known { self.gaps_rtt / self.gaps } else { self.config.first_interval.as_secs_f64() };
        let XcpConfig { alpha, beta, shuffle, .. } = self.config;
        // Aggregate feedback phi, and the traffic to shuffle (SIGCOMM 2002, equations 1 and 4).
        let (give, take) = if self.bytes > 0.0 {
            let change = alpha * (capacity - load) - beta * self.queue / self.rtt;
            let shuffled = (shuffle * load - change.abs()).max(0.0);
            (change.max(0.0) + shuffled, (-change).max(0.0) + shuffled)
        } else {
            (0.0, 0.0)
        };
        (self.give, self.take) = (give, take);
        self.per_gap = if is_known { give / self.gaps } else { 0.0 };
        self.per_byte = if self.bytes > 0.0 { take / self.bytes } else { 0.0 };
        (self.bytes, self.gaps, self.gaps_rtt) = (0.0, 0.0, 0.0);
    }

    fn queue_interval(&self, capacity: f64, queue: f64) -> Span {
        let half = (self.rtt - queue / capacity) / 2.0;
        Span::from_secs_f64(half.max(0.0)).max(self.config.least_queue_interval)
    }

    /// Returns X, the time between two packets of this packet's sender, and the RTT; `None` without an RTT or an XCP
    /// request.
    fn gap(&self, bytes: u64, request: Option<Request>) -> Option<(f64, f64)> {
        let Some(Request::Xcp { throughput, rtt_micros, .. }) = request else { return None };
        let rtt = rtt(rtt_micros, self.config.rtt_max)?;
        let throughput = throughput.rate().as_bytes_per_sec() as f64;
        // The window is at least one packet, so a sender gains nothing by reporting a lower throughput.
        Some(((bytes as f64 / throughput).min(rtt), rtt))
    }

    fn is_at_rest(&self, queue: f64) -> bool {
        let is_silent = self.bytes == 0.0 && self.gaps == 0.0 && self.give == 0.0 && self.take == 0.0;
        is_silent
            && self.rtt == self.config.first_interval.as_secs_f64()
            && self.queue == queue
            && self.least_queue == queue
    }
}

impl Clock {
    fn new(first_interval: Span, now: Time) -> Self {
        let ends = now + first_interval;
        Self { interval: first_interval, ends, queue_interval: first_interval, queue_ends: ends }
    }

    /// Returns when an interval ends next, or `None` if it would exceed the range of times.
    fn next(&self) -> Option<Time> {
        Some(self.ends.min(self.queue_ends)).filter(|due| *due < Time::MAX)
    }

    fn skip(&mut self, now: Time) {
        for (ends, interval) in [(&mut self.ends, self.interval), (&mut self.queue_ends, self.queue_interval)] {
            *ends += interval * (now.since(*ends).as_nanos() / interval.as_nanos().max(1));
        }
    }
}

#[cfg(test)]
mod tests;
