//! An endpoint and its socket, shared by the driver task and all handles.
//!
//! There is one lock per endpoint. The task that changes the endpoint's state also sends the resulting segments under
//! this lock. A write is thus transmitted at once instead of waiting for another task, unless there is more to send
//! than fits in one turn. The driver waits for the socket and the timer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Waker};

use longhaul_tcp::{Batch, ConnId, Connection, Destination, Endpoint, EndpointEvent, Event, HostError, Tuple};
use longhaul_units::Time;

use crate::accept_queue::AcceptQueue;
use crate::capture::SharedCapture;
use crate::disk::WaitForDisk;
use crate::handle::driver_follows;
use crate::info::SocketInfo;
use crate::io::{Buffers, Io};
use crate::roaming::Roaming;
use crate::shards::Shards;
use crate::strays::StrayHandler;
use crate::sync::{Mutex, MutexGuard};
use crate::waiters::{Wait, Waiters, WakerSet};

mod receive;
#[cfg(test)]
mod tests;
mod transmit;

use receive::Forwarded;
pub(crate) use transmit::{BATCHES_PER_TURN, BYTES_PER_TURN, Turn};

/// Maximum number of send turns when the runtime shuts down, per call, in addition to those for resets.
const LAST_TURNS: usize = 1024;
/// Maximum number of pauses until the socket accepts further resets, and their length: they delay the shutdown of a
/// runtime by at most one second.
const LAST_PAUSES: u32 = 1000;
const LAST_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) io: Io,
    pub(crate) local: SocketAddr,
    /// The runtime that runs the driver.
    pub(crate) runtime: tokio::runtime::Id,
    /// Whether the socket is bound to the unspecified address; responses are then sent from the address to which the
    /// peer sent.
    wildcard: bool,
    /// The shards of the listener for which the socket was opened, if there are several.
    shards: Option<Arc<Shards>>,
}

pub(crate) struct State {
    pub(crate) endpoint: Endpoint,
    pub(crate) waiters: Vec<Waiters>,
    /// The accept queue of the listener, and the number of this shard in it.
    pub(crate) accepting: Option<(Arc<AcceptQueue>, u32)>,
    forwarded: Vec<Forwarded>,
    /// Passes strays to other hosts with the same address.
    pub(crate) strays: Option<Arc<dyn StrayHandler>>,
    /// Whether an event was collected after which applications often write immediately.
    reply_expected: bool,
    driver: Option<Waker>,
    batch: Batch,
    /// The destination of a batch that the socket has not accepted yet.
    pub(crate) stuck: Option<Destination>,
    /// Whether more data is to be sent than fits in one turn. Tasks then leave sending to the driver, which receives
    /// before it sends: many busy tasks would delay the driver until ACKs overflow the socket.
    is_behind: bool,
    /// Bytes sent since the driver's last turn began.
    pub(crate) sent: usize,
    /// Last connection whose writer left data for the driver and is also about to run.
    pub(crate) busy: Option<ConnId>,
    /// Earliest time of the next send after the kernel had no memory.
    resume_at: Option<Time>,
    pub(crate) read_at: Option<Time>,
    /// Time at which the socket closes even if connections are in TIME-WAIT.
    pub(crate) lingers_until: Option<Time>,
    armed: Option<Time>,
    /// Number of handles held by the application: streams, listeners and connectors.
    pub(crate) handles: usize,
    pub(crate) fatal: Option<io::ErrorKind>,
    /// Whether the driver has ended or is about to end, in which case the socket is no longer served.
    pub(crate) ended: bool,
    pub(crate) stats: SocketInfo,
    /// Number of received messages for connections of other shards.
    pub(crate) forwarded_messages: u64,
    #[cfg(test)]
    pub(crate) batches: usize,
    /// Injected errors of the next send calls, in reverse order.
    #[cfg(test)]
    pub(crate) faults: Vec<io::Error>,
    kernel_drops_seen: u32,
    pub(crate) captures: Vec<SharedCapture>,
    /// Declared after the endpoint and the captures, so that it waits for the disk after these have been dropped.
    pub(crate) disk: Option<WaitForDisk>,
    /// Tasks that wait for the last connection to end.
    pub(crate) idle: WakerSet,
    /// The DSCP for batches that do not request one.
    pub(crate) dscp: u8,
    wake: Vec<Waker>,
    scratch: Vec<u8>,
    /// The only peer of a connected socket.
    pub(crate) client: Option<SocketAddr>,
    /// State of the moves of that connection, if it can move.
    pub(crate) roaming: Option<Box<Roaming>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiving {
    /// No receiving, because of a pause.
    Paused,
    /// When the runtime reports the socket as readable.
    WhenReady,
    /// At once, because enough has been sent for ACKs to be expected. A single-threaded runtime asks the kernel for
    /// readiness only after 61 task polls or when all tasks are waiting.
    AtOnce,
}

impl Shared {
    pub(crate) fn new(
        io: Io,
        endpoint: Endpoint,
        local: SocketAddr,
        buffers: Buffers,
        shards: Option<Arc<Shards>>,
    ) -> Arc<Self> {
        let state = State {
            endpoint,
            waiters: Vec::new(),
            accepting: None,
            forwarded: Vec::new(),
            strays: None,
            reply_expected: false,
            driver: None,
            batch: Batch::default(),
            stuck: None,
            is_behind: false,
            sent: 0,
            busy: None,
            resume_at: None,
            read_at: None,
            lingers_until: None,
            armed: None,
            handles: 0,
            fatal: None,
            ended: false,
            stats: SocketInfo::new(buffers),
            forwarded_messages: 0,
            #[cfg(test)]
            batches: 0,
            #[cfg(test)]
            faults: Vec::new(),
            kernel_drops_seen: 0,
            captures: Vec::new(),
            disk: None,
            idle: WakerSet::default(),
            dscp: 0,
            wake: Vec::new(),
            scratch: Vec::new(),
            client: None,
            roaming: None,
        };
        // A connector identifies its peers only by their addresses, because the system chooses the local address.
        let wildcard = local.ip().is_unspecified() && !io.role.is_client();
        let runtime = tokio::runtime::Handle::current().id();
        Arc::new(Self { state: Mutex::new(state), io, local, runtime, wildcard, shards })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Locks the state, or fails if the socket has failed.
    pub(crate) fn lock_alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.lock();
        state.fatal.map_or(Ok(state), |kind| Err(kind.into()))
    }

