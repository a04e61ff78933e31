//! Network feedback: what the controller asks of routers, what they answered, and what this side answers its peer (Quick-Start,
//! RFC 4782; RCP; XCP; `docs/wire.md`, "Network feedback").
//!
//! Everything fails closed. Nothing is asked unless the application vouches for its routers and the peer permits the option; an
//! answer that was not asked for, or says more than was asked, or fails the nonce, is a denial; so is none.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use longhaul_cc::{Ack, Needs, NetworkFeedback, NetworkHeader, NetworkHeaderKind};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::network::{
    Feedback, Forward, NetworkOption, QuickStartNonce, QuickStartRate, Request, WireDelta, WireRate,
};
use longhaul_wire::{Flags, Header};

use super::{Connection, SegmentMeta};
use crate::info::{NetworkInfo, add};
use crate::state::State;

/// Options that each data segment carries beside timestamps, padded.
const RCP_OPTION: u16 = 16;
const XCP_OPTION: u16 = 20;
/// What a Quick-Start request adds to a segment, padded.
const QUICK_START_OPTION: u16 = 12;

/// What a connection asked routers, and heard.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Network {
    /// Nonces are drawn from this (RFC 4782, section 3.4).
    seed: u64,
    /// What our SYN asks for, before anything is granted; then what is in force.
    kind: Option<NetworkHeaderKind>,
    /// A Quick-Start request without an answer yet.
    asked: Option<(QuickStartRate, QuickStartNonce)>,
    /// When it left, and where the data ended that it was on.
    asked_at: Option<Time>,
    asked_end: u64,
    /// The peer answered with a nonce, or a rate, that cannot be.
    distrusted: bool,
    /// A report that is due: what was approved, under the nonce of the request.
    report: Option<(QuickStartRate, QuickStartNonce)>,
    /// The largest change that XCP requests asked for, and the largest rate of RCP's, as the wire has it.
    wanted: i64,
    wanted_rate: Rate,
    /// What the controller has yet to hear.
    heard: Option<NetworkFeedback>,
    info: NetworkInfo,
}

/// The header that a controller's algorithms want routers to fill in.
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
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    pub(super) fn info(&self) -> Option<NetworkInfo> {
        let used = self.kind.is_some() || self.info != NetworkInfo::default();
        used.then_some(self.info)
    }

    /// What the handshake made of the wish.
    pub(super) fn settle(&mut self, kind: Option<NetworkHeaderKind>) {
        self.kind = kind;
        if kind.is_none() {
            (self.asked, self.heard, self.report) = (None, None, None);
        }
    }

    /// What is in force.
    pub(super) fn kind(&self) -> Option<NetworkHeaderKind> {
        self.kind
    }

    /// Bytes of options that data segments carry for it.
    pub(super) fn data_options(&self) -> u16 {
        match self.kind {
            Some(NetworkHeaderKind::Rcp) => RCP_OPTION,
            Some(NetworkHeaderKind::Xcp) => XCP_OPTION,
            _ => 0,
        }
    }

    /// A Quick-Start request of this rate, which is noted.
    fn ask(&mut self, rate: Rate) -> Request {
        let rate = QuickStartRate::at_least(rate);
        // SplitMix64's output function (Steele, Lea, Flood, OOPSLA 2014): one request, one nonce.
        let mut bits = self.seed.wrapping_add(self.info.requests.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let nonce = QuickStartNonce::new((bits >> 32) as u32);
        self.asked = Some((rate, nonce));
        add(&mut self.info.requests, 1);
        Request::QuickStart { rate, nonce }
    }

    /// The request that a segment with data, or a SYN, carries.
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

    /// Whether a Quick-Start request may be sent: one at a time, one in a round trip (RFC 4782, section 4.1), and none to a peer
    /// that has lied (section 4.4).
    fn may_ask(&self, now: Time, round_trip: Option<Span>) -> bool {
        let Some(round_trip) = round_trip.filter(|_| !self.distrusted && self.asked.is_none()) else { return false };
        let due = self.asked_at.is_none_or(|at| now - at >= round_trip);
        due && self.kind == Some(NetworkHeaderKind::QuickStart)
    }

    /// The request was denied: a report says so to the routers that may have granted something (RFC 4782, section 4.4).
    fn report_denial(&mut self) {
        self.report = self.asked.take().map(|(_, nonce)| (QuickStartRate::ZERO, nonce)).or(self.report);
    }

    /// Counts an answer that cannot be one to what was asked; this is left of it.
    fn refuse(&mut self, left: Option<NetworkFeedback>) -> Option<NetworkFeedback> {
        add(&mut self.info.refused, 1);
        left
    }

    /// Checks an answer; what is left of it for the controller.
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

    /// Routers lower what was asked for: a rate above it is a forgery; no limit, where none was asked for, is no router's answer.
    fn check_rcp(&mut self, rate: WireRate) -> Option<NetworkFeedback> {
        if rate.rate() > self.wanted_rate {
            return self.refuse(Some(NetworkFeedback::Denied));
        }
        Some(if rate == WireRate::UNLIMITED { NetworkFeedback::Denied } else { NetworkFeedback::Rcp(rate.rate()) })
    }

    /// An ACK may bring the sum of what several segments were given (`docs/wire.md`), and no more.
    fn check_xcp(&mut self, delta: i64) -> Option<NetworkFeedback> {
        if delta > self.wanted.saturating_mul(i64::from(super::receiver::CLOSE_ACKS)) {
            return self.refuse(Some(NetworkFeedback::Denied));
        }
        Some(NetworkFeedback::Xcp(delta))
    }

    /// RFC 4782, section 4.4: the rate is at most what was asked for, and the nonce proves that it came down honestly.
    fn check_quick_start(&mut self, rate: QuickStartRate, nonce: QuickStartNonce) -> Option<NetworkFeedback> {
        let Some((asked, drawn)) = self.asked else { return self.refuse(None) };
        let honest = rate <= asked && drawn.approves(rate, nonce);
        if !honest {
            add(&mut self.info.refused, 1);
            self.distrusted = true;
        }
        let approved = if honest { rate } else { QuickStartRate::ZERO };
        (self.asked, self.report) = (None, Some((approved, drawn)));
        if approved == QuickStartRate::ZERO {
            return Some(NetworkFeedback::Denied);
        }
        Some(NetworkFeedback::QuickStart(approved.rate()))
    }
}

