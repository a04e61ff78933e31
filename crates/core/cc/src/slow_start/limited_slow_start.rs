//! Limited Slow-Start (RFC 3742): above a bound, the window grows by a constant number of segments per round trip.

use longhaul_units::Bytes;

use super::ack_limit::L_OPTION;
use super::standard::{IW_OPTION, StandardSlowStart, raise};
use crate::compose::{SlowStart, Stage, Step, Window};
use crate::describe::{Entry, OptionSpec};
use crate::{Ack, Path};

pub(crate) static ENTRY: Entry = Entry::slow_start("limited-slow-start", |values| {
    let options = Options::from_values(values);
    Box::new(LimitedSlowStart::new(options.initial_segments, options.max_ssthresh, options.segments_per_ack))
})
.described("slow start up to 100 segments, then at most 50 segments per RTT", "RFC 3742")
.with_options(Options::OPTIONS)
.tested_in(&["limited-slow-start+new-reno", "limited-slow-start(max-ssthresh=2,l=1)+cubic"])
.internet_safe();

crate::options! {
    struct Options {
        initial_segments: u32 = IW_OPTION,
        max_ssthresh: u32 =
            OptionSpec::int("max-ssthresh", 2, 1_000_000, 100, "window up to which it doubles per RTT, segments"),
        segments_per_ack: u32 = L_OPTION,
    }
}

/// Slow start with linear growth above `max_ssthresh`.
#[derive(Clone, Debug)]
pub(crate) struct LimitedSlowStart {
    start: StandardSlowStart,
    max_ssthresh: f64,
}

impl LimitedSlowStart {
    /// Creates a Limited Slow-Start from `initial_segments` segments (RFC 6928 allows ten). Above a window of
    /// `max_ssthresh` segments (RFC 3742 recommends 100), the window grows by at most half of `max_ssthresh` per round
    /// trip. One ACK counts for at most `segments_per_ack` segments; zero means no limit if the transport paces, and
    /// two otherwise.
    pub(crate) fn new(initial_segments: u32, max_ssthresh: u32, segments_per_ack: u32) -> Self {
        let start = StandardSlowStart::new(initial_segments, segments_per_ack);
        Self { start, max_ssthresh: f64::from(max_ssthresh.max(1)) }
    }
}

/// Returns the divisor of the growth (RFC 3742, section 2): `K = int(cwnd / (0.5 * max_ssthresh))` if `cwnd` is above
/// `max_ssthresh`, both in bytes, and one otherwise. The quotient of the growth and this divisor is not truncated to
/// bytes.
#[must_use]
pub fn divisor(cwnd: f64, max_ssthresh: f64) -> f64 {
    if cwnd <= max_ssthresh { 1.0 } else { (cwnd / (0.5 * max_ssthresh)).floor().max(1.0) }
}

impl Stage for LimitedSlowStart {
    fn phase(&self) -> &'static str {
        self.start.phase()
    }
}

impl SlowStart for LimitedSlowStart {
    fn initial_window(&self, path: &Path) -> Bytes {
        self.start.initial_window(path)
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step {
        let bytes = self.start.counted(grow, ack, path);
        raise(window, bytes / divisor(window.cwnd, self.max_ssthresh * path.mss.as_f64()))
    }
}

#[cfg(test)]
mod tests;
