//! TCP endpoint of one UDP socket: demultiplexing by address, a listener, TIME-WAIT, and replies to segments that
//! belong to no connection.
//!
//! # Driving it
//!
//! The caller passes each receive batch to [`handle_datagram`](Endpoint::handle_datagram), calls
//! [`handle_timeout`](Endpoint::handle_timeout) at the time that [`poll_timeout`](Endpoint::poll_timeout) returned, and
//! runs application calls through [`drive`](Endpoint::drive). After any of them, it calls
//! [`poll_transmit`](Endpoint::poll_transmit) until it returns `None`, and then [`poll_event`](Endpoint::poll_event)
//! until it returns `None`. Connections take turns to send, one batch each.
//!
//! The effect of unverified addresses is bounded: no answer is larger than the segment it answers, a SYN-ACK is sent
//! at most three times unless the SYN is repeated, and beyond the backlog SYNs are answered with stateless SYN
//! cookies.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use longhaul_cc::TimerWheel;
use longhaul_units::{Span, Time};
use longhaul_wire::Header;

use crate::connection::Start;
use crate::keys::Keys;
use crate::{
    Config, Connection, EndpointConfig, Event, HostError, IncomingObservers, SegmentMeta, State, TimestampClock, Tuple,
    seq,
};

mod cookie;
mod directory;
mod group;
mod limits;
mod moving;
mod opening;
mod prehashed;
mod receiving;
mod reflect;
mod settling;
mod slots;
mod stray;
mod table;
#[cfg(test)]
mod tests;
mod time_wait;
mod transmitting;

pub use group::EndpointGroup;
use group::{Membership, Share};
use reflect::Reflector;
use slots::{Slot, Slots};
use stray::Buckets;
use table::Table;
use time_wait::TimeWait;
pub(crate) use time_wait::TimeWaitRecord;

/// Distance from the last sequence number of a connection to the first of the next one between the same addresses:
/// the largest unscaled window, so that delayed segments fall outside the new window.
const SEQUENCE_GAP: u32 = 1 << 16;

/// Maximum number of replies in the queue for those that belong to no connection.
const ANSWERS: usize = 4096;

/// Handle of a connection of an endpoint. Handles are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConnId {
    slot: u32,
    generation: u32,
}

impl ConnId {
    /// Returns a small number that is unique among the live connections of the endpoint, for indexing external
    /// tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.slot as usize
    }
}

/// Notification for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointEvent {
    /// [`Endpoint::accept`] will return a connection.
    Incoming,
    /// Event of a connection.
    Connection(ConnId, Event),
}

/// Destination of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Addresses of the path.
    pub tuple: Tuple,
    /// The connection, or `None` for a reply that belongs to no connection; all bytes of such a reply are in
    /// [`Batch::headers`](crate::Batch::headers).
    pub connection: Option<ConnId>,
}

/// Metadata of a datagram, or of a batch of datagrams from one sender.
#[derive(Clone, Copy, Debug)]
pub struct DatagramMeta {
    /// Addresses of the path.
    pub tuple: Tuple,
    /// Length of each datagram except the last, if receive offload merged several.
    pub stride: usize,
    /// TOS or traffic class, if the socket reports it.
    pub tos: Option<u8>,
    /// Receive time, ECN field and TTL.
    pub segment: SegmentMeta,
}

impl DatagramMeta {
    /// Returns the metadata of a single datagram from `remote`, received on a socket with one address.
    #[must_use]
    pub fn new(remote: SocketAddr, len: usize) -> Self {
        let local = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { tuple: Tuple { remote, local }, stride: len, tos: None, segment: SegmentMeta::default() }
    }
}

/// Counters of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Number of datagrams that could not be parsed.
    pub malformed: u64,
    /// SYN cookies sent.
    pub cookies_sent: u64,
    /// Number of connections opened by a returned SYN cookie.
    pub cookies_accepted: u64,
    /// Segments without a connection.
    pub stray: u64,
    /// Number of RSTs sent in reply to such segments.
    pub resets_sent: u64,
    /// Number of SYNs and returned cookies dropped because of a limit.
    pub refused: u64,
    /// Number of path measurement probes answered.
    pub probes_answered: u64,
}

struct Listener {
    config: Arc<Config>,
    ready: VecDeque<ConnId>,
}

