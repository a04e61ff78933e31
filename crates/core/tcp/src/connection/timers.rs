//! Connection clock and timers: the latest time seen, an array with one deadline per kind, and the actions on expiry.

use longhaul_units::{Span, Time};

use super::Engine;
use super::congestion::SegmentLists;
use super::liveness::{R1, unanswered};
use super::loss::{R2, TimeoutStep};
use crate::{Connection, ConnectionError, Event, State, TimerKind};

/// Idle time after which buffers of any size are freed and the controller is asked again whether it is dispensable.
/// Before that, small buffers are freed after one retransmission timeout, when a restart begins (RFC 5681, section
/// 4.1).
const IDLE_STEPS: [Span; 2] = [Span::from_secs(2), Span::from_secs(60)];
/// Size in bytes up to which a buffer counts as small.
const SMALL: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// Retransmission timeout, SYN and FIN included (RFC 6298).
    Rto,
    /// Tail loss probe (RFC 8985, section 7.2).
    Probe,
    /// RACK's reordering window (RFC 8985, section 6.2).
    Reorder,
    /// The next transmission that the pacer permits.
    Pace,
    /// Delayed ACK (RFC 9293, section 3.8.6.3).
    Ack,
    /// Zero-window probe and override timeout of silly-window avoidance (RFC 9293, sections 3.8.6.1 and 3.8.6.2.1).
    Persist,
    /// Keep-alive (RFC 9293, section 3.8.4).
    KeepAlive,
    /// User timeout (RFC 9293, section 3.8.3).
    User,
    /// End of TIME-WAIT, of waiting for the peer's FIN in FIN-WAIT-2, or of waiting for the acknowledgment of what precedes
    /// a RST.
    Linger,
    /// The controller's periodic timer.
    Tick,
    /// Nothing was sent for a while: memory kept for the next burst is freed.
    Idle,
    /// The next segment of an extension.
    Extension,
    /// Waiting time for a probe of a peer whose port was reported closed (RFC 1122, section 4.2.3.9).
    PortProbe,
}

impl Timer {
    pub(super) const COUNT: usize = 13;
    /// All timers in the order in which they fire, and their kinds for observers: none for the timers of pacer,
    /// controller and memory.
    const ALL: [(Self, Option<TimerKind>); Self::COUNT] = [
        (Self::Rto, Some(TimerKind::Retransmission)),
        (Self::Probe, Some(TimerKind::TailLossProbe)),
        (Self::Reorder, Some(TimerKind::Reordering)),
        (Self::Pace, None),
        (Self::Ack, Some(TimerKind::DelayedAck)),
        (Self::Persist, Some(TimerKind::Persist)),
        (Self::KeepAlive, Some(TimerKind::KeepAlive)),
        (Self::User, Some(TimerKind::User)),
        (Self::Linger, Some(TimerKind::Linger)),
        (Self::Tick, None),
        (Self::Idle, None),
        (Self::Extension, None),
        (Self::PortProbe, Some(TimerKind::PortProbe)),
    ];

    pub(super) const fn kind(self) -> Option<TimerKind> {
        Self::ALL[self as usize].1
    }
}

#[derive(Clone, Debug)]
pub(super) struct Timers {
    pub(super) now: Time,
    deadlines: [Time; Timer::COUNT],
}

impl Timers {
    pub(super) fn new(now: Time) -> Self {
        Self { now, deadlines: [Time::MAX; Timer::COUNT] }
    }

    /// Advances the clock and returns its time. A `now` earlier than the latest time seen is replaced by that time.
    pub(super) fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    pub(super) fn stop_all(&mut self) {
        self.deadlines = [Time::MAX; Timer::COUNT];
    }

    pub(super) fn set(&mut self, timer: Timer, at: Option<Time>) {
        self.deadlines[timer as usize] = at.unwrap_or(Time::MAX);
    }

    pub(super) fn arm(&mut self, timer: Timer, at: Time) {
        self.deadlines[timer as usize] = at;
    }

    pub(super) fn stop(&mut self, timer: Timer) {
        self.deadlines[timer as usize] = Time::MAX;
    }

    pub(super) fn get(&self, timer: Timer) -> Option<Time> {
        let at = self.deadlines[timer as usize];
        (at != Time::MAX).then_some(at)
    }

