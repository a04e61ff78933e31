//! Pool of tunnels to a gateway.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use longhaul_tls::SecureStream;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, sleep};

use super::persist::persist;
use crate::monitor::{Monitor, PoolState};
use crate::progress::Screen;
use crate::report::Stopwatch;
use crate::tunnel::rate::Limits;
use crate::tunnel::{self, Ended, Frame, Reason, Target, Tunnel};

/// Maximum number of tunnels that are being built. A gateway admits few handshakes per address, and each tunnel that is
/// being built makes up to two [attempts](persist) at the same time.
const BUILDING: usize = 2;
/// Minimum time after which an unanswered attempt is joined by a second one.
const HEDGE: Duration = Duration::from_secs(1);
/// Round trips after which an unanswered attempt is joined by a second one. A tunnel takes three to build.
const HEDGE_ROUND_TRIPS: u32 = 4;
/// Maximum number of connections that wait for a tunnel.
const WAITING: usize = 1024;
/// Interval between probes of the idle tunnel that will be used next.
const PROBE: Duration = Duration::from_secs(1);
/// Number of intervals after the last use of the pool in which probes are sent. Later, the keep-alive of the
/// connections detects that the gateway is lost.
const PROBES: u64 = 300;
/// Minimum time after which an idle tunnel counts as failed if its probe is not answered.
const SUSPECT: Duration = Duration::from_secs(3);
/// The same in round trips, because queues may be long.
const SUSPECT_ROUND_TRIPS: u32 = 8;
/// Interval between checks of whether all connections have ended.
const CHECK: Duration = Duration::from_millis(50);
/// Lifetime from which on a tunnel counts as useful, even if it has carried nothing.
const OF_USE: Duration = Duration::from_secs(10);
/// First and longest pause before the next tunnel is built if the previous one was not useful.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Time after which an idle tunnel is closed if there are more of them than are kept ready.
const SURPLUS: Duration = Duration::from_secs(300);

/// Opens an authenticated connection to the gateway. The argument counts the connections, from 0.
pub(crate) type Connect =
    Arc<dyn Fn(usize) -> Pin<Box<dyn Future<Output = Result<SecureStream>> + Send>> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct PoolConfig {
    /// Number of idle tunnels that are kept ready.
    pub(crate) warm: usize,
    pub(crate) max: usize,
    /// Time after which a stream without traffic is reset.
    pub(crate) idle: Duration,
    /// Maximum time that a connection waits for a tunnel.
    pub(crate) patience: Duration,
    pub(crate) gateway: String,
    /// Limits of the rate of all connections together.
    pub(crate) limits: Limits,
    pub(crate) monitor: Monitor,
}

/// A pool of tunnels. Each carries one forwarded connection at a time and is used again afterwards. Clones share the
/// same tunnels.
#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    config: PoolConfig,
    connect: Connect,
    screen: Screen,
    state: Mutex<State>,
    changed: Notify,
    /// Whether the latest attempt to reach the gateway failed.
    failing: AtomicBool,
    /// Number of consecutive tunnels, up to the latest, that ended soon and carried nothing.
    useless: AtomicU32,
    /// Smoothed round-trip time of the latest tunnel in microseconds.
    rtt: AtomicU64,
    /// Number of the current interval of [`PROBE`]; `used` is that of the last use of the pool.
    now: AtomicU64,
    used: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Idle tunnels; the one used last is at the end and is used next, because its window fits the path best.
    idle: Vec<Idle>,
    tunnels: usize,
    building: usize,
    waiting: VecDeque<Waiting>,
    /// Next number for a tunnel, a connection to the gateway, or a waiting connection.
    next: usize,
}

#[derive(Debug)]
struct Idle {
    number: usize,
    jobs: oneshot::Sender<Job>,
    probe: Arc<Notify>,
}

#[derive(Debug)]
struct Waiting {
    number: usize,
    job: Job,
}

#[derive(Debug)]
struct Job {
    local: TcpStream,
    target: Target,
}

impl State {
    fn number(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }
}

impl Pool {
    pub(crate) fn new(config: PoolConfig, connect: Connect, screen: Screen) -> Self {
        let monitor = config.monitor.clone();
        let shared = Arc::new(Shared {
            config,
            connect,
            screen,
            state: Mutex::default(),
            changed: Notify::new(),
            failing: AtomicBool::new(false),
            useless: AtomicU32::new(0),
            rtt: AtomicU64::new(0),
            now: AtomicU64::new(0),
            used: AtomicU64::new(0),
        });
        let pool = Arc::downgrade(&shared);
        monitor.set_pool(move || pool.upgrade().map(|pool| pool.observe()).unwrap_or_default());
        Self { shared }
    }

    pub(crate) fn adopt(&self, tunnel: Tunnel<SecureStream>) {
        self.shared.add(tunnel);
    }

    pub(super) fn patience(&self) -> Duration {
        self.shared.config.patience
    }

