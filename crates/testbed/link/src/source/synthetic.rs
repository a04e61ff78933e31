//! Synthetic connection vectors.

use longhaul_units::{Span, Time};

use super::pareto::BoundedPareto;
use super::vectors::{Adu, ConnectionVector, Side};
use crate::random::Random;

/// Sequential connections that arrive as a Poisson process: an endless iterator of [`ConnectionVector`]s.
///
/// The number of epochs of each connection is geometrically distributed. An epoch consists of a request and a
/// response; an exponentially distributed think time separates it from the next one.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// Mean time between the starts of connections.
    pub mean_gap: Span,
    /// Mean number of epochs, at least 1.
    pub mean_epochs: f64,
    /// Distribution of request sizes.
    pub requests: BoundedPareto,
    /// Distribution of response sizes.
    pub responses: BoundedPareto,
    /// Mean think time.
    pub think: Span,
    next: Time,
    random: Random,
}

impl Synthetic {
    /// Web-like connections, on average with requests of 350 bytes, responses of 14 kB, 2.5 epochs, and 1 s of think
    /// time.
    pub fn web(start: Time, mean_gap: Span, random: Random) -> Self {
        Self {
            mean_gap,
            mean_epochs: 2.5,
            requests: BoundedPareto::with_mean(350.0, 8_000.0, 2.0),
            responses: BoundedPareto::http_responses(),
            think: Span::from_secs(1),
            next: start,
            random,
        }
    }

    fn span(&mut self, mean: Span) -> Span {
        Span::from_secs_f64(self.random.exponential() * mean.as_secs_f64())
    }

    fn epochs(&mut self) -> u64 {
        let end = 1.0 / self.mean_epochs.max(1.0);
        if end >= 1.0 { 1 } else { 1 + self.random.geometric(end) }
    }
}

impl Iterator for Synthetic {
    type Item = ConnectionVector;

    fn next(&mut self) -> Option<ConnectionVector> {
        let gap = self.span(self.mean_gap);
        self.next += gap;
        let mut adus = Vec::new();
        for epoch in 0..self.epochs() {
            let think = if epoch == 0 { Span::ZERO } else { self.span(self.think) };
            let request = self.requests.draw(&mut self.random);
            let response = self.responses.draw(&mut self.random);
            adus.push(Adu { after_receive: think, ..Adu::new(Side::Initiator, request) });
            adus.push(Adu::new(Side::Acceptor, response));
        }
        Some(ConnectionVector { start: self.next, adus })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_as_asked() {
        let source = Synthetic::web(Time::ZERO, Span::from_millis(100), Random::new(6, 0));
        let vectors: Vec<_> = source.take(20_000).collect();
        let seconds = vectors[19_999].start.as_secs_f64();
        assert!((seconds / 2_000.0 - 1.0).abs() < 0.03, "{seconds}");
        let mean = vectors.iter().map(|vector| vector.adus.len() / 2).sum::<usize>() as f64 / 20_000.0;
        assert!((mean / 2.5 - 1.0).abs() < 0.03, "{mean}");
        let requests: u64 = vectors.iter().map(|vector| vector.bytes_from(Side::Initiator)).sum();
        assert!((requests as f64 / 20_000.0 / 875.0 - 1.0).abs() < 0.03, "{requests}");
        assert!(vectors.windows(2).all(|pair| pair[0].start <= pair[1].start));
    }
}