/// Endpoint with all connections of one UDP socket. See the [module](self) for the order of calls.
pub struct Endpoint {
    config: EndpointConfig,
    keys: Keys,
    slots: Slots,
    table: Table,
    membership: Membership,
    listener: Option<Listener>,
    time_wait: TimeWait,
    /// Factory of observers for connections that peers open.
    incoming_observers: Option<Box<dyn IncomingObservers>>,
    wheel: TimerWheel,
    queue: VecDeque<u32>,
    events: VecDeque<EndpointEvent>,
    /// Replies that belong to no connection, and challenges of connections that move.
    answers: VecDeque<(Tuple, Header, Option<ConnId>)>,
    reflector: Reflector,
    buckets: Buckets,
    memory: usize,
    stats: EndpointStats,
    /// The smallest patience of the connections that have received data since
    /// [`take_read_patience`](Self::take_read_patience) was last called.
    read_patience: Option<Span>,
    now: Time,
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per task")]
impl Endpoint {
    /// Creates an endpoint without connections.
    #[must_use]
    pub fn new(config: EndpointConfig, now: Time) -> Self {
        let membership = Membership::alone(&config.secret);
        Self::with(config, now, membership)
    }

    fn with(config: EndpointConfig, now: Time, membership: Membership) -> Self {
        let keys = Keys::new(&config.secret);
        Self {
            slots: Slots::default(),
            table: Table::new(keys.clone()),
            membership,
            listener: None,
            incoming_observers: None,
            time_wait: TimeWait::new(keys.clone(), config.max_time_wait),
            wheel: TimerWheel::new(now),
            queue: VecDeque::new(),
            events: VecDeque::new(),
            answers: VecDeque::new(),
            reflector: Reflector::default(),
            buckets: Buckets::new(),
            memory: 0,
            stats: EndpointStats::default(),
            read_patience: None,
            now,
            keys,
            config,
        }
    }

    /// Starts answering SYNs; accepted connections get `config`.
    pub fn listen(&mut self, config: Arc<Config>) {
        if let Some(listener) = &mut self.listener {
            // Connections that wait to be accepted are kept (RFC 9293, section 3.9.1, MUST-41).
            listener.config = config;
            return;
        }
        self.listener = Some(Listener { config, ready: VecDeque::new() });
    }

    /// Stops answering SYNs and resets connections that were not accepted.
    pub fn unlisten(&mut self, now: Time) {
        let Some(listener) = self.listener.take() else { return };
        self.membership.counts().ready.subtract(listener.ready.len());
        // This includes connections in the handshake, because the application could never get them.
        for id in self.ids(|slot| slot.pending) {
            self.set_accepted(id);
            self.drive(now, id, Connection::abort);
            self.release(now, id);
        }
    }

    /// Prepares for the endpoint to be dropped: connections that did not finish sending get a RST, which
    /// [`poll_transmit`](Self::poll_transmit) returns. There is no RST if the FIN was sent, or only the peer's window
    /// holds it back: the peer does not need our last acknowledgment, and a RST could make it discard unread data. If
    /// data is unsent, the peer would wait forever, so it gets a RST, as does a peer whose data is discarded.
    pub fn abandon(&mut self, now: Time) {
        self.unlisten(now);
        let ours = |state| matches!(state, State::FinWait1 | State::Closing | State::LastAck | State::TimeWait);
        for id in self.ids(|_| true) {
            self.drive(now, id, |connection| {
                if connection.status().discards() || !(ours(connection.state()) && connection.engine().hurry_fin()) {
                    connection.abort();
                }
            });
        }
    }

    /// Returns the connections that satisfy `which`.
    fn ids(&self, which: impl Fn(&Slot) -> bool) -> Vec<ConnId> {
        self.slots.iter().filter(|slot| which(slot)).map(|slot| slot.id).collect()
    }

    /// Returns the next connection that has completed the handshake.
    pub fn accept(&mut self) -> Option<ConnId> {
        let listener = self.listener.as_mut()?;
        let id = listener.ready.pop_front()?;
        self.membership.counts().ready.subtract(1);
        self.set_accepted(id);
        Some(id)
    }

    fn set_accepted(&mut self, id: ConnId) {
        if self.slots.of_mut(id).is_some_and(|slot| std::mem::take(&mut slot.pending)) {
            self.membership.counts().pending.subtract(1);
        }
    }

    /// Opens a connection. Returns `None` if there already is one between these addresses, if they are not the valid
    /// addresses of two hosts ([`Tuple::joins_two_hosts`]), or if the maximum number of connections is reached.
    pub fn connect(&mut self, now: Time, tuple: Tuple, config: Arc<Config>) -> Option<ConnId> {
        let now = self.advance(now);
        if !tuple.joins_two_hosts() || self.find_slot(&tuple).is_some() {
            return None;
        }
        if !self.membership.open(self.config.max_connections) {
            return None;
        }
        let previous = self.time_wait.get(&tuple);
        let iss = self.initial_sequence(&tuple, now, previous);
        let clock = TimestampClock::new(self.keys.timestamp_offset(&tuple), now, config.extensions);
        let seed = self.keys.nonces(&tuple, now);
        let connection = Connection::connect(Start { config, iss, clock, now, ipv6: tuple.is_ipv6(), seed });
        let id = self.insert(tuple, connection, None);
        self.settle(id.slot);
        Some(id)
    }

