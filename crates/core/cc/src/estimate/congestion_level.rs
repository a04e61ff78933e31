//! Congestion level of a path: the queueing delay relative to that at past losses.

use longhaul_units::Span;

use super::WindowedMin;
use crate::Ack;

/// Gap between the minimum RTT and that at losses below which the noise of the clock dominates: the larger of 1 ms and
/// this fraction of the minimum RTT.
const NOISE: (f64, f64) = (0.001, 0.02);
/// Number of queued segments at which an unknown path counts as congested (Veno's beta).
const BACKLOG: f64 = 3.0;
/// A loss below this fraction of the queueing delay at losses counts as random, and does not update the level.
const RANDOM: f64 = 0.5;
/// Number of consecutive random losses after which the buffer is assumed to have shrunk, or the route to have changed.
const PATIENCE: u32 = 20;

/// Number of samples whose minimum is the current RTT. Waiting for a processor, a radio or other packets of the same
/// burst delays single packets, while a queue delays all of them.
const RECENT: usize = 8;

/// Congestion level `c = (RTT - RTTmin) / (RTTcong - RTTmin)`, 0 to 1, where RTTcong is the moving average of the
/// RTTs just before losses (Shimonishi, Sanadidi, Gerla; quoted by Gerla et al., PFLDnet 2006).
///
/// RTT is the minimum of the last eight samples, because a single one depends more on the host's scheduling than on
/// the queue.
///
/// Losses that seem random do not lower RTTcong. After twenty of them in a row it moves towards their largest RTT.
///
/// RTTmin may have a limited lifetime, such as a minute, instead of that of the connection. If it then rises by more
/// than noise, the route has changed, and RTTcong is measured anew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CongestionLevel {
    keep: f64,
    least: WindowedMin,
    recent: [Span; RECENT],
    next: usize,
    congested: Option<f64>,
    random: u32,
    random_max: f64,
}

impl CongestionLevel {
    /// Creates an estimate whose RTTcong keeps `keep` (0 to 1) of its old value at a loss, and whose RTTmin never
    /// expires.
    #[must_use]
    pub const fn new(keep: f64) -> Self {
        let least = WindowedMin::new(Span::MAX);
        Self { keep, least, recent: [Span::MAX; RECENT], next: 0, congested: None, random: 0, random_max: 0.0 }
    }

    /// Sets the lifetime of RTTmin to `window`.
    #[must_use]
    pub const fn with_rtt_min_window(mut self, window: Span) -> Self {
        self.least.set_window(window);
        self
    }

    /// Processes an ACK.
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

    /// Returns the minimum RTT of the window, if there is one.
    #[must_use]
    pub fn rtt_min(&self) -> Option<Span> {
        self.least.get()
    }

    /// Returns the current RTT in seconds; valid only after a sample.
    fn latest(&self) -> f64 {
        self.recent.into_iter().min().unwrap_or(Span::ZERO).as_secs_f64()
    }

    /// Returns RTTmin in seconds.
    fn least(&self) -> Option<f64> {
        self.least.get().map(Span::as_secs_f64)
    }

    /// Processes a loss that follows the last samples. The level must be queried before.
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

    /// Returns RTTcong - RTTmin, the delay of a full buffer, in seconds, if it is known and exceeds noise.
    #[must_use]
    pub fn gap(&self) -> Option<f64> {
        let (least, congested) = (self.least()?, self.congested?);
        Some(congested - least).filter(|gap| *gap >= noise(least))
    }

    /// Returns the current level for a window of `segments`. If the gap is unknown, it is 1 if three segments are
    /// queued, and otherwise 0.
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

/// Returns whether the rise of the minimum RTT from `before` to `least` exceeds noise.
fn is_another_route(before: Span, least: Span) -> bool {
    let before = before.as_secs_f64();
    least.as_secs_f64() - before >= noise(before)
}

/// Returns the difference of two RTTs that counts as noise if the minimum RTT is `least`, in seconds.
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

    /// Adds samples of `ms` at second `secs`.
    fn feed_at(level: &mut CongestionLevel, secs: u64, ms: u64) {
        let mut ack = Ack::new(Time::ZERO + Span::from_secs(secs));
        ack.rtt = Some(RttSample { rtt: Span::from_millis(ms), sent_at: Time::ZERO });
        for _ in 0..RECENT {
            level.on_ack(&ack);
        }
    }

    /// Path of Gerla et al., PFLDnet 2006: 133 ms, and 148 ms at losses.
    fn known() -> CongestionLevel {
        let mut level = CongestionLevel::new(0.85);
        feed(&mut level, 133);
        feed(&mut level, 148);
        level.on_loss();
        level
    }

    /// One sample without the queue among seven of a full one means that there is none, because a queue delays all
    /// packets.
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

    /// The moving average keeps 0.85 and adds 0.15.
    #[test]
    fn losses_move_the_average() {
        let mut level = known();
        feed(&mut level, 158);
        level.on_loss();
        assert!((level.gap().expect("known") - 0.0165).abs() < 1e-9, "{:?}", level.gap());
    }

    /// Random losses at 133 to 140 ms among those at 148 ms do not change the average.
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

    /// A buffer that shrank from 15 to 5 ms is detected after some hundred losses.
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

    /// The route becomes longer by more than the delay of the buffer. If RTTmin never expires, every loss counts as
    /// congestion from then on. If it expires, the level after the window is that of the new route: 133 + 60 and 148
    /// + 60 ms.
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

    /// The route becomes longer by less than the delay of the buffer, 4 of 15 ms. RTTcong of the old route is
    /// dropped, and the next loss sets it anew.
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

    /// Without a gap, or with one of half a millisecond, three queued segments decide.
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
