//! The arrival-times option in force: what this side has to report of the peer's data, and what it reads of its own.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use arrayvec::ArrayVec;
use longhaul_units::{Span, Time};
use longhaul_wire::{Arrival, Arrivals, Header};

use super::Connection;
use crate::seq;

/// Arrivals that wait to be reported; older ones make room. An ACK carries up to five.
const WAITING: usize = 8;
/// How many ticks a reported time may be from what was expected, to be believed: 34 s.
const PLAUSIBLE: i64 = 1 << 29;
/// Where the first time read is put.
const ORIGIN: Time = Time::from_nanos(3_600_000_000_000);

/// Arrivals read from one ACK.
pub(super) type Reports = ArrayVec<Report, { Arrivals::CAPACITY }>;

/// When one of our segments reached the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// Stream offset of its first byte.
    pub(super) start: i64,
    /// When it arrived, on the peer's clock, whose origin was chosen here.
    pub(super) at: Time,
    /// Whether receive offload merged it with others.
    pub(super) coalesced: bool,
}

/// An arrival to report.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    start: u64,
    at: Time,
    coalesced: bool,
}

/// Both directions of the option, while it is in force.
#[derive(Debug, Default)]
pub(super) struct ArrivalTimes {
    waiting: ArrayVec<Waiting, WAITING>,
    newest: Option<Newest>,
}

/// The newest time read: as the peer told it, unfolded, and when it was read here.
#[derive(Clone, Copy, Debug)]
struct Newest {
    ticks: u32,
    at: Time,
    read_at: Time,
}

impl ArrivalTimes {
    /// A segment of the peer's that starts at `start` arrived.
    pub(super) fn note(&mut self, start: u64, at: Time, coalesced: bool) {
        if self.waiting.is_full() {
            self.waiting.remove(0);
        }
        self.waiting.push(Waiting { start, at, coalesced });
    }

    /// Adds what waits to an ACK.
    fn add_to(&self, header: &mut Header, irs: u32) {
        for waiting in &self.waiting {
            let arrival = Arrival::new(seq::to_wire(irs, waiting.start), waiting.at, waiting.coalesced);
            if !header.options.arrivals.push(arrival) {
                break;
            }
        }
    }

    /// The oldest `count` have been reported.
    fn reported(&mut self, count: usize) {
        self.waiting.drain(..count.min(self.waiting.len()));
    }

    /// The time that `ticks` names: of those 137 s apart, the one nearest to what passed here since the one before was read.
    /// `None` for what is far from that: a clock that jumped, which then counts on as if it had not, or a lie.
    ///
    /// The first one read is put at an hour, so that earlier ones have room.
    fn unfold(&mut self, now: Time, ticks: u32) -> Option<Time> {
        let Some(newest) = self.newest else {
            self.newest = Some(Newest { ticks, at: ORIGIN, read_at: now });
            return Some(ORIGIN);
        };
        let expected = newest.at + (now - newest.read_at);
        let passed = (expected - newest.at).as_nanos().checked_div(Arrival::TICK.as_nanos()).unwrap_or(0);
        let off = ticks.wrapping_sub(newest.ticks).wrapping_sub(passed as u32);
        // 31 bits, signed: shifted to the top of a word and back.
        let off = i64::from((off << 1).cast_signed() >> 1);
        if off.saturating_abs() >= PLAUSIBLE {
            self.newest = Some(Newest { ticks, at: expected, read_at: now });
            return None;
        }
        let after = (passed as i64).saturating_add(off);
        let nanos = after.saturating_mul(Arrival::TICK.as_nanos() as i64);
        let found = Time::from_nanos(newest.at.as_nanos().saturating_add_signed(nanos));
        if after > 0 {
            self.newest = Some(Newest { ticks, at: found, read_at: now });
        }
        Some(found)
    }
}

