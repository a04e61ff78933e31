//! Round-trip time estimation and retransmission timeout (RFC 6298; RFC 7323, appendix G).
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use longhaul_units::{Bytes, Span};

/// Initial RTO (RFC 6298, section 2.1).
const INITIAL_RTO: Span = Span::from_secs(1);
/// Initial RTO for data if the SYN timer expired during the handshake (RFC 6298, section 5.7).
const CAUTIOUS_RTO: Span = Span::from_secs(3);
/// Maximum RTO: at least 60 s in RFC 6298, section 2.5; RFC 9293 allows more.
pub(crate) const MAX_RTO: Span = Span::from_secs(120);
/// Clock granularity G of RFC 6298: timers have a resolution of 1 ms.
const GRANULARITY: Span = Span::from_millis(1);

/// Round-trip time estimator of one path: SRTT, RTTVAR, RTO and minima (RFC 6298).
#[derive(Clone, Debug, Default)]
pub(crate) struct RttEstimator {
    pub(crate) srtt: Option<Span>,
    pub(crate) rttvar: Span,
    pub(crate) latest: Option<Span>,
    pub(crate) min: Option<Span>,
    min_rto: Span,
    /// RTO before the first sample.
    initial: Span,
    pub(crate) backoff: u32,
    pub(crate) samples: u32,
}

impl RttEstimator {
    pub(crate) fn new(min_rto: Span) -> Self {
        Self { min_rto, initial: INITIAL_RTO, ..Self::default() }
    }

    /// Updates the minima and the newest round-trip time, but not SRTT and RTTVAR.
    pub(crate) fn observe(&mut self, rtt: Span) {
        self.latest = Some(rtt);
        self.min = Some(self.min.map_or(rtt, |m| m.min(rtt)));
    }

    /// Updates SRTT and RTTVAR. With several samples per round trip, the gains are divided by the expected number
    /// of samples, so that the estimator keeps the time constant that RFC 6298 intends (RFC 7323, appendix G).
    pub(crate) fn sample(&mut self, rtt: Span, flight: Bytes, mss: Bytes) {
        self.samples = self.samples.saturating_add(1);
        let Some(srtt) = self.srtt else {
            self.srtt = Some(rtt);
            self.rttvar = rtt / 2;
            return;
        };
        let expected = flight.0.div_ceil(mss.0.max(1).saturating_mul(2)).max(1) as f64;
        let (alpha, beta) = (0.125 / expected, 0.25 / expected);
        let deviation = if srtt > rtt { srtt - rtt } else { rtt - srtt };
        self.rttvar = self.rttvar.mul_f64(1.0 - beta) + deviation.mul_f64(beta);
        self.srtt = Some(srtt.mul_f64(1.0 - alpha) + rtt.mul_f64(alpha));
    }

    /// Returns the RTO with the current back-off, between the configured minimum and [`MAX_RTO`].
    pub(crate) fn rto(&self) -> Span {
        let scaled = self.base_rto().as_nanos().checked_shl(self.backoff.min(32)).unwrap_or(u64::MAX);
        Span::from_nanos(scaled).min(MAX_RTO).max(self.min_rto)
    }

