//! Maximum or minimum of a sliding window in constant space and time: Kathleen Nichols' algorithm, as in Linux's
//! `win_minmax.c`.
//!
//! Three samples are kept, each the best of those after the previous one. When the first leaves the window, the second
//! replaces it. To keep the three from all being at the start of the window, the second is renewed after a quarter of
//! the window without a better sample, and the third after half of it. The result is always a sample of the window, and
//! no later sample is better; an earlier one that was better may expire early.

use longhaul_units::{Span, Time};

/// Maximum of a window's samples. Positions are in any unit of the caller, such as rounds or probing cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowedMax(Best<f64>);

impl WindowedMax {
    /// Creates a filter whose samples count until more than `window` positions have passed.
    #[must_use]
    pub const fn new(window: u64) -> Self {
        Self(Best::new(window))
    }

    /// Sets the window from the next sample on.
    pub const fn set_window(&mut self, window: u64) {
        self.0.window = window;
    }

    /// Adds a sample at position `at`, which never decreases, and returns the maximum.
    pub fn update(&mut self, at: u64, value: f64) -> f64 {
        self.0.update(at, value, |one, other| one >= other)
    }

    /// Returns the maximum as of the newest sample, if there was one.
    #[must_use]
    pub fn get(&self) -> Option<f64> {
        self.0.get()
    }
}

/// Minimum of the time spans sampled in a window of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowedMin(Best<Span>);

impl WindowedMin {
    /// Creates a filter whose samples count until more than `window` has passed.
    #[must_use]
    pub const fn new(window: Span) -> Self {
        Self(Best::new(window.as_nanos()))
    }

    /// Sets the window from the next sample on.
    pub const fn set_window(&mut self, window: Span) {
        self.0.window = window.as_nanos();
    }

    /// Adds a sample at `now`, which never decreases, and returns the minimum.
    pub fn update(&mut self, now: Time, value: Span) -> Span {
        self.0.update(now.as_nanos(), value, |one, other| one <= other)
    }

    /// Returns the minimum as of the newest sample, if there was one.
    #[must_use]
    pub fn get(&self) -> Option<Span> {
        self.0.get()
    }
}

/// Sample with its position.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pick<V> {
    at: u64,
    value: V,
}

/// The three samples kept, best and oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Best<V> {
    window: u64,
    picks: Option<[Pick<V>; 3]>,
}

impl<V: Copy> Best<V> {
    const fn new(window: u64) -> Self {
        Self { window, picks: None }
    }

    fn get(&self) -> Option<V> {
        self.picks.map(|[first, ..]| first.value)
    }

    fn update(&mut self, at: u64, value: V, no_worse: impl Fn(V, V) -> bool) -> V {
        let new = Pick { at, value };
        let picks = match self.picks {
            Some([first, second, third]) if !no_worse(value, first.value) && !self.is_past(third, at) => {
                let kept = if no_worse(value, second.value) {
                    [first, new, new]
                } else if no_worse(value, third.value) {
                    [first, second, new]
                } else {
                    [first, second, third]
                };
                self.renew(kept, new)
            }
            _ => [new; 3],
        };
        self.picks = Some(picks);
        picks[0].value
    }

    fn is_past(&self, pick: Pick<V>, at: u64) -> bool {
        at.saturating_sub(pick.at) > self.window
    }

    /// Drops samples that have left the window, and spreads the others over it.
    fn renew(&self, [first, second, third]: [Pick<V>; 3], new: Pick<V>) -> [Pick<V>; 3] {
        let age = new.at.saturating_sub(first.at);
        if age > self.window {
            let next = [second, third, new];
            return if self.is_past(second, new.at) { [third, new, new] } else { next };
        }
        if second.at == first.at && age > self.window / 4 {
            [first, new, new]
        } else if third.at == second.at && age > self.window / 2 {
            [first, second, new]
        } else {
            [first, second, third]
        }
    }
}

#[cfg(test)]
mod tests;
