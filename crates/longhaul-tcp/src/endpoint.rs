//! One UDP socket's worth of TCP: connections told apart by address, a listener, TIME-WAIT, and the answers to
//! segments that belong to none of them.
//!
//! # Driving it
//!
//! [`handle_datagram`](Endpoint::handle_datagram) for each receive batch, [`handle_timeout`](Endpoint::handle_timeout)
//! when [`poll_timeout`](Endpoint::poll_timeout)'s time has come, [`drive`](Endpoint::drive) for what the application
//! does; after any of them [`poll_transmit`](Endpoint::poll_transmit) until it returns `None`, then
//! [`poll_event`](Endpoint::poll_event) until it returns `None`. Connections take turns: one batch each.
//!
//! What an unproved address can cause is bounded: no answer is larger than the segment it answers, a SYN is answered
//! three times at most unless repeated, and beyond the backlog by a cookie that costs no memory.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use longhaul_cc::TimerWheel;
use longhaul_units::Time;
use longhaul_wire::Header;

use crate::config::{Config, EndpointConfig};
use crate::connection::{Batch, Connection, Event, SegmentMeta, SegmentRef};
use crate::error::HostError;
use crate::seq;
use crate::state::State;
use crate::timestamps::TimestampClock;

mod cookie;
mod keys;
mod opening;
mod path_cache;
mod receiving;
mod reflect;
mod stray;
mod table;
mod tally;
#[cfg(test)]
mod tests;
mod time_wait;

use keys::Keys;
pub use keys::Tuple;
pub(crate) use keys::socket_secret;
pub(crate) use path_cache::{Learnt, Taken};
pub use path_cache::{LoadError, LoadReason, PathCache, PathCacheConfig, PathMetrics};
use reflect::Reflector;
use stray::Buckets;
use table::Table;
use tally::{Tally, pressure};
use time_wait::{Record, TimeWait};

/// Between the last sequence number of a connection and the first of the next one between the same addresses: a window
/// without scaling, so that what is still on its way falls outside.
const SEQUENCE_GAP: u32 = 1 << 16;

/// A connection of an endpoint. Never reused for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConnId {
    slot: u32,
    generation: u32,
}

impl ConnId {
    /// A small number that no other living connection of the endpoint has, for tables beside it.
    #[must_use]
    pub const fn index(self) -> usize {
        self.slot as usize
    }
}

/// Something the application should know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointEvent {
    /// [`Endpoint::accept`] will return a connection.
    Incoming,
    /// An event of a connection.
    Connection(ConnId, Event),
}

/// Where a batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// To whom.
    pub tuple: Tuple,
    /// The connection, or `None` for an answer on nobody's behalf: all its bytes are in [`Batch::headers`].
    pub connection: Option<ConnId>,
}

/// What is known of a datagram, or of a batch of them from one sender.
#[derive(Clone, Copy, Debug)]
pub struct DatagramMeta {
    /// Between whom.
    pub tuple: Tuple,
    /// The length of each but the last, if receive offload merged several.
    pub stride: usize,
    /// Receive time, ECN mark and TTL.
    pub segment: SegmentMeta,
}

impl DatagramMeta {
    /// A single datagram from `remote` to a socket with one address.
    #[must_use]
    pub fn new(remote: SocketAddr, len: usize) -> Self {
        let local = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { tuple: Tuple { remote, local }, stride: len, segment: SegmentMeta::default() }
    }
}

/// Counters of an endpoint's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Datagrams that did not parse.
    pub malformed: u64,
    /// SYNs answered by a cookie.
    pub cookies_sent: u64,
    /// Connections made from a cookie that came back.
    pub cookies_accepted: u64,
    /// Segments without a connection.
    pub stray: u64,
    /// RSTs sent to their senders.
    pub resets_sent: u64,
    /// SYNs dropped for want of room.
    pub refused: u64,
    /// Probes of the path that were answered.
    pub probes_answered: u64,
}

