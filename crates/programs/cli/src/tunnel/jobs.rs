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
    /// Whether other tunnels have failed since this one was known to work. It gets no connection until it answers.
    is_suspect: bool,
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

    /// Assigns a connection to an idle tunnel, or queues it. If none becomes free in time or too many wait already, the
    /// connection is returned.
    pub(crate) async fn submit(&self, mut job: Job) -> Option<Job> {
        let number = {
            let mut state = lock(&self.state);
            while let Some(at) = state.idle.iter().rposition(|idle| !idle.is_suspect) {
                let idle = state.idle.remove(at);
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
                let is_closed = state.is_closed;
                drop(state);
                self.monitor.refuse(Reason::Crowded);
                return (!is_closed).then_some(job);
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
            state.idle.push(Idle { jobs, probe: Arc::clone(&probe), is_suspect: false });
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
                    Ok(Some(Frame::Pong)) => {
                        probed = false;
                        if let Some(job) = self.trust(&probe) { return Ok(Some(job)) }
                    }
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

    /// Probes all idle tunnels, and uses none before it has answered.
    pub(crate) fn suspect_all(&self) {
        for idle in &mut lock(&self.state).idle {
            idle.is_suspect = true;
            idle.probe.notify_one();
        }
    }

    /// Uses an idle tunnel again, which has answered. Returns a connection for it if one waits.
    fn trust(&self, probe: &Arc<Notify>) -> Option<Job> {
        let mut state = lock(&self.state);
        let at = state.idle.iter().position(|idle| Arc::ptr_eq(&idle.probe, probe))?;
        match state.waiting.pop_front() {
            Some((_, job)) => {
                state.idle.remove(at);
                Some(job)
            }
            None => {
                state.idle.get_mut(at)?.is_suspect = false;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Role;
    use crate::sync::soon;

    #[tokio::test]
    async fn idle_tunnels_have_to_answer_after_the_failure_of_another_one() {
        let jobs = Arc::new(Jobs::new(8, Duration::from_secs(60), &Monitor::new(Role::Gateway)));
        let (near, far) = tokio::io::duplex(4096);
        let (near, far) = tokio::join!(Tunnel::start(near), Tunnel::start(far));
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        let mut next = async || {
            let all = Arc::clone(&jobs);
            all.next(&mut near, std::future::pending(), Duration::from_secs(60)).await.unwrap().is_some()
        };
        let submitting = async {
            jobs.suspect_all();
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let local = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let target = "host:80".parse().unwrap();
            let mut submitted = pin!(jobs.submit(Job { local: Box::new(local), target }));
            let frame = tokio::select! {
                biased;
                _ = &mut submitted => panic!("it has to wait"),
                frame = far.next() => frame.unwrap(),
            };
            assert_eq!((frame, jobs.counts()), (Some(Frame::Ping), (1, 1)));
            far.send(&Frame::Pong).await.unwrap();
        };
        let (has_job, ()) = soon(async { tokio::join!(next(), submitting) }).await;
        assert_eq!((has_job, jobs.counts()), (true, (0, 0)));
    }
}
