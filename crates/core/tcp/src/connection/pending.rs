//! What waits for an answer of the peer: data in flight, window probes, and their timers.

use longhaul_units::Time;

use super::{Pending, Timer};

impl Pending<'_> {
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
        if self.snd.window > 0 {
            self.snd.override_sws = true;
            return false;
        }
        let front = self.snd.board.front().map(|(index, _)| index);
        if front.is_some() && !self.snd.persist.in_flight {
            // The window closed below data that is in flight: retransmissions of that data act as probes.
            return false;
        }
        if self.snd.persist.is_hopeless(self.peer.silence(now)) && self.config.user_timeout.is_none() {
            return true;
        }
        let last_sent = self.snd.last_sent;
        self.snd.persist.on_probe(front.is_none(), last_sent);
        // A single octet yields no delivery rate, is not paced, and is not limited by cwnd.
        let pipe = self.loss.pipe(&self.snd.board);
        self.cc.rate.on_app_limited(pipe);
        (self.cc.rounds.limited, self.cc.rounds.was_limited) = (false, false);
        self.loss.grant.forced = true;
        self.loss.repeat_front(self.snd);
        self.timers.arm(Timer::Persist, now + self.snd.persist.interval(self.rtt.base_rto()));
        false
    }

    /// Sends the FIN at once, beyond the peer's closed window, because this endpoint is about to be dropped. Does nothing
    /// while data is unsent. Returns whether the FIN is sent, or was before.
    pub(crate) fn hurry_fin(&mut self) -> bool {
        let waits = self.snd.has_unsent_fin() && self.snd.unsent() == 0 && self.life.state.is_synchronized();
        if waits {
            self.snd.persist.due = true;
            self.loss.grant.forced = true;
        }
        waits || self.snd.fin_sent
    }
}
