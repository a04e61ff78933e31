//! TCP connection without I/O: a state machine that is driven by segments, timers and application calls.
//!
//! # Driving a connection
//!
//! An [`Endpoint`](crate::Endpoint) drives its connections. A simulator or a test may drive one directly. There are
//! four kinds of methods:
//!
//! * Inputs: call [`handle_segment`](Connection::handle_segment) for each segment of a receive batch, then
//!   [`finish_batch`](Connection::finish_batch) once; call [`handle_timeout`](Connection::handle_timeout) at the time
//!   that [`poll_timeout`](Connection::poll_timeout) returned.
//! * Application calls: [`write`](Connection::write), [`read`](Connection::read), [`shutdown`](Connection::shutdown),
//!   [`abort`](Connection::abort), and those of a [`Reader`] and a [`Writer`].
//! * Outputs, polled after every input: [`poll_transmit`](Connection::poll_transmit) until [nothing](Due) follows, then
//!   [`poll_event`](Connection::poll_event) until it returns `None`, then [`poll_timeout`](Connection::poll_timeout).
//! * View of the endpoint's [`Status`].
//!
//! `now` must not decrease; an earlier value is treated as the latest one seen. The connection does not read a clock,
//! does not allocate per packet on the common path, and does not panic on any input from a peer.

use std::fmt;
use std::sync::Arc;

use longhaul_cc::PathEvent;
use longhaul_units::{Bytes, Time};

use crate::config::Config;
use crate::error::ConnectionError;
use crate::observer::ConnectionEvent;
use crate::rtt::RttEstimator;
use crate::state::State;

mod ack_schedule;
mod acking;
mod arrivals;
mod burst_length;
mod checks;
mod congestion;
mod control_loop;
mod ecn_check;
mod extension;
mod handshake;
mod headers;
pub(crate) mod info;
mod input;
mod lifecycle;
mod liveness;
mod loss;
mod metrics_cache;
mod moderation;
mod new_path;
mod numbers;
mod observe;
mod opening;
mod output;
mod parts;
mod persist;
mod pmtu;
mod rate;
mod receiver;
mod receiving;
mod reclaimable;
mod segment;
mod send_loop;
mod sender;
mod status;
mod streams;
#[cfg(test)]
mod tests;
#[cfg_attr(not(test), expect(clippy::indexing_slicing, reason = "each timer has a deadline"))]
mod timers;
mod user_timeout;

pub use segment::{Payload, SegmentMeta};

use congestion::CongestionDriver;
use extension::Extensions;
pub(crate) use handshake::{Start, reset_for};
use info::{Info, NegotiatedOptions, Stats};
pub(crate) use lifecycle::Pressure;
pub use lifecycle::{Blocked, Event};
use lifecycle::{EventSet, Lifecycle};
use liveness::Liveness;
use loss::Loss;
use moderation::Flow;
use numbers::Numbers;
use observe::Observers;
pub use output::Due;
use parts::{Acking, Checks, ControlLoop, Engine, Headers, Opening, Receiving, Recovery, SendLoop, Watch};
use pmtu::Pmtu;
use receiver::Receiver;
pub(crate) use reclaimable::{Reclaim, Reclaimable};
use segment::Incoming;
pub(crate) use segment::Train;
use sender::Sender;
pub use status::Status;
pub use streams::{Reader, Writer};
use timers::{Timer, Timers};

/// Options and extensions agreed on in the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Negotiated {
    pub(crate) window_scaling: bool,
    /// Snd.Wind.Shift: left shift of the window field in received segments (RFC 7323, section 2.3).
    pub(crate) send_shift: u8,
    /// Rcv.Wind.Shift: right shift of the window field in sent segments.
    pub(crate) recv_shift: u8,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) ecn: bool,
    pub(crate) microseconds: bool,
    /// Whether an ACK echoes the TSval of the segment that triggered it.
    pub(crate) probe_echo: bool,
    /// Whether segments may carry network feedback.
    pub(crate) network: bool,
    /// Whether the window field of the SYN-ACK is scaled.
    pub(crate) scaled_window: bool,
    /// Whether the peer's whole receive window is known in the first round trip.
    pub(crate) whole_window: bool,
    /// Whether either side may request a different ACK frequency from the other.
    pub(crate) ack_rate: bool,
}

impl Negotiated {
    /// Returns the number of option bytes on each data segment.
    fn data_options(self, ext: &Extensions) -> u16 {
        if self.timestamps { 12 + ext.data_options() } else { ext.data_options() }
    }

    /// Returns the shift of the window field in our SYN or SYN-ACK. The window of a SYN is never scaled (RFC 7323,
    /// section 2.2); that of a SYN-ACK is scaled if the peer requested it.
    fn syn_shift(self) -> u8 {
        if self.scaled_window { self.recv_shift } else { 0 }
    }

