//! Host errors (socket and ICMP errors), and unanswered retransmissions (RFC 9293, sections 3.8.3, 3.9.1.8 and
//! 3.9.2.2).

use longhaul_units::{Span, Time};

use super::timers::Timer;
use super::{Connection, Event};
use crate::error::{ConnectionError, HostError};
use crate::info::add;
use crate::observer::ConnectionEvent;
use crate::state::State;

/// R1 in retransmissions, which is at least three (RFC 9293, section 3.8.3, SHLD-10).
const R1: u32 = 3;

/// Delay before the first probe after a report of a closed port, and minimum waiting time for each answer.
const PORT_PROBE_DELAY: Span = Span::from_millis(100);
/// Number of consecutive refused probes after which the peer is considered gone.
const PORT_PROBES: u32 = 3;

/// Host errors so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostErrors {
    last: Option<(HostError, Time)>,
    count: u64,
    port_probe: Option<PortProbe>,
}

/// Probing of a peer whose port was reported closed on an established connection.
#[derive(Clone, Copy, Debug, Default)]
struct PortProbe {
    /// Number of refused probes.
    refused: u32,
    /// Send time of the outstanding probe.
    probed_at: Option<Time>,
    /// The outstanding probe was refused.
    is_refused: bool,
}

impl HostErrors {
    pub(super) fn last(&self) -> Option<HostError> {
        self.last.map(|(error, _)| error)
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    fn note(&mut self, error: HostError, now: Time) {
        self.last = Some((error, now));
        add(&mut self.count, 1);
    }
}

impl Connection {
    /// Handles a socket or ICMP error for packets to the peer. It is recorded but does not end the connection by
    /// itself, because it may be transient (RFC 1122, section 4.2.3.9) or forged (RFC 5927, section 4). Two errors
    /// take effect once confirmed. In SYN-SENT, an unreachable or refusing peer ends the attempt if the next SYN
    /// fails in the same way; after a local error such as a filter that is being reloaded, the SYN is retransmitted as if
    /// it had been lost. Later, a closed port ends the connection if three consecutive probes are refused and no
    /// segment arrives from the peer meanwhile (RFC 1122, section 4.2.3.9: a hard error; RFC 5461, section 4.1,
    /// describes the risk).
    pub fn handle_host_error(&mut self, now: Time, error: HostError) {
        let now = self.timers.advance(now);
        if self.life.state == State::Closed {
            return;
        }
        self.peer.host_errors.note(error, now);
        self.observers.report(now, || ConnectionEvent::HostError(error));
        match self.life.state {
            State::SynSent if error.is_about_path() => self.on_refusal(now, error),
            state if state.is_synchronized() && error == HostError::Refused => self.probe_closed_port(now),
            _ => {}
        }
    }

    /// Handles a report that the peer's port is closed: starts probing or records that the outstanding probe was
    /// refused.
    fn probe_closed_port(&mut self, now: Time) {
        if self.life.state == State::TimeWait {
            return;
        }
        match &mut self.peer.host_errors.port_probe {
            Some(port_probe) => port_probe.is_refused |= port_probe.probed_at.is_some_and(|at| now > at),
            None => {
                self.peer.host_errors.port_probe = Some(PortProbe::default());
                self.timers.arm(Timer::PortProbe, now + PORT_PROBE_DELAY);
            }
        }
    }

    /// Handles the end of the waiting time for a probe's answer.
    pub(super) fn on_port_probe_timeout(&mut self, now: Time) {
        let Some(mut port_probe) = self.peer.host_errors.port_probe.take() else { return };
        if port_probe.probed_at.is_some() && !port_probe.is_refused {
            // The probe was neither answered nor refused: the other timers handle a silent peer.
            return;
        }
        port_probe.refused += u32::from(port_probe.is_refused);
        if port_probe.refused >= PORT_PROBES {
            self.finish(Some(ConnectionError::Gone));
            return;
        }
        (port_probe.probed_at, port_probe.is_refused) = (Some(now), false);
        self.peer.host_errors.port_probe = Some(port_probe);
        let probe = self.keep_alive_header(now);
        self.rcv.acks.enqueue(probe);
        self.timers.arm(Timer::PortProbe, now + self.rtt.base_rto().max(PORT_PROBE_DELAY));
    }

    /// Stops probing, because a segment arrived from the peer.
    pub(super) fn stop_port_probing(&mut self) {
        if self.peer.host_errors.port_probe.take().is_some() {
            self.timers.stop(Timer::PortProbe);
        }
    }

    /// Returns the last host error unless a segment arrived from the peer since. It is the likely cause of a timeout.
    #[must_use]
    pub fn host_error(&self) -> Option<HostError> {
        let heard = |at| self.life.handshake.is_none() && self.peer.was_heard_after(at);
        self.peer.host_errors.last.filter(|(_, at)| !heard(*at)).map(|(error, _)| error)
    }

    /// Returns whether R1 is reached: that many consecutive retransmissions, of a SYN as well, are unanswered.
    /// Zero-window probes count only if they are unanswered too.
    #[must_use]
    pub fn is_past_r1(&self) -> bool {
        self.unanswered() >= R1
    }

    /// Raises [`Event::Stalled`] if a retransmission timeout has reached R1.
    pub(super) fn consider_r1(&mut self) {
        if self.unanswered() == R1 {
            self.life.events.raise(Event::Stalled);
        }
    }

    fn unanswered(&self) -> u32 {
        if matches!(self.life.state, State::Closed | State::TimeWait) {
            return 0;
        }
        if self.snd.persist.is_in_flight() { self.snd.persist.repetitions() } else { self.rtt.backoff() }
    }
}
