//! Start-up schemes of TCP versions for satellite links: one data segment is sent, then low-priority copies of it for a
//! round trip; each acknowledged copy opens the window by one segment. Sudden Start of TCP-Peach (Akyildiz, Morabito,
//! Palazzo, ToN 9(3), 2001), Jump Start of TCP-Peach+ (Akyildiz, Zhang, Fang, IEEE Comm. Letters 6(7), 2002) and Speedy
//! Start of TCP-Swift (Leung, Yeung, ISCC 2004) differ in the segments that they copy. At the start of a connection,
//! they are identical, because there is only one segment.

use longhaul_cc::compose::{DSCP_OPTION, Opening, Overlay, Stage, Startup, Step, Window};
use longhaul_cc::registry::{Entry, OptionSpec, Values};
use longhaul_cc::{
    Ack, Demands, Episode, Granted, NeedError, Needs, Path, ProbeKind, ProbePlan, SegmentKind, Sent, update,
};
use longhaul_units::{Bytes, Span, Time};

/// Largest window that a SYN can carry, which is never scaled (RFC 7323, section 2.2).
const SYN_WINDOW: u64 = 0xffff;

pub(crate) static SUDDEN_START: Entry =
    Entry::startup("sudden-start", |values| Box::new(ProbingStart::of(ProbeKind::Dummy, "sudden-start", values)))
        .described(
            "TCP-Peach: sends dummy segments for one RTT; each one acknowledged opens the window by one segment",
            "Akyildiz, Morabito, Palazzo, ToN 9(3), 2001 (rules of ACKs reconstructed)",
        )
        .with_options(ProbingStart::OPTIONS)
        .tested_in(&["sudden-start+new-reno", "sudden-start+cubic", "sudden-start(then=slow-start)+westwood"])
        .internet_safe();

pub(crate) static PEACH_JUMP_START: Entry = Entry::startup("peach-jump-start", |values| {
    Box::new(ProbingStart::of(ProbeKind::Outstanding, "peach-jump-start", values))
})
.described(
    "TCP-Peach+: like sudden-start, with NIL segments that can fill holes",
    "Akyildiz, Zhang, Fang, IEEE Comm. Letters 6(7), 2002 (reconstructed)",
)
.with_options(ProbingStart::OPTIONS)
.tested_in(&["peach-jump-start+new-reno"])
.internet_safe();

pub(crate) static SPEEDY_START: Entry =
    Entry::startup("speedy-start", |values| Box::new(ProbingStart::of(ProbeKind::Outstanding, "speedy-start", values)))
        .described("TCP-Swift: like sudden-start, with copies of outstanding segments", "Leung, Yeung, ISCC 2004")
        .with_options(ProbingStart::OPTIONS)
        .tested_in(&[
            "speedy-start+new-reno",
            "speedy-start+cubic",
            "speedy-start+westwood",
            "speedy-start(timeout=slow-start)+hstcp",
        ])
        .internet_safe();

