//! Short transfers that arrive as a Poisson process, each on a new connection.

use longhaul_units::{Rate, Span, Time};

use super::pareto::BoundedPareto;
use super::vectors::{Adu, ConnectionVector, Side};
use crate::random::Random;

/// Request size in bytes.
const REQUEST: u64 = 350;

/// HTTP/1.0 workload: connections arrive as a Poisson process, and response sizes are [`BoundedPareto`]. An endless
/// iterator of [`ConnectionVector`]s with a request and a response each.
#[derive(Clone, Debug)]
pub struct HttpWorkload {
    next: Time,
    mean_gap: f64,
    responses: BoundedPareto,
    random: Random,
}

impl HttpWorkload {
    /// Creates a workload from `start` on whose responses use a fraction `load` of `rate` on average, without
    /// headers.
    pub fn new(start: Time, rate: Rate, load: f64, responses: BoundedPareto, random: Random) -> Self {
        let mean_gap = responses.mean() / (load * rate.as_bytes_per_sec() as f64);
        let mut workload = Self { next: start, mean_gap, responses, random };
        workload.wait();
        workload
    }

    fn wait(&mut self) {
        self.next += Span::from_secs_f64(self.random.exponential() * self.mean_gap);
    }
}

impl Iterator for HttpWorkload {
    type Item = ConnectionVector;

    fn next(&mut self) -> Option<ConnectionVector> {
        let response = self.responses.draw(&mut self.random);
        let adus = vec![Adu::new(Side::Initiator, REQUEST), Adu::new(Side::Acceptor, response)];
        let vector = ConnectionVector { start: self.next, adus };
        self.wait();
        Some(vector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_loaded_as_asked() {
        // The tail ends at 100 kB, so that the mean converges.
        let responses = BoundedPareto::with_mean(5_000.0, 1e5, 1.5);
        let rate = Rate::from_bits_per_sec(10_000_000);
        let workload = HttpWorkload::new(Time::ZERO, rate, 0.35, responses, Random::new(9, 0));
        let vectors: Vec<_> = workload.take(100_000).collect();
        let seconds = vectors[99_999].start.as_secs_f64();
        let bytes: u64 = vectors.iter().map(|vector| vector.bytes_from(Side::Acceptor)).sum();
        let load = bytes as f64 * 8.0 / seconds / 1e7;
        assert!((load / 0.35 - 1.0).abs() < 0.03, "{load}");
        // lambda = L C / (8 mean) = 87.5 per second.
        assert!((1e5 / seconds / 87.5 - 1.0).abs() < 0.02);
    }
}
