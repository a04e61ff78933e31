//! Network feedback: requests to routers, their answers, and the answers returned to the peer (Quick-Start, RFC 4782;
//! RCP; XCP; `docs/wire.md`, "Network feedback").
//!
//! The extension fails closed. No request is sent unless the application vouches for the routers and the peer permits
//! the option. An answer that exceeds the request or fails the nonce check counts as a denial, as does a missing
//! answer. An unsolicited answer is ignored.

use std::fmt;

use longhaul_cc::{Ack, Granted, NetworkFeedback, NetworkHeader, NetworkHeaderKind};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::Header;
use longhaul_wire::network::{
    Feedback, Forward, NetworkOption, QuickStartNonce, QuickStartRate, Request, WireDelta, WireRate,
};

use super::{Carrier, Extension};
use crate::connection::ack_schedule::INITIAL_ACKS;
use crate::connection::send_loop::{Fill, FillStep};
use crate::connection::{Engine, Incoming, Negotiated, SendLoop, Sender};
use crate::{Info, NetworkInfo, State, add};

/// Length in bytes of the option on each data segment, padded.
const RCP_OPTION: u16 = 16;
const XCP_OPTION: u16 = 20;
/// Length in bytes that a Quick-Start request adds to a segment, padded.
const QUICK_START_OPTION: u16 = 12;

/// Seed of the nonces (RFC 4782, section 3.4). It is not printed, because applications print streams to logs.
#[derive(Clone, Copy, Default)]
struct NonceSeed(u64);

impl fmt::Debug for NonceSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NonceSeed(..)")
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Network {
    seed: NonceSeed,
    /// The kind that our SYN offers; after the handshake, the kind that was negotiated.
    kind: Option<NetworkHeaderKind>,
    asked: Option<(QuickStartRate, QuickStartNonce)>,
    /// The time at which it was sent, and the end of the data that it was sent on.
    asked_at: Option<Time>,
    asked_end: u64,
    /// Whether the peer returned an impossible nonce or rate.
    is_distrusted: bool,
    /// The report to be sent: the approved rate, with the nonce of the request.
    report: Option<(QuickStartRate, QuickStartNonce)>,
    /// The largest change requested by XCP and the largest rate requested by RCP, as encoded on the wire.
    wanted: i64,
    wanted_rate: Rate,
    /// Routers' answers to the peer's newest request, not yet returned to the peer.
    for_peer: Option<Feedback>,
    /// The answer to be reported to the controller.
    answer: Option<NetworkFeedback>,
    /// Whether our SYN-ACK has carried the answers to the peer's SYN.
    is_answered_by_syn_ack: bool,
    /// Whether the handshake is complete and a missing answer to its request was noted.
    is_settled: bool,
    info: NetworkInfo,
}

fn kind_of(header: &NetworkHeader) -> NetworkHeaderKind {
    match header {
        NetworkHeader::QuickStart { .. } => NetworkHeaderKind::QuickStart,
        NetworkHeader::Rcp { .. } => NetworkHeaderKind::Rcp,
        _ => NetworkHeaderKind::Xcp,
    }
}

fn micros(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1_000).unwrap_or(u32::MAX)
}

/// Router feedback that our SYN or SYN-ACK may request.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct SynRequest {
    /// Whether the controller requests a kind of router feedback.
    pub(in crate::connection) is_wanted: bool,
    /// The kind of feedback, if the application vouches for the routers.
    pub(in crate::connection) kind: Option<NetworkHeaderKind>,
    pub(in crate::connection) request: Option<NetworkHeader>,
    pub(in crate::connection) is_permitted: bool,
    /// Whether the SYN or SYN-ACK was not sent before.
    pub(in crate::connection) first: bool,
    pub(in crate::connection) ttl: u8,
    pub(in crate::connection) now: Time,
}

