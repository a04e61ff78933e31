//! Pool of tunnels to a gateway.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use longhaul_tls::SecureStream;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, sleep};

use super::persist::persist;
use crate::monitor::{Monitor, PoolState};
use crate::progress::Screen;
use crate::report::Stopwatch;
use crate::tunnel::jobs::{Job, Jobs, Unserved};
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
    jobs: Jobs,
    /// Number of the next connection to the gateway.
    next: AtomicUsize,
    state: Mutex<State>,
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
    tunnels: usize,
    building: usize,
}

impl Pool {
    pub(crate) fn new(config: PoolConfig, connect: Connect, screen: Screen) -> Self {
        let monitor = config.monitor.clone();
        let shared = Arc::new(Shared {
            config,
            connect,
            screen,
            jobs: Jobs::new(WAITING),
            next: AtomicUsize::new(0),
            state: Mutex::default(),
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
        let Shared { jobs, config, .. } = &*self.shared;
        self.shared.used.store(self.shared.now.load(Ordering::Relaxed), Ordering::Relaxed);
        let Err(unserved) = jobs.submit(Job { local, target }, config.patience).await else { return };
        config.monitor.refuse(Reason::Crowded);
        if let Unserved::Late(target) = unserved {
            self.shared.screen.say(&format!("{target}: reset, because no tunnel was ready in time"));
        }
    }

    /// Waits until no connection is being forwarded or waiting.
    pub(crate) async fn settled(&self) {
        let is_settled = || {
            let (idle, waiting) = self.shared.jobs.counts();
            waiting == 0 && idle == self.shared.state().tunnels
        };
        while !is_settled() {
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
                () = self.shared.jobs.changed.notified() => {}
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

    /// Probes the idle tunnel that will be used next, if the pool was used recently.
    fn probe_next(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed);
        if now - self.used.load(Ordering::Relaxed) <= PROBES {
            self.jobs.probe_next();
        }
    }

    fn observe(&self) -> PoolState {
        let (idle, waiting) = self.jobs.counts();
        let State { tunnels, building } = *self.state();
        PoolState { idle, busy: tunnels.saturating_sub(idle), building, waiting }
    }

    /// Returns the round-trip time of the path, or zero if it is not known.
    fn rtt(&self) -> Duration {
        Duration::from_micros(self.rtt.load(Ordering::Relaxed))
    }

    /// Returns whether another tunnel is needed, and counts it as being built if so.
    fn begin_building(&self) -> bool {
        let (idle, waiting) = self.jobs.counts();
        let mut state = self.state();
        let limit = if self.failing.load(Ordering::Relaxed) { 1 } else { BUILDING };
        let missing = idle + state.building < self.config.warm + waiting;
        let room = state.building < limit && state.tunnels + state.building < self.config.max;
        let begin = missing && room;
        state.building += usize::from(begin);
        begin
    }

    /// Builds a tunnel. Repeats the attempt until it succeeds.
    async fn build(&self) -> Tunnel<SecureStream> {
        let attempt = || async {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
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
                // The other tunnels are suspect now.
                None => shared.jobs.probe_all(),
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
        let mut turn = match self.jobs.next() {
            Ok(job) => return Next::Job(job),
            Err(turn) => turn,
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
                job = &mut turn.job => return job.map_or(Next::Close, Next::Job),
                frame = tunnel.next() => match frame {
                    Ok(Some(Frame::Pong)) => probed = false,
                    // A late reset of a stream that has ended.
                    Ok(Some(Frame::Reset { .. })) => {}
                    Ok(Some(Frame::Bye) | None) => break Next::Close,
                    Ok(Some(_)) | Err(_) => break Next::Failed,
                },
                () = turn.probe.notified(), if !probed => {
                    if tunnel.send(&Frame::Ping).await.is_err() {
                        break Next::Failed;
                    }
                    probed = true;
                    late.set(sleep(suspect));
                }
                () = &mut late, if probed => break Next::Failed,
                () = sleep(SURPLUS) => if self.jobs.counts().0 > self.config.warm { break Next::Close },
            }
        };
        if let Some(job) = turn.end()
            && self.jobs.give(job).is_err()
        {
            self.config.monitor.refuse(Reason::Crowded);
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
        self.shared.jobs.changed.notify_one();
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
