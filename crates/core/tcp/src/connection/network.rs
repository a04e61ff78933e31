//! Network feedback: requests to routers, their answers, and the answers returned to the peer (Quick-Start, RFC 4782;
//! RCP; XCP; `docs/wire.md`, "Network feedback").
//!
//! The extension fails closed. No request is sent unless the application vouches for the routers and the peer permits
//! the option. An answer that exceeds the request or fails the nonce check counts as a denial, as does a missing
//! answer. An unsolicited answer is ignored.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::fmt;

use longhaul_cc::{Ack, Needs, NetworkFeedback, NetworkHeader, NetworkHeaderKind};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::network::{
    Feedback, Forward, NetworkOption, QuickStartNonce, QuickStartRate, Request, WireDelta, WireRate,
};
use longhaul_wire::{Flags, Header};

use super::{Connection, SegmentMeta};
use crate::info::{NetworkInfo, add};
use crate::state::State;

mod lazy;

pub(super) use lazy::LazyNetwork;

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

/// Requests to routers, and their answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Network {
    seed: NonceSeed,
    /// The kind that our SYN offers; after the handshake, the kind that was negotiated.
    kind: Option<NetworkHeaderKind>,
    /// The outstanding Quick-Start request.
    asked: Option<(QuickStartRate, QuickStartNonce)>,
    /// The time at which it was sent, and the end of the data that it was sent on.
    asked_at: Option<Time>,
    asked_end: u64,
    /// The peer returned an impossible nonce or rate.
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
    info: NetworkInfo,
}

