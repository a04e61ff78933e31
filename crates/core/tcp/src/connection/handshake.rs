//! Connection establishment: our SYN or SYN-ACK, and processing of the peer's (RFC 9293, sections 3.5 and 3.10.7.3).

use std::sync::Arc;

use longhaul_cc::{Detection, Granted, NeedError, PathEvent};
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header, Timestamps};

use super::extension::{Carrier, SynRequest, offered_header};
use super::{Engine, Timer, Timers};
use crate::{Batch, Config, Connection, ConnectionError, Event, HostError, SegmentMeta, State, TimestampClock};

/// SYN-ACK retransmissions by timer to an unvalidated address. With the first one, three SYN-ACKs are sent, none
/// longer than the SYN, so the amplification factor is at most three (RFC 9000, section 8, uses the same bound).
const SYN_ACK_RETRIES: u32 = 2;
/// Delay before the SYN is retransmitted after a first ICMP refusal, to see whether it is refused again. A blind
/// attacker has to match this time as well (RFC 5927, section 5.2, treats ICMP errors as hints only).
const REFUSAL_PAUSE: Span = Span::from_millis(100);

/// Inputs for a new connection.
pub(crate) struct Start {
    pub(crate) config: Arc<Config>,
    /// Initial send sequence number.
    pub(crate) iss: u32,
    pub(crate) clock: TimestampClock,
    pub(crate) now: Time,
    pub(crate) ipv6: bool,
    /// Seed of the nonces of extensions, which is secret.
    pub(crate) seed: u64,
}

