//! Pool of tunnels to a gateway.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use longhaul_tls::{SecureStream, TlsError};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, sleep};

use super::persist::persist;
use crate::monitor::{Monitor, PoolState};
use crate::progress::{Detail, Screen};
use crate::report::{Stopwatch, duration, plural};
use crate::sync::lock;
use crate::tunnel::jobs::{Job, Jobs};
use crate::tunnel::rate::Limits;
use crate::tunnel::{self, Client, Ended, Owner, Target, Tunnel};

/// Maximum number of tunnels being opened at the same time: usually, and if as many connections wait. A gateway admits 32
/// handshakes per address, and each tunnel being opened makes up to two [attempts](persist) at the same time.
const BUILDING: (usize, usize) = (2, 16);
/// Minimum time after which an unanswered attempt is joined by a second one.
const HEDGE: Duration = Duration::from_secs(1);
/// Number of round trips after which an unanswered attempt is joined by a second one. Opening a tunnel takes three.
const HEDGE_ROUND_TRIPS: u32 = 4;
/// Maximum number of connections that wait for a tunnel.
const WAITING: usize = 1024;
/// Interval between probes of the idle tunnel that will be used next.
const PROBE: Duration = Duration::from_secs(1);
/// Time after the last use of the pool in which probes are sent. After that, the keep-alive of the connections detects
/// the loss of the gateway.
const PROBED: Duration = Duration::from_secs(300);
/// Minimum time after which an idle tunnel counts as failed if its probe is not answered.
const SUSPECT: Duration = Duration::from_secs(3);
/// That minimum time in round trips, because queues may be long.
const SUSPECT_ROUND_TRIPS: u32 = 8;
/// Interval between checks of whether all connections have ended.
const CHECK: Duration = Duration::from_millis(50);
/// Lifetime after which a tunnel counts as useful even if it has carried nothing.
const OF_USE: Duration = Duration::from_secs(10);
/// First and longest pause before the next tunnel is opened if the previous one was not useful.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Time after which an idle tunnel is closed if there are more idle tunnels than are kept ready.
const SURPLUS: Duration = Duration::from_secs(300);

/// Opens an authenticated connection to the gateway. The argument is the number of the connection, counted from 0.
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
    /// Rate limits of all connections in total.
    pub(crate) limits: Limits,
    pub(crate) monitor: Arc<Monitor>,
}

/// A pool of tunnels. Each carries one forwarded connection at a time and is then reused.
pub(crate) struct Pool {
    config: PoolConfig,
    connect: Connect,
    screen: Screen,
    jobs: Arc<Jobs>,
    /// Number of the next connection to the gateway.
    next: AtomicUsize,
    /// Number of tunnels that are open or being opened.
    tunnels: AtomicUsize,
    building: AtomicUsize,
    outage: Mutex<Outage>,
    /// Number of connections that have waited in vain since the last report, and the reason.
    late: Mutex<(u64, String)>,
    is_over: AtomicBool,
    /// Number of consecutive tunnels, up to the latest, that ended soon and carried nothing.
    useless: AtomicU32,
    /// Smoothed round-trip time of the latest tunnel in microseconds.
    rtt: AtomicU64,
    /// Runs since the last use of the pool.
    used: Mutex<Stopwatch>,
}

impl Pool {
    pub(crate) fn new(config: PoolConfig, connect: Connect, screen: Screen) -> Arc<Self> {
        let monitor = Arc::clone(&config.monitor);
        let jobs = Arc::new(Jobs::new(WAITING, config.patience, &monitor));
        let pool = Arc::new(Self {
            config,
            connect,
            screen,
            jobs,
            next: AtomicUsize::new(0),
            tunnels: AtomicUsize::new(0),
            building: AtomicUsize::new(0),
            outage: Mutex::default(),
            late: Mutex::default(),
            is_over: AtomicBool::new(false),
            useless: AtomicU32::new(0),
            rtt: AtomicU64::new(0),
            used: Mutex::new(Stopwatch::start()),
        });
        let observed = Arc::downgrade(&pool);
        monitor.set_pool(move || observed.upgrade().map(|pool| pool.observe()).unwrap_or_default());
        pool
    }

