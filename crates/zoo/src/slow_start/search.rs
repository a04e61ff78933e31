//! SEARCH (Chung, Kachooei, Li, Claypool): slow start that ends when deliveries fall behind the data sent one round
//! trip earlier.

mod bins;

use longhaul_cc::compose::{AckLimit, IW_OPTION, L_OPTION, Reason, SlowStart, Stage, Step, Window, raise};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Path, SegmentKind, Sent, initial_window};
use longhaul_units::{Bytes, Span, Time};

pub(crate) use self::bins::ExitRule;
use self::bins::{BINS, Bins, norm};

/// Default of `THRESH` with [`ExitRule::Sent`] (draft-chung-ccwg-search-09).
const THRESH_SENT: f64 = 0.26;
/// Default of `THRESH` with [`ExitRule::Delivered`] (SEARCH 3.0, draft-chung-ietf-ccwg-00).
const THRESH_DELIVERED: f64 = 0.35;
/// Reduction of the window per byte delivered during the drain. With one half, one segment is sent for each two
/// delivered.
const DRAIN: f64 = 0.5;

pub(crate) static ENTRY: Entry = Entry::slow_start("search", |values| Box::new(Search::from_values(values)))
    .described(
        "slow start that ends when delivery falls behind the data sent one RTT before, over 3.5 RTTs",
        "draft-chung-ccwg-search-09; Kachooei, Chung, Li, Claypool, WoWMoM 2024",
    )
    .with_options(Search::OPTIONS)
    .tested_in(&[
        "search+cubic",
        "search(exit=plain)+cubic",
        "search(exit=roll-back,rule=delivered)+new-reno",
        "search(window=1,thresh=1,reset=off,l=1)+cubic",
    ])
    .internet_safe();

longhaul_cc::options! {
    /// Change of the window when SEARCH ends slow start.
    pub(crate) enum Exit {
        /// The window decreases by half of the bytes delivered, but not below those of the last initial round trip.
        Drain = "drain",
        /// The window does not change.
        Plain = "plain",
        /// The window decreases at once by the bytes delivered in the last two initial round trips, but not below the
        /// initial window.
        RollBack = "roll-back",
    }
}

longhaul_cc::options! {
    /// SEARCH: slow start that, at the end of each bin, compares the deliveries of the last ten bins with the bytes
    /// sent in the ten bins that ended one round trip earlier.
    pub(crate) struct Search {
        initial_segments: u32 = IW_OPTION,
        limit: AckLimit [AckLimit::rfc3465] = L_OPTION,
        rule: ExitRule = OptionSpec::choice(
            "rule", ExitRule::NAMES,
            "reference: data sent one RTT before (draft 09), or twice that delivered then (3.0)",
        ),
        /// `THRESH`: shortfall that ends slow start, as a fraction of the expected bytes; zero selects the rule's
        /// default.
        thresh: f64 [|percent: u64| percent as f64 / 100.0] =
            OptionSpec::int("thresh", 0, 90, 0, "shortfall that ends slow start, percent; 0: 26, or 35 with rule=delivered"),
        /// `WINDOW_SIZE` divided by the initial RTT.
        window: f64 =
            OptionSpec::float("window", 1.0, 10.0, 3.5, "RTTs over which bytes are counted, in ten bins"),
        exit: Exit = OptionSpec::choice(
            "exit", Exit::NAMES,
            "window at the end: drained to what arrived in one RTT, unchanged, or reduced by what arrived in two",
        ),
        reset: bool = OptionSpec::flag("reset", true, "restart the measurement after an idle period of one window"),
        /// Total of bytes sent on the connection.
        sent: Bytes => Bytes::ZERO,
        bins: Option<Bins> => None,
        /// Target window of the drain in bytes, if one is in progress.
        drain: Option<f64> => None,
    }
}

impl Search {
    fn threshold(&self) -> f64 {
        match self.rule {
            _ if self.thresh > 0.0 => self.thresh,
            ExitRule::Sent => THRESH_SENT,
            ExitRule::Delivered => THRESH_DELIVERED,
        }
    }

    /// Counts an ACK. Returns whether it ends a bin.
    fn count(&mut self, now: Time, delivered: Bytes, rtt: Span) -> bool {
        let fresh = match &mut self.bins {
            None => true,
            Some(bins) if !bins.is_over(now) => return false,
            Some(bins) if self.reset && bins.passed(now) > BINS as u64 => true,
            Some(bins) => {
                bins.advance(now, delivered, self.sent);
                return true;
            }
        };
        if fresh {
            self.bins = Bins::begin(now, rtt, self.window, delivered, self.sent);
        }
        false
    }

    /// Returns the shortfall of deliveries, if there are enough bins to compare.
    fn shortfall(&self, rtt: Span) -> Option<f64> {
        let bins = self.bins.as_ref()?;
        let (expected, delivered) = bins.compare(rtt, self.rule)?;
        norm(expected, delivered)
    }

    /// Ends slow start with the configured window reduction.
    fn end(&mut self, path: &Path, window: &mut Window) -> Step {
        let recent = |rounds| self.bins.as_ref().map_or(f64::INFINITY, |bins| bins.delivered_in(rounds));
        match self.exit {
            Exit::Plain => {}
            Exit::Drain => {
                let target = recent(1).max(self.initial_window(path).as_f64());
                if target < window.cwnd {
                    self.drain = Some(target);
                    return Step::Stay;
                }
            }
            Exit::RollBack => {
                let least = self.initial_window(path).as_f64().min(window.cwnd);
                window.cwnd = (window.cwnd - recent(2)).max(least);
            }
        }
        window.ssthresh = window.cwnd;
        Step::Done
    }

    fn drain(window: &mut Window, target: f64, arrived: Bytes) -> Step {
        window.cwnd = (window.cwnd - DRAIN * arrived.as_f64()).max(target.min(window.cwnd));
        if window.cwnd > target {
            return Step::Stay;
        }
        window.ssthresh = window.cwnd;
        Step::Done
    }
}

impl Stage for Search {
    fn on_sent(&mut self, sent: &Sent, _path: &Path) {
        if sent.kind != SegmentKind::Probe {
            self.sent += sent.bytes;
        }
    }

    fn phase(&self) -> &'static str {
        if self.drain.is_some() { "drain" } else { "slow-start" }
    }
}

impl SlowStart for Search {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.initial_segments)
    }

    fn begin(&mut self, _reason: Reason, _path: &Path, _window: &Window) {
        (self.bins, self.drain) = (None, None);
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step {
        if let Some(target) = self.drain {
            return Self::drain(window, target, ack.delivered);
        }
        if let Some(sample) = ack.rtt
            && self.count(ack.now, ack.total_delivered, sample.rtt)
            && self.shortfall(sample.rtt).is_some_and(|shortfall| shortfall >= self.threshold())
        {
            return self.end(path, window);
        }
        raise(window, self.limit.apply(grow, ack, path))
    }
}

#[cfg(test)]
mod tests;
