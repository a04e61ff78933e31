//! How close to congestion a path is: the queueing delay over what it was at past losses.

use longhaul_units::Span;

use super::WindowedMin;
use crate::Ack;

/// A gap between the least round trip and that at losses under which the clock's noise rules: a millisecond, or this part
/// of the least round trip.
const NOISE: (f64, f64) = (0.001, 0.02);
/// Segments in the queue from which a path of which nothing is known counts as congested (Veno's beta).
const BACKLOG: f64 = 3.0;
/// A loss at less than this part of the delay that losses had looks random: it says nothing of the buffer.
const RANDOM: f64 = 0.5;
/// So many losses in a row that look random mean that the buffer has shrunk, or that the route is another.
const PATIENCE: u32 = 20;

/// So many samples, of which the least is the round trip now: what waits for a processor, in a radio or for other packets
/// of its own burst delays single packets, and a queue all of them.
const RECENT: usize = 8;

/// The congestion level `c = (RTT - RTTmin) / (RTTcong - RTTmin)`, 0 to 1, where RTTcong is the moving average of the round
/// trips just before losses (Shimonishi, Sanadidi, Gerla; quoted by Gerla et al., PFLDnet 2006).
///
/// RTT is the least of the last eight samples, as a single one says more of a host's scheduling than of a queue.
///
/// Losses that look random don't lower RTTcong. After twenty of them in a row it moves towards the largest of theirs.
///
/// RTTmin may be that of the last minute, say, in place of the connection's. Where it then rises by more than noise, the route
/// is another, and RTTcong, which was the old one's, is learnt anew.
#[derive(Clone, Copy, Debug)]
pub struct CongestionLevel {
    keep: f64,
    least: WindowedMin,
    recent: [Span; RECENT],
    /// Which of them comes next.
    next: usize,
    congested: Option<f64>,
    random: u32,
    random_max: f64,
}

impl CongestionLevel {
    /// An estimate whose RTTcong keeps `keep` (0 to 1) of its old value at a loss, and whose RTTmin is the connection's.
    #[must_use]
    pub const fn new(keep: f64) -> Self {
        let least = WindowedMin::new(Span::MAX);
        Self { keep, least, recent: [Span::MAX; RECENT], next: 0, congested: None, random: 0, random_max: 0.0 }
    }

    /// The same with an RTTmin that is the least of the last `window`.
    #[must_use]
    pub const fn with_rtt_min_window(mut self, window: Span) -> Self {
        self.least.set_window(window);
        self
    }

    /// An ACK came.
    pub fn on_ack(&mut self, ack: &Ack<'_>) {
        if let Some(sample) = ack.rtt {
            self.recent[self.next % RECENT] = sample.rtt;
            self.next = (self.next + 1) % RECENT;
            let before = self.least.get();
            let least = self.least.update(ack.now, sample.rtt);
            if before.is_some_and(|before| least > before && is_another_route(before, least)) {
                (self.congested, self.random, self.random_max) = (None, 0, 0.0);
                self.recent = [sample.rtt; RECENT];
            }
        }
    }

    /// The least round trip of the window, if there was one.
    #[must_use]
    pub fn rtt_min(&self) -> Option<Span> {
        self.least.get()
    }

    /// The round trip now in seconds; only after a sample.
    fn latest(&self) -> f64 {
        self.recent.into_iter().min().unwrap_or(Span::ZERO).as_secs_f64()
    }

    /// RTTmin in seconds.
    fn least(&self) -> Option<f64> {
        self.least.get().map(Span::as_secs_f64)
    }

    /// A loss was found: the last samples are those just before it. Ask for the level first.
    pub fn on_loss(&mut self) {
        let (Some(least), sample) = (self.least(), self.latest()) else {
            return;
        };
        let Some(gap) = self.gap() else {
            self.congested = Some(self.congested.map_or(sample, |old| old.max(sample)));
            return;
        };
        let old = least + gap;
        if sample - least >= RANDOM * gap {
            (self.random, self.random_max) = (0, 0.0);
            self.congested = Some(self.keep * old + (1.0 - self.keep) * sample);
            return;
        }
        (self.random, self.random_max) = (self.random + 1, self.random_max.max(sample));
        if self.random >= PATIENCE {
            self.congested = Some(self.keep * old + (1.0 - self.keep) * self.random_max);
            (self.random, self.random_max) = (0, 0.0);
        }
    }

    /// RTTcong - RTTmin in seconds, if it is known and more than noise: the delay of a full buffer.
    #[must_use]
    pub fn gap(&self) -> Option<f64> {
        let (least, congested) = (self.least()?, self.congested?);
        Some(congested - least).filter(|gap| *gap >= noise(least))
    }

    /// The level now, for a window of `segments`: without a known gap 0 or 1 by whether three segments are in the queue.
    #[must_use]
    pub fn level(&self, segments: f64) -> f64 {
        let Some(least) = self.least() else {
            return 1.0;
        };
        let latest = self.latest();
        match self.gap() {
            Some(gap) => ((latest - least) / gap).clamp(0.0, 1.0),
            None if segments * (latest - least) < BACKLOG * latest => 0.0,
            None => 1.0,
        }
    }
}

/// Whether a least round trip that rose from `before` to `least` rose by more than noise.
fn is_another_route(before: Span, least: Span) -> bool {
    let before = before.as_secs_f64();
    least.as_secs_f64() - before >= noise(before)
}