#[derive(Debug)]
struct Slot {
    tuple: Tuple,
    connection: Connection,
    generation: u32,
    /// In the queue of those that may have something to send.
    queued: bool,
    /// The application holds it, or will be handed it by `accept`.
    held: bool,
    /// A passive open that was not accepted yet.
    pending: bool,
    /// The peer opened it.
    passive: bool,
    memory: usize,
    /// What of it the tally of its address has.
    charged: usize,
    /// To be told of the path once the connection has seen it.
    path_cache: Option<PathCache>,
}

#[derive(Debug)]
struct Listener {
    config: Arc<Config>,
    ready: VecDeque<ConnId>,
    /// Passive opens that are under way or ready.
    pending: usize,
    /// Cookies were sent until then: ACKs without a connection may bring one back.
    cookies_until: Option<Time>,
}

/// One UDP socket's connections. See the [module](self) for the order of calls.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    keys: Keys,
    slots: Vec<Option<Box<Slot>>>,
    free: Vec<(u32, u32)>,
    table: Table,
    tally: Tally,
    listener: Option<Listener>,
    time_wait: TimeWait,
    wheel: TimerWheel,
    queue: VecDeque<u32>,
    events: VecDeque<EndpointEvent>,
    answers: VecDeque<(Tuple, Header)>,
    reflector: Reflector,
    buckets: Buckets,
    memory: usize,
    live: usize,
    stats: EndpointStats,
    now: Time,
}

