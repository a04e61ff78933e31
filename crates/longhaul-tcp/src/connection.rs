//! One TCP connection, sans-IO.
//!
//! # Driving it
//!
//! An [`Endpoint`](crate::Endpoint) drives its connections; a simulator or a test may drive one directly. There are
//! four kinds of methods:
//!
//! * inputs: [`handle_segment`](Connection::handle_segment) for each segment of a receive batch, then
//!   [`finish_batch`](Connection::finish_batch) once; [`handle_timeout`](Connection::handle_timeout) when
//!   [`poll_timeout`](Connection::poll_timeout)'s time has come;
//! * the application: [`write`](Connection::write), [`read`](Connection::read), [`shutdown`](Connection::shutdown),
//!   [`abort`](Connection::abort) and their like;
//! * outputs, polled after every input: [`poll_transmit`](Connection::poll_transmit) until it returns `false`, then
//!   [`poll_event`](Connection::poll_event) until it returns `None`, then [`poll_timeout`](Connection::poll_timeout);
//! * getters.
//!
//! `now` never goes back; an earlier one is treated as the latest seen. Nothing here reads a clock, allocates per
//! packet on the common path, or panics on what a peer sends.

use std::collections::VecDeque;
use std::sync::Arc;

use longhaul_cc::{AckedSegment, BuildParams, Control, Controller, LostSegment, Pace, Pacer, Path, SendLimit};
use longhaul_units::{Bytes, Rate, Span, Time};
use longhaul_wire::Header;

use crate::config::Config;
use crate::error::ConnectionError;
use crate::info::Stats;
use crate::rtt::RttEstimator;
use crate::state::State;
use crate::timestamps::TimestampClock;

mod acking;
mod app;
mod arrivals;
mod cadence;
mod departures;
mod ecn_check;
mod handshake;
mod input;
mod loss;
mod network;
mod output;
mod pairs;
mod path_memory;
mod persist;
mod pmtu;
mod probes;
mod rate;
mod receiver;
mod reporting;
mod sender;
mod tail_loop;
#[cfg(test)]
mod tests;
mod timers;
mod trouble;
mod user_timeout;

pub use app::Blocked;
pub use input::{Payload, SegmentMeta};
pub use output::{Batch, SegmentRef};

use arrivals::ArrivalTimes;
use cadence::Cadence;
use ecn_check::EcnCheck;
use handshake::Handshake;
pub(crate) use handshake::reset_for;
use loss::Loss;
use network::Network;
use pairs::Pairs;
use path_memory::Recalled;
use pmtu::Pmtu;
use probes::Probes;
use rate::RateSampler;
use receiver::Receiver;
use sender::Sender;
use timers::{Timer, Timers};
use trouble::Trouble;
use user_timeout::UserTimeout;

/// What both sides agreed on in the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Negotiated {
    pub(crate) window_scaling: bool,
    /// Shift of the windows the peer sends.
    pub(crate) send_shift: u8,
    /// Shift of the windows we send.
    pub(crate) recv_shift: u8,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) ecn: bool,
    pub(crate) microseconds: bool,
    /// Whether ACKs name the segment that drew them.
    pub(crate) probe_echo: bool,
    /// Whether segments may carry network feedback.
    pub(crate) network: bool,
    /// Whether the window of our SYN-ACK is scaled.
    pub(crate) scaled_window: bool,
    /// Whether either side may ask the other for another rate of ACKs.
    pub(crate) ack_rate: bool,
}

/// How scarce the endpoint's memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// There is enough.
    #[default]
    None,
    /// Receive windows do not grow.
    Soft,
    /// The ceiling is reached: data that would be buffered is refused.
    Hard,
}

/// Something the application should know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// [`Connection::read`] will give data, the end of the stream, or an error.
    Readable,
    /// [`Connection::write`] will take data, or give an error.
    Writable,
    /// The peer acknowledged our FIN: everything written has arrived.
    Finished,
    /// R1 is reached: several retransmissions in a row went unanswered (RFC 9293, section 3.8.3).
    /// [`Connection::host_error`] may say why.
    Stalled,
    /// The connection is over; [`Connection::error`] says why if it did not end in order.
    Closed,
}