impl Network {
    /// Returns the state of a connection that has neither sent nor received the option. Nonces are drawn from the secret
    /// `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed: NonceSeed(seed), ..Self::default() }
    }

    /// Adds the permission for the option, and a request, to our SYN.
    fn add_to_syn(&mut self, header: &mut Header, syn: SynRequest) {
        let SynRequest { is_wanted, kind, request, first, ttl, now, .. } = syn;
        header.options.network_permitted = kind.is_some();
        // The permission for ACK rate requests is left out, because it does not fit in addition to a request.
        header.options.ack_rate_permitted &= !is_wanted;
        self.kind = kind;
        // The retransmission of a SYN carries no request (RFC 4782, section 4.7).
        let asked = request.filter(|header| first && kind == Some(kind_of(header)));
        let forward = asked.map(|header| self.request(&header, ttl));
        (self.asked_at, self.asked_end) = (forward.map(|_| now), 0);
        if !first {
            self.asked = None;
        }
        header.options.network = forward.map(|forward| NetworkOption { forward: Some(forward), feedback: None });
    }

    /// Adds the answer to the SYN's request to our SYN-ACK, and a request of ours if the SYN carried one.
    fn add_to_syn_ack(&mut self, header: &mut Header, syn: SynRequest) {
        if !syn.is_permitted {
            return;
        }
        self.is_answered_by_syn_ack = true;
        let feedback = self.for_peer;
        if feedback.is_some() {
            self.add_to_syn(header, syn);
        }
        header.options.network_permitted = true;
        let forward = header.options.network.and_then(|network| network.forward);
        header.options.network =
            (forward.is_some() || feedback.is_some()).then_some(NetworkOption { forward, feedback });
    }

    /// Processes the option of an acceptable segment that arrived with this TTL: the peer's request and the routers' answer
    /// to ours. Returns whether the peer waits for the answer to a Quick-Start request, so that it is acknowledged at once.
    fn take_option(&mut self, option: NetworkOption, ttl: Option<u8>) -> bool {
        let mut is_awaited = false;
        if let Some(answer) = option.forward.and_then(|forward| forward.feedback(ttl)) {
            self.for_peer = Some(merge(self.for_peer, answer));
            is_awaited = option.forward.is_some_and(|forward| matches!(forward.request, Request::QuickStart { .. }));
        }
        if let Some(feedback) = option.feedback
            && let Some(answer) = self.check(&feedback)
        {
            if answer == NetworkFeedback::Denied {
                add(&mut self.info.denied, 1);
            } else {
                add(&mut self.info.granted, 1);
            }
            self.answer = Some(answer);
        }
        is_awaited
    }

    /// Returns the request that every data segment carries with RCP and XCP. `asked` is the controller's request.
    fn request_on_data(&mut self, asked: Option<NetworkHeader>, ttl: u8) -> Option<NetworkOption> {
        let each = matches!(self.kind, Some(NetworkHeaderKind::Rcp | NetworkHeaderKind::Xcp));
        let asked = asked.filter(|header| each && self.kind == Some(kind_of(header)))?;
        Some(NetworkOption { forward: Some(self.request(&asked, ttl)), feedback: None })
    }

    fn is_used(&self) -> bool {
        self.kind.is_some() || self.info != NetworkInfo::default()
    }

    /// Creates and records a Quick-Start request for this rate.
    fn ask(&mut self, rate: Rate) -> Request {
        let rate = QuickStartRate::at_least(rate);
        // SplitMix64's output function (Steele, Lea, Flood, OOPSLA 2014): a new nonce for each request.
        let mut bits = self.seed.0.wrapping_add(self.info.requests.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let nonce = QuickStartNonce::new((bits >> 32) as u32);
        self.asked = Some((rate, nonce));
        add(&mut self.info.requests, 1);
        Request::QuickStart { rate, nonce }
    }

    /// Returns the request for a data segment or a SYN.
    fn request(&mut self, header: &NetworkHeader, ttl: u8) -> Forward {
        let request = match *header {
            NetworkHeader::QuickStart { rate } => self.ask(rate),
            NetworkHeader::Rcp { rate, rtt } => {
                add(&mut self.info.requests, 1);
                let rate = WireRate::new(rate);
                self.wanted_rate = self.wanted_rate.max(rate.rate());
                Request::Rcp { rate, rtt_micros: micros(rtt) }
            }
            NetworkHeader::Xcp { throughput, rtt, delta } => {
                add(&mut self.info.requests, 1);
                self.wanted = self.wanted.max(delta);
                let (throughput, delta) = (WireRate::new(throughput), WireDelta::new(delta));
                Request::Xcp { throughput, rtt_micros: micros(rtt), delta }
            }
            _ => Request::Rcp { rate: WireRate::UNLIMITED, rtt_micros: 0 },
        };
        Forward { ttl, stamps: 0, request }
    }

    /// Returns whether a Quick-Start request may be sent: at most one outstanding, at most one per round trip (RFC
    /// 4782, section 4.1), and none to a peer that returned a false answer (section 4.4).
    fn may_ask(&self, now: Time, round_trip: Option<Span>) -> bool {
        let Some(round_trip) = round_trip.filter(|_| !self.is_distrusted && self.asked.is_none()) else { return false };
        let due = self.asked_at.is_none_or(|at| now - at >= round_trip);
        due && self.kind == Some(NetworkHeaderKind::QuickStart)
    }

    /// Schedules a report of denial for routers that may have approved the request (RFC 4782, section 4.4).
    fn report_denial(&mut self) {
        self.report = self.asked.take().map(|(_, nonce)| (QuickStartRate::ZERO, nonce)).or(self.report);
    }

    fn deny(&mut self) {
        self.report_denial();
        add(&mut self.info.denied, 1);
        self.answer = Some(NetworkFeedback::Denied);
    }

    /// Counts an answer that does not match the request and returns `left`, which replaces it.
    fn refuse(&mut self, left: Option<NetworkFeedback>) -> Option<NetworkFeedback> {
        add(&mut self.info.refused, 1);
        left
    }

    /// Checks an answer and returns the feedback to report to the controller.
    fn check(&mut self, feedback: &Feedback) -> Option<NetworkFeedback> {
        match (*feedback, self.kind) {
            (Feedback::Denied, Some(NetworkHeaderKind::QuickStart)) if self.asked.is_none() => self.refuse(None),
            (Feedback::Denied, Some(NetworkHeaderKind::QuickStart)) => {
                self.report_denial();
                Some(NetworkFeedback::Denied)
            }
            (Feedback::Denied, Some(_)) => Some(NetworkFeedback::Denied),
            (Feedback::QuickStart { rate, nonce }, Some(NetworkHeaderKind::QuickStart)) => {
                self.check_quick_start(rate, nonce)
            }
            // Routers only lower the requested rate, so a higher one is forged. An unlimited rate in answer to an unlimited
            // request did not come from a router.
            (Feedback::Rcp { rate }, Some(NetworkHeaderKind::Rcp)) => match rate.rate() {
                granted if granted > self.wanted_rate => self.refuse(Some(NetworkFeedback::Denied)),
                _ if rate == WireRate::UNLIMITED => Some(NetworkFeedback::Denied),
                granted => Some(NetworkFeedback::Rcp(granted)),
            },
            // An ACK may carry the sum of the changes for several segments (`docs/wire.md`), but no more.
            (Feedback::Xcp { delta }, Some(NetworkHeaderKind::Xcp)) => match delta.bytes_per_sec() {
                granted if granted > self.wanted.saturating_mul(i64::from(INITIAL_ACKS)) => {
                    self.refuse(Some(NetworkFeedback::Denied))
                }
                granted => Some(NetworkFeedback::Xcp(granted)),
            },
            _ => self.refuse(None),
        }
    }

    /// Checks a Quick-Start answer (RFC 4782, section 4.4): the rate must not exceed the request, and the nonce must
    /// match it.
    fn check_quick_start(&mut self, rate: QuickStartRate, nonce: QuickStartNonce) -> Option<NetworkFeedback> {
        let Some((asked, drawn)) = self.asked else { return self.refuse(None) };
        let honest = rate <= asked && drawn.approves(rate, nonce);
        if !honest {
            add(&mut self.info.refused, 1);
            self.is_distrusted = true;
        }
        let approved = if honest { rate } else { QuickStartRate::ZERO };
        (self.asked, self.report) = (None, Some((approved, drawn)));
        if approved == QuickStartRate::ZERO {
            return Some(NetworkFeedback::Denied);
        }
        Some(NetworkFeedback::QuickStart(approved.rate()))
    }
}

