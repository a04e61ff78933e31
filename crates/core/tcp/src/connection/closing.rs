//! The end of a connection whose application does not read on (RFC 9293, sections 3.6.1, 3.10.4 and 3.10.5).

use longhaul_units::Time;

use super::Timer;
use crate::{Connection, ConnectionError, ConnectionEvent, State};

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Connection {
    /// Closes this side for reading. If there is unread data, or data arrives later, the peer receives a RST, which
    /// tells it that the data was lost (RFC 9293, section 3.6.1). The RST follows the acknowledgment of what is queued,
    /// because many stacks discard unread data when a RST arrives. Nothing more can be written then.
    pub fn close_read(&mut self) {
        if self.rcv.is_closed() {
            return;
        }
        self.rcv.close();
        if self.rcv.unread() > 0 && self.life.state.is_synchronized() {
            self.reset_after_queued(self.timers.now());
        } else if self.life.state == State::FinWait2 {
            self.timers.arm(Timer::Linger, self.timers.now() + self.config.fin_wait2_timeout);
        }
    }

    /// Closes both directions on behalf of an application that is gone. Queued data is still sent.
    pub fn orphan(&mut self) {
        self.life.orphaned = true;
        self.observers.report(self.timers.now(), || ConnectionEvent::Released);
        // No FIN follows discarded data, because it would tell the peer that all is well. Only `shutdown` sends one.
        self.close_read();
        if !self.life.resets {
            self.shutdown();
        }
    }

    /// Aborts the connection and sends a RST to the peer (RFC 9293, section 3.10.5).
    pub fn abort(&mut self) {
        if matches!(self.life.state, State::Closed) {
            return;
        }
        if self.life.state.is_synchronized() && self.life.state != State::TimeWait
            || self.life.state == State::SynReceived
        {
            return self.reset(self.timers.now());
        }
        self.finish(Some(ConnectionError::Aborted));
    }

    /// Returns whether arriving data is discarded, and a RST follows what is queued.
    #[must_use]
    pub const fn discards(&self) -> bool {
        self.life.resets
    }

    /// Discards what has arrived, and sends a RST: at once if nothing is queued, else once that is acknowledged. Until then,
    /// arriving data is dropped without an acknowledgment. A peer that acknowledges nothing new for the time of
    /// [`fin_wait2_timeout`](crate::Config::fin_wait2_timeout) gets the RST then.
    pub(super) fn reset_after_queued(&mut self, now: Time) {
        self.life.resets = true;
        self.rcv.discard();
        self.snd.set_nodelay(true);
        self.timers.arm(Timer::Linger, now + self.config.fin_wait2_timeout);
        self.reset_if_acknowledged(now);
    }

    /// Sends the RST for discarded data if everything queued has been acknowledged.
    pub(super) fn reset_if_acknowledged(&mut self, now: Time) {
        if self.life.resets && !self.snd.has_unsent() && !self.snd.has_outstanding() {
            self.reset(now);
        }
    }

    /// Sends a RST and ends the connection.
    pub(super) fn reset(&mut self, now: Time) {
        self.life.reset = Some(Box::new(self.headers().reset_header(now)));
        self.finish(Some(ConnectionError::Aborted));
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
}
