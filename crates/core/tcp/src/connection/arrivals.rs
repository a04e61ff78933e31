//! Arrival-times option: arrival times of the peer's data, to be reported, and the peer's reports on our data.

use arrayvec::ArrayVec;
use longhaul_units::{Span, Time};
use longhaul_wire::{Arrival, Arrivals, Header};

use super::{Numbers, Reclaim};
use crate::seq;

/// Maximum number of unreported arrivals: the capacity of one ACK. The oldest are dropped.
const MAX_UNREPORTED: usize = Arrivals::CAPACITY;
/// Maximum deviation of a reported time from the expected one, in ticks (34 s).
const PLAUSIBLE: i64 = 1 << 29;
const ORIGIN: Time = Time::from_nanos(3_600_000_000_000);

pub(super) type Reports = ArrayVec<Report, { Arrivals::CAPACITY }>;

#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// Stream offset of the segment's first byte.
    pub(super) start: u64,
    /// Arrival time: of our segments on the peer's clock, with a local origin.
    pub(super) at: Time,
    /// Whether receive offload merged the segment with others.
    pub(super) coalesced: bool,
}

/// State of the option in both directions.
#[derive(Debug, Default)]
pub(super) struct ArrivalTimes {
    unreported: ArrayVec<Report, MAX_UNREPORTED>,
    /// Arrival time of the newest batch that receive offload merged.
    batch: Option<Time>,
    newest: Option<Newest>,
}

/// The newest report: ticks as received, their unwrapped time, and the local time of reception.
#[derive(Clone, Copy, Debug)]
struct Newest {
    ticks: u32,
    at: Time,
    read_at: Time,
}

/// Keeps nothing: when the connection is idle, unreported arrivals belong to data that has been acknowledged without
/// reports.
impl Reclaim for ArrivalTimes {
    type Kept = ();

    fn from_kept((): &()) -> Self {
        Self::default()
    }
}

impl ArrivalTimes {
    /// Records the arrival of a segment that starts at `start`. In a merged batch only the first segment has an arrival
    /// time of its own. Only the newest merged batch is kept: gaps between merged batches are not meaningful, and the
    /// space is needed for single arrivals.
    pub(super) fn note(&mut self, start: u64, at: Time, coalesced: bool) {
        let known = coalesced && self.batch == Some(at);
        self.batch = coalesced.then_some(at);
        if known {
            return;
        }
        if coalesced {
            self.unreported.retain(|unreported| !unreported.coalesced);
        }
        if self.unreported.is_full() {
            self.unreported.remove(0);
        }
        self.unreported.push(Report { start, at, coalesced });
    }

    /// Adds unreported arrivals to an ACK, which keeps `blocks` SACK blocks, and trims the ACK to the available space. If
    /// not all of them fit, or their sequence numbers are too far apart, the newest are reported. All of them are then
    /// cleared.
    pub(super) fn report(&mut self, header: &mut Header, irs: u32, blocks: usize) {
        for oldest in 0..self.unreported.len() {
            let reported = self.unreported.get(oldest..).unwrap_or_default();
            let mut with = header.clone();
            let added = reported.iter().all(|unreported| {
                let arrival = Arrival::new(seq::to_wire(irs, unreported.start), unreported.at, unreported.coalesced);
                with.options.arrivals.push(arrival)
            });
            with.fit();
            let whole = with.options.arrivals.len() == reported.len() && with.options.sack.len() >= blocks;
            if added && whole {
                *header = with;
                break;
            }
        }
        self.unreported.clear();
        header.fit();
    }

    pub(super) fn read(&mut self, now: Time, header: &Header, numbers: &Numbers, ack: u64, nxt: u64) -> Reports {
        let mut reports = Reports::new();
        for arrival in header.options.arrivals.iter() {
            let start = numbers.our_offset(arrival.seq, ack);
            if let Some(at) = self.unwrap_ticks(now, arrival.ticks).filter(|_| (1..nxt as i64).contains(&start)) {
                let _ = reports.try_push(Report { start: start as u64, at, coalesced: arrival.coalesced });
            }
        }
        reports
    }

