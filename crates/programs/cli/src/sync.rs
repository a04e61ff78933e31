//! Locks and threads.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::JoinError;

/// Locks a mutex. A task that panicked while holding the lock does not prevent others from continuing.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` on a thread that may block.
pub(crate) async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    completed(tokio::task::spawn_blocking(work)).await
}

/// Returns the result of a task, and resumes a panic of the task.
pub(crate) async fn completed<R>(task: impl Future<Output = Result<R, JoinError>>) -> R {
    task.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// Returns the output of a future in a test, and fails if it hangs.
#[cfg(test)]
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(std::time::Duration::from_secs(20), future).await.expect("the future hangs")
}
