//! Liveness of the peer: time of the last arrival, keep-alive probes, host errors (socket and ICMP errors), the user timeout,
//! and unanswered retransmissions (RFC 9293, sections 3.8.3, 3.8.4, 3.9.1.8 and 3.9.2.2).

use longhaul_units::{Span, Time};

use super::user_timeout::UserTimeout;
use super::{Sender, Timer, Timers};
use crate::{Config, ConnectionError, HostError, MIN_KEEP_ALIVE, RttEstimator, State};

/// R1 in retransmissions, which is at least three (RFC 9293, section 3.8.3, SHLD-10).
pub(super) const R1: u32 = 3;

/// Delay before the first probe after a report of a closed port, and minimum waiting time for each answer.
const PORT_PROBE_DELAY: Span = Span::from_millis(100);
/// Number of consecutive refused probes after which the peer is considered dead.
const PORT_PROBES: u32 = 3;

#[derive(Debug)]
pub(super) struct Liveness {
    /// Time at which the last acceptable segment arrived.
    pub(super) last_heard: Time,
    /// Number of keep-alive probes sent since that time.
    keep_alive_probes: u32,
    /// The last host error, and the number of host errors.
    pub(super) host_error: Option<(HostError, Time)>,
    pub(super) host_errors: u64,
    port_probe: Option<PortProbe>,
    pub(super) user_timeout: UserTimeout,
    /// Time since which data has been outstanding without progress; start of the user timeout.
    pub(super) stalled_since: Option<Time>,
}

/// Probing of a peer whose port was reported closed on an established connection.
#[derive(Clone, Copy, Debug, Default)]
struct PortProbe {
    refused: u32,
    probed_at: Option<Time>,
    is_refused: bool,
}

impl Liveness {
    pub(super) fn new(config: &Config, now: Time) -> Self {
        Self {
            last_heard: now,
            keep_alive_probes: 0,
            host_error: None,
            host_errors: 0,
            port_probe: None,
            user_timeout: UserTimeout::new(config),
            stalled_since: None,
        }
    }

    /// Starts the keep-alive timer, because a segment arrived or the settings changed.
    pub(super) fn arm_keep_alive(&mut self, now: Time, config: &Config, state: State, timers: &mut Timers) {
        let Some(keep_alive) = config.keep_alive else {
            timers.stop(Timer::KeepAlive);
            return;
        };
        if state.is_synchronized() && state != State::TimeWait {
            self.keep_alive_probes = 0;
            timers.arm(Timer::KeepAlive, now + keep_alive.idle.max(MIN_KEEP_ALIVE));
        }
    }

    /// Handles the keep-alive timer (RFC 9293, section 3.8.4). Returns whether to send a probe, or that the peer is
    /// dead. Outstanding data serves as a probe, with its own timer.
    pub(super) fn on_keep_alive(
        &mut self,
        now: Time,
        config: &Config,
        has_outstanding: bool,
        timers: &mut Timers,
    ) -> Result<bool, ConnectionError> {
        let Some(keep_alive) = config.keep_alive else { return Ok(false) };
        if self.keep_alive_probes >= keep_alive.probes {
            return Err(ConnectionError::TimedOut);
        }
        timers.arm(Timer::KeepAlive, now + keep_alive.interval.max(MIN_KEEP_ALIVE));
        self.keep_alive_probes = self.keep_alive_probes.saturating_add(u32::from(!has_outstanding));
        Ok(!has_outstanding)
    }

    /// Returns the time since which data has been outstanding without progress, which is `now` if it was not before.
    pub(super) fn stall(&mut self, now: Time) -> Time {
        *self.stalled_since.get_or_insert(now)
    }

    /// Arms the user timeout if data is outstanding (RFC 9293, section 3.8.3).
    pub(super) fn arm_user_timeout(&mut self, now: Time, snd: &Sender, limit: Option<Span>, timers: &mut Timers) {
        if !snd.has_outstanding() {
            return;
        }
        let since = self.stall(now);
        if let Some(limit) = limit {
            timers.arm(Timer::User, since + limit);
        }
    }

