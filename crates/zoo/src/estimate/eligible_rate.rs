//! TCP Westwood ABSE's eligible rate estimate ERE, with a window and a filter that both adapt to congestion.

use longhaul_cc::estimate::WindowedMin;
use longhaul_cc::internal::expiry;
use longhaul_cc::registry::{OptionSpec, Rule, Value};
use longhaul_cc::{Ack, Sent};
use longhaul_units::{Bytes, Span, Time};

use super::RTT_MIN_WINDOW;
use super::delivered::{Cursor, Delivered, Part, RESOLUTION};

/// Upper bound of [`EligibleRate::recent`].
pub(crate) const MOST_RECENT: usize = 32;

/// Rate in bytes/s below which a change counts as rounding error.
const LEAST_CHANGE: f64 = 1e-9;

/// Options that have no effect without `n`, because the filter ignores the changes between samples.
const FILTERED: &[Rule] = &[Rule::Without("n", Value::Float(0.0))];

longhaul_cc::options! {
    /// ERE in bytes/s (Wang, Valla, Sanadidi, Gerla, Adaptive bandwidth share estimation in TCP Westwood, Globecom 2002;
    /// equations as quoted by others).
    ///
    /// A sample is the rate over a window that depends on the congestion. Without a queue it is as short as the time
    /// between two ACKs, and measures the path's bandwidth as a packet pair does. The longer the queue, the closer the
    /// window comes to a round trip, over which the rate is that of the flow:
    ///
    /// ```text
    /// Th <- epsilon Th + (1 - epsilon) (bytes of the last RTT) / RTT
    /// T   = RTT (cwnd - Th RTTmin) / cwnd, within the minimum window and RTT
    /// s   = (bytes of the last T) / T
    /// ```
    ///
    /// The samples pass a low-pass filter whose time constant grows with how much they change:
    ///
    /// ```text
    /// U   <- beta U + (1 - beta) |s - s before|
    /// tau  = RTT + n RTT U / (the largest of the latest U)
    /// ERE <- (2 tau - d) / (2 tau + d) ERE + 2 d / (2 tau + d) s
    /// ```
    ///
    /// The bytes of an ACK count as delivered evenly since the ACK before, so that windows have no edges. `cwnd` is the
    /// amount in flight. `d` is the ACK's share of the window as a time, `RTT x delivered / cwnd`. With evenly spread
    /// ACKs it is the time since the previous ACK. In bursts it weights data instead of the gaps between them, in which
    /// the window was the limit and not the path. The minimum window is the larger of `d` and the configured floor.
    ///
    /// No path delivers faster than the sender sends. If the bytes of a window are known to have been sent over a longer
    /// time than the window, the ACKs were compressed, by a queue on their way or by a peer that withholds them. The rate
    /// is then that of sending (as in the delivery-rate samples of draft-cheng-iccrg-delivery-rate-estimation, section
    /// 3.3).
    ///
    /// A pause of the application does not show what the path delivers either (RFC 9002, section 7.8, states the same of
    /// the window), so that no sample's window includes one.
    pub(crate) struct EligibleRate {
        epsilon: f64 = OptionSpec::float("epsilon", 0.0, 0.99, 0.6, "weight of the old value in the filtered throughput, per ACK"),
        beta: f64 =
            OptionSpec::float("beta", 0.0, 0.99, 0.6, "weight of the old value in the average change of samples, per ACK")
                .ruled(FILTERED),
        n: f64 =
            OptionSpec::float("n", 0.0, 100.0, 10.0, "RTTs by which the filter slows down while samples change"),
        recent: usize =
            OptionSpec::int("recent", 1, MOST_RECENT as u64, 10, "number of recent average changes for the maximum")
                .ruled(FILTERED),
        /// Minimum window in nanoseconds.
        floor: f64 [|micros: u64| micros as f64 * 1e3] =
            OptionSpec::int("floor", 1, 100_000, 1000, "minimum duration of a sample, us"),
        rtt_min_window: Span [expiry] = RTT_MIN_WINDOW,
        delivered: Delivered => Delivered::new(),
        /// Starts of the last round trip and of the last window.
        cursors: [Cursor; 2] => [Cursor::default(); 2],
        rtt_min: WindowedMin => WindowedMin::new(rtt_min_window),
        throughput: Option<f64> => None,
        /// Window of the last sample in nanoseconds.
        window: f64 => 0.0,
        sample: Option<f64> => None,
        changes: Changes => Changes::new(recent),
        estimate: Option<f64> => None,
        /// Send times of the first and the last unacknowledged segment that followed a pause of the application.
        resumed: Option<(Time, Time)> => None,
    }
}

impl EligibleRate {
    /// Forgets all measurements.
    pub(crate) fn restart(&mut self) {
        let Self { epsilon, beta, n, recent, floor, rtt_min_window, .. } = *self;
        let (rtt_min, changes) = (WindowedMin::new(rtt_min_window), Changes::new(recent));
        *self = Self { epsilon, beta, n, recent, floor, rtt_min_window, rtt_min, changes, ..Self::default() };
    }

    pub(crate) fn on_sent(&mut self, sent: &Sent) {
        if !sent.pause.is_zero() {
            let first = self.resumed.map_or(sent.now, |(first, _)| first);
            self.resumed = Some((first, sent.now));
        }
    }