    /// Returns a connection unless the endpoint has forgotten it.
    #[must_use]
    pub fn connection(&self, id: ConnId) -> Option<&Connection> {
        Some(&self.slots.of(id)?.connection)
    }

    fn connection_mut(&mut self, id: ConnId) -> Option<&mut Connection> {
        Some(&mut self.slots.of_mut(id)?.connection)
    }

    /// Returns the state of a connection.
    #[must_use]
    pub fn state(&self, id: ConnId) -> Option<State> {
        Some(self.slots.of(id)?.connection.state())
    }

    /// Returns the addresses of a connection.
    #[must_use]
    pub fn tuple(&self, id: ConnId) -> Option<Tuple> {
        Some(self.slots.of(id)?.tuple)
    }

    /// Runs an application call on a connection; returns `None` if the endpoint has forgotten it.
    pub fn drive<R>(&mut self, now: Time, id: ConnId, act: impl FnOnce(&mut Connection) -> R) -> Option<R> {
        let now = self.advance(now);
        let connection = self.connection_mut(id)?;
        connection.begin_call(now);
        let result = act(connection);
        self.settle(id.slot);
        Some(result)
    }

    /// Releases a connection: it is closed in an orderly way if it is still open, and then forgotten.
    pub fn release(&mut self, now: Time, id: ConnId) {
        let now = self.advance(now);
        let Some(slot) = self.slots.of_mut(id) else { return };
        slot.connection.begin_call(now);
        slot.held = false;
        slot.connection.orphan();
        self.settle(id.slot);
    }

    /// Returns the number of connections, including those that are closing, without TIME-WAIT records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there are neither connections nor TIME-WAIT records.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.is_empty() && self.time_wait.records.is_empty()
    }

    /// Returns whether there are no connections; TIME-WAIT records may remain.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// Returns the number of TIME-WAIT records.
    #[must_use]
    pub fn time_wait_len(&self) -> usize {
        self.time_wait.records.len()
    }

    /// Returns the memory of the connections' buffers and records in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        self.stats
    }

    /// Handles an error that the host reports for a path; see [`Connection::handle_host_error`].
    pub fn handle_host_error(&mut self, now: Time, tuple: Tuple, error: HostError) {
        let now = self.advance(now);
        if let Some(index) = self.find_slot(&tuple) {
            if let Some(slot) = self.slots.get_mut(index) {
                slot.connection.handle_host_error(now, error);
            }
            self.settle(index);
        }
    }

    /// Handles expired timers.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.advance(now);
        self.time_wait.expire(now);
        while let Some(index) = self.wheel.pop_expired(now) {
            if let Some(slot) = self.slots.get_mut(index) {
                slot.connection.handle_timeout(now);
            }
            self.settle(index);
        }
    }

    /// Returns the time of the next call of [`handle_timeout`](Self::handle_timeout), if any timer is set.
    #[must_use]
    pub fn poll_timeout(&mut self) -> Option<Time> {
        self.wheel.next().into_iter().chain(self.time_wait.order.first().map(|(at, _)| *at)).min()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front()
    }

    fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    /// Returns an initial sequence number beyond those of the previous connection between the same addresses, which
    /// may have advanced faster than the clock (RFC 1122, section 4.2.2.13).
    fn initial_sequence(&self, tuple: &Tuple, now: Time, previous: Option<TimeWaitRecord>) -> u32 {
        if let Some(fixed) = self.config.initial_sequence {
            return fixed;
        }
        let iss = self.keys.initial_sequence(tuple, self.shared_time(now));
        let least = previous.map(|record| record.snd_nxt.wrapping_add(SEQUENCE_GAP));
        least.filter(|least| seq::later(*least, iss)).unwrap_or(iss)
    }

    /// Adds a connection that the limits have admitted, with the `share` of its peer's address if the peer opened it.
    fn insert(&mut self, tuple: Tuple, mut connection: Connection, share: Option<Arc<Share>>) -> ConnId {
        connection.opening().recall(self.now, tuple.remote.ip());
        if share.is_some() {
            self.membership.counts().pending.add(1);
        }
        let id = self.slots.insert(tuple, connection, share);
        self.table.insert(tuple, id.slot);
        self.membership.enter(&tuple);
        id
    }
}
