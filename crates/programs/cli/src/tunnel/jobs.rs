//! Connections that wait for a tunnel, and tunnels that wait for a connection.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use super::{Client, Frame, Reason, Target, Tunnel, TunnelError};
use crate::monitor::Monitor;
use crate::sync::lock;

/// A connection to be forwarded.
pub(crate) struct Job {
    pub(crate) local: Client,
    pub(crate) target: Target,
}

/// Assigns each connection to the idle tunnel that was used last, because its window fits the path best.
pub(crate) struct Jobs {
    state: Mutex<State>,
    /// Maximum number of waiting connections, and maximum time that they wait.
    most: usize,
    patience: Duration,
    monitor: Arc<Monitor>,
    /// Notified when a tunnel has become busy or a connection waits.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct State {
    idle: Vec<Idle>,
    waiting: VecDeque<(u64, Job)>,
    /// Number of the latest connection that had to wait.
    latest: u64,
    is_closed: bool,
}

struct Idle {
    jobs: oneshot::Sender<Job>,
    probe: Arc<Notify>,
}

impl Jobs {
    /// Creates a queue in which at most `most` connections wait for at most `patience`.
    pub(crate) fn new(most: usize, patience: Duration, monitor: &Arc<Monitor>) -> Self {
        Self { state: Mutex::default(), most, patience, monitor: Arc::clone(monitor), changed: Notify::new() }
    }

    /// Returns the numbers of idle tunnels and of waiting connections.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = lock(&self.state);
        (state.idle.len(), state.waiting.len())
    }

    /// Resets all waiting connections, and accepts no more.
    pub(crate) fn close(&self) {
        *lock(&self.state) = State { is_closed: true, ..State::default() };
    }

    /// Assigns a connection to an idle tunnel, or queues it. If none becomes free in time, the connection is returned.
    pub(crate) async fn submit(&self, mut job: Job) -> Option<Job> {
        let number = {
            let mut state = lock(&self.state);
            while let Some(idle) = state.idle.pop() {
                match idle.jobs.send(job) {
                    Ok(()) => {
                        self.changed.notify_one();
                        return None;
                    }
                    // The tunnel has just ended.
                    Err(back) => job = back,
                }
            }
            if state.waiting.len() >= self.most || state.is_closed {
                drop(state);
                self.monitor.refuse(Reason::Crowded);
                return None;
            }
            state.latest += 1;
            let number = state.latest;
            state.waiting.push_back((number, job));
            number
        };
        self.changed.notify_one();
        sleep(self.patience).await;
        let (_, late) = {
            let mut state = lock(&self.state);
            let at = state.waiting.iter().position(|(waiting, _)| *waiting == number);
            at.and_then(|at| state.waiting.remove(at))?
        };
        self.monitor.refuse(Reason::Crowded);
        Some(late)
    }

    /// Waits for a connection. Returns `None` if the tunnel ends in order, or when `leave` completes. If the peer does
    /// not answer a probe within `suspect`, the tunnel has failed.
    pub(crate) async fn next<S: AsyncRead + AsyncWrite + Unpin>(
        self: &Arc<Self>,
        tunnel: &mut Tunnel<S>,
        leave: impl Future<Output = ()>,
        suspect: Duration,
    ) -> Result<Option<Job>, TunnelError> {
        let ((jobs, mut job), probe) = (oneshot::channel(), Arc::new(Notify::new()));
        {
            let mut state = lock(&self.state);
            if let Some((_, job)) = state.waiting.pop_front() {
                return Ok(Some(job));
            }
            state.idle.push(Idle { jobs, probe: Arc::clone(&probe) });
        }
        // `late` completes when the answer to a probe is late.
        let (mut leave, mut late, mut probed) = (pin!(leave), pin!(sleep(suspect)), false);
        let result = loop {
            tokio::select! {
                biased;
                job = &mut job => return Ok(job.ok()),
                () = &mut leave => break Ok(None),
                frame = tunnel.next() => match frame {
                    Ok(Some(Frame::Ping)) => if let Err(error) = tunnel.send(&Frame::Pong).await { break Err(error.into()) },
                    Ok(Some(Frame::Pong)) => probed = false,
                    // A late reset of a stream that has ended.
                    Ok(Some(Frame::Reset { .. })) => {}
                    Ok(Some(Frame::Bye) | None) => break Ok(None),
                    Ok(Some(_)) => break Err(TunnelError::Protocol("a frame is not allowed on an idle tunnel")),
                    Err(error) => break Err(error),
                },
                () = probe.notified(), if !probed => {
                    if let Err(error) = tunnel.send(&Frame::Ping).await { break Err(error.into()) }
                    probed = true;
                    late.set(sleep(suspect));
                }
                () = &mut late, if probed => break Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        };
        lock(&self.state).idle.retain(|idle| !Arc::ptr_eq(&idle.probe, &probe));
        job.close();
        // A connection may have been assigned to this tunnel at the same moment. A peer that has sent `BYE` still
        // serves it; otherwise, another tunnel does.
        match job.try_recv() {
            Ok(job) if tunnel.is_leaving() => return Ok(Some(job)),
            Ok(job) => {
                let jobs = Arc::clone(self);
                tokio::spawn(async move { jobs.submit(job).await });
            }
            Err(_) => {}
        }
        result
    }

    /// Probes the idle tunnel that will be used next.
    pub(crate) fn probe_next(&self) {
        lock(&self.state).idle.last().inspect(|idle| idle.probe.notify_one());
    }

    pub(crate) fn probe_all(&self) {
        lock(&self.state).idle.iter().for_each(|idle| idle.probe.notify_one());
    }
}
