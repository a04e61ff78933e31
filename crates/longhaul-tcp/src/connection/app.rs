//! What the application does with a connection (RFC 9293, section 3.9.1), and its timers.

use bytes::Bytes;
use longhaul_cc::PathEvent;
use longhaul_units::{Span, Time};
use longhaul_wire::{Flags, Header};

use super::congestion::SegmentLists;
use super::timers::{Timer, Timers};
use super::{Connection, Event, Pressure};
use crate::config::MIN_KEEP_ALIVE;
use crate::error::ConnectionError;
use crate::state::State;

/// What [`Connection::read`] and [`Connection::write`] say when they do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// Nothing to read, or no room to write, now: an [`Event`] will tell.
    #[error("would block")]
    WouldBlock,
    /// This side was shut down for writing.
    #[error("shut down for writing")]
    ShutDown,
    /// The connection failed.
    #[error(transparent)]
    Failed(#[from] ConnectionError),
}

impl Connection {
    /// Queues a copy of as much of `data` as fits; returns how much.
    ///
    /// # Errors
    /// [`Blocked::WouldBlock`] if nothing fits, else why nothing will ever.
    pub fn write(&mut self, data: &[u8]) -> Result<usize, Blocked> {
        self.check_writable().inspect_err(|e| self.snd.writer_waits |= *e == Blocked::WouldBlock)?;
        let room = self.snd.room().min(data.len());
        let layout = self.layout();
        let taken = self.snd.buffer.write(&data[..room], layout, self.snd.nxt.max(1));
        if taken == 0 && !data.is_empty() {
            self.snd.writer_waits = true;
            return Err(Blocked::WouldBlock);
        }
        Ok(taken)
    }

