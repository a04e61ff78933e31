//! Multiplicative-increase phase of FAST TCP (Cui, Andrew): slow start until there is a queueing delay.

use longhaul_cc::compose::{AckLimit, IW_OPTION, L_OPTION, SlowStart, Stage, Step, Window, raise};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{Ack, Path, initial_window};
use longhaul_units::{Bytes, Span};

use crate::avoidance::fast::Delay;

/// Largest weight of a sample in the average RTT, as in FAST's congestion avoidance.
const RTT_GAIN: f64 = 0.25;

pub(crate) static ENTRY: Entry = Entry::slow_start("fast-start", |values| Box::new(FastStart::from_values(values)))
    .described("slow start until the average queueing delay is 0.75 ms", "Cui, Andrew, FAST TCP for ns-2")
    .with_options(FastStart::OPTIONS)
    .tested_in(&["fast", "fast-start(mi-threshold=1,l=1)+cubic"])
    .internet_safe();

longhaul_cc::options! {
    /// Slow start that ends when the average queueing delay reaches a threshold.
    pub(crate) struct FastStart {
        initial_segments: u32 = IW_OPTION,
        threshold: Span [Span::from_micros] =
            OptionSpec::int("mi-threshold", 1, 1_000_000, 750, "queueing delay at which slow start ends, us"),
        limit: AckLimit [AckLimit::rfc3465] = L_OPTION,
        delay: Delay => Delay::default(),
        /// Previous RTT sample. The receiver's delayed-ACK timer never increases two successive samples, so the smaller
        /// of two is used.
        last: Option<Span> => None,
    }
}

impl Stage for FastStart {
    fn observe(&mut self, ack: &Ack<'_>, path: &Path) -> bool {
        // ACKs of less than half a segment are ignored. Short segments have a smaller serialization delay than a
        // full-sized segment, and if their RTT became the base RTT, every full-sized segment would appear to have been
        // queued.
        if let Some(sample) = ack.rtt.filter(|_| ack.delivered * 2 >= path.mss) {
            let rtt = self.last.replace(sample.rtt).map_or(sample.rtt, |last| last.min(sample.rtt));
            self.delay.sample(rtt, ack.prior_in_flight.segments(path.mss), RTT_GAIN);
        }
        true
    }
}

impl SlowStart for FastStart {
    fn initial_window(&self, path: &Path) -> Bytes {
        initial_window::of_connection(path, self.initial_segments)
    }

    fn on_ack(&mut self, ack: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> Step {
        if self.delay.queueing() >= self.threshold.as_secs_f64() {
            window.ssthresh = window.cwnd;
            return Step::Done;
        }
        raise(window, self.limit.apply(grow, ack, path))
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Span;

    use crate::tests::{segments, sender};

    /// The window doubles while the average queueing delay is below 0.75 ms; a delay of 1 ms ends slow start within
    /// the samples of a few round trips.
    #[test]
    fn it_ends_with_the_first_queueing_delay() {
        let mut sender = sender("fast");
        sender.fill();
        sender.round();
        sender.rtt += Span::from_micros(700);
        sender.round();
        sender.round();
        assert_eq!((sender.cwnd(), sender.snapshot().phase), (segments(80), "slow-start"));
        sender.rtt += Span::from_micros(300);
        sender.round();
        assert_eq!(sender.snapshot().phase, "congestion-avoidance");
        assert!(sender.cwnd() < segments(160) && sender.cwnd() >= segments(80), "{}", sender.cwnd());
        assert_eq!(sender.ssthresh(), sender.cwnd());
    }

    /// The ACK of an odd segment comes 40 ms late, when the receiver's delayed-ACK timer expires. A quarter of that is
    /// thirteen times 0.75 ms, but it is not a queue. Two such samples in a row are taken for one.
    #[test]
    fn a_delayed_acknowledgement_is_no_queue() {
        for (late, phase) in [(1, "slow-start"), (2, "congestion-avoidance")] {
            let mut sender = sender("fast");
            sender.fill();
            sender.round();
            sender.rtt += Span::from_millis(40);
            (0..late).for_each(|_| sender.ack(1));
            sender.rtt = Span::from_millis(100);
            sender.ack(2);
            assert_eq!(sender.snapshot().phase, phase, "{late}");
        }
    }
}
