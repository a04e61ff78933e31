//! Opening: our SYN or SYN-ACK, and what the peer's says (RFC 9293, sections 3.5 and 3.10.7.3).

use std::sync::Arc;

use longhaul_cc::{AckCadence, Detection, Granted, PathEvent};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header, Timestamps};

use super::cadence::{self, Cadence};
use super::output::Batch;
use super::probes::{self, Probes};
use super::sender::MIN_PEER_MSS;
use super::timers::Timer;
use super::{Connection, Event, Negotiated, SegmentMeta};
use crate::config::Config;
use crate::error::{ConnectionError, HostError};
use crate::state::State;
use crate::timestamps::TimestampClock;

/// SYN-ACKs sent unasked to an address that has not proved itself: three in all, none of them longer than the SYN, so that
/// at most three times what came goes back (RFC 9000, section 8, has that bound).
const SYN_ACK_RETRIES: u32 = 2;
/// How long after a first refusal by ICMP the SYN is sent again, to see whether it is refused as well. Whoever
/// forges one message blindly has to hit that time, too (RFC 5927, section 5.2: ICMP is no more than a hint).
const REFUSAL_PAUSE: Span = Span::from_millis(100);

/// What is needed only until the connection is established.
#[derive(Clone, Debug)]
pub(super) struct Handshake {
    /// A SYN (or SYN-ACK) is to be sent.
    due: bool,
    /// How often the timer has repeated it.
    retries: u32,
    /// It was sent more than once, for whatever reason, or when it was sent is forgotten.
    repeated: bool,
    /// When it was sent last, and with which timestamp.
    sent_at: Time,
    stamp: u32,
    /// The same of the first time.
    first: (Time, u32),
    /// How often a SYN-ACK is repeated unasked, if the peer opened.
    passive: Option<u32>,
    /// The longest header that may answer the peer, whose address is not proved.
    longest: usize,
    /// When the host first reported that the peer cannot be reached or does not listen.
    refused_at: Option<Time>,
    /// The next SYN is sent for that reason.
    asks_again: bool,
}

impl Connection {
    /// An active open: a SYN is ready to be sent.
    pub(crate) fn connect(config: Arc<Config>, iss: u32, clock: TimestampClock, now: Time, ipv6: bool) -> Self {
        let mut conn = Self::new(config, iss, clock, now, ipv6);
        conn.life.enter(State::SynSent);
        conn.begin_handshake(now, None);
        conn
    }

    /// A passive open: `syn` came, a SYN-ACK is ready to be sent.
    pub(crate) fn accept(
        config: Arc<Config>,
        iss: u32,
        clock: TimestampClock,
        now: Time,
        ipv6: bool,
        syn: &Header,
        meta: &SegmentMeta,
    ) -> Self {
        let mut conn = Self::new(config, iss, clock, now, ipv6);
        conn.life.enter(State::Listen);
        conn.life.enter(State::SynReceived);
        conn.take_syn(now, syn);
        conn.take_network(meta, syn);
        conn.begin_handshake(now, Some(SYN_ACK_RETRIES));
        if let Some(handshake) = &mut conn.life.handshake {
            handshake.longest = CheshireCodec::header_len(&syn.options);
        }
        conn
    }

    /// A passive open whose SYN-ACK was a cookie: what the SYN said comes out of the cookie. The ACK that carried it
    /// is still to be handled.
    pub(crate) fn accept_cookie(
        config: Arc<Config>,
        iss: u32,
        clock: TimestampClock,
        now: Time,
        ipv6: bool,
        syn: &Header,
    ) -> Self {
        let mut conn = Self::accept(config, iss, clock, now, ipv6, syn, &SegmentMeta::default());
        if let Some(handshake) = &mut conn.life.handshake {
            handshake.due = false;
            handshake.repeated = true;
        }
        conn
    }

    fn begin_handshake(&mut self, now: Time, passive: Option<u32>) {
        self.snd.nxt = 1;
        let handshake = Handshake {
            due: true,
            retries: 0,
            repeated: false,
            sent_at: now,
            stamp: 0,
            first: (now, 0),
            passive,
            longest: usize::MAX,
            refused_at: None,
            asks_again: false,
        };
        self.life.handshake = Some(Box::new(handshake));
        self.timers.arm(Timer::Rto, now + self.rtt.rto());
        if let Some(limit) = self.config.user_timeout {
            self.timers.arm(Timer::User, now + limit);
        }
    }

