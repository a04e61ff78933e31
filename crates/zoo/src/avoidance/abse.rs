//! TCP Westwood ABSE: a loss sets the window by an estimate that adapts to congestion. PNCD (persistent
//! non-congestion detection) resumes slow start after a long time without congestion.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, Handoff, Stage, Target, Window, additive,
};
use longhaul_cc::registry::{Entry, OptionSpec, Rule, Slot, Value};
use longhaul_cc::{Ack, Estimate, Granted, NeedError, Path};
use longhaul_units::{Bytes, Span};

use super::westwood::{ECN_BETA, decrease};
use crate::estimate::EligibleRate;

/// An RTT more than 1/8 above the minimum indicates a queue (RFC 9406, section 4.2).
const QUEUED: u64 = 8;

/// Options that have no effect without `pncd`.
const DETECTING: &[Rule] = &[Rule::With("pncd", Value::Flag(true))];

pub(crate) static ENTRY: Entry = Entry::avoidance("abse", |values| Box::new(Abse::from_values(values)))
    .described(
        "Westwood with an adaptive estimate between the bandwidth and the achieved rate",
        "Wang, Valla, Sanadidi, Gerla, Adaptive bandwidth share estimation in TCP Westwood, Globecom 2002",
    )
    .with_options(Abse::OPTIONS)
    .tested_in(&[
        "abse",
        "tcpw-a",
        "abse(n=0,epsilon=0,floor=100000)",
        "agile-probing+abse(pncd=on,expected=0,beta=0,recent=1)",
        "agile-probing+abse(pncd=on,slack=0,quiet=0,rtt-min-window=1)",
    ])
    .internet_safe()
    .keeping_at_losses();

longhaul_cc::options! {
    /// ABSE congestion avoidance.
    ///
    /// If the transport paces, a loss that occurs with a queue leaves at most the window that the filtered throughput
    /// fills. Samples shorter than a round trip see the pacing rate, which exceeds the window's own rate by a quarter,
    /// or the trains of a start-up scheme. That raises the estimate by about as much as the queue lowers it, so that
    /// the window would not decrease at all.
    pub(crate) struct Abse {
        estimate: EligibleRate,
        pncd: bool = OptionSpec::flag("pncd", false, "request Adaptive Start when there has been no congestion for long")
            .ruled(&[Rule::OnlyWith(Slot::SlowStart, "agile-probing")]),
        detection: Pncd,
        ecn_beta: f64 = ECN_BETA,
        paced: bool => false,
    }
}

impl Stage for Abse {
    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        self.paced = granted.spreads;
        Ok(())
    }

    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        self.estimate.observe(ack, path.latest_rtt);
        true
    }

    fn estimates(&self, tell: &mut dyn FnMut(Estimate)) {
        let (rate, throughput) = (self.estimate.rate(), self.estimate.throughput());
        [Estimate::rate("be", rate), Estimate::rate("throughput", throughput)].into_iter().flatten().for_each(tell);
    }
}

impl CongestionAvoidance for Abse {
    fn begin(&mut self, _handoff: &Handoff, _path: &Path, _window: &mut Window) {
        self.detection.begin();
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        additive(window, 1.0, grow, path.mss);
        let filled = self.estimate.throughput() * path.min_rtt.map_or(0.0, Span::as_secs_f64);
        let found = self.pncd && self.detection.on_ack(ack, filled, window, path.mss);
        if found { AvoidanceStep::Grow } else { AvoidanceStep::Stay }
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        let queued = path.latest_rtt.zip(path.min_rtt).is_some_and(|(rtt, least)| rtt > least + least / QUEUED);
        let most = if self.paced && queued { self.estimate.achieved() } else { f64::INFINITY };
        decrease(self.estimate.fills().min(most), self.ecn_beta, event, path.mss)
    }
}

longhaul_cc::options! {
    /// Persistent non-congestion detection (Wang, Yamada, Sanadidi, Gerla, TCP with sender-side intelligence to handle
    /// dynamic, large, leaky pipes, JSAC 23(2), 2005; form and constants are those of an implementation).
    ///
    /// Without congestion the achieved rate follows the window up. It is compared with a bound between the rates that
    /// belong to the threshold and to the current window, all expressed as windows over the minimum RTT:
    ///
    /// ```text
    /// RE RTTmin > expected (cwnd - slack) + (1 - expected) ssthresh
    /// ```
    ///
    /// Segments of ACKs for which the inequality holds increase a count, others decrease it. If the count exceeds a
    /// window, there is persistent non-congestion.
    pub(crate) struct Pncd {
        expected: f64 =
            OptionSpec::float("expected", 0.0, 1.0, 0.6, "weight of the current expected rate in PNCD's comparison")
                .ruled(DETECTING),
        slack: f64 = OptionSpec::float("slack", 0.0, 1000.0, 1.5, "segments by which PNCD's expectation is below the window")
            .ruled(DETECTING),
        quiet_rounds: u32 =
            OptionSpec::int("quiet", 0, 1000, 2, "RTTs after a decrease during which PNCD is inactive")
                .ruled(DETECTING),
        rounds: u32 => 0,
        /// Count in segments.
        count: f64 => 0.0,
    }
}

impl Pncd {
    pub(crate) const fn begin(&mut self) {
        (self.rounds, self.count) = (0, 0.0);
    }

    /// Processes an ACK; `filled` is the achieved rate times the minimum RTT, in bytes. Returns true once when
    /// persistent non-congestion is detected.
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>, filled: f64, window: &Window, mss: Bytes) -> bool {
        self.rounds = self.rounds.saturating_add(u32::from(ack.round_start));
        if self.rounds < self.quiet_rounds {
            self.count = 0.0;
            return false;
        }
        let Self { expected, slack, .. } = *self;
        let now = window.cwnd - slack * mss.as_f64();
        let bound = expected * now + (1.0 - expected) * window.ssthresh.min(window.cwnd);
        let segments = ack.delivered.segments(mss);
        let step = if ack.cwnd_limited && filled > bound { segments } else { -segments };
        self.count = (self.count + step).max(0.0);
        let found = self.count > window.cwnd / mss.as_f64();
        if found {
            self.begin();
        }
        found
    }
}

#[cfg(test)]
mod tests;