impl Endpoint {
    /// An endpoint without connections.
    #[must_use]
    pub fn new(config: EndpointConfig, now: Time) -> Self {
        let keys = Keys::new(&config.secret);
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            table: Table::new(keys.clone()),
            tally: Tally::new(keys.clone()),
            listener: None,
            time_wait: TimeWait::new(keys.clone(), config.max_time_wait),
            wheel: TimerWheel::new(now),
            queue: VecDeque::new(),
            events: VecDeque::new(),
            answers: VecDeque::new(),
            reflector: Reflector::default(),
            buckets: Buckets::new(),
            memory: 0,
            live: 0,
            stats: EndpointStats::default(),
            now,
            keys,
            config,
        }
    }

    /// Answers SYNs from now on; connections get `config`.
    pub fn listen(&mut self, config: Arc<Config>) {
        if let Some(listener) = &mut self.listener {
            // What waits to be accepted stays (RFC 9293, section 3.9.1, MUST-41).
            listener.config = config;
            return;
        }
        self.listener = Some(Listener { config, ready: VecDeque::new(), pending: 0, cookies_until: None });
    }

    /// Stops answering SYNs. Connections that nobody accepted are reset.
    pub fn unlisten(&mut self, now: Time) {
        if self.listener.take().is_none() {
            return;
        }
        // Those in the handshake, too: nobody would ever hear of them.
        for id in self.ids(|slot| slot.pending) {
            if let Some(slot) = self.slot_mut(id) {
                slot.pending = false;
            }
            self.drive(now, id, Connection::abort);
            self.release(now, id);
        }
    }

    /// Nobody will drive the endpoint any more: the peers of connections whose stream was not ended are sent a RST,
    /// which waits in [`poll_transmit`](Self::poll_transmit). Those that were sent our FIN need nothing but an
    /// acknowledgment of theirs, which they can do without; a RST could cost them data that is still unread. If data or
    /// the FIN still wait to be sent, the peer would wait for them for ever: it is sent a RST.
    pub fn abandon(&mut self, now: Time) {
        self.unlisten(now);
        let ours = |state| matches!(state, State::FinWait1 | State::Closing | State::LastAck | State::TimeWait);
        let ended = |connection: &Connection| ours(connection.state()) && connection.has_sent_fin();
        for id in self.ids(|slot| !ended(&slot.connection)) {
            self.drive(now, id, Connection::abort);
        }
    }

    /// The connections that `which` is true of.
    fn ids(&self, which: impl Fn(&Slot) -> bool) -> Vec<ConnId> {
        let slots = self.slots.iter().enumerate();
        let slots = slots.filter_map(|(index, slot)| slot.as_deref().map(|slot| (index, slot)));
        slots
            .filter(|(_, s)| which(s))
            .map(|(index, s)| ConnId { slot: index as u32, generation: s.generation })
            .collect()
    }

    /// The next connection whose handshake is complete.
    pub fn accept(&mut self) -> Option<ConnId> {
        let listener = self.listener.as_mut()?;
        let id = listener.ready.pop_front()?;
        listener.pending = listener.pending.saturating_sub(1);
        if let Some(slot) = self.slot_mut(id) {
            slot.pending = false;
        }
        Some(id)
    }

    /// Opens a connection; `None` if there is one between these addresses, if they cannot be two hosts'
    /// ([`Tuple::joins_two_hosts`]), or if there is no room.
    pub fn connect(&mut self, now: Time, tuple: Tuple, config: Arc<Config>) -> Option<ConnId> {
        let now = self.advance(now);
        if !tuple.joins_two_hosts() || self.table.find(&tuple).is_some() || self.live >= self.config.max_connections {
            return None;
        }
        let previous = self.time_wait.remove(&tuple);
        let iss = self.initial_sequence(&tuple, now, previous);
        let clock = TimestampClock::new(self.keys.timestamp_offset(&tuple), now);
        let mut connection = Connection::connect(config, iss, clock, now, tuple.is_ipv6());
        connection.draw_nonces_from(self.keys.nonces(&tuple, now));
        let id = self.insert(tuple, connection, false);
        self.settle(id.slot);
        Some(id)
    }

    /// A connection, if the application has not released it.
    #[must_use]
    pub fn connection(&self, id: ConnId) -> Option<&Connection> {
        let slot = self.slots.get(id.slot as usize)?.as_deref()?;
        (slot.generation == id.generation).then_some(&slot.connection)
    }

    fn connection_mut(&mut self, id: ConnId) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(id.slot as usize)?.as_deref_mut()?;
        (slot.generation == id.generation).then_some(&mut slot.connection)
    }

    /// The addresses of a connection.
    #[must_use]
    pub fn tuple(&self, id: ConnId) -> Option<Tuple> {
        let slot = self.slots.get(id.slot as usize)?.as_deref()?;
        (slot.generation == id.generation).then_some(slot.tuple)
    }

    /// Lets the application act on a connection; `None` if it was released.
    pub fn drive<R>(&mut self, now: Time, id: ConnId, act: impl FnOnce(&mut Connection) -> R) -> Option<R> {
        self.advance(now);
        let result = act(&mut self.slot_mut(id)?.connection);
        self.settle(id.slot);
        Some(result)
    }

    /// The application is done with a connection: it is closed in order if it is not yet, and then forgotten.
    pub fn release(&mut self, now: Time, id: ConnId) {
        self.advance(now);
        let Some(slot) = self.slot_mut(id) else { return };
        slot.held = false;
        slot.connection.orphan();
        self.settle(id.slot);
    }

    /// Connections that exist, those being closed included; TIME-WAIT records are not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there is neither connection nor TIME-WAIT record.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.live == 0 && self.time_wait.len() == 0
    }

    /// Whether there is no connection (TIME-WAIT records may remain).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// TIME-WAIT records.
    #[must_use]
    pub fn time_wait_len(&self) -> usize {
        self.time_wait.len()
    }

    /// Bytes that connections' buffers and records take.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        self.stats
    }

    /// The host says something against the path of a connection; see [`Connection::handle_host_error`].
    pub fn handle_host_error(&mut self, now: Time, tuple: Tuple, error: HostError) {
        let now = self.advance(now);
        if let Some(index) = self.table.find(&tuple) {
            if let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::as_deref_mut) {
                slot.connection.handle_host_error(now, error);
            }
            self.settle(index);
        }
    }

    /// Fires what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.advance(now);
        self.time_wait.expire(now);
        while let Some(index) = self.wheel.pop_expired(now) {
            if let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::as_deref_mut) {
                slot.connection.handle_timeout(now);
            }
            self.settle(index);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called next, if ever.
    #[must_use]
    pub fn poll_timeout(&mut self) -> Option<Time> {
        match (self.wheel.next(), self.time_wait.next_expiry()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Fills `batch` with what is to leave next, and says where it goes. `max_segments` is what the socket's
    /// segmentation offload takes at once.
    pub fn poll_transmit(&mut self, now: Time, batch: &mut Batch, max_segments: usize) -> Option<Destination> {
        let now = self.advance(now);
        if let Some((tuple, header)) = self.answers.pop_front() {
            batch.clear();
            batch.push(&header, 0, 0);
            return Some(Destination { tuple, connection: None });
        }
        if self.reflector.goes_first()
            && let Some(destination) = self.reflector.poll(batch, max_segments)
        {
            return Some(destination);
        }
        while let Some(index) = self.queue.pop_front() {
            let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::as_deref_mut) else { continue };
            if slot.connection.poll_transmit(now, batch, max_segments) {
                // Its next batch has to wait for its turn.
                self.queue.push_back(index);
                let connection = Some(ConnId { slot: index, generation: slot.generation });
                return Some(Destination { tuple: slot.tuple, connection });
            }
            slot.queued = false;
            self.settle_idle(index);
        }
        self.reflector.poll(batch, max_segments)
    }

    /// Calls `each` with the slices of a segment's payload.
    pub fn payload(&self, id: ConnId, segment: &SegmentRef, each: impl FnMut(&[u8])) {
        if let Some(connection) = self.connection(id) {
            connection.payload(segment, each);
        }
    }

    /// Prepares a batch for [`frames`](Self::frames), each time that it is sent.
    pub fn lay_headers(&mut self, id: ConnId, batch: &Batch) {
        if let Some(connection) = self.connection_mut(id) {
            connection.lay_headers(batch);
        }
    }

    /// Appends the slices of a batch, headers and payload, to `out`, and gives how many bytes they have. That is less
    /// than [`Batch::len`] if what it carries was acknowledged meanwhile: it must not leave then.
    pub fn frames<'a>(&'a self, id: ConnId, batch: &'a Batch, out: &mut impl Extend<&'a [u8]>) -> usize {
        self.connection(id).map_or(0, |connection| connection.frames(batch, out))
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front()
    }

    fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    /// Beyond the sequence numbers of a previous connection between the same addresses, which may have been faster than
    /// the clock (RFC 1122, section 4.2.2.13).
    fn initial_sequence(&self, tuple: &Tuple, now: Time, previous: Option<Record>) -> u32 {
        if let Some(fixed) = self.config.initial_sequence {
            return fixed;
        }
        let iss = self.keys.initial_sequence(tuple, now);
        let least = previous.map(|record| record.snd_nxt.wrapping_add(SEQUENCE_GAP));
        least.filter(|least| seq::later(*least, iss)).unwrap_or(iss)
    }

    fn slot_mut(&mut self, id: ConnId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.slot as usize)?.as_deref_mut()?;
        (slot.generation == id.generation).then_some(slot)
    }

    fn insert(&mut self, tuple: Tuple, mut connection: Connection, pending: bool) -> ConnId {
        let (index, generation) = self.free.pop().unwrap_or((self.slots.len() as u32, 0));
        connection.recall(self.now, tuple.remote.ip());
        let path_cache = connection.config.path_cache.clone();
        let (passive, memory, charged) = (pending, 0, 0);
        let (queued, held) = (false, true);
        let slot = Slot { tuple, connection, generation, queued, held, pending, passive, memory, charged, path_cache };
        self.tally.add(&slot);
        if index as usize == self.slots.len() {
            self.slots.push(None);
        }
        if let Some(place) = self.slots.get_mut(index as usize) {
            *place = Some(Box::new(slot));
        }
        self.table.insert(tuple, index);
        self.live = self.live.saturating_add(1);
        if let Some(listener) = self.listener.as_mut().filter(|_| pending) {
            listener.pending = listener.pending.saturating_add(1);
        }
        ConnId { slot: index, generation }
    }

    /// After anything happened to a connection: its events, its timer, its turn to send.
    fn settle(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::as_deref_mut) else { return };
        if !slot.queued {
            slot.queued = true;
            self.queue.push_back(index);
        }
        self.settle_events(index);
    }

    /// A connection with nothing to send now: what else follows from its state.
    fn settle_idle(&mut self, index: u32) {
        self.settle_events(index);
        let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::as_deref_mut) else { return };
        match slot.connection.poll_timeout() {
            Some(at) => self.wheel.set(index, at),
            None => self.wheel.cancel(index),
        }
        let memory = slot.connection.memory();
        self.memory = self.memory.saturating_add(memory).saturating_sub(slot.memory);
        slot.memory = memory;
        slot.learn_path(self.now);
        let all = pressure(self.memory, self.config.max_memory);
        let its = pressure(self.tally.charge(slot), self.config.max_memory_per_address);
        slot.connection.set_pressure(all.max(its));
        self.reap(index);
    }

    fn settle_events(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::as_deref_mut) else { return };
        let id = ConnId { slot: index, generation: slot.generation };
        while let Some(event) = slot.connection.poll_event() {
            if slot.pending {
                if let (Event::Connected, Some(listener)) = (event, &mut self.listener) {
                    listener.ready.push_back(id);
                    self.events.push_back(EndpointEvent::Incoming);
                }
                continue;
            }
            if slot.held {
                self.events.push_back(EndpointEvent::Connection(id, event));
            }
        }
    }

    /// Forgets a connection that is over, or shrinks it to a TIME-WAIT record once nobody holds it.
    fn reap(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::as_deref_mut) else { return };
        let half_open = slot.pending
            && slot.connection.state() == State::Closed
            && !self.listener.as_ref().is_some_and(|l| l.ready.iter().any(|id| id.slot == index));
        let over = slot.connection.is_drained();
        let waiting = slot.connection.state() == State::TimeWait && !slot.held;
        if over && self.table.find(&slot.tuple) == Some(index) {
            // Its addresses are free, whoever still looks at the connection.
            let tuple = slot.tuple;
            self.table.remove(&tuple);
        }
        let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::as_deref_mut) else { return };
        if waiting {
            let record = slot.connection.time_wait_record();
            let tuple = slot.tuple;
            self.time_wait.insert(tuple, record);
            self.table.remove(&tuple);
        } else if !(over && (!slot.held || half_open)) {
            return;
        }
        self.forget(index);
    }

    fn forget(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::take) else { return };
        self.wheel.cancel(index);
        self.memory = self.memory.saturating_sub(slot.memory);
        self.live = self.live.saturating_sub(1);
        self.tally.remove(&slot);
        if let Some(listener) = self.listener.as_mut().filter(|_| slot.pending) {
            listener.pending = listener.pending.saturating_sub(1);
        }
        self.free.push((index, slot.generation.wrapping_add(1)));
    }
}

impl Slot {
    /// Once: what comes later is of no path.
    fn learn_path(&mut self, now: Time) {
        let Some(cache) = self.path_cache.take_if(|_| self.connection.has_seen_its_path()) else { return };
        let congestion = self.connection.config.congestion.name();
        let remote = self.tuple.remote.ip();
        cache.learn(now, remote, &congestion, &self.connection.path_metrics());
        if let Some(loan) = self.connection.unspent_path() {
            cache.give_back(remote, &congestion, loan);
        }
    }
}
