//! Limited Slow-Start (RFC 3742): above a bound, the window grows by a constant number of segments per round trip.

use longhaul_units::Bytes;

use super::ack_limit::{AckLimit, L_OPTION};
use super::standard::{IW_OPTION, raise};
use crate::compose::{SlowStart, Stage, Step, Window};
use crate::describe::{Entry, OptionSpec};
use crate::{Ack, Path, initial_window};

pub(crate) static ENTRY: Entry =
    Entry::slow_start("limited-slow-start", |values| Box::new(LimitedSlowStart::from_values(values)))
        .described("slow start up to 100 segments, then at most 50 segments per RTT", "RFC 3742")
        .with_options(LimitedSlowStart::OPTIONS)
        .tested_in(&["limited-slow-start+new-reno", "limited-slow-start(max-ssthresh=2,l=1)+cubic"])
        .internet_safe();

crate::options! {
    /// Slow start with linear growth above `max_ssthresh` segments: at most half as many per round trip.
    pub(crate) struct LimitedSlowStart {
        initial_segments: u32 = IW_OPTION,
        max_ssthresh: f64 [|segments: u32| f64::from(segments)] =
            OptionSpec::int("max-ssthresh", 2, 1_000_000, 100, "window up to which it doubles per RTT, segments"),
        limit: AckLimit [AckLimit::rfc3465] = L_OPTION,
    }
}

/// Returns the divisor of the growth (RFC 3742, section 2): `K = int(cwnd / (0.5 * max_ssthresh))` if `cwnd` is above
/// `max_ssthresh`, both in bytes, and one otherwise. The quotient of the growth and this divisor is not truncated to
/// bytes.
#[must_use]
pub fn divisor(cwnd: f64, max_ssthresh: f64) -> f64 {
    if cwnd <= max_ssthresh { 1.0 } else { (cwnd / (0.5 * max_ssthresh)).floor().max(1.0) }
}

impl Stage for LimitedSlowStart {}

impl SlowStart for LimitedSlowStart {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.initial_segments)
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step {
        let bytes = self.limit.apply(grow, ack, path);
        raise(window, bytes / divisor(window.cwnd, self.max_ssthresh * path.mss.as_f64()))
    }
}

#[cfg(test)]
mod tests;
