//! Observation of a running forwarder or gateway, for metrics, a status page and a line on the terminal.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use longhaul::{LimitedBy, SendLimit};
use longhaul_units::named;
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::gateway::members::Members;
use crate::progress::Line;
use crate::sync::lock;
use crate::transport::{Snapshot, Transport};
use crate::tunnel::rate::Limits;
use crate::tunnel::{self, Client, Ended, Event, Flow, Reason, Target, Traffic, Tunnel, TunnelError};

pub(crate) mod http;
mod line;
mod metrics;
mod share;
mod status;

/// Interval between two samples.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);
/// Number of samples in memory, which cover the last ten minutes.
const HISTORY: usize = 300;

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Role {
        Forward = "forward",
        Gateway = "gateway",
    }
}

named! {
    /// Whether a program accepts connections, for health checks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Phase, ALL {
        Starting = "starting",
        Ready = "ready",
        /// The program accepts no more connections, and lets its open ones end.
        Draining = "draining",
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct PoolState {
    /// Tunnels that carry no connection.
    pub(crate) idle: usize,
    /// Tunnels that carry a connection.
    pub(crate) busy: usize,
    pub(crate) building: usize,
    /// Number of connections that wait for a tunnel.
    pub(crate) waiting: usize,
}

/// Observes the tunnels of a program.
pub(crate) struct Monitor {
    role: Role,
    started: Instant,
    pool: OnceLock<Box<dyn Fn() -> PoolState + Send + Sync>>,
    members: OnceLock<Arc<Members>>,
    /// Index of the [`Phase`] in `ALL`.
    phase: AtomicU8,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    tunnels: BTreeMap<u64, TunnelState>,
    totals: Totals,
    history: VecDeque<Point>,
}

#[derive(Clone, Debug, Default)]
struct Totals {
    tunnels: u64,
    tunnels_failed: u64,
    tunnels_refused: u64,
    streams: u64,
    ended: BTreeMap<&'static str, u64>,
    refused: BTreeMap<&'static str, u64>,
    sent_bytes: u64,
    received_bytes: u64,
    /// Number of bytes sent and received by all streams up to the last sample.
    sampled: (u64, u64),
    retransmissions: u64,
    retransmitted_bytes: u64,
    limited: LimitedBy,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Point {
    sent_bytes_per_second: f64,
    received_bytes_per_second: f64,
    connections: usize,
}

struct TunnelState {
    peer: String,
    address: SocketAddr,
    probe: Probe,
    link: Snapshot,
    limited: Option<SendLimit>,
    stream: Option<StreamState>,
}

struct StreamState {
    target: Target,
    opened: Instant,
    traffic: Arc<Traffic>,
    /// Number of bytes at the last sample; `rates` are the rates since the previous sample.
    seen: (u64, u64),
    rates: (f64, f64),
}

type Probe = Box<dyn Fn() -> Option<Snapshot> + Send>;

impl Monitor {
    #[expect(clippy::disallowed_methods, reason = "pages for people show real time")]
    pub(crate) fn new(role: Role) -> Arc<Self> {
        Arc::new(Self {
            role,
            started: Instant::now(),
            pool: OnceLock::new(),
            members: OnceLock::new(),
            phase: AtomicU8::new(0),
            state: Mutex::default(),
        })
    }

    pub(crate) fn set_pool(&self, pool: impl Fn() -> PoolState + Send + Sync + 'static) {
        // A program has only one pool.
        let _ = self.pool.set(Box::new(pool));
    }

    /// Also shows the strays of a group of gateways.
    pub(crate) fn set_members(&self, members: Arc<Members>) {
        // A program joins only one group.
        let _ = self.members.set(members);
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(crate) fn phase(&self) -> Phase {
        let phase = usize::from(self.phase.load(Ordering::Relaxed));
        Phase::ALL.get(phase).copied().unwrap_or(Phase::Starting)
    }

    /// Observes a tunnel until the result is dropped. `peer` and `address` identify the other end.
    pub(crate) fn tunnel<S: Transport + Send + 'static>(
        self: &Arc<Self>,
        peer: &str,
        address: SocketAddr,
        tunnel: &Tunnel<S>,
    ) -> TunnelGuard {
        let watch = tunnel.watch();
        let probe: Probe = Box::new(move || watch.inspect(S::snapshot)?);
        let peer = peer.to_owned();
        let mut state = lock(&self.state);
        state.totals.tunnels += 1;
        state.next += 1;
        let number = state.next;
        let link = Snapshot::default();
        state.tunnels.insert(number, TunnelState { peer, address, probe, link, limited: None, stream: None });
        TunnelGuard { monitor: Arc::clone(self), number }
    }

    pub(crate) fn refuse_tunnel(&self) {
        lock(&self.state).totals.tunnels_refused += 1;
    }

    /// Counts a stream that was not opened.
    pub(crate) fn refuse(&self, reason: Reason) {
        *lock(&self.state).totals.refused.entry(reason.name()).or_default() += 1;
    }

    /// Takes a sample per [`INTERVAL`], and shows it on `line`. Does not return.
    pub(crate) async fn run(&self, line: Line) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = ticks.tick().await;
        loop {
            line.show(&self.glance());
            let now = ticks.tick().await;
            lock(&self.state).sample(now - last);
            last = now;
        }
    }

    fn pool(&self) -> Option<PoolState> {
        // The locks of the pool and the monitor are never held together.
        self.pool.get().map(|pool| pool())
    }
}

impl State {
    fn sample(&mut self, took: Duration) {
        let seconds = took.as_secs_f64().max(1e-3);
        let mut point = Point { connections: self.streams().count(), ..Point::default() };
        for tunnel in self.tunnels.values_mut() {
            tunnel.probe();
            let Some(stream) = &mut tunnel.stream else { continue };
            let now = stream.traffic.now();
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            stream.rates = (rate(now.0, stream.seen.0), rate(now.1, stream.seen.1));
            stream.seen = now;
        }
        let after = self.sums();
        point.sent_bytes_per_second = after.0.saturating_sub(self.totals.sampled.0) as f64 / seconds;
        point.received_bytes_per_second = after.1.saturating_sub(self.totals.sampled.1) as f64 / seconds;
        self.totals.sampled = after;
        if self.history.len() >= HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(point);
    }

    fn streams(&self) -> impl Iterator<Item = (&TunnelState, &StreamState)> {
        self.tunnels.values().filter_map(|tunnel| Some((tunnel, tunnel.stream.as_ref()?)))
    }

    /// Returns the bytes sent and received by all streams so far.
    fn sums(&self) -> (u64, u64) {
        let totals = (self.totals.sent_bytes, self.totals.received_bytes);
        self.streams().map(|(_, stream)| stream.traffic.now()).fold(totals, |sum, now| (sum.0 + now.0, sum.1 + now.1))
    }

    fn end_stream(&mut self, number: u64) {
        let Some(stream) = self.tunnels.get_mut(&number).and_then(|tunnel| tunnel.stream.take()) else { return };
        let (sent, received) = stream.traffic.now();
        self.totals.sent_bytes += sent;
        self.totals.received_bytes += received;
    }
}

impl TunnelState {
    /// Updates the state of the connection, unless it has ended.
    fn probe(&mut self) {
        if let Some(link) = (self.probe)() {
            self.limited = link.limited_by.since(&self.link.limited_by).most();
            self.link = link;
        }
    }
}

/// Keeps a tunnel observed until dropped.
#[must_use]
pub(crate) struct TunnelGuard {
    monitor: Arc<Monitor>,
    number: u64,
}

impl TunnelGuard {
    /// Observes a stream of the tunnel until it has [ended](Self::ended). `traffic` counts its bytes.
    #[expect(clippy::disallowed_methods, reason = "pages for people show real time")]
    fn stream(&self, target: &Target, traffic: &Arc<Traffic>) {
        let mut state = lock(&self.monitor.state);
        state.totals.streams += 1;
        if let Some(tunnel) = state.tunnels.get_mut(&self.number) {
            let (target, traffic) = (target.clone(), Arc::clone(traffic));
            let opened = Instant::now();
            tunnel.stream = Some(StreamState { target, opened, traffic, seen: (0, 0), rates: (0.0, 0.0) });
        }
    }

    /// Counts the end of the stream; `None` if its tunnel failed.
    fn ended(&self, ended: Option<Ended>) {
        let mut state = lock(&self.monitor.state);
        state.end_stream(self.number);
        let Totals { ended: counts, refused, .. } = &mut state.totals;
        let (counts, name) = match ended {
            Some(Ended::Orderly) => (counts, metrics::ORDERLY),
            Some(Ended::There(reason)) if reason.is_refusal() => (refused, reason.name()),
            Some(Ended::Here(reason) | Ended::There(reason)) => (counts, reason.name()),
            None => (counts, metrics::TUNNEL_FAILED),
        };
        *counts.entry(name).or_default() += 1;
    }

    /// Relays a stream of the tunnel, and observes it. If this end `opens` the stream, that is done first.
    pub(crate) async fn relay<S: Transport + Send + 'static>(
        &self,
        tunnel: &mut Tunnel<S>,
        local: Client,
        (target, opens): (&Target, bool),
        (idle, limits): (Duration, &Limits),
    ) -> Result<Ended, TunnelError> {
        let traffic = Arc::new(Traffic::default());
        if let Some(window) = self.share() {
            tunnel.inspect(|stream| stream.share_window(window));
        }
        self.stream(target, &traffic);
        let relayed = async {
            if opens {
                tunnel.open(target.clone()).await?;
            }
            tunnel::relay(tunnel, local, Flow { idle, limits, traffic: &traffic }).await
        };
        let relayed = relayed.await;
        self.ended(relayed.as_ref().ok().copied());
        relayed
    }

    /// Serves a stream that the peer has opened: connects to its target by `connect` and relays it, or refuses it.
    pub(crate) async fn serve<S: Transport + Send + 'static>(
        &self,
        tunnel: &mut Tunnel<S>,
        target: &Target,
        connect: impl Future<Output = Result<TcpStream, Reason>>,
        terms: (Duration, &Limits),
        mut event: impl FnMut(Event<'_>),
    ) -> Result<(), TunnelError> {
        tunnel.begin();
        match connect.await {
            Ok(local) => {
                event(Event::Opened(target));
                let ended = self.relay(tunnel, Box::new(local), (target, false), terms).await?;
                event(Event::Ended(target, ended));
                Ok(())
            }
            Err(reason) => {
                self.monitor.refuse(reason);
                event(Event::Refused(target, reason));
                tunnel.refuse(reason).await
            }
        }
    }

    pub(crate) fn failed(&self) {
        lock(&self.monitor.state).totals.tunnels_failed += 1;
    }
}

impl Drop for TunnelGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.monitor.state);
        state.end_stream(self.number);
        let Some(mut tunnel) = state.tunnels.remove(&self.number) else { return };
        tunnel.probe();
        let Totals { retransmissions, retransmitted_bytes, limited, .. } = &mut state.totals;
        *retransmissions += tunnel.link.retransmissions;
        *retransmitted_bytes += tunnel.link.retransmitted_bytes;
        *limited = plus(limited, &tunnel.link.limited_by);
    }
}

fn plus(a: &LimitedBy, b: &LimitedBy) -> LimitedBy {
    let mut sum = *a;
    sum.app += b.app;
    sum.cwnd += b.cwnd;
    sum.pacing += b.pacing;
    sum.peer_window += b.peer_window;
    sum.send_buffer += b.send_buffer;
    sum.cpu += b.cpu;
    sum
}

#[cfg(test)]
mod tests;