    /// Extends an expired user timeout of length `limit` to `until`. Called if the timer fires late, for example
    /// because this host was suspended, so that the peer has a chance to answer before the connection is closed.
    pub(super) fn extend_user_timeout(&mut self, until: Time, limit: Option<Span>, timers: &mut Timers) {
        if let (Some(since), Some(limit)) = (&mut self.stalled_since, limit) {
            *since = until - limit;
        }
        timers.arm(Timer::User, until);
    }

    pub(super) fn stop_probing(&mut self, timers: &mut Timers) {
        if self.port_probe.take().is_some() {
            timers.stop(Timer::PortProbe);
        }
    }

    /// Handles a report that the peer's port is closed: starts probing, or records that the outstanding probe was refused.
    pub(super) fn on_closed_port(&mut self, now: Time, timers: &mut Timers) {
        match &mut self.port_probe {
            Some(port_probe) => port_probe.is_refused |= port_probe.probed_at.is_some_and(|at| now > at),
            None => {
                self.port_probe = Some(PortProbe::default());
                timers.arm(Timer::PortProbe, now + PORT_PROBE_DELAY);
            }
        }
    }

    /// Handles the end of the waiting time for a probe's answer, where `base_rto` is the next waiting time. Returns
    /// whether to send another probe, or that the peer is dead.
    pub(super) fn on_probe_timeout(
        &mut self,
        now: Time,
        base_rto: Span,
        timers: &mut Timers,
    ) -> Result<bool, ConnectionError> {
        let Some(mut port_probe) = self.port_probe.take() else { return Ok(false) };
        if port_probe.probed_at.is_some() && !port_probe.is_refused {
            // The probe was neither answered nor refused: the other timers handle a silent peer.
            return Ok(false);
        }
        port_probe.refused += u32::from(port_probe.is_refused);
        if port_probe.refused >= PORT_PROBES {
            return Err(ConnectionError::Gone);
        }
        (port_probe.probed_at, port_probe.is_refused) = (Some(now), false);
        self.port_probe = Some(port_probe);
        timers.arm(Timer::PortProbe, now + base_rto.max(PORT_PROBE_DELAY));
        Ok(true)
    }
}

/// Returns the number of consecutive retransmissions, of a SYN or a window probe as well, without an answer.
pub(super) fn unanswered(state: State, snd: &Sender, rtt: &RttEstimator) -> u32 {
    if matches!(state, State::Closed | State::TimeWait) {
        return 0;
    }
    if snd.persist.in_flight { snd.persist.unanswered.saturating_sub(1) } else { rtt.backoff }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn liveness() -> Liveness {
        Liveness::new(&Config::default(), at(10))
    }

    /// RFC 9293, section 3.8.4: one lost probe does not end a connection, unless the application wants that.
    #[test]
    fn keep_alive_probes_are_counted_up_to_the_limit() {
        let (mut peer, mut timers) = (liveness(), Timers::new(at(10)));
        let config = Config { keep_alive: Some(crate::KeepAlive::default()), ..Config::default() };
        for _ in 0..2 {
            let mut steps = || peer.on_keep_alive(at(20), &config, false, &mut timers);
            assert_eq!([(); 9].map(|()| steps()), [Ok(true); 9]);
            assert_eq!(steps(), Err(ConnectionError::TimedOut));
            peer.arm_keep_alive(at(30), &config, State::Established, &mut timers);
        }
        assert_eq!(peer.on_keep_alive(at(40), &config, true, &mut timers), Ok(false), "data serves as a probe");
    }

    /// RFC 9293, section 3.8.3: the user timeout counts from the first data without progress, not from the newest.
    #[test]
    fn a_stall_begins_with_the_first_outstanding_data() {
        let (mut peer, mut timers) = (liveness(), Timers::new(at(10)));
        assert_eq!((peer.stall(at(30)), peer.stall(at(40))), (at(30), at(30)));
        peer.stalled_since = None;
        assert_eq!(peer.stall(at(50)), at(50));
        // A timeout of 20 s that ended at 70 s now ends at 75 s.
        peer.extend_user_timeout(at(75), Some(Span::from_secs(20)), &mut timers);
        assert_eq!(peer.stall(at(71)), at(55));
        peer.stalled_since = None;
        peer.extend_user_timeout(at(99), Some(Span::from_secs(20)), &mut timers);
        assert_eq!(peer.stall(at(80)), at(80), "nothing is outstanding");
    }
}
