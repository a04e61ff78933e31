//! HyStart++ (RFC 9406): slow start that grows more slowly once the RTT increases.

use longhaul_units::{Bytes, Span};

use super::AckLimit;
use super::standard::{IW_OPTION, raise};
use crate::compose::{Reason, SlowStart, Stage, Step, Window};
use crate::describe::{Entry, OptionSpec, Rule};
use crate::{Ack, Path, initial_window};

/// Maximum number of segments that one ACK counts for if the transport does not pace (RFC 9406, section 4.3).
const UNPACED_LIMIT: u32 = 8;
/// Divisor of the RTT that yields the RTT threshold (`MIN_RTT_DIVISOR`, RFC 9406, section 4.3).
const MIN_RTT_DIVISOR: u64 = 8;

pub(crate) static ENTRY: Entry = Entry::slow_start("hystart-pp", |values| Box::new(HyStartPp::from_values(values)))
    .described("slow start that becomes conservative when the RTT rises, and ends before loss", "RFC 9406")
    .with_options(HyStartPp::OPTIONS)
    .tested_in(&["hystart-pp+cubic", "hystart-pp+new-reno", "hystart-pp(css-rounds=1,l=8)+cubic"])
    .internet_safe();

crate::options! {
    /// HyStart++ with the constants of RFC 9406, section 4.3.
    ///
    /// After the first congestion, this is standard slow start, as RFC 9406, section 4.3, recommends. A threshold that
    /// is known from earlier connections also ends the algorithm.
    pub(crate) struct HyStartPp {
        initial_segments: u32 = IW_OPTION,
        /// `L`.
        limit: AckLimit [|most| AckLimit::new(most, UNPACED_LIMIT)] =
            OptionSpec::int("l", 0, 1000, 0, "segments that one ACK may count for; 0: unlimited if paced, else 8"),
        /// `MIN_RTT_THRESH`.
        min_thresh: Span [Span::from_millis] =
            OptionSpec::int("min-thresh", 1, 1000, 4, "minimum increase of the RTT that counts, ms")
                .ruled(&[Rule::AtMost("max-thresh")]),
        /// `MAX_RTT_THRESH`.
        max_thresh: Span [Span::from_millis] =
            OptionSpec::int("max-thresh", 1, 1000, 16, "greatest increase that is waited for, ms"),
        /// `N_RTT_SAMPLE`.
        samples: u32 = OptionSpec::int("samples", 1, 100, 8, "RTT samples that a round needs"),
        /// `CSS_GROWTH_DIVISOR`, at least two.
        css_divisor: u32 = OptionSpec::int("css-divisor", 2, 64, 4, "divisor of the increase in conservative slow start"),
        /// `CSS_ROUNDS`.
        css_rounds: u32 = OptionSpec::int("css-rounds", 1, 100, 5, "rounds of conservative slow start"),
        last_round_min: Option<Span> => None,
        round_min: Option<Span> => None,
        sampled: u32 => 0,
        css: Option<Css> => None,
        /// Whether this is standard slow start, because there was congestion before.
        plain: bool => false,
    }
}

/// State of Conservative Slow Start (CSS).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Css {
    /// RTT at which CSS began; a smaller RTT ends it and resumes slow start.
    baseline: Span,
    rounds_left: u32,
}

impl HyStartPp {
    /// Ends a round, whose minimum RTT becomes that of the last round. Returns whether all rounds of CSS are over.
    fn end_round(&mut self) -> bool {
        self.last_round_min = self.round_min.take();
        self.sampled = 0;
        let Some(css) = &mut self.css else {
            return false;
        };
        css.rounds_left = css.rounds_left.saturating_sub(1);
        css.rounds_left == 0
    }

    fn sample(&mut self, rtt: Span) {
        self.round_min = Some(self.round_min.map_or(rtt, |min| min.min(rtt)));
        self.sampled = self.sampled.saturating_add(1);
    }

    /// Returns `RttThresh` of RFC 9406.
    fn threshold(&self, last: Span) -> Span {
        (last / MIN_RTT_DIVISOR).min(self.max_thresh).max(self.min_thresh)
    }

    /// Enters or leaves CSS according to this round's samples.
    fn judge(&mut self) {
        let Some(current) = self.round_min.filter(|_| self.sampled >= self.samples) else {
            return;
        };
        match (self.css, self.last_round_min) {
            (Some(css), _) if current < css.baseline => self.css = None,
            (None, Some(last)) if current >= last + self.threshold(last) => {
                self.css = Some(Css { baseline: current, rounds_left: self.css_rounds });
            }
            _ => {}
        }
    }
}

impl Stage for HyStartPp {
    fn phase(&self) -> &'static str {
        if self.css.is_some() { "css" } else { "slow-start" }
    }
}

impl SlowStart for HyStartPp {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.initial_segments)
    }

    fn begin(&mut self, reason: Reason, _path: &Path, window: &Window) {
        (self.last_round_min, self.round_min, self.sampled, self.css) = (None, None, 0, None);
        self.plain = window.ssthresh.is_finite() && reason != Reason::NoLoss;
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step {
        let bytes = self.limit.apply(grow, ack, path);
        if self.plain {
            return raise(window, bytes);
        }
        if ack.round_start && self.end_round() {
            window.ssthresh = window.cwnd;
            return Step::Done;
        }
        let divisor = if self.css.is_some() { f64::from(self.css_divisor.max(2)) } else { 1.0 };
        if let Some(sample) = ack.rtt {
            self.sample(sample.rtt);
        }
        self.judge();
        raise(window, bytes / divisor)
    }
}

#[cfg(test)]
mod tests;
