//! Slow start of TCP Hybla (Caini, Firrincieli): a connection with a long RTT opens its window as fast as one with a
//! short RTT.

use longhaul_cc::compose::{IW_OPTION, SlowStart, Stage, Step, Window, raise};
use longhaul_cc::registry::Entry;
use longhaul_cc::{Ack, Path, initial_window};
use longhaul_units::Bytes;

use crate::avoidance::hybla::{MAX_GAIN, RTT0, Rho};

/// Registry entry of Hybla's slow start. It sends bursts by design, so it is for controlled environments only.
pub(crate) static ENTRY: Entry = Entry::slow_start("hybla-start", |values| Box::new(HyblaStart::from_values(values)))
    .described(
        "slow start with the increase of a flow whose RTT is 25 ms",
        "Caini, Firrincieli, TCP Hybla, Int. J. Satellite Comm. 22(5), 2004; Linux",
    )
    .with_options(HyblaStart::OPTIONS)
    .tested_in(&["hybla", "hybla-start(max-gain=100)+cubic"])
    .growing_beyond_acks();

longhaul_cc::options! {
    pub(crate) struct HyblaStart {
        initial_segments: u32 = IW_OPTION,
        rho: Rho [Rho::to_millis] = RTT0,
        max_gain: f64 = MAX_GAIN,
    }
}

impl HyblaStart {
    fn segments_up(&self) -> f64 {
        (self.rho.value.exp2() - 1.0).min(self.max_gain)
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
}

impl SlowStart for HyblaStart {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.initial_segments)
    }

    fn on_ack(&mut self, _ack: &Ack<'_>, grow: Bytes, _path: &Path, window: &mut Window) -> Step {
        raise(window, grow.as_f64() * self.segments_up())
    }
}

#[cfg(test)]
mod tests {
    use longhaul_cc::update;
    use longhaul_units::{Span, Time};

    use super::*;
    use crate::tests::{MSS, segments, sender};

    fn start(rtt_ms: u64, max_gain: f64) -> (HyblaStart, Path) {
        let mut path = Path::new(MSS);
        path.min_rtt = Some(Span::from_millis(rtt_ms));
        let mut slow_start = HyblaStart { max_gain, ..HyblaStart::default() };
        slow_start.observe(&Ack::new(Time::ZERO), &path);
        (slow_start, path)
    }

    /// The window grows by 2^rho - 1 segments per segment acknowledged.
    #[test]
    fn an_ack_raises_by_two_to_the_rho_less_one() {
        for (rtt, max_gain, expected) in [(10, 8.0, 1), (25, 8.0, 1), (50, 8.0, 3), (100, 100.0, 15), (600, 8.0, 8)] {
            let (mut slow_start, path) = start(rtt, max_gain);
            let mut window = Window::new(segments(10).as_f64());
            slow_start.on_ack(&Ack::new(Time::ZERO), MSS, &path, &mut window);
            assert_eq!(window.cwnd, segments(10 + expected).as_f64(), "{rtt} ms");
        }
    }

    #[test]
    fn it_ends_exactly_at_the_threshold() {
        let (mut slow_start, path) = start(100, 8.0);
        let mut window = update!(Window { ssthresh: segments(12).as_f64(), ..Window::new(segments(10).as_f64()) });
        assert_eq!(slow_start.on_ack(&Ack::new(Time::ZERO), MSS, &path, &mut window), Step::Done);
        assert_eq!(window.cwnd, window.ssthresh);
    }

    /// In a complete controller with an RTT of 100 ms: the window grows to nine times its size per round trip, where
    /// rho alone would allow sixteen times.
    #[test]
    fn a_sender_opens_faster_than_by_doubling() {
        let mut sender = sender("hybla");
        sender.fill();
        sender.round();
        assert_eq!(sender.cwnd(), segments(90));
    }
}