    pub(super) fn transmit_handshake(&mut self, now: Time, batch: &mut Batch) -> bool {
        let Some(handshake) = self.life.handshake.as_mut().filter(|h| h.due) else { return false };
        handshake.due = false;
        handshake.sent_at = now;
        handshake.stamp = self.numbers.clock.value(now);
        if !handshake.repeated {
            handshake.first = (now, handshake.stamp);
        }
        let (first, longest) = (!handshake.repeated, handshake.longest);
        let mut header = if self.life.state == State::SynSent { self.syn(now, first) } else { self.syn_ack(now) };
        match self.life.state {
            State::SynSent => self.add_network_to_syn(&mut header, first),
            _ => self.add_network_to_syn_ack(&mut header, first),
        }
        header.fit();
        if CheshireCodec::header_len(&header.options) > longest {
            // The SYN named no MSS: neither do we, and the peer takes the default (RFC 9293, MUST-15).
            header.options.mss = None;
        }
        if self.negotiated.scaled_window && !header.options.scaled_window {
            // There was no room to say so.
            self.negotiated.scaled_window = false;
            header.window = self.syn_window();
        }
        self.negotiated.ack_rate &= header.options.ack_rate_permitted;
        batch.push(&header, 0, 0);
        self.stats.segments_out += 1;
        true
    }

    fn syn(&self, now: Time, first: bool) -> Header {
        // A path that drops ECN-setup SYNs gets a plain one the second time (RFC 3168, section 6.1.1.1).
        let ecn = if self.config.ecn && first { Flags::ECE | Flags::CWR } else { Flags::NONE };
        let mut header =
            Header { flags: Flags::SYN | ecn, window: self.syn_window(), seq: self.numbers.iss, ..Header::default() };
        let options = &mut header.options;
        options.mss = Some(self.pmtu.announced_mss());
        options.sack_permitted = self.config.sack;
        options.window_scale = self.config.window_scaling.then(|| self.config.window_shift());
        options.timestamps =
            self.config.timestamps.then(|| Timestamps { value: self.numbers.clock.value(now), echo: 0 });
        options.microsecond_timestamps = self.config.extensions && self.config.timestamps;
        options.scaled_window = self.asks_for_whole_window();
        options.arrival_permitted = self.config.extensions && self.wants_arrivals();
        options.probe_permitted = self.offers_probe_echo();
        options.ack_rate_permitted = self.offers_ack_rate();
        options.user_timeout = self.user_timeout_advice();
        header
    }

    fn syn_ack(&mut self, now: Time) -> Header {
        let ecn = if self.negotiated.ecn { Flags::ECE } else { Flags::NONE };
        let mut header = Header {
            flags: Flags::SYN | Flags::ACK | ecn,
            window: self.syn_window(),
            seq: self.numbers.iss,
            ack: self.numbers.acknowledgment(1),
            ..Header::default()
        };
        let negotiated = self.negotiated;
        let options = &mut header.options;
        options.mss = Some(self.pmtu.announced_mss());
        options.sack_permitted = negotiated.sack;
        options.window_scale = negotiated.window_scaling.then_some(negotiated.recv_shift);
        options.timestamps = negotiated
            .timestamps
            .then(|| Timestamps { value: self.numbers.clock.value(now), echo: self.rcv.ts_recent });
        options.microsecond_timestamps = negotiated.microseconds;
        options.scaled_window = negotiated.scaled_window;
        options.arrival_permitted = self.ext.arrivals.is_some();
        options.probe_permitted = negotiated.probe_echo;
        options.ack_rate_permitted = negotiated.ack_rate;
        // Not unasked: an answer to an unproved address is no longer than what it answers.
        options.user_timeout = self.user_timeout_advice().filter(|_| self.peer.user_timeout.remote().is_some());
        self.rcv.acknowledged();
        header
    }

    /// Whether anybody here has a use for the arrival times of our segments.
    fn wants_arrivals(&self) -> bool {
        let needs = self.cc.controller.needs();
        let (required, preferred) = (needs.required, needs.preferred);
        self.config.arrival_times
            || self.config.probe_pairs
            || required.arrival_times
            || preferred.arrival_times
            || required.pairs
            || preferred.pairs
    }

    /// Whether to ask the peer to name what it answers. That costs it an ACK for each segment out of order, so only who probes
    /// asks.
    fn offers_probe_echo(&self) -> bool {
        self.config.extensions
            && self.config.timestamps
            && self.config.sack
            && probes::wants(&self.cc.controller.needs())
    }