    pub(super) fn patience(&self) -> Duration {
        self.config.patience
    }

    /// Forwards a connection to `target`. If no tunnel becomes free in time, the connection is reset.
    pub(crate) async fn forward(&self, local: Client, target: Target) {
        *lock(&self.used) = Stopwatch::start();
        if let Some(Job { local, target }) = self.jobs.submit(Job { local, target }).await {
            let reason = self.why_late();
            match local.owner() {
                owner @ Some(_) => self.tell(&target, owner, Err(reason)).await,
                // Those of one second are reported together.
                None => {
                    let mut late = lock(&self.late);
                    *late = (late.0 + 1, reason);
                }
            }
        }
    }

    /// Returns why a connection has waited in vain.
    fn why_late(&self) -> String {
        let PoolState { idle, busy, building, .. } = self.observe();
        let (max, patience) = (self.config.max, duration(self.config.patience.as_secs_f64()));
        match idle + busy + building >= max {
            true => {
                format!("{max} are forwarded at a time, and none of these ended within {patience} (--max-connections)")
            }
            false => format!("no tunnel to {} was ready within {patience}", self.config.gateway),
        }
    }

    /// Reports connections that have waited in vain.
    fn report_late(&self) {
        let (count, reason) = std::mem::take(&mut *lock(&self.late));
        if count > 0 {
            let reset = plural(count, "connection was reset", "connections were reset");
            self.screen.event(Detail::Usual, &format!("{reset}, because {reason}"));
        }
    }

    /// Reports why a connection has not ended in order, to the process that handed it over if there is one.
    async fn tell(&self, target: &Target, owner: Option<Owner>, ended: Result<Ended, String>) {
        if let Some(owner) = owner {
            return super::control::tell(&owner, &ended).await;
        }
        match ended {
            Ok(Ended::Orderly) => {}
            Ok(Ended::Here(reason)) => tracing::debug!(target: "longhaul::forward", "{target}: {reason}"),
            Ok(Ended::There(reason)) => self.screen.event(Detail::Usual, &format!("{target}: {reason}")),
            Err(error) => self.screen.event(Detail::Usual, &format!("{target}: reset, because {error}")),
        }
    }

    /// Waits until no connection is being forwarded or waiting.
    pub(crate) async fn settled(&self) {
        let is_settled = || {
            let (idle, waiting) = self.jobs.counts();
            waiting == 0 && idle == self.tunnels.load(Ordering::Relaxed)
        };
        while !is_settled() {
            sleep(CHECK).await;
        }
    }

    /// Stops reporting failures: the runtime ends sockets before the tasks that use them.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Opens tunnels whenever there are too few, and probes idle ones. Does not return.
    pub(crate) async fn maintain(self: &Arc<Self>) {
        let mut building = JoinSet::new();
        let mut ticks = tokio::time::interval(PROBE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while self.begin_building() {
                let counted = Counted { pool: Arc::clone(self), count: |pool| &pool.building };
                building.spawn(async move {
                    sleep(pause(counted.pool.useless.load(Ordering::Relaxed))).await;
                    let tunnel = counted.pool.build().await;
                    counted.pool.add(tunnel);
                });
            }
            tokio::select! {
                () = self.jobs.changed.notified() => {}
                _ = ticks.tick() => {
                    self.probe_next();
                    self.report_cut();
                    self.report_late();
                }
                Some(_) = building.join_next() => {}
            }
        }
    }

    /// Probes the idle tunnel that will be used next, if the pool was used recently.
    fn probe_next(&self) {
        if lock(&self.used).elapsed() <= PROBED {
            self.jobs.probe_next();
        }
    }

    /// Reports streams that were interrupted without an outage. During an outage, they are reported at its end.
    fn report_cut(&self) {
        let mut outage = lock(&self.outage);
        if outage.cut > 0 && !outage.is_reported {
            self.screen.event(Detail::Usual, &cut(std::mem::take(&mut outage.cut)));
        }
    }

