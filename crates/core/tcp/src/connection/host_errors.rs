//! Host errors (socket and ICMP errors), and unanswered retransmissions (RFC 9293, sections 3.8.3, 3.9.1.8 and
//! 3.9.2.2).

use longhaul_units::{Span, Time};

use super::{Sender, Timer, Timers};
use crate::{ConnectionError, HostError, RttEstimator, State};

/// R1 in retransmissions, which is at least three (RFC 9293, section 3.8.3, SHLD-10).
pub(super) const R1: u32 = 3;

/// Delay before the first probe after a report of a closed port, and minimum waiting time for each answer.
const PORT_PROBE_DELAY: Span = Span::from_millis(100);
/// Number of consecutive refused probes after which the peer is considered gone.
const PORT_PROBES: u32 = 3;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostErrors {
    pub(super) last: Option<(HostError, Time)>,
    pub(super) count: u64,
    port_probe: Option<PortProbe>,
}

/// Probing of a peer whose port was reported closed on an established connection.
#[derive(Clone, Copy, Debug, Default)]
struct PortProbe {
    refused: u32,
    probed_at: Option<Time>,
    is_refused: bool,
}

impl HostErrors {
    /// Stops probing, because a segment arrived from the peer.
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

    /// Handles the end of the waiting time for a probe's answer, of which the next is `base_rto`. Returns whether to send
    /// another probe, or that the peer is gone.
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

/// Returns the number of consecutive retransmissions, of a SYN or a window probe as well, that are unanswered.
pub(super) fn unanswered(state: State, snd: &Sender, rtt: &RttEstimator) -> u32 {
    if matches!(state, State::Closed | State::TimeWait) {
        return 0;
    }
    if snd.persist.in_flight { snd.persist.unanswered.saturating_sub(1) } else { rtt.backoff }
}
