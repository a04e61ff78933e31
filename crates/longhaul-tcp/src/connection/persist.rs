//! The persist timer: probes of a closed window (RFC 9293, section 3.8.6.1; RFC 1122, section 4.2.2.17), and the
//! sender's silly-window override (RFC 9293, section 3.8.6.2.1).
//!
//! A probe is the next octet of new data, sent beyond the window's edge. While it is unacknowledged, it is repeated
//! from the scoreboard without ever being held lost: its absence says nothing of congestion. The retransmission timer
//! rests meanwhile.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use longhaul_cc::PathEvent;
use longhaul_units::{Span, Time};

use super::Connection;
use super::timers::Timer;
use crate::error::ConnectionError;

/// Probes are no further apart: the least ceiling that RFC 6298, section 2.5, allows for a backed-off timer, as an
/// update of the window that was lost is found no sooner.
const MAX_INTERVAL: Span = Span::from_secs(60);
/// Without a user timeout: how long probes go unanswered before the peer is given up, well above the 100 s that
/// RFC 9293, section 3.8.3, asks of R2.
const GIVE_UP_AFTER: Span = Span::from_secs(600);
/// And so many of them: a machine that slept has heard nothing for long.
const GIVE_UP_PROBES: u32 = 4;

/// The probing of a closed window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Persist {
    /// An octet of new data may leave whatever the window says.
    pub(super) due: bool,
    /// The octet at SND.UNA is a probe that is not acknowledged.
    pub(super) in_flight: bool,
    /// Probes since the window closed.
    sent: u32,
    /// Probes since the peer was last heard.
    unanswered: u32,
    /// When data last left before the window closed, if it was probed.
    idle_since: Option<Time>,
}

impl Persist {
    /// How often a probe was repeated since the peer was last heard.
    pub(super) fn repetitions(&self) -> u32 {
        self.unanswered.saturating_sub(1)
    }
}

impl Connection {
    /// RTO, doubled for each probe since the window closed, whatever the peer answered meanwhile.
    fn persist_interval(&self) -> Span {
        let doubled = self.rtt.base_rto().as_nanos().saturating_mul(1 << self.snd.persist.sent.min(20));
        Span::from_nanos(doubled).min(MAX_INTERVAL)
    }

    /// Data waits, nothing is in flight, and the peer's window is too small.
    pub(super) fn on_persist(&mut self, now: Time) {
        if self.snd.window > 0 {
            self.snd.override_sws = true;
            return;
        }
        let front = self.snd.board.front().map(|(index, _)| index);
        if front.is_some() && !self.snd.persist.in_flight {
            // The window closed below data that is in flight: its retransmission is a probe.
            return;
        }
        let silent = now - self.peer.last_heard >= GIVE_UP_AFTER && self.snd.persist.unanswered >= GIVE_UP_PROBES;
        if silent && self.config.user_timeout.is_none() {
            self.finish(Some(ConnectionError::TimedOut));
            return;
        }
        if self.snd.persist.sent == 0 {
            self.snd.persist.idle_since = self.snd.last_sent;
        }
        self.snd.persist.sent = self.snd.persist.sent.saturating_add(1);
        self.snd.persist.unanswered = self.snd.persist.unanswered.saturating_add(1);
        // Neither the rate of a lone octet nor its wait for the pacer means anything.
        self.cc.rate.on_app_limited(self.pipe());
        self.loss.grant.forced = true;
        self.loss.grant.probe = front;
        self.snd.persist.due = front.is_none();
        self.snd.persist.in_flight = true;
        self.timers.arm(Timer::Persist, now + self.persist_interval());
        self.consider_r1();
    }

    /// An acceptable segment came.
    pub(super) fn heard_from_peer(&mut self, now: Time) {
        self.peer.last_heard = now;
        self.snd.persist.unanswered = 0;
        self.trust_peer();
    }

    /// After every acknowledgment: goes on probing a window that is still closed, and ends it when the window opens.
    pub(super) fn after_window_change(&mut self, now: Time, changed: bool) {
        if self.snd.window == 0 {
            let waits = self.snd.persist.sent > 0 && self.snd.unsent() > 0;
            if waits && self.snd.board.is_empty() && !self.timers.is_armed(Timer::Persist) {
                // The peer took the octet.
                self.timers.arm(Timer::Persist, now + self.persist_interval());
            }
            // A peer that answers is not given up for the window it keeps closed (RFC 9293, MUST-37).
            self.peer.stalled_since = None;
            self.arm_user_timeout(now);
            return;
        }
        if changed {
            self.timers.stop(Timer::Persist);
        }
        if self.snd.persist.sent == 0 {
            return;
        }
        let before = std::mem::take(&mut self.snd.persist);
        if before.in_flight && !before.due {
            // The octet was refused while the window was closed.
            self.loss.grant.probe = self.snd.board.front().map(|(index, _)| index);
            self.loss.grant.forced = true;
        }
        self.arm_retransmission(now);
        self.end_idleness(now, before.idle_since);
    }

    /// Probes do not keep the window's measure of the path fresh: to what counts as idleness (RFC 5681, section 4.1),
    /// they are nothing.
    fn end_idleness(&mut self, now: Time, since: Option<Time>) {
        let Some(idle) = since.map(|since| now - since).filter(|idle| *idle > self.rtt.base_rto()) else { return };
        self.snd.last_sent = Some(now);
        self.tell(&PathEvent::IdleRestart { now, idle });
    }
}