    /// Returns the time for a 31-bit tick count, which wraps every 137 s: the candidate nearest to the local time
    /// passed since the last report. Returns `None` for a time too far from that, because the peer's clock was set or
    /// the report is false; later times are then relative to the expected one.
    ///
    /// The first report is assigned the time of one hour, so that earlier times can be represented.
    fn unwrap_ticks(&mut self, now: Time, ticks: u32) -> Option<Time> {
        let Some(newest) = self.newest else {
            self.newest = Some(Newest { ticks, at: ORIGIN, read_at: now });
            return Some(ORIGIN);
        };
        let expected = newest.at + (now - newest.read_at);
        let passed = (expected - newest.at).as_nanos().checked_div(Arrival::TICK.as_nanos()).unwrap_or(0);
        let off = ticks.wrapping_sub(newest.ticks).wrapping_sub(passed as u32);
        // Sign-extend the 31-bit difference.
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

pub(super) fn of_segment(reports: &Reports, start: u64) -> Option<Report> {
    reports.iter().rev().find(|report| report.start == start).copied()
}

/// Returns the difference of two times, or `None` if `later` is earlier.
pub(super) fn apart(earlier: Time, later: Time) -> Option<Span> {
    (later >= earlier).then(|| later.since(earlier))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(at: Time) -> u32 {
        Arrival::new(0, at, false).ticks
    }

    /// Over several wraps of the counter, differences are preserved to one tick, after long pauses and with delayed
    /// ACKs.
    #[test]
    fn unfolds_times_over_the_turns_of_the_counter() {
        let mut arrivals = ArrivalTimes::default();
        let (here, there) = (Time::ZERO + Span::from_secs(7), Time::ZERO + Span::from_secs(130));
        let first = arrivals.unwrap_ticks(here, ticks(there)).unwrap();
        let mut passed = Span::ZERO;
        for step in 1..90 {
            passed += Span::from_secs(41 * step) + Span::from_nanos(64 * step);
            let late = Span::from_secs(step % 20);
            let read = arrivals.unwrap_ticks(here + passed + late, ticks(there + passed)).unwrap();
            assert!(read.since(first).as_nanos().abs_diff(passed.as_nanos()) <= Arrival::TICK.as_nanos(), "{step}");
        }
    }

    /// A time that goes back is accepted and does not change the reference for later ones. A time that is too far
    /// away is rejected, and later ones count from the expected time.
    #[test]
    fn times_that_go_back_or_jump() {
        let mut arrivals = ArrivalTimes::default();
        let (now, there) = (Time::ZERO, Time::ZERO + Span::from_secs(1000));
        let first = arrivals.unwrap_ticks(now, ticks(there)).unwrap();
        let back = arrivals.unwrap_ticks(now, ticks(there - Span::from_secs(5))).unwrap();
        assert_eq!(first.since(back), Span::from_secs(5));
        assert_eq!(arrivals.unwrap_ticks(now, ticks(there)), Some(first));
        let jumped = there + Span::from_secs(60);
        assert_eq!(arrivals.unwrap_ticks(now, ticks(jumped)), None);
        assert_eq!(arrivals.unwrap_ticks(now, ticks(jumped + Span::from_secs(1))), Some(first + Span::from_secs(1)));
    }

    /// One arrival is reported per merged batch, and only of the newest batch: single arrivals are not displaced.
    #[test]
    fn one_arrival_is_reported_for_the_newest_merged_batch() {
        let mut arrivals = ArrivalTimes::default();
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        arrivals.note(1, at(1), false);
        for i in 0..20 {
            arrivals.note(1001 + i * 1000, at(2), true);
        }
        assert_eq!(reported(&mut arrivals), [(501, false), (1501, true)]);
        arrivals.note(20_001, at(2), false);
        arrivals.note(21_001, at(2), false);
        for batch in 3..20 {
            arrivals.note(22_001 + batch, at(batch), true);
            arrivals.note(23_001 + batch, at(batch), true);
        }
        assert_eq!(reported(&mut arrivals), [(20_501, false), (21_501, false), (22_520, true)]);
        // The batch is not reported again.
        arrivals.note(65_001, at(19), true);
        assert!(arrivals.unreported.is_empty());
    }

    /// If there are more arrivals than fit, or if they are too far apart, the newest are reported and the others
    /// dropped.
    #[test]
    fn reports_the_newest_in_order() {
        let mut arrivals = ArrivalTimes::default();
        for i in 0..11_u64 {
            arrivals.note(1 + i * 1000, Time::ZERO + Span::from_millis(i), i == 8);
        }
        let newest = [(6501, false), (7501, false), (8501, true), (9501, false), (10_501, false)];
        assert_eq!(reported(&mut arrivals), newest);
        assert!(reported(&mut arrivals).is_empty());
        for start in [1, 1001, 90_001, 91_001] {
            arrivals.note(start, Time::ZERO, false);
        }
        assert_eq!(reported(&mut arrivals), [(90_501, false), (91_501, false)]);
    }

    /// Beside a SACK block there is room for three arrivals, and beside two for one. Blocks that have to be reported go
    /// before arrivals.
    #[test]
    fn the_newest_are_reported_beside_sack_blocks() {
        let beside = |blocks| {
            let mut arrivals = ArrivalTimes::default();
            (0..5).for_each(|i| arrivals.note(1 + i * 1000, Time::ZERO, false));
            let mut header = Header::default();
            header.options.timestamps = Some(longhaul_wire::Timestamps { value: 1, echo: 1 });
            for left in [8501, 6501, 4501] {
                header.options.sack.push(longhaul_wire::SackBlock { left, right: left + 1000 });
            }
            arrivals.report(&mut header, 500, blocks);
            (header.options.sack.len(), header.options.arrivals.iter().map(|a| a.seq).collect::<Vec<_>>())
        };
        assert_eq!([beside(0), beside(1)], [(1, vec![2501, 3501, 4501]), (1, vec![2501, 3501, 4501])]);
        assert_eq!([beside(2), beside(3)], [(2, vec![4501]), (3, vec![])]);
    }

    fn reported(arrivals: &mut ArrivalTimes) -> Vec<(u32, bool)> {
        let mut header = Header::default();
        arrivals.report(&mut header, 500, 0);
        header.options.arrivals.iter().map(|a| (a.seq, a.coalesced)).collect()
    }
}
