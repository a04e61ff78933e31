//! LEDBAT's two filters: the base delay by minutes, and the delay now.

use longhaul_units::{Span, Time};

/// Minutes whose least delays are kept (RFC 6817, section 2.5: BASE_HISTORY).
pub(super) const HISTORY: usize = 10;
const MINUTE: Span = Span::from_secs(60);
/// The delay now is the least of so many samples (draft, section 4.5; RFC 6817, section 2.5: CURRENT_FILTER).
const RECENT: usize = 4;
/// The greatest divisor of the gain (draft, section 4.1).
const MOST_DIVISOR: u64 = 16;

/// Base and current delay, of a round trip or one way.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// The running minute's least first.
    minutes: [Span; HISTORY],
    /// The least of the others.
    older: Span,
    /// When it began.
    began: Option<Time>,
    recent: [(Time, Span); RECENT],
    /// Which of them is the newest.
    newest: usize,
}

impl Delays {
    /// No sample yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            minutes: [Span::MAX; HISTORY],
            older: Span::MAX,
            began: None,
            recent: [(Time::ZERO, Span::MAX); RECENT],
            newest: 0,
        }
    }

    /// A delay of `delay`, seen at `now`, which never goes back. Whether it is the first of its minute.
    pub fn sample(&mut self, now: Time, delay: Span) -> bool {
        let began = *self.began.get_or_insert(now);
        let rolls = now.since(began) >= MINUTE;
        if rolls {
            self.roll_over(now, began);
        }
        self.minutes[0] = self.minutes[0].min(delay);
        self.newest = (self.newest + 1) % RECENT;
        if let Some(newest) = self.recent.get_mut(self.newest) {
            *newest = (now, delay);
        }
        rolls
    }

    /// The least delay of each minute, the running one's first; [`Span::MAX`] for one without a sample.
    pub(super) const fn minutes(&self) -> &[Span; HISTORY] {
        &self.minutes
    }

    /// Begins as many minutes as have passed. One without a sample counts as infinite (RFC 6817, section 2.4.2).
    fn roll_over(&mut self, now: Time, began: Time) {
        let passed = now.since(began).as_nanos() / MINUTE.as_nanos();
        for _ in 0..passed.min(HISTORY as u64) {
            self.minutes.rotate_right(1);
            self.minutes[0] = Span::MAX;
        }
        self.older = self.minutes.into_iter().min().unwrap_or(Span::MAX);
        self.began = Some(began + MINUTE * passed);
    }

    /// The delay without queues: the least of the last ten minutes.
    #[must_use]
    pub fn base(&self) -> Option<Span> {
        Some(self.older.min(self.minutes[0])).filter(|base| *base < Span::MAX)
    }

    /// The least of the last four delays, but none from more than `age` before the newest of them.
    #[must_use]
    pub fn current(&self, age: Span) -> Option<Span> {
        let (now, _) = *self.recent.get(self.newest)?;
        let fresh = |(at, delay): &(Time, Span)| if now.since(*at) <= age { *delay } else { Span::MAX };
        self.recent.iter().map(fresh).min().filter(|least| *least < Span::MAX)
    }

    /// The queueing delay now, in seconds, where the delays are round trips: the least of the last four, but none from more
    /// than one of them ago, less the base. Zero before the first sample.
    #[must_use]
    pub fn queueing(&self) -> f64 {
        let current = self.newest().and_then(|(_, newest)| self.current(newest));
        current.zip(self.base()).map_or(0.0, |(current, base)| (current - base).as_secs_f64())
    }

    /// The newest delay and when it was seen.
    pub(super) fn newest(&self) -> Option<(Time, Span)> {
        self.began.and(self.recent.get(self.newest)).copied()
    }

    /// How fast the window rises beside NewReno's: `1 / min(16, ceil(2 target / base))` (draft, section 4.1), so that
    /// a short path's flow, which has more round trips a second, rises no faster than its queue can be seen to.
    #[must_use]
    pub fn gain(&self, target: Span) -> f64 {
        let base = self.base().map_or(1, |base| base.as_nanos().max(1));
        let divisor = (target * 2).as_nanos().div_ceil(base).clamp(1, MOST_DIVISOR);
        1.0 / divisor as f64
    }
}

impl Default for Delays {
    fn default() -> Self {
        Self::new()
    }
}
