//! Counters and snapshots of a connection.

use std::fmt;

use longhaul_cc::estimate::PairSample;
use longhaul_cc::{SendLimit, StartupOutcome};
use longhaul_units::{Bytes, Rate, Span, Time};

use super::Watch;
use super::congestion::SendControl;
use super::status::{Status, threshold};
use crate::{HostError, RecoveryState, State};

#[derive(Clone, Default)]
pub(crate) struct Stats {
    pub(crate) segments_in: u64,
    pub(crate) segments_out: u64,
    pub(crate) data_segments_out: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
    /// Allocated by the first such event, which most connections never have.
    pub(crate) incidents: Option<Box<Incidents>>,
}

/// Counters of losses and other rare events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Incidents {
    pub(crate) segments_retransmitted: u64,
    pub(crate) bytes_retransmitted: u64,
    pub(crate) bytes_lost: u64,
    pub(crate) duplicate_bytes_in: u64,
    pub(crate) bytes_refused: u64,
    pub(crate) timeouts: u64,
    pub(crate) tail_probes: u64,
    pub(crate) recoveries: u64,
    pub(crate) spurious_recoveries: u64,
    pub(crate) dsacks: u64,
    pub(crate) challenge_acks: u64,
    pub(crate) paws_dropped: u64,
    pub(crate) windows_shrunk: u64,
    pub(crate) ce_in: u64,
}

/// Shows all counters, whether or not they are allocated.
impl fmt::Debug for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segments_in, segments_out, data_segments_out, bytes_sent, bytes_acked, bytes_received, .. } = self;
        f.debug_struct("Stats")
            .field("segments_in", segments_in)
            .field("segments_out", segments_out)
            .field("data_segments_out", data_segments_out)
            .field("bytes_sent", bytes_sent)
            .field("bytes_acked", bytes_acked)
            .field("bytes_received", bytes_received)
            .field("incidents", &self.incidents())
            .finish()
    }
}

impl Stats {
    #[inline]
    pub(crate) fn incidents(&self) -> Incidents {
        self.incidents.as_deref().copied().unwrap_or_default()
    }

    /// Returns the counters to be changed. Segments without an incident should not get here.
    pub(crate) fn incidents_mut(&mut self) -> &mut Incidents {
        self.incidents.get_or_insert_default()
    }
}

/// Adds `more` to a saturating counter.
pub(crate) fn add(counter: &mut u64, more: u64) {
    *counter = counter.saturating_add(more);
}

