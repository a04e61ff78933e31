//! When streams begin and end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::protocol::Params;
use crate::report::Stopwatch;

/// When a stream begins and ends.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Runs since the start.
    pub clock: Stopwatch,
    /// How long a peer is waited for at the end.
    pub patience: Duration,
    /// How long a receiver waits for data.
    pub idle: Duration,
    omit: f64,
    seconds: Option<f64>,
    budget: Arc<Budget>,
    /// Whether what is sent counts already.
    counting: Arc<AtomicBool>,
    cancelled: Arc<AtomicBool>,
    /// Becomes true when somebody wants the end before its time.
    stop: Arc<watch::Sender<bool>>,
}

impl Timing {
    /// Starts the clock of a test.
    #[must_use]
    pub fn start(params: &Params, (patience, idle): (Duration, Duration)) -> Self {
        Self {
            clock: Stopwatch::start(),
            patience,
            idle,
            omit: params.omit.into(),
            seconds: (params.bytes.is_none() && params.seconds > 0.0).then_some(params.seconds),
            budget: Arc::new(Budget::new(params.bytes)),
            counting: Arc::new(AtomicBool::new(params.omit == 0)),
            cancelled: Arc::default(),
            stop: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Seconds since the start.
    #[must_use]
    pub fn elapsed(&self) -> f64 {
        self.clock.elapsed().as_secs_f64()
    }

    /// Whether it is a time, or the user, that ends the test, not a number of bytes.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.seconds.is_some() || self.budget.0.is_none()
    }

    /// Ends the test now: senders stop.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Whether it was ended so.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the time is up, or the test is ended before; without a time, for the latter.
    pub async fn over(&self) {
        let mut stop = self.stop.subscribe();
        let left = self.left().unwrap_or(Duration::MAX);
        tokio::select! {
            () = tokio::time::sleep(left) => {}
            // The other end of the channel is here.
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    /// When that is, in seconds after the start.
    #[must_use]
    pub fn end(&self) -> Option<f64> {
        self.seconds.map(|seconds| self.omit + seconds)
    }

    /// How long until then.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        self.end().map(|end| Duration::from_secs_f64((end - self.elapsed()).max(0.0)))
    }

    /// Up to `most` of the bytes that are to be sent; what is omitted does not count. 0 when there are none left.
    #[must_use]
    pub fn take(&self, most: usize) -> usize {
        if self.counting.load(Ordering::Relaxed) { self.budget.take(most) } else { most }
    }

    /// Whether the test has failed meanwhile.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// What is sent from now on counts.
    pub fn count_from_now(&self) {
        self.counting.store(true, Ordering::Relaxed);
    }

    /// Cancels the test when the result is dropped: threads do not end with their task.
    #[must_use]
    pub fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(Arc::clone(&self.cancelled))
    }
}

/// Of [`Timing::cancel_on_drop`].
#[derive(Debug)]
pub struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Bytes that are still to be sent by all streams of one direction.
#[derive(Debug)]
struct Budget(Option<AtomicU64>);

impl Budget {
    /// So many, or no end.
    fn new(bytes: Option<u64>) -> Self {
        Self(bytes.map(AtomicU64::new))
    }

    /// Up to `most` of them; 0 when there are none.
    fn take(&self, most: usize) -> usize {
        let Some(left) = &self.0 else { return most };
        let taken =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(most as u64)));
        taken.map_or(0, |left| left.min(most as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_to_the_byte() {
        let budget = Budget::new(Some(250));
        assert_eq!([100, 100, 100, 100].map(|most| budget.take(most)), [100, 100, 50, 0]);
        assert_eq!(Budget::new(None).take(7), 7);
    }
}
