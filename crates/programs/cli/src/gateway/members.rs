//! Groups of gateways behind a load balancer without memory of connections: a member that receives a segment of another
//! member's connection passes it to that member, which answers from the address of the service.
//!
//! A member that receives a segment for an unknown connection asks all other members, and sends the segment with the
//! question. Segments that come from a member are never passed on. Later segments go to the member that has answered.
//! If no member has the connection, the segment is answered as without a group.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use longhaul::{Stray, StrayHandler, StrayIntake};
use longhaul_tls::limiter;
use tokio::time::{Instant, MissedTickBehavior, interval};

mod file;
mod flows;
mod links;
mod message;

pub(crate) use file::GroupFile;

use self::flows::{Action, Flows, Refused, Set};
use self::links::{Event, Links};
use self::message::{Key, Kind, Message};
use crate::progress::{Detail, Screen};
use crate::sync::lock;

/// Interval between heartbeats, and the silence after which a member counts as dead: without a connection to it, and with
/// one. A process that has ended is noticed earlier, by the end of its connection; a busy host must not lose its tunnels.
const BEAT: Duration = Duration::from_millis(100);
const SILENCE: Duration = Duration::from_secs(1);
const LINKED_SILENCE: Duration = Duration::from_secs(3);
/// Number of heartbeats between two checks of the group's file.
const BEATS_PER_LOOK: u32 = 10;
/// Requested size of the buffers of the socket between members in bytes.
const BUFFER: usize = 4 << 20;
/// Maximum number of messages read before the timer of the heartbeats is checked.
const MESSAGES: usize = 64;

/// Counters of strays, for metrics.
#[derive(Debug, Default)]
pub(crate) struct StrayCounts {
    /// Datagrams passed to other members.
    pub(crate) passed: AtomicU64,
    /// Datagrams taken over from other members.
    pub(crate) taken: AtomicU64,
    /// Connections that no member knows.
    pub(crate) unknown: AtomicU64,
    /// Datagrams dropped because of limits on questions.
    pub(crate) dropped: AtomicU64,
    /// Messages that are not from a member.
    pub(crate) forged: AtomicU64,
}