    /// Forwards a connection, which was [prepared](tunnel::prepare), to `target`. If no tunnel becomes free in time,
    /// the connection is reset.
    pub(crate) async fn forward(&self, local: TcpStream, target: Target) {
        let Some(number) = self.shared.dispatch(Job { local, target }) else { return };
        sleep(self.shared.config.patience).await;
        let mut state = self.shared.state();
        let at = state.waiting.iter().position(|waiting| waiting.number == number);
        if let Some(late) = at.and_then(|at| state.waiting.remove(at)) {
            drop(state);
            self.shared.config.monitor.refuse(Reason::Crowded);
            self.shared.screen.say(&format!("{}: reset, because no tunnel was ready in time", late.job.target));
        }
    }

    /// Waits until no connection is being forwarded or waiting.
    pub(crate) async fn settled(&self) {
        loop {
            {
                let state = self.shared.state();
                if state.waiting.is_empty() && state.idle.len() == state.tunnels {
                    return;
                }
            }
            sleep(CHECK).await;
        }
    }

    /// Builds tunnels whenever there are too few, and probes idle ones. Does not return.
    pub(crate) async fn maintain(&self) {
        let mut building = JoinSet::new();
        let mut ticks = tokio::time::interval(PROBE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while self.shared.begin_building() {
                let counted = Counted { shared: Arc::clone(&self.shared), count: |state| &mut state.building };
                building.spawn(async move {
                    sleep(pause(counted.shared.useless.load(Ordering::Relaxed))).await;
                    let tunnel = counted.shared.build().await;
                    counted.shared.add(tunnel);
                });
            }
            tokio::select! {
                () = self.shared.changed.notified() => {}
                _ = ticks.tick() => self.shared.probe_next(),
                Some(_) = building.join_next() => {}
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a connection to an idle tunnel, or lets it wait for one. Returns its number if it waits.
    fn dispatch(&self, mut job: Job) -> Option<usize> {
        self.used.store(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut state = self.state();
        while let Some(idle) = state.idle.pop() {
            match idle.jobs.send(job) {
                Ok(()) => {
                    drop(state);
                    self.changed.notify_one();
                    return None;
                }
                // The tunnel has just ended.
                Err(back) => job = back,
            }
        }
        if state.waiting.len() >= WAITING {
            drop(state);
            self.config.monitor.refuse(Reason::Crowded);
            return None;
        }
        let number = state.number();
        state.waiting.push_back(Waiting { number, job });
        drop(state);
        self.changed.notify_one();
        Some(number)
    }

    /// Probes the idle tunnel that will be used next, if the pool was used recently.
    fn probe_next(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed);
        if now - self.used.load(Ordering::Relaxed) <= PROBES
            && let Some(idle) = self.state().idle.last()
        {
            idle.probe.notify_one();
        }
    }

    /// Probes all idle tunnels: after the failure of one, the others are suspect.
    fn probe_all(&self) {
        self.state().idle.iter().for_each(|idle| idle.probe.notify_one());
    }

    fn observe(&self) -> PoolState {
        let state = self.state();
        let (idle, waiting) = (state.idle.len(), state.waiting.len());
        PoolState { idle, busy: state.tunnels.saturating_sub(idle), building: state.building, waiting }
    }

    /// Returns the round-trip time of the path, or zero if it is not known.
    fn rtt(&self) -> Duration {
        Duration::from_micros(self.rtt.load(Ordering::Relaxed))
    }

    /// Returns whether another tunnel is needed, and counts it as being built if so.
    fn begin_building(&self) -> bool {
        let mut state = self.state();
        let limit = if self.failing.load(Ordering::Relaxed) { 1 } else { BUILDING };
        let missing = state.idle.len() + state.building < self.config.warm + state.waiting.len();
        let room = state.building < limit && state.tunnels + state.building < self.config.max;
        let begin = missing && room;
        state.building += usize::from(begin);
        begin
    }

    /// Builds a tunnel. Repeats the attempt until it succeeds.
    async fn build(&self) -> Tunnel<SecureStream> {
        let attempt = || async {
            let number = self.state().number();
            Ok(Tunnel::start((self.connect)(number).await?).await?)
        };
        let failed = |error: anyhow::Error| {
            if !self.failing.swap(true, Ordering::Relaxed) {
                self.screen.warn(&format!("the gateway cannot be reached, trying again: {error:#}"));
            }
        };
        let tunnel = persist(HEDGE.max(self.rtt() * HEDGE_ROUND_TRIPS), attempt, failed).await;
        if self.failing.swap(false, Ordering::Relaxed) {
            self.screen.warn("the gateway can be reached again");
        }
        tunnel
    }

    fn add(self: &Arc<Self>, tunnel: Tunnel<SecureStream>) {
        if let Some(rtt) = tunnel.inspect(|stream| stream.info().ok()?.rtt).flatten() {
            self.rtt.store(rtt.as_micros() as u64, Ordering::Relaxed);
        }
        self.state().tunnels += 1;
        let counted = Counted { shared: Arc::clone(self), count: |state| &mut state.tunnels };
        tokio::spawn(async move {
            let shared = Arc::clone(&counted.shared);
            let (life, mut carried) = (Stopwatch::start(), false);
            let left = shared.serve(tunnel, &mut carried).await;
            // If a gateway ends tunnels right after their greeting, there is a pause before the next one is built.
            if carried || life.elapsed() >= OF_USE {
                shared.useless.store(0, Ordering::Relaxed);
            } else {
                shared.useless.fetch_add(1, Ordering::Relaxed);
            }
            drop(counted);
            match left {
                Some(stream) => tunnel::close(stream).await,
                None => shared.probe_all(),
            }
        });
    }

    /// Serves connections until the tunnel ends. Returns the connection if it did not fail. `carried` becomes true when a
    /// stream has ended.
    async fn serve(&self, mut tunnel: Tunnel<SecureStream>, carried: &mut bool) -> Option<SecureStream> {
        let address = tunnel.inspect(|stream| stream.tcp().peer_addr().ok()).flatten()?;
        let seen = self.config.monitor.tunnel(&self.config.gateway, address, &tunnel);
        while !tunnel.is_leaving() {
            let Job { local, target } = match self.next_job(&mut tunnel).await {
                Next::Job(job) => job,
                Next::Close => break,
                Next::Failed => {
                    seen.failed();
                    return None;
                }
            };
            let terms = (self.config.idle, &self.config.limits);
            let relayed = seen.relay(&mut tunnel, local, (&target, true), terms).await;
            *carried |= relayed.is_ok();
            match relayed {
                Ok(Ended::Orderly) => {}
                Ok(Ended::Here(reason)) => tracing::debug!(target: "longhaul::forward", "{target}: {reason}"),
                Ok(Ended::There(reason)) => self.screen.say(&format!("{target}: {reason}")),
                Err(error) => {
                    self.screen.say(&format!("{target}: reset, because the tunnel failed: {error}"));
                    seen.failed();
                    return None;
                }
            }
        }
        tunnel.into_inner()
    }

    async fn next_job(&self, tunnel: &mut Tunnel<SecureStream>) -> Next {
        let ((jobs, mut job), probe) = (oneshot::channel(), Arc::new(Notify::new()));
        let number = {
            let mut state = self.state();
            if let Some(waiting) = state.waiting.pop_front() {
                return Next::Job(waiting.job);
            }
            let number = state.number();
            state.idle.push(Idle { number, jobs, probe: Arc::clone(&probe) });
            number
        };
        // The path may have become longer since the latest tunnel was built.
        let rtt = tunnel.inspect(|stream| stream.info().ok()?.rtt).flatten().unwrap_or_default().max(self.rtt());
        let suspect = SUSPECT.max(rtt * SUSPECT_ROUND_TRIPS);
        // Time at which the answer to a probe is late.
        let mut late = pin!(sleep(suspect));
        let mut probed = false;
        let next = loop {
            tokio::select! {
                biased;
                job = &mut job => return job.map_or(Next::Close, Next::Job),
                frame = tunnel.next() => match frame {
                    Ok(Some(Frame::Pong)) => probed = false,
                    // A late reset of a stream that has ended.
                    Ok(Some(Frame::Reset { .. })) => {}
                    Ok(Some(Frame::Bye) | None) => break Next::Close,
                    Ok(Some(_)) | Err(_) => break Next::Failed,
                },
                () = probe.notified(), if !probed => {
                    if tunnel.send(&Frame::Ping).await.is_err() {
                        break Next::Failed;
                    }
                    probed = true;
                    late.set(sleep(suspect));
                }
                () = &mut late, if probed => break Next::Failed,
                () = sleep(SURPLUS) => if self.state().idle.len() > self.config.warm { break Next::Close },
            }
        };
        // A connection may have been given to this tunnel at the same time.
        self.state().idle.retain(|idle| idle.number != number);
        job.close();
        if let Ok(job) = job.try_recv() {
            self.dispatch(job);
        }
        next
    }
}

/// Returns the pause before the next tunnel, if the last `useless` ones were not useful.
fn pause(useless: u32) -> Duration {
    match useless.checked_sub(1) {
        Some(more) => PAUSES.0.saturating_mul(2_u32.saturating_pow(more)).min(PAUSES.1),
        None => Duration::ZERO,
    }
}

/// Keeps a tunnel counted until dropped, however its task ends.
struct Counted {
    shared: Arc<Shared>,
    count: fn(&mut State) -> &mut usize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        *(self.count)(&mut self.shared.state()) -= 1;
        self.shared.changed.notify_one();
    }
}

enum Next {
    Job(Job),
    /// The tunnel ends in order.
    Close,
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let millis = [0, 1, 2, 5, 6, u32::MAX].map(|useless| pause(useless).as_millis());
        assert_eq!(millis, [0, 50, 100, 800, 1000, 1000]);
    }
}
