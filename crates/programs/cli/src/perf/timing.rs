//! Start and end of streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::protocol::Params;
use crate::files::hashing::Stop;
use crate::report::Stopwatch;

/// Times at which a stream starts and ends.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    pub(crate) clock: Stopwatch,
    /// Maximum time to wait for the peer at the end.
    pub(crate) patience: Duration,
    /// Maximum time that a receiver waits for data.
    pub(crate) idle: Duration,
    /// Maximum duration of the test; `None` is unlimited.
    pub(crate) limit: Option<Duration>,
    omit: f64,
    seconds: Option<f64>,
    /// Remaining bytes to be sent by all streams of one direction together; `None` is unlimited.
    budget: Option<Arc<AtomicU64>>,
    /// Whether sent bytes count. They do not during the omitted time.
    counting: Arc<AtomicBool>,
    /// Whether the test has failed. Threads, which do not end with their task, have to check it.
    pub(crate) cancelled: Stop,
    stop: Arc<watch::Sender<bool>>,
}

impl Timing {
    pub(crate) fn start(params: &Params, (patience, idle): (Duration, Duration), limit: Option<Duration>) -> Self {
        Self {
            clock: Stopwatch::start(),
            patience,
            idle,
            limit,
            omit: params.omit.into(),
            seconds: (params.bytes.is_none() && params.seconds > 0.0).then_some(params.seconds),
            budget: params.bytes.map(|bytes| Arc::new(AtomicU64::new(bytes))),
            counting: Arc::new(AtomicBool::new(params.omit == 0)),
            cancelled: Stop::default(),
            stop: Arc::new(watch::Sender::new(false)),
        }
    }

    pub(crate) fn elapsed(&self) -> f64 {
        self.clock.elapsed().as_secs_f64()
    }

    /// Returns whether a duration or the user ends the test, rather than a number of bytes.
    pub(crate) fn is_timed(&self) -> bool {
        self.seconds.is_some() || self.budget.is_none()
    }

    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the duration is over or the test is stopped. Without a duration, waits until it is stopped.
    pub(crate) async fn over(&self) {
        let mut stop = self.stop.subscribe();
        let left = self.left().unwrap_or(Duration::MAX);
        tokio::select! {
            () = tokio::time::sleep(left) => {}
            // Cannot fail: `self` holds the sender of the channel.
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    /// Returns the end of the duration in seconds after the start.
    pub(crate) fn end(&self) -> Option<f64> {
        self.seconds.map(|seconds| self.omit + seconds)
    }

    /// Returns the time left until [`end`](Self::end).
    pub(crate) fn left(&self) -> Option<Duration> {
        self.end().map(|end| Duration::from_secs_f64((end - self.elapsed()).max(0.0)))
    }

    /// Takes up to `most` of the remaining bytes to be sent, or 0 if none remain. Bytes in the omitted time are not
    /// limited.
    pub(crate) fn take(&self, most: usize) -> usize {
        let Some(left) = self.budget.as_ref().filter(|_| self.counting.load(Ordering::Relaxed)) else { return most };
        let taken =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(most as u64)));
        taken.map_or(0, |left| left.min(most as u64) as usize)
    }

    pub(crate) fn count_from_now(&self) {
        self.counting.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_to_the_byte() {
        let timing = |params| Timing::start(&params, (Duration::ZERO, Duration::ZERO), None);
        let limited = timing(Params { bytes: Some(250), ..Params::default() });
        assert_eq!([100, 100, 100, 100].map(|most| limited.take(most)), [100, 100, 50, 0]);
        assert_eq!(timing(Params::default()).take(7), 7);
        // Bytes in the omitted time do not count.
        let omitting = timing(Params { bytes: Some(250), omit: 1, ..Params::default() });
        assert_eq!([omitting.take(300), omitting.take(300)], [300; 2]);
        omitting.count_from_now();
        assert_eq!(omitting.take(300), 250);
    }
}
