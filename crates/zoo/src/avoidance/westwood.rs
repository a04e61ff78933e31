//! TCP Westwood and its variants: a loss sets the window to the measured bandwidth-delay product instead of half.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, Handoff, Reason, Signal, Stage, Target, Window, additive,
};
use longhaul_cc::estimate::WindowedMin;
use longhaul_cc::internal::expiry;
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Estimate, Path, Quantity};
use longhaul_units::{Bytes, Span};

use crate::estimate::{Bandwidth, BandwidthStart, RTT_MIN_WINDOW, RoundRate};

/// Fraction of the window kept while there is no estimate, as in NewReno.
const BLIND: f64 = 0.5;

pub(super) const ECN_BETA: OptionSpec =
    OptionSpec::float("ecn-beta", 0.1, 0.95, 0.5, "maximum fraction of the window kept on an ECN mark");
/// Fraction of RE that is kept per RTT.
const KEEP: f64 = 0.9;
/// Time constant of the bandwidth filter.
const TAU: Span = Span::from_secs(1);
/// Window over RE x minimum RTT above which Westwood CRB assumes congestion.
const THETA: f64 = 1.4;

pub(crate) static ENTRY: Entry = Entry::avoidance("westwood", |values| {
    let Options { start, common } = Options::from_values(values);
    let eligible = Eligible { be: Some(Bandwidth::new(TAU, start)), rate: None };
    Box::new(Westwood::new(eligible, common, RttChoice::Latest))
})
.described(
    "NewReno's increase; a loss sets the window to bandwidth estimate x minimum RTT",
    "Casetti, Gerla, Mascolo, Sanadidi, Wang, TCP Westwood, MobiCom 2001",
)
.with_options(Options::OPTIONS)
.tested_in(&[
    "westwood",
    "westwood(from=zero,rtt-min-window=1)",
    "swift-start+westwood",
    "swift-start-hardened(iw=4,follow=off)+westwood",
    "cached-start+slow-start+westwood",
    "careful-resume+slow-start+westwood",
])
.internet_safe()
.keeping_at_losses();

pub(crate) static RE: Entry = Entry::avoidance("westwood-re", |values| {
    let ReOptions { from_rise, common } = ReOptions::from_values(values);
    let eligible = Eligible { be: None, rate: Some(achieved(from_rise)) };
    Box::new(Westwood::new(eligible, common, RttChoice::Latest))
})
.described(
    "Westwood with the rate achieved over one RTT, which ACK compression does not inflate",
    "Wang, Valla, Sanadidi, Ng, Gerla, Efficiency/Friendliness Tradeoffs in TCP Westwood, ISCC 2002",
)
.with_options(ReOptions::OPTIONS)
.tested_in(&["westwood-re", "westwood-re(from=round)"])
.internet_safe()
.keeping_at_losses();

pub(crate) static CRB: Entry = Entry::avoidance("westwood-crb", |values| {
    let Options { start, common } = Options::from_values(values);
    let (be, re) = (Bandwidth::new(TAU, start), achieved(start == BandwidthStart::Rise));
    Box::new(Westwood::new(Eligible { be: Some(be), rate: Some(re) }, common, RttChoice::Latest))
})
.described(
    "Westwood with the rate estimate if the window suggests congestion, else the bandwidth estimate",
    "Wang, Valla, Sanadidi, Ng, Gerla, Efficiency/Friendliness Tradeoffs in TCP Westwood, ISCC 2002",
)
.with_options(Options::OPTIONS)
.tested_in(&["westwood-crb", "westwood-crb(from=zero)"])
.internet_safe()
.keeping_at_losses();

pub(crate) static PLUS: Entry =
    Entry::avoidance("westwood-plus", |values| Box::new(PlusOptions::from_values(values).build()))
        .described(
            "Westwood with one bandwidth sample per RTT, filtered twice",
            "Grieco, Mascolo, CCR 34(2), 2004; Linux",
        )
        .with_options(PlusOptions::OPTIONS)
        .tested_in(&["westwood-plus", "westwood-plus(rtt=smoothed,rtt-min-window=1)"])
        .internet_safe()
        .keeping_at_losses();

longhaul_cc::options! {
    pub(super) struct Common {
        rtt_min_window: Span [expiry] = RTT_MIN_WINDOW,
        ecn_beta: f64 = ECN_BETA,
    }
}

longhaul_cc::options! {
    struct Options {
        start: BandwidthStart = OptionSpec::choice(
            "from", BandwidthStart::NAMES,
            "initial value of the bandwidth filter: slow start's last rate, that of its first RTT, or zero",
        ),
        common: Common,
    }
}

longhaul_cc::options! {
    struct ReOptions {
        from_rise: bool [|from: &str| from == "rise"] = OptionSpec::choice(
            "from", &["rise", "round"],
            "initial value of the average: slow start's last rate or that of its first RTT",
        ),
        common: Common,
    }
}

longhaul_cc::options! {
    pub(super) struct PlusOptions {
        rtt: RttChoice =
            OptionSpec::choice("rtt", RttChoice::NAMES, "RTT used for sample durations and the minimum RTT"),
        common: Common,
    }
}

impl PlusOptions {
    pub(super) fn build(self) -> Westwood {
        Westwood::new(Eligible { be: None, rate: Some(RoundRate::plus()) }, self.common, self.rtt)
    }
}

/// Returns the estimator of RE, which starts from the last rate of slow start or as after congestion.
fn achieved(from_rise: bool) -> RoundRate {
    let mut re = RoundRate::achieved(KEEP);
    if !from_rise {
        re.settle();
    }
    re
}

