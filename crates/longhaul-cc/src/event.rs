//! What the transport tells a controller: structs, never positional arguments.

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::estimate::PairSample;
use crate::{Detection, Granted};

/// One transmission of one segment: unique in a connection, growing, never reused. A retransmission has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub u64);

/// What a transmission was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentKind {
    /// New data (or a FIN).
    #[default]
    Data,
    /// A retransmission of data held to be lost, or a tail loss probe.
    Retransmit,
    /// A probe of the controller's [`ProbePlan`](crate::ProbePlan).
    Probe,
}

/// A segment left. Called once for each, after it was counted in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sent {
    /// When.
    pub now: Time,
    /// The transmission.
    pub tx: TxId,
    /// Payload bytes.
    pub bytes: Bytes,
    /// Bytes in flight just before.
    pub in_flight_before: Bytes,
    /// What it was.
    pub kind: SegmentKind,
    /// [`Control::tag`](crate::Control::tag) at that moment.
    pub tag: u16,
    /// How long the application had nothing to send just before although the window had room; zero if something else or
    /// nothing held this segment back, or if it is no new data.
    pub pause: Span,
}

impl Sent {
    /// A segment of `bytes` payload bytes that leaves at `now` as new data; the other fields are zero.
    #[must_use]
    pub const fn new(now: Time, tx: TxId, bytes: Bytes) -> Self {
        Self { now, tx, bytes, in_flight_before: Bytes::ZERO, kind: SegmentKind::Data, tag: 0, pause: Span::ZERO }
    }
}

/// An ACK was processed: everything it said, after the scoreboard was updated. One ACK is one call.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ack<'a> {
    /// When it is processed; never goes back.
    pub now: Time,
    /// When the kernel received it, mapped to the same clock. For RTT, dispersion and one-way delay only.
    pub rx_time: Option<Time>,
    /// Whether it was merged with others by receive offload, so that its `rx_time` is the batch's.
    pub coalesced: bool,
    /// Segments newly delivered (cumulatively or selectively), in sequence order; empty unless
    /// [`Demands::segments`](crate::Demands::segments) was granted.
    pub acked: &'a [AckedSegment],
    /// Segments newly held to be lost, in no particular order; empty unless segments were granted. Those that a
    /// [`Timeout`] holds lost are in flight no more, and are not listed.
    pub lost: &'a [LostSegment],
    /// Bytes by which SND.UNA advanced.
    pub cumulative: Bytes,
    /// Bytes newly delivered: advance of SND.UNA plus change of SACKed bytes (RFC 9937's `DeliveredData`).
    pub delivered: Bytes,
    /// Bytes newly held to be lost.
    pub newly_lost: Bytes,
    /// All bytes delivered on this connection so far.
    pub total_delivered: Bytes,
    /// The RTT sample this ACK gave.
    pub rtt: Option<RttSample>,
    /// The delivery rate sample this ACK gave.
    pub rate: Option<RateSample>,
    /// Congestion marks this ACK reported.
    pub ecn: EcnDelta,
    /// Bytes in flight before this ACK.
    pub prior_in_flight: Bytes,
    /// Bytes in flight after this ACK and the losses it revealed.
    pub in_flight: Bytes,
    /// SND.NXT - SND.UNA before this ACK (RFC 5681's FlightSize), without limited-transmit data.
    pub flight_size: Bytes,
    /// RFC 9937's `RecoverFS`, when this ACK begins an episode.
    pub recover_flight: Bytes,
    /// What stopped the sender when it last stopped.
    pub limit: SendLimit,
    /// Whether the window limited the sender at any time in this round or the one before, or the pace while half of the
    /// window was in use. No law may grow its window when neither did (RFC 9438, section 5.8; RFC 7661, section 4.2).
    pub cwnd_limited: bool,
    /// Whether a new round trip begins: this ACK covers SND.NXT of the start of the last one, or, while a hole keeps that
    /// back, something that was sent since.
    pub round_start: bool,
    /// The recovery episode's state.
    pub episode: Episode,
    /// What became of probes.
    pub probe: ProbeReport,
    /// What routers answered.
    pub network: Option<NetworkFeedback>,
    /// What a flipped pair told that this ACK completed, if pairs were granted.
    pub pair: Option<PairSample>,
}

