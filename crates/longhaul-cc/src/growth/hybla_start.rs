//! Hybla's slow start (Caini, Firrincieli): a long round trip opens the window as fast as a short one.

use longhaul_units::{Bytes, Span};

use super::slow_start::{IW_OPTION, raise};
use crate::compose::{Growth, GrowthStep, Stage, Window};
use crate::describe::{Entry, Make, Safety, Slot};
use crate::steady::hybla::{MAX_GAIN, RTT0, Rho};
use crate::{Ack, Path, initial_window};

/// Hybla's slow start in the registry. It bursts by design: not for shared networks.
pub(crate) static ENTRY: Entry = Entry {
    name: "hybla-start",
    slot: Slot::Growth,
    summary: "slow start as over a round trip of 25 ms",
    reference: "Caini, Firrincieli, TCP Hybla, Int. J. Satellite Comm. 22(5), 2004; Linux",
    options: Options::OPTIONS,
    tested: &["hybla", "hybla-start(max-gain=100)+cubic"],
    safety: Safety::Private,
    make: Make::Growth(|values| {
        let Options { initial_segments, rtt0, max_gain } = Options::from_values(values);
        Box::new(HyblaStart::new(initial_segments, Rho::new(rtt0), max_gain))
    }),
};

crate::options! {
    /// The options of `hybla-start`.
    struct Options {
        initial_segments: u32 = IW_OPTION,
        rtt0: Span [Span::from_millis] = RTT0,
        max_gain: f64 = MAX_GAIN,
    }
}

/// Slow start by `2^rho - 1` segments for each one acknowledged.
#[derive(Clone, Debug)]
pub struct HyblaStart {
    initial_segments: u32,
    rho: Rho,
    max_gain: f64,
}

impl HyblaStart {
    /// From `initial_segments` segments, over `rho`, by at most `max_gain` segments for each one acknowledged.
    #[must_use]
    pub const fn new(initial_segments: u32, rho: Rho, max_gain: f64) -> Self {
        Self { initial_segments, rho, max_gain }
    }

    fn segments_up(&self) -> f64 {
        (self.rho.value().exp2() - 1.0).min(self.max_gain)
    }
}

impl Stage for HyblaStart {
    fn observe(&mut self, _ack: &Ack<'_>, path: &Path) -> bool {
        self.rho.observe(path);
        true
    }

    fn gain(&self) -> f64 {
        self.max_gain
    }

    fn phase(&self) -> &'static str {
        "slow-start"
    }
}

impl Growth for HyblaStart {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.initial_segments)
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, _path: &Path, window: &mut Window) -> GrowthStep {
        raise(window, grow.as_f64() * self.segments_up())
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Time;

    use super::*;
    use crate::testing::{MSS, Sender, segments};

    fn start(rtt_ms: u64, max_gain: f64) -> (HyblaStart, Path) {
        let mut path = Path::new(MSS);
        path.min_rtt = Some(Span::from_millis(rtt_ms));
        let mut growth = HyblaStart::new(10, Rho::new(Span::from_millis(25)), max_gain);
        growth.observe(&Ack::new(Time::ZERO), &path);
        (growth, path)
    }

    /// 2^rho - 1 segments for each one acknowledged.
    #[test]
    fn an_ack_raises_by_two_to_the_rho_less_one() {
        for (rtt, max_gain, expected) in [(10, 8.0, 1), (25, 8.0, 1), (50, 8.0, 3), (100, 100.0, 15), (600, 8.0, 8)] {
            let (mut growth, path) = start(rtt, max_gain);
            let mut window = Window::new(segments(10).as_f64());
            growth.on_ack(&Ack::new(Time::ZERO), MSS, &path, &mut window);
            assert_eq!(window.cwnd, segments(10 + expected).as_f64(), "{rtt} ms");
        }
    }

    #[test]
    fn it_ends_exactly_at_the_threshold() {
        let (mut growth, path) = start(100, 8.0);
        let mut window = Window { cwnd: segments(10).as_f64(), ssthresh: segments(12).as_f64() };
        assert_eq!(growth.on_ack(&Ack::new(Time::ZERO), MSS, &path, &mut window), GrowthStep::Done);
        assert_eq!(window.cwnd, window.ssthresh);
    }

    /// In a whole controller: nine times the window in a round trip of 100 ms, of which rho would allow sixteen.
    #[test]
    fn a_sender_opens_faster_than_by_doubling() {
        let mut sender = Sender::new("hybla");
        sender.fill();
        sender.round();
        assert_eq!(sender.cwnd(), segments(90));
    }
}
