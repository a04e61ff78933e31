//! LEDBAT's two filters: the base delay over minutes, and the current delay.

use longhaul_units::{Span, Time};

/// Number of minutes for which the smallest delay is kept (RFC 6817, section 2.5: BASE_HISTORY).
pub(super) const HISTORY: usize = 10;
const MINUTE: Span = Span::from_secs(60);
/// Number of samples whose minimum is the current delay (draft, section 4.5; RFC 6817, section 2.5: CURRENT_FILTER).
const RECENT: usize = 4;
/// Largest divisor of the gain (draft, section 4.1).
const MOST_DIVISOR: u64 = 16;

/// Base and current delay, of the round trip or one way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    /// Smallest delay of each minute, the current minute first.
    pub(super) minutes: [Span; HISTORY],
    /// Smallest delay of the earlier minutes.
    older: Span,
    began: Option<Time>,
    recent: [(Time, Span); RECENT],
    newest: usize,
}

impl Delays {
    /// Adds a sample of `delay` at `now`, which never decreases. Returns whether it is the first of its minute.
    pub(crate) fn sample(&mut self, now: Time, delay: Span) -> bool {
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

    /// Starts as many minutes as have passed. A minute without samples counts as infinite (RFC 6817, section 2.4.2).
    fn roll_over(&mut self, now: Time, began: Time) {
        let passed = now.since(began).as_nanos() / MINUTE.as_nanos();
        for _ in 0..passed.min(HISTORY as u64) {
            self.minutes.rotate_right(1);
            self.minutes[0] = Span::MAX;
        }
        self.older = self.minutes.into_iter().min().unwrap_or(Span::MAX);
        self.began = Some(began + MINUTE * passed);
    }

    /// Returns the delay without queues: the minimum of the last ten minutes.
    pub(crate) fn base(&self) -> Option<Span> {
        Some(self.older.min(self.minutes[0])).filter(|base| *base < Span::MAX)
    }

    /// Returns the minimum of the last four delays, without those more than `age` before the newest.
    pub(crate) fn current(&self, age: Span) -> Option<Span> {
        let (now, _) = *self.recent.get(self.newest)?;
        let fresh = |(at, delay): &(Time, Span)| if now.since(*at) <= age { *delay } else { Span::MAX };
        self.recent.iter().map(fresh).min().filter(|least| *least < Span::MAX)
    }

    /// Returns the current queueing delay in seconds, if the delays are RTTs: the minimum of the last four, without
    /// those more than one RTT ago, minus the base. It is zero before the first sample.
    pub(crate) fn queueing(&self) -> f64 {
        let current = self.newest().and_then(|(_, newest)| self.current(newest));
        current.zip(self.base()).map_or(0.0, |(current, base)| (current - base).as_secs_f64())
    }

    pub(super) fn newest(&self) -> Option<(Time, Span)> {
        self.began.and(self.recent.get(self.newest)).copied()
    }

    /// Returns the increase relative to NewReno's: `1 / min(16, ceil(2 target / base))` (draft, section 4.1). A flow
    /// over a short path has more round trips per second; the gain keeps it from growing faster than it can detect
    /// its queue.
    pub(crate) fn gain(&self, target: Span) -> f64 {
        let base = self.base().map_or(1, |base| base.as_nanos().max(1));
        let divisor = (target * 2).as_nanos().div_ceil(base).clamp(1, MOST_DIVISOR);
        1.0 / divisor as f64
    }
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            minutes: [Span::MAX; HISTORY],
            older: Span::MAX,
            began: None,
            recent: [(Time::ZERO, Span::MAX); RECENT],
            newest: 0,
        }
    }
}