    /// Returns the RTO without back-off. It exceeds the equation of RFC 6298, which permits larger values, in two
    /// ways: the minimum applies to the margin above SRTT and not to the sum, and the margin is added to the newest
    /// round-trip time if that is longer than SRTT. Both are needed when a queue fills within one round trip: SRTT
    /// and RTTVAR take several round trips to follow, and the timer must not expire while a retransmission waits in
    /// that queue.
    pub(crate) fn base_rto(&self) -> Span {
        match self.srtt {
            None => self.initial.max(self.min_rto),
            Some(srtt) => {
                let margin = GRANULARITY.max(self.rttvar * 4).max(self.min_rto);
                (self.latest.map_or(srtt, |latest| latest.max(srtt)) + margin).min(MAX_RTO)
            }
        }
    }

    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1).min(16);
    }

    /// Handles an acknowledgment of new data. Before the first sample, the back-off is kept: if the first RTO is
    /// shorter than the round-trip time, every segment is retransmitted, and only with a longer RTO can one of them be
    /// timed (Karn's algorithm; RFC 6298, section 5). After the first sample, any progress ends the back-off. RFC 6298
    /// also waits for a sample here, but with 50 % loss and no timestamps, hardly any segment is sent only once, and
    /// the RTO would stay at its maximum.
    pub(crate) fn on_progress(&mut self) {
        if self.srtt.is_some() {
            self.backoff = 0;
        }
    }

    /// Raises the initial RTO because the handshake gave no sample: the SYN timer expired, or the time of the SYN-ACK
    /// was not kept (SYN cookie). SRTT, from which the pacing rate is derived, is only set by the first sample.
    pub(crate) fn start_cautiously(&mut self) {
        self.backoff = 0;
        self.initial = CAUTIOUS_RTO;
    }

    /// Applies the SRTT and RTTVAR of earlier connections to the host. If they imply more than the initial RTO of 1 s
    /// (RFC 6298, section 2.1), the RTO before the first sample is longer, but at most 3 s, so that a bad phase of one
    /// connection cannot delay later handshakes for long. They never shorten the RTO.
    pub(crate) fn expect(&mut self, srtt: Span, rttvar: Span) {
        let expected = srtt + GRANULARITY.max(rttvar * 4);
        self.initial = self.initial.max(expected.min(CAUTIOUS_RTO));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: Bytes = Bytes(1000);

    #[test]
    fn follows_the_equations_of_rfc_6298() {
        let mut est = RttEstimator::new(Span::from_millis(200));
        assert_eq!(est.rto(), Span::from_secs(1));
        est.sample(Span::from_millis(100), MSS, MSS);
        assert_eq!(est.rto(), Span::from_millis(300));
        est.sample(Span::from_millis(180), MSS, MSS);
        // RTTVAR = 3/4 * 50 + 1/4 * 80 = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110.
        assert_eq!(est.srtt, Some(Span::from_millis(110)));
        assert_eq!(est.rttvar, Span::from_micros(57_500));
        assert_eq!(est.rto(), Span::from_millis(340));
    }

    #[test]
    fn the_timeout_covers_an_increased_round_trip_time() {
        let mut est = RttEstimator::new(Span::from_millis(200));
        for _ in 0..1000 {
            est.sample(Span::from_millis(100), MSS, MSS);
        }
        assert_eq!(est.rto(), Span::from_millis(300), "the margin has a minimum without any variation");
        // With a thousand samples per round trip, SRTT hardly moves.
        est.observe(Span::from_millis(400));
        est.sample(Span::from_millis(400), Bytes(2_000_000), MSS);
        assert!(est.srtt.unwrap() < Span::from_millis(101));
        assert_eq!(est.rto(), Span::from_millis(600));
    }

    #[test]
    fn a_lossy_handshake_raises_the_timeout_and_nothing_else() {
        let mut est = RttEstimator::new(Span::from_millis(200));
        est.back_off();
        est.start_cautiously();
        assert_eq!((est.rto(), est.srtt), (Span::from_secs(3), None));
        est.sample(Span::from_millis(100), MSS, MSS);
        assert_eq!(est.rto(), Span::from_millis(300));
    }

    #[test]
    fn cached_round_trip_times_lengthen_the_initial_timeout_and_nothing_else() {
        for (srtt, rttvar, rto) in [(1, 0, 1000), (300, 100, 1000), (600, 200, 1400), (2000, 700, 3000)] {
            let mut est = RttEstimator::new(Span::from_millis(200));
            est.expect(Span::from_millis(srtt), Span::from_millis(rttvar));
            assert_eq!((est.rto(), est.srtt), (Span::from_millis(rto), None));
            assert_eq!(est.samples, 0);
            est.sample(Span::from_millis(100), MSS, MSS);
            assert_eq!((est.rto(), est.samples), (Span::from_millis(300), 1));
        }
        let mut est = RttEstimator::new(Span::from_millis(200));
        est.start_cautiously();
        est.expect(Span::from_millis(1500), Span::ZERO);
        assert_eq!(est.rto(), Span::from_secs(3), "cached values do not shorten the cautious timeout");
    }

    #[test]
    fn backs_off_by_two_up_to_the_cap() {
        let mut est = RttEstimator::new(Span::from_millis(200));
        est.sample(Span::from_millis(100), MSS, MSS);
        let mut seen = Vec::new();
        for _ in 0..12 {
            seen.push(est.rto().as_millis());
            est.back_off();
        }
        assert_eq!(&seen[..5], &[300, 600, 1200, 2400, 4800]);
        assert_eq!(est.rto(), MAX_RTO);
        est.backoff = 0;
        assert_eq!(est.rto().as_millis(), 300);
    }

    #[test]
    fn many_samples_per_round_trip_keep_the_time_constant() {
        let step = |flight: u64, samples: u32| {
            let mut est = RttEstimator::new(Span::from_millis(1));
            est.sample(Span::from_millis(100), MSS, MSS);
            for _ in 0..samples {
                est.sample(Span::from_millis(200), Bytes(flight), MSS);
            }
            est.srtt.unwrap().as_millis() as i64
        };
        // One round trip is a single sample with 2 segments in flight, or 50 samples with 100 segments in flight.
        assert!((step(2_000, 1) - step(100_000, 50)).abs() <= 1);
    }
}
