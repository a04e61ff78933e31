//! Parts of a connection that need memory only while data is in flight.

use std::cell::OnceCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Part that can be created from a few values.
pub(crate) trait Reclaim {
    type Kept: fmt::Debug;

    fn from_kept(kept: &Self::Kept) -> Self;
}

/// Part that is dropped while the connection is idle, and created again on use.
pub(crate) struct Reclaimable<T: Reclaim> {
    /// Values from which the part is created while it is absent.
    pub(crate) kept: T::Kept,
    part: OnceCell<Box<T>>,
}

impl<T: Reclaim> Reclaimable<T> {
    pub(crate) const fn new(kept: T::Kept) -> Self {
        Self { kept, part: OnceCell::new() }
    }

    /// Returns the part if it exists. Other accesses create a dropped part again.
    #[inline]
    pub(crate) fn made(&self) -> Option<&T> {
        self.part.get().map(|part| &**part)
    }

    #[inline]
    pub(crate) fn made_mut(&mut self) -> Option<&mut T> {
        self.part.get_mut().map(|part| &mut **part)
    }

    /// Lets the part free memory that recent load did not need. The part is dropped if `rest` reports that it is
    /// dispensable and has stored the values to keep.
    pub(crate) fn rest(&mut self, rest: impl FnOnce(&mut T, &mut T::Kept) -> bool) {
        if self.part.get_mut().is_some_and(|part| rest(part, &mut self.kept)) {
            self.part.take();
        }
    }
}

impl<T: Reclaim<Kept: Default>> Default for Reclaimable<T> {
    fn default() -> Self {
        Self::new(T::Kept::default())
    }
}

impl<T: Reclaim> Deref for Reclaimable<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.part.get_or_init(|| Box::new(T::from_kept(&self.kept)))
    }
}

impl<T: Reclaim> DerefMut for Reclaimable<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        if self.part.get().is_none() {
            let _: &T = self;
        }
        match self.part.get_mut() {
            Some(part) => part,
            None => unreachable!("it was made before"),
        }
    }
}

impl<T: Reclaim + fmt::Debug> fmt::Debug for Reclaimable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.made() {
            Some(part) => part.fmt(f),
            None => self.kept.fmt(f),
        }
    }
}
