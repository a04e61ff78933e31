//! RTT samples by rounds, for delay-based algorithms.

use longhaul_units::Span;

use crate::Ack;

/// Minimum number of samples for a valid round (Linux, `tcp_vegas.c`, `tcp_veno.c` and `tcp_yeah.c`).
const ENOUGH: u32 = 3;

/// Samples of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RoundStat {
    /// Smallest sample.
    pub min: Span,
    /// Sum of the samples in nanoseconds.
    sum: f64,
    /// Number of samples.
    pub count: u32,
}

impl RoundStat {
    const fn of(rtt: Span) -> Self {
        Self { min: rtt, sum: rtt.as_nanos() as f64, count: 1 }
    }

    fn add(&mut self, rtt: Span) {
        self.min = self.min.min(rtt);
        self.sum += rtt.as_nanos() as f64;
        self.count = self.count.saturating_add(1);
    }

    /// Returns the mean in seconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum * 1e-9 / f64::from(self.count.max(1))
    }
}

/// RTT samples of a connection, round by round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoundRtt {
    base: Option<Span>,
    max: Option<Span>,
    current: Option<RoundStat>,
    last: Option<RoundStat>,
}

impl RoundRtt {
    /// Creates statistics without samples.
    #[must_use]
    pub const fn new() -> Self {
        Self { base: None, max: None, current: None, last: None }
    }

    /// Processes an ACK. If it ends a round, its own sample counts for the new one.
    pub fn on_ack(&mut self, ack: &Ack<'_>) {
        if ack.round_start {
            self.last = self.current.take();
        }
        let Some(sample) = ack.rtt else {
            return;
        };
        let rtt = sample.rtt;
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        self.max = Some(self.max.map_or(rtt, |max| max.max(rtt)));
        match &mut self.current {
            Some(stat) => stat.add(rtt),
            None => self.current = Some(RoundStat::of(rtt)),
        }
    }

    /// Returns the smallest sample of all, an estimate of the RTT without queues.
    #[must_use]
    pub const fn base(&self) -> Option<Span> {
        self.base
    }

    /// Returns the largest sample of all.
    #[must_use]
    pub const fn max(&self) -> Option<Span> {
        self.max
    }

    /// Returns the samples of the last complete round, if there were any.
    #[must_use]
    pub const fn last(&self) -> Option<RoundStat> {
        self.last
    }

    /// Returns the samples of the last complete round if there were at least three, because fewer may all be of
    /// delayed ACKs.
    #[must_use]
    pub fn last_of_enough(&self) -> Option<RoundStat> {
        self.last.filter(|round| round.count >= ENOUGH)
    }

    /// Returns the samples of the current round so far.
    #[must_use]
    pub const fn current(&self) -> Option<RoundStat> {
        self.current
    }

    /// Returns the part of a window of `window` (in any unit) that is queued at an RTT of `rtt`:
    /// `window (1 - base / rtt)` (Brakmo, Peterson, TCP Vegas, JSAC 13(8), 1995). It is zero before the first sample.
    #[must_use]
    pub fn backlog(&self, window: f64, rtt: Span) -> f64 {
        match self.base {
            Some(base) if rtt > base => window * (1.0 - base.as_secs_f64() / rtt.as_secs_f64()),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Time;

    use super::*;
    use crate::RttSample;

    fn feed(rounds: &mut RoundRtt, ms: u64, round_start: bool) {
        let mut ack = Ack::new(Time::ZERO);
        ack.rtt = Some(RttSample { rtt: Span::from_millis(ms), sent_at: Time::ZERO });
        ack.round_start = round_start;
        rounds.on_ack(&ack);
    }

    #[test]
    fn rounds_have_their_own_statistics() {
        let mut rounds = RoundRtt::new();
        for (ms, start) in [(100, true), (120, false), (110, false), (150, true), (250, false)] {
            feed(&mut rounds, ms, start);
        }
        let last = rounds.last().expect("a round");
        assert_eq!((last.min, last.count), (Span::from_millis(100), 3));
        assert!((last.mean() - 0.110).abs() < 1e-12);
        assert_eq!(rounds.current().map(|stat| stat.min), Some(Span::from_millis(150)));
        assert_eq!((rounds.base(), rounds.max()), (Some(Span::from_millis(100)), Some(Span::from_millis(250))));
    }

    #[test]
    fn the_backlog_is_what_exceeds_the_base_round_trip() {
        let mut rounds = RoundRtt::new();
        assert_eq!(rounds.backlog(100.0, Span::from_millis(100)), 0.0);
        feed(&mut rounds, 100, true);
        assert_eq!(rounds.backlog(100.0, Span::from_millis(90)), 0.0);
        for (ms, expected) in [(100, 0.0), (125, 20.0), (200, 50.0)] {
            assert!((rounds.backlog(100.0, Span::from_millis(ms)) - expected).abs() < 1e-9);
        }
    }
}
