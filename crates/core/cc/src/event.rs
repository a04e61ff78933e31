//! Events that the transport reports to a controller. Their fields are named, since there are too many for positional
//! arguments.

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::Granted;
use crate::estimate::PairSample;

/// Number of one transmission of one segment: unique in a connection, increasing, never reused. A retransmission has
/// its own number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(clippy::exhaustive_structs, reason = "a number with a type of its own")]
pub struct TxId(pub u64);

/// Kind of a transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentKind {
    /// New data (or a FIN).
    #[default]
    Data,
    /// A retransmission of data marked lost, or a tail loss probe.
    Retransmit,
    /// A probe of the controller's [`ProbePlan`](crate::ProbePlan).
    Probe,
}

/// Report of a sent segment. Reported once per segment, after the segment was counted in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sent {
    /// Time of sending.
    pub now: Time,
    /// Identifier of the transmission.
    pub tx: TxId,
    /// Payload bytes.
    pub bytes: Bytes,
    /// Bytes in flight just before.
    pub in_flight_before: Bytes,
    /// Kind of the transmission.
    pub kind: SegmentKind,
    /// [`Control::tag`](crate::Control::tag) at that time.
    pub tag: u16,
    /// Time immediately before for which the application had nothing to send although the window had room. Zero for
    /// retransmissions and probes, and if nothing or another limit delayed this segment.
    pub pause: Span,
}

impl Sent {
    /// New data of `bytes` payload bytes, sent at `now`; the other fields are zero.
    #[must_use]
    pub const fn new(now: Time, tx: TxId, bytes: Bytes) -> Self {
        Self { now, tx, bytes, in_flight_before: Bytes::ZERO, kind: SegmentKind::Data, tag: 0, pause: Span::ZERO }
    }
}

/// Report of a processed ACK: all information from one ACK, after the scoreboard was updated. Each ACK is reported in
/// one call.
#[derive(Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Ack<'a> {
    /// Time of processing; never decreases.
    pub now: Time,
    /// Time of reception by the kernel, on the same clock. Use it only for RTT, dispersion and one-way delay.
    pub rx_time: Option<Time>,
    /// Whether receive offload merged this ACK with others, so that `rx_time` is that of the batch.
    pub coalesced: bool,
    /// Segments newly delivered (cumulatively or selectively), in sequence order; empty unless
    /// [`Demands::segments`](crate::Demands::segments) was granted. Without
    /// [`Control::each_segment`](crate::Control::each_segment), only those with an arrival time.
    pub acked: &'a [AckedSegment],
    /// Segments newly marked lost, in no particular order; empty unless segments were granted. Segments that a
    /// [`Timeout`] marks lost are not listed, since they are no longer in flight.
    pub lost: &'a [LostSegment],
    /// Bytes by which SND.UNA advanced.
    pub cumulative: Bytes,
    /// Bytes newly delivered: advance of SND.UNA plus change of SACKed bytes (RFC 9937's `DeliveredData`).
    pub delivered: Bytes,
    /// Bytes newly marked lost.
    pub newly_lost: Bytes,
    /// Total bytes delivered on this connection.
    pub total_delivered: Bytes,
    /// The RTT sample of this ACK.
    pub rtt: Option<RttSample>,
    /// The delivery-rate sample of this ACK.
    pub rate: Option<RateSample>,
    /// Classic ECN: whether this ACK carried ECE and a new response is due, at most once per round trip (RFC 3168,
    /// section 6.1.2).
    pub ecn_echo: bool,
    /// Bytes in flight before this ACK.
    pub prior_in_flight: Bytes,
    /// Bytes in flight after this ACK and the losses that it revealed.
    pub in_flight: Bytes,
    /// SND.NXT - SND.UNA before this ACK (RFC 5681's FlightSize), without limited-transmit data.
    pub flight_size: Bytes,
    /// RFC 9937's `RecoverFS`, when this ACK begins an episode.
    pub recover_flight: Bytes,
    /// The limit at which the sender last stopped.
    pub limit: SendLimit,
    /// Whether, in this round trip or the previous one, the window limited the sender at any time, or pacing did
    /// while at least half of the window was in use. If not, congestion avoidance must not increase the window (RFC
    /// 9438, section 5.8; RFC 7661, section 4.2).
    pub cwnd_limited: bool,
    /// Whether a new round trip begins: this ACK covers the SND.NXT recorded at the start of the last round trip or,
    /// while a hole blocks SND.UNA, a segment sent after that start.
    pub round_start: bool,
    /// State of the recovery episode.
    pub episode: Episode,
    /// Number of probes found to have arrived since the last ACK event.
    pub probes_acked: u32,
    /// Number of probes marked lost since the last ACK event.
    pub probes_lost: u32,
    /// The answer of routers on the path.
    pub network: Option<NetworkFeedback>,
    /// Sample of the flipped pair that this ACK completed, if pairs were granted.
    pub pair: Option<PairSample>,
}