/// What the peer is to hear of its requests since the last answer: the newest one's, unless one was denied; of XCP's, which each
/// bring a change, the sum.
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
    /// Nonces are drawn from `seed`, which nobody else can know; to be called before the first segment leaves.
    pub(crate) fn draw_nonces_from(&mut self, seed: u64) {
        *self.ext.network = Network::new(seed);
    }

    /// What our SYN says: permission for the option, and the request that rides on it.
    pub(super) fn add_network_to_syn(&mut self, header: &mut Header, first: bool) {
        let vouched = self.config.extensions && self.config.routers_answer;
        self.ext.network.kind = wanted(&self.cc.controller.needs()).filter(|_| vouched);
        header.options.network_permitted = self.ext.network.kind.is_some();
        // It says so of ACK rates as well, for which there is no room beside a request.
        header.options.ack_rate_permitted &= wanted(&self.cc.controller.needs()).is_none();
        // RFC 4782, section 4.7: a SYN that was lost goes again without.
        let asked = self.cc.control.header.filter(|header| first && self.ext.network.kind == Some(kind_of(header)));
        let forward = asked.map(|header| self.ext.network.request(&header, self.config.ttl));
        (self.ext.network.asked_at, self.ext.network.asked_end) = (forward.map(|_| self.now), 0);
        if !first {
            self.ext.network.asked = None;
        }
        header.options.network = forward.map(|forward| NetworkOption { forward: Some(forward), feedback: None });
    }

    /// What our SYN-ACK says: the answer to the SYN's request, and a request of ours if the SYN was as long.
    pub(super) fn add_network_to_syn_ack(&mut self, header: &mut Header, first: bool) {
        if !self.negotiated.network {
            return;
        }
        let feedback = self.rcv.network_answer;
        if feedback.is_some() {
            self.add_network_to_syn(header, first);
        }
        header.options.network_permitted = true;
        let forward = header.options.network.and_then(|network| network.forward);
        header.options.network =
            (forward.is_some() || feedback.is_some()).then_some(NetworkOption { forward, feedback });
    }

    /// Takes the option of an acceptable segment: answers what the peer asked, hears what routers said.
    pub(super) fn take_network(&mut self, meta: &SegmentMeta, header: &Header) {
        if self.life.state == State::SynReceived && !header.flags.contains(Flags::SYN) {
            // Our SYN-ACK has said it.
            self.rcv.network_answer = None;
        }
        let Some(option) = header.options.network else { return };
        if !self.negotiated.network {
            return;
        }
        if let Some(answer) = option.forward.and_then(|forward| forward.feedback(meta.ttl)) {
            self.rcv.network_answer = Some(merge(self.rcv.network_answer, answer));
            // Its sender waits for it, and for the round trip that it takes.
            let single = option.forward.is_some_and(|forward| matches!(forward.request, Request::QuickStart { .. }));
            self.rcv.ack_due |= single && self.life.state.is_synchronized();
        }
        if let Some(feedback) = option.feedback
            && let Some(heard) = self.ext.network.check(&feedback)
        {
            if heard == NetworkFeedback::Denied {
                add(&mut self.ext.network.info.denied, 1);
            } else {
                add(&mut self.ext.network.info.granted, 1);
            }
            self.ext.network.heard = Some(heard);
        }
    }

    /// What routers answered since the controller was told last.
    pub(super) fn take_heard(&mut self) -> Option<NetworkFeedback> {
        self.ext.network.heard.take()
    }

    /// The handshake is over: the controller hears what routers made of the request on it; no answer is a denial.
    pub(super) fn tell_network(&mut self, now: Time) {
        if self.ext.network.kind.is_none() || self.ext.network.info.requests == 0 {
            return;
        }
        if self.ext.network.heard.is_none() {
            self.ext.network.report_denial();
            add(&mut self.ext.network.info.denied, 1);
            self.ext.network.heard = Some(NetworkFeedback::Denied);
        }
        self.tell_unheard(now);
    }

    /// The data that carried a request is acknowledged, and nobody answered: that is a denial (RFC 4782, section 4.1).
    pub(super) fn give_up_unanswered(&mut self) {
        let network = &mut *self.ext.network;
        if network.asked.is_some() && network.asked_end > 0 && self.snd.una >= network.asked_end {
            network.report_denial();
            add(&mut network.info.denied, 1);
            network.heard = Some(NetworkFeedback::Denied);
        }
    }

    /// The rate that the next new segment is to ask for, and the bytes that the request adds to it (RFC 4782, section 4.8).
    pub(super) fn quick_start_due(&self, now: Time) -> Option<(Rate, u16)> {
        let Some(NetworkHeader::QuickStart { rate }) = self.cc.control.header else { return None };
        let due = self.snd.unsent() > 0 && self.ext.network.may_ask(now, self.rtt.srtt());
        due.then_some((rate, QUICK_START_OPTION))
    }

    /// The request that leaves on data which ends at `end`.
    pub(super) fn ask_quick_start(&mut self, now: Time, rate: Rate, end: u64) -> NetworkOption {
        let request = self.ext.network.ask(rate);
        (self.ext.network.asked_at, self.ext.network.asked_end) = (Some(now), end);
        NetworkOption { forward: Some(Forward { ttl: self.config.ttl, stamps: 0, request }), feedback: None }
    }

    /// Tells the controller of an answer that came with a segment which told it nothing else.
    pub(super) fn tell_unheard(&mut self, now: Time) {
        if self.ext.network.heard.is_some() {
            self.tell_ack(Ack::new(now));
        }
        if let Some((rate, nonce)) = self.ext.network.report.take() {
            let request = Request::QuickStartReport { rate, nonce };
            let forward = Forward { ttl: self.config.ttl, stamps: 0, request };
            let mut header = self.header(now, Flags::ACK | self.echo_flag(), self.snd.sent_to());
            header.options.network = Some(NetworkOption { forward: Some(forward), feedback: None });
            self.rcv.ack_queue.push_back(header);
        }
    }

    /// The request that every data segment carries under RCP and XCP.
    pub(super) fn add_network_to_data(&mut self, header: &mut Header) {
        let each = matches!(self.ext.network.kind, Some(NetworkHeaderKind::Rcp | NetworkHeaderKind::Xcp));
        let asked = self.cc.control.header.filter(|header| each && self.ext.network.kind == Some(kind_of(header)));
        let Some(asked) = asked else { return };
        let forward = self.ext.network.request(&asked, self.config.ttl);
        header.options.network = Some(NetworkOption { forward: Some(forward), feedback: None });
    }

    /// The answer to the peer's request, on a pure ACK.
    pub(super) fn add_network_to_ack(&mut self, header: &mut Header) {
        let feedback = self.rcv.network_answer.take();
        header.options.network = feedback.map(|feedback| NetworkOption { forward: None, feedback: Some(feedback) });
    }
}
