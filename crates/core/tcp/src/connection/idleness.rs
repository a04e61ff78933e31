//! Memory of idle connections: what is kept only to send the next data sooner is freed in steps.

use longhaul_units::{Span, Time};

use super::congestion::SegmentLists;
use super::timers::Timer;
use super::{Connection, State};

/// Idle time after which buffers of any size are freed, and after which the controller is asked once more whether it is
/// dispensable. First, small buffers are freed after one retransmission timeout, when a restart begins (RFC 5681, section
/// 4.1).
const STEPS: [Span; 2] = [Span::from_secs(2), Span::from_secs(60)];
/// The size in bytes up to which buffers are soon allocated again.
const SMALL: usize = 16 << 10;

impl Connection {
    /// Arms the timer of the first step, because no data are in flight.
    pub(super) fn begin_idle_period(&mut self, now: Time) {
        self.timers.arm(Timer::Idle, now + self.rtt.base_rto());
    }

    /// Takes a step, and arms the timer of the next one.
    pub(super) fn on_idle(&mut self, now: Time) {
        let idle = self.snd.last_sent().map_or(Span::MAX, |last| now - last);
        let path = self.path();
        self.cc.drop_if_dispensable(&self.config, &path, idle);
        if idle >= STEPS[0] || self.memory() <= SMALL {
            self.free_spare_memory();
        }
        self.life.may_rest = true;
        let is_small = self.cc.sending().is_none() && self.memory() == 0;
        if let Some(step) = STEPS.into_iter().find(|step| *step > idle && !is_small) {
            self.timers.arm(Timer::Idle, now + (step - idle));
        }
    }

    /// Returns once whether the connection may rest: it has been idle for long enough, or woken by a call without effect.
    pub(crate) fn may_rest(&mut self) -> bool {
        std::mem::take(&mut self.life.may_rest)
    }

    /// Records that the connection has woken.
    pub(crate) fn note_waking(&mut self) {
        self.life.woken_at = Some(self.segments());
    }

    /// Ends the call that has woken the connection, if one has: it rests again at once after a call without effect, and
    /// otherwise after another idle period, unless it has sent data or does not wait for any more.
    pub(crate) fn settle_after_waking(&mut self, now: Time) {
        let Some(segments) = self.life.woken_at.take() else { return };
        if segments == self.segments() {
            self.life.may_rest = true;
        } else if self.life.state == State::Established && !self.snd.has_outstanding() {
            self.begin_idle_period(now);
        }
    }

    fn segments(&self) -> u64 {
        self.stats.segments_in + self.stats.segments_out
    }

    fn free_spare_memory(&mut self) {
        self.snd.free_spare_memory();
        self.rcv.free_spare_memory();
        if let Some(segments) = self.cc.segments_mut() {
            *segments = SegmentLists::default();
        }
        self.rcv.acks.free_spare_memory();
    }
}
