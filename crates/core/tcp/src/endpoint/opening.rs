//! Segments that belong to no connection: passive opens, returned SYN cookies, and resets. Also installs observers.

use std::sync::Arc;

use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header, Timestamps};

use super::stray::Buckets;
use super::time_wait::{TimeWaitRecord, Verdict};
use super::{ANSWERS, Tuple, cookie};
use crate::connection::{Start, reset_for};
use crate::{
    ConnId, Connection, ConnectionEvent, DatagramMeta, Endpoint, IncomingObservers, Observer, SegmentMeta,
    SegmentRecord, State, TimestampClock, add,
};

#[expect(clippy::multiple_inherent_impl, reason = "one file per task")]
impl Endpoint {
    /// Returns whether the connection in a slot gives up its addresses. This is the case if it has ended, for example
    /// by a reset, but has not been reaped, or if the application still holds it in TIME-WAIT and `syn` opens a new
    /// connection (RFC 6191).
    pub(super) fn yields(&mut self, index: u32, syn: &Header) -> bool {
        let Some(slot) = self.slots.get(index) else { return false };
        if slot.connection.status().is_drained() {
            let tuple = slot.tuple;
            self.unmap(index, &tuple);
            self.settle(index);
            return true;
        }
        let opens = syn.flags.contains(Flags::SYN) && !syn.flags.intersects(Flags::ACK | Flags::RST | Flags::FIN);
        let Some(timestamps) = self.listens_with_timestamps().filter(|_| opens) else { return false };
        let Some(slot) = self.slots.get_mut(index) else { return false };
        let connection = &mut slot.connection;
        if connection.state() != State::TimeWait {
            return false;
        }
        let record = connection.status().time_wait_record();
        if !record.yields_to(syn, timestamps) {
            return false;
        }
        connection.finish(None);
        let tuple = slot.tuple;
        self.unmap(index, &tuple);
        // The new connection takes its initial sequence number from this record.
        self.time_wait.insert(tuple, record);
        self.settle(index);
        true
    }

    /// Handles an ACK that does not belong to the handshake of the half-open connection in a slot, while cookies are
    /// outstanding: the peer may be returning a cookie that it received before its repeated SYN opened the connection.
    /// Returns `None` for any other segment, and otherwise whether the connection gives up its addresses.
    pub(super) fn meets_half_open(&mut self, now: Time, meta: &DatagramMeta, index: u32, ack: &Header) -> Option<bool> {
        self.slots.get(index).filter(|slot| slot.connection.status().is_other_handshake(ack))?;
        let returns = self.returns_cookie(now, &meta.tuple, ack);
        let may_return = self.has_sent_cookies(now) && self.may_return_cookie(now, ack);
        if !returns && !may_return {
            return None;
        }
        if returns && let Some(slot) = self.slots.get_mut(index) {
            slot.connection.finish(None);
            self.unmap(index, &meta.tuple);
            self.settle(index);
        }
        Some(returns)
    }

    /// Returns whether the segment may return a cookie: cookies of this endpoint are outstanding, or other hosts with
    /// the same secret may have sent some.
    fn may_return_cookie(&self, now: Time, ack: &Header) -> bool {
        let is_plain = ack.flags.contains(Flags::ACK) && !ack.flags.intersects(Flags::SYN | Flags::RST);
        is_plain && self.listener.is_some() && (self.config.shared_clock.is_some() || self.has_sent_cookies(now))
    }

    /// Returns whether cookies of this endpoint are outstanding.
    fn has_sent_cookies(&self, now: Time) -> bool {
        self.membership.cookies_until().is_some_and(|until| now <= until)
    }

    /// Returns whether a segment returns a valid cookie.
    pub(super) fn returns_cookie(&self, now: Time, tuple: &Tuple, ack: &Header) -> bool {
        self.may_return_cookie(now, ack) && cookie::open(&self.keys, tuple, ack, self.shared_time(now)).is_some()
    }

    /// Returns the time of the clock that hosts with the same secret share, or else of the endpoint's clock.
    pub(super) fn shared_time(&self, now: Time) -> Time {
        now + self.config.shared_clock.unwrap_or_default()
    }

