//! Slow start (RFC 5681, section 3.1) from the initial window of RFC 6928.

use longhaul_units::Bytes;

use super::ack_limit::{AckLimit, L_OPTION};
use crate::compose::{SlowStart, Stage, Step, Window};
use crate::describe::{Entry, OptionSpec};
use crate::{Ack, Path, initial_window};

/// Option of all slow-start variants that start from the initial window of RFC 6928.
pub const IW_OPTION: OptionSpec =
    OptionSpec::int("iw", 1, 10, initial_window::DEFAULT_SEGMENTS as u64, "initial window in segments");

pub(crate) static ENTRY: Entry =
    Entry::slow_start("slow-start", |values| Box::new(StandardSlowStart::from_values(values)))
        .described("increases the window by the bytes acknowledged", "RFC 5681 section 3.1, RFC 6928, RFC 3465")
        .with_options(StandardSlowStart::OPTIONS)
        .tested_in(&["slow-start+new-reno", "slow-start(iw=3,l=1)+new-reno", "slow-start+cubic"])
        .internet_safe();

crate::options! {
    /// Slow start: each ACK raises the window by the bytes that it delivers, until the window reaches the threshold.
    pub struct StandardSlowStart {
        /// Initial window in segments.
        initial_segments: u32 = IW_OPTION,
        /// Limit on the bytes that one ACK counts for.
        limit: AckLimit [AckLimit::rfc3465] = L_OPTION,
    }
}

impl StandardSlowStart {
    /// Creates a slow start from `initial_segments` segments (RFC 6928 allows ten). One ACK counts for at most
    /// `segments_per_ack` segments; zero means no limit if the transport paces, and two segments otherwise.
    #[must_use]
    pub const fn new(initial_segments: u32, segments_per_ack: u32) -> Self {
        Self { initial_segments, limit: AckLimit::rfc3465(segments_per_ack) }
    }
}

impl Stage for StandardSlowStart {}

impl SlowStart for StandardSlowStart {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.initial_segments)
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step {
        raise(window, self.limit.apply(grow, ack, path))
    }
}

/// Raises the window by `bytes`, but at most to its threshold, where slow start is [done](Step::Done).
pub fn raise(window: &mut Window, bytes: f64) -> Step {
    if window.below_threshold() {
        window.cwnd = (window.cwnd + bytes).min(window.ssthresh);
    }
    if window.below_threshold() { Step::Stay } else { Step::Done }
}

#[cfg(test)]
mod tests;