/// Rate estimate that sets the window after a loss: BE, as in the first publication of Westwood, RE or Westwood+'s, or BE
/// and RE as in Westwood CRB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Eligible {
    pub(crate) be: Option<Bandwidth>,
    pub(crate) rate: Option<RoundRate>,
}

impl Eligible {
    fn rates(&self) -> [Option<Estimate>; 2] {
        let name = |rate: &RoundRate| if rate.is_plus() { "be" } else { "re" };
        let be = self.be.and_then(|be| Estimate::rate("be", be.rate()));
        [be, self.rate.and_then(|rate| Estimate::rate(name(&rate), rate.rate()))]
    }

    fn on_ack(&mut self, ack: &Ack<'_>, rtt: Option<Span>) {
        self.be.iter_mut().for_each(|be| be.observe(ack, rtt));
        self.rate.iter_mut().for_each(|rate| rate.observe(ack, rtt));
    }

    /// Ends the start-up of the estimates at the first congestion event.
    fn settle(&mut self) {
        self.be.iter_mut().for_each(Bandwidth::settle);
        self.rate.iter_mut().for_each(RoundRate::settle);
    }

    /// Returns the window in bytes that fills the path without a queue, for a congestion window of `cwnd` bytes and a
    /// minimum RTT of `rtt_min` seconds; zero if there is no estimate. If both BE and RE are known, RE is used if the
    /// window suggests congestion.
    fn window(&self, cwnd: f64, rtt_min: f64) -> f64 {
        let achieved = self.rate.map(|rate| rate.rate() * rtt_min);
        let be = self.be.map(|be| be.rate() * rtt_min);
        achieved.filter(|achieved| be.is_none() || cwnd > THETA * achieved).or(be).unwrap_or(0.0)
    }

    /// Returns whether a timeout resets the minimum RTT, because the path may have changed (Westwood+ in Linux).
    fn relearns(&self) -> bool {
        self.rate.is_some_and(|rate| rate.is_plus())
    }
}

longhaul_cc::options! {
    /// RTT that sets the length of a sample and from which the minimum is taken.
    pub(crate) enum RttChoice {
        /// The last sample, as in later versions of Linux.
        Latest = "latest",
        /// The smoothed RTT, as in the first version in Linux 2.6.
        Smoothed = "smoothed",
    }
}

/// Westwood congestion avoidance with one of its estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Westwood {
    eligible: Eligible,
    common: Common,
    rtt: RttChoice,
    rtt_min: WindowedMin,
}

impl Westwood {
    pub(super) const fn new(eligible: Eligible, common: Common, rtt: RttChoice) -> Self {
        Self { eligible, common, rtt, rtt_min: WindowedMin::new(common.rtt_min_window) }
    }

    const fn rtt_of(&self, path: &Path) -> Option<Span> {
        match self.rtt {
            RttChoice::Latest => path.latest_rtt,
            RttChoice::Smoothed => path.srtt,
        }
    }
}

/// Returns the decrease to a window of `eligible` bytes, which the estimate fills, or to half if there is no estimate
/// yet. An ECN mark always indicates congestion, so at most `ecn_beta` of the base is kept even if the estimate exceeds
/// it (RFC 3168, section 5).
pub(super) fn decrease(eligible: f64, ecn_beta: f64, event: &CongestionEvent, mss: Bytes) -> Target {
    let eligible = if eligible > 0.0 { eligible } else { BLIND * event.base };
    let most = if event.signal == Signal::Ecn { ecn_beta * event.base } else { f64::INFINITY };
    keeping(eligible.min(most), event, mss)
}

/// Returns the decrease to `window` bytes, or a smaller one if the loss is partly attributed to other causes.
pub(super) fn keeping(window: f64, event: &CongestionEvent, mss: Bytes) -> Target {
    let severity = event.cause.severity.clamp(0.0, 1.0);
    let window = window + (1.0 - severity) * (event.cwnd - window).max(0.0);
    let target = Target::floored(window, event.signal, mss);
    Target { cwnd: target.cwnd.min(event.cwnd), ..target }
}

impl Stage for Westwood {
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        let rtt = self.rtt_of(path);
        let sample = ack.rtt.map(|sample| sample.rtt);
        if let Some(sample) = if self.rtt == RttChoice::Latest { sample } else { sample.and(rtt) } {
            self.rtt_min.update(ack.now, sample);
        }
        self.eligible.on_ack(ack, rtt);
        true
    }

    fn estimates(&self, tell: &mut dyn FnMut(Estimate)) {
        self.eligible.rates().into_iter().flatten().for_each(&mut *tell);
        if let Some(rtt) = self.rtt_min.get() {
            tell(Estimate::new("rtt-min", Quantity::Span(rtt)));
        }
    }
}

impl CongestionAvoidance for Westwood {
    fn begin(&mut self, handoff: &Handoff, path: &Path, _window: &mut Window) {
        if handoff.reason == Reason::Timeout && self.eligible.relearns() {
            self.rtt_min = WindowedMin::new(self.common.rtt_min_window);
            if let Some(rtt) = self.rtt_of(path) {
                self.rtt_min.update(handoff.now, rtt);
            }
        }
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        additive(window, 1.0, grow, path.mss);
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        self.eligible.settle();
        let rtt_min = self.rtt_min.get().map_or(0.0, Span::as_secs_f64);
        decrease(self.eligible.window(event.cwnd, rtt_min), self.common.ecn_beta, event, path.mss)
    }
}

#[cfg(test)]
mod tests;
