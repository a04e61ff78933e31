//! BBE's loss classifier: the closer the queueing delay is to that of a full buffer, the more severe the loss.

use longhaul_units::Span;

use crate::compose::{LossCause, LossClassifier, LossEvent, Signal, Stage};
use crate::describe::{Entry, OptionSpec};
use crate::estimate::CongestionLevel;
use crate::{Ack, Path};

/// Weight of the old RTT at congestion at a loss; an option of the algorithms that use the congestion level.
pub const KEEP_CONG: OptionSpec =
    OptionSpec::float("keep", 0.0, 0.99, 0.85, "weight of the old value in the average RTT at congestion");

/// Lifetime of the minimum RTT in seconds, an option of all algorithms that use the congestion level. If it never
/// expires, a longer route appears congested forever.
pub const RTT_MIN_WINDOW: OptionSpec =
    OptionSpec::int("rtt-min-window", 0, 3600, 60, "window of the minimum RTT, s; 0: unlimited");

/// Converts seconds into the lifetime of a minimum; zero means that it never expires.
#[must_use]
pub const fn expiry(secs: u64) -> Span {
    if secs == 0 { Span::MAX } else { Span::from_secs(secs) }
}

pub(crate) static ENTRY: Entry = Entry::loss("bbe", |values| {
    let Options { keep, threshold, rtt_min_window } = Options::from_values(values);
    Box::new(BbeLoss::new(CongestionLevel::new(keep).with_rtt_min_window(rtt_min_window), threshold))
})
.described("judges a loss by how close the delay is to that of a full buffer", "Gerla et al., PFLDnet 2006, section 4")
.with_options(Options::OPTIONS)
.tested_in(&[
    "slow-start=slow-start,avoidance=new-reno,loss=bbe",
    "slow-start=slow-start,avoidance=cubic,loss=bbe(threshold=0.5,keep=0,rtt-min-window=1)",
])
.internet_safe()
.keeping_at_losses();

crate::options! {
    struct Options {
        keep: f64 = KEEP_CONG,
        threshold: f64 = OptionSpec::float(
            "threshold", 0.0, 1.0, 0.0,
            "level from which a loss counts as congestion; 0: gradual",
        ),
        rtt_min_window: Span [expiry] = RTT_MIN_WINDOW,
    }
}

/// Classifier that judges losses by the congestion level.
#[derive(Clone, Debug)]
pub(crate) struct BbeLoss {
    level: CongestionLevel,
    threshold: f64,
}

impl BbeLoss {
    /// Creates the classifier. The severity of a loss is the `level`. With a `threshold` above 0, losses at or above
    /// that level count as congestion, and losses below it as random.
    pub(crate) const fn new(level: CongestionLevel, threshold: f64) -> Self {
        Self { level, threshold }
    }
}

impl Stage for BbeLoss {
    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        self.level.on_ack(ack);
        true
    }
}

impl LossClassifier for BbeLoss {
    /// Uses the level before it is updated by this loss, which happens once per episode.
    fn classify(&mut self, loss: &LossEvent<'_>, path: &Path) -> LossCause {
        let c = self.level.level(loss.ack.flight_size.segments(path.mss));
        if loss.signal == Signal::Loss {
            self.level.on_loss();
        }
        let severity = if self.threshold <= 0.0 { c } else { f64::from(u8::from(c >= self.threshold)) };
        LossCause { severity }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::{Span, Time};

    use super::*;
    use crate::RttSample;
    use crate::tests::{MSS, segments};

    /// Returns the severity of a loss at `ms`, after 133 ms without a loss and a loss at 148 ms.
    fn severity(threshold: f64, ms: u64) -> f64 {
        let mut classifier = BbeLoss::new(CongestionLevel::new(0.85), threshold);
        let path = Path::new(MSS);
        let mut severity = f64::NAN;
        for (ms, lost) in [(133, false), (148, true), (ms, true)] {
            let mut ack = Ack::new(Time::ZERO);
            ack.rtt = Some(RttSample { rtt: Span::from_millis(ms), sent_at: Time::ZERO });
            ack.flight_size = segments(900);
            // The minimum of the last eight samples counts.
            for _ in 0..8 {
                classifier.observe(&ack, &path);
            }
            if lost {
                severity = classifier.classify(&LossEvent { signal: Signal::Loss, ack: &ack }, &path).severity;
            }
        }
        severity
    }

    #[test]
    fn the_severity_is_the_level_or_which_side_of_the_threshold_it_is() {
        for (ms, gradual, binary) in
            [(133, 0.0, 0.0), (136, 0.2, 0.0), (139, 0.4, 0.0), (145, 0.8, 1.0), (148, 1.0, 1.0)]
        {
            assert!((severity(0.0, ms) - gradual).abs() < 1e-9, "{ms}: {}", severity(0.0, ms));
            assert_eq!(severity(0.5, ms), binary, "{ms}");
        }
    }
}
