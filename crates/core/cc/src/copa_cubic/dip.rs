//! Dips, by which `copa-cubic` flows recognise each other in a full queue.
//!
//! After each overflow of the queue, the window is halved for a few round trips, and then restored. The queue shows the
//! data that other flows have in flight. `copa-cubic` flows restore their windows at the same time, whereas CUBIC flows
//! need seconds for this (RFC 9438).

use crate::{Ack, SendLimit};

const KEEP: f64 = 0.5;
const ROUNDS: u32 = 3;
/// Minimum number of round trips between two dips.
const APART: u32 = 10;
/// The queue has overflowed if its delay falls to this fraction of its maximum.
const FALLEN: f64 = 0.8;
/// Other flows count as `copa-cubic` if they reduced their data in flight by more than this fraction in a dip, and have
/// more in flight after this many round trips. The RTT of an ACK belongs to the bytes in flight one round trip earlier:
/// while the flow's own window returns, the others appear to have less in flight than they do, and CUBIC flows 0.6 to
/// 0.9 of it.
const REDUCED: f64 = 0.3;
const RESTORED: u32 = 3;
/// Reduction of the other flows' windows at which they count as having yielded, the required number of dips, and the
/// maximum number of round trips between them.
const GIVES_WAY: f64 = 0.1;
const YIELDS: u32 = 3;
const SOON: u32 = 20;
/// A CUBIC flow's decrease by 0.3 empties a queue of up to this fraction of the RTT without queue.
const EMPTIED: f64 = 0.43;

/// Delays of the path in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    pub(super) queueing: f64,
    pub(super) rtt: f64,
    /// Queueing delay of an empty queue.
    pub(super) empty: f64,
}

/// A dip in progress. Windows are in bytes, delays in seconds.
#[derive(Clone, Copy, Debug)]
struct Dip {
    window: f64,
    rtt: f64,
    /// RTT and bytes in flight at the newest ACK of the last round trip.
    last: (f64, f64),
    rounds: u32,
}

/// Data that the other flows had in flight at the end of a dip, in bytes.
#[derive(Clone, Copy, Debug)]
struct Ended {
    others: f64,
    /// Number of round trips that have begun since the end of the dip.
    rounds: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dips {
    /// Maximum queueing delay since the last dip, and the RTT at that time.
    peak: (f64, f64),
    dip: Option<Dip>,
    /// The last dip, until it shows whether the other flows are `copa-cubic`.
    ended: Option<Ended>,
    /// Number of round trips since the last dip began.
    since: u32,
    /// Whether the queue of the last overflow was longer than a CUBIC flow's decrease can remove.
    pub(super) was_long: bool,
    /// Whether the other flows have just restored their windows.
    is_evidence: bool,
    /// Number of consecutive dips, each soon after the previous one, in which the other flows yielded.
    yields: u32,
    is_soon: bool,
}

impl Dips {
    /// Returns the upper limit of the window in bytes.
    pub(super) fn limit(&self) -> f64 {
        self.dip.map_or(f64::INFINITY, |dip| KEEP * dip.window)
    }

    /// Returns whether the others respond to the queue, and not only to losses.
    pub(super) const fn others_give_way(&self) -> bool {
        self.yields >= YIELDS
    }

    /// Returns whether the queue has just overflowed: this flow lost segments (`has_lost`), or the delay has decreased,
    /// which all flows observe.
    pub(super) fn has_overflowed(&mut self, has_lost: bool, delay: Delay) -> bool {
        if delay.queueing > self.peak.0 {
            self.peak = (delay.queueing, delay.rtt);
        }
        let has_fallen = delay.queueing < FALLEN * self.peak.0 && self.peak.0 > 2.0 * delay.empty;
        self.dip.is_none() && self.since >= APART && (has_lost || has_fallen)
    }

    /// Returns whether the last dip has just revealed other `copa-cubic` flows.
    pub(super) const fn take_evidence(&mut self) -> bool {
        std::mem::replace(&mut self.is_evidence, false)
    }

    /// Begins a trial; a queue that decreases because of it has not overflowed.
    pub(super) const fn on_trial(&mut self) {
        self.peak = (0.0, 0.0);
    }

