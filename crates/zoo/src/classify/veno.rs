//! Veno's loss classifier (Fu, Liew): a loss without a backlog counts as random.

use longhaul_cc::compose::{LossCause, LossClassifier, LossEvent, Stage};
use longhaul_cc::registry::{Entry, OptionSpec, Rule};
use longhaul_cc::{Ack, Path};

use crate::estimate::RoundRtt;

/// Option that the congestion-avoidance algorithm and the classifier share.
pub(crate) const BACKLOG: OptionSpec =
    OptionSpec::float("backlog", 0.1, 1000.0, 3.0, "queued segments from which the path counts as congested")
        .ruled(&[Rule::Shared]);

pub(crate) static ENTRY: Entry = Entry::loss("veno", |values| Box::new(VenoLoss::from_values(values)))
    .described("treats a loss with fewer than 3 segments queued as random", "Fu, Liew, TCP Veno, JSAC 21(2), 2003")
    .with_options(VenoLoss::OPTIONS)
    .tested_in(&[
        "veno",
        "slow-start=slow-start,avoidance=cubic,loss=veno",
        "slow-start=slow-start,avoidance=westwood,loss=veno",
    ])
    .internet_safe();

longhaul_cc::options! {
    /// Classifier that treats losses without a backlog as random.
    pub(crate) struct VenoLoss {
        backlog: f64 = BACKLOG,
        severity: f64 = OptionSpec::float("severity", 0.1, 1.0, 0.4, "severity assigned to a random loss"),
        rounds: RoundRtt => RoundRtt::default(),
    }
}

impl Stage for VenoLoss {
    fn observe(&mut self, ack: &Ack<'_>, _path: &Path) -> bool {
        self.rounds.on_ack(ack);
        true
    }
}

impl LossClassifier for VenoLoss {
    /// Uses the minimum RTT of the current round, or of the last round if there is none yet. Without either, the loss
    /// counts as congestion.
    fn classify(&mut self, loss: &LossEvent<'_>, path: &Path) -> LossCause {
        let Some(round) = self.rounds.current.or(self.rounds.last) else {
            return LossCause::CONGESTION;
        };
        let backlog = self.rounds.backlog(loss.ack.flight_size.segments(path.mss), round.min);
        LossCause::new(if backlog < self.backlog { self.severity } else { 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::{Span, Time};

    use super::*;
    use crate::tests::{MSS, segments};
    use longhaul_cc::RttSample;
    use longhaul_cc::compose::Signal;

    fn cause(rtts: &[u64], flight: u64) -> f64 {
        let mut classifier = VenoLoss::default();
        let path = Path::new(MSS);
        let mut ack = Ack::new(Time::ZERO);
        for rtt in rtts {
            ack.rtt = Some(RttSample::new(Span::from_millis(*rtt), Time::ZERO));
            ack.round_start = true;
            classifier.observe(&ack, &path);
        }
        ack.flight_size = segments(flight);
        classifier.classify(&LossEvent::new(Signal::Loss, &ack), &path).severity
    }

    /// Over a base RTT of 100 ms, 100 segments at 103 ms have 2.9 segments in the queue, and 3.8 at 104 ms.
    #[test]
    fn three_segments_divide_chance_from_congestion() {
        assert_eq!(cause(&[100, 103], 100), 0.4);
        assert_eq!(cause(&[100, 104], 100), 1.0);
        assert_eq!(cause(&[100, 104], 50), 0.4);
        assert_eq!(cause(&[100, 200], 4), 0.4);
        assert_eq!(cause(&[100, 500], 4), 1.0);
    }

    #[test]
    fn without_a_sample_every_loss_is_congestion() {
        assert_eq!(cause(&[], 100), 1.0);
    }
}
