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

use longhaul_cc::{Detection, Path, PathEvent, SendLimit};
use longhaul_units::{Bytes, Span, Time};

use crate::config::Config;
use crate::error::ConnectionError;
use crate::info::{NegotiatedOptions, Stats};
use crate::rtt::RttEstimator;
use crate::state::State;
use crate::timestamps::TimestampClock;

mod ack_frequency;
mod ack_schedule;
mod acking;
mod app;
mod arrivals;
mod burst_length;
mod closing;
mod congestion;
mod dormant;
mod ecn_check;
mod extensions;
mod handshake;
mod host_errors;
mod idleness;
mod input;
mod lifecycle;
mod liveness;
mod loss;
mod metrics_cache;
mod moderation;
mod network;
mod numbers;
mod observe;
mod output;
mod pairs;
mod persist;
mod pmtu;
mod probes;
mod rate;
mod rc3;
mod receiver;
mod reporting;
mod runs;
mod sender;
mod sent_timestamps;
#[cfg(test)]
mod tests;
mod timers;
mod trains;
mod user_timeout;

pub use app::Blocked;
pub(crate) use dormant::Dormant;
pub use input::{Payload, SegmentMeta};

use congestion::{CongestionDriver, Pacing};
use extensions::Extensions;
pub(crate) use handshake::reset_for;
pub use lifecycle::Event;
use lifecycle::Lifecycle;
pub(crate) use lifecycle::Pressure;
use liveness::Liveness;
use loss::Loss;
use numbers::Numbers;
use observe::Observers;
pub use output::Due;
use pmtu::Pmtu;
use receiver::Receiver;
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
    observers: Observers,
}

impl Connection {
    fn new(config: Arc<Config>, iss: u32, clock: TimestampClock, now: Time, ipv6: bool) -> Self {
        let pmtu = Pmtu::new(&config, ipv6);
        Self {
            life: Lifecycle::new(now),
            negotiated: Negotiated::default(),
            numbers: Numbers::new(iss, clock),
            snd: Sender::new(&config),
            rcv: Receiver::new(&config, now),
            rtt: RttEstimator::new(config.min_rto),
            loss: Loss::new(),
            cc: CongestionDriver::new(&config, Bytes::from(pmtu.mss(0)), now),
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

    /// Returns SMSS: the payload of a full-sized segment in bytes, after options.
    pub(crate) fn mss(&self) -> u16 {
        let options = self.data_options();
        self.pmtu.mss(options).min(self.snd.peer_mss().saturating_sub(options))
    }

    /// Returns the number of option bytes on each data segment.
    fn data_options(&self) -> u16 {
        let timestamps = if self.negotiated.timestamps { 12 } else { 0 };
        timestamps + self.ext.network.data_options()
    }

    /// Returns the path state that the controller may read.
    fn path(&self) -> Path {
        let mut path = Path::new(Bytes::from(self.mss()));
        path.srtt = self.rtt.srtt();
        path.rttvar = self.rtt.rttvar();
        path.latest_rtt = self.rtt.latest();
        path.min_rtt = self.rtt.min();
        path.recent_min_rtt = self.rtt.recent_min();
        path.handshake_rtt = self.cc.handshake_rtt;
        path.peer_window = Bytes(self.snd.window());
        path.queued = Bytes(self.snd.unsent());
        path.handshake_lossy = self.cc.handshake_lossy;
        path.sack = self.loss.detection != Detection::DuplicateAcks;
        path
    }

    /// Reports an event other than an ACK to the controller and applies its answer.
    fn tell(&mut self, event: &PathEvent) {
        let path = self.path();
        self.cc.controller.on_event(event, &path);
        self.refresh_control();
    }

    /// Applies the controller's answer. Must be called after every event that is reported to the controller.
    fn refresh_control(&mut self) {
        let mss = Bytes::from(self.mss());
        let srtt = self.rtt.srtt();
        let pacing = Pacing {
            mss,
            srtt,
            min_rtt: self.rtt.min(),
            recovering: self.loss.in_fast_recovery(),
            patience: if self.config.moderation { self.snd.patience(self.timers.now(), srtt) } else { Span::ZERO },
        };
        self.cc.refresh(self.timers.now(), &self.config, pacing);
        self.timers.set(Timer::Tick, self.cc.controller.next_tick());
        self.follow_probe_plan();
    }

    /// Enters CLOSED, with `error` or after a normal close.
    fn finish(&mut self, error: Option<ConnectionError>) {
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

    /// Records which limit stops the sender.
    fn set_limit(&mut self, now: Time, limit: SendLimit) {
        self.cc.set_limit(now, limit, self.loss.in_episode());
    }
}