    /// Locks the state if this is possible without waiting.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        self.state.try_lock()
    }

    /// Runs `act` on a connection, sends the resulting segments, and wakes the affected tasks.
    pub(crate) fn drive<R>(&self, id: ConnId, act: impl FnOnce(&mut Connection, &mut Waiters) -> R) -> Option<R> {
        let mut state = self.lock();
        let now = Io::now();
        let result = state.with(now, id, act);
        self.settle(state, now);
        result
    }

    /// Applies `look` to a connection without changing it.
    pub(crate) fn look<R>(&self, id: ConnId, look: impl FnOnce(&Connection, &mut Waiters) -> R) -> Option<R> {
        let mut state = self.lock();
        let state = &mut *state;
        let waiters = slot(&mut state.waiters, id);
        state.endpoint.connection(id).map(|connection| look(connection, waiters))
    }

    /// Completes a call that has changed the state: sends, sets the timer, releases the lock, and wakes tasks.
    pub(crate) fn settle(&self, state: MutexGuard<'_, State>, now: Time) {
        self.settle_except(state, now, None);
    }

    /// Completes a call that may be followed by another write to `writer` immediately. If less than a full batch of its
    /// data remains to be sent, the driver sends it after the caller has yielded, together with data written in the
    /// meantime.
    pub(crate) fn settle_except(&self, mut state: MutexGuard<'_, State>, now: Time, writer: Option<ConnId>) {
        let waits = state.is_behind && driver_follows();
        let turn = if waits { Turn::More } else { state.transmit(self, now, writer) };
        if waits {
            state.busy = writer.or(state.busy);
        }
        if turn == Turn::Done {
            state.arm(self);
        } else {
            // The driver continues when the socket is writable again, or after other tasks have run.
            state.wake_driver();
        }
        state.finish();
        State::wake(state);
    }

    /// Completes a call that is likely to be followed by similar ones immediately: the driver sends after the caller
    /// has yielded.
    pub(crate) fn settle_later(&self, mut state: MutexGuard<'_, State>) {
        state.wake_driver();
        state.finish();
        State::wake(state);
    }

    pub(crate) fn ttl(&self) -> io::Result<u32> {
        let udp = self.io.options();
        if udp.local_addr()?.is_ipv4() { udp.ttl_v4() } else { udp.unicast_hops_v6() }
    }

