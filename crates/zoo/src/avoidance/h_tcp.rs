//! H-TCP (Leith, Shorten): the increase grows with the time since congestion, and the decrease with the queue.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Handoff, Stage, StageEvent, Target, Window, additive,
};
use longhaul_cc::registry::{Entry, OptionSpec, Rule, Value};
use longhaul_cc::{Ack, Episode, Path};
use longhaul_units::{Bytes, Span, Time};

use crate::estimate::round_rate::Sampler;

/// Time after a congestion event during which NewReno is used.
const DELTA_LOW: Span = Span::from_secs(1);
/// Smallest and largest fraction of the window kept after a loss.
const BETA: (f64, f64) = (0.5, 0.8);
/// RTT in seconds at which scaling by the RTT has no effect, and the range of the scale (Linux).
const SCALE_RTT: f64 = 0.1;
const SCALE_RANGE: (f64, f64) = (0.1, 2.0);

pub(crate) static ENTRY: Entry = Entry::avoidance("h-tcp", |values| Box::new(HTcp::from_values(values)))
    .described(
        "increases faster as time since congestion passes; keeps minimum RTT over maximum RTT",
        "Leith, Shorten, H-TCP, PFLDnet 2004; draft-leith-tcp-htcp; Linux",
    )
    .with_options(HTcp::OPTIONS)
    .tested_in(&["h-tcp", "h-tcp(rate-change=0,memory=0)", "h-tcp(adaptive-backoff=off,rtt-scaling=on,ecn-beta=0.8)"]);

longhaul_cc::options! {
    pub(crate) struct HTcp {
        adaptive_backoff: bool =
            OptionSpec::flag("adaptive-backoff", true, "keep minimum RTT over maximum RTT instead of half"),
        rate_change: f64 =
            OptionSpec::float("rate-change", 0.0, 10.0, 0.2, "relative change of throughput above which half is kept")
                .ruled(&[Rule::With("adaptive-backoff", Value::Flag(true))]),
        /// Fraction of the difference between the largest and the minimum RTT that is kept after a congestion event, 0
        /// to 1.
        memory: f64 = OptionSpec::float(
            "memory", 0.0, 1.0, 0.95,
            "weight of the old maximum queueing delay after a congestion event",
        ).ruled(&[Rule::With("adaptive-backoff", Value::Flag(true))]),
        rtt_scaling: bool = OptionSpec::flag("rtt-scaling", false, "scale the increase by the RTT"),
        /// Time of the last congestion event, moved forward by the time in which the window did not limit the sender.
        epoch: Option<Time> => None,
        updated: Time => Time::ZERO,
        paused: bool => false,
        beta: f64 => BETA.0,
        rtt_min: Option<Span> => None,
        /// Largest RTT in seconds.
        rtt_max: f64 => 0.0,
        sampler: Sampler => Sampler::new(Span::ZERO),
        /// Highest throughput since the last congestion event, and during the previous epoch, in bytes/s; zero if
        /// unknown.
        rate: f64 => 0.0,
        old_rate: f64 => 0.0,
        _ = ECN_BETA,
    }
}

/// Returns the increase in segments per round trip, `since` after the last congestion event, before the adjustment.
fn increase(since: Span) -> f64 {
    let late = (since - DELTA_LOW).as_secs_f64();
    1.0 + 10.0 * late + (late / 2.0) * (late / 2.0)
}

impl HTcp {
    /// Returns the increase in segments per round trip at `now`. It is adjusted to the decrease so that it equals
    /// NewReno's one segment if beta is 1/2 and the last congestion event was less than a second ago.
    fn alpha(&mut self, now: Time) -> f64 {
        let epoch = self.epoch.get_or_insert(now);
        if self.paused {
            *epoch += now.since(self.updated);
            self.paused = false;
        }
        self.updated = now;
        let alpha = 2.0 * (1.0 - self.beta) * increase(now.since(*epoch));
        match self.rtt_min.filter(|_| self.rtt_scaling) {
            Some(rtt) => alpha * (rtt.as_secs_f64() / SCALE_RTT).clamp(SCALE_RANGE.0, SCALE_RANGE.1),
            None => alpha,
        }
    }

    fn backoff(&self) -> f64 {
        let changed = (self.rate - self.old_rate).abs() > self.rate_change * self.old_rate;
        match self.rtt_min {
            Some(rtt_min) if self.adaptive_backoff && !changed && self.rtt_max > 0.0 => {
                (rtt_min.as_secs_f64() / self.rtt_max).clamp(BETA.0, BETA.1)
            }
            _ => BETA.0,
        }
    }
}

impl Stage for HTcp {
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        if let Some(sample) = ack.rtt {
            self.rtt_min = Some(self.rtt_min.map_or(sample.rtt, |min| min.min(sample.rtt)));
        }
        if ack.episode != Episode::None {
            return true; // data delivered during recovery was sent under the old window
        }
        // SRTT lags by about eight round trips (RFC 7323, appendix G) and would underestimate a queue that fills
        // faster.
        if let Some(sample) = ack.rtt {
            self.rtt_max = self.rtt_max.max(sample.rtt.as_secs_f64());
        }
        if let Some(rate) = self.sampler.on_ack(ack.now, ack.delivered, path.latest_rtt) {
            self.rate = self.rate.max(rate);
        }
        true
    }

    fn on_event(&mut self, event: &StageEvent, _path: &Path) {
        self.paused |= matches!(event, StageEvent::Idle { .. });
    }
}

impl CongestionAvoidance for HTcp {
    fn begin(&mut self, handoff: &Handoff, _path: &Path, _window: &mut Window) {
        self.epoch.get_or_insert(handoff.now);
        self.sampler = Sampler::new(Span::ZERO);
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        if !ack.cwnd_limited {
            self.paused = true;
        }
        if grow > Bytes::ZERO {
            let alpha = self.alpha(ack.now);
            additive(window, alpha, grow, path.mss);
        }
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        self.beta = self.backoff();
        (self.old_rate, self.rate) = (self.rate, 0.0);
        if let Some(rtt_min) = self.rtt_min {
            let least = rtt_min.as_secs_f64();
            self.rtt_max = least + self.memory * (self.rtt_max - least).max(0.0);
        }
        (self.epoch, self.updated, self.paused) = (Some(event.now), event.now, false);
        Target::multiplicative(event, self.beta, path.mss)
    }
}

#[cfg(test)]
mod tests;
