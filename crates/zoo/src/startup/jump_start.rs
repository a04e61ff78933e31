//! Jump-Start (Liu, Allman, Jin, Wang, PFLDnet 2007): all available data is sent in the first round trip, evenly
//! spread.

use longhaul_cc::compose::{LossEvent, Opening, Overlay, Signal, Stage, Startup, StartupResponse, Step, Window};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Demands, Episode, Granted, NeedError, Needs, Path, SegmentKind, Sent, Timeout, update};
use longhaul_units::{Bytes, Time};

use super::bound;
use super::first_flight::{FirstFlight, FlightRecovery};

pub(crate) static ENTRY: Entry =
    Entry::startup("jump-start", |values| Box::new(JumpStart::new(JumpStartConfig::from_values(values))))
        .described(
            "paces all queued data, up to a limit, over the first RTT",
            "Liu, Allman, Jin, Wang, PFLDnet 2007; RFC 7661, section 4.4.1 (parts reconstructed)",
        )
        .with_options(JumpStartConfig::OPTIONS)
        .tested_in(&[
            "jump-start+new-reno",
            "jump-start+cubic",
            "jump-start(max-jump=0,then=slow-start)+slow-start+new-reno+rfc6675",
        ])
        .internet_safe();

/// Largest window that a SYN can carry (RFC 9293, section 3.1).
const SYN_WINDOW: Bytes = Bytes(0xffff);

longhaul_cc::options! {
    pub(crate) struct JumpStartConfig {
        /// Maximum number of bytes sent in the jump; [`Bytes::MAX`] means no limit.
        max_jump: Bytes [bound] =
            OptionSpec::int("max-jump", 0, 1 << 20, 64, "maximum jump, KiB; 0: unlimited, as published"),
        /// Whether slow start follows. In the paper, congestion avoidance does.
        then_slow_start: bool [|then: &str| then == "slow-start"] =
            OptionSpec::choice("then", &["avoidance", "slow-start"], "stage that takes over the window"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Idle,
    /// There is no data known yet beyond the initial window.
    Armed,
    /// The flight is being sent.
    Jumping,
    /// The flight was sent, and its ACKs arrive.
    Validating,
    /// Part of the flight was lost.
    Recovery(FlightRecovery),
}

#[derive(Clone, Debug)]
pub(crate) struct JumpStart {
    config: JumpStartConfig,
    paced: bool,
    /// Whether ACKs list the segments that arrived, so that arrived retransmissions are known.
    listed: bool,
    phase: Phase,
    flight: FirstFlight,
}

impl JumpStart {
    pub(crate) fn new(config: JumpStartConfig) -> Self {
        let flight = FirstFlight::default();
        Self { config, paced: false, listed: false, phase: Phase::Idle, flight }
    }

    fn over(&mut self) -> Step {
        self.phase = Phase::Idle;
        Step::Done
    }

    /// Processes an ACK of the flight, which is validated when as many bytes were delivered as it has. These ACKs do
    /// not open the window, unless slow start follows.
    fn validate(&mut self, ack: &Ack<'_>, window: &mut Window) -> Step {
        self.flight.on_delivered(ack.delivered);
        if self.config.then_slow_start && ack.cwnd_limited {
            window.cwnd += ack.delivered.as_f64();
        }
        if !self.flight.is_delivered() {
            return Step::Stay;
        }
        if !self.config.then_slow_start {
            window.ssthresh = window.cwnd;
        }
        self.over()
    }

    /// Ends recovery. The path holds less than what was sent, by at least the bytes lost, so the window becomes half
    /// of the rest (RFC 7661, section 4.4.1).
    fn recovered(&mut self, recovery: FlightRecovery, path: &Path, window: &mut Window) -> Step {
        let rest = (recovery.flight - recovery.retransmitted).as_f64() / 2.0;
        window.cwnd = window.cwnd.min(rest).max(path.mss.as_f64());
        window.ssthresh = window.cwnd;
        self.over()
    }
}

impl Stage for JumpStart {
    fn needs(&self) -> Needs {
        let whole_window = self.config.max_jump > SYN_WINDOW;
        let preferred = update!(Demands { pacing: true, segments: true, whole_window, ..Demands::default() });
        update!(Needs { preferred, ..Needs::default() })
    }

    /// Without pacing there is no jump, and the slow-start variant begins.
    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        (self.paced, self.listed) = (granted.pacing, granted.segments);
        Ok(())
    }

    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        match &mut self.phase {
            Phase::Armed | Phase::Jumping => self.flight.on_sent(sent, path),
            // If ACKs do not list segments, every retransmission counts, and one that is retransmitted again counts
            // more than once.
            Phase::Recovery(recovery) if !self.listed && sent.kind == SegmentKind::Retransmit => {
                recovery.retransmitted += sent.bytes;
            }
            _ => {}
        }
    }

    fn next_tick(&self) -> Option<Time> {
        self.flight.grown_at().filter(|_| matches!(self.phase, Phase::Armed | Phase::Jumping))
    }

    fn overlay(&self) -> Overlay {
        if self.phase == Phase::Jumping { self.flight.overlay() } else { Overlay::default() }
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Idle => "handshake",
            Phase::Recovery(_) => "recovery",
            Phase::Armed | Phase::Jumping | Phase::Validating => "jump-start",
        }
    }
}