longhaul_cc::options! {
    /// One of the three start-up schemes.
    pub(crate) struct ProbingStart {
        /// Largest window that the probes may open, in segments: 64 in the simulations of the papers.
        max_probe: u32 = OptionSpec::int("max-probe", 1, 4096, 64, "maximum window that probes can open, segments"),
        /// Whether slow start follows the probes. In TCP-Peach and TCP-Swift, congestion avoidance follows.
        then_slow_start: bool [|then: &str| then == "slow-start"] =
            OptionSpec::choice("then", &["avoidance", "slow-start"], "stage that takes over the window"),
        /// Whether probes are also sent after a timeout, if the peer supports the probe echo; otherwise slow start
        /// follows as usual. The papers do not specify this case.
        after_timeout: bool [|timeout: &str| timeout == "probe"] = OptionSpec::choice(
            "timeout", &["probe", "slow-start"],
            "what opens the window after a retransmission timeout",
        ),
        dscp: u8 = DSCP_OPTION,
        name: &'static str => "",
        granted: bool => false,
        /// Whether copies of retransmitted data can be told from the retransmission, because ACKs name the probe.
        named: bool => false,
        phase: Phase => Phase::Idle,
        plan: ProbePlan => ProbePlan::new(0, ProbeKind::Dummy, 0),
        /// Probes of the plan that were acknowledged or lost.
        settled: u32 => 0,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    Idle,
    /// The first full-sized data segment was not sent yet.
    Armed {
        /// Bytes sent in smaller segments with nothing queued behind them. Copies of such segments would say nothing
        /// about full-sized segments.
        small: Bytes,
        /// Time from which the window may be raised for a full-sized segment, if this has not been done yet.
        since: Option<Time>,
    },
    /// Probes are sent, and their ACKs arrive.
    Probing {
        /// End of the period in which ACKs of probes count.
        until: Time,
    },
}

impl ProbingStart {
    /// Creates the start that sends copies of this kind, or dummies, with `name` as the name of its phase in logs.
    fn of(kind: ProbeKind, name: &'static str, values: &mut Values<'_>) -> Self {
        let mut start = Self { name, ..Self::from_values(values) };
        start.plan.prefer = [Some(kind), Some(ProbeKind::Dummy), None];
        start.plan.dscp = start.dscp;
        start
    }

    /// Returns the target window in segments: the peer's window, limited by `max_probe` (TCP-Swift, section III: tau
    /// is the RTT divided by the peer's window).
    fn goal(&self, path: &Path) -> u32 {
        let offered = if path.peer_window.0 < SYN_WINDOW { path.peer_window.0 / path.mss.0.max(1) } else { u64::MAX };
        offered.min(u64::from(self.max_probe)) as u32
    }

    /// Raises the number of probes, which is limited to the segments to send. An application may write more while
    /// probes are sent.
    fn raise_budget(&mut self, path: &Path) {
        let queued = path.queued.0.div_ceil(path.mss.0.max(1));
        let budget = u64::from(self.goal(path).saturating_sub(1)).min(queued) as u32;
        self.plan.segments = self.plan.segments.max(budget);
    }

    /// Starts probing after the first data segment was sent: one probe per `RTT / goal` from then on.
    fn probe(&mut self, now: Time, path: &Path) {
        let Some(rtt) = path.handshake_rtt.or(path.srtt) else { return };
        self.plan.segments = 0;
        self.raise_budget(path);
        self.plan.gap = rtt / u64::from(self.goal(path).max(1));
        self.plan.id = self.plan.id.wrapping_add(1);
        self.settled = 0;
        // The last probe is sent one gap before the first round trip ends, so its ACK arrives within the second round
        // trip. The additional quarter allows for queueing and slow hosts.
        self.phase = Phase::Probing { until: now + rtt * 2 + rtt / 4 };
    }

    /// Processes a data segment. An application may write a small header first, and much more shortly afterwards. A
    /// small segment with nothing queued behind it is therefore not copied, unless such segments exceed one segment in
    /// total.
    fn on_data(&mut self, sent: &Sent, small: Bytes, path: &Path) {
        let small = small + sent.bytes;
        if sent.bytes < path.mss && path.queued == Bytes::ZERO && small <= path.mss {
            // A tick has to be later than the event that requests it.
            let since = (sent.bytes > Bytes::ZERO).then(|| sent.now + Span::from_nanos(1));
            self.phase = Phase::Armed { small, since };
        } else {
            self.probe(sent.now, path);
        }
    }

    fn end(&mut self, window: &mut Window) -> Step {
        self.phase = Phase::Idle;
        if !self.then_slow_start {
            window.ssthresh = window.ssthresh.min(window.cwnd);
        }
        Step::Done
    }
}

impl Stage for ProbingStart {
    fn needs(&self) -> Needs {
        update!(Needs { preferred: update!(Demands { probes: true, ..Demands::default() }), ..Needs::default() })
    }

    /// Without probes, these schemes are not used and the slow-start variant begins.
    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        (self.granted, self.named) = (granted.probes, granted.probe_echo);
        Ok(())
    }

    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        match self.phase {
            Phase::Armed { small, .. } if sent.kind != SegmentKind::Probe => self.on_data(sent, small, path),
            Phase::Probing { .. } if sent.kind == SegmentKind::Probe => self.raise_budget(path),
            _ => {}
        }
    }

    fn next_tick(&self) -> Option<Time> {
        match self.phase {
            Phase::Probing { until } => Some(until),
            Phase::Armed { since, .. } => since,
            Phase::Idle => None,
        }
    }

    fn overlay(&self) -> Overlay {
        let probe = matches!(self.phase, Phase::Probing { .. }).then_some(self.plan);
        update!(Overlay { probe, ..Overlay::default() })
    }

    fn phase(&self) -> &'static str {
        self.name
    }
}

impl Startup for ProbingStart {
    fn begin(&mut self, opening: Opening, _now: Time, path: &Path, window: &mut Window) -> Step {
        self.phase = Phase::Idle;
        let wanted = match opening {
            Opening::Connection => true,
            // After a timeout, the data to copy is retransmitted data.
            Opening::Timeout => self.after_timeout && self.named,
            _ => false,
        };
        if !wanted || !self.granted || path.handshake_rtt.or(path.srtt).is_none() {
            return Step::Done;
        }
        self.phase = Phase::Armed { small: Bytes::ZERO, since: None };
        window.cwnd = path.mss.as_f64();
        Step::Stay
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        let opened = f64::from(ack.probes_acked) * path.mss.as_f64();
        let ceiling = f64::from(self.max_probe) * path.mss.as_f64();
        window.cwnd = (window.cwnd + opened).min(ceiling.max(window.cwnd));
        self.settled = self.settled.saturating_add(ack.probes_acked).saturating_add(ack.probes_lost);
        match self.phase {
            Phase::Armed { .. } => Step::Stay,
            // The threshold must not change during recovery.
            Phase::Probing { .. } if ack.episode == Episode::In => Step::Stay,
            Phase::Probing { until } if ack.now < until && self.settled < self.plan.segments => Step::Stay,
            Phase::Probing { .. } | Phase::Idle => self.end(window),
        }
    }

    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> Step {
        match self.phase {
            Phase::Armed { small, since: Some(_) } => {
                self.phase = Phase::Armed { small, since: None };
                window.cwnd = (path.mss + small).as_f64();
                Step::Stay
            }
            Phase::Probing { until } if until <= now => self.end(window),
            _ => Step::Stay,
        }
    }

    fn abort(&mut self) {
        self.phase = Phase::Idle;
    }
}

#[cfg(test)]
mod tests;
