//! Parts of a connection that need memory only while data is on its way.

use std::cell::OnceCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A part of which few values remain when it is empty.
pub(crate) trait Reclaim {
    /// These values.
    type Kept: Copy + fmt::Debug;

    /// Frees memory that recent load did not need. Returns what to keep if the part is empty.
    fn rest(&mut self) -> Option<Self::Kept>;

    /// Creates an empty part.
    fn from_kept(kept: Self::Kept) -> Self;
}

/// A part that is dropped while the connection is idle, and made anew when it is used.
pub(crate) struct Reclaimable<T: Reclaim> {
    /// In force while there is no part.
    kept: T::Kept,
    part: OnceCell<Box<T>>,
}

impl<T: Reclaim> Reclaimable<T> {
    pub(crate) const fn new(kept: T::Kept) -> Self {
        Self { kept, part: OnceCell::new() }
    }

    /// Returns whether there is a part.
    pub(crate) fn is_made(&self) -> bool {
        self.get().is_some()
    }

    fn get(&self) -> Option<&T> {
        self.part.get().map(|part| &**part)
    }

    /// Looks at the part, or at what is kept of it. Other accesses make a dropped part anew.
    #[inline]
    pub(crate) fn inspect<R>(&self, part: impl FnOnce(&T) -> R, kept: impl FnOnce(T::Kept) -> R) -> R {
        self.get().map_or_else(|| kept(self.kept), part)
    }

    /// Drops the part if it is empty, and otherwise frees memory that it does not need.
    pub(crate) fn rest(&mut self) {
        if let Some(kept) = self.part.get_mut().and_then(|part| part.rest()) {
            *self = Self::new(kept);
        }
    }
}

impl<T: Reclaim> Deref for Reclaimable<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.part.get_or_init(|| Box::new(T::from_kept(self.kept)))
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
        match self.get() {
            Some(part) => part.fmt(f),
            None => self.kept.fmt(f),
        }
    }
}