impl Connection {
    /// Notes when a segment of the peer's arrived, if the peer wants to know.
    pub(super) fn note_arrival(&mut self, start: i64, at: Time, coalesced: bool) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.note(start.max(1) as u64, at, coalesced);
        }
    }

    /// Adds arrivals to a pure ACK, cut to what fits.
    pub(super) fn add_arrivals(&mut self, header: &mut Header) {
        if let Some(arrivals) = &self.arrivals {
            arrivals.add_to(header, self.irs);
        }
        header.fit();
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.reported(header.options.arrivals.len());
        }
    }

    /// What an ACK says of when our segments arrived; `ack` is the offset it acknowledges.
    pub(super) fn read_arrivals(&mut self, header: &Header, ack: u64) -> Reports {
        let mut reports = Reports::new();
        let now = self.now;
        let Some(arrivals) = &mut self.arrivals else { return reports };
        for arrival in header.options.arrivals.iter() {
            let start = seq::to_offset(self.iss, arrival.seq, ack);
            if let Some(at) = arrivals.unfold(now, arrival.ticks).filter(|_| (1..self.snd.nxt as i64).contains(&start))
            {
                let _ = reports.try_push(Report { start, at, coalesced: arrival.coalesced });
            }
        }
        reports
    }
}

/// The report of the segment that starts at `start`.
pub(super) fn of_segment(reports: &Reports, start: u64) -> Option<Report> {
    reports.iter().rev().find(|report| report.start == start as i64).copied()
}

/// How much later `later` is, if it is.
pub(super) fn apart(earlier: Time, later: Time) -> Option<Span> {
    (later >= earlier).then(|| later.since(earlier))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(at: Time) -> u32 {
        Arrival::new(0, at, false).ticks
    }

    /// The times of days, over the turns of the counter: differences survive, to a tick, however long nothing was sent and
    /// though the ACKs take a while.
    #[test]
    fn unfolds_times_over_the_turns_of_the_counter() {
        let mut arrivals = ArrivalTimes::default();
        let (here, there) = (Time::ZERO + Span::from_secs(7), Time::ZERO + Span::from_secs(130));
        let first = arrivals.unfold(here, ticks(there)).unwrap();
        let mut passed = Span::ZERO;
        for step in 1..90 {
            passed += Span::from_secs(41 * step) + Span::from_nanos(64 * step);
            let late = Span::from_secs(step % 20);
            let read = arrivals.unfold(here + passed + late, ticks(there + passed)).unwrap();
            assert!(read.since(first).as_nanos().abs_diff(passed.as_nanos()) <= Arrival::TICK.as_nanos(), "{step}");
        }
    }

    /// A time that goes back is read as such, and does not move what later ones are told from; one that is too far away is
    /// not believed, and those after it count on from where they should be.
    #[test]
    fn times_that_go_back_or_jump() {
        let mut arrivals = ArrivalTimes::default();
        let (now, there) = (Time::ZERO, Time::ZERO + Span::from_secs(1000));
        let first = arrivals.unfold(now, ticks(there)).unwrap();
        let back = arrivals.unfold(now, ticks(there - Span::from_secs(5))).unwrap();
        assert_eq!(first.since(back), Span::from_secs(5));
        assert_eq!(arrivals.unfold(now, ticks(there)), Some(first));
        let jumped = there + Span::from_secs(60);
        assert_eq!(arrivals.unfold(now, ticks(jumped)), None);
        assert_eq!(arrivals.unfold(now, ticks(jumped + Span::from_secs(1))), Some(first + Span::from_secs(1)));
    }

    /// What an ACK has no room for waits for the next; of more than can wait the oldest go.
    #[test]
    fn reports_in_order_and_forgets_the_oldest() {
        let mut arrivals = ArrivalTimes::default();
        for i in 0..11_u64 {
            arrivals.note(1 + i * 1000, Time::ZERO + Span::from_millis(i), i == 5);
        }
        let mut header = Header::default();
        arrivals.add_to(&mut header, 500);
        let told: Vec<_> = header.options.arrivals.iter().map(|a| (a.seq, a.coalesced)).collect();
        assert_eq!(told, [(3501, false), (4501, false), (5501, true), (6501, false), (7501, false)]);
        arrivals.reported(told.len());
        let mut header = Header::default();
        arrivals.add_to(&mut header, 500);
        assert_eq!(header.options.arrivals.iter().map(|a| a.seq).collect::<Vec<_>>(), [8501, 9501, 10_501]);
    }
}
