//! Rapid Start (Oku): slow start that triples the window per round trip while there is no queue.

use longhaul_cc::compose::{AckLimit, L_OPTION, Overlay, Reason, SlowStart, Stage, Step, Window, raise};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Pace, Path, initial_window, update};
use longhaul_units::{Bytes, Span, Time};

use super::pace;

/// Window increase in bytes per acknowledged byte while there is no queue. With two, the window triples per round trip
/// (draft-kazuho-ccwg-rapid-start, section 3.2).
const TRIPLES: f64 = 2.0;
/// Queueing delay that does not count as a queue (draft-kazuho-ccwg-rapid-start, section 3.2).
const SLACK: Span = Span::from_millis(4);
/// Factor on the minimum RTT in the draft.
const DRAFT_FACTOR: f64 = 1.10;
/// Factor on the minimum RTT in quicly (`quicly_cc_rapid_start_use_3x`).
const QUICLY_FACTOR: f64 = 35.0 / 32.0;
/// Number of subintervals of a round trip for which a minimum RTT is kept (quicly).
const PIECES: usize = 4;

pub(crate) static ENTRY: Entry = Entry::slow_start("rapid-start", |values| Box::new(RapidStart::from_values(values)))
    .described(
        "triples the window per RTT until a queue builds, then doubles it; use with rapid-start-recovery",
        "draft-kazuho-ccwg-rapid-start; quicly",
    )
    .with_options(RapidStart::OPTIONS)
    .tested_in(&[
        "rapid-start+cubic",
        "rapid-start+cubic+rapid-start-recovery",
        "rapid-start(iw=20,threshold=quicly,l=1)+new-reno",
    ])
    .internet_safe()
    .growing_beyond_acks();

longhaul_cc::options! {
    /// Rapid Start. It triples the window only before the first congestion; after that, it is slow start up to the
    /// threshold.
    pub(crate) struct RapidStart {
        /// Initial window in segments. The draft allows 20, twice as many as RFC 6928, because it paces them over a
        /// whole round trip.
        initial_segments: u32 =
            OptionSpec::int("iw", 1, 20, 10, "initial window, segments, paced over one RTT"),
        limit: AckLimit [AckLimit::rfc3465] = L_OPTION,
        quicly: bool [|threshold: &str| threshold == "quicly"] = OptionSpec::choice(
            "threshold", &["draft", "quicly"],
            "round trip that shows a queue: the lesser of min+4 ms and 1.10 min, or the greater of min+4 ms and 35/32 min",
        ),
        floor: Floor => Floor::default(),
        /// Whether there has been no congestion so far.
        rapid: bool => true,
        pace: Option<Pace> => None,
    }
}

/// Minimum RTT over the last round trip, from the minima of subintervals, each a quarter of the path's minimum RTT.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Floor {
    /// Minimum RTT of each subinterval, the newest first.
    pieces: [Option<Span>; PIECES],
    /// End of the newest piece.
    until: Option<Time>,
}

impl Floor {
    fn sample(&mut self, now: Time, rtt: Span, least: Span) {
        let piece = (least / PIECES as u64).max(Span::from_nanos(1));
        let until = *self.until.get_or_insert(now + piece);
        if now >= until {
            let passed = now.since(until).as_nanos() / piece.as_nanos() + 1;
            let moved = usize::try_from(passed).unwrap_or(usize::MAX).min(PIECES);
            self.pieces.rotate_right(moved);
            self.pieces.iter_mut().take(moved).for_each(|piece| *piece = None);
            self.until = Some(until + piece * passed);
        }
        if let Some(newest) = self.pieces.first_mut() {
            *newest = Some(newest.map_or(rtt, |min| min.min(rtt)));
        }
    }

    fn value(&self) -> Option<Span> {
        self.pieces.iter().flatten().min().copied()
    }
}

impl RapidStart {
    /// Returns the maximum RTT that does not indicate a queue.
    fn threshold(&self, least: Span) -> Span {
        if self.quicly {
            (least + SLACK).max(least.mul_f64(QUICLY_FACTOR))
        } else {
            (least + SLACK).min(least.mul_f64(DRAFT_FACTOR))
        }
    }

    /// Returns whether the window may triple: there has been no congestion, and the last round trip shows no queue.
    fn triples(&self, path: &Path) -> bool {
        let (Some(floor), Some(least)) = (self.floor.value(), path.min_rtt) else {
            return false;
        };
        self.rapid && floor <= self.threshold(least)
    }
}

impl Stage for RapidStart {
    fn gain(&self) -> f64 {
        TRIPLES
    }

    fn overlay(&self) -> Overlay {
        update!(Overlay { pace: self.pace, ..Overlay::default() })
    }

    fn phase(&self) -> &'static str {
        if self.rapid { "rapid-start" } else { "slow-start" }
    }
}

impl SlowStart for RapidStart {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.initial_segments)
    }

    /// Paces the first flight over a whole round trip.
    fn begin(&mut self, reason: Reason, path: &Path, window: &Window) {
        self.rapid = reason == Reason::NoLoss;
        self.floor = Floor::default();
        self.pace = if self.rapid { pace(1.0, window, path) } else { None };
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step {
        let bytes = self.limit.apply(grow, ack, path);
        if let (true, Some(sample), Some(least)) = (self.rapid, ack.rtt, path.min_rtt) {
            self.floor.sample(ack.now, sample.rtt, least);
        }
        let triples = self.triples(path);
        let step = raise(window, if triples { TRIPLES * bytes } else { bytes });
        // To triple per round trip, the window needs a pace of three windows per round trip. The default pace would
        // hold it back.
        self.pace = if triples { pace(1.0 + TRIPLES, window, path) } else { None };
        step
    }
}

#[cfg(test)]
mod tests;