/// Declares a snapshot, whose constructor takes the arguments in parentheses. Each field has the value that follows its
/// type.
macro_rules! snapshot {
    ($(#[$about:meta])* $public:vis struct $name:ident($($from:ident: $source:ty),*) {
        $($(#[$doc:meta])* pub $field:ident: $type:ty = $value:expr,)*
    }) => {
        $(#[$about])*
        $public struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            pub(super) fn new($($from: $source),*) -> Self {
                Self { $($field: $value),* }
            }
        }
    };
}

snapshot! {
    /// A snapshot of a connection, for applications, logs and tests. `{:?}` shows the main fields, and `{:#?}` all of
    /// them.
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub struct Info(of: &Status<'_>, now: Time, sending: &SendControl, incidents: Incidents) {
        /// State of the connection.
        pub state: State = of.0.life.state,
        /// Initial sequence numbers of both sides.
        pub initial_sequence: InitialSequence = of.0.numbers.initial,
        /// Name of the congestion controller.
        pub congestion: String = sending.controller.name(),
        /// Phase of the congestion controller.
        pub phase: &'static str = sending.controller.snapshot().phase,
        /// State of the start-up scheme.
        pub startup: StartupOutcome = sending.controller.snapshot().startup,
        /// State of loss recovery.
        pub recovery: RecoveryState = of.0.loss.recovery_state(),
        /// Congestion window.
        pub cwnd: Bytes = sending.control.cwnd,
        /// Slow-start threshold, if one is set.
        pub ssthresh: Option<Bytes> = threshold(&sending.control),
        /// Newest delivery-rate sample.
        pub delivery_rate: Option<Rate> = of.0.cc.rate.latest,
        /// Payload rate of the path as estimated by the congestion controller, if it has an estimate.
        pub bandwidth: Option<Rate> = sending.controller.snapshot().bandwidth,
        /// Pacing rate in force; `None` means unlimited.
        pub pacing_rate: Option<Rate> = sending.pacer.rate(),
        /// Bytes in flight (`inflight` in RFC 9937).
        pub in_flight: Bytes = Bytes(of.0.loss.pipe(&of.0.snd.board)),
        /// Segments sent and not cumulatively acknowledged.
        pub unacked_segments: u64 = of.0.snd.board.len() as u64,
        /// Payload of a full-sized segment in bytes.
        pub mss: u16 = of.0.pmtu.mss(),
        /// Largest UDP payload, in bytes, that the path is known to pass.
        pub plpmtu: u16 = of.0.pmtu.current,
        /// Smoothed round-trip time.
        pub srtt: Option<Span> = of.0.rtt.srtt,
        /// Round-trip time variation.
        pub rttvar: Span = of.0.rtt.rttvar,
        /// Newest round-trip time sample.
        pub latest_rtt: Option<Span> = of.0.rtt.latest,
        /// Number of round-trip time samples.
        pub rtt_samples: u64 = u64::from(of.0.rtt.samples),
        /// Minimum round-trip time.
        pub min_rtt: Option<Span> = of.0.rtt.min,
        /// Current retransmission timeout, including the back-off.
        pub rto: Span = of.0.rtt.rto(),
        /// Number of times the timeout was doubled since new data was last acknowledged.
        pub backoff: u32 = of.0.rtt.backoff,
        /// Window advertised by the peer.
        pub peer_window: Bytes = Bytes(of.0.snd.window),
        /// Current size of our receive buffer.
        pub recv_buffer: Bytes = Bytes(of.0.rcv.capacity),
        /// Bytes received in order that the application has not read.
        pub unread: Bytes = Bytes::from(of.0.rcv.data.unread),
        /// Bytes written that have not been sent.
        pub unsent: Bytes = Bytes(of.0.snd.unsent()),
        /// Options and features in use.
        pub options: NegotiatedOptions = of.0.negotiated.options(),
        /// Whether the peer reports the arrival times of our segments.
        pub arrival_times: bool = of.0.ext.arrivals.is_some(),
        /// Results of flipped pairs, if they are sent.
        pub pairs: Option<PairInfo> = None,
        /// Requests to routers and their results, if the congestion controller sends any.
        pub network: Option<NetworkInfo> = None,
        /// Use of the saved path from the metrics cache, if there is a cache and the congestion controller starts from
        /// it.
        pub saved_path: Option<SavedPathInfo> = of.0.cc.saved_path_info(),
        /// Requested ACK ratios of both sides, if both support the option.
        pub ack_rate: Option<AckRateInfo> = None,
        /// Results of low-priority probes, if the congestion controller sends them.
        pub probes: Option<ProbeInfo> = None,
        /// Bytes acknowledged by the peer.
        pub bytes_acked: u64 = of.0.stats.bytes_acked,
        /// Payload bytes sent, including retransmissions.
        pub bytes_sent: u64 = of.0.stats.bytes_sent + incidents.bytes_retransmitted,
        /// Payload bytes of retransmissions.
        pub bytes_retransmitted: u64 = incidents.bytes_retransmitted,
        /// New payload bytes received.
        pub bytes_received: u64 = of.0.stats.bytes_received,
        /// Bytes marked lost.
        pub bytes_lost: u64 = incidents.bytes_lost,
        /// Payload bytes received more than once.
        pub duplicate_bytes_in: u64 = incidents.duplicate_bytes_in,
        /// Payload bytes dropped because of a memory limit.
        pub bytes_refused: u64 = incidents.bytes_refused,
        /// Segments received.
        pub segments_in: u64 = of.0.stats.segments_in,
        /// Segments sent.
        pub segments_out: u64 = of.0.stats.segments_out,
        /// Segments with payload sent.
        pub data_segments_out: u64 = of.0.stats.data_segments_out,
        /// Segments retransmitted.
        pub segments_retransmitted: u64 = incidents.segments_retransmitted,
        /// Retransmission timeouts.
        pub timeouts: u64 = incidents.timeouts,
        /// Tail loss probes.
        pub tail_probes: u64 = incidents.tail_probes,
        /// Recovery episodes, including timeouts.
        pub recoveries: u64 = incidents.recoveries,
        /// Recovery episodes that were found spurious and undone.
        pub spurious_recoveries: u64 = incidents.spurious_recoveries,
        /// Duplicates reported by the peer (D-SACK).
        pub dsacks: u64 = incidents.dsacks,
        /// Challenge ACKs sent.
        pub challenge_acks: u64 = incidents.challenge_acks,
        /// Segments dropped by PAWS.
        pub paws_dropped: u64 = incidents.paws_dropped,
        /// Number of times the peer shrank its window by more than the rounding of window scaling (RFC 9293, section
        /// 3.8.6; RFC 7323, section 2.4).
        pub windows_shrunk: u64 = incidents.windows_shrunk,
        /// Segments received with a CE mark.
        pub ce_in: u64 = incidents.ce_in,
        /// Segments sent with CE to verify that the peer echoes marks, because losses or a long silence made this
        /// doubtful (RFC 3168, section 20.2).
        pub echoes_asked: u64 = of.0.ext.ecn_check.marked,
        /// Number of these marks that arrived and were not echoed. From two on, segments are sent as not ECN-capable.
        pub echoes_missing: u64 = of.0.ext.ecn_check.missing,
        /// Newest error reported by the host.
        pub host_error: Option<HostError> = of.0.peer.host_error.map(|(error, _)| error),
        /// Number of errors reported by the host.
        pub host_errors: u64 = of.0.peer.host_errors,
        /// Whether consecutive unanswered retransmissions have reached the threshold R1 (RFC 9293, section 3.8.3).
        pub r1_reached: bool = of.is_past_r1(),
        /// User timeout in force; `None` if R2 applies.
        pub user_timeout: Option<Span> = of.0.config.user_timeout,
        /// Newest user timeout announced by the peer (RFC 5482).
        pub peer_user_timeout: Option<Span> = of.0.peer.user_timeout.remote,
        /// Bytes delivered to the peer, including SACKed ones.
        pub delivered: u64 = of.0.cc.rate.delivered,
        /// Time spent limited by each [`SendLimit`], in the order of its variants.
        pub limited: [Span; 6] = of.0.cc.limits.spent(now, of.0.life.state.is_synchronized()),
        /// Time since the connection was created.
        pub age: Span = now - of.0.life.created_at,
        /// Memory of the connection's buffers and records, in bytes.
        pub memory: usize = of.memory(),
    }
}

snapshot! {
    /// Parameters of a connection that the handshake has fixed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Parameters(of: &Watch<'_>) {
        /// Name of the congestion controller.
        pub congestion: String = of.cc.controller.name(),
        /// Payload of a full-sized segment in bytes.
        pub mss: u16 = of.pmtu.mss(),
        /// Options and features in use.
        pub options: NegotiatedOptions = of.negotiated.options(),
        /// Initial sequence numbers of both sides.
        pub initial_sequence: InitialSequence = of.numbers.initial,
    }
}

snapshot! {
    /// Metrics of a connection's path, congestion controller and loss recovery.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Metrics(of: &Watch<'_>) {
        /// Minimum round-trip time.
        pub min_rtt: Option<Span> = of.rtt.min,
        /// Smoothed round-trip time.
        pub srtt: Option<Span> = of.rtt.srtt,
        /// Newest round-trip time sample.
        pub latest_rtt: Option<Span> = of.rtt.latest,
        /// Round-trip time variation.
        pub rttvar: Span = of.rtt.rttvar,
        /// Retransmission timeout, including the back-off.
        pub rto: Span = of.rtt.rto(),
        /// Number of times the timeout was doubled since new data was last acknowledged.
        pub backoff: u32 = of.rtt.backoff,
        /// Congestion window.
        pub cwnd: Bytes = of.cc.control.cwnd,
        /// Slow-start threshold, if one is set.
        pub ssthresh: Option<Bytes> = threshold(&of.cc.control),
        /// Bytes in flight.
        pub in_flight: Bytes = Bytes(of.loss.pipe(&of.snd.board)),
        /// Segments sent and not cumulatively acknowledged.
        pub unacked_segments: u64 = of.snd.board.len() as u64,
        /// Pacing rate in force; `None` means unlimited.
        pub pacing_rate: Option<Rate> = of.cc.pacer.rate(),
        /// Newest delivery-rate sample.
        pub delivery_rate: Option<Rate> = of.cc.rate.latest,
        /// Window advertised by the peer.
        pub peer_window: Bytes = Bytes(of.snd.window),
        /// Bytes marked lost.
        pub bytes_lost: u64 = of.stats.incidents().bytes_lost,
        /// Payload bytes of retransmissions.
        pub bytes_retransmitted: u64 = of.stats.incidents().bytes_retransmitted,
        /// Phase of the congestion controller.
        pub phase: &'static str = of.cc.controller.snapshot().phase,
        /// State of loss recovery.
        pub recovery: RecoveryState = of.loss.recovery_state(),
        /// The limit that stopped the sender last.
        pub limit: SendLimit = of.cc.limits.current,
    }
}