    fn options(self) -> NegotiatedOptions {
        let Self { sack, timestamps, window_scaling, ecn, microseconds, .. } = self;
        NegotiatedOptions { sack, timestamps, wscale: window_scaling, ecn, microseconds }
    }
}

/// TCP connection. The [module](self) describes the order of calls.
pub struct Connection {
    pub(crate) config: Arc<Config>,
    life: Lifecycle,
    negotiated: Negotiated,
    numbers: Numbers,
    snd: Sender,
    rcv: Receiver,
    rtt: RttEstimator,
    loss: Loss,
    cc: CongestionDriver,
    pmtu: Pmtu,
    ext: Extensions,
    peer: Liveness,
    timers: Timers,
    stats: Stats,
    events: EventSet,
    pub(crate) observers: Observers,
}

/// Implements `Debug` for views by showing the state of their connection only, because the borrowed parts contain data.
macro_rules! debug_by_state {
    ($($view:ident)*) => {$(
        impl fmt::Debug for $view<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($view)).field("state", &self.life.state).finish_non_exhaustive()
            }
        }
    )*};
}

debug_by_state!(Reader Writer);

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Connection {
    fn new(Start { config, iss, clock, now, ipv6, .. }: Start) -> Self {
        let pmtu = Pmtu::new(&config, ipv6);
        Self {
            life: Lifecycle::new(now),
            negotiated: Negotiated::default(),
            numbers: Numbers::new(iss, clock),
            snd: Sender::new(&config),
            rcv: Receiver::new(&config, now),
            rtt: RttEstimator::new(config.min_rto),
            loss: Loss::default(),
            cc: CongestionDriver::new(&config, Bytes::from(pmtu.payload(0)), now),
            pmtu,
            ext: Extensions::default(),
            peer: Liveness::new(&config, now),
            timers: Timers::new(now),
            stats: Stats::default(),
            events: EventSet::default(),
            observers: Observers::default(),
            config,
        }
    }

    /// Returns the complete contents, including the data in the buffers, for comparisons in tests.
    #[doc(hidden)]
    pub fn contents(&self) -> impl fmt::Debug {
        let Self { config, life, negotiated, numbers, snd, rcv, rtt, loss, .. } = self;
        let Self { cc, pmtu, ext, peer, timers, stats, events, .. } = self;
        let parts: [&dyn fmt::Debug; 15] =
            [config, life, negotiated, numbers, snd, rcv, rtt, loss, cc, pmtu, ext, peer, timers, stats, events];
        parts
    }

    /// Returns the connection state (RFC 9293, section 3.3.2).
    #[must_use]
    pub fn state(&self) -> State {
        self.life.state
    }

    /// Returns the next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.take()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called, if a timer is armed.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Enters CLOSED, with `error` or after a normal close.
    pub(crate) fn finish(&mut self, error: Option<ConnectionError>) {
        if self.life.state == State::Closed {
            return;
        }
        self.cc.limits.account(self.timers.now);
        let old = self.life.state;
        self.life.close(error, &mut self.events);
        self.timers.stop_all();
        self.rcv.acks.close();
        self.watch().report_state(old);
        // If a RST has to be sent, it is the last output but one.
        if self.life.is_drained() {
            self.watch().end();
        }
    }

    /// Returns the receive side for the application.
    #[inline]
    pub fn reader(&mut self) -> Reader<'_> {
        let Self { life, negotiated, rcv, rtt, pmtu, timers, .. } = self;
        Reader { now: timers.now, life, negotiated, rtt, mss: pmtu.mss(), rcv }
    }

    /// Returns the send side for the application.
    #[inline]
    pub fn writer(&mut self) -> Writer<'_> {
        Writer { life: &self.life, layout: self.pmtu.layout(), snd: &mut self.snd }
    }

    /// Returns a view of the connection.
    #[inline]
    #[must_use]
    pub fn status(&self) -> Status<'_> {
        Status(self)
    }

    /// Returns a snapshot at `now`, as [`Status::info`].
    #[must_use]
    pub fn info(&self, now: Time) -> Info {
        self.status().info(now)
    }

    /// Reads, as [`Reader::read`].
    ///
    /// # Errors
    /// See [`Reader::read`].
    pub fn read(&mut self, max: usize) -> Result<bytes::Bytes, Blocked> {
        self.reader().read(max)
    }

    /// Writes, as [`Writer::write`].
    ///
    /// # Errors
    /// See [`Writer::write`].
    pub fn write(&mut self, data: &[u8]) -> Result<usize, Blocked> {
        self.writer().write(data)
    }

    /// Shuts down this side for writing: a FIN follows the queued data. Further calls have no effect.
    pub fn shutdown(&mut self) {
        if self.snd.fin_queued || !self.life.state.can_send() {
            return;
        }
        // RFC 9293, section 3.10.4: in SYN-SENT with no data queued, the connection is deleted.
        if self.life.state == State::SynSent && self.snd.buffer.is_empty() {
            return self.finish(None);
        }
        self.snd.fin_queued = true;
        self.advance_closing();
    }

    /// Changes state for a queued FIN once the handshake is complete (RFC 9293, section 3.10.4).
    pub(super) fn advance_closing(&mut self) {
        if !self.snd.fin_queued {
            return;
        }
        match self.life.state {
            State::Established => self.enter(State::FinWait1),
            State::CloseWait => self.enter(State::LastAck),
            _ => {}
        }
    }

    /// Closes this side for reading. If there is unread data, or data arrives later, the peer receives a RST, which
    /// tells it that the data was lost (RFC 9293, section 3.6.1). The RST is sent after the queued data has been
    /// acknowledged, because many stacks discard unread data when a RST arrives. After this call, nothing more can be
    /// written.
    pub fn close_read(&mut self) {
        if self.rcv.closed {
            return;
        }
        self.rcv.closed = true;
        if self.rcv.data.unread > 0 && self.life.state.is_synchronized() {
            self.reset_after_queued(self.timers.now);
        } else if self.life.state == State::FinWait2 {
            self.timers.arm(Timer::Linger, self.timers.now + self.config.fin_wait2_timeout);
        }
    }

    /// Closes both directions on behalf of an application that has ended. Queued data is still sent.
    pub fn orphan(&mut self) {
        self.life.orphaned = true;
        self.observers.report(self.timers.now, || ConnectionEvent::Released);
        // No FIN follows discarded data, because it would indicate success to the peer. Only `shutdown` sends one.
        self.close_read();
        if !self.life.resets {
            self.shutdown();
        }
    }

    /// Aborts the connection and sends a RST to the peer (RFC 9293, section 3.10.5).
    pub fn abort(&mut self) {
        match self.life.state {
            State::Closed => {}
            State::Listen | State::SynSent | State::TimeWait => self.finish(Some(ConnectionError::Aborted)),
            _ => self.reset(self.timers.now),
        }
    }

    /// Discards received data, and sends a RST: at once if nothing is queued, otherwise once the queued data is
    /// acknowledged. Until then, arriving data is dropped without an acknowledgment. A peer that acknowledges nothing
    /// new for the time of [`fin_wait2_timeout`](crate::Config::fin_wait2_timeout) gets the RST then.
    pub(super) fn reset_after_queued(&mut self, now: Time) {
        self.life.resets = true;
        // The room of the discarded data is not offered again.
        self.rcv.data = Reclaimable::new(self.rcv.data.next);
        self.snd.nodelay = true;
        self.timers.arm(Timer::Linger, now + self.config.fin_wait2_timeout);
        if self.snd.is_settled() {
            self.reset(now);
        }
    }

    /// Sends a RST and ends the connection.
    pub(super) fn reset(&mut self, now: Time) {
        self.life.reset = Some(Box::new(self.headers().reset_header(now)));
        self.finish(Some(ConnectionError::Aborted));
    }

    /// Handles the error that a datagram of the current size exceeds the MTU of the first hop.
    pub fn handle_too_long(&mut self, now: Time) {
        let now = self.timers.advance(now);
        self.pmtu.on_too_long(now);
    }

    pub(crate) fn set_pressure(&mut self, pressure: Pressure) {
        self.life.pressure = pressure;
    }

    /// Gives this connection its share of the congestion windows of connections to the same host (RFC 9040, section 7).
    /// Ignored while data is in flight, before the handshake has completed, and by most controllers.
    pub fn share_window(&mut self, now: Time, window: Bytes) {
        if self.state() == State::Established && !self.snd.has_outstanding() {
            self.control_loop().tell(&PathEvent::Shared { now, window });
        }
    }

    /// Changes settings of an open connection.
    pub fn update_config(&mut self, change: impl FnOnce(&mut Config)) {
        let announce = self.peer.user_timeout.change(&mut self.config, self.rtt.rto(), change);
        self.snd.configure(&self.config);
        if self.snd.wake_writer() {
            self.events.raise(Event::Writable);
        }
        if self.life.state == State::Closed {
            return;
        }
        let now = self.timers.now;
        if announce {
            self.engine().announce_user_timeout(now);
        }
        self.peer.arm_keep_alive(now, &self.config, self.life.state, &mut self.timers);
        if self.life.state.is_synchronized() {
            // During the handshake, the timer belongs to the SYN.
            self.arm_retransmission(now);
        }
        if self.cc.sending.made().is_some() {
            self.control_loop().refresh();
        } else {
            self.cc.sending.kept.config = Arc::clone(&self.config);
        }
    }

    /// Sets the time of the application's call that follows, and of the events that it causes.
    #[inline]
    pub(crate) fn begin_call(&mut self, now: Time) {
        let now = self.timers.advance(now);
        self.observers.begin_call(now);
    }

    /// Enters `next` and reports the transition.
    pub(super) fn enter(&mut self, next: State) {
        let old = self.life.state;
        self.life.enter(next);
        self.watch().report_state(old);
    }
}