/// One TCP connection. See the [module](self) for the order of calls.
#[derive(Debug)]
pub struct Connection {
    pub(crate) config: Arc<Config>,
    state: State,
    error: Option<ConnectionError>,
    /// Our and the peer's initial sequence number.
    iss: u32,
    irs: u32,
    negotiated: Negotiated,
    clock: TimestampClock,
    handshake: Option<Box<Handshake>>,
    snd: Sender,
    rcv: Receiver,
    rtt: RttEstimator,
    loss: Loss,
    rate: RateSampler,
    ecn_check: EcnCheck,
    controller: Box<dyn Controller>,
    control: Control,
    pacer: Pacer,
    pmtu: Pmtu,
    timers: Timers,
    /// ACKs whose content was fixed when they fell due, oldest first.
    ack_queue: VecDeque<Header>,
    /// A RST that waits to be sent.
    reset: Option<Box<Header>>,
    events: EventSet,
    stats: Stats,
    created_at: Time,
    now: Time,
    challenged_at: Option<Time>,
    limit: SendLimit,
    limit_since: Time,
    /// The threshold while the window was the limit, for later connections.
    kept_ssthresh: Option<Bytes>,
    /// What an earlier connection had come to, if this one begins with it; and the greatest delivery rate since the last loss.
    recalled: Recalled,
    best_rate: Rate,
    last_heard: Time,
    keep_alive_probes: u32,
    trouble: Trouble,
    user_timeout: UserTimeout,
    /// The TSval of the peer's SYN, and when it came.
    peer_syn: (u32, Time),
    pub(crate) pressure: Pressure,
    /// The application gave the connection up: nobody will read.
    orphaned: bool,
    /// If the controller wants to hear of segments one by one.
    segments: Option<Box<SegmentLists>>,
    /// While the arrival-times option is in force.
    arrivals: Option<Box<ArrivalTimes>>,
    /// If flipped pairs are sent.
    pairs: Option<Box<Pairs>>,
    /// If the controller probes.
    probes: Option<Box<Probes>>,
    /// What routers were asked and said.
    network: Box<Network>,
    /// While the ACK rate option is in force.
    cadence: Option<Box<Cadence>>,
}

/// The segments that the next ACK event tells of; reused from ACK to ACK.
#[derive(Debug, Default)]
struct SegmentLists {
    acked: Vec<AckedSegment>,
    lost: Vec<LostSegment>,
}

/// A set of [`Event`]s not yet polled.
#[derive(Clone, Copy, Debug, Default)]
struct EventSet(u8);

impl EventSet {
    const ORDER: [Event; 6] =
        [Event::Connected, Event::Readable, Event::Writable, Event::Finished, Event::Stalled, Event::Closed];

    fn raise(&mut self, event: Event) {
        self.0 |= 1 << event as u8;
    }

    fn take(&mut self) -> Option<Event> {
        let event = *Self::ORDER.get(self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(event)
    }
}

impl Connection {
    fn new(config: Arc<Config>, iss: u32, clock: TimestampClock, now: Time, ipv6: bool) -> Self {
        let pmtu = Pmtu::new(&config, ipv6);
        let mss = Bytes::from(pmtu.mss(0));
        let controller = config.congestion.build(&build_params(&config, mss));
        let control = controller.control();
        Self {
            state: State::Closed,
            error: None,
            iss,
            irs: 0,
            negotiated: Negotiated::default(),
            clock,
            handshake: None,
            snd: Sender::new(&config),
            rcv: Receiver::new(&config, now),
            rtt: RttEstimator::new(config.min_rto),
            loss: Loss::new(),
            rate: RateSampler::new(now),
            ecn_check: EcnCheck::default(),
            controller,
            control,
            pacer: Pacer::new(now),
            pmtu,
            timers: Timers::default(),
            ack_queue: VecDeque::new(),
            reset: None,
            events: EventSet::default(),
            stats: Stats::default(),
            created_at: now,
            now,
            challenged_at: None,
            limit: SendLimit::App,
            limit_since: now,
            kept_ssthresh: None,
            recalled: Recalled::default(),
            best_rate: Rate::ZERO,
            last_heard: now,
            keep_alive_probes: 0,
            trouble: Trouble::default(),
            user_timeout: UserTimeout::new(&config),
            peer_syn: (0, now),
            pressure: Pressure::None,
            orphaned: false,
            segments: None,
            arrivals: None,
            pairs: None,
            probes: None,
            network: Box::default(),
            cadence: None,
            config,
        }
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Why the connection ended, if it did not end in order.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        self.error
    }

