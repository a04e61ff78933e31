//! False reports of arrival times.

use longhaul_units::{Span, Time};
use longhaul_wire::{Arrival, Arrivals, Header, SackBlocks};

use crate::liars::lies::after;
use crate::liars::world::{Data, Lie};

/// Manipulation of arrival times.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fake {
    None,
    /// Time runs backwards.
    Backwards,
    /// Every second segment arrives three seconds early, long before it was sent.
    BeforeSent,
    /// An hour passes at each 64th segment.
    Hours,
    /// All segments of each interval of 6 ms arrive at its end, 64 ns apart: a link of 190 Gb/s.
    Squeezed,
    /// As `Squeezed`, but without spacing.
    AtOnce,
    /// The path has neither a queue nor a narrow link: each segment arrives a fixed time after its transmission,
    /// according to its timestamp, with a spacing of 64 ns for segments sent together.
    AsSent,
    Random,
    /// True times, but only of segments that waited for less than 5 ms, which conceals the queue.
    Withheld,
    /// True times for three seconds, and then none.
    Stopped,
    /// True times and those of `AsSent`, alternating each second.
    Alternating,
}

/// Queueing delay from which on `Withheld` reports nothing.
const LATE: Span = Span::from_millis(5);
/// Time after which `Stopped` reports nothing.
const HONEST_FOR: Span = Span::from_secs(3);

/// Reports false arrival times, one per ACK, because times within an ACK cannot decrease.
pub(crate) struct Times {
    fake: Fake,
    heard: Vec<Data>,
    count: u64,
    first: Option<Time>,
    told: Time,
    random: u32,
    /// Shortest one-way delay.
    shortest: Span,
    acked: Option<u32>,
}

impl Times {
    pub(crate) fn new(fake: Fake) -> Self {
        Self {
            fake,
            heard: Vec::new(),
            count: 0,
            first: None,
            told: Time::ZERO,
            random: 1,
            shortest: Span::MAX,
            acked: None,
        }
    }

    /// Returns the time to report for `data`, if any.
    fn time(&mut self, data: &Data) -> Option<Time> {
        const GRID: Span = Span::from_millis(6);
        let first = *self.first.get_or_insert(data.at);
        self.count += 1;
        let sent = Time::from_nanos(u64::from(data.value) * 1000);
        self.shortest = self.shortest.min(data.at.since(sent));
        let as_sent = sent.max(self.told + Arrival::TICK);
        let grid = Time::from_nanos(data.at.as_nanos().next_multiple_of(GRID.as_nanos()));
        Some(match self.fake {
            Fake::None => data.at,
            Fake::Backwards => first + Span::from_secs(3600) - data.at.since(first),
            Fake::BeforeSent => data.at + Span::from_secs(3 * (self.count % 2)),
            Fake::Hours => data.at + Span::from_secs(3600) * (self.count / 64),
            Fake::Squeezed => grid.max(self.told + Arrival::TICK),
            Fake::AtOnce => grid,
            Fake::AsSent => as_sent,
            Fake::Random => {
                self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                Time::from_nanos(u64::from(self.random) << 5)
            }
            Fake::Withheld => return (data.at.since(sent) < self.shortest + LATE).then_some(data.at),
            Fake::Stopped => return (data.at < first + HONEST_FOR).then_some(data.at),
            Fake::Alternating if (data.at.as_nanos() / 1_000_000_000).is_multiple_of(2) => data.at,
            Fake::Alternating => as_sent,
        })
    }

    fn report(&mut self, data: &Data) -> Arrivals {
        let mut arrivals = Arrivals::EMPTY;
        if let Some(told) = self.time(data) {
            self.told = told;
            arrivals.push(Arrival::new(data.seq, told, false));
        }
        arrivals
    }
}

impl Lie for Times {
    fn hear(&mut self, data: &Data) {
        self.heard.push(*data);
    }

    fn tell(&mut self, _now: Time, mut ack: Header) -> Vec<(Span, Header)> {
        let mut acked = *self.acked.get_or_insert(ack.ack);
        ack.options.arrivals = Arrivals::EMPTY;
        let mut told = Vec::new();
        for data in std::mem::take(&mut self.heard) {
            let mut step = ack.clone();
            step.options.arrivals = self.report(&data);
            if !after(data.end, ack.ack) {
                acked = if after(data.end, acked) { data.end } else { acked };
                step.ack = acked;
                step.options.sack = SackBlocks::EMPTY;
            }
            told.push((Span::ZERO, step));
        }
        self.acked = Some(ack.ack);
        if told.last().is_none_or(|(_, last)| last.ack != ack.ack || last.options.sack != ack.options.sack) {
            told.push((Span::ZERO, ack));
        }
        told
    }
}
