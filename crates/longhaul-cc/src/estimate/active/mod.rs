//! Active probing without IO: trains of packets go out, reports of their arrival come in, an estimate stands at any time.
//!
//! Whoever drives a [`Method`] polls it until it is done: over sockets (a prober and a reflector that stamps arrivals), or
//! in virtual time over a modelled link. Trains may overlap and reports may come in any order.

mod options;
pub mod path_chirp;
pub mod pathload;
pub mod pathrate;
mod statistics;
mod turns;

mod cap_probe;

use longhaul_units::{Bytes, Rate, Span, Time};

pub use cap_probe::{CapProbeMethod, CapProbeOptions};

pub use options::InvalidOption;
pub use turns::{Limits, Turns};

/// Packets that belong together: a pair, a train, a stream or a chirp.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Train {
    /// Names the train in its [`TrainReport`]; a method never uses a number twice.
    pub id: u32,
    /// The packets, in the order in which they leave.
    pub packets: Vec<Planned>,
}

/// One packet of a train that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When it leaves, counted from the train's first packet. Packets with the same value leave back to back.
    pub at: Span,
    /// Bytes of the whole IP packet: headers of IP and UDP count, those of the link below do not.
    pub size: Bytes,
}

impl Train {
    /// `count` packets of `size` bytes (IP packet), one each `gap`; back to back when that is zero.
    #[must_use]
    pub fn regular(id: u32, count: u32, size: Bytes, gap: Span) -> Self {
        Self {
            id,
            packets: (0..count)
                .map(|i| Planned { at: Span::from_nanos(gap.as_nanos().saturating_mul(u64::from(i))), size })
                .collect(),
        }
    }
}

/// What became of a train.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainReport {
    /// The train's number.
    pub id: u32,
    /// For each packet, in the order in which they left: when it left and arrived, or `None` if it was lost.
    pub packets: Vec<Option<Arrived>>,
}

/// A probe packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// When it left, on the prober's clock: the true time, which may be later than planned.
    pub sent_at: Time,
    /// When it arrived, on the receiver's clock, whose origin and drift are unknown.
    pub arrived_at: Time,
    /// From `sent_at` until the answer was back at the prober.
    pub rtt: Span,
    /// Bytes of the whole IP packet.
    pub size: Bytes,
    /// Whether the receiver's offload merged it with others, so that its time of arrival is theirs.
    pub coalesced: bool,
}

/// The least time without an answer after which a train is over: a host that was busy elsewhere is back by then.
const LEAST_QUIET: Span = Span::from_millis(50);

/// When a driver reports a train though packets are missing. Its last packet left at `last`; `answers` are the time of its
/// latest answer and its longest round trip so far.
///
/// Nothing has come for two of its longest round trips then, in which a slow link has transmitted several more packets.
/// Without any answer, and at most, it is `patience` after the last packet left. Waiting for all of `patience` after each
/// loss would make a method that sends train after train take ten times as long where one packet in a hundred is lost.
#[must_use]
pub fn missing_from(last: Time, answers: Option<(Time, Span)>, patience: Span) -> Time {
    let longest = last + patience;
    let Some((latest, rtt)) = answers else { return longest };
    let quiet = last.max(latest) + (rtt * 2).max(LEAST_QUIET);
    quiet.min(longest).max(latest)
}

/// What a method wants done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this train now, then poll again.
    Send(Train),
    /// Poll again at this time, or after the next report if that is earlier.
    Wait(Time),
    /// The estimate will not change any more.
    Done,
}

/// A rate with the range that the method believes it to be in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRange {
    /// The lower end.
    pub low: Rate,
    /// The best single value.
    pub value: Rate,
    /// The upper end.
    pub high: Rate,
}

/// What a method knows so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// The rate of the narrow link, in bytes of IP packets a second.
    pub capacity: Option<RateRange>,
    /// The part of the tight link that others leave unused, likewise.
    pub available: Option<RateRange>,
    /// Whether the method's own criterion of convergence is met.
    pub converged: bool,
    /// How much to believe it, 0 to 1, by a measure that the method's page states.
    pub confidence: f64,
}

/// A way to measure a path with packets sent for nothing else.
pub trait Method {
    /// Its name, such as `capprobe`.
    fn name(&self) -> &'static str;

    /// What to do at `now`, which never goes back.
    fn poll(&mut self, now: Time) -> Next;

    /// A train was answered, or given up: packets without an answer are lost. Unknown numbers are ignored.
    fn on_report(&mut self, now: Time, report: &TrainReport);

    /// What is known so far.
    fn estimate(&self) -> Estimate;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_lost_after_two_round_trips() {
        let at = |millis: u64| Time::ZERO + Span::from_millis(millis);
        let from = |answers: Option<(u64, u64)>| {
            let answers = answers.map(|(latest, rtt)| (at(latest), Span::from_millis(rtt)));
            missing_from(at(1000), answers, Span::from_secs(1))
        };
        assert_eq!(from(None), at(2000));
        assert_eq!(from(Some((1030, 30))), at(1090));
        assert_eq!(from(Some((900, 30))), at(1060), "it is not all sent before");
        assert_eq!(from(Some((1004, 4))), at(1054), "not less than 50 ms");
        assert_eq!(from(Some((1400, 400))), at(2000));
        assert_eq!(from(Some((2100, 900))), at(2100), "the patience is over, but this answer has come");
    }
}
