//! Data in flight on a path that is gone.

use longhaul_units::Time;

use super::Loss;
use super::detect::Marking;
use crate::connection::{Engine, Timer};
use crate::{ConnectionEvent, LossTrigger};

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Engine<'_> {
    /// Marks everything in flight lost, because it was sent on a path that is gone. This is not a sign of congestion.
    pub(crate) fn abandon_flight(&mut self, now: Time) {
        if self.loss.in_episode() {
            self.observers.report(now, || ConnectionEvent::RecoveryEnded);
        }
        *self.loss = Loss { detection: self.loss.detection, ..Loss::default() };
        self.rtt.backoff = 0;
        let before = self.snd.board.lost_bytes;
        let mut marking =
            Marking { board: &mut self.snd.board, lists: None, observed: self.observers.lost(), mtu_probe_bytes: 0 };
        while let Some(index) = marking.board.oldest_sent() {
            marking.mark(index);
        }
        if marking.mtu_probe_bytes > 0 {
            self.pmtu.on_probe_lost(now);
        }
        let bytes = self.snd.board.lost_bytes.saturating_sub(before);
        if bytes > 0 {
            self.cc.rate.lost += bytes;
            self.stats.incidents_mut().bytes_lost += bytes;
            self.observers.report_lost(now, self.numbers, LossTrigger::Timeout);
        }
        // A NAT may forget the new path before the pacer, which counts what was lost, permits a segment.
        self.loss.grant.forced = self.snd.board.lost_bytes > 0;
        for timer in [Timer::Rto, Timer::Probe, Timer::Reorder] {
            self.timers.stop(timer);
        }
        self.loss.arm_timers(now, self.snd, self.rtt, self.peer, self.timers, self.config.user_timeout);
    }
}
