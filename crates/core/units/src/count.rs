//! Counts with a niche: the value zero is never stored, so an `Option` of a quantity is no larger than the quantity.

use core::num::NonZero;

/// Integer from zero to `u64::MAX - 1`, stored as its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Count(NonZero<u64>);

impl Count {
    pub(crate) const ZERO: Self = Self(NonZero::<u64>::MIN);
    pub(crate) const MAX: Self = Self(NonZero::<u64>::MAX);

    /// Creates the count `value`, or [`MAX`](Self::MAX) for a larger value.
    pub(crate) const fn new(value: u64) -> Self {
        Self(NonZero::<u64>::MIN.saturating_add(value))
    }

    pub(crate) const fn get(self) -> u64 {
        self.0.get() - 1
    }
}

impl Default for Count {
    fn default() -> Self {
        Self::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Span, Time};

    #[test]
    fn counts_are_kept_and_ordered_up_to_the_maximum() {
        let values = [0, 1, 2, u64::MAX / 2, u64::MAX - 2, u64::MAX - 1];
        assert_eq!(values.map(|value| Count::new(value).get()), values);
        assert!(values.map(Count::new).is_sorted());
        assert_eq!((Count::new(u64::MAX), Count::default().get()), (Count::MAX, 0));
    }

    #[test]
    fn absence_takes_no_memory() {
        assert_eq!([size_of::<Option<Time>>(), size_of::<Option<Span>>()], [8; 2]);
    }
}