longhaul_units::debug_in_part!(Ack<'_>;
    now cumulative delivered newly_lost rtt rate in_flight episode;
    rx_time coalesced acked lost total_delivered ecn_echo prior_in_flight flight_size recover_flight limit
    cwnd_limited round_start probes_acked probes_lost network pair);

impl Ack<'_> {
    /// An ACK at `now` without information: every count is zero, and there is no sample and no episode. The transport
    /// fills in the rest.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self { now, ..Self::default() }
    }
}

/// A delivered segment and its send-time snapshot.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AckedSegment {
    /// Newest transmission of the segment.
    pub tx: TxId,
    /// Time at which that transmission was sent.
    pub sent_at: Time,
    /// Payload bytes.
    pub bytes: Bytes,
    /// Kind of the transmission.
    pub kind: SegmentKind,
    /// [`Control::tag`](crate::Control::tag) when it was sent.
    pub tag: u16,
    /// Time at which the peer's kernel received the segment, by the peer's clock, if the peer reports arrival times.
    pub arrival: Option<Time>,
    /// Whether the peer's receive offload merged it with others, so that `arrival` is that of the batch.
    pub arrival_coalesced: bool,
}

impl AckedSegment {
    /// New data of `bytes` payload bytes, sent at `sent_at` without a tag.
    #[must_use]
    pub const fn new(tx: TxId, sent_at: Time, bytes: Bytes) -> Self {
        Self { tx, sent_at, bytes, kind: SegmentKind::Data, tag: 0, arrival: None, arrival_coalesced: false }
    }
}

/// A segment marked lost and its send-time snapshot.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LostSegment {
    /// The transmission that was lost.
    pub tx: TxId,
    /// Time at which the segment was sent.
    pub sent_at: Time,
    /// Payload bytes.
    pub bytes: Bytes,
    /// [`Control::tag`](crate::Control::tag) when it was sent.
    pub tag: u16,
    /// Bytes in flight when it was sent, including itself and the segments sent at the same instant.
    pub in_flight_at_send: Bytes,
    /// Total bytes marked lost when it was sent.
    pub lost_at_send: Bytes,
}

impl LostSegment {
    /// A segment of `bytes` payload bytes, sent at `sent_at` without a tag, with nothing else in flight or lost.
    #[must_use]
    pub const fn new(tx: TxId, sent_at: Time, bytes: Bytes) -> Self {
        Self { tx, sent_at, bytes, tag: 0, in_flight_at_send: bytes, lost_at_send: Bytes::ZERO }
    }
}

/// A round-trip time sample, never from an ambiguous retransmission (Karn's algorithm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RttSample {
    /// The round-trip time, from the kernel's receive timestamp if there is one.
    pub rtt: Span,
    /// Time at which the sampled segment was sent.
    pub sent_at: Time,
}

impl RttSample {
    /// A sample of a segment that was sent at `sent_at`.
    #[must_use]
    pub const fn new(rtt: Span, sent_at: Time) -> Self {
        Self { rtt, sent_at }
    }
}

/// A delivery-rate sample (draft-ietf-ccwg-bbr, section 4.1; draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateSample {
    /// `delivered / interval`, bytes per second.
    pub rate: Rate,
    /// Bytes delivered over the interval.
    pub delivered: Bytes,
    /// The longer of the send and ACK phases.
    pub interval: Span,
    /// Whether the application, not the network, limited the sender when the sampled segment was sent.
    pub app_limited: bool,
    /// `total_delivered` when the sampled segment was sent.
    pub prior_delivered: Bytes,
    /// Bytes in flight when the sampled segment was sent.
    pub tx_in_flight: Bytes,
    /// Bytes newly marked lost since the sampled segment was sent.
    pub lost: Bytes,
}

