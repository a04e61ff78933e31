//! CUBIC (RFC 9438).

use longhaul_units::{Bytes, Span, Time, math};

use crate::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, Handoff, Reason, Signal, Stage, StageEvent, Target, Window,
};
use crate::describe::{Entry, OptionSpec};
use crate::{Ack, Path};

/// Upper bound of the target, in windows (RFC 9438, section 4.2).
const MAX_TARGET: f64 = 1.5;

pub(crate) static ENTRY: Entry =
    Entry::avoidance("cubic", |values| Box::new(Cubic::new(CubicConfig::from_values(values))))
        .described("cubic function of the time since the last congestion event; at least NewReno's window", "RFC 9438")
        .with_options(CubicConfig::OPTIONS)
        .tested_in(&["cubic", "slow-start+cubic", "cubic(fast-convergence=off)"])
        .internet_safe();

crate::options! {
    /// CUBIC's constants (RFC 9438, sections 4.6, 4.7 and 5.1).
    pub(crate) struct CubicConfig {
        beta: f64 = OptionSpec::float("beta", 0.1, 0.9, 0.7, "fraction of the window kept on a loss"),
        ecn_beta: f64 = OptionSpec::float("ecn-beta", 0.1, 0.95, 0.7, "fraction kept on an ECN mark (RFC 8511 proposes 0.85)"),
        /// `C` in segments/s^3.
        c: f64 = OptionSpec::float("c", 0.01, 4.0, 0.4, "aggressiveness, segments/s^3"),
        fast_convergence: bool = OptionSpec::flag("fast-convergence", true, "release bandwidth to new flows"),
    }
}

/// Cubic curve of one congestion-avoidance stage.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// `t_epoch`, advanced by the time in which the window did not limit the sender.
    start: Time,
    /// Time at which the window last followed the curve.
    updated: Time,
    /// `K` in seconds.
    k: f64,
    /// Plateau of the curve in bytes.
    plateau: f64,
}

/// CUBIC congestion avoidance. Windows are in bytes, times in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    config: CubicConfig,
    epoch: Option<Epoch>,
    /// Window before the last decrease, or less under fast convergence; zero before the first decrease.
    w_max: f64,
    /// Window when the threshold was last set.
    cwnd_prior: f64,
    /// `W_est`: estimate of the window that NewReno would have.
    w_est: f64,
    /// Whether the sender has paused since the window last followed the curve.
    paused: bool,
}

impl Cubic {
    pub(crate) const fn new(config: CubicConfig) -> Self {
        Self { config, epoch: None, w_max: 0.0, cwnd_prior: 0.0, w_est: 0.0, paused: false }
    }

    /// Returns `C` in bytes/s^3.
    fn c(&self, mss: Bytes) -> f64 {
        self.config.c * mss.as_f64()
    }

    /// Returns the value of the curve after `t` seconds (RFC 9438, figure 1).
    fn curve(&self, epoch: &Epoch, t: f64, mss: Bytes) -> f64 {
        let away = t - epoch.k;
        self.c(mss) * (away * away * away) + epoch.plateau
    }

    /// Returns the additive increase in segments per round trip that matches NewReno (RFC 9438, section 4.3).
    fn alpha(&self) -> f64 {
        if self.w_est >= self.cwnd_prior { 1.0 } else { 3.0 * (1.0 - self.config.beta) / (1.0 + self.config.beta) }
    }

    /// Starts a curve towards `plateau` at `now` (RFC 9438, figure 2).
    fn start(&mut self, now: Time, plateau: f64, mss: Bytes, cwnd: f64) {
        let plateau = plateau.max(cwnd);
        let k = math::cbrt((plateau - cwnd) / self.c(mss));
        self.epoch = Some(Epoch { start: now, updated: now, k, plateau });
        self.w_est = cwnd;
        self.paused = false;
    }

    /// Advances the epoch to `now` and returns it. Time in which the window did not grow is excluded (RFC 9438,
    /// section 5.8).
    fn advance(&mut self, now: Time) -> Option<Epoch> {
        let epoch = self.epoch.as_mut()?;
        if self.paused {
            epoch.start += now.since(epoch.updated);
            self.paused = false;
        }
        epoch.updated = now;
        Some(*epoch)
    }
}

impl Stage for Cubic {
    /// After an idle period, time in the curve continues from the pause. A new segment size starts a new curve towards
    /// the same plateau, because `C` is in segments.
    fn on_event(&mut self, event: &StageEvent, path: &Path) {
        match (*event, self.epoch) {
            (StageEvent::Idle { .. }, _) => self.paused = true,
            (StageEvent::Mss { now, window, .. }, Some(epoch)) => {
                let w_est = self.w_est;
                self.start(now, epoch.plateau, path.mss, window.cwnd);
                self.w_est = w_est.min(window.cwnd);
            }
            _ => {}
        }
    }
}

impl CongestionAvoidance for Cubic {
    /// If this algorithm has made no decrease just before, or after a timeout, the curve starts at its plateau (RFC
    /// 9438, sections 4.8 and 4.10). After a decrease it leads back to `W_max`.
    fn begin(&mut self, handoff: &Handoff, path: &Path, window: &mut Window) {
        match handoff.reason {
            Reason::Loss | Reason::Ecn | Reason::Idle => {}
            Reason::Timeout => self.w_max = window.cwnd,
            Reason::NoLoss | Reason::Asked => {
                self.w_max = window.cwnd;
                self.cwnd_prior = window.cwnd;
            }
        }
        self.start(handoff.now, self.w_max, path.mss, window.cwnd);
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        if !ack.cwnd_limited {
            self.paused = true;
        }
        if grow == Bytes::ZERO {
            return AvoidanceStep::Stay;
        }
        let Some(epoch) = self.advance(ack.now) else {
            return AvoidanceStep::Stay;
        };
        // W_est grows by alpha segments per window acknowledged (RFC 9438, section 4.3).
        let share = (grow.as_f64() / window.cwnd).min(1.0);
        self.w_est += self.alpha() * path.mss.as_f64() * share;
        let t = ack.now.since(epoch.start).as_secs_f64();
        // Reno-friendly region: the curve is below W_est (RFC 9438, section 4.3).
        if self.curve(&epoch, t, path.mss) < self.w_est {
            window.cwnd = window.cwnd.max(self.w_est);
        } else {
            // Concave or convex region: aim at the curve one RTT ahead (RFC 9438, sections 4.4 and 4.5).
            let ahead = t + path.srtt.unwrap_or(Span::ZERO).as_secs_f64();
            let target = self.curve(&epoch, ahead, path.mss).clamp(window.cwnd, MAX_TARGET * window.cwnd);
            window.cwnd += (target - window.cwnd) * share;
        }
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        let fast = self.config.fast_convergence && event.cwnd < self.w_max;
        self.w_max = if fast { event.cwnd * (1.0 + self.config.beta) / 2.0 } else { event.cwnd };
        self.cwnd_prior = event.cwnd;
        self.epoch = None;
        let keep = if event.signal == Signal::Ecn { self.config.ecn_beta } else { self.config.beta };
        Target::multiplicative(event, keep, path.mss)
    }
}

#[cfg(test)]
mod tests;
