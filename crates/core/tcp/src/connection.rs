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
//!   [`abort`](Connection::abort) and others.
//! * Outputs, polled after every input: [`poll_transmit`](Connection::poll_transmit) until [nothing](Due) follows, then
//!   [`poll_event`](Connection::poll_event) until it returns `None`, then [`poll_timeout`](Connection::poll_timeout).
//! * Getters.
//!
//! `now` must not decrease; an earlier value is treated as the latest one seen. The connection does not read a clock,
//! does not allocate per packet on the common path, and does not panic on anything a peer sends.

use std::fmt;
use std::sync::Arc;

use longhaul_cc::Ack;
use longhaul_units::{Bytes, Time};

use crate::config::Config;
use crate::error::ConnectionError;
use crate::info::{NegotiatedOptions, Stats};
use crate::rtt::RttEstimator;
use crate::state::State;

mod ack_schedule;
mod acking;
mod app;
mod arrivals;
mod burst_length;
mod checks;
mod closing;
mod congestion;
mod control_loop;
mod dormant;
mod ecn_check;
mod extension;
mod handshake;
mod headers;
mod host_errors;
mod input;
mod lifecycle;
mod liveness;
mod loss;
mod metrics_cache;
mod moderation;
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
mod reporting;
mod segment;
mod send_loop;
mod sender;
#[cfg(test)]
mod tests;
mod timers;
mod trains;
mod user_timeout;

pub use app::Blocked;
pub(crate) use dormant::Dormant;
pub use segment::{Payload, SegmentMeta};

use congestion::CongestionDriver;
use extension::{Extensions, Heard};
pub(crate) use handshake::{Start, reset_for};
pub use lifecycle::Event;
use lifecycle::Lifecycle;
pub(crate) use lifecycle::Pressure;
use liveness::Liveness;
use loss::Loss;
use moderation::Flow;
use numbers::Numbers;
use observe::Observers;
pub use output::Due;
use parts::{Acking, Checks, ControlLoop, Headers, Host, Opening, Receiving, Recovery, SendLoop};
use pmtu::Pmtu;
use receiver::Receiver;
use segment::Incoming;
use sender::Sender;
use timers::{Timer, Timers};
pub(crate) use trains::Train;

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
    /// Whether either side may request a different ACK frequency of the other.
    pub(crate) ack_rate: bool,
}

impl Negotiated {
    /// Returns the number of option bytes on each data segment.
    fn data_options(self, ext: &Extensions) -> u16 {
        if self.timestamps { 12 + ext.data_options() } else { ext.data_options() }
    }

    /// Returns the shift of the window field in our SYN or SYN-ACK. A SYN's is never scaled (RFC 7323, section 2.2), a
    /// SYN-ACK's is if the peer requested it.
    fn syn_shift(self) -> u8 {
        if self.scaled_window { self.recv_shift } else { 0 }
    }

    /// Returns what applications and logs may want to know.
    fn options(self) -> NegotiatedOptions {
        let Self { sack, timestamps, window_scaling, ecn, microseconds, .. } = self;
        NegotiatedOptions { sack, timestamps, window_scaling, ecn, microseconds }
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
    pub(crate) observers: Observers,
}

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
            loss: Loss::new(),
            cc: CongestionDriver::new(&config, Bytes::from(pmtu.payload(0)), now),
            pmtu,
            ext: Extensions::default(),
            peer: Liveness::new(&config, now),
            timers: Timers::new(now),
            stats: Stats::default(),
            observers: Observers::default(),
            config,
        }
    }

    /// Returns everything, the data in the buffers included, for comparisons in tests.
    #[doc(hidden)]
    pub fn contents(&self) -> impl fmt::Debug {
        let Self { config, life, negotiated, numbers, snd, rcv, rtt, loss, .. } = self;
        let Self { cc, pmtu, ext, peer, timers, stats, .. } = self;
        let parts: [&dyn fmt::Debug; 14] =
            [config, life, negotiated, numbers, snd, rcv, rtt, loss, cc, pmtu, ext, peer, timers, stats];
        parts
    }

    /// Returns the connection state (RFC 9293, section 3.3.2).
    #[must_use]
    pub fn state(&self) -> State {
        self.life.state
    }

    /// Returns the error that ended the connection, or `None` if it is open or was closed normally.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        self.life.error
    }

    /// Returns whether the connection is closed and has no RST left to send, so it may be dropped.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.life.state == State::Closed && self.life.reset.is_none()
    }

    /// Returns the next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.life.events.take()
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
        self.cc.limits.account(self.timers.now());
        let old = self.life.state;
        self.life.close(error);
        self.timers.stop_all();
        self.rcv.acks.close();
        self.report_state(old);
        // If a RST has to be sent, it is the last event but one.
        if self.is_drained() {
            self.end_observation();
        }
    }

    /// Advertises our user timeout, if enabled, because the advice is new or no segment without SYN has carried it.
    fn announce_user_timeout(&mut self, now: Time) {
        if let Some(advice) = self.peer.user_timeout.advice(&self.config).filter(|_| self.life.state.is_synchronized())
        {
            self.headers().announce_user_timeout(now, advice);
        }
    }

    /// Lets extensions act after an acceptable segment, and reports their samples that no ACK event has carried.
    fn settle_extensions(&mut self, now: Time) {
        if !self.ext.is_empty() && self.life.state != State::Closed && self.host().settle() {
            self.control_loop().report_ack(Ack::new(now));
        }
    }
}
