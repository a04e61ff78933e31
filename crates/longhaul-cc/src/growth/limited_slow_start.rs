//! Limited Slow-Start (RFC 3742): above a bound, the window grows by a constant number of segments per round trip.

use longhaul_units::Bytes;

use super::ack_limit::{AckLimit, L_OPTION};
use super::slow_start::{IW_OPTION, SlowStart, raise};
use crate::compose::{Growth, GrowthStep, Stage, Window};
use crate::describe::{Entry, Make, OptionSpec, Safety, Slot};
use crate::{Ack, Path};

/// Registry entry of Limited Slow-Start.
pub(crate) static ENTRY: Entry = Entry {
    name: "limited-slow-start",
    slot: Slot::Growth,
    summary: "slow start up to 100 segments, then 50 segments a round trip",
    reference: "RFC 3742",
    options: Options::OPTIONS,
    tested: &["hstcp", "limited-slow-start+new-reno", "limited-slow-start(max-ssthresh=2,l=1)+cubic"],
    safety: Safety::Shared,
    make: Make::Growth(|values| {
        let options = Options::from_values(values);
        Box::new(LimitedSlowStart::new(options.initial_segments, options.max_ssthresh, options.segments_per_ack))
    }),
};

crate::options! {
    /// Options of `limited-slow-start`.
    struct Options {
        initial_segments: u32 = IW_OPTION,
        max_ssthresh: u32 =
            OptionSpec::int("max-ssthresh", 2, 1_000_000, 100, "segments up to which the window doubles"),
        segments_per_ack: u32 = L_OPTION,
    }
}

/// Slow start with linear growth above `max_ssthresh`.
#[derive(Clone, Debug)]
pub struct LimitedSlowStart {
    start: SlowStart,
    max_ssthresh: f64,
}

impl LimitedSlowStart {
    /// Creates a Limited Slow-Start from `initial_segments` segments (RFC 6928 allows ten). Above a window of
    /// `max_ssthresh` segments (RFC 3742 recommends 100), the window grows by at most half of `max_ssthresh` per round
    /// trip. One ACK counts for at most `segments_per_ack` segments; zero means no limit if the transport paces, and
    /// two otherwise.
    #[must_use]
    pub fn new(initial_segments: u32, max_ssthresh: u32, segments_per_ack: u32) -> Self {
        let start = SlowStart::new(initial_segments, segments_per_ack);
        Self { start, max_ssthresh: f64::from(max_ssthresh.max(1)) }
    }
}

/// Returns the divisor of the growth (RFC 3742, section 2): `K = int(cwnd / (0.5 * max_ssthresh))` if `cwnd` is above
/// `max_ssthresh`, both in bytes, and one otherwise. The quotient of the growth and this divisor is not truncated to
/// bytes.
pub(crate) fn divisor(cwnd: f64, max_ssthresh: f64) -> f64 {
    if cwnd <= max_ssthresh { 1.0 } else { (cwnd / (0.5 * max_ssthresh)).floor().max(1.0) }
}

impl Stage for LimitedSlowStart {
    fn ack_limit(&mut self) -> Option<&mut AckLimit> {
        self.start.ack_limit()
    }

    fn phase(&self) -> &'static str {
        self.start.phase()
    }
}

impl Growth for LimitedSlowStart {
    fn initial_window(&self, path: &Path) -> Bytes {
        self.start.initial_window(path)
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> GrowthStep {
        let bytes = self.start.counted(grow, ack, path);
        raise(window, bytes / divisor(window.cwnd, self.max_ssthresh * path.mss.as_f64()))
    }
}

#[cfg(test)]
mod tests;