    fn observe(&self) -> PoolState {
        let (idle, waiting) = self.jobs.counts();
        let [tunnels, building] = [&self.tunnels, &self.building].map(|count| count.load(Ordering::Relaxed));
        PoolState { idle, busy: tunnels.saturating_sub(idle), building, waiting }
    }

    /// Returns the round-trip time of the path, or zero if it is not known.
    fn rtt(&self) -> Duration {
        Duration::from_micros(self.rtt.load(Ordering::Relaxed))
    }

    /// Returns whether another tunnel is needed, and counts it as being opened if so.
    fn begin_building(&self) -> bool {
        let PoolState { idle, busy, building, waiting } = self.observe();
        let limit = if lock(&self.outage).is_reported { 1 } else { waiting.clamp(BUILDING.0, BUILDING.1) };
        let missing = idle + building < self.config.warm + waiting;
        let begin = missing && building < limit && idle + busy + building < self.config.max;
        self.building.fetch_add(begin.into(), Ordering::Relaxed);
        begin
    }

    /// Opens a tunnel, repeating the attempt until it succeeds.
    async fn build(&self) -> Tunnel<SecureStream> {
        let attempt = || async {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            Ok(Tunnel::start((self.connect)(number).await?).await?)
        };
        let failed = |error: anyhow::Error| {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let mut outage = lock(&self.outage);
            outage.since.get_or_insert_with(Stopwatch::start);
            if !std::mem::replace(&mut outage.is_reported, true) {
                self.screen.event(Detail::Quiet, &unreachable(&self.config.gateway, &error));
            }
        };
        let tunnel = persist(HEDGE.max(self.rtt() * HEDGE_ROUND_TRIPS), attempt, failed).await;
        let mut outage = lock(&self.outage);
        let since = outage.since.take();
        if std::mem::take(&mut outage.is_reported) {
            let after = since.map_or(0.0, |since| since.elapsed().as_secs_f64());
            let streams = Some(std::mem::take(&mut outage.cut)).filter(|streams| *streams > 0);
            let streams = streams.map(|streams| format!("; {}", cut(streams))).unwrap_or_default();
            self.screen.event(Detail::Quiet, &format!("connected again after {}{streams}", duration(after)));
        }
        tunnel
    }

    /// Serves a tunnel in the background.
    pub(crate) fn add(self: &Arc<Self>, tunnel: Tunnel<SecureStream>) {
        if let Some(rtt) = tunnel.inspect(|stream| stream.info().ok()?.rtt).flatten() {
            self.rtt.store(rtt.as_micros() as u64, Ordering::Relaxed);
        }
        self.tunnels.fetch_add(1, Ordering::Relaxed);
        let counted = Counted { pool: Arc::clone(self), count: |pool| &pool.tunnels };
        tokio::spawn(async move {
            let pool = Arc::clone(&counted.pool);
            let (life, mut carried) = (Stopwatch::start(), false);
            let left = pool.serve(tunnel, &mut carried).await;
            // If a gateway ends tunnels right after their greeting, there is a pause before the next one is opened.
            if carried || life.elapsed() >= OF_USE {
                pool.useless.store(0, Ordering::Relaxed);
            } else {
                pool.useless.fetch_add(1, Ordering::Relaxed);
            }
            drop(counted);
            match left {
                Some(stream) => tunnel::close(stream).await,
                // The other tunnels may also have failed.
                None => pool.jobs.suspect_all(),
            }
        });
    }

