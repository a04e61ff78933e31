//! RC3 (Mittal, Sherry, Ratnasamy, Shenker, NSDI 2014): the window behaves as usual, and data beyond it is sent from
//! the end of the send buffer backwards, at priorities so low that other flows lose nothing.

use longhaul_cc::compose::{DSCP_OPTION, Opening, Overlay, Stage, StageEvent, Startup, Step, Window};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Demands, Granted, Levels, NeedError, Needs, Path, ProbeKind, ProbePlan, SegmentKind, Sent, update};
use longhaul_units::{Bytes, Rate, Span, Time};

/// Registry entry of RC3. For controlled environments only: networks without lower priorities forward its segments like
/// any other (RFC 8622, section 4), where RC3 exceeds any window.
pub(crate) static ENTRY: Entry = Entry::startup("rc3", |values| Box::new(Rc3::from_values(values)))
    .described(
        "sends data beyond the window at low priority, from the end backwards",
        "Mittal, Sherry, Ratnasamy, Shenker, NSDI 2014",
    )
    .with_options(Rc3::OPTIONS)
    .tested_in(&[
        "rc3+new-reno",
        "rc3+cubic",
        "rc3(pace=line,levels=4)+slow-start(iw=4)+cubic",
        "rc3+new-reno+rfc6675",
    ]);

const SAMPLE: u64 = 16;
const FIRST_SAMPLE: u64 = 4;
/// Factor on the arrival rate, which lets the sender detect capacity that other flows release.
const GAIN: f64 = 1.1;

longhaul_cc::options! {
    pub(crate) struct Rc3 {
        rate: Rate [|megabits: u64| Rate::from_bits_per_sec(megabits.saturating_mul(1_000_000))] =
            OptionSpec::int("rate", 1, 100_000, 1000, "maximum rate of the low-priority loop, Mb/s"),
        /// Whether the loop sends at the rate at which its segments arrive. Otherwise, it sends at `rate`, as in the
        /// paper.
        by_arrivals: bool [|pace: &str| pace == "arrivals"] = OptionSpec::choice(
            "pace", &["arrivals", "line"],
            "pacing: at the arrival rate, or at the maximum rate",
        ),
        burst: u32 =
            OptionSpec::int("burst", 1, 1 << 16, 256, "segments at the maximum rate before the first arrival is reported"),
        budget: u32 = OptionSpec::int(
            "budget", 0, u32::MAX as u64, u32::MAX as u64,
            "maximum segments per connection sent by the loop",
        ),
        levels: u8 = OptionSpec::int("levels", 1, 4, 1, "number of low priorities, for networks that have them"),
        slots: u32 = OptionSpec::int("slots", 1, 1 << 16, 4, "segments of the first priority, in tenths"),
        dscp: u8 = DSCP_OPTION,
        granted: bool => false,
        arrivals: Arrivals => Arrivals::default(),
        mss: Bytes => Bytes(1),
        /// Number of segments sent by the loop, and how many of them were sent before this plan.
        sent: u32 => 0,
        before: u32 => 0,
        id: u32 => 0,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Arrivals {
    /// Start of the sample; bytes that arrived at this time are not counted.
    since: Option<Time>,
    last: Time,
    bytes: Bytes,
    /// The two newest samples. A pause between two flights affects only one of them.
    samples: [Option<Rate>; 2],
}

impl Arrivals {
    fn on_arrival(&mut self, at: Time, bytes: Bytes, mss: Bytes) {
        let Some(since) = self.since else {
            (self.since, self.last) = (Some(at), at);
            return;
        };
        self.bytes += bytes;
        self.last = self.last.max(at);
        let least = if self.samples[0].is_none() { FIRST_SAMPLE } else { SAMPLE };
        if self.bytes >= mss * least && self.last > since {
            let rate = Rate::from_bytes_over(self.bytes, self.last.since(since));
            *self = Self {
                since: Some(self.last),
                last: self.last,
                bytes: Bytes::ZERO,
                samples: [Some(rate), self.samples[0]],
            };
        }
    }

    fn rate(&self) -> Option<Rate> {
        self.samples.into_iter().flatten().max()
    }
}

impl Rc3 {
    fn loop_rate(&self) -> Rate {
        let seen = self.arrivals.rate().filter(|_| self.by_arrivals);
        seen.map_or(self.rate, |rate| rate.mul_f64(GAIN).min(self.rate)).max(Rate::from_bytes_per_sec(1))
    }

    /// Returns the number of segments that this plan may send in total.
    fn segments(&self) -> u32 {
        let left = self.budget.saturating_sub(self.before);
        let blind = self.by_arrivals && self.arrivals.rate().is_none();
        if blind { left.min(self.burst) } else { left }
    }
}

impl Stage for Rc3 {
    fn needs(&self) -> Needs {
        let preferred = update!(Demands { probes: true, whole_window: true, ..Demands::default() });
        update!(Needs { preferred, ..Needs::default() })
    }

    /// RC3 is not used with peers that do not support SACK or timestamps.
    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        (self.granted, self.mss) = (granted.probes, path.mss);
        Ok(())
    }

    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        self.mss = path.mss;
        if sent.kind == SegmentKind::Probe {
            self.sent = self.sent.saturating_add(1);
        }
    }

    fn on_event(&mut self, event: &StageEvent, path: &Path) {
        if let StageEvent::Ahead { at, bytes } = *event {
            self.mss = path.mss;
            self.arrivals.on_arrival(at, bytes, path.mss);
        }
    }

    fn overlay(&self) -> Overlay {
        let kind = ProbeKind::FromTail(Levels::new(self.slots, self.levels));
        let mut plan = ProbePlan::new(self.id, kind, self.segments());
        plan.gap = self.loop_rate().time_for(self.mss).max(Span::from_nanos(1));
        plan.dscp = self.dscp;
        update!(Overlay { background: self.granted.then_some(plan), ..Overlay::default() })
    }
}

impl Startup for Rc3 {
    /// The slow-start variant controls the window from the beginning. After an idle period or a timeout, earlier
    /// measurements of the path are discarded.
    fn begin(&mut self, _opening: Opening, _now: Time, _path: &Path, _window: &mut Window) -> Step {
        self.arrivals = Arrivals::default();
        self.before = self.sent;
        self.id = self.id.wrapping_add(1);
        Step::Done
    }
}

#[cfg(test)]
mod tests;