    /// Queues as much of `data` as fits, without copying large parts, and leaves the rest in it.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_bytes(&mut self, data: &mut Bytes) -> Result<usize, Blocked> {
        self.check_writable().inspect_err(|e| self.snd.writer_waits |= *e == Blocked::WouldBlock)?;
        let before = data.len();
        let part = data.split_to(self.snd.room().min(before));
        let taken = part.len();
        // What there is room for is taken whole.
        let layout = self.layout();
        let _ = self.snd.buffer.write_bytes(part, layout, self.snd.nxt.max(1));
        if taken == 0 && before > 0 {
            self.snd.writer_waits = true;
            return Err(Blocked::WouldBlock);
        }
        Ok(taken)
    }

    /// Whether it pays to wait a moment for the next write: data is in flight, so that nothing is idle meanwhile, and
    /// what waits to be sent does not fill a batch yet.
    #[must_use]
    pub fn is_gathering(&self) -> bool {
        const BATCH: u64 = 64 << 10;
        let unsent = self.snd.unsent();
        unsent > 0 && unsent < BATCH && !self.snd.board.is_empty() && !self.snd.fin_queued && !self.rcv.ack_due
    }

    fn check_writable(&self) -> Result<(), Blocked> {
        if let Some(error) = self.life.error {
            return Err(error.into());
        }
        if self.snd.fin_queued || !self.life.state.can_send() {
            return Err(Blocked::ShutDown);
        }
        if self.life.pressure == Pressure::Hard && !self.snd.buffer.is_empty() {
            return Err(Blocked::WouldBlock);
        }
        Ok(())
    }

    /// Bytes that [`write`](Self::write) would take now.
    #[must_use]
    pub fn writable(&self) -> usize {
        if self.check_writable().is_ok() { self.snd.room() } else { 0 }
    }

    /// Whether [`write`](Self::write) would do something other than [`Blocked::WouldBlock`]; if not, an
    /// [`Event::Writable`] will tell.
    pub fn is_writable(&mut self) -> bool {
        let waits = match self.check_writable() {
            Ok(()) => self.snd.room() == 0,
            Err(blocked) => blocked == Blocked::WouldBlock,
        };
        self.snd.writer_waits |= waits;
        !waits
    }

    /// Whether the peer has ended its stream and everything of it has arrived, read or not.
    #[must_use]
    pub fn is_read_closed(&self) -> bool {
        self.rcv.fin_reached() || self.life.state == State::Closed
    }

    /// Whether nothing more can be written: the stream was ended, or the connection is over.
    #[must_use]
    pub fn is_write_closed(&self) -> bool {
        self.life.error.is_some() || self.snd.fin_queued || !self.life.state.can_send()
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> &crate::config::Config {
        &self.config
    }

    /// Takes up to `max` bytes in order; an empty result is the end of the stream.
    ///
    /// # Errors
    /// [`Blocked::WouldBlock`] if nothing has arrived, else why nothing will.
    pub fn read(&mut self, max: usize) -> Result<Bytes, Blocked> {
        if let Some(data) = self.rcv.data.read(max) {
            self.after_read(data.len());
            return Ok(data);
        }
        self.read_nothing().map(|()| Bytes::new())
    }

    /// Copies in-order bytes into `buffer`; zero is the end of the stream.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_into(&mut self, buffer: &mut [u8]) -> Result<usize, Blocked> {
        let read = self.rcv.data.read_into(buffer);
        if read > 0 || buffer.is_empty() {
            self.after_read(read);
            return Ok(read);
        }
        self.read_nothing().map(|()| 0)
    }

    /// Copies in-order bytes into `buffer` and leaves them to be read.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn peek(&self, buffer: &mut [u8]) -> Result<usize, Blocked> {
        let seen = self.rcv.data.peek_into(buffer);
        if seen > 0 || buffer.is_empty() {
            return Ok(seen);
        }
        self.read_nothing().map(|()| 0)
    }

    /// Whether a read would give something other than [`Blocked::WouldBlock`].
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.rcv.data.unread() > 0 || self.read_nothing() != Err(Blocked::WouldBlock)
    }

    /// What a read that finds no data means.
    fn read_nothing(&self) -> Result<(), Blocked> {
        if self.rcv.fin_reached() || self.rcv.closed {
            return Ok(());
        }
        if let Some(error) = self.life.error {
            return Err(error.into());
        }
        if self.life.state == State::Closed { Ok(()) } else { Err(Blocked::WouldBlock) }
    }

    fn after_read(&mut self, bytes: usize) {
        self.rcv.consumed += bytes as u64;
        let rtt = self.rtt.srtt();
        if self.life.pressure == Pressure::None {
            self.rcv.tune(self.now, rtt);
        }
        if self.life.state.can_receive() && self.rcv.wants_update(self.negotiated.recv_shift, self.mss()) {
            self.rcv.ack_due = true;
        }
    }

    /// No more will be written: a FIN follows what is queued. Doing it again changes nothing.
    pub fn shutdown(&mut self) {
        if self.snd.fin_queued {
            return;
        }
        match self.life.state {
            State::SynSent => {
                // RFC 9293, section 3.10.4: nothing was promised to anybody.
                if self.snd.buffer.is_empty() {
                    self.finish(None);
                    return;
                }
            }
            State::SynReceived | State::Established => {}
            State::CloseWait => {}
            _ => return,
        }
        self.snd.fin_queued = true;
        self.advance_closing();
    }

    /// A queued FIN changes the state once the handshake is over (RFC 9293, section 3.10.4).
    pub(super) fn advance_closing(&mut self) {
        if !self.snd.fin_queued {
            return;
        }
        match self.life.state {
            State::Established => self.life.enter(State::FinWait1),
            State::CloseWait => self.life.enter(State::LastAck),
            _ => {}
        }
    }

    /// Whether the peer has acknowledged everything written and our FIN.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.snd.fin_acknowledged() || (self.life.state == State::Closed && self.life.error.is_none())
    }

    /// Whether our FIN has left, once at least.
    pub(crate) fn has_sent_fin(&self) -> bool {
        self.snd.fin_sent
    }

    /// Whether both sides are done: the process may end without leaving the peer waiting for an answer.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.life.state, State::TimeWait | State::Closed)
    }

    /// Nobody will read any more. If data is unread, or arrives later, the peer is told by a RST that it was lost
    /// (RFC 9293, section 3.6.1).
    pub fn close_read(&mut self) {
        if self.rcv.closed {
            return;
        }
        self.rcv.closed = true;
        if self.rcv.data.unread() > 0 && self.life.state.is_synchronized() {
            self.abort_unread(self.now);
        }
        if self.life.state == State::FinWait2 {
            self.timers.arm(Timer::Linger, self.now + self.config.fin_wait2_timeout);
        }
    }

    /// The application is gone: what is queued is still sent, nobody reads.
    pub fn orphan(&mut self) {
        self.life.orphaned = true;
        self.shutdown();
        self.close_read();
    }

    /// Gives the connection up at once; the peer gets a RST (RFC 9293, section 3.10.5).
    pub fn abort(&mut self) {
        if matches!(self.life.state, State::Closed) {
            return;
        }
        if self.life.state.is_synchronized() && self.life.state != State::TimeWait
            || self.life.state == State::SynReceived
        {
            self.life.reset = Some(Box::new(self.reset_header(self.now)));
        }
        self.finish(Some(ConnectionError::Aborted));
    }

    pub(super) fn abort_unread(&mut self, now: Time) {
        self.life.reset = Some(Box::new(self.reset_header(now)));
        self.finish(Some(ConnectionError::Aborted));
    }

    /// A datagram of the current size is longer than the first hop takes.
    pub fn handle_too_long(&mut self, now: Time) {
        let now = self.advance(now);
        self.pmtu.on_too_long(now);
    }

    /// Sets the endpoint's memory pressure.
    pub(crate) fn set_pressure(&mut self, pressure: Pressure) {
        self.life.pressure = pressure;
    }

    /// Switches the Nagle algorithm off or on.
    pub fn set_nodelay(&mut self, nodelay: bool) {
        self.snd.nodelay = nodelay;
    }

    /// Whether the Nagle algorithm is off.
    #[must_use]
    pub fn nodelay(&self) -> bool {
        self.snd.nodelay
    }

    /// Replaces a connection's settings that may change while it lives.
    pub fn update_config(&mut self, change: impl FnOnce(&mut crate::config::Config)) {
        let announce = self.change_config(change);
        self.snd.buffer.set_capacity(self.config.send_buffer);
        self.snd.lowat = super::sender::lowat(&self.config);
        if self.snd.writer_waits && self.snd.has_room_again() {
            self.snd.writer_waits = false;
            self.life.events.raise(Event::Writable);
        }
        if self.life.state == State::Closed {
            return;
        }
        let now = self.now;
        if announce {
            self.announce_user_timeout(now);
        }
        self.arm_keep_alive(now);
        if self.life.state.is_synchronized() {
            // Before, the timer is the SYN's.
            self.arm_retransmission(now);
        }
        self.refresh_control();
    }

    pub(super) fn arm_keep_alive(&mut self, now: Time) {
        let Some(keep_alive) = self.config.keep_alive else {
            self.timers.stop(Timer::KeepAlive);
            return;
        };
        if self.life.state.is_synchronized() && self.life.state != State::TimeWait {
            self.peer.keep_alive_probes = 0;
            self.timers.arm(Timer::KeepAlive, now + keep_alive.idle.max(MIN_KEEP_ALIVE));
        }
    }

    /// Every timer that is due fires once.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.advance(now);
        let mut due = Timers::default();
        std::mem::swap(&mut due, &mut self.timers);
        let user_late = due.get(Timer::User).map(|at| now - at);
        let mut fired = [None; Timer::COUNT];
        for slot in &mut fired {
            *slot = due.expire(now);
        }
        self.timers = due;
        for timer in fired.into_iter().flatten() {
            if self.life.state == State::Closed {
                return;
            }
            match (timer, user_late) {
                (Timer::User, Some(late)) if late > self.rtt.rto() => self.grant_respite(now),
                _ => self.fire(now, timer),
            }
        }
    }

    /// The user timeout passed while nobody was running, this host being suspended, say: the peer is asked once more
    /// before it is given up.
    fn grant_respite(&mut self, now: Time) {
        let respite = self.rtt.rto() * 2;
        if let (Some(limit), Some(since)) = (self.config.user_timeout, self.peer.stalled_since.as_mut()) {
            *since = (now + respite) - limit;
        }
        self.timers.arm(Timer::User, now + respite);
    }

    fn fire(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Rto => {
                self.on_retransmission_timeout(now);
                self.consider_r1();
            }
            Timer::Probe => self.on_probe_timeout(now),
            Timer::Reorder => self.on_reorder_timeout(now),
            // The send loop runs after every call: that their time has come is enough.
            Timer::Pace | Timer::Copy => {}
            Timer::Rest => self.rest(),
            Timer::Ack => self.rcv.ack_due = true,
            Timer::Persist => {
                self.on_persist(now);
                self.consider_r1();
            }
            Timer::KeepAlive => self.on_keep_alive(now),
            Timer::Doubt => self.on_doubt(now),
            Timer::User => self.finish(Some(ConnectionError::TimedOut)),
            Timer::Linger => self.finish(None),
            Timer::Tick => {
                let path = self.path();
                self.cc.controller.on_tick(now, &path);
                self.refresh_control();
            }
        }
    }

    /// The sender fell silent: what it keeps for speed is given back.
    fn rest(&mut self) {
        self.snd.buffer.rest();
        self.snd.board.rest();
        self.rcv.data.rest();
        if let Some(segments) = &mut self.cc.segments {
            **segments = SegmentLists::default();
        }
        self.rcv.ack_queue.shrink_to_fit();
    }

    /// A segment before the window makes the peer show whether it lives (RFC 9293, section 3.8.4).
    fn on_keep_alive(&mut self, now: Time) {
        let Some(keep_alive) = self.config.keep_alive else { return };
        if self.peer.keep_alive_probes >= keep_alive.probes {
            self.finish(Some(ConnectionError::TimedOut));
            return;
        }
        self.timers.arm(Timer::KeepAlive, now + keep_alive.interval.max(MIN_KEEP_ALIVE));
        // Unacknowledged data is a probe by itself, with a timer of its own.
        if self.snd.board.is_empty() {
            self.peer.keep_alive_probes += 1;
            let header = self.keep_alive_header(now);
            self.rcv.ack_queue.push_back(header);
        }
    }

    pub(super) fn keep_alive_header(&mut self, now: Time) -> Header {
        let mut header = self.header(now, Flags::ACK, self.snd.una);
        header.seq = header.seq.wrapping_sub(1);
        header
    }

    /// After an idle time longer than the RTO the old window says little of the path (RFC 5681, section 4.1).
    pub(super) fn restart_after_idleness(&mut self, now: Time) {
        // A closed window lets nothing but probes go, which end no idleness.
        let Some(last) = self.snd.last_sent.filter(|_| self.snd.window > 0) else { return };
        let idle: Span = now - last;
        if idle > self.rtt.base_rto() {
            self.tell(&PathEvent::IdleRestart { now, idle });
        }
    }
}
