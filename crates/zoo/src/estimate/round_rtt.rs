//! RTT samples by rounds, for delay-based algorithms.

use longhaul_cc::Ack;
use longhaul_units::Span;

/// Minimum number of samples for a valid round (Linux, `tcp_vegas.c`, `tcp_veno.c` and `tcp_yeah.c`).
const ENOUGH: u32 = 3;

/// Samples of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RoundStat {
    pub(crate) min: Span,
    /// Sum of the samples in nanoseconds.
    sum: f64,
    count: u32,
}

impl RoundStat {
    /// Returns the mean in seconds.
    pub(crate) fn mean(&self) -> f64 {
        self.sum * 1e-9 / f64::from(self.count.max(1))
    }
}

/// RTT samples of a connection, round by round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RoundRtt {
    /// The smallest sample of all, an estimate of the RTT without queues.
    pub(crate) base: Option<Span>,
    /// The largest sample of all.
    pub(crate) max: Option<Span>,
    /// The samples of the current round so far.
    pub(crate) current: Option<RoundStat>,
    /// The samples of the last complete round, if there were any.
    pub(crate) last: Option<RoundStat>,
}

impl RoundRtt {
    /// Processes an ACK. If it ends a round, its own sample counts for the new one.
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>) {
        if ack.round_start {
            self.last = self.current.take();
        }
        let Some(rtt) = ack.rtt.map(|sample| sample.rtt) else { return };
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        self.max = Some(self.max.map_or(rtt, |max| max.max(rtt)));
        let round = self.current.get_or_insert(RoundStat { min: rtt, sum: 0.0, count: 0 });
        round.min = round.min.min(rtt);
        round.sum += rtt.as_nanos() as f64;
        round.count = round.count.saturating_add(1);
    }

    /// Returns the samples of the last complete round if there were at least three, because fewer may all belong to
    /// delayed ACKs.
    pub(crate) fn last_of_enough(&self) -> Option<RoundStat> {
        self.last.filter(|round| round.count >= ENOUGH)
    }

    /// Returns the part of a window of `window` (in any unit) that is queued at an RTT of `rtt`:
    /// `window (1 - base / rtt)` (Brakmo, Peterson, TCP Vegas, JSAC 13(8), 1995). It is zero before the first sample.
    pub(crate) fn backlog(&self, window: f64, rtt: Span) -> f64 {
        match self.base {
            Some(base) if rtt > base => window * (1.0 - base.as_secs_f64() / rtt.as_secs_f64()),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_cc::RttSample;
    use longhaul_units::Time;

    use super::*;

    fn feed(rounds: &mut RoundRtt, ms: u64, round_start: bool) {
        let mut ack = Ack::new(Time::ZERO);
        ack.rtt = Some(RttSample::new(Span::from_millis(ms), Time::ZERO));
        ack.round_start = round_start;
        rounds.on_ack(&ack);
    }

    #[test]
    fn rounds_have_their_own_statistics() {
        let mut rounds = RoundRtt::default();
        for (ms, start) in [(100, true), (120, false), (110, false), (150, true), (250, false)] {
            feed(&mut rounds, ms, start);
        }
        let last = rounds.last.expect("a round");
        assert_eq!((last.min, last.count), (Span::from_millis(100), 3));
        assert!((last.mean() - 0.110).abs() < 1e-12);
        assert_eq!(rounds.current.map(|stat| stat.min), Some(Span::from_millis(150)));
        assert_eq!((rounds.base, rounds.max), (Some(Span::from_millis(100)), Some(Span::from_millis(250))));
    }

    #[test]
    fn the_backlog_is_what_exceeds_the_base_round_trip() {
        let mut rounds = RoundRtt::default();
        assert_eq!(rounds.backlog(100.0, Span::from_millis(100)), 0.0);
        feed(&mut rounds, 100, true);
        assert_eq!(rounds.backlog(100.0, Span::from_millis(90)), 0.0);
        for (ms, expected) in [(100, 0.0), (125, 20.0), (200, 50.0)] {
            assert!((rounds.backlog(100.0, Span::from_millis(ms)) - expected).abs() < 1e-9);
        }
    }
}