impl StrayCounts {
    /// Returns the name of each counter and its value.
    pub(crate) fn all(&self) -> [(&'static str, u64); 5] {
        let Self { passed, taken, unknown, dropped, forged } = self;
        [("passed", passed), ("taken", taken), ("unknown", unknown), ("dropped", dropped), ("forged", forged)]
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// A member of a group of gateways, with its view of the others.
pub(crate) struct Members {
    path: PathBuf,
    key: Key,
    secret: [u8; 32],
    own: SocketAddr,
    socket: UdpSocket,
    listener: TcpListener,
    is_draining: AtomicBool,
    pub(crate) counts: StrayCounts,
    state: Mutex<State>,
}

struct State {
    members: Vec<Member>,
    /// Members that were alive at the last check.
    live: Set,
    flows: Flows,
    out: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Member {
    address: SocketAddr,
    is_own: bool,
    /// When it was heard last; `None` if its process has ended.
    heard_at: Option<Instant>,
    /// When its process ended. Messages that it had sent may still arrive.
    ended_at: Option<Instant>,
    /// Whether there is a connection to it.
    is_linked: bool,
    is_draining: bool,
}

#[expect(clippy::disallowed_methods, reason = "liveness and limits are of real time")]
fn now() -> Instant {
    Instant::now()
}

impl Members {
    /// Joins the group as the first of its members whose address belongs to this machine and is free.
    pub(crate) fn join(path: &Path) -> Result<Arc<Self>> {
        let file = GroupFile::open(path)?;
        let (socket, listener) = bind_first(&file.members)
            .with_context(|| format!("none of the members in {} has a free address of this machine", path.display()))?;
        socket.set_nonblocking(true)?;
        let reference = socket2::SockRef::from(&socket);
        // The system's limit may be lower.
        let _ = reference.set_recv_buffer_size(BUFFER).and_then(|()| reference.set_send_buffer_size(BUFFER));
        let (own, now) = (socket.local_addr()?, now());
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let flows = Flows::new(now, u64::from_ne_bytes(seed));
        let members = file.members.iter().map(|address| Member::new(*address, own, now)).collect();
        Ok(Arc::new(Self {
            path: path.to_owned(),
            key: file.key("longhaul gateway group 1: messages between members"),
            secret: file.key("longhaul gateway group 1: SYN cookies and sequence numbers"),
            own,
            socket,
            listener,
            is_draining: AtomicBool::new(false),
            counts: StrayCounts::default(),
            state: Mutex::new(State { members, live: 0, flows, out: Vec::new() }),
        }))
    }

    /// Returns the secret of the members' endpoints.
    pub(crate) const fn secret(&self) -> [u8; 32] {
        self.secret
    }

    /// Returns the internal address of this member.
    pub(crate) const fn own(&self) -> SocketAddr {
        self.own
    }

    /// Tells the others that this member accepts no new connections.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
        self.beat();
    }

    /// Receives messages from other members, and sends heartbeats. Does not return, unless the socket fails.
    pub(crate) async fn run(&self, intake: &StrayIntake, screen: &Screen) -> Result<()> {
        let socket = tokio::net::UdpSocket::from_std(self.socket.try_clone()?)?;
        let mut ticks = interval(BEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut links = Links::new(self.listener.try_clone()?, self.others())?;
        let (mut buffer, mut beats, mut changed) = (vec![0; 1 << 16], 0, modified(&self.path));
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    beats += 1;
                    self.beat();
                    self.look(intake, screen);
                    if beats % BEATS_PER_LOOK == 0 && modified(&self.path) != changed {
                        changed = modified(&self.path);
                        self.reload(screen);
                        links.connect(self.others());
                    }
                }
                (member, event) = links.next() => {
                    self.on_event(member, event);
                    self.look(intake, screen);
                }
                ready = socket.readable() => {
                    ready?;
                    for _ in 0..MESSAGES {
                        match socket.try_recv_from(&mut buffer) {
                            Ok((len, from)) => self.receive(from, buffer.get(..len).unwrap_or_default(), intake),
                            // A closed port is reported, or there is nothing left.
                            Err(_) => break,
                        }
                    }
                }
            }
        }
    }

    /// Tells the others that this member lives.
    fn beat(&self) {
        let mut state = lock(&self.state);
        let others = state.set(|member| !member.is_own);
        let about = Message::about(Kind::Beat, 0, Stray::new(self.own, None, &[]));
        self.send(&mut state, others, Message { is_draining: self.is_draining.load(Ordering::Relaxed), ..about });
    }

    fn others(&self) -> Vec<SocketAddr> {
        let state = lock(&self.state);
        state.members.iter().filter(|member| !member.is_own).map(|member| member.address).collect()
    }

    /// Notes that the process of a member has accepted a connection, or that the connection has ended.
    fn on_event(&self, address: SocketAddr, event: Event) {
        let (mut state, now) = (lock(&self.state), now());
        if let Some(member) = state.members.iter_mut().find(|member| member.address == address) {
            member.is_linked = event == Event::Runs;
            match event {
                Event::Runs => member.ended_at = None,
                Event::Ended => (member.heard_at, member.ended_at) = (None, Some(now)),
                Event::Lost => {}
            }
        }
    }

    /// Checks which members are alive, and reports changes.
    fn look(&self, intake: &StrayIntake, screen: &Screen) {
        let (mut state, now) = (lock(&self.state), now());
        let (before, live) = (state.live, state.live_at(now));
        state.live = live;
        let ended = state.set(|member| member.ended_at.is_some()) & !live;
        let refused = if before & !live == 0 { Vec::new() } else { state.flows.on_loss(now, before, live, ended) };
        let change = |(nth, member): (usize, &Member)| (before ^ live) >> nth & 1 == 1 && !member.is_own;
        let changed: Vec<_> = state
            .members
            .iter()
            .enumerate()
            .filter(|it| change(*it))
            .map(|(nth, it)| (it.address, live >> nth & 1 == 1))
            .collect();
        drop(state);
        for (member, lives) in changed {
            let what = if lives { "answers" } else { "does not answer" };
            screen.event(Detail::Usual, &format!("the gateway {member} of the group {what}"));
        }
        self.refuse(&refused, intake);
    }

    /// Reads the addresses of the members again. The secret does not change while members run.
    fn reload(&self, screen: &Screen) {
        match GroupFile::open(&self.path) {
            Ok(file) => {
                let (mut state, now) = (lock(&self.state), now());
                let known = |address: &SocketAddr| {
                    let known = state.members.iter().find(|member| member.address == *address);
                    known.cloned().unwrap_or_else(|| Member::new(*address, self.own, now))
                };
                let members: Vec<_> = file.members.iter().map(known).collect();
                state.members = members;
                state.live = state.live_at(now);
                state.flows.forget();
            }
            Err(error) => screen.warn(&format!("{error:#}; the members remain as they were")),
        }
    }

    fn receive(&self, from: SocketAddr, datagram: &[u8], intake: &StrayIntake) {
        let is_member = |member: &Member| member.address == from && !member.is_own;
        // Strays wait for the lock: it is not held while a tag is checked, and the tags of others are not checked at all.
        let sender = lock(&self.state).members.iter().position(is_member);
        let Some((sender, message)) = sender.and_then(|sender| Some((sender, Message::decode(&self.key, datagram)?)))
        else {
            self.counts.forged.fetch_add(1, Ordering::Relaxed);
            if let Some(more) = limiter::admit("group") {
                tracing::warn!(target: "longhaul::gateway", "{from} is not a member of the group, or has another secret{more}");
            }
            return;
        };
        let (mut state, now) = (lock(&self.state), now());
        if let Some(member) = state.members.get_mut(sender) {
            if member.ended_at.is_none_or(|at| now.saturating_duration_since(at) >= SILENCE) {
                (member.heard_at, member.ended_at) = (Some(now), None);
            }
            if message.kind == Kind::Beat {
                member.is_draining = message.is_draining;
            }
        }
        let (flow, nonce, live) = (message.flow(), message.nonce, state.live_at(now));
        match message.kind {
            Kind::Beat => {}
            Kind::Owner => state.flows.on_owner(now, sender, flow, nonce),
            Kind::Stranger => {
                let refused = state.flows.on_stranger(now, live, sender, flow, nonce);
                drop(state);
                self.refuse(refused.as_slice(), intake);
            }
            Kind::Question | Kind::Stray => {
                // The listener must not be locked after the members, because strays lock them in the other order.
                drop(state);
                let is_ours = intake.accept(&message.stray);
                self.counts.taken.fetch_add(u64::from(is_ours), Ordering::Relaxed);
                let answer = if is_ours { Kind::Owner } else { Kind::Stranger };
                if !is_ours || message.kind == Kind::Question {
                    let about = Stray::new(flow.0, flow.1, &[]);
                    self.send(&mut lock(&self.state), 1 << sender, Message::about(answer, nonce, about));
                }
            }
        }
    }

    fn refuse(&self, refused: &[Refused], intake: &StrayIntake) {
        self.counts.unknown.fetch_add(refused.len() as u64, Ordering::Relaxed);
        refused.iter().for_each(|refused| intake.refuse(&refused.stray()));
    }

    /// Sends a message to these members. If the socket's buffer is full, it is lost like any datagram.
    fn send(&self, state: &mut MutexGuard<'_, State>, to: Set, message: Message<'_>) {
        let State { members, out, .. } = &mut **state;
        message.encode(&self.key, out);
        for (nth, member) in members.iter().enumerate() {
            if to >> nth & 1 == 1 {
                let _ = self.socket.send_to(out, member.address);
            }
        }
    }
}

impl StrayHandler for Members {
    fn hand_over(&self, stray: &Stray<'_>) -> bool {
        let (mut state, now) = (lock(&self.state), now());
        let live = state.live_at(now);
        let (kind, to, nonce) = if stray.is_syn {
            let ready = live & state.set(|member| !member.is_draining);
            let Some(member) = state.flows.choose(ready, stray) else { return false };
            (Kind::Stray, 1 << member, 0)
        } else {
            match state.flows.on_stray(now, live, stray) {
                Action::Ask(to, nonce) => (Kind::Question, to, nonce),
                Action::Send(member, nonce) => (Kind::Stray, 1 << member, nonce),
                Action::Refuse => return false,
                Action::Drop => {
                    self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                    return true;
                }
            }
        };
        for datagram in stray.data.chunks(stray.segment_size.max(1)) {
            let mut one = *stray;
            (one.data, one.segment_size) = (datagram, datagram.len());
            self.send(&mut state, to, Message::about(kind, nonce, one));
            self.counts.passed.fetch_add(1, Ordering::Relaxed);
        }
        true
    }
}

impl State {
    fn set(&self, which: impl Fn(&Member) -> bool) -> Set {
        let bits = self.members.iter().enumerate().map(|(nth, member)| Set::from(which(member)) << nth);
        bits.fold(0, |set, bit| set | bit)
    }

    /// Returns the other members from which a message has arrived recently, or that have just been added.
    fn live_at(&self, now: Instant) -> Set {
        self.set(|member| {
            let limit = if member.is_linked { LINKED_SILENCE } else { SILENCE };
            !member.is_own && member.heard_at.is_some_and(|at| now.saturating_duration_since(at) < limit)
        })
    }
}

impl Member {
    fn new(address: SocketAddr, own: SocketAddr, now: Instant) -> Self {
        Self {
            address,
            is_own: address == own,
            heard_at: Some(now),
            ended_at: None,
            is_linked: false,
            is_draining: false,
        }
    }
}

fn bind_first(addresses: &[SocketAddr]) -> io::Result<(UdpSocket, TcpListener)> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match UdpSocket::bind(address).and_then(|socket| Ok((socket, TcpListener::bind(address)?))) {
            Ok(sockets) => return Ok(sockets),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests;