    /// Handles a segment without a connection. If it opens one by a SYN cookie, or moves one here, returns the slot of the
    /// connection, which then handles the segment.
    pub(super) fn open_for(
        &mut self,
        now: Time,
        meta: &DatagramMeta,
        header: &Header,
        payload: usize,
        wire: usize,
    ) -> Option<u32> {
        if !meta.tuple.joins_two_hosts() {
            return None;
        }
        if header.options.moving.is_some()
            && let Some(met) = self.meet_move(now, meta, header, wire)
        {
            return met;
        }
        // TIME-WAIT: the segment meets the record of an earlier connection (RFC 9293, section 3.10.7.4; RFC 6191).
        let listening = self.listens_with_timestamps();
        let mut previous = None;
        match self.time_wait.handle(now, &meta.tuple, header, payload, listening) {
            Some(Verdict::Ignore) => return None,
            Some(Verdict::Answer(ack)) => {
                self.answer(meta.tuple, ack);
                return None;
            }
            Some(Verdict::Reuse(record)) => previous = Some(record),
            None => {}
        }
        // LISTEN: a SYN opens a connection (RFC 9293, section 3.10.7.2).
        let flags = header.flags;
        let opens = flags.contains(Flags::SYN) && !flags.intersects(Flags::ACK | Flags::RST | Flags::FIN);
        if self.listener.is_some() && opens {
            let ecn = meta.segment.ecn;
            let syn = SegmentRecord { header, header_len: wire.saturating_sub(payload), payload_len: payload, ecn };
            self.open_passively(now, meta, syn, previous);
            return None;
        }
        if self.listener.is_some() && !flags.contains(Flags::ACK) {
            // RFC 9293, section 3.10.7.2, fourth step: the segment has neither an ACK nor a SYN that opens a
            // connection.
            add(&mut self.stats.stray, 1);
            return None;
        }
        // An ACK may return a SYN cookie; any other segment is answered with a RST.
        if let Some(opened) = self.open_by_cookie(now, meta, header) {
            return opened;
        }
        self.refuse(now, meta.tuple, header, payload, wire);
        None
    }

    /// Returns whether accepted connections use timestamps; `None` if there is no listener.
    fn listens_with_timestamps(&self) -> Option<bool> {
        self.listener.as_ref().map(|listener| listener.config.timestamps)
    }

    /// Opens a connection for `syn`. `previous` is the TIME-WAIT record of a connection between the same addresses. It
    /// remains until the new connection is established, because the SYN may be refused or turn out to be an old
    /// duplicate (RFC 9293, section 3.6.1, MAY-2).
    fn open_passively(
        &mut self,
        now: Time,
        meta: &DatagramMeta,
        segment: SegmentRecord<'_>,
        previous: Option<TimeWaitRecord>,
    ) {
        let syn = segment.header;
        let Some(listener) = self.listener.as_ref() else { return };
        // A reused pair of addresses gets no cookie: its initial sequence number must be beyond that of the previous
        // connection, and a late ACK of that connection could return the cookie.
        let many = self.config.always_cookies || self.membership.counts().pending.get() >= self.config.backlog;
        if many && previous.is_none() && !self.is_full_for(&meta.tuple) {
            self.send_cookie(now, meta.tuple, syn);
            return;
        }
        let config = Arc::clone(&listener.config);
        let refused = many && previous.is_none() || self.is_out_of_memory();
        let Some(share) = (if refused { None } else { self.admit(&meta.tuple) }) else {
            add(&mut self.stats.refused, 1);
            return;
        };
        let iss = self.initial_sequence(&meta.tuple, now, previous);
        let micros = config.extensions && syn.options.microsecond_timestamps;
        let clock = TimestampClock::new(self.keys.timestamp_offset(&meta.tuple), now, micros);
        let (ipv6, seed) = (meta.tuple.is_ipv6(), self.keys.nonces(&meta.tuple, now));
        let connection = Connection::accept(Start { config, iss, clock, now, ipv6, seed }, syn, &meta.segment, false);
        let id = self.insert(meta.tuple, connection, Some(share));
        self.observe_opened(now, id.slot);
        if let Some(connection) = self.connection_mut(id) {
            connection.observers.report_detail(now, || ConnectionEvent::SegmentReceived(segment));
        }
        self.settle(id.slot);
    }

    pub(super) fn send_cookie(&mut self, now: Time, tuple: Tuple, syn: &Header) {
        let Some(listener) = self.listener.as_ref() else { return };
        self.membership.set_cookies_until(Some(now + Span::from_secs(128)));
        let config = &listener.config;
        let what = cookie::Remembered::from_syn(syn, config.sack, config.timestamps, config.window_scaling, config.ecn);
        let (isn, stamp) = cookie::make(&self.keys, &tuple, syn.seq, self.shared_time(now), what);
        let ecn = if what.ecn { Flags::ECE } else { Flags::NONE };
        let mut header = Header {
            flags: Flags::SYN | Flags::ACK | ecn,
            window: config.recv_buffer.min(usize::from(u16::MAX)) as u16,
            seq: isn,
            ack: syn.seq.wrapping_add(1),
            ..Header::default()
        };
        let options = &mut header.options;
        options.mss = syn.options.mss.map(|_| config.max_plpmtu.saturating_sub(if tuple.is_ipv6() { 32 } else { 12 }));
        options.sack_permitted = what.sack;
        options.window_scale = what.window_scale.map(|_| config.window_shift());
        options.timestamps =
            syn.options.timestamps.filter(|_| what.timestamps).map(|t| Timestamps { value: stamp, echo: t.value });
        add(&mut self.stats.cookies_sent, 1);
        self.answer(tuple, header);
    }

