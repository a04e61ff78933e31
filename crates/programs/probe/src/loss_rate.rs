//! Loss rates of a connection.

use longhaul_cc::internal::CongestionLevel;
use longhaul_cc::{Ack, Episode};
use longhaul_units::Bytes;

/// Loss rate, and the part of it that is random: losses at a congestion level of less than a half (Gerla et al.,
/// PFLDnet 2006, section 3.1, distinguish them manually by the same delay).
#[derive(Clone, Copy, Debug)]
pub struct LossRate {
    level: CongestionLevel,
    delivered: f64,
    lost: f64,
    random: f64,
}

impl LossRate {
    /// Creates rates over the whole connection, which classify losses by `level`.
    #[must_use]
    pub const fn new(level: CongestionLevel) -> Self {
        Self { level, delivered: 0.0, lost: 0.0, random: 0.0 }
    }

    /// Processes an ACK at a window of `segments`.
    pub fn on_ack(&mut self, ack: &Ack<'_>, segments: f64) {
        self.level.on_ack(ack);
        self.delivered += ack.delivered.as_f64();
        if ack.newly_lost == Bytes::ZERO {
            return;
        }
        let lost = ack.newly_lost.as_f64();
        self.lost += lost;
        if self.level.level(segments) < 0.5 {
            self.random += lost;
        }
        if ack.episode == Episode::Enter {
            self.level.on_loss();
        }
    }

    /// Returns the fraction of the sent bytes that was lost, 0 to 1.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.part(self.lost)
    }

    /// Returns the fraction of the sent bytes that was lost at random.
    #[must_use]
    pub fn random(&self) -> f64 {
        self.part(self.random)
    }

    fn part(&self, lost: f64) -> f64 {
        let sent = self.delivered + self.lost;
        if sent > 0.0 { lost / sent } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_cc::RttSample;
    use longhaul_units::{Span, Time};

    use super::*;

    fn ack(micros: u64) -> Ack<'static> {
        let mut ack = Ack::new(Time::ZERO);
        ack.rtt = Some(RttSample::new(Span::from_micros(micros), Time::ZERO));
        ack
    }

    /// One percent of the data is lost, three quarters of that at 133 ms, after the path's 148 ms at congestion are
    /// known.
    #[test]
    fn losses_without_a_queue_are_by_chance() {
        let mut losses = LossRate::new(CongestionLevel::new(0.85));
        assert_eq!((losses.total(), losses.random()), (0.0, 0.0));
        losses.on_ack(&ack(133_000), 900.0);
        for n in 0..4000 {
            let mut event = ack(if n % 4 == 0 { 148_000 } else { 133_000 });
            // The RTT of the level is the minimum of the last eight samples.
            for _ in 1..8 {
                losses.on_ack(&event, 900.0);
            }
            (event.delivered, event.newly_lost, event.episode) = (Bytes(99_000), Bytes(1000), Episode::Enter);
            losses.on_ack(&event, 900.0);
        }
        assert!((losses.total() - 0.01).abs() < 1e-9, "{}", losses.total());
        assert!((losses.random() - 0.0075).abs() < 1e-5, "{}", losses.random());
    }
}