    pub(super) fn is_armed(&self, timer: Timer) -> bool {
        self.deadlines[timer as usize] != Time::MAX
    }

    pub(super) fn next(&self) -> Option<Time> {
        let first = self.deadlines.iter().copied().fold(Time::MAX, Time::min);
        (first != Time::MAX).then_some(first)
    }

    pub(super) fn expire(&mut self, now: Time) -> Option<Timer> {
        let due = Timer::ALL.into_iter().map(|(timer, _)| timer).find(|timer| self.is_due(*timer, now))?;
        self.stop(due);
        Some(due)
    }

    fn is_due(&self, timer: Timer, now: Time) -> bool {
        self.deadlines[timer as usize] <= now && self.is_armed(timer)
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Connection {
    /// Fires every timer that has expired.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.timers.advance(now);
        let user_late = self.timers.get(Timer::User).map(|at| now - at);
        if self.timers.is_due(Timer::Probe, now) && !self.loss.in_episode() {
            // A tail loss probe replaces a timeout that is due at the same time, and arms the timer again (RFC 8985,
            // sections 7.2 and 8).
            self.timers.stop(Timer::Rto);
        }
        let mut fired = [None; Timer::COUNT];
        for slot in &mut fired {
            *slot = self.timers.expire(now);
        }
        for timer in fired.into_iter().flatten() {
            if self.life.state == State::Closed {
                return;
            }
            self.observers.report_expired(now, timer);
            match (timer, user_late) {
                (Timer::User, Some(late)) if late > self.rtt.rto() => {
                    self.peer.extend_user_timeout(now + self.rtt.rto() * 2, self.config.user_timeout, &mut self.timers)
                }
                _ => self.fire(now, timer),
            }
        }
        if !self.observers.is_empty() {
            self.watch().report_changes();
        }
    }

    /// Performs the action of an expired timer.
    fn fire(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Rto => self.on_retransmission_timeout(now),
            Timer::Probe => self.engine().on_probe_timeout(now),
            Timer::Reorder => {
                if let Some((lost, episode)) = self.recovery().on_reorder_timeout(now) {
                    self.control_loop().report_timer_losses(now, lost, episode);
                }
            }
            // The send loop runs after every call and checks these timers itself.
            Timer::Pace | Timer::Extension => {}
            Timer::Idle => {
                self.engine().on_idle(now);
                self.life.rested_at = now;
            }
            Timer::Ack => self.rcv.acks.due = true,
            Timer::Persist => {
                if self.engine().on_persist(now) {
                    self.finish(Some(ConnectionError::TimedOut));
                }
            }
            Timer::KeepAlive | Timer::PortProbe => {
                let (has_outstanding, base_rto) = (self.snd.has_outstanding(), self.rtt.base_rto());
                let probes = match timer {
                    Timer::KeepAlive => self.peer.on_keep_alive(now, &self.config, has_outstanding, &mut self.timers),
                    _ => self.peer.on_probe_timeout(now, base_rto, &mut self.timers),
                };
                match probes {
                    Ok(true) => self.headers().send_keep_alive(now),
                    Ok(false) => {}
                    Err(error) => self.finish(Some(error)),
                }
            }
            Timer::User => self.finish(Some(ConnectionError::TimedOut)),
            // The end of TIME-WAIT or FIN-WAIT-2, or of waiting for the acknowledgment of what precedes a RST.
            Timer::Linger if self.life.resets => self.reset(now),
            Timer::Linger => self.finish(None),
            Timer::Tick => self.control_loop().tick(now),
        }
        if matches!(timer, Timer::Rto | Timer::Persist) && unanswered(self.life.state, &self.snd, &self.rtt) == R1 {
            self.events.raise(Event::Stalled);
        }
    }