    pub(super) fn begin(&mut self, window: f64) {
        self.ended = None;
        let (queueing, rtt) = std::mem::take(&mut self.peak);
        self.dip = Some(Dip { window, rtt, last: (0.0, 0.0), rounds: 0 });
        self.was_long = queueing > EMPTIED * (rtt - queueing);
        self.is_soon = self.since <= SOON;
        self.since = 0;
    }

    /// Processes an ACK with an RTT of `rtt` seconds over a link of `capacity` bytes per second.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>, rtt: f64, capacity: Option<f64>) {
        self.since = self.since.saturating_add(u32::from(ack.round_start));
        let in_flight = ack.in_flight.as_f64();
        if let (true, Some(ended)) = (ack.round_start, &mut self.ended) {
            ended.rounds += 1;
            if ended.rounds >= RESTORED {
                // If the application pauses, no other flow fills the free capacity.
                let is_known = ack.limit != SendLimit::App;
                self.is_evidence =
                    is_known && capacity.is_some_and(|capacity| capacity * rtt - in_flight > ended.others);
                self.ended = None;
            }
        }
        let Some(dip) = &mut self.dip else { return };
        dip.rounds += u32::from(ack.round_start);
        if dip.rounds + 1 == ROUNDS {
            dip.last = (rtt, in_flight);
        }
        if dip.rounds >= ROUNDS {
            let (others, reduced) = capacity.map_or((0.0, 0.0), |capacity| dip.others(capacity));
            (self.dip, self.peak) = (None, (0.0, 0.0));
            self.ended = (reduced > REDUCED && others > 0.0).then_some(Ended { others, rounds: 0 });
            let before = if self.is_soon { self.yields } else { 0 };
            self.yields = if reduced > GIVES_WAY { before + 1 } else { 0 };
        }
    }
}