    /// Whether the SYN-ACK's window is to be scaled, so that more than 64 KiB may leave in the first round trip.
    fn asks_for_whole_window(&self) -> bool {
        let needs = self.cc.controller.needs();
        let wants = needs.required.whole_window || needs.preferred.whole_window;
        wants && self.config.extensions && self.config.window_scaling
    }

    /// The window in a SYN is never scaled (RFC 7323, section 2.2); that in a SYN-ACK is if the peer asked for it.
    fn syn_window(&self) -> u16 {
        let shift = if self.negotiated.scaled_window { self.negotiated.recv_shift } else { 0 };
        (self.rcv.capacity >> shift).min(u64::from(u16::MAX)) as u16
    }

    /// Takes the peer's SYN: sequence number, options, window.
    pub(super) fn take_syn(&mut self, now: Time, syn: &Header) {
        self.numbers.irs = syn.seq;
        self.rcv.data = crate::reassembly::Reassembly::new(1);
        let options = &syn.options;
        let config = &self.config;
        let scaling = config.window_scaling && options.window_scale.is_some();
        let timestamps = config.timestamps && options.timestamps.is_some();
        let microseconds = timestamps && config.extensions && options.microsecond_timestamps;
        self.negotiated = Negotiated {
            window_scaling: scaling,
            send_shift: if scaling { options.window_scale.unwrap_or(0) } else { 0 },
            recv_shift: if scaling { config.window_shift() } else { 0 },
            sack: config.sack && options.sack_permitted,
            timestamps,
            ecn: config.ecn && ecn_setup(syn.flags),
            microseconds,
            probe_echo: timestamps && config.extensions && options.probe_permitted,
            network: config.extensions && options.network_permitted,
            scaled_window: config.extensions && scaling && options.scaled_window,
            ack_rate: config.extensions && options.ack_rate_permitted,
        };
        let answers = self.life.state == State::SynSent && syn.flags.contains(Flags::ACK);
        let scaled = self.negotiated.scaled_window && answers && self.asks_for_whole_window();
        // Of both who open at once neither has a SYN-ACK whose window could be scaled.
        self.negotiated.scaled_window &= self.life.state == State::SynReceived;
        let shift = if self.negotiated.scaled_window { self.negotiated.recv_shift } else { 0 };
        self.rcv.edge = 1 + (u64::from(self.syn_window()) << shift);
        self.negotiated.probe_echo &= self.life.state != State::SynSent || self.offers_probe_echo();
        self.negotiated.ack_rate &= self.life.state != State::SynSent || self.offers_ack_rate();
        self.negotiated.network &= self.life.state != State::SynSent || self.ext.network.kind().is_some();
        // A peer that asks is answered; one that answers without being asked is not believed.
        let arrivals = config.extensions && options.arrival_permitted;
        let asked = self.life.state != State::SynSent || self.wants_arrivals();
        self.ext.arrivals = (arrivals && asked).then(Box::default);
        if !scaling {
            self.rcv.ceiling = self.rcv.ceiling.min(u64::from(u16::MAX));
            self.rcv.capacity = self.rcv.capacity.min(self.rcv.ceiling);
        }
        if microseconds {
            self.numbers.clock.use_microseconds();
        }
        if let Some(stamp) = options.timestamps.filter(|_| timestamps) {
            self.rcv.ts_recent = stamp.value;
            self.rcv.ts_recent_at = Some(now);
            self.numbers.peer_syn = (stamp.value, now);
        }
        self.take_user_timeout(syn.options.user_timeout);
        self.snd.peer_mss = options.mss.unwrap_or(self.pmtu.default_peer_mss()).max(MIN_PEER_MSS);
        self.snd.window = u64::from(syn.window) << if scaled { self.negotiated.send_shift } else { 0 };
        self.snd.max_window = self.snd.window;
        self.snd.wl1 = 0;
        self.snd.wl2 = 0;
    }

