//! Connection clock and timers: the latest time seen, an array with one deadline per kind, and what happens when one
//! expires.

use longhaul_units::Time;

use super::Connection;
use crate::error::ConnectionError;
use crate::observer::TimerKind;
use crate::state::State;

/// Kinds of timers.
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
    /// The next probe of the controller's plan.
    Copy,
    /// Waiting time for a probe of a peer whose port was reported closed (RFC 1122, section 4.2.3.9).
    PortProbe,
}

impl Timer {
    /// Returns the kind that observers know; `None` for timers of the pacer, the controller and the memory.
    pub(super) const fn kind(self) -> Option<TimerKind> {
        Some(match self {
            Self::Rto => TimerKind::Retransmission,
            Self::Probe => TimerKind::TailLossProbe,
            Self::Reorder => TimerKind::Reordering,
            Self::Ack => TimerKind::DelayedAck,
            Self::Persist => TimerKind::Persist,
            Self::KeepAlive => TimerKind::KeepAlive,
            Self::User => TimerKind::User,
            Self::Linger => TimerKind::Linger,
            Self::PortProbe => TimerKind::PortProbe,
            Self::Pace | Self::Tick | Self::Idle | Self::Copy => return None,
        })
    }

    pub(super) const COUNT: usize = 13;
    const ALL: [Self; Self::COUNT] = [
        Self::Rto,
        Self::Probe,
        Self::Reorder,
        Self::Pace,
        Self::Ack,
        Self::Persist,
        Self::KeepAlive,
        Self::User,
        Self::Linger,
        Self::Tick,
        Self::Idle,
        Self::Copy,
        Self::PortProbe,
    ];
}

/// Clock of the connection and the deadlines of its timers.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    now: Time,
    deadlines: [Time; Timer::COUNT],
}

/// Clock and deadlines of a connection at rest, which has no other timers.
#[derive(Clone, Copy, Debug)]
pub(super) struct RestingTimers {
    now: Time,
    idle: Time,
    keep_alive: Time,
}

impl Timers {
    /// Returns what is to be kept, unless other timers are armed than those of a connection at rest.
    pub(super) fn rest(&self) -> Option<RestingTimers> {
        let [idle, keep_alive] = [Timer::Idle, Timer::KeepAlive].map(|timer| self.deadlines[timer as usize]);
        let kept = RestingTimers { now: self.now, idle, keep_alive };
        (Self::wake(kept).deadlines == self.deadlines).then_some(kept)
    }

    /// Returns the timers as they were.
    pub(super) fn wake(kept: RestingTimers) -> Self {
        let mut timers = Self::new(kept.now);
        timers.arm(Timer::Idle, kept.idle);
        timers.arm(Timer::KeepAlive, kept.keep_alive);
        timers
    }

    pub(super) fn new(now: Time) -> Self {
        Self { now, deadlines: [Time::MAX; Timer::COUNT] }
    }

    /// Returns the latest time seen.
    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// Advances the clock and returns its time. A `now` before the latest one seen is replaced by that one.
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

    /// Stops and returns a timer that has expired at `now`, if any.
    pub(super) fn expire(&mut self, now: Time) -> Option<Timer> {
        let due = Timer::ALL.into_iter().find(|timer| self.is_due(*timer, now))?;
        self.stop(due);
        Some(due)
    }

    /// Returns whether a timer has expired at `now`.
    fn is_due(&self, timer: Timer, now: Time) -> bool {
        self.deadlines[timer as usize] <= now && self.is_armed(timer)
    }
}

impl Connection {
    /// Fires every timer that has expired.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.timers.advance(now);
        let user_late = self.timers.get(Timer::User).map(|at| now - at);
        if self.timers.is_due(Timer::Probe, now) && !self.loss.in_episode() {
            // A tail loss probe takes the place of a timeout that is due as well, and arms the timer again (RFC 8985,
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
            self.report_expired(timer);
            match (timer, user_late) {
                (Timer::User, Some(late)) if late > self.rtt.rto() => self.extend_user_timeout(now),
                _ => self.fire(now, timer),
            }
        }
        self.report_changes();
    }

    /// Extends an expired user timeout by two RTOs. Called if the timer fires late, for example because this host was
    /// suspended, so that the peer can answer once more before the connection is closed.
    fn extend_user_timeout(&mut self, now: Time) {
        let until = now + self.rtt.rto() * 2;
        if let Some(limit) = self.config.user_timeout {
            self.peer.put_off_user_timeout(until, limit);
        }
        self.timers.arm(Timer::User, until);
    }

    /// Does what an expired timer is for.
    fn fire(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Rto => {
                self.on_retransmission_timeout(now);
                self.consider_r1();
            }
            Timer::Probe => self.on_probe_timeout(now),
            Timer::Reorder => self.on_reorder_timeout(now),
            // The send loop runs after every call and checks them itself.
            Timer::Pace | Timer::Copy => {}
            Timer::Idle => self.on_idle(now),
            Timer::Ack => self.rcv.acks.request(),
            Timer::Persist => {
                self.on_persist(now);
                self.consider_r1();
            }
            Timer::KeepAlive => self.on_keep_alive(now),
            Timer::PortProbe => self.on_port_probe_timeout(now),
            Timer::User => self.finish(Some(ConnectionError::TimedOut)),
            Timer::Linger => self.on_linger_timeout(now),
            Timer::Tick => {
                let path = self.path();
                self.cc.controller.on_tick(now, &path);
                self.refresh_control();
            }
        }
    }
}