    /// Opens a connection for an ACK that returns a valid SYN cookie, if there is room. Returns `None` if the ACK
    /// cannot concern a cookie.
    ///
    /// While cookies are outstanding, an ACK without a valid one is dropped and not answered with a RST: the peer's
    /// first ACK may have been lost or dropped for lack of room, and its later segments no longer match the cookie.
    pub(super) fn open_by_cookie(&mut self, now: Time, meta: &DatagramMeta, ack: &Header) -> Option<Option<u32>> {
        let listener = self.listener.as_ref().filter(|_| self.may_return_cookie(now, ack))?;
        let Some(what) = cookie::open(&self.keys, &meta.tuple, ack, self.shared_time(now)) else {
            return self.has_sent_cookies(now).then_some(None);
        };
        // If the accept queue is full, the ACK is dropped. The peer's data will return the cookie again.
        let share =
            if self.membership.counts().ready.get() >= self.config.backlog { None } else { self.admit(&meta.tuple) };
        let Some(share) = share else {
            add(&mut self.stats.refused, 1);
            return Some(None);
        };
        add(&mut self.stats.cookies_accepted, 1);
        let stamp = ack.options.timestamps.unwrap_or_default();
        let syn = what.to_syn(ack.seq.wrapping_sub(1), stamp.value, ack.window);
        let iss = ack.ack.wrapping_sub(1);
        // Our timestamps continue from the cookie's.
        let clock = TimestampClock::starting_with(stamp.echo.wrapping_add(1), now);
        let config = Arc::clone(&listener.config);
        let (ipv6, seed) = (meta.tuple.is_ipv6(), self.keys.nonces(&meta.tuple, now));
        let start = Start { config, iss, clock, now, ipv6, seed };
        let connection = Connection::accept(start, &syn, &SegmentMeta::default(), true);
        let slot = self.insert(meta.tuple, connection, Some(share)).slot;
        self.observe_opened(now, slot);
        Some(Some(slot))
    }

    /// Answers a segment without a connection with a RST (RFC 9293, section 3.10.7.1). A RST is never answered, the
    /// answer is never longer than the segment, and the rate is limited.
    pub(super) fn refuse(&mut self, now: Time, tuple: Tuple, header: &Header, payload: usize, wire: usize) {
        add(&mut self.stats.stray, 1);
        let silent = header.flags.contains(Flags::RST) || !self.config.reset_unknown;
        let reset = reset_for(header, payload);
        if silent || CheshireCodec::header_len(&reset.options) > wire {
            return;
        }
        let bucket = self.keys.bucket(tuple.remote.ip(), Buckets::COUNT);
        if self.buckets.take(now, bucket) {
            add(&mut self.stats.resets_sent, 1);
            self.answer(tuple, reset);
        }
    }

    /// Queues a reply that belongs to no connection, or drops it if the queue is full.
    pub(super) fn answer(&mut self, tuple: Tuple, header: Header) {
        if self.answers.len() < ANSWERS {
            self.answers.push_back((tuple, header, None));
        }
    }

    /// Adds an observer to a connection, in addition to any other. If this is done right after
    /// [`connect`](Self::connect), the observer receives every event of the connection. Returns `false` if the
    /// connection is over.
    pub fn observe(&mut self, now: Time, id: ConnId, observer: Box<dyn Observer>) -> bool {
        let now = self.advance(now);
        let Some(connection) = self.connection_mut(id).filter(|connection| !connection.status().is_drained()) else {
            return false;
        };
        connection.begin_call(now);
        connection.watch().add(observer);
        true
    }

    /// Sets the factory of observers for connections that peers open. It applies to connections whose SYN arrives
    /// later; these connections are observed from the SYN on.
    pub fn observe_incoming(&mut self, observers: Option<Box<dyn IncomingObservers>>) {
        self.incoming_observers = observers;
    }

    pub(super) fn observe_opened(&mut self, now: Time, index: u32) {
        let Some(factory) = &mut self.incoming_observers else { return };
        let Some(slot) = self.slots.get_mut(index) else { return };
        for observer in factory.observers(now, &slot.tuple) {
            slot.connection.begin_call(now);
            slot.connection.watch().add(observer);
        }
    }
}
