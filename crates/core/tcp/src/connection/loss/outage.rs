//! Outages: fast detection that a path works again (`docs/decisions/0033-probing-through-an-outage.md`).
//!
//! The retransmission timer backs off to up to two minutes (RFC 6298, section 5.5), because a timeout may mean
//! congestion. If a whole flight is unanswered on a path without losses, an outage is more likely, such as a
//! satellite handover or an obstructed antenna. For one minute the first segment in flight is then also retransmitted
//! independently of the timer, at a rate too low to cause congestion, and once more when the next segment from the
//! peer arrives.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use longhaul_units::{Span, Time};

use super::super::Connection;
use super::super::timers::Timer;
use super::Phase;

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
    /// A segment that acknowledged no new data has arrived since.
    is_heard: bool,
}

impl Connection {
    /// Checks for an outage at the first of consecutive timeouts, before segments are marked lost.
    pub(super) fn consider_outage(&mut self, now: Time) {
        let Some(round_trip) = self.rtt.srtt() else { return };
        let was_clean = self.loss.phase == Phase::Open
            && self.snd.board().sacked_bytes() == 0
            && self.loss.duplicates.emulated == 0;
        let is_silent = self.peer.silence(now) >= round_trip;
        if was_clean && is_silent && self.snd.window() > 0 {
            self.loss.outage = Some(Outage { since: now, next_probe: now, is_heard: false });
        }
    }

    /// Returns the interval between probes.
    fn outage_interval(&self) -> Span {
        (self.rtt.latest().unwrap_or(Span::ZERO) * ROUND_TRIPS).max(MIN_INTERVAL)
    }

    /// Schedules the next probe relative to the timeout, which retransmits the first segment itself.
    pub(super) fn put_off_outage_probe(&mut self, now: Time) {
        let next_probe = now + self.outage_interval();
        if let Some(outage) = &mut self.loss.outage {
            outage.next_probe = next_probe;
        }
    }

    /// Returns the time of the next probe, if the path is to be probed.
    pub(super) fn outage_probe_at(&self) -> Option<Time> {
        let outage = self.loss.outage.filter(|outage| outage.next_probe < outage.since + PROBING)?;
        matches!(self.loss.phase, Phase::Timeout(_)).then_some(outage.next_probe)
    }

    /// Retransmits the first segment in flight, regardless of cwnd and pacer.
    pub(super) fn probe_outage(&mut self, now: Time) {
        if self.loss.outage.is_none() || !matches!(self.loss.phase, Phase::Timeout(_)) {
            return;
        }
        self.repeat_front();
        self.put_off_outage_probe(now);
        self.timers.set(Timer::Probe, self.outage_probe_at());
    }

    /// Handles an acceptable segment that acknowledges no new data. The path works again in at least one direction,
    /// so the first segment is retransmitted at once and the RTO backoff is reset. This is done only for the
    /// first such segment: otherwise a path that works in one direction would be probed at the rate of the peer's
    /// segments.
    pub(in super::super) fn on_segment_after_outage(&mut self, now: Time) {
        let Some(outage) = self.loss.outage.as_mut().filter(|outage| !outage.is_heard && outage.since < now) else {
            return;
        };
        if self.snd.window() == 0 {
            // The peer's window is closed, so there is no outage.
            self.loss.outage = None;
            return;
        }
        outage.is_heard = true;
        self.rtt.reset_backoff();
        self.timers.arm(Timer::Rto, now + self.rtt.rto());
        self.probe_outage(now);
    }
}
