//! LEDBAT++'s slow start (draft, section 4.3), which is slower over short paths and ends before the target is
//! reached.

use longhaul_units::{Bytes, Span};

use super::gauge::{DELAY, Gauge};
use super::{DelaySource, TARGET};
use crate::compose::{SlowStart, Stage, Step, Window};
use crate::describe::{Entry, OptionSpec};
use crate::slow_start::{AckLimit, L_OPTION};
use crate::{Ack, Needs, Path, initial_window};

/// RFC 6817, section 2.5: INIT_CWND.
const INITIAL_SEGMENTS: u64 = 2;
/// Fraction of the target at which the first slow start ends (draft, section 4.3).
const EXIT: f64 = 0.75;

pub(crate) static ENTRY: Entry =
    Entry::slow_start("ledbat-start", |values| Box::new(LedbatStart::new(Options::from_values(values))))
        .described(
            "slow start with LEDBAT++'s gain, until the queueing delay is 45 ms",
            "draft-irtf-iccrg-ledbat-plus-plus-06, section 4.3",
        )
        .with_options(Options::OPTIONS)
        .tested_in(&["ledbat-plus-plus", "ledbat-start(iw=10,l=1)+cubic", "ledbat-start(delay=auto)+new-reno"])
        .internet_safe();

crate::options! {
    pub(super) struct Options {
        initial_segments: u32 = OptionSpec::int("iw", 1, 10, INITIAL_SEGMENTS, "initial window in segments"),
        target: Span [Span::from_millis] = TARGET,
        limit: AckLimit [AckLimit::rfc3465] = L_OPTION,
        delay: DelaySource = DELAY,
    }
}

/// Slow start that multiplies the window by `1 + gain` per round trip, and ends at the threshold or when the queueing
/// delay reaches three quarters of the target.
#[derive(Clone, Debug)]
pub(crate) struct LedbatStart {
    options: Options,
    delays: Gauge,
}

impl LedbatStart {
    pub(super) fn new(options: Options) -> Self {
        Self { options, delays: Gauge::of(options.delay) }
    }
}

impl Stage for LedbatStart {
    fn needs(&self) -> Needs {
        self.delays.needs()
    }

    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        self.delays.observe(ack);
        true
    }
}

impl SlowStart for LedbatStart {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.options.initial_segments)
    }

    /// The delay ends the first slow start only: after a slowdown or a timeout the threshold is known.
    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step {
        let late = self.delays.queueing() > EXIT * self.options.target.as_secs_f64();
        if late && window.ssthresh.is_infinite() {
            window.ssthresh = window.cwnd;
        } else if window.below_threshold() {
            let rise = self.delays.gain(self.options.target) * self.options.limit.apply(grow, ack, path);
            window.cwnd = (window.cwnd + rise).min(window.ssthresh);
        }
        if window.below_threshold() { Step::Stay } else { Step::Done }
    }
}