/// Returns the header that a controller requires or prefers.
fn wanted(needs: &Needs) -> Option<NetworkHeaderKind> {
    needs.required.network_header.or(needs.preferred.network_header)
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

impl Network {
    fn new(seed: NonceSeed) -> Self {
        Self { seed, ..Self::default() }
    }

    pub(super) fn info(&self) -> Option<NetworkInfo> {
        let used = self.kind.is_some() || self.info != NetworkInfo::default();
        used.then_some(self.info)
    }

    /// Sets the kind that was negotiated in the handshake.
    pub(super) fn set_negotiated(&mut self, kind: Option<NetworkHeaderKind>) {
        self.kind = kind;
        if kind.is_none() {
            (self.asked, self.answer, self.report) = (None, None, None);
        }
    }

    /// Returns the kind in use.
    pub(super) fn kind(&self) -> Option<NetworkHeaderKind> {
        self.kind
    }

    /// Returns whether an answer has to be returned to the peer.
    pub(super) fn has_answer_for_peer(&self) -> bool {
        self.for_peer.is_some()
    }

    /// Returns the number of option bytes on each data segment.
    pub(super) fn data_options(&self) -> u16 {
        match self.kind {
            Some(NetworkHeaderKind::Rcp) => RCP_OPTION,
            Some(NetworkHeaderKind::Xcp) => XCP_OPTION,
            _ => 0,
        }
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

    /// Counts an answer that does not fit the request and returns `left`, which replaces it.
    fn refuse(&mut self, left: Option<NetworkFeedback>) -> Option<NetworkFeedback> {
        add(&mut self.info.refused, 1);
        left
    }

    /// Checks an answer and returns what to report to the controller.
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
            (Feedback::Rcp { rate }, Some(NetworkHeaderKind::Rcp)) => self.check_rcp(rate),
            (Feedback::Xcp { delta }, Some(NetworkHeaderKind::Xcp)) => self.check_xcp(delta.bytes_per_sec()),
            _ => self.refuse(None),
        }
    }

    /// Checks an RCP answer. Routers only lower the requested rate, so a higher one is forged. An unlimited rate in
    /// answer to an unlimited request did not come from a router.
    fn check_rcp(&mut self, rate: WireRate) -> Option<NetworkFeedback> {
        if rate.rate() > self.wanted_rate {
            return self.refuse(Some(NetworkFeedback::Denied));
        }
        Some(if rate == WireRate::UNLIMITED { NetworkFeedback::Denied } else { NetworkFeedback::Rcp(rate.rate()) })
    }

    /// Checks an XCP answer. An ACK may carry the sum of the changes for several segments (`docs/wire.md`), but no
    /// more.
    fn check_xcp(&mut self, delta: i64) -> Option<NetworkFeedback> {
        if delta > self.wanted.saturating_mul(i64::from(super::ack_schedule::INITIAL_ACKS)) {
            return self.refuse(Some(NetworkFeedback::Denied));
        }
        Some(NetworkFeedback::Xcp(delta))
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

/// Returns the answer to the peer's requests since the last answer: the newest one, or a denial if one was denied.
/// XCP answers are changes and are summed up.
pub(super) fn merge(old: Option<Feedback>, new: Feedback) -> Feedback {
    match (old, new) {
        (Some(Feedback::Denied), _) => Feedback::Denied,
        (Some(Feedback::Xcp { delta: old }), Feedback::Xcp { delta: new }) => {
            Feedback::Xcp { delta: WireDelta::new(old.bytes_per_sec().saturating_add(new.bytes_per_sec())) }
        }
        (_, new) => new,
    }
}

impl Connection {
    /// Sets the seed of the nonces, which must be secret. Must be called before the first segment is sent.
    pub(crate) fn draw_nonces_from(&mut self, seed: u64) {
        self.ext.network.set_seed(seed);
    }

    /// Adds the permission for the option, and a request, to our SYN.
    pub(super) fn add_network_to_syn(&mut self, header: &mut Header, first: bool) {
        let vouched = self.config.extensions && self.config.routers_answer;
        let wanted = wanted(&self.cc.controller.needs());
        let kind = wanted.filter(|_| vouched);
        header.options.network_permitted = kind.is_some();
        // The permission for ACK rate requests is left out, because it does not fit beside a request.
        header.options.ack_rate_permitted &= wanted.is_none();
        if kind.is_none() && self.ext.network.is_unused() {
            header.options.network = None;
            return;
        }
        self.ext.network.kind = kind;
        // The retransmission of a SYN carries no request (RFC 4782, section 4.7).
        let asked = self.cc.control.header.filter(|header| first && self.ext.network.kind == Some(kind_of(header)));
        let forward = asked.map(|header| self.ext.network.request(&header, self.config.ttl));
        (self.ext.network.asked_at, self.ext.network.asked_end) = (forward.map(|_| self.timers.now()), 0);
        if !first {
            self.ext.network.asked = None;
        }
        header.options.network = forward.map(|forward| NetworkOption { forward: Some(forward), feedback: None });
    }

    /// Adds the answer to the SYN's request to our SYN-ACK, and a request of ours if the SYN carried one.
    pub(super) fn add_network_to_syn_ack(&mut self, header: &mut Header, first: bool) {
        if !self.negotiated.network {
            return;
        }
        let feedback = self.ext.network.for_peer;
        if feedback.is_some() {
            self.add_network_to_syn(header, first);
        }
        header.options.network_permitted = true;
        let forward = header.options.network.and_then(|network| network.forward);
        header.options.network =
            (forward.is_some() || feedback.is_some()).then_some(NetworkOption { forward, feedback });
    }

    /// Processes the option of an acceptable segment: the peer's request and the routers' answer to ours.
    pub(super) fn take_network(&mut self, meta: &SegmentMeta, header: &Header) {
        let answered = self.life.state == State::SynReceived && !header.flags.contains(Flags::SYN);
        if answered && self.ext.network.has_answer_for_peer() {
            // The SYN-ACK carried the answer.
            self.ext.network.for_peer = None;
        }
        let Some(option) = header.options.network else { return };
        if !self.negotiated.network {
            return;
        }
        if let Some(answer) = option.forward.and_then(|forward| forward.feedback(meta.ttl)) {
            self.ext.network.for_peer = Some(merge(self.ext.network.for_peer, answer));
            // The peer waits for the answer to a Quick-Start request, so it is acknowledged at once.
            let single = option.forward.is_some_and(|forward| matches!(forward.request, Request::QuickStart { .. }));
            if single && self.life.state.is_synchronized() {
                self.rcv.acks.request();
            }
        }
        if let Some(feedback) = option.feedback
            && let Some(answer) = self.ext.network.check(&feedback)
        {
            if answer == NetworkFeedback::Denied {
                add(&mut self.ext.network.info.denied, 1);
            } else {
                add(&mut self.ext.network.info.granted, 1);
            }
            self.ext.network.answer = Some(answer);
        }
    }

    /// Returns the answer that was not reported to the controller yet.
    pub(super) fn take_network_answer(&mut self) -> Option<NetworkFeedback> {
        self.ext.network.answer?;
        self.ext.network.answer.take()
    }

    /// Reports the answer to the handshake's request to the controller. A missing answer counts as a denial.
    pub(super) fn report_handshake_answer(&mut self, now: Time) {
        if self.ext.network.kind.is_none() || self.ext.network.info.requests == 0 {
            return;
        }
        if self.ext.network.answer.is_none() {
            self.ext.network.report_denial();
            add(&mut self.ext.network.info.denied, 1);
            self.ext.network.answer = Some(NetworkFeedback::Denied);
        }
        self.report_network_answer(now);
    }

    /// Counts a request as denied if the data that carried it is acknowledged without an answer (RFC 4782, section
    /// 4.1).
    pub(super) fn deny_unanswered_request(&mut self) {
        let network = &self.ext.network;
        if network.asked.is_some() && network.asked_end > 0 && self.snd.una() >= network.asked_end {
            let network = &mut *self.ext.network;
            network.report_denial();
            add(&mut network.info.denied, 1);
            network.answer = Some(NetworkFeedback::Denied);
        }
    }

    /// Returns the rate to request on the next new segment, and the length of the option in bytes (RFC 4782, section
    /// 4.8).
    pub(super) fn quick_start_due(&self, now: Time) -> Option<(Rate, u16)> {
        let Some(NetworkHeader::QuickStart { rate }) = self.cc.control.header else { return None };
        let due = self.snd.unsent() > 0 && self.ext.network.may_ask(now, self.rtt.srtt());
        due.then_some((rate, QUICK_START_OPTION))
    }

    /// Creates the request for a data segment that ends at `end`.
    pub(super) fn ask_quick_start(&mut self, now: Time, rate: Rate, end: u64) -> NetworkOption {
        let request = self.ext.network.ask(rate);
        (self.ext.network.asked_at, self.ext.network.asked_end) = (Some(now), end);
        NetworkOption { forward: Some(Forward { ttl: self.config.ttl, stamps: 0, request }), feedback: None }
    }

    /// Reports an answer to the controller that no ACK event has carried, and sends a report to the routers if one is
    /// due.
    pub(super) fn report_network_answer(&mut self, now: Time) {
        if self.ext.network.answer.is_some() {
            self.report_ack(Ack::new(now));
        }
        if let Some((rate, nonce)) = self.ext.network.report {
            self.ext.network.report = None;
            let request = Request::QuickStartReport { rate, nonce };
            let forward = Forward { ttl: self.config.ttl, stamps: 0, request };
            let mut header = self.header(now, Flags::ACK | self.echo_flag(), self.textless_offset());
            header.options.network = Some(NetworkOption { forward: Some(forward), feedback: None });
            self.rcv.acks.enqueue(header);
        }
    }

    /// Adds the request that every data segment carries with RCP and XCP.
    pub(super) fn add_network_to_data(&mut self, header: &mut Header) {
        let each = matches!(self.ext.network.kind, Some(NetworkHeaderKind::Rcp | NetworkHeaderKind::Xcp));
        let asked = self.cc.control.header.filter(|header| each && self.ext.network.kind == Some(kind_of(header)));
        let Some(asked) = asked else { return };
        let forward = self.ext.network.request(&asked, self.config.ttl);
        header.options.network = Some(NetworkOption { forward: Some(forward), feedback: None });
    }

    /// Adds the answer to the peer's request to a pure ACK.
    pub(super) fn add_network_to_ack(&mut self, header: &mut Header) {
        let feedback = self.ext.network.for_peer;
        if feedback.is_some() {
            self.ext.network.for_peer = None;
        }
        header.options.network = feedback.map(|feedback| NetworkOption { forward: None, feedback: Some(feedback) });
    }
}
