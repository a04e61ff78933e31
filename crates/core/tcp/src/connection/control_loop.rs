//! Control loop of congestion control: reports on the path to the controller, and application of its decisions.

use longhaul_cc::{Ack, Episode, Path, PathEvent, SegmentKind, SendLimit, Sent, Timeout, TxId};
use longhaul_units::{Bytes, Span, Time};

use super::congestion::Pacing;
use super::{ControlLoop, Timer};

impl ControlLoop<'_> {
    pub(super) fn path(&self) -> Path {
        self.cc.path(self.snd, self.loss, self.rtt, self.pmtu.mss())
    }

    pub(super) fn tell(&mut self, event: &PathEvent) {
        let path = self.path();
        self.cc.controller.on_event(event, &path);
        self.refresh();
    }

    /// Applies the controller's decision. Must be called after every event that is reported to the controller.
    pub(super) fn refresh(&mut self) {
        let mss = Bytes::from(self.pmtu.mss());
        let srtt = self.rtt.srtt;
        let pacing = Pacing {
            mss,
            srtt,
            min_rtt: self.rtt.min,
            recovering: self.loss.in_fast_recovery(),
            patience: if self.config.moderation {
                self.snd.outflow.patience(self.timers.now, srtt)
            } else {
                Span::ZERO
            },
        };
        self.cc.refresh(self.timers.now, self.config, pacing);
        self.timers.set(Timer::Tick, self.cc.controller.next_tick());
        if !self.ext.list.is_empty() {
            let (now, control) = (self.timers.now, self.cc.control);
            self.ext.list.iter_mut().for_each(|extension| extension.follow(now, &control, self.snd));
        }
    }

    pub(super) fn on_send_limit(&mut self, now: Time, limit: SendLimit) {
        self.cc.set_limit(now, limit, self.loss.in_episode());
        let (pipe, cwnd) = (self.loss.pipe(&self.snd.board), self.cc.control.cwnd.0);
        // A full window limits the sender, even if the application has no more data: otherwise a window of one segment
        // would never grow as long as each message is one segment.
        let is_full = pipe >= cwnd || pipe > 0 && cwnd <= u64::from(self.pmtu.mss());
        if limit == SendLimit::Cwnd || is_full {
            self.cc.rounds.limited = true;
        }
        if limit == SendLimit::App && pipe < cwnd {
            self.cc.rate.on_app_limited(pipe);
            self.snd.on_app_limited(now);
        }
    }

    /// Informs the pacer if data is waiting for it. With other connections, the next poll is delayed, and the pacer
    /// compensates for the delay.
    pub(super) fn wait_for_pacer(&mut self, now: Time) {
        let want = self.cc.waiting_bytes(self.snd, self.loss);
        if want > 0 {
            self.cc.pacer.wait(now, Bytes(want));
        }
    }

    pub(super) fn report_sent(&mut self, now: Time, tx: TxId, len: u16, before: u64, kind: SegmentKind) {
        let mut event = Sent::new(now, tx, Bytes::from(len));
        event.in_flight_before = Bytes(before);
        event.kind = kind;
        event.tag = self.cc.control.tag;
        if kind == SegmentKind::Data {
            event.pause = self.snd.end_pause(now);
        }
        let path = self.path();
        self.cc.controller.on_sent(&event, &path);
    }

    pub(super) fn report_ack(&mut self, event: Ack<'static>) {
        let mut segments = self.cc.segments.take();
        let mut event: Ack<'_> = event;
        if let Some(segments) = &segments {
            (event.acked, event.lost) = (&segments.acked, &segments.lost);
        }
        // Samples of extensions, and data in flight.
        self.ext.list.iter_mut().for_each(|extension| extension.complete(&mut event));
        event.total_delivered = Bytes(self.cc.rate.delivered);
        event.in_flight = Bytes(self.loss.pipe(&self.snd.board));
        let outstanding = self.snd.flight_size().saturating_sub(self.snd.board.sacked_bytes);
        event.recover_flight = Bytes(outstanding) + event.delivered;
        event.limit = self.cc.limits.current;
        let limited = self.cc.is_cwnd_limited(event.prior_in_flight);
        event.cwnd_limited = limited || self.cc.rounds.was_limited;
        // Round-trip counting.
        let sent_after = event.rate.map(|rate| rate.prior_delivered.0);
        let sending = &mut **self.cc;
        let round = sending.rounds.advance(self.snd.una, self.snd.nxt, event.total_delivered.0, sent_after);
        event.round_start = round.is_some();
        sending.bursts.on_ack(event.delivered, event.newly_lost);
        if let Some(delivered) = round {
            sending.bursts.on_round();
            (sending.rounds.was_limited, sending.rounds.limited) = (limited, false);
            self.cc.history.best_round = self.cc.history.best_round.max(delivered);
            self.ext.ecn_check.on_round();
        }
        let path = self.path();
        self.cc.controller.on_ack(&event, &path);
        if let Some(segments) = &mut segments {
            segments.acked.clear();
            segments.lost.clear();
        }
        self.cc.segments = segments;
        self.refresh();
    }

    /// Reports losses that a timer detected, as an ACK event without delivered data.
    pub(super) fn report_timer_losses(&mut self, now: Time, newly_lost: u64, episode: Episode) {
        let mut event = Ack::new(now);
        event.newly_lost = Bytes(newly_lost);
        event.episode = episode;
        event.prior_in_flight = Bytes(self.loss.pipe(&self.snd.board).saturating_add(newly_lost));
        event.flight_size = Bytes(self.snd.flight_size());
        self.report_ack(event);
    }

    /// Adapts to a changed segment size: splits longer segments in flight and reports the change to the controller.
    pub(super) fn change_mss(&mut self, now: Time) {
        let mss = self.pmtu.mss();
        if Bytes::from(mss) < self.cc.mss {
            self.snd.board.resegment(mss);
            self.loss.on_renumbered();
        }
        let event = PathEvent::Mss { now, old: self.cc.mss };
        self.cc.mss = Bytes::from(mss);
        self.tell(&event);
    }

    /// Restarts after an idle period that began at `since`: after more than one RTO without transmission, cwnd may not
    /// fit the path (RFC 5681, section 4.1). Returns whether there was a restart.
    pub(super) fn restart_after_idleness(&mut self, now: Time, since: Option<Time>) -> bool {
        let idle = since.map(|since| now - since).filter(|idle| *idle > self.rtt.base_rto());
        if let Some(idle) = idle {
            self.tell(&PathEvent::IdleRestart { now, idle });
        }
        idle.is_some()
    }

    pub(super) fn report_timeout(&mut self, now: Time, flight: u64) {
        let mut event = Timeout::new(now, self.loss.timeouts, Bytes(flight));
        event.in_flight = Bytes(self.loss.pipe(&self.snd.board));
        let path = self.path();
        self.cc.controller.on_timeout(&event, &path);
        self.cc.bursts.fall_back();
        self.refresh();
    }

    pub(super) fn tick(&mut self, now: Time) {
        let path = self.path();
        self.cc.controller.on_tick(now, &path);
        self.refresh();
    }
}
