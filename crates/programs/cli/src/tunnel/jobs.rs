//! Connections that wait for a tunnel, and tunnels that wait for a connection.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use super::Target;

/// A connection to be forwarded, which was [prepared](super::prepare).
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) local: TcpStream,
    pub(crate) target: Target,
}

/// Gives each connection to an idle tunnel, of which the one used last is used next, because its window fits the path
/// best.
#[derive(Debug)]
pub(crate) struct Jobs {
    state: Mutex<State>,
    /// Maximum number of waiting connections.
    most: usize,
    /// Notified when a tunnel has become busy or a connection waits.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Idle>,
    waiting: VecDeque<(u64, Job)>,
    /// Number of the latest connection that had to wait.
    latest: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Idle {
    jobs: oneshot::Sender<Job>,
    probe: Arc<Notify>,
}

/// Reason why a connection is reset.
#[derive(Debug)]
pub(crate) enum Unserved {
    /// Too many connections wait.
    Full,
    /// No tunnel became free in time for this target.
    Late(Target),
}

/// An idle tunnel, which gets a connection by `job`, and the request to probe it by `probe`.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    jobs: &'a Jobs,
    pub(crate) job: oneshot::Receiver<Job>,
    pub(crate) probe: Arc<Notify>,
}

impl Jobs {
    /// Lets at most `most` connections wait.
    pub(crate) fn new(most: usize) -> Self {
        Self { state: Mutex::default(), most, changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the numbers of idle tunnels and of waiting connections.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.idle.len(), state.waiting.len())
    }

    /// Resets all waiting connections, and accepts no others.
    pub(crate) fn close(&self) {
        *self.state() = State { is_closed: true, ..State::default() };
    }

    /// Gives a connection to an idle tunnel, or lets it wait for one. Returns its number if it waits.
    pub(crate) fn give(&self, mut job: Job) -> Result<Option<u64>, Unserved> {
        let mut state = self.state();
        while let Some(idle) = state.idle.pop() {
            match idle.jobs.send(job) {
                Ok(()) => {
                    self.changed.notify_one();
                    return Ok(None);
                }
                // The tunnel has just ended.
                Err(back) => job = back,
            }
        }
        if state.waiting.len() >= self.most || state.is_closed {
            return Err(Unserved::Full);
        }
        state.latest += 1;
        let number = state.latest;
        state.waiting.push_back((number, job));
        self.changed.notify_one();
        Ok(Some(number))
    }

    /// Does the same as [`give`](Self::give), and waits until the connection has a tunnel, for at most `patience`.
    pub(crate) async fn submit(&self, job: Job, patience: Duration) -> Result<(), Unserved> {
        let Some(number) = self.give(job)? else { return Ok(()) };
        sleep(patience).await;
        let mut state = self.state();
        let at = state.waiting.iter().position(|(waiting, _)| *waiting == number);
        match at.and_then(|at| state.waiting.remove(at)) {
            Some((_, late)) => Err(Unserved::Late(late.target)),
            None => Ok(()),
        }
    }

    /// Takes the next waiting connection. If there is none, the tunnel is idle from now on.
    pub(crate) fn next(&self) -> Result<Job, Turn<'_>> {
        let mut state = self.state();
        if let Some((_, job)) = state.waiting.pop_front() {
            return Ok(job);
        }
        let ((jobs, job), probe) = (oneshot::channel(), Arc::new(Notify::new()));
        state.idle.push(Idle { jobs, probe: Arc::clone(&probe) });
        Err(Turn { jobs: self, job, probe })
    }

    /// Probes the idle tunnel that will be used next.
    pub(crate) fn probe_next(&self) {
        self.state().idle.last().inspect(|idle| idle.probe.notify_one());
    }

    pub(crate) fn probe_all(&self) {
        self.state().idle.iter().for_each(|idle| idle.probe.notify_one());
    }
}

impl Turn<'_> {
    /// Ends the turn. Returns a connection that was given to the tunnel at the same moment.
    pub(crate) fn end(mut self) -> Option<Job> {
        self.jobs.state().idle.retain(|idle| !Arc::ptr_eq(&idle.probe, &self.probe));
        self.job.close();
        self.job.try_recv().ok()
    }
}
