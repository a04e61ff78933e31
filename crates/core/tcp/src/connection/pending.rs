//! What waits for an answer of the peer: data in flight, window probes, and their timers.

use longhaul_units::Time;

use super::sender::WindowUpdate;
use super::{ControlLoop, Pending, Timer};

impl Pending<'_> {
    pub(super) fn arm_retransmission(&mut self, now: Time) {
        let user_timeout = self.config.user_timeout;
        self.loss.arm_timers(now, self.snd, self.rtt, self.peer, self.timers, user_timeout);
    }

    /// Handles the expiry of the timer of probes: sends a tail loss probe. During recovery the timer probes an outage, unless
    /// the retransmission timer expired at the same time.
    pub(super) fn on_probe_timeout(&mut self, now: Time) {
        if self.loss.in_episode() {
            self.loss.probe_outage(now, self.snd, self.rtt, self.timers);
            return;
        }
        self.loss.send_tail_probe(self.snd, self.pmtu.mss());
        self.timers.arm(Timer::Rto, now + self.rtt.rto());
        self.stats.incidents_mut().tail_probes += 1;
    }

    /// Handles the persist timer: data is queued, none is in flight, and the peer's window is too small. Returns
    /// whether the peer is given up.
    pub(super) fn on_persist(&mut self, now: Time) -> bool {
        if self.snd.window() > 0 {
            self.snd.override_silly_window();
            return false;
        }
        let front = self.snd.board().front().map(|(index, _)| index);
        if front.is_some() && !self.snd.persist.is_in_flight() {
            // The window closed below data that is in flight: retransmissions of that data act as probes.
            return false;
        }
        if self.snd.persist.is_hopeless(self.peer.silence(now)) && self.config.user_timeout.is_none() {
            return true;
        }
        let last_sent = self.snd.last_sent();
        self.snd.persist.on_probe(front.is_none(), last_sent);
        // A single octet yields no delivery rate, is not paced, and is not limited by cwnd.
        let pipe = self.loss.pipe(self.snd.board());
        self.cc.rate.on_app_limited(pipe);
        (self.cc.rounds.limited, self.cc.rounds.was_limited) = (false, false);
        self.loss.grant.forced = true;
        self.loss.repeat_front(self.snd);
        self.timers.arm(Timer::Persist, now + self.snd.persist.interval(self.rtt.base_rto()));
        false
    }

    /// Continues or ends zero-window probing. Called after every ACK.
    pub(super) fn after_window_change(&mut self, now: Time, update: WindowUpdate) {
        if self.snd.window() == 0 {
            let waits = self.snd.persist.sent > 0 && self.snd.has_unsent();
            if waits && !self.snd.has_outstanding() && !self.timers.is_armed(Timer::Persist) {
                // The peer accepted the octet but still has no room.
                self.timers.arm(Timer::Persist, now + self.snd.persist.interval(self.rtt.base_rto()));
            }
            // A peer that answers is not given up because of its closed window (RFC 9293, MUST-37).
            self.peer.on_progress();
            self.peer.arm_user_timeout(now, self.snd, self.config.user_timeout, self.timers);
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
            self.loss.repeat_front(self.snd);
            self.arm_retransmission(now);
        }
        if before.sent == 0 {
            return;
        }
        if before.is_in_flight() && !before.is_due() {
            // The octet may have been dropped while the window was closed.
            self.loss.repeat_front(self.snd);
        }
        self.arm_retransmission(now);
        self.control_loop().end_idleness(now, before.idle_since);
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

    fn control_loop(&mut self) -> ControlLoop<'_> {
        let Self { config, snd, rtt, loss, cc, pmtu, ext, timers, .. } = self;
        ControlLoop { config, snd, rtt, loss, cc, pmtu, ext, timers }
    }
}