impl Ack<'_> {
    /// An ACK at `now` that says nothing: every count zero, no sample, no episode; the transport fills in the rest.
    #[must_use]
    pub const fn new(now: Time) -> Self {
        Self {
            now,
            rx_time: None,
            coalesced: false,
            acked: &[],
            lost: &[],
            cumulative: Bytes::ZERO,
            delivered: Bytes::ZERO,
            newly_lost: Bytes::ZERO,
            total_delivered: Bytes::ZERO,
            rtt: None,
            rate: None,
            ecn: EcnDelta { congestion: false },
            prior_in_flight: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            flight_size: Bytes::ZERO,
            recover_flight: Bytes::ZERO,
            limit: SendLimit::App,
            cwnd_limited: false,
            round_start: false,
            episode: Episode::None,
            probe: ProbeReport { acked: 0, lost: 0 },
            network: None,
            pair: None,
        }
    }
}

/// A delivered segment and the send-time snapshot that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AckedSegment {
    /// The newest transmission of it.
    pub tx: TxId,
    /// When that transmission left.
    pub sent_at: Time,
    /// Payload bytes.
    pub bytes: Bytes,
    /// What that transmission was.
    pub kind: SegmentKind,
    /// [`Control::tag`](crate::Control::tag) when it left.
    pub tag: u16,
    /// When the peer's kernel received it, on the peer's clock, if the peer reports arrival times.
    pub arrival: Option<Time>,
    /// Whether the peer's receive offload merged it with others, so that `arrival` is the batch's.
    pub arrival_coalesced: bool,
}

impl AckedSegment {
    /// New data of `bytes` payload bytes that left at `sent_at`, untagged.
    #[must_use]
    pub const fn new(tx: TxId, sent_at: Time, bytes: Bytes) -> Self {
        Self { tx, sent_at, bytes, kind: SegmentKind::Data, tag: 0, arrival: None, arrival_coalesced: false }
    }
}

/// A segment held to be lost and its send-time snapshot.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LostSegment {
    /// The transmission that was lost.
    pub tx: TxId,
    /// When it left.
    pub sent_at: Time,
    /// Payload bytes.
    pub bytes: Bytes,
    /// [`Control::tag`](crate::Control::tag) when it left.
    pub tag: u16,
    /// Bytes in flight when it left, itself and what left at the same instant included.
    pub in_flight_at_send: Bytes,
    /// All bytes held lost when it left.
    pub lost_at_send: Bytes,
}

impl LostSegment {
    /// A segment of `bytes` payload bytes that left at `sent_at`, untagged, with nothing else in flight or lost.
    #[must_use]
    pub const fn new(tx: TxId, sent_at: Time, bytes: Bytes) -> Self {
        Self { tx, sent_at, bytes, tag: 0, in_flight_at_send: bytes, lost_at_send: Bytes::ZERO }
    }
}

/// A round-trip sample: never from an ambiguous retransmission (Karn).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttSample {
    /// The round trip, by kernel receive time where there is one.
    pub rtt: Span,
    /// When the sampled segment left.
    pub sent_at: Time,
}

/// A delivery-rate sample (draft-ietf-ccwg-bbr, section 4.1; draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateSample {
    /// `delivered / interval`.
    pub rate: Rate,
    /// Bytes delivered over the interval.
    pub delivered: Bytes,
    /// The longer of the send and ACK phases.
    pub interval: Span,
    /// Whether the application, not the network, limited the sender when the sampled segment left.
    pub app_limited: bool,
    /// `total_delivered` when the sampled segment left.
    pub prior_delivered: Bytes,
    /// Bytes in flight when the sampled segment left.
    pub tx_in_flight: Bytes,
    /// Bytes newly lost since it left.
    pub lost: Bytes,
}