impl Extension for Network {
    fn agree(&mut self, negotiated: Negotiated, granted: &mut Granted) -> bool {
        self.kind = self.kind.filter(|_| negotiated.network);
        if self.kind.is_none() {
            (self.asked, self.answer, self.report) = (None, None, None);
        }
        granted.network_header = self.kind;
        if self.is_answered_by_syn_ack {
            self.for_peer = None;
        }
        negotiated.network || self.is_used()
    }

    fn decorate(&mut self, header: &mut Header, carrier: Carrier<'_>) -> bool {
        match carrier {
            Carrier::Syn(request) => self.add_to_syn(header, request),
            Carrier::SynAck(request) => self.add_to_syn_ack(header, request),
            Carrier::Data(control, ttl) => header.options.network = self.request_on_data(control.header, ttl),
            Carrier::PureAck => {
                let feedback = self.for_peer.take();
                header.options.network = feedback.map(|_| NetworkOption { forward: None, feedback });
            }
        }
        header.options.network.is_some()
    }

    fn on_segment(&mut self, segment: &Incoming<'_>, state: State, engine: &mut Engine<'_>) {
        let Some(option) = segment.header.options.network.filter(|_| engine.negotiated.network) else { return };
        if self.take_option(option, segment.meta.ttl) && state.is_synchronized() {
            engine.rcv.acks.due = true;
        }
    }