    pub(crate) fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let udp = self.io.options();
        if udp.local_addr()?.is_ipv4() {
            return udp.set_ttl_v4(ttl);
        }
        // The IPv4 TTL applies to IPv4-mapped peers. A socket for IPv6 only may not support it.
        let _ = udp.set_ttl_v4(ttl);
        udp.set_unicast_hops_v6(ttl)
    }

    /// Returns the address pair of a datagram, which identifies its connection in the endpoint's table.
    pub(crate) fn tuple(&self, remote: SocketAddr, local: Option<IpAddr>) -> Tuple {
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Tuple { remote, local: local.filter(|_| self.wildcard).unwrap_or(unspecified) }
    }

    pub(crate) fn client_tuple(remote: SocketAddr) -> Tuple {
        Tuple { remote, local: IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
    }
}

pub(crate) fn slot(waiters: &mut Vec<Waiters>, id: ConnId) -> &mut Waiters {
    let index = id.index();
    if waiters.len() <= index {
        waiters.resize_with(index + 1, Waiters::default);
    }
    &mut waiters[index]
}

impl State {
    pub(crate) fn with<R>(
        &mut self,
        now: Time,
        id: ConnId,
        act: impl FnOnce(&mut Connection, &mut Waiters) -> R,
    ) -> Option<R> {
        let waiters = slot(&mut self.waiters, id);
        self.endpoint.drive(now, id, |connection| act(connection, waiters))
    }

    pub(crate) fn begin_turn(&mut self, cx: &Context<'_>) -> Receiving {
        match &self.driver {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => self.driver = Some(cx.waker().clone()),
        }
        self.is_behind = false;
        let sent = std::mem::take(&mut self.sent);
        self.read_at = self.read_at.filter(|at| Io::now() < *at);
        match self.read_at {
            Some(_) => Receiving::Paused,
            None if sent >= BYTES_PER_TURN => Receiving::AtOnce,
            None => Receiving::WhenReady,
        }
    }

    pub(crate) fn wake_driver(&mut self) {
        if let Some(waker) = &self.driver {
            self.wake.push(waker.clone());
        }
    }

    /// Returns whether the driver may end: there is no handle, connection or unsent batch left.
    pub(crate) fn is_over(&self) -> bool {
        self.fatal.is_some() || (self.handles == 0 && self.endpoint.is_empty() && self.stuck.is_none())
    }

    /// Ends the endpoint unless it is in use again. Returns whether it has ended.
    pub(crate) fn end(&mut self) -> bool {
        self.ended = self.is_over();
        self.ended
    }

    pub(crate) fn fail(&mut self, error: &io::Error) {
        tracing::error!(%error, "the UDP socket failed");
        self.fatal = Some(error.kind());
        self.wake_everybody();
    }

    /// Ends the endpoint when its driver is dropped. Peers that still expect data are reset, if the socket still
    /// works.
    pub(crate) fn abandon(&mut self, shared: &Shared, now: Time) {
        self.driver = None;
        if self.fatal.is_none() {
            self.busy = None;
            let mut pauses = LAST_PAUSES;
            // The resets discard queued data, so data that may be sent is sent first.
            self.transmit_last(shared, now, &mut pauses);
            self.endpoint.abandon(now);
            self.transmit_last(shared, now, &mut pauses);
        }
        if self.handles > 0 && self.fatal.is_none() {
            self.fatal = Some(io::ErrorKind::NotConnected);
        }
        self.wake_everybody();
    }

    /// Sends the remaining data when the runtime shuts down. Waits for the socket for at most `pauses` pauses.
    fn transmit_last(&mut self, shared: &Shared, now: Time, pauses: &mut u32) {
        // Each connection has one batch to send, its RST, except for those that have ended their streams.
        let turns = LAST_TURNS + self.endpoint.len() / BATCHES_PER_TURN;
        for _ in 0..turns {
            self.sent = 0;
            match self.transmit(shared, now, None) {
                Turn::More => {}
                Turn::Done if self.resume_at.is_none() => return,
                // The socket's buffer is full, or the kernel has no memory.
                Turn::Done | Turn::Blocked => {
                    self.resume_at = None;
                    let Some(left) = pauses.checked_sub(1) else { return };
                    *pauses = left;
                    std::thread::sleep(LAST_PAUSE);
                }
            }
        }
    }

    /// Fetches errors reported for the path and passes them to the endpoint. Returns whether there were any.
    pub(crate) fn fetch_errors(&mut self, shared: &Shared, now: Time) -> bool {
        shared.io.take_errors(&mut |destination, error| self.on_host_error(now, destination, error))
    }