/// State needed only until the connection is established.
#[derive(Clone, Debug, Default)]
pub(super) struct Handshake {
    due: bool,
    /// Number of retransmissions by timer.
    retries: u32,
    /// Whether the SYN was sent more than once, for any reason, or its send time is unknown.
    pub(super) repeated: bool,
    /// Whether the peer has answered the SYN, though not with a SYN-ACK: the path does not drop such SYNs.
    arrived: bool,
    sent_at: Time,
    stamp: u32,
    first: (Time, u32),
    /// Limit of SYN-ACK retransmissions by timer, for a passive open.
    pub(super) passive: Option<u32>,
    /// The longest header that may be sent to the peer, whose address is not validated.
    max_header_len: usize,
    /// The time at which the host first reported that the peer is unreachable or does not listen.
    refused_at: Option<Time>,
    /// Whether the next SYN is sent because the host reported a refusal.
    is_refusal_check: bool,
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Connection {
    pub(crate) fn connect(start: Start) -> Self {
        let (now, seed) = (start.now, start.seed);
        let mut conn = Self::new(start);
        conn.life.enter(State::SynSent);
        if conn.cc.wants().network_header.is_some() {
            conn.ext.add_network(seed);
        }
        conn.life.handshake = Some(Box::new(Handshake::new(now, None)));
        conn.opening().begin(now);
        conn
    }

    /// Opens a connection passively in response to `syn`: a SYN-ACK is ready to be sent, unless a SYN cookie was sent
    /// instead, from which `syn` is reconstructed. The ACK that carried the cookie must be handled next.
    pub(crate) fn accept(start: Start, syn: &Header, meta: &SegmentMeta, is_by_cookie: bool) -> Self {
        let (now, seed) = (start.now, start.seed);
        let mut conn = Self::new(start);
        conn.life.enter(State::Listen);
        conn.life.enter(State::SynReceived);
        conn.opening().process_syn(now, syn);
        if conn.negotiated.network {
            conn.ext.add_network(seed);
        }
        conn.engine().hear_syn(now, meta, syn, State::SynReceived);
        conn.opening().begin(now);
        let max_header_len = CheshireCodec::header_len(&syn.options);
        let mut handshake = Handshake::new(now, Some(SYN_ACK_RETRIES));
        (handshake.due, handshake.repeated) = (!is_by_cookie, is_by_cookie);
        handshake.max_header_len = max_header_len;
        conn.life.handshake = Some(Box::new(handshake));
        conn
    }

    pub(super) fn transmit_handshake(&mut self, now: Time, batch: &mut Batch) -> bool {
        let Some(handshake) = self.life.handshake.as_mut().filter(|h| h.due) else { return false };
        handshake.due = false;
        handshake.sent_at = now;
        handshake.stamp = self.numbers.clock.value(now);
        if !handshake.repeated {
            handshake.first = (now, handshake.stamp);
        }
        let (first, max_header_len) = (!handshake.repeated, handshake.max_header_len);
        if !first && !handshake.arrived {
            // A path may drop an ECN-setup SYN or SYN-ACK: a SYN or SYN-ACK that may have been lost is retransmitted
            // without ECN setup. After that, no data is sent as ECN-capable, whatever the peer has received (RFC 3168,
            // sections 6.1.1 and 6.1.1.1).
            self.ext.ecn_check.is_off = true;
        }
        let mut header =
            if self.life.state == State::SynSent { self.opening().syn(now) } else { self.opening().syn_ack(now) };
        if !self.ext.list.is_empty() {
            let wants = self.cc.wants();
            let request = SynRequest {
                is_wanted: wants.network_header.is_some(),
                kind: offered_header(&wants, &self.config),
                request: self.cc.control.header,
                is_permitted: self.negotiated.network,
                first,
                ttl: self.config.ttl,
                now,
            };
            let is_active = self.life.state == State::SynSent;
            let carrier = if is_active { Carrier::Syn(request) } else { Carrier::SynAck(request) };
            self.ext.decorate(&mut header, carrier);
        }
        self.pmtu.options = self.negotiated.data_options(&self.ext);
        header.fit();
        if CheshireCodec::header_len(&header.options) > max_header_len {
            // The SYN had no MSS option. The SYN-ACK has none, either, and the peer uses the default (RFC 9293,
            // MUST-15).
            header.options.mss = None;
        }
        if self.negotiated.scaled_window && !header.options.scaled_window {
            // The SYN-ACK had no room for the option.
            self.negotiated.scaled_window = false;
            header.window = self.rcv.syn_window(self.negotiated.syn_shift());
        }
        self.negotiated.ack_rate &= header.options.ack_rate_permitted;
        batch.push(&header, 0, 0);
        self.stats.segments_out += 1;
        true
    }

    /// Handles a segment in SYN-SENT (RFC 9293, section 3.10.7.3).
    pub(super) fn handle_in_syn_sent(&mut self, now: Time, meta: &SegmentMeta, header: &Header) {
        let flags = header.flags;
        // First: check the ACK bit.
        let acks_syn = flags.contains(Flags::ACK) && header.ack == self.numbers.sequence(1);
        if flags.contains(Flags::ACK) && !acks_syn {
            if !flags.contains(Flags::RST) {
                self.life.reset = Some(Box::new(reset_for(header, 0)));
                if self.life.handshake.as_mut().is_some_and(|handshake| handshake.repeat_after_reset()) {
                    self.timers.arm(Timer::Rto, now + self.rtt.rto());
                    self.stats.incidents_mut().segments_retransmitted += 1;
                }
            }
            return;
        }
        // Second: check the RST bit.
        if flags.contains(Flags::RST) {
            if acks_syn {
                self.finish(Some(ConnectionError::Refused));
            }
            return;
        }
        // Fourth: check the SYN bit.
        if !flags.contains(Flags::SYN) {
            return;
        }
        if !acks_syn && header.seq == self.numbers.initial.iss {
            // Two hosts in a simultaneous open choose the same ISN with probability 2^-32, but an echo always has it.
            self.finish(Some(ConnectionError::Echoed));
            return;
        }
        self.opening().process_syn(now, header);
        self.peer.last_heard = now;
        if acks_syn {
            self.establish(now, meta.received_at(now), header);
            self.engine().hear_syn(now, meta, header, State::SynSent);
            if !self.ext.list.is_empty() && self.life.state != State::Closed {
                self.engine().settle(now);
            }
            if self.ext.needs_ack() {
                // The answer is sent at once and before a report: our first segment completes the peer's handshake
                // and ends its wait for an answer.
                let header = self.headers().ack_header(now);
                self.rcv.acks.queue.push_front(header);
            } else {
                self.rcv.acks.due = true;
            }
            self.engine().announce_user_timeout(now);
            return;
        }
        // Simultaneous open: both sides sent a SYN.
        self.engine().hear_syn(now, meta, header, State::SynSent);
        self.enter(State::SynReceived);
        if let Some(handshake) = &mut self.life.handshake {
            handshake.due = true;
        }
    }

    /// Completes the handshake after our SYN was acknowledged and the peer's was received.
    pub(super) fn establish(&mut self, now: Time, at: Time, header: &Header) {
        let Some(handshake) = self.life.handshake.take() else { return };
        self.snd.una = 1;
        self.enter(State::Established);
        self.timers.stop(Timer::Rto);
        self.timers.stop(Timer::User);
        // Take an RTT sample, unless it is unknown which transmission was acknowledged (Karn's algorithm).
        let stamp = header.options.timestamps.filter(|_| self.negotiated.timestamps);
        let answered = handshake.answered(header.flags, stamp.map(|stamp| stamp.echo));
        // If the first SYN was answered, it was not lost, and the RTT is longer than the timeout.
        self.cc.handshake_lossy = handshake.retries > 1 && answered != Some(handshake.first.0);
        if let Some(sent_at) = answered {
            let rtt = at - sent_at;
            self.rtt.observe(rtt);
            self.rtt.sample(rtt, Bytes::ZERO, Bytes(1));
            self.cc.handshake_rtt = Some(rtt);
        } else {
            self.rtt.start_cautiously();
        }
        // The window in a SYN is not scaled.
        if !header.flags.contains(Flags::SYN) {
            self.snd.set_window(u64::from(header.window) << self.negotiated.send_shift);
        }
        // Report the negotiated capabilities, which may close the connection, and raise the events.
        if let Err(error) = self.engine().start(now) {
            self.life.reset = Some(Box::new(self.headers().reset_header(now)));
            self.finish(Some(ConnectionError::NeedNotGranted { need: error.need }));
            return;
        }
        self.advance_closing();
        self.peer.arm_keep_alive(now, &self.config, self.life.state, &mut self.timers);
        self.timers.arm(Timer::Idle, now + self.rtt.base_rto());
        self.events.raise(Event::Connected);
        self.events.raise(Event::Writable);
    }

    pub(super) fn retransmit_syn(&mut self, now: Time) {
        let Some(handshake) = self.life.handshake.as_mut() else { return };
        let Some(backs_off) = handshake.on_timeout(self.config.syn_retries) else {
            self.finish(Some(ConnectionError::TimedOut));
            return;
        };
        if backs_off {
            self.rtt.back_off();
        }
        self.timers.arm(Timer::Rto, now + self.rtt.rto());
        self.stats.incidents_mut().segments_retransmitted += 1;
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Engine<'_> {
    /// Reports the negotiated capabilities to the controller. Fails if a required one is missing.
    fn start(&mut self, now: Time) -> Result<(), NeedError> {
        let (needs, wants) = (self.cc.controller.needs(), self.cc.wants());
        // Loss detection depends on SACK.
        self.loss.detection = match (self.negotiated.sack, needs.detection()) {
            (_, Some(Detection::Reno)) => Detection::Reno,
            (false, _) | (_, Some(Detection::DuplicateAcks)) => Detection::DuplicateAcks,
            (true, Some(detection)) => detection,
            (true, None) => Detection::RackTlp,
        };
        // Grant the features that the controller needs and both sides support.
        let mut granted = Granted::basic();
        granted.detection = self.loss.detection;
        granted.segments = wants.segments;
        granted.whole_window = self.negotiated.whole_window;
        granted.saved_path = self.cc.history.checked_out().is_some();
        self.ext.start(*self.negotiated, &wants, self.config, &mut granted);
        self.pmtu.options = self.negotiated.data_options(self.ext);
        if self.negotiated.ecn && !self.ext.ecn_check.has_failed() {
            granted.ecn = longhaul_cc::EcnMark::Ect0;
        }
        let path = self.cc.path(self.snd, self.loss, self.rtt, self.pmtu.mss());
        self.cc.start(&granted, &path)?;
        self.cc.sending.kept.established = Some((now, granted));
        self.control_loop().tell(&PathEvent::Established { now, granted });
        Ok(())
    }
}

impl Handshake {
    fn new(now: Time, passive: Option<u32>) -> Self {
        let (first, max_header_len) = ((now, 0), usize::MAX);
        Self { due: true, sent_at: now, first, passive, max_header_len, ..Self::default() }
    }

    /// Sends the SYN again at once, after a reset that ends the peer's old connection, instead of at the timeout. A
    /// challenge ACK (RFC 5961, section 4) shows that the SYN has arrived. Done once, because each ACK may be forged.
    fn repeat_after_reset(&mut self) -> bool {
        if self.repeated || self.refused_at.is_some() {
            return false;
        }
        (self.due, self.repeated, self.arrived) = (true, true, true);
        true
    }

    /// Handles a host error that reports the peer as unreachable or not listening. It ends the attempt if it is
    /// repeated for a SYN sent after the first report, because an earlier report may concern the first SYN or may be
    /// forged. A missing route is reported at the time of sending, a refusal one round trip later.
    pub(super) fn on_refusal(&mut self, now: Time, error: HostError, timers: &mut Timers) -> Option<ConnectionError> {
        let Some(first) = self.refused_at else {
            (self.refused_at, self.is_refusal_check) = (Some(now), true);
            timers.arm(Timer::Rto, now + REFUSAL_PAUSE);
            return None;
        };
        let refused = error == HostError::Refused;
        let about_last = now > self.sent_at || (now == self.sent_at && !refused);
        let ends = self.sent_at >= first + REFUSAL_PAUSE && about_last;
        let error = if refused { ConnectionError::Refused } else { ConnectionError::Unreachable(error) };
        ends.then_some(error)
    }

    /// Handles the expiry of the SYN timer, with a limit of retransmissions in an active open. Returns `None` if the limit is
    /// reached, or else whether the timer backs off.
    fn on_timeout(&mut self, limit: u32) -> Option<bool> {
        // After a refusal one additional SYN is sent early, without backoff, because it was not lost.
        let is_refusal_check = std::mem::take(&mut self.is_refusal_check);
        let limit = self.passive.unwrap_or(limit).saturating_add(u32::from(self.refused_at.is_some()));
        if self.retries >= limit {
            return None;
        }
        self.retries += 1;
        (self.due, self.repeated, self.arrived) = (true, true, false);
        Some(!is_refusal_check)
    }

    /// Repeats the SYN-ACK, which is no longer than the SYN, because the peer retransmitted its SYN.
    pub(super) fn repeat(&mut self) {
        (self.due, self.repeated) = (true, true);
    }

    /// Returns the send time of the SYN that the peer answers. If it was retransmitted, the echo in a SYN-ACK
    /// identifies it. In a later segment of a client, the echo may be outdated (RFC 7323, section 4.3).
    fn answered(&self, flags: Flags, echo: Option<u32>) -> Option<Time> {
        if !self.repeated {
            return Some(self.sent_at);
        }
        let echo = echo.filter(|_| flags.contains(Flags::SYN))?;
        let sent = [(self.sent_at, self.stamp), self.first].into_iter().find(|(_, stamp)| *stamp == echo)?;
        Some(sent.0)
    }
}

/// Returns the RST for a segment that belongs to no connection (RFC 9293, section 3.10.7.1). The RST for a move echoes
/// the timestamp of the segment, which shows the client that it does not answer an earlier segment.
pub(crate) fn reset_for(header: &Header, payload_len: usize) -> Header {
    if header.flags.contains(Flags::ACK) {
        let mut reset = Header { flags: Flags::RST, seq: header.ack, ..Header::default() };
        let stamps = header.options.timestamps.filter(|_| header.options.moving.is_some());
        reset.options.timestamps = stamps.map(|stamps| Timestamps { value: 0, echo: stamps.value });
        return reset;
    }
    let len = payload_len as u32
        + u32::from(header.flags.contains(Flags::SYN))
        + u32::from(header.flags.contains(Flags::FIN));
    Header { flags: Flags::RST | Flags::ACK, ack: header.seq.wrapping_add(len), ..Header::default() }
}