    /// Whether nothing of the connection is left to be done: it may be dropped.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.state == State::Closed && self.reset.is_none()
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.take()
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called next, if ever.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Time never goes back: an earlier `now` is the latest seen.
    fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    fn enter(&mut self, next: State) {
        debug_assert!(self.state.may_become(next), "{} -> {next} is no edge of RFC 9293", self.state);
        self.state = next;
    }

    /// Payload bytes of a full segment now (SMSS).
    pub(crate) fn mss(&self) -> u16 {
        let options = self.data_options();
        self.pmtu.mss(options).min(self.snd.peer_mss.saturating_sub(options))
    }

    /// Bytes of options on each data segment.
    fn data_options(&self) -> u16 {
        let timestamps = if self.negotiated.timestamps { 12 } else { 0 };
        timestamps + self.network.data_options()
    }

    fn path(&self) -> Path {
        let mut path = Path::new(Bytes::from(self.mss()));
        path.srtt = self.rtt.srtt();
        path.rttvar = self.rtt.rttvar();
        path.latest_rtt = self.rtt.latest();
        path.min_rtt = self.rtt.min();
        path.recent_min_rtt = self.rtt.recent_min();
        path.handshake_rtt = self.loss.handshake_rtt;
        path.peer_window = Bytes(self.snd.window);
        path.queued = Bytes(self.snd.unsent());
        path.handshake_lossy = self.loss.handshake_lossy;
        path
    }

    /// Reads the controller's answer; called after every event it is told of.
    fn refresh_control(&mut self) {
        self.control = self.controller.control();
        self.timers.set(Timer::Tick, self.controller.next_tick());
        let mss = Bytes::from(self.mss());
        let floor = mss.max(self.control.cwnd).min(Bytes(self.config.max_cwnd)).max(mss);
        self.control.cwnd = floor;
        let ceiling = self.config.max_pacing_rate;
        let pace = self.control.pace.or_else(|| self.default_pace().map(|rate| Pace { rate, quantum: None }));
        let pace = match pace {
            Some(pace) => Some(Pace { rate: pace.rate.min(ceiling), ..pace }),
            None => (ceiling != Rate::MAX).then_some(Pace { rate: ceiling, quantum: None }),
        };
        self.pacer.set(self.now, pace, mss);
        self.follow_probe_plan();
    }

    /// The transport's own pace: twice the window a round trip in slow start, so that it may double; 1.2 times beyond.
    ///
    /// In recovery the window is what is in flight and what the last ACK let go. Its pace would hold that back until
    /// the next ACK, which grants anew and forgets it: where little is in flight, recovery would stay at two segments a
    /// round trip. So it goes by the window that recovery leads to.
    fn default_pace(&self) -> Option<Rate> {
        let srtt = self.rtt.srtt()?.max(Span::from_micros(1));
        let cwnd = self.control.cwnd;
        if !self.loss.congestion_seen {
            return Some(Rate::from_bytes_over(cwnd, srtt).mul_f64(2.0));
        }
        let ssthresh = self.controller.snapshot().ssthresh.filter(|ssthresh| cwnd < *ssthresh);
        let (window, gain) = match ssthresh {
            Some(ssthresh) if self.loss.is_recovering() => (ssthresh, 1.2),
            Some(_) => (cwnd, 2.0),
            None => (cwnd, 1.2),
        };
        Some(Rate::from_bytes_over(window, srtt).mul_f64(gain))
    }

    /// Ends the connection, for `error` or in order.
    fn finish(&mut self, error: Option<ConnectionError>) {
        if self.state == State::Closed {
            return;
        }
        self.account_limit(self.now);
        self.state = State::Closed;
        self.error = self.error.or(error);
        self.timers = Timers::default();
        self.ack_queue = VecDeque::new();
        self.rcv.ack_due = false;
        self.handshake = None;
        self.events.raise(Event::Readable);
        self.events.raise(Event::Writable);
        self.events.raise(Event::Closed);
    }

    /// Adds the time since the last change to what limited the sender.
    fn account_limit(&mut self, now: Time) {
        self.stats.limited[self.limit as usize] += now - self.limit_since;
        self.limit_since = now;
    }

    fn set_limit(&mut self, now: Time, limit: SendLimit) {
        if limit != self.limit {
            self.keep_ssthresh(limit);
            self.account_limit(now);
            self.limit = limit;
        }
    }
}

fn build_params(config: &Config, mss: Bytes) -> BuildParams {
    let mut params = BuildParams::default();
    params.mss = mss;
    params.max_cwnd = Bytes(config.max_cwnd);
    params
}
