//! Network feedback: requests to routers, their answers, and the answers returned to the peer (Quick-Start, RFC 4782;
//! RCP; XCP; `docs/wire.md`, "Network feedback").
//!
//! The extension fails closed. No request is sent unless the application vouches for the routers and the peer permits
//! the option. An answer that exceeds the request or fails the nonce check counts as a denial, as does a missing
//! answer. An unsolicited answer is ignored.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

use std::fmt;

use longhaul_cc::{Needs, NetworkFeedback, NetworkHeader, NetworkHeaderKind};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::Header;
use longhaul_wire::network::{
    Feedback, Forward, NetworkOption, QuickStartNonce, QuickStartRate, Request, WireDelta, WireRate,
};

use super::CongestionDriver;
use crate::{Config, NetworkInfo, add};

mod lazy;

pub(super) use lazy::LazyNetwork;

/// Length in bytes of the option on each data segment, padded.
const RCP_OPTION: u16 = 16;
const XCP_OPTION: u16 = 20;
/// Length in bytes that a Quick-Start request adds to a segment, padded.
pub(super) const QUICK_START_OPTION: u16 = 12;

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
pub(crate) struct Network {
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

/// What our SYN or SYN-ACK may ask of routers.
#[derive(Clone, Copy, Debug)]
pub(super) struct SynRequest {
    /// The kind that the controller wants.
    wanted: Option<NetworkHeaderKind>,
    /// The application vouches for the routers.
    vouched: bool,
    /// The controller's request.
    request: Option<NetworkHeader>,
    /// It was not sent before.
    first: bool,
    ttl: u8,
}

impl SynRequest {
    pub(super) fn new(cc: &CongestionDriver, config: &Config, first: bool) -> Self {
        let vouched = config.extensions && config.routers_answer;
        Self { wanted: wanted(&cc.controller.needs()), vouched, request: cc.control.header, first, ttl: config.ttl }
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "storage and protocol are apart")]
impl LazyNetwork {
    /// Adds the permission for the option, and a request, to our SYN.
    pub(super) fn add_to_syn(&mut self, header: &mut Header, syn: SynRequest, now: Time) {
        let SynRequest { wanted, vouched, request, first, ttl } = syn;
        let kind = wanted.filter(|_| vouched);
        header.options.network_permitted = kind.is_some();
        // The permission for ACK rate requests is left out, because it does not fit beside a request.
        header.options.ack_rate_permitted &= wanted.is_none();
        if kind.is_none() && self.is_unused() {
            header.options.network = None;
            return;
        }
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
    pub(super) fn add_to_syn_ack(&mut self, header: &mut Header, syn: SynRequest, now: Time) {
        let feedback = self.for_peer;
        if feedback.is_some() {
            self.add_to_syn(header, syn, now);
        }
        header.options.network_permitted = true;
        let forward = header.options.network.and_then(|network| network.forward);
        header.options.network =
            (forward.is_some() || feedback.is_some()).then_some(NetworkOption { forward, feedback });
    }

    /// Drops the answer to the peer's request, which the SYN-ACK has carried.
    pub(super) fn forget_answer_for_peer(&mut self) {
        if self.has_answer_for_peer() {
            self.for_peer = None;
        }
    }

    /// Processes the option of an acceptable segment that arrived with this TTL: the peer's request and the routers' answer
    /// to ours. Returns whether the peer waits for the answer to a Quick-Start request, so that it is acknowledged at once.
    pub(super) fn take_option(&mut self, option: NetworkOption, ttl: Option<u8>) -> bool {
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

    /// Ends the wait for the answer to the handshake's request. A missing answer counts as a denial. Returns whether there was
    /// a request.
    pub(super) fn end_handshake(&mut self) -> bool {
        let asked = self.kind.is_some() && self.info.requests > 0;
        if asked && self.answer.is_none() {
            self.deny();
        }
        asked
    }

    /// Counts a request as denied if the data that carried it is acknowledged without an answer (RFC 4782, section
    /// 4.1).
    pub(super) fn deny_unanswered_request(&mut self, una: u64) {
        if self.asked.is_some() && self.asked_end > 0 && una >= self.asked_end {
            self.deny();
        }
    }

    /// Creates the Quick-Start request for a data segment that ends at `end`.
    pub(super) fn ask_on_data(&mut self, now: Time, rate: Rate, end: u64, ttl: u8) -> NetworkOption {
        let request = self.ask(rate);
        (self.asked_at, self.asked_end) = (Some(now), end);
        NetworkOption { forward: Some(Forward { ttl, stamps: 0, request }), feedback: None }
    }

    /// Returns the request that every data segment carries with RCP and XCP. `asked` is the controller's.
    pub(super) fn request_on_data(&mut self, asked: Option<NetworkHeader>, ttl: u8) -> Option<NetworkOption> {
        let each = matches!(self.kind, Some(NetworkHeaderKind::Rcp | NetworkHeaderKind::Xcp));
        let asked = asked.filter(|header| each && self.kind == Some(kind_of(header)))?;
        Some(NetworkOption { forward: Some(self.request(&asked, ttl)), feedback: None })
    }
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

    /// Returns the answer to be reported to the controller.
    pub(super) fn answer(&self) -> Option<NetworkFeedback> {
        self.answer
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
    pub(super) fn may_ask(&self, now: Time, round_trip: Option<Span>) -> bool {
        let Some(round_trip) = round_trip.filter(|_| !self.is_distrusted && self.asked.is_none()) else { return false };
        let due = self.asked_at.is_none_or(|at| now - at >= round_trip);
        due && self.kind == Some(NetworkHeaderKind::QuickStart)
    }

    /// Schedules a report of denial for routers that may have approved the request (RFC 4782, section 4.4).
    fn report_denial(&mut self) {
        self.report = self.asked.take().map(|(_, nonce)| (QuickStartRate::ZERO, nonce)).or(self.report);
    }

    /// Counts the request as denied.
    fn deny(&mut self) {
        self.report_denial();
        add(&mut self.info.denied, 1);
        self.answer = Some(NetworkFeedback::Denied);
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