    /// SYN-SENT (RFC 9293, section 3.10.7.3).
    pub(super) fn handle_in_syn_sent(&mut self, now: Time, meta: &SegmentMeta, header: &Header) {
        let flags = header.flags;
        let acks_syn = flags.contains(Flags::ACK) && header.ack == self.numbers.sequence(1);
        if flags.contains(Flags::ACK) && !acks_syn {
            if !flags.contains(Flags::RST) {
                self.life.reset = Some(Box::new(reset_for(header, 0)));
            }
            return;
        }
        if flags.contains(Flags::RST) {
            if acks_syn {
                self.finish(Some(ConnectionError::Refused));
            }
            return;
        }
        if !flags.contains(Flags::SYN) {
            return;
        }
        if !acks_syn && header.seq == self.numbers.iss {
            // Two hosts that open at once have one initial sequence number once in 2^32 times; an echo has it always.
            self.finish(Some(ConnectionError::Echoed));
            return;
        }
        self.take_syn(now, header);
        self.take_network(meta, header);
        self.peer.last_heard = now;
        if acks_syn {
            self.establish(now, meta.rx_time.unwrap_or(now).min(now), header);
            if self.rcv.network_answer.is_some() {
                // Before a report, and what is said at once: our first segment ends the peer's handshake, and its wait for an answer.
                let header = self.ack_header(now);
                self.rcv.ack_queue.push_front(header);
            } else {
                self.rcv.ack_due = true;
            }
            self.announce_user_timeout(now);
            return;
        }
        // Simultaneous open: our SYN and theirs crossed.
        self.life.enter(State::SynReceived);
        if let Some(handshake) = &mut self.life.handshake {
            handshake.due = true;
        }
    }

    /// Our SYN is acknowledged and theirs is known.
    pub(super) fn establish(&mut self, now: Time, at: Time, header: &Header) {
        let Some(handshake) = self.life.handshake.take() else { return };
        self.snd.una = 1;
        self.life.enter(State::Established);
        self.timers.stop(Timer::Rto);
        self.timers.stop(Timer::User);
        let stamp = header.options.timestamps.filter(|_| self.negotiated.timestamps);
        let answered = handshake.answered(header.flags, stamp.map(|stamp| stamp.echo));
        // A first SYN that was answered was not lost: the round trip is longer than the timer.
        self.cc.handshake_lossy = handshake.retries > 1 && answered != Some(handshake.first.0);
        if let Some(sent_at) = answered {
            let rtt = at - sent_at;
            self.rtt.observe(now, rtt);
            self.rtt.sample(rtt, Bytes::ZERO, Bytes(1));
            self.cc.handshake_rtt = Some(rtt);
        } else {
            self.rtt.start_cautiously();
        }
        // A SYN's window is not scaled; those of later segments are.
        if !header.flags.contains(Flags::SYN) {
            self.snd.window = u64::from(header.window) << self.negotiated.send_shift;
            self.snd.max_window = self.snd.max_window.max(self.snd.window);
        }
        self.grant(now);
        if self.life.state == State::Closed {
            return;
        }
        self.advance_closing();
        self.arm_keep_alive(now);
        self.life.events.raise(Event::Connected);
        self.life.events.raise(Event::Writable);
    }

    /// Tells the controller what there is.
    fn grant(&mut self, now: Time) {
        let needs = self.cc.controller.needs();
        self.loss.detection = match (self.negotiated.sack, needs.detection()) {
            (false, _) | (_, Some(Detection::DuplicateAcks)) => Detection::DuplicateAcks,
            (true, Some(detection)) => detection,
            (true, None) => Detection::RackTlp,
        };
        let mut granted = Granted::basic();
        granted.detection = self.loss.detection;
        granted.segments = needs.required.segments || needs.preferred.segments;
        granted.arrival_times = self.ext.arrivals.is_some();
        let wanted = self.config.probe_pairs || needs.required.pairs || needs.preferred.pairs;
        granted.pairs = wanted && self.negotiated.sack;
        self.ext.pairs = granted.pairs.then(Box::default);
        self.ext.network.settle(self.ext.network.kind().filter(|_| self.negotiated.network));
        granted.network_header = self.ext.network.kind();
        granted.probes = probes::wants(&needs) && self.negotiated.sack && self.negotiated.timestamps;
        granted.probe_echo = self.negotiated.probe_echo;
        self.ext.probes = granted.probes.then(|| Box::new(Probes::new(self.negotiated.probe_echo)));
        let cadence = cadence::wanted(&needs);
        // Who permits network feedback heeds ACK rates (`docs/wire.md`).
        let heeds = self.negotiated.ack_rate || self.negotiated.network;
        granted.ack_cadence = heeds && cadence != AckCadence::Usual;
        self.ext.cadence = heeds.then(|| Box::new(Cadence::new(cadence)));
        if self.negotiated.ecn {
            granted.ecn = longhaul_cc::EcnMark::Ect0;
        }
        self.cc.segments = granted.segments.then(Box::default);
        self.cc.mss = Bytes::from(self.mss());
        let path = self.path();
        if let Err(error) = self.cc.controller.on_granted(&granted, &path) {
            self.life.reset = Some(Box::new(self.reset_header(now)));
            self.finish(Some(ConnectionError::NeedNotGranted { need: error.need }));
            return;
        }
        self.tell(&PathEvent::Established { now, granted });
        self.tell_network(now);
    }