impl RateSample {
    /// `delivered` over `interval`, not application-limited; the rest zero.
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

/// Congestion marks reported by one ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnDelta {
    /// Classic ECN: this ACK carried ECE and a new response is due, once a round trip (RFC 3168, section 6.1.2).
    pub congestion: bool,
}

/// Where a recovery episode stands when an ACK was processed (RFC 6675, RFC 6582: one episode a window of data).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Episode {
    /// Nothing is being repaired.
    #[default]
    None,
    /// This ACK revealed the first loss: one multiplicative decrease is due.
    Enter,
    /// Under repair.
    In,
    /// In repair, and a retransmission was itself lost, which begins a new episode (RFC 8985, section 3): one more
    /// decrease is due.
    Again,
    /// This ACK covered the recovery point.
    Exit,
    /// Repair after a retransmission timeout, until its recovery point is covered.
    Rto,
}

/// What stopped the sender: decided where the send loop stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SendLimit {
    /// The application had no more data.
    #[default]
    App,
    /// The congestion window was full.
    Cwnd,
    /// The pacer held data back.
    Pacing,
    /// The peer's receive window was full.
    PeerWindow,
    /// The application's data filled the send buffer, and it waits for acknowledgements.
    SendBuffer,
    /// The sender ran as fast as this machine, or its socket, could.
    Cpu,
}

/// What became of probes since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeReport {
    /// Probes known to have arrived.
    pub acked: u32,
    /// Probes held to be lost.
    pub lost: u32,
}

/// What routers on the path answered.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum NetworkFeedback {
    /// Quick-Start: the rate every hop approved.
    QuickStart(Rate),
    /// No stamp, or fewer stamps than hops: denied.
    Denied,
    /// RCP: the bottleneck's rate.
    Rcp(Rate),
    /// XCP: the change of throughput granted, bytes a second.
    Xcp(i64),
}

/// A retransmission timeout fired (RFC 6298, section 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeout {
    /// When.
    pub now: Time,
    /// 1 for the first timeout of this data, 2 for the next in a row, and so on.
    pub nth: u32,
    /// FlightSize when it fired.
    pub flight_size: Bytes,
    /// Bytes in flight after everything was held lost.
    pub in_flight: Bytes,
}

impl Timeout {
    /// The `nth` timeout in a row, at `now`, with `flight_size` bytes not yet acknowledged; all held lost.
    #[must_use]
    pub const fn new(now: Time, nth: u32, flight_size: Bytes) -> Self {
        Self { now, nth, flight_size, in_flight: Bytes::ZERO }
    }
}

/// The rare events.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PathEvent {
    /// The handshake ended, `granted` tells what there is; sent before the first data segment.
    Established {
        /// When.
        now: Time,
        /// What was granted.
        granted: Granted,
    },
    /// The segment size changed; [`Path::mss`](crate::Path::mss) has the new one.
    Mss {
        /// When.
        now: Time,
        /// The segment size before.
        old: Bytes,
    },
    /// Nothing was in flight for longer than an RTO and data is about to leave (RFC 5681, section 4.1).
    IdleRestart {
        /// When.
        now: Time,
        /// How long the sender was idle.
        idle: Span,
    },
    /// The last reduction was spurious: everything held lost had arrived (RFC 4015, RFC 5682, D-SACK).
    Spurious {
        /// When.
        now: Time,
        /// Whether it was a timeout's.
        timeout: bool,
        /// Bytes in flight now.
        in_flight: Bytes,
    },
    /// The loss detection changed (the peer turned out not to speak SACK).
    Detection(Detection),
    /// What limits the sender changed.
    Limit {
        /// When.
        now: Time,
        /// The limit now.
        limit: SendLimit,
    },
    /// Of what left [from the tail](crate::ProbeKind::FromTail) some has arrived, ahead of what the window carries: it is no
    /// part of what an [`Ack`] delivers. Told before the ACK that says it, if that says more.
    Ahead {
        /// When the ACK was received.
        at: Time,
        /// Payload bytes.
        bytes: Bytes,
    },
}
