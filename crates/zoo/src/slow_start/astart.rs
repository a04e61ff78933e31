//! Adaptive Start (Astart) and Agile Probing: slow start with a threshold that follows the eligible rate estimate
//! (ERE).

use longhaul_cc::compose::{
    AckLimit, IW_OPTION, L_OPTION, Overlay, Reason, SlowStart, Stage, Step, Window, additive, raise,
};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Episode, Pace, Path, Sent, initial_window, update};
use longhaul_units::{Bytes, Rate, Span};

use crate::estimate::EligibleRate;

pub(crate) static ENTRY: Entry = Entry::slow_start("astart", |values| Box::new(Astart::from_values(values)))
    .described(
        "slow start up to eligible rate x minimum RTT, then one segment per RTT, until a loss",
        "Wang, Pau, Yamada, Sanadidi, Gerla, TCP startup performance in large bandwidth delay networks, Infocom 2004",
    )
    .with_options(Astart::OPTIONS)
    .tested_in(&["abse", "astart(iw=1,l=1,train=1)+cubic"])
    .internet_safe();

pub(crate) static AGILE: Entry =
    Entry::slow_start("agile-probing", |values| Box::new(Astart { agile: true, ..Astart::from_values(values) }))
        .described(
            "Adaptive Start that congestion avoidance can request again; used with abse(pncd=on)",
            "Wang, Yamada, Sanadidi, Gerla, TCP with sender-side intelligence, JSAC 23(2), 2005",
        )
        .with_options(Astart::OPTIONS)
        .tested_in(&["tcpw-a", "agile-probing(n=0,train=10)+abse(pncd=on,expected=0.3)"])
        .internet_safe();

longhaul_cc::options! {
    /// Slow start that sets its own threshold.
    ///
    /// Each ACK raises the threshold to the window that the eligible rate fills, `ERE * RTTmin`; the threshold is never
    /// lowered. Below the threshold, the window grows by the bytes acknowledged; above it, by one segment per round
    /// trip. Short exponential and linear phases therefore alternate until congestion ends slow start. After a loss,
    /// for which congestion avoidance sets the threshold, this is standard slow start.
    pub(crate) struct Astart {
        initial_segments: u32 = IW_OPTION,
        limit: AckLimit [AckLimit::rfc3465] = L_OPTION,
        train: f64 = OptionSpec::float(
            "train", 1.0, 1000.0, 8.0,
            "pacing rate of the measured trains in windows per RTT",
        ),
        estimate: EligibleRate,
        /// Whether the threshold also adapts when congestion avoidance requests slow start (Agile Probing).
        agile: bool => false,
        /// Whether the threshold adapts. It does not in slow start up to a threshold that a loss left.
        adapts: bool => true,
        /// Whether anything was acknowledged, including under a start-up scheme.
        acked: bool => false,
        pace: Option<Pace> => None,
    }
}

impl Astart {
    fn pace_train(&mut self, path: &Path, window: &Window) {
        self.pace = path.srtt.and_then(|srtt| pace(self.train * window.cwnd, srtt));
    }
}

impl Stage for Astart {
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        self.acked = true;
        if matches!(ack.episode, Episode::Enter) || ack.ecn_echo {
            self.adapts = false;
        }
        if self.adapts {
            self.estimate.observe(ack, path.latest_rtt);
        }
        true
    }

    fn on_sent(&mut self, sent: &Sent, _path: &Path) {
        self.estimate.on_sent(sent);
    }

    fn overlay(&self) -> Overlay {
        update!(Overlay { pace: self.pace, ..Overlay::default() })
    }

    fn phase(&self) -> &'static str {
        if self.adapts { "adaptive-start" } else { "slow-start" }
    }
}

impl SlowStart for Astart {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.initial_segments)
    }

    fn begin(&mut self, reason: Reason, path: &Path, window: &Window) {
        self.adapts = match reason {
            Reason::NoLoss | Reason::Timeout => true,
            Reason::Asked => self.agile,
            _ => false,
        };
        self.pace = None;
        if self.adapts {
            self.estimate.restart();
        }
        // If the transport paced the first window over half a round trip, the estimator would measure only that rate,
        // and the ACKs would keep the spacing. A window set by a start-up scheme does not count as a first window.
        let is_first = reason != Reason::NoLoss || !self.acked;
        if self.adapts && is_first && path.paced {
            self.pace_train(path, window);
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step {
        let bytes = self.limit.apply(grow, ack, path);
        if !self.adapts {
            return raise(window, bytes);
        }
        self.pace_train(path, window);
        // An infinite threshold is above every estimate and could not adapt to them. It starts from the initial window.
        if window.ssthresh.is_infinite() {
            window.ssthresh = self.initial_window(path).as_f64();
        }
        window.ssthresh = window.ssthresh.max(self.estimate.fills());
        if window.below_threshold() {
            raise(window, bytes);
        } else {
            additive(window, 1.0, Bytes::from_f64(bytes), path.mss);
        }
        Step::Stay
    }
}

fn pace(bytes: f64, srtt: Span) -> Option<Pace> {
    let rate = Rate::from_bytes_over(Bytes::from_f64(bytes), srtt);
    (rate > Rate::ZERO && !srtt.is_zero()).then_some(Pace::new(rate))
}

#[cfg(test)]
mod tests;