    /// Passes an error on the path to `destination` to the endpoint. A connected socket has only one destination.
    pub(crate) fn on_host_error(&mut self, now: Time, destination: Option<SocketAddr>, error: HostError) {
        let Some(tuple) = self.client.or(destination).map(Shared::client_tuple) else { return };
        self.endpoint.handle_host_error(now, tuple, error);
    }

    fn wake_everybody(&mut self) {
        for waiters in &mut self.waiters {
            waiters.take_all(&mut self.wake);
        }
        if let (Some((queue, _)), Some(kind)) = (&self.accepting, self.fatal) {
            queue.fail(kind, &mut self.wake);
        }
        self.idle.take(&mut self.wake);
        self.wake_driver();
    }

    /// Sets the timer if it would fire too late. A timer that fires too early is harmless.
    pub(crate) fn arm(&mut self, shared: &Shared) {
        let look_at = self.roaming.as_ref().and_then(|roaming| roaming.look_at);
        let times = [self.endpoint.poll_timeout(), self.resume_at, self.read_at, self.lingers_until, look_at];
        let Some(next) = times.into_iter().flatten().min() else { return };
        if self.armed.is_none_or(|armed| next < armed) {
            shared.io.arm(next);
            self.armed = Some(next);
        }
    }

    pub(crate) fn timer_fired(&mut self) {
        (self.armed, self.is_behind) = (None, false);
    }

    pub(crate) fn finish(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                EndpointEvent::Incoming => {
                    if let Some((queue, shard)) = &self.accepting {
                        queue.push(*shard, &mut self.wake);
                    }
                }
                EndpointEvent::Connection(id, event) => {
                    self.note(id, event);
                    self.reply_expected |= self.expects_reply(id, event);
                    let waiters = slot(&mut self.waiters, id);
                    match event {
                        Event::Readable => waiters.take(Wait::Read, &mut self.wake),
                        Event::Writable => waiters.take(Wait::Write, &mut self.wake),
                        Event::Stalled => self.look_soon(Time::ZERO),
                        Event::Connected | Event::Finished => waiters.take(Wait::State, &mut self.wake),
                        Event::Closed => {
                            waiters.take(Wait::State, &mut self.wake);
                            if self.handles == 0 {
                                self.wake_driver();
                            }
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        if self.endpoint.is_empty() {
            self.idle.take(&mut self.wake);
        }
    }

    /// Returns whether the application is likely to write as soon as it is notified of this event: a client's request
    /// when it is connected, or its own FIN after the peer's.
    fn expects_reply(&self, id: ConnId, event: Event) -> bool {
        match event {
            Event::Connected => true,
            Event::Readable => {
                self.endpoint.connection(id).is_some_and(|c| c.state() == longhaul_tcp::State::CloseWait)
            }
            _ => false,
        }
    }

    /// Removes the waiters of a dropped handle, because its slot may be reused for another connection.
    pub(crate) fn forget_waiters(&mut self, id: ConnId) {
        let mut waiters = std::mem::take(slot(&mut self.waiters, id));
        // A waker may own its task, which may own a handle: it must not be dropped while the lock is held.
        waiters.take_all(&mut self.wake);
    }

    /// Releases the lock, then wakes the collected tasks.
    pub(crate) fn wake(mut state: MutexGuard<'_, Self>) {
        let wakers = state.take_wakers();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wake)
    }
}

/// Requested size of each of a socket's buffers in bytes. The size covers scheduling delays and does not limit the
/// window.
const SOCKET_BUFFER: usize = 4 << 20;
/// Minimum size without a warning. Smaller buffers overflow within one scheduling delay at 1 Gb/s.
const ENOUGH: usize = 1 << 20;

/// Sets the socket's buffers, reads back the granted sizes, and warns once per process if they are too small.
pub(crate) fn set_buffers(io: &Io) -> Buffers {
    static WARNED: std::sync::Once = std::sync::Once::new();
    let wanted = Buffers { send: SOCKET_BUFFER, recv: SOCKET_BUFFER };
    let granted = io.set_buffers(wanted).unwrap_or(Buffers { send: 0, recv: 0 });
    if granted.recv < ENOUGH || granted.send < ENOUGH {
        WARNED.call_once(|| {
            tracing::warn!(
                send = granted.send,
                recv = granted.recv,
                "the UDP socket buffers are small; raise their limits with: \
                 sysctl -w net.core.rmem_max={SOCKET_BUFFER} net.core.wmem_max={SOCKET_BUFFER}"
            );
        });
    }
    granted
}