impl Dip {
    /// Returns the data in flight of the other flows, in bytes, and the fraction by which they reduced it, over a link
    /// of `capacity` bytes per second.
    fn others(&self, capacity: f64) -> (f64, f64) {
        let before = capacity * self.rtt - self.window;
        let after = capacity * self.last.0 - self.last.1;
        (after, if before > 0.0 { 1.0 - after / before } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::{Bytes, Time};

    use super::*;

    const MSS: f64 = 1448.0;
    /// 100 segments in 100 ms.
    const CAPACITY: f64 = 1000.0 * MSS;

    fn delay(queueing: f64) -> Delay {
        Delay { queueing, rtt: 0.1 + queueing, empty: 0.001 }
    }

    fn ack(round_start: bool, in_flight: f64) -> Ack<'static> {
        let mut ack = Ack::new(Time::ZERO);
        (ack.round_start, ack.limit) = (round_start, SendLimit::Cwnd);
        ack.in_flight = Bytes::from_f64(in_flight * MSS);
        ack
    }

    fn rounds(dips: &mut Dips, count: u32, in_flight: f64, rtt: f64) {
        for _ in 0..count {
            dips.on_ack(&ack(true, in_flight), rtt, Some(CAPACITY));
        }
    }

    /// A flow with 80 of 200 segments dips to 40. Returns the dips after the others, with 120, keep `others`.
    fn after(others: f64) -> Dips {
        let mut dips = Dips::default();
        rounds(&mut dips, APART, 80.0, 0.2);
        assert!(!dips.has_overflowed(false, delay(0.1)), "the queue has not fallen");
        assert!(dips.has_overflowed(false, delay(0.07)));
        dips.begin(80.0 * MSS);
        assert_eq!(dips.limit(), 40.0 * MSS);
        rounds(&mut dips, ROUNDS, 40.0, (40.0 + others) / 1000.0);
        assert_eq!(dips.limit(), f64::INFINITY, "the dip is over");
        dips
    }

    /// Returns whether the others are of this kind if they keep `low` of 120 segments in a dip, and have `now` afterwards.
    fn is_evidence(low: f64, now: f64) -> bool {
        let mut dips = after(low);
        rounds(&mut dips, RESTORED - 1, 80.0, (80.0 + now) / 1000.0);
        assert!(!dips.take_evidence(), "not yet");
        rounds(&mut dips, 1, 80.0, (80.0 + now) / 1000.0);
        let is_evidence = dips.take_evidence();
        assert!(!dips.take_evidence(), "it is used once");
        is_evidence
    }

    /// The others have 200 - 80 = 120 segments before the dip. Those of CUBIC keep 84 of them, or 59 after two losses, and
    /// seem to have no more three round trips later. Those of this kind keep 60, and then have 120, or 84 after a loss.
    #[test]
    fn restored_windows_of_the_others_are_evidence() {
        for (low, now, expected) in
            [(84.0, 84.0, false), (59.0, 58.9, false), (59.0, 60.0, true), (60.0, 120.0, true), (60.0, 84.0, true)]
        {
            assert_eq!(is_evidence(low, now), expected, "{low}, {now} of 120");
        }
        // Too small a reduction is not a dip.
        assert!(!is_evidence(85.0, 120.0) && is_evidence(83.0, 120.0));
        // Nor are there others that have less than nothing.
        assert!(!is_evidence(-5.0, 0.0));
    }

    /// Nothing is known about the others without the capacity, or if the application pauses; nor later.
    #[test]
    fn a_capacity_that_is_unknown_is_no_evidence() {
        for (capacity, limit) in [(None, SendLimit::Cwnd), (Some(CAPACITY), SendLimit::App)] {
            let mut dips = after(60.0);
            let mut ack = ack(true, 80.0);
            ack.limit = limit;
            for _ in 0..RESTORED {
                dips.on_ack(&ack, 0.2, capacity);
            }
            rounds(&mut dips, RESTORED, 80.0, 0.2);
            assert!(!dips.take_evidence(), "{limit:?}");
        }
    }

    /// The queue before a trial is not compared with that after it.
    #[test]
    fn a_trial_is_no_overflow() {
        let mut dips = after(120.0);
        rounds(&mut dips, APART, 80.0, 0.2);
        assert!(!dips.has_overflowed(false, delay(0.1)));
        dips.on_trial();
        rounds(&mut dips, APART, 80.0, 0.2);
        assert!(!dips.has_overflowed(false, delay(0.05)));
    }

    /// What the last dip would show is not judged during the next one.
    #[test]
    fn a_dip_ends_the_one_before() {
        let mut dips = after(60.0);
        dips.begin(80.0 * MSS);
        rounds(&mut dips, RESTORED, 40.0, 0.2);
        assert!(!dips.take_evidence());
    }

    /// A queue of 0.43 of the RTT is what 0.3 of all segments leave.
    #[test]
    fn a_long_queue_is_one_that_cubic_does_not_empty() {
        for (queueing, is_long) in [(0.042, false), (0.044, true)] {
            let mut dips = Dips::default();
            dips.has_overflowed(true, delay(queueing));
            dips.begin(MSS);
            assert_eq!(dips.was_long, is_long, "{queueing} s");
        }
    }

    /// Three dips in a row in which others give way show that they respond to delay. CUBIC flows reduce their windows
    /// only after losses, which are further apart.
    #[test]
    fn others_that_give_way_each_time_respond_to_delay() {
        for (apart, gives_way) in [(APART, true), (SOON + 1, false)] {
            let mut dips = after(100.0);
            for _ in 0..2 {
                assert!(!dips.others_give_way());
                rounds(&mut dips, apart - ROUNDS, 80.0, 0.2);
                dips.has_overflowed(true, delay(0.1));
                dips.begin(80.0 * MSS);
                rounds(&mut dips, ROUNDS, 40.0, 0.14);
            }
            assert_eq!(dips.others_give_way(), gives_way, "{apart} round trips apart");
        }
    }

    /// Neither a short queue nor one soon after the last dip is an occasion for the next.
    #[test]
    fn dips_are_apart() {
        let mut dips = after(120.0);
        assert!(!dips.has_overflowed(true, delay(0.1)));
        rounds(&mut dips, APART - ROUNDS, 80.0, 0.2);
        assert!(dips.has_overflowed(true, delay(0.1)));
        let mut short = Dips::default();
        rounds(&mut short, APART, 80.0, 0.1);
        assert!(!short.has_overflowed(false, delay(0.002)) && !short.has_overflowed(false, delay(0.0)));
    }
}