    fn complete(&mut self, event: &mut Ack<'_>) {
        event.network = self.answer.take();
    }

    /// Looks for requests without an answer, and sends a report on the rate that routers have approved, if one is due (RFC
    /// 4782, section 4.4).
    fn settle(&mut self, engine: &mut Engine<'_>) -> bool {
        let is_unanswered = match std::mem::replace(&mut self.is_settled, true) {
            // A missing answer to the handshake's request is a denial.
            false => self.kind.is_some() && self.info.requests > 0 && self.answer.is_none(),
            // The same applies if the data that carried the request is acknowledged (RFC 4782, section 4.1).
            true => self.asked.is_some() && self.asked_end > 0 && engine.snd.una >= self.asked_end,
        };
        if is_unanswered {
            self.deny();
        }
        if let Some((rate, nonce)) = self.report.take() {
            let request = Request::QuickStartReport { rate, nonce };
            let forward = Some(Forward { ttl: engine.config.ttl, stamps: 0, request });
            let mut header = engine.textless_header(engine.timers.now);
            header.options.network = Some(NetworkOption { forward, feedback: None });
            engine.rcv.acks.queue.push_back(header);
        }
        self.answer.is_some()
    }

    fn send_new(&mut self, out: &mut SendLoop<'_>, fill: &mut Fill<'_>, room: u64) -> Option<FillStep> {
        let Some(NetworkHeader::QuickStart { rate }) = out.cc.control.header else { return None };
        if out.snd.unsent() == 0 || !self.may_ask(fill.now, out.rtt.srtt) {
            return None;
        }
        let (now, ttl) = (fill.now, out.config.ttl);
        let add = |header: &mut Header, end| {
            let forward = Some(Forward { ttl, stamps: 0, request: self.ask(rate) });
            (self.asked_at, self.asked_end) = (Some(now), end);
            header.options.network = Some(NetworkOption { forward, feedback: None });
        };
        Some(out.transmit_new(fill, room, QUICK_START_OPTION, add))
    }

    fn needs_ack(&self) -> bool {
        self.for_peer.is_some()
    }

    fn data_options(&self) -> u16 {
        match self.kind {
            Some(NetworkHeaderKind::Rcp) => RCP_OPTION,
            Some(NetworkHeaderKind::Xcp) => XCP_OPTION,
            _ => 0,
        }
    }

    fn info(&self, _: &Sender, info: &mut Info) {
        info.network = self.is_used().then_some(self.info);
    }
}

/// Returns the answer to the peer's requests since the last answer: the newest one, or a denial if one was denied. XCP
/// answers are changes and are added up.
fn merge(old: Option<Feedback>, new: Feedback) -> Feedback {
    match (old, new) {
        (Some(Feedback::Denied), _) => Feedback::Denied,
        (Some(Feedback::Xcp { delta: old }), Feedback::Xcp { delta: new }) => {
            Feedback::Xcp { delta: WireDelta::new(old.bytes_per_sec().saturating_add(new.bytes_per_sec())) }
        }
        (_, new) => new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_not_printed() {
        let [one, other] = [1, 77].map(|seed| format!("{:?}", Network::new(seed)));
        assert_eq!(one, other);
        assert!(one.contains("NonceSeed(..)"), "{one}");
    }
}