/// The difference between two round trips that is noise where the least is `least`, all in seconds.
fn noise(least: f64) -> f64 {
    NOISE.0.max(NOISE.1 * least)
}

#[cfg(test)]
mod tests {
    use longhaul_units::{Span, Time};

    use super::*;
    use crate::RttSample;

    fn feed(level: &mut CongestionLevel, ms: u64) {
        feed_at(level, 0, ms);
    }

    /// A sample of `ms` at second `secs`.
    fn feed_at(level: &mut CongestionLevel, secs: u64, ms: u64) {
        let mut ack = Ack::new(Time::ZERO + Span::from_secs(secs));
        ack.rtt = Some(RttSample { rtt: Span::from_millis(ms), sent_at: Time::ZERO });
        for _ in 0..RECENT {
            level.on_ack(&ack);
        }
    }

    /// 133 ms and 148 ms at losses: the path of Gerla et al., PFLDnet 2006.
    fn known() -> CongestionLevel {
        let mut level = CongestionLevel::new(0.85);
        feed(&mut level, 133);
        feed(&mut level, 148);
        level.on_loss();
        level
    }

    /// Seven samples of a full queue among which one without it, and the reverse: a queue delays all packets.
    #[test]
    fn a_late_sample_is_no_queue() {
        let mut level = known();
        feed(&mut level, 133);
        let mut ack = Ack::new(Time::ZERO);
        ack.rtt = Some(RttSample { rtt: Span::from_millis(148), sent_at: Time::ZERO });
        for _ in 1..RECENT {
            level.on_ack(&ack);
            assert_eq!(level.level(900.0), 0.0);
        }
        level.on_ack(&ack);
        assert_eq!(level.level(900.0), 1.0);
    }

    #[test]
    fn the_level_is_the_delay_over_that_at_losses() {
        let mut level = known();
        for (ms, expected) in [(133, 0.0), (136, 0.2), (139, 0.4), (145, 0.8), (148, 1.0), (200, 1.0)] {
            feed(&mut level, ms);
            assert!((level.level(900.0) - expected).abs() < 1e-9, "{ms} ms: {}", level.level(900.0));
        }
    }

    /// The moving average: 0.85 old, 0.15 new.
    #[test]
    fn losses_move_the_average() {
        let mut level = known();
        feed(&mut level, 158);
        level.on_loss();
        assert!((level.gap().expect("known") - 0.0165).abs() < 1e-9, "{:?}", level.gap());
    }

    /// With random losses at 133 to 140 ms among those at 148 ms the average stays.
    #[test]
    fn random_losses_do_not_lower_it() {
        let mut level = known();
        for round in 0..200 {
            for ms in [133, 135, 137, 140] {
                feed(&mut level, ms);
                level.on_loss();
            }
            feed(&mut level, 148);
            level.on_loss();
            assert!((level.gap().expect("known") - 0.015).abs() < 1e-9, "{round}");
        }
    }

    /// A buffer that shrank from 15 to 5 ms is found after some hundred losses.
    #[test]
    fn a_smaller_buffer_is_followed() {
        let mut level = known();
        for _ in 0..400 {
            feed(&mut level, 138);
            level.on_loss();
        }
        assert!(level.gap().expect("known") < 0.0101, "{:?}", level.gap());
        assert!(level.level(900.0) > 0.49);
    }

    /// The route becomes longer by more than the buffer's delay. With the connection's RTTmin every loss is congestion from then
    /// on; with that of a window the level is that of the new route once the window has passed: 133 + 60 and 148 + 60 ms.
    #[test]
    fn a_longer_route_is_learnt_when_the_window_has_passed() {
        for (window, expected) in [(Span::MAX, 1.0), (Span::from_secs(60), 0.2)] {
            let mut level = known().with_rtt_min_window(window);
            for secs in 1..=60 {
                feed_at(&mut level, secs, 193);
                assert_eq!(level.level(900.0), 1.0, "{secs} s");
            }
            for secs in 61..=121 {
                feed_at(&mut level, secs, 193);
            }
            feed_at(&mut level, 122, 208);
            level.on_loss();
            feed_at(&mut level, 123, 196);
            assert!((level.level(900.0) - expected).abs() < 1e-9, "{window}: {}", level.level(900.0));
        }
    }

    /// Longer by less than the buffer's delay, 4 of 15 ms: RTTcong was the old route's, and is that of the next loss.
    #[test]
    fn the_old_round_trip_at_losses_goes_with_the_old_route() {
        let mut level = known().with_rtt_min_window(Span::from_secs(10));
        for secs in 1..=30 {
            feed_at(&mut level, secs, 137);
        }
        assert_eq!(level.gap(), None);
        assert_eq!(level.level(900.0), 0.0, "no queue");
        feed_at(&mut level, 31, 152);
        level.on_loss();
        assert!((level.gap().expect("known") - 0.015).abs() < 1e-9, "{:?}", level.gap());
    }

    /// Nothing known, or a gap of half a millisecond: three segments in the queue decide.
    #[test]
    fn without_a_gap_the_backlog_decides() {
        let mut level = CongestionLevel::new(0.85);
        assert_eq!(level.level(100.0), 1.0, "no sample at all");
        feed(&mut level, 100);
        assert_eq!(level.level(100.0), 0.0);
        level.on_loss();
        assert_eq!(level.gap(), None);
        feed(&mut level, 102);
        assert_eq!(level.level(100.0), 0.0);
        feed(&mut level, 104);
        assert_eq!(level.level(100.0), 1.0);
    }
}