impl RateSample {
    /// A sample of `delivered` over `interval`, not application-limited; the other fields are zero.
    #[must_use]
    pub fn new(delivered: Bytes, interval: Span) -> Self {
        Self {
            rate: Rate::from_bytes_over(delivered, interval),
            delivered,
            interval,
            app_limited: false,
            prior_delivered: Bytes::ZERO,
            tx_in_flight: Bytes::ZERO,
            lost: Bytes::ZERO,
        }
    }
}

/// State of the recovery episode when an ACK was processed (RFC 6675, RFC 6582: one episode per window of data).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a controller has to respond to every state of an episode")]
pub enum Episode {
    /// No recovery is in progress.
    #[default]
    None,
    /// This ACK revealed the first loss: one multiplicative decrease is due.
    Enter,
    /// Recovery is in progress.
    In,
    /// During recovery, a retransmission was itself lost, which begins a new episode (RFC 8985, section 3): one more
    /// decrease is due.
    Again,
    /// This ACK covered the recovery point.
    Exit,
    /// Recovery after a retransmission timeout, until its recovery point is covered.
    Rto,
}

/// The limit that stopped the sender, determined where the send loop stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendLimit {
    /// The application had no more data.
    #[default]
    App,
    /// The congestion window was full.
    Cwnd,
    /// The pacer delayed data.
    Pacing,
    /// The peer's receive window was full.
    PeerWindow,
    /// The application's data filled the send buffer, which waits for acknowledgments.
    SendBuffer,
    /// The machine or its socket could not send faster.
    Cpu,
}

/// The answer of routers on the path.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum NetworkFeedback {
    /// Quick-Start: the rate that every hop approved.
    QuickStart(Rate),
    /// The request is denied: it has no stamp, or fewer stamps than hops.
    Denied,
    /// RCP: the rate of the bottleneck.
    Rcp(Rate),
    /// XCP: the granted change of throughput, bytes per second.
    Xcp(i64),
}

/// The retransmission timer expired (RFC 6298, section 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeout {
    /// Time of the timeout.
    pub now: Time,
    /// 1 for the first timeout of this data, 2 for the next consecutive one, and so on.
    pub nth: u32,
    /// FlightSize at the timeout.
    pub flight_size: Bytes,
    /// Bytes in flight after everything was marked lost.
    pub in_flight: Bytes,
}

impl Timeout {
    /// The `nth` consecutive timeout, at `now`, with `flight_size` unacknowledged bytes, all marked lost.
    #[must_use]
    pub const fn new(now: Time, nth: u32, flight_size: Bytes) -> Self {
        Self { now, nth, flight_size, in_flight: Bytes::ZERO }
    }
}

/// Events other than sending, ACKs and timeouts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PathEvent {
    /// The handshake is complete and `granted` is known; reported before the first data segment.
    Established {
        /// Time of the event.
        now: Time,
        /// The features that the transport and the peer provide.
        granted: Granted,
    },
    /// The segment size changed; [`Path::mss`](crate::Path::mss) is the new size.
    Mss {
        /// Time of the event.
        now: Time,
        /// The previous segment size.
        old: Bytes,
    },
    /// Nothing was in flight for longer than an RTO, and data is about to be sent (RFC 5681, section 4.1).
    IdleRestart {
        /// Time of the event.
        now: Time,
        /// Time for which the sender was idle.
        idle: Span,
    },
    /// The last reduction was spurious: everything marked lost had arrived (RFC 4015, RFC 5682, D-SACK).
    Spurious {
        /// Time of the event.
        now: Time,
        /// Whether a timeout caused the reduction.
        timeout: bool,
        /// Current bytes in flight.
        in_flight: Bytes,
    },
    /// Data that the [RC3 low-priority loop](crate::ProbeKind::FromTail) sent has arrived. It is not a part of the
    /// data that an [`Ack`] delivers. If the same ACK also causes an [`Ack`] event, this one is reported first.
    Ahead {
        /// Time at which the ACK was received.
        at: Time,
        /// Payload bytes.
        bytes: Bytes,
    },
    /// The application shares the findings of other connections to the same host with this one (ensemble sharing; RFC
    /// 9040, section 7). Nothing is in flight. A controller may ignore it.
    Shared {
        /// Time of the event.
        now: Time,
        /// This connection's share of the congestion windows of the others.
        window: Bytes,
    },
}