    /// The SYN timer fired.
    pub(super) fn retransmit_syn(&mut self, now: Time) {
        let Some(handshake) = self.life.handshake.as_mut() else { return };
        let limit = handshake.passive.unwrap_or(self.config.syn_retries);
        // After a refusal it is sent once more, and early: not because it was lost.
        let asks_again = std::mem::take(&mut handshake.asks_again);
        let limit = limit.saturating_add(u32::from(handshake.refused_at.is_some()));
        if handshake.retries >= limit {
            self.finish(Some(ConnectionError::TimedOut));
            return;
        }
        handshake.retries += 1;
        (handshake.due, handshake.repeated) = (true, true);
        if !asks_again {
            self.rtt.back_off();
        }
        self.timers.arm(Timer::Rto, now + self.rtt.rto());
        self.stats.segments_retransmitted += 1;
    }

    /// Handles the host's report that nobody listens or that the peer cannot be reached. It ends the attempt if it is
    /// repeated about a SYN sent since the first report: an earlier one is about the first SYN, or forged. A missing
    /// route is reported at the moment of sending; a refusal takes a round trip.
    pub(super) fn on_refusal(&mut self, now: Time, error: HostError) {
        let Some(handshake) = self.life.handshake.as_mut() else { return };
        let Some(first) = handshake.refused_at else {
            (handshake.refused_at, handshake.asks_again) = (Some(now), true);
            self.timers.arm(Timer::Rto, now + REFUSAL_PAUSE);
            return;
        };
        let refused = error == HostError::Refused;
        let about_last = now > handshake.sent_at || (now == handshake.sent_at && !refused);
        if handshake.sent_at >= first + REFUSAL_PAUSE && about_last {
            self.finish(Some(if refused { ConnectionError::Refused } else { ConnectionError::Unreachable(error) }));
        }
    }

    /// The peer repeated its SYN: so do we our answer, which is no larger.
    pub(super) fn repeat_syn_ack(&mut self) {
        if let Some(handshake) = &mut self.life.handshake {
            (handshake.due, handshake.repeated) = (true, true);
        }
    }

    /// A RST behind everything sent that also acknowledges. It carries timestamps if they are in force (RFC 7323,
    /// section 3.2).
    pub(super) fn reset_header(&self, now: Time) -> Header {
        let mut header = Header {
            flags: Flags::RST | Flags::ACK,
            seq: self.numbers.sequence(self.snd.sent_to()),
            ack: self.numbers.acknowledgment(self.rcv.next()),
            ..Header::default()
        };
        if self.negotiated.timestamps {
            header.options.timestamps =
                Some(Timestamps { value: self.numbers.clock.value(now), echo: self.rcv.ts_recent });
        }
        header
    }
}

impl Handshake {
    /// When what the peer answers was sent. Of a SYN that was repeated an echo tells, if it is that of the SYN-ACK: what a
    /// client echoes later may be old (RFC 7323, section 4.3).
    fn answered(&self, flags: Flags, echo: Option<u32>) -> Option<Time> {
        if !self.repeated {
            return Some(self.sent_at);
        }
        let echo = echo.filter(|_| flags.contains(Flags::SYN))?;
        let sent = [(self.sent_at, self.stamp), self.first].into_iter().find(|(_, stamp)| *stamp == echo)?;
        Some(sent.0)
    }
}

/// ECN-setup SYN, or SYN-ACK (RFC 3168, section 6.1.1).
fn ecn_setup(flags: Flags) -> bool {
    if flags.contains(Flags::ACK) {
        flags.contains(Flags::ECE) && !flags.contains(Flags::CWR)
    } else {
        flags.contains(Flags::ECE | Flags::CWR)
    }
}

/// The RST that answers a segment without a connection (RFC 9293, section 3.10.7.1).
pub(crate) fn reset_for(header: &Header, payload_len: usize) -> Header {
    if header.flags.contains(Flags::ACK) {
        return Header { flags: Flags::RST, seq: header.ack, ..Header::default() };
    }
    let len = payload_len as u32
        + u32::from(header.flags.contains(Flags::SYN))
        + u32::from(header.flags.contains(Flags::FIN));
    Header { flags: Flags::RST | Flags::ACK, ack: header.seq.wrapping_add(len), ..Header::default() }
}
