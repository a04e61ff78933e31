//! Outages: how a sender notices soon that a path is back (`docs/decisions/0033-probing-through-an-outage.md`).
//!
//! The retransmission timer doubles up to two minutes (RFC 6298, section 5.5), because a timeout may mean congestion. If a
//! whole flight goes unanswered on a path that was losing nothing, an outage is more likely: a handover between
//! satellites, an antenna in the shade. Then the first segment in flight is repeated beside the doubled timer, rarely
//! enough to congest nothing, for a minute; and once the moment the peer is heard again.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use longhaul_units::{Span, Time};

use super::super::Connection;
use super::super::timers::Timer;
use super::Phase;

/// For how long after the first timeout the path is probed.
const PROBING: Span = Span::from_secs(60);
/// The least time between two probes; it is four round trips if those are longer.
const MIN_INTERVAL: Span = Span::from_secs(2);
const ROUND_TRIPS: u64 = 4;

/// A flight went unanswered on a path that was losing nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    since: Time,
    next_probe: Time,
    /// The peer was heard since, which acknowledged nothing new.
    is_heard: bool,
}

impl Connection {
    /// A first timeout in a row fired, before anything is marked lost.
    pub(super) fn consider_outage(&mut self, now: Time) {
        let Some(round_trip) = self.rtt.srtt() else { return };
        let was_clean =
            self.loss.phase == Phase::Open && self.snd.board.sacked_bytes() == 0 && self.loss.duplicates.emulated == 0;
        let is_silent = now - self.peer.last_heard >= round_trip;
        if was_clean && is_silent && self.snd.window > 0 {
            self.loss.outage = Some(Outage { since: now, next_probe: now, is_heard: false });
        }
    }

    /// The time between two probes.
    fn outage_interval(&self) -> Span {
        (self.rtt.latest().unwrap_or(Span::ZERO) * ROUND_TRIPS).max(MIN_INTERVAL)
    }

    /// A timeout has repeated the first segment: the next probe counts from here.
    pub(super) fn put_off_outage_probe(&mut self, now: Time) {
        let next_probe = now + self.outage_interval();
        if let Some(outage) = &mut self.loss.outage {
            outage.next_probe = next_probe;
        }
    }

    /// When the path is to be probed next, if it is.
    pub(super) fn outage_probe_at(&self) -> Option<Time> {
        let outage = self.loss.outage.filter(|outage| outage.next_probe < outage.since + PROBING)?;
        matches!(self.loss.phase, Phase::Timeout(_)).then_some(outage.next_probe)
    }

    /// Repeats the first segment in flight, outside of window and pace.
    pub(super) fn probe_outage(&mut self, now: Time) {
        let Some((front, _)) = self.snd.board.front() else { return };
        if self.loss.outage.is_none() || !matches!(self.loss.phase, Phase::Timeout(_)) {
            return;
        }
        self.loss.grant.probe = Some(front);
        self.loss.grant.forced = true;
        self.put_off_outage_probe(now);
        self.timers.set(Timer::Probe, self.outage_probe_at());
    }

    /// An acceptable segment came and acknowledged nothing new: the path is back in one direction at least, so that the other is
    /// tried at once, and the timer begins anew. Only for the first such segment, or a path that works in one direction
    /// would be probed at the peer's pace.
    pub(in super::super) fn hear_after_outage(&mut self, now: Time) {
        let Some(outage) = self.loss.outage.as_mut().filter(|outage| !outage.is_heard && outage.since < now) else {
            return;
        };
        if self.snd.window == 0 {
            // The peer keeps its window closed: there is no outage.
            self.loss.outage = None;
            return;
        }
        outage.is_heard = true;
        self.rtt.reset_backoff();
        self.timers.arm(Timer::Rto, now + self.rtt.rto());
        self.probe_outage(now);
    }
}
