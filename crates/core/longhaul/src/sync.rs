//! The mutex of this crate.
//!
//! Poisoning is ignored: the only foreign code that runs under a lock is that of the application's buffers, which the
//! engine calls where it is consistent (`docs/decisions/0065-the-applications-code-under-the-lock.md`).

#[cfg(shuttle)]
use shuttle::sync as base;
#[cfg(not(shuttle))]
use std::sync as base;
use std::sync::{PoisonError, TryLockError};

pub(crate) use base::MutexGuard;
#[cfg(target_os = "linux")]
pub(crate) use base::atomic;

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(base::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(base::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the mutex if this is possible without waiting.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
