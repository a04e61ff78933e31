//! Persist timer: zero-window probes (RFC 9293, section 3.8.6.1; RFC 1122, section 4.2.2.17) and the override timeout
//! of silly-window avoidance (RFC 9293, section 3.8.6.2.1).
//!
//! A probe is the next octet of new data, sent beyond the right edge of the window, or the FIN if all data is sent. While
//! it is unacknowledged, it is retransmitted from the scoreboard without being marked lost, because a missing answer is no
//! sign of congestion. The retransmission timer is stopped meanwhile.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use longhaul_cc::PathEvent;
use longhaul_units::{Span, Time};

use super::Connection;
use super::sender::WindowUpdate;
use super::timers::Timer;
use crate::error::ConnectionError;

/// Longest interval between probes: the smallest upper bound of the RTO that RFC 6298, section 2.5, permits. A lost
/// window update is noticed no sooner than the next probe.
const MAX_INTERVAL: Span = Span::from_secs(60);
/// Time without an answer after which the connection is closed if no user timeout is set. It is well above the 100 s
/// that RFC 9293, section 3.8.3, requires of R2.
const GIVE_UP_AFTER: Span = Span::from_secs(600);
/// Number of unanswered probes required in addition, because a host that was suspended has received nothing for a
/// long time.
const GIVE_UP_PROBES: u32 = 4;

/// State of zero-window probing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Persist {
    /// One octet of new data, or the FIN, may be sent beyond the window.
    due: bool,
    /// The octet or FIN at SND.UNA is an unacknowledged probe.
    in_flight: bool,
    /// Probes since the window closed.
    sent: u32,
    /// Probes since the last segment from the peer.
    unanswered: u32,
    /// The time of the last data transmission before the window closed, if the window was probed.
    idle_since: Option<Time>,
}

impl Persist {
    /// Records that new data, or the FIN, was sent: what was due beyond the window, if anything was.
    pub(super) fn on_new_data(&mut self) {
        self.due = false;
    }

    /// Records that SND.UNA advanced.
    pub(super) fn on_una_advanced(&mut self) {
        self.in_flight = false;
    }

    /// Returns whether a probe of new data is due.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Returns whether the octet or FIN at SND.UNA is an unacknowledged probe.
    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// Permits one octet of new data, or the FIN, beyond the window.
    fn permit(&mut self) {
        self.due = true;
    }

    /// Records a probe. `is_first` means that no octet is outstanding yet, so the next one of new data is sent.
    fn on_probe(&mut self, is_first: bool, last_sent: Option<Time>) {
        if self.sent == 0 {
            self.idle_since = last_sent;
        }
        self.sent = self.sent.saturating_add(1);
        self.unanswered = self.unanswered.saturating_add(1);
        (self.due, self.in_flight) = (is_first, true);
    }

    /// Returns the number of probe retransmissions since the last segment from the peer.
    pub(super) fn repetitions(&self) -> u32 {
        self.unanswered.saturating_sub(1)
    }
}

impl Connection {
    /// Returns the probe interval: the RTO, doubled for each probe since the window closed, even if the peer
    /// answered.
    fn persist_interval(&self) -> Span {
        let doubled = self.rtt.base_rto().as_nanos().saturating_mul(1 << self.snd.persist.sent.min(20));
        Span::from_nanos(doubled).min(MAX_INTERVAL)
    }

    /// Handles the persist timer: data is queued, none is in flight, and the peer's window is too small.
    pub(super) fn on_persist(&mut self, now: Time) {
        if self.snd.window() > 0 {
            self.snd.override_silly_window();
            return;
        }
        let front = self.snd.board().front().map(|(index, _)| index);
        if front.is_some() && !self.snd.persist.in_flight {
            // The window closed below data that is in flight: retransmissions of that data act as probes.
            return;
        }
        let silent = self.peer.silence(now) >= GIVE_UP_AFTER && self.snd.persist.unanswered >= GIVE_UP_PROBES;
        if silent && self.config.user_timeout.is_none() {
            self.finish(Some(ConnectionError::TimedOut));
            return;
        }
        self.snd.persist.on_probe(front.is_none(), self.snd.last_sent());
        // A single octet yields no delivery rate, is not paced, and is not limited by cwnd.
        let pipe = self.pipe();
        self.cc.rate.on_app_limited(pipe);
        (self.cc.rounds.limited, self.cc.rounds.was_limited) = (false, false);
        self.loss.grant.forced = true;
        self.repeat_front();
        self.timers.arm(Timer::Persist, now + self.persist_interval());
        self.consider_r1();
    }

    /// Sends the FIN at once, beyond the peer's closed window, because this endpoint is about to be dropped. Does nothing
    /// while data is unsent. Returns whether the FIN is sent, or was before.
    pub(crate) fn hurry_fin(&mut self) -> bool {
        let waits = self.snd.has_unsent_fin() && self.snd.unsent() == 0 && self.life.state.is_synchronized();
        if waits {
            self.snd.persist.permit();
            self.loss.grant.forced = true;
        }
        waits || self.snd.is_fin_sent()
    }

    /// Records that an acceptable segment arrived.
    pub(super) fn heard_from_peer(&mut self, now: Time) {
        self.peer.on_segment(now);
        self.snd.persist.unanswered = 0;
        self.loss.unanswered = 0;
        self.stop_port_probing();
    }

    /// Continues or ends zero-window probing. Called after every ACK.
    pub(super) fn after_window_change(&mut self, now: Time, update: WindowUpdate) {
        if self.snd.window() == 0 {
            let waits = self.snd.persist.sent > 0 && self.snd.has_unsent();
            if waits && !self.snd.has_outstanding() && !self.timers.is_armed(Timer::Persist) {
                // The peer accepted the octet but still has no room.
                self.timers.arm(Timer::Persist, now + self.persist_interval());
            }
            // A peer that answers is not given up because of its closed window (RFC 9293, MUST-37).
            self.peer.on_progress();
            self.arm_user_timeout(now);
            return;
        }
        if update.changed {
            self.timers.stop(Timer::Persist);
        }
        let before = std::mem::take(&mut self.snd.persist);
        if update.opened && self.rtt.backoff() > 0 {
            // The timer was backed off while the closed window made the peer drop what was sent.
            self.rtt.reset_backoff();
            self.timers.stop(Timer::Rto);
            self.repeat_front();
            self.arm_retransmission(now);
        }
        if before.sent == 0 {
            return;
        }
        if before.in_flight && !before.due {
            // The octet may have been dropped while the window was closed.
            self.repeat_front();
        }
        self.arm_retransmission(now);
        self.end_idleness(now, before.idle_since);
    }

    /// Retransmits the first outstanding segment at once, regardless of cwnd and pacer. If it is SACKed, the peer has
    /// discarded it or somebody has forged the report (RFC 2018, section 8): SACKed segments are never retransmitted.
    pub(super) fn repeat_front(&mut self) {
        let Some((index, front)) = self.snd.board().front() else { return };
        if front.is_sacked() {
            self.snd.renege();
        }
        (self.loss.grant.probe, self.loss.grant.forced) = (Some(index), true);
    }

    /// Restarts after idleness (RFC 5681, section 4.1). Probes do not end an idle period, because they do not show
    /// that the congestion window is still valid.
    fn end_idleness(&mut self, now: Time, since: Option<Time>) {
        let Some(idle) = since.map(|since| now - since).filter(|idle| *idle > self.rtt.base_rto()) else { return };
        self.snd.restart_idle_time(now);
        self.tell(&PathEvent::IdleRestart { now, idle });
    }
}
