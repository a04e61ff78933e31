//! Slow start of TCP Vegas (Brakmo, Peterson), which ends when more than one segment is queued.

use longhaul_cc::compose::{AckLimit, IW_OPTION, L_OPTION, SlowStart, Stage, Step, Window, raise};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Path, initial_window};
use longhaul_units::Bytes;

use crate::estimate::RoundRtt;

pub(crate) static ENTRY: Entry = Entry::slow_start("vegas-start", |values| Box::new(VegasStart::from_values(values)))
    .described(
        "slow start that ends when more than one segment is queued",
        "Brakmo, Peterson, TCP Vegas, JSAC 13(8), 1995; Linux",
    )
    .with_options(VegasStart::OPTIONS)
    .tested_in(&["vegas", "vegas-start(gamma=5,l=1)+cubic"])
    .internet_safe();

longhaul_cc::options! {
    /// Slow start that ends when the estimated queue is too long.
    pub(crate) struct VegasStart {
        initial_segments: u32 = IW_OPTION,
        gamma: f64 = OptionSpec::float("gamma", 0.1, 1000.0, 1.0, "queued segments above which slow start ends"),
        limit: AckLimit [AckLimit::rfc3465] = L_OPTION,
        rounds: RoundRtt => RoundRtt::default(),
    }
}

impl VegasStart {
    /// If the queue is too long, returns the window at which slow start ends: the one that fills the path without a
    /// queue, plus one segment.
    fn end(&self, window: &Window, mss: f64) -> Option<f64> {
        let round = self.rounds.last_of_enough()?;
        let backlog = self.rounds.backlog(window.cwnd, round.min);
        (backlog > self.gamma * mss).then(|| (window.cwnd - backlog + mss).min(window.cwnd))
    }
}

impl Stage for VegasStart {
    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        self.rounds.on_ack(ack);
        true
    }
}

impl SlowStart for VegasStart {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.initial_segments)
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step {
        if ack.round_start
            && ack.cwnd_limited
            && let Some(end) = self.end(window, path.mss.as_f64())
        {
            (window.cwnd, window.ssthresh) = (end, end);
            return Step::Done;
        }
        raise(window, self.limit.apply(grow, ack, path))
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Span;

    use crate::tests::{segments, sender};

    /// 40 segments at 110 ms with a base RTT of 100 ms are 36.4 segments on the path and 3.6 in the queue, so the
    /// window continues at 37.4 segments.
    #[test]
    fn it_ends_at_the_window_that_fits_and_a_segment() {
        let mut sender = sender("vegas");
        sender.fill();
        sender.round();
        sender.rtt = Span::from_millis(110);
        sender.round();
        assert_eq!((sender.cwnd(), sender.snapshot().phase), (segments(40), "slow-start"));
        sender.now += sender.rtt;
        let mut ack = sender.acked(1);
        ack.round_start = true;
        sender.tell(&ack);
        assert_eq!(sender.snapshot().phase, "congestion-avoidance");
        let cwnd = sender.cwnd().segments(segments(1));
        assert!((cwnd - (40.0 * 100.0 / 110.0 + 1.0)).abs() < 0.01, "{cwnd}");
    }

    /// 40 segments at 102 ms are 0.8 segments in the queue.
    #[test]
    fn less_than_a_segment_in_the_queue_is_none() {
        let mut sender = sender("vegas");
        sender.fill();
        sender.round();
        sender.rtt = Span::from_millis(102);
        sender.round();
        sender.round();
        assert_eq!((sender.cwnd(), sender.snapshot().phase), (segments(80), "slow-start"));
    }
}