/// Initial sequence numbers of both sides (RFC 9293, section 3.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InitialSequence {
    /// ISS: ours.
    pub iss: u32,
    /// IRS: the peer's; 0 until its SYN has arrived.
    pub irs: u32,
}

/// Options and features that both sides have agreed on in the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NegotiatedOptions {
    /// Selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Window scaling (RFC 7323).
    pub wscale: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Whether timestamps tick in microseconds instead of milliseconds.
    pub microseconds: bool,
}

/// Results of flipped pairs of segments (TCPProbe).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PairInfo {
    /// Capacity of the narrow link, in bytes of IP packets per second.
    pub capacity: Option<Rate>,
    /// Whether the estimate has converged.
    pub converged: bool,
    /// Number of measured pairs.
    pub measured: u64,
    /// Measured pairs that receive offload merged, whose dispersion is meaningless.
    pub coalesced: u64,
    /// Pairs without a result: lost, retransmitted, delayed at the sender, or acknowledged by one ACK.
    pub dropped: u64,
    /// Newest measured pair.
    pub latest: Option<PairSample>,
}

/// Counters of low-priority probes: copies of data sent outside the congestion window (TCP-Peach, TCP-Swift and
/// similar), and new data that the RC3 loop sends from the tail of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ProbeInfo {
    /// Probes sent. Of the counters of sent segments, only that of all segments includes them.
    pub sent: u64,
    /// Payload bytes of the probes sent.
    pub bytes_sent: u64,
    /// Probes acknowledged by the peer.
    pub acked: u64,
    /// Probes unanswered for one retransmission timeout, and segments whose data the RC3 loop had sent from the
    /// tail and that had to be retransmitted. Neither counts as loss or as a sign of congestion.
    pub lost: u64,
    /// Answers that no honest peer gives; they do not open the window. If the peer supports the option of
    /// `docs/wire.md`, "Probe echo", these are echoes of a time at which nothing was sent, and repeated answers to
    /// any of the last 1024 probes (which packet duplication in the network causes, too). Otherwise they are D-SACKs
    /// for octets that were never sent; D-SACKs for octets that were sent are not counted, because the network may
    /// have duplicated them. Acknowledgments of tail data that was not sent are included.
    pub refused: u64,
    /// Payload sent from the tail that arrived, so that the regular window did not have to carry it.
    pub carried_bytes: u64,
}

