//! Pacing rate and send quantum, which are the same in both versions.

use longhaul_units::{Bytes, Rate, Span};

use crate::Pace;

/// Pacing rate relative to the bandwidth estimate: slightly below it, so that queues shrink on average
/// (`BBRPacingMarginPercent`).
pub(super) const MARGIN: f64 = 0.99;
/// A quantum is the data sent in this time ...
const QUANTUM_SPAN: Span = Span::from_millis(1);
/// ... but no more than this.
const QUANTUM_MAX: Bytes = Bytes(65_536);
/// The RTT to assume while none is known.
const NOMINAL_RTT: Span = Span::from_millis(1);

#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// Bytes/s; zero before the handshake.
    rate: f64,
    quantum: Bytes,
}

impl Pacing {
    /// Unlimited, since nothing is known yet.
    pub const fn unset() -> Self {
        Self { rate: 0.0, quantum: Bytes::ZERO }
    }

    /// Returns `gain` times the initial window per round trip.
    pub fn initial(gain: f64, cwnd: f64, srtt: Option<Span>) -> Self {
        let rtt = srtt.unwrap_or(NOMINAL_RTT).max(Span::from_nanos(1));
        Self { rate: (gain * cwnd / rtt.as_secs_f64()).max(1.0), quantum: Bytes::ZERO }
    }

    /// Sets the rate to `gain` times the bandwidth `bw`, bytes/s, less the margin. Until the pipe was `filled`, the
    /// rate only increases, because the samples of an application with little to send must not decrease it.
    pub fn set(&mut self, gain: f64, bw: f64, filled: bool) {
        let rate = gain * bw * MARGIN;
        if bw > 0.0 && (filled || rate > self.rate) {
            self.rate = rate.max(1.0);
        }
    }

    /// Sets the quantum to the data of 1 ms at the current rate, at least `least` segments.
    pub fn set_quantum(&mut self, mss: Bytes, least: u64) {
        self.quantum =
            Rate::from_bytes_per_sec(self.rate as u64).bytes_in(QUANTUM_SPAN).min(QUANTUM_MAX).max(mss * least);
    }

    pub const fn rate(&self) -> f64 {
        self.rate
    }

    pub const fn quantum(&self) -> Bytes {
        self.quantum
    }

    pub fn pace(&self) -> Option<Pace> {
        let rate = Rate::from_bytes_per_sec(self.rate as u64);
        (rate > Rate::ZERO).then_some(Pace { rate, quantum: (self.quantum > Bytes::ZERO).then_some(self.quantum) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rate_is_the_initial_window_a_round_trip_times_the_gain() {
        let pacing = Pacing::initial(2.77, 14_480.0, Some(Span::from_millis(100)));
        assert!((pacing.rate() - 401_096.0).abs() < 1e-6);
        assert!((Pacing::initial(2.0, 1000.0, None).rate() - 2e6).abs() < 1e-6);
    }

    #[test]
    fn the_rate_falls_only_once_the_pipe_was_full() {
        let mut pacing = Pacing::initial(1.0, 1000.0, Some(Span::from_secs(1)));
        pacing.set(1.0, 500.0, false);
        assert_eq!(pacing.rate(), 1000.0);
        pacing.set(1.25, 4000.0, false);
        assert_eq!(pacing.rate(), 4950.0);
        pacing.set(0.75, 4000.0, true);
        assert_eq!(pacing.rate(), 2970.0);
    }

    #[test]
    fn a_quantum_is_a_millisecond_within_bounds() {
        let mss = Bytes(1448);
        for (rate, quantum) in [(1_000.0, 2896), (10e6, 10_000), (1e9, 65_536)] {
            let mut pacing = Pacing { rate, quantum: Bytes::ZERO };
            pacing.set_quantum(mss, 2);
            assert_eq!(pacing.quantum(), Bytes(quantum), "{rate}");
        }
        assert_eq!(Pacing::unset().pace(), None);
    }
}