    /// Serves connections until the tunnel ends. Returns the connection if it did not fail. `carried` becomes true when a
    /// stream has ended.
    async fn serve(&self, mut tunnel: Tunnel<SecureStream>, carried: &mut bool) -> Option<SecureStream> {
        let address = tunnel.inspect(|stream| stream.tcp().peer_addr().ok()).flatten()?;
        let seen = self.config.monitor.tunnel(&self.config.gateway, address, &tunnel);
        while !tunnel.is_leaving() {
            // The path may have become longer since the latest tunnel was opened.
            let rtt = tunnel.inspect(|stream| stream.info().ok()?.rtt).flatten().unwrap_or_default().max(self.rtt());
            let surplus = async {
                sleep(SURPLUS).await;
                while self.jobs.counts().0 <= self.config.warm {
                    sleep(SURPLUS).await;
                }
            };
            let suspect = SUSPECT.max(rtt * SUSPECT_ROUND_TRIPS);
            let Job { local, target } = match self.jobs.next(&mut tunnel, surplus, suspect).await {
                Ok(Some(job)) => job,
                Ok(None) => break,
                Err(_) => {
                    lock(&self.outage).since.get_or_insert_with(Stopwatch::start);
                    seen.failed();
                    return None;
                }
            };
            let terms = (self.config.idle, &self.config.limits);
            let owner = local.owner();
            let relayed = seen.relay(&mut tunnel, local, (&target, true), terms).await;
            *carried |= relayed.is_ok();
            let failed = relayed.is_err();
            match relayed {
                // The report at the end of the outage includes the interrupted streams.
                Err(error) if owner.is_none() => {
                    tracing::info!(target: "longhaul::forward", "{target}: reset, because the tunnel failed: {error}");
                }
                relayed => {
                    let ended = relayed.map_err(|error| format!("the tunnel failed: {error}"));
                    self.tell(&target, owner, ended).await;
                }
            }
            if failed {
                let mut outage = lock(&self.outage);
                outage.since.get_or_insert_with(Stopwatch::start);
                outage.cut += 1;
                seen.failed();
                return None;
            }
        }
        tunnel.into_inner()
    }
}

/// Time without a connection to the gateway, and its effects.
#[derive(Debug, Default)]
struct Outage {
    /// Measures the time since a tunnel failed, or since the first attempt; `None` after a tunnel has been opened.
    since: Option<Stopwatch>,
    /// Whether the latest attempt to reach the gateway failed, and was reported.
    is_reported: bool,
    /// Number of streams interrupted since the last report.
    cut: u64,
}

fn cut(streams: u64) -> String {
    format!("{} cut", plural(streams, "stream was", "streams were"))
}

/// Returns a sentence about a failed attempt to reach the gateway.
pub(crate) fn unreachable(gateway: &str, error: &anyhow::Error) -> String {
    let silent = error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
        || matches!(error.downcast_ref(), Some(TlsError::TimedOut));
    if silent { format!("{gateway} does not answer; trying again") } else { format!("{error:#}; trying again") }
}

/// Returns the pause before the next tunnel, if the last `useless` ones were not useful.
fn pause(useless: u32) -> Duration {
    match useless.checked_sub(1) {
        Some(more) => PAUSES.0.saturating_mul(2_u32.saturating_pow(more)).min(PAUSES.1),
        None => Duration::ZERO,
    }
}

/// Counts a tunnel until dropped, however its task ends.
struct Counted {
    pool: Arc<Pool>,
    count: fn(&Pool) -> &AtomicUsize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.count)(&self.pool).fetch_sub(1, Ordering::Relaxed);
        self.pool.jobs.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_has_a_cause() {
        let silent = anyhow::Error::from(io::Error::from(io::ErrorKind::TimedOut)).context("cannot connect to h:1");
        assert_eq!(unreachable("h", &silent), "h does not answer; trying again");
        assert_eq!(unreachable("h", &TlsError::TimedOut.into()), "h does not answer; trying again");
        assert_eq!(unreachable("h", &anyhow::anyhow!("cannot find h")), "cannot find h; trying again");
        assert_eq!([1, 3].map(cut), ["1 stream was cut", "3 streams were cut"]);
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let millis = [0, 1, 2, 5, 6, u32::MAX].map(|useless| pause(useless).as_millis());
        assert_eq!(millis, [0, 50, 100, 800, 1000, 1000]);
    }
}