/// Requests to change the ACK frequency, sent and received (draft-ietf-tcpm-ack-rate-request).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct AckRateInfo {
    /// Segments per ACK that we have asked the peer for; 0 if the choice is left to the peer.
    pub ratio: u8,
    /// Requests sent.
    pub requests: u64,
    /// Requests from the peer that were honoured.
    pub heeded: u64,
    /// Requests from the peer that were refused because they asked for too few ACKs.
    pub refused: u64,
}

/// Counters of requests to routers (Quick-Start, RCP, XCP).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NetworkInfo {
    /// Requests sent.
    pub requests: u64,
    /// Answers that grant a rate or a window.
    pub granted: u64,
    /// Denials: a router did not process the request or refused it, or no answer arrived.
    pub denied: u64,
    /// Answers that were forged, replayed, unsolicited or late.
    pub refused: u64,
}

/// Use of the metrics that an earlier connection to the host left in the cache, for start-up schemes that begin with
/// them (Careful Resume, TCP Fast Start; RFC 9959). At most one of these fields is 1. All are 0 if there was no entry,
/// if the decision is still open, or if the entry offers no more than a start without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SavedPathInfo {
    /// The connection started with the saved values.
    pub used: u64,
    /// The entry is older than [`PathCacheConfig::max_age`](crate::PathCacheConfig::max_age).
    pub too_old: u64,
    /// The RTT shows that the path has changed ([`SavedPath::may_be`](longhaul_cc::SavedPath::may_be)).
    pub other_path: u64,
    /// The saved values are impossible ([`SavedPath::is_possible`](longhaul_cc::SavedPath::is_possible)).
    pub damaged: u64,
}