    /// Processes an ACK as [`on_ack`](Self::on_ack) does, with an RTT of `rtt`, and uses the send time of its data.
    pub(crate) fn observe(&mut self, ack: &Ack<'_>, rtt: Option<Span>) {
        let (now, sent_at) = (ack.rx_time.unwrap_or(ack.now), ack.rtt.map(|sample| sample.sent_at));
        // Samples must not reach back over a pause: restart once data sent after it is acknowledged.
        if let (Some((first, last)), Some(sent_at)) = (self.resumed, sent_at)
            && sent_at >= first
        {
            (self.delivered, self.cursors) = (Delivered::new(), [Cursor::default(); 2]);
            self.resumed = (sent_at < last).then_some((first, last));
        }
        self.on_ack_of(sent_at, now, ack.delivered, ack.prior_in_flight, rtt);
    }

    fn on_ack_of(&mut self, sent_at: Option<Time>, now: Time, delivered: Bytes, in_flight: Bytes, rtt: Option<Span>) {
        if delivered == Bytes::ZERO {
            return;
        }
        self.delivered.record(now, sent_at, delivered, rtt.map_or(Span::ZERO, |rtt| rtt / RESOLUTION));
        let Some(rtt) = rtt.filter(|rtt| !rtt.is_zero()) else {
            return;
        };
        let round = rtt.as_nanos() as f64;
        let rtt_min = self.rtt_min.update(now, rtt).as_nanos() as f64;
        // Th: filtered throughput of the last round trip.
        let Some(achieved) = self.rate_over(rtt, 0) else {
            return;
        };
        let keep = self.epsilon;
        let throughput = self.throughput.map_or(achieved, |old| keep * old + (1.0 - keep) * achieved);
        self.throughput = Some(throughput);
        // T: window of the sample, from the share of the queue.
        let cwnd = in_flight.max(delivered).as_f64();
        let per_byte = round / cwnd;
        let share = per_byte * delivered.as_f64();
        let least = share.max(self.floor).min(round);
        self.window = (round - per_byte * throughput * rtt_min * 1e-9).clamp(least, round);
        if let Some(sample) = self.rate_over(Span::from_nanos(self.window as u64), 1) {
            self.filter(sample, share, round);
        }
    }

    /// Returns ERE in bytes/s, or zero before the first estimate.
    pub(crate) fn rate(&self) -> f64 {
        self.estimate.unwrap_or(0.0)
    }

    /// Returns the filtered throughput Th in bytes/s, or zero before the first sample.
    pub(crate) fn throughput(&self) -> f64 {
        self.throughput.unwrap_or(0.0)
    }

    /// Returns the number of bytes in flight that fill the path without a queue: ERE times the minimum RTT, or zero
    /// before the first estimate.
    pub(crate) fn fills(&self) -> f64 {
        self.rate() * self.rtt_min.get().map_or(0.0, Span::as_secs_f64)
    }

    pub(crate) fn achieved(&self) -> f64 {
        self.throughput() * self.rtt_min.get().map_or(0.0, Span::as_secs_f64)
    }

    /// Returns the rate over the last `span`, or over the recorded part of it; it is at most the send rate.
    fn rate_over(&mut self, span: Span, which: usize) -> Option<f64> {
        let Part { bytes, nanos, sent, unit } = self.delivered.over(span, &mut self.cursors[which]);
        let nanos = nanos.max(unit * self.floor.min(span.as_nanos() as f64)).max(sent);
        (bytes > 0.0 && nanos > 0.0).then(|| 1e9 * bytes / nanos)
    }

    fn filter(&mut self, sample: f64, share: f64, rtt: f64) {
        let change = self.sample.map_or(0.0, |before| (sample - before).abs());
        let (average, largest) = self.changes.add(change, self.beta);
        // Both are multiplied by the largest change, to save a division.
        let (tau, share) = (rtt * (largest + self.n * average), share * largest);
        let keep = ((2.0 * tau - share) / (2.0 * tau + share)).clamp(0.0, 1.0);
        self.estimate = Some(self.estimate.map_or(sample, |old| keep * old + (1.0 - keep) * sample));
        self.sample = Some(sample);
    }
}

/// U and its latest values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Changes {
    average: f64,
    latest: [f64; MOST_RECENT],
    largest: f64,
    next: usize,
    count: usize,
}

impl Changes {
    fn new(count: usize) -> Self {
        Self { average: 0.0, latest: [0.0; MOST_RECENT], largest: 0.0, next: 0, count: count.clamp(1, MOST_RECENT) }
    }

    /// Adds `change` to the average. Returns U and its largest recent value, or 0 and 1 if nothing changed.
    fn add(&mut self, change: f64, beta: f64) -> (f64, f64) {
        self.average = beta * self.average + (1.0 - beta) * change;
        let forgotten = self.latest.get_mut(self.next).map_or(0.0, |slot| core::mem::replace(slot, self.average));
        self.next = if self.next + 1 < self.count { self.next + 1 } else { 0 };
        if self.average >= self.largest {
            self.largest = self.average;
        } else if forgotten >= self.largest {
            self.largest = self.latest.iter().take(self.count).fold(0.0, |a: f64, b| a.max(*b));
        }
        if self.largest > LEAST_CHANGE { (self.average, self.largest) } else { (0.0, 1.0) }
    }
}

#[cfg(test)]
mod tests;