impl Startup for JumpStart {
    fn begin(&mut self, opening: Opening, _now: Time, path: &Path, window: &mut Window) -> Step {
        let rtt = path.handshake_rtt.filter(|_| self.paced && !path.handshake_lossy && opening == Opening::Connection);
        let Some(rtt) = rtt else { return self.over() };
        // A threshold known from earlier connections also limits the jump.
        let known = Bytes::from_f64(window.ssthresh);
        self.flight = FirstFlight::new(self.config.max_jump.min(known), rtt, window.cwnd);
        self.phase = Phase::Armed;
        Step::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        match &mut self.phase {
            Phase::Armed | Phase::Jumping if ack.delivered == Bytes::ZERO => Step::Stay,
            // There was no jump: the ACK counts as in slow start.
            Phase::Armed => {
                if ack.cwnd_limited {
                    window.cwnd += ack.delivered.as_f64();
                }
                self.over()
            }
            Phase::Jumping => {
                self.flight.close(window);
                self.phase = Phase::Validating;
                self.validate(ack, window)
            }
            Phase::Validating => self.validate(ack, window),
            Phase::Recovery(recovery) => {
                self.flight.on_delivered(ack.delivered);
                if self.listed {
                    recovery.on_ack(ack);
                }
                match ack.episode {
                    Episode::In | Episode::Again => Step::Stay,
                    _ => {
                        let recovery = *recovery;
                        self.recovered(recovery, path, window)
                    }
                }
            }
            Phase::Idle => self.over(),
        }
    }

    fn on_loss(&mut self, loss: &LossEvent<'_>, path: &Path, window: &mut Window) -> StartupResponse {
        self.flight.on_delivered(loss.ack.delivered);
        match (&mut self.phase, loss.signal) {
            (Phase::Jumping | Phase::Validating, Signal::Loss) => {
                self.phase = Phase::Recovery(FlightRecovery::begin(loss.ack, path, window));
                StartupResponse::Handled
            }
            (Phase::Recovery(recovery), Signal::LossAgain) => {
                if self.listed {
                    recovery.on_ack(loss.ack);
                }
                FlightRecovery::again(path, window);
                StartupResponse::Handled
            }
            _ => StartupResponse::Delegate,
        }
    }

    fn on_tick(&mut self, _now: Time, _path: &Path, window: &mut Window) -> Step {
        if matches!(self.phase, Phase::Armed | Phase::Jumping) {
            self.flight.open(window);
            if self.flight.exceeds_initial() {
                self.phase = Phase::Jumping;
            }
        }
        Step::Stay
    }

    fn on_timeout(&mut self, _timeout: &Timeout, path: &Path, window: &mut Window) -> Option<f64> {
        let jumped = !matches!(self.phase, Phase::Idle | Phase::Armed);
        if self.phase == Phase::Jumping {
            self.flight.close(window);
        }
        jumped.then(|| (self.flight.delivered().as_f64() / 2.0).max(2.0 * path.mss.as_f64()))
    }

    fn abort(&mut self) {
        self.phase = Phase::Idle;
    }
}

#[cfg(test)]
mod tests;
