//! Outages: fast detection of a path's return (`docs/decisions/0033-probing-through-an-outage.md`).
//!
//! The retransmission timer backs off to up to two minutes (RFC 6298, section 5.5), because a timeout may mean
//! congestion. If a whole flight is unanswered on a path without losses, an outage is more likely, such as a
//! satellite handover or an obstructed antenna. For one minute the first segment in flight is then also retransmitted
//! independently of the timer, at a rate too low to cause congestion, and once more when the next segment from the
//! peer arrives.

use longhaul_units::{Span, Time};

use super::Phase;
use crate::RttEstimator;
use crate::connection::{Loss, Sender, Timer, Timers};

/// Time after the first timeout for which the path is probed.
const PROBING: Span = Span::from_secs(60);
/// Minimum interval between probes; the interval is four round trips if that is longer.
const MIN_INTERVAL: Span = Span::from_secs(2);
const ROUND_TRIPS: u64 = 4;

/// State of a suspected outage: a flight was unanswered on a path without losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    since: Time,
    next_probe: Time,
    /// Whether a segment that acknowledged no new data has arrived since.
    is_heard: bool,
}

impl Loss {
    /// Checks for an outage at the first of consecutive timeouts, before segments are marked lost, when the peer has
    /// been silent for `silence`.
    pub(super) fn consider_outage(&mut self, now: Time, snd: &Sender, srtt: Option<Span>, silence: Span) {
        let Some(round_trip) = srtt else { return };
        let was_clean = self.phase == Phase::Open && snd.board.sacked_bytes == 0 && self.duplicates.emulated == 0;
        if was_clean && silence >= round_trip && snd.window > 0 {
            self.outage = Some(Outage { since: now, next_probe: now, is_heard: false });
        }
    }

    /// Schedules the next probe relative to the timeout, which itself retransmits the first segment.
    pub(super) fn put_off_outage_probe(&mut self, now: Time, rtt: &RttEstimator) {
        let interval = (rtt.latest.unwrap_or(Span::ZERO) * ROUND_TRIPS).max(MIN_INTERVAL);
        if let Some(outage) = &mut self.outage {
            outage.next_probe = now + interval;
        }
    }

    pub(super) fn outage_probe_at(&self) -> Option<Time> {
        let outage = self.outage.filter(|outage| outage.next_probe < outage.since + PROBING)?;
        matches!(self.phase, Phase::Timeout(_)).then_some(outage.next_probe)
    }

    /// Retransmits the first segment in flight, regardless of cwnd and pacer.
    pub(crate) fn probe_outage(&mut self, now: Time, snd: &mut Sender, rtt: &RttEstimator, timers: &mut Timers) {
        if self.outage.is_none() || !matches!(self.phase, Phase::Timeout(_)) {
            return;
        }
        self.repeat_front(snd);
        self.put_off_outage_probe(now, rtt);
        timers.set(Timer::Probe, self.outage_probe_at());
    }

    /// Handles an acceptable segment that acknowledges no new data. The path works again in at least one direction,
    /// so the first segment is retransmitted at once and the RTO backoff is reset. This is done only for the
    /// first such segment: otherwise a path that works in one direction would be probed at the rate of the peer's
    /// segments.
    pub(crate) fn hear_in_outage(&mut self, now: Time, snd: &mut Sender, rtt: &mut RttEstimator, timers: &mut Timers) {
        let Some(outage) = self.outage.as_mut().filter(|outage| !outage.is_heard && outage.since < now) else { return };
        if snd.window == 0 {
            // The peer's window is closed, so there is no outage.
            self.outage = None;
            return;
        }
        outage.is_heard = true;
        rtt.backoff = 0;
        timers.arm(Timer::Rto, now + rtt.rto());
        self.probe_outage(now, snd, rtt, timers);
    }
}