    /// Handles the retransmission timeout (RFC 6298, steps 5.4 to 5.6). RFC 8985, section 6.3, determines the
    /// segments marked lost.
    fn on_retransmission_timeout(&mut self, now: Time) {
        if self.life.state == State::SynSent || self.life.state == State::SynReceived {
            self.retransmit_syn(now);
            return;
        }
        let Some((index, _)) = self.snd.board.front() else { return };
        // R2: close the connection if the peer is silent (RFC 9293, section 3.8.3).
        let silence = now - self.peer.last_heard;
        let only_fin =
            matches!(self.life.state, State::LastAck | State::Closing) && self.snd.una >= self.snd.buffer.end();
        let may_give_up = silence >= R2 && self.config.user_timeout.is_none();
        match self.loss.on_timeout(self.life.resets, only_fin, may_give_up) {
            TimeoutStep::Retransmit => {}
            TimeoutStep::Reset => return self.reset(now),
            TimeoutStep::End(error) => return self.finish(error),
        }
        // Mark segments lost. A black hole reduces the path MTU.
        let flight = self.snd.flight_size();
        self.recovery().begin_timeout(now, index, silence);
        if self.pmtu.on_timeout(now, self.loss.timeouts) {
            self.control_loop().change_mss(now);
        }
        // RFC 6298, steps 5.4 to 5.6: retransmit the first segment, back off the timer and restart it.
        self.rtt.back_off();
        self.loss.grant.forced = true;
        self.stats.incidents_mut().timeouts += 1;
        self.control_loop().report_timeout(now, flight);
        self.timers.arm(Timer::Rto, now + self.rtt.rto());
    }

    pub(super) fn arm_retransmission(&mut self, now: Time) {
        let user_timeout = self.config.user_timeout;
        self.loss.arm_timers(now, &self.snd, &self.rtt, &mut self.peer, &mut self.timers, user_timeout);
    }

    /// Arms the idle timer if a segment from the peer has left empty parts, as keep-alives and data in one direction
    /// do.
    pub(crate) fn watch_idleness(&mut self) {
        if !self.timers.is_armed(Timer::Idle)
            && !self.snd.has_outstanding()
            && self.life.state == State::Established
            && self.life.rested_at < self.peer.last_heard
            && (self.snd.holds_empty_parts() || self.rcv.holds_empty_parts())
        {
            self.timers.arm(Timer::Idle, self.timers.now + self.rtt.base_rto());
        }
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Engine<'_> {
    /// Handles the expiry of the probe timer: sends a tail loss probe, or during recovery an outage probe, unless the
    /// retransmission timer expired at the same time.
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
    /// whether the connection is aborted.
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
        if self.snd.persist.is_hopeless(now - self.peer.last_heard) && self.config.user_timeout.is_none() {
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

    /// Sends the FIN at once, beyond the peer's closed window, because this endpoint is about to be dropped. Does
    /// nothing while data is unsent. Returns whether the FIN has been sent, now or before.
    pub(crate) fn hurry_fin(&mut self) -> bool {
        let waits = self.snd.has_unsent_fin() && self.snd.unsent() == 0 && self.life.state.is_synchronized();
        if waits {
            self.snd.persist.due = true;
            self.loss.grant.forced = true;
        }
        waits || self.snd.fin_sent
    }

    /// Frees memory of an idle connection that is kept only to send the next data sooner, and arms the timer for the
    /// next step.
    fn on_idle(&mut self, now: Time) {
        let idle = self.snd.last_sent.map_or(Span::MAX, |last| now - last);
        let path = self.cc.path(self.snd, self.loss, self.rtt, self.pmtu.mss());
        self.cc.drop_if_dispensable(self.config, &path, idle);
        let quiet_at = self.rcv.inflow.last().map(|last| last + self.rtt.base_rto());
        if let Some(quiet_at) = quiet_at.filter(|quiet_at| *quiet_at > now) {
            // The peer sends a stream.
            self.timers.arm(Timer::Idle, quiet_at);
            return;
        }
        if idle >= IDLE_STEPS[0] || self.memory() <= SMALL {
            self.snd.free_spare_memory();
            self.rcv.free_spare_memory();
            if let Some(arrivals) = self.ext.arrivals.as_mut().filter(|_| !self.rcv.acks.has_pending()) {
                arrivals.rest(|_, ()| true);
            }
            if let Some(segments) = self.cc.segments_mut() {
                *segments = SegmentLists::default();
            }
        }
        let is_small = self.cc.sending.made().is_none() && self.memory() == 0;
        if let Some(step) = IDLE_STEPS.into_iter().find(|step| *step > idle && !is_small) {
            self.timers.arm(Timer::Idle, now + (step - idle));
        }
    }

    fn memory(&self) -> usize {
        self.snd.memory() + self.rcv.memory()
    }
}
