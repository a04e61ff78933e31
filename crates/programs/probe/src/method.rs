//! Interface between a method, which plans trains of probes, and a driver, which sends them and reports their arrival.

use longhaul_cc::estimate::RateRange;
use longhaul_units::{Bytes, Span, Time};

/// Probe packets that belong together: a pair, a train, a stream or a chirp.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Train {
    /// Identifies the train in its [`TrainReport`]. A method uses each number only once.
    pub id: u32,
    /// The packets in the order in which they are sent.
    pub packets: Vec<Planned>,
}

/// A probe packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planned {
    /// Departure time, relative to the first packet of the train. Packets with equal times are sent back to back.
    pub at: Span,
    /// Size of the IP packet in bytes: including the headers of IP and UDP, but not those of the link layer.
    pub size: Bytes,
}

impl Planned {
    /// A packet of `size` bytes (IP), sent at `at` after the first packet of its train.
    pub const fn new(at: Span, size: Bytes) -> Self {
        Self { at, size }
    }
}

impl Train {
    /// A train of these packets.
    pub const fn new(id: u32, packets: Vec<Planned>) -> Self {
        Self { id, packets }
    }

    /// `count` packets of `size` bytes (IP), sent `gap` apart; a gap of zero sends them back to back.
    pub fn regular(id: u32, count: u32, size: Bytes, gap: Span) -> Self {
        let at = |index: u32| Span::from_nanos(gap.as_nanos().saturating_mul(u64::from(index)));
        Self { id, packets: (0..count).map(|index| Planned::new(at(index), size)).collect() }
    }
}

/// The fate of each packet of a train.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrainReport {
    /// Number of the train.
    pub id: u32,
    /// One entry per packet, in the order in which the packets were sent; `None` if the packet was lost.
    pub packets: Vec<Option<Arrived>>,
}

impl TrainReport {
    /// Report of the train with the number `id`.
    pub const fn new(id: u32, packets: Vec<Option<Arrived>>) -> Self {
        Self { id, packets }
    }
}

/// Send and arrival times of a probe packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Arrived {
    /// Actual departure time on the prober's clock, which may be later than planned.
    pub sent_at: Time,
    /// Arrival time on the receiver's clock, whose offset and drift are unknown.
    pub arrived_at: Time,
    /// Time from `sent_at` until the answer reached the prober.
    pub rtt: Span,
    /// Size of the IP packet in bytes.
    pub size: Bytes,
    /// Whether receive offload merged the packet with others, so that it has their arrival time.
    pub coalesced: bool,
}

impl Arrived {
    /// A packet of `size` bytes (IP) that was not merged with others.
    pub const fn new(sent_at: Time, arrived_at: Time, rtt: Span, size: Bytes) -> Self {
        Self { sent_at, arrived_at, rtt, size, coalesced: false }
    }
}

/// Shortest silence that ends a train. It covers scheduling delays of a busy host.
const LEAST_QUIET: Span = Span::from_millis(50);

/// Returns the time at which a driver reports a train with missing answers. `last` is the departure time of its last
/// packet, and `answers` holds the time of its latest answer and its longest round trip so far.
///
/// The train is complete once no answer has arrived for two of its longest round trips: within that time even a slow
/// link transmits several more packets. It is complete no later than `patience` after `last`, even without any answer.
/// If the driver waited for `patience` after every loss, a method that sends its trains one after another would take
/// ten times as long on a path that loses 1 % of the packets.
pub fn missing_from(last: Time, answers: Option<(Time, Span)>, patience: Span) -> Time {
    let longest = last + patience;
    let Some((latest, rtt)) = answers else { return longest };
    let quiet = last.max(latest) + (rtt * 2).max(LEAST_QUIET);
    quiet.min(longest).max(latest)
}

/// The next step that a method requests from its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this train immediately, then poll again.
    Send(Train),
    /// Poll again at this time, or after the next report if that comes earlier.
    Wait(Time),
    /// Stop: the estimate is final.
    Done,
}

/// The current estimate of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// Capacity of the narrow link, in bytes of IP packets per second.
    pub capacity: Option<RateRange>,
    /// Available bandwidth of the tight link, in bytes of IP packets per second.
    pub available: Option<RateRange>,
    /// Whether the method's own convergence criterion is met.
    pub converged: bool,
    /// Confidence from 0 to 1, by a measure described in the documentation of each method.
    pub confidence: f64,
}

/// A method of measuring a path with packets sent only for this purpose.
pub trait Method {
    /// Name of the method, such as `capprobe`.
    fn name(&self) -> &'static str;

    /// Returns the next step at `now`, which must not decrease from call to call.
    fn poll(&mut self, now: Time) -> Next;

    /// Takes the report of a train that was answered or abandoned. Packets without an answer count as lost, and reports
    /// of unknown trains are ignored.
    fn on_report(&mut self, now: Time, report: &TrainReport);

    /// Returns the current estimate.
    fn estimate(&self) -> Estimate;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_packets_are_lost_after_two_round_trips() {
        let at = |millis: u64| Time::ZERO + Span::from_millis(millis);
        let from = |answers: Option<(u64, u64)>| {
            let answers = answers.map(|(latest, rtt)| (at(latest), Span::from_millis(rtt)));
            missing_from(at(1000), answers, Span::from_secs(1))
        };
        assert_eq!(from(None), at(2000));
        assert_eq!(from(Some((1030, 30))), at(1090));
        assert_eq!(from(Some((900, 30))), at(1060), "the train is not complete before its last packet is sent");
        assert_eq!(from(Some((1004, 4))), at(1054), "at least 50 ms");
        assert_eq!(from(Some((1400, 400))), at(2000));
        assert_eq!(from(Some((2100, 900))), at(2100), "an answer arrived after the patience was over");
    }
}
