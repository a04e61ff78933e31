//! Connection statistics.

use std::fmt;

use longhaul_cc::estimate::PairSample;
use longhaul_units::{Bytes, Rate, Span};

use crate::{HostError, RecoveryState, State};

/// Counters of a connection.
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

/// A snapshot of a connection, for applications, logs and tests. `{:?}` shows the main fields, and `{:#?}` all of them.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Info {
    /// State of the connection.
    pub state: State,
    /// Initial sequence numbers of both sides.
    pub initial_sequence: InitialSequence,
    /// Name of the congestion controller.
    pub congestion: String,
    /// Phase of the congestion controller.
    pub phase: &'static str,
    /// State of the start-up scheme.
    pub startup: longhaul_cc::StartupOutcome,
    /// State of loss recovery.
    pub recovery: RecoveryState,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold, if one is set.
    pub ssthresh: Option<Bytes>,
    /// Newest delivery-rate sample.
    pub delivery_rate: Option<Rate>,
    /// Payload rate of the path as estimated by the congestion controller, if it has an estimate.
    pub bandwidth: Option<Rate>,
    /// Pacing rate in force; `None` means unlimited.
    pub pacing_rate: Option<Rate>,
    /// Bytes in flight (`inflight` in RFC 9937).
    pub in_flight: Bytes,
    /// Segments sent and not cumulatively acknowledged.
    pub unacked_segments: u64,
    /// Payload of a full-sized segment in bytes.
    pub mss: u16,
    /// Largest UDP payload, in bytes, that the path is known to pass.
    pub plpmtu: u16,
    /// Smoothed round-trip time.
    pub srtt: Option<Span>,
    /// Round-trip time variation.
    pub rttvar: Span,
    /// Newest round-trip time sample.
    pub latest_rtt: Option<Span>,
    /// Number of round-trip time samples.
    pub rtt_samples: u64,
    /// Minimum round-trip time.
    pub min_rtt: Option<Span>,
    /// Current retransmission timeout, including the back-off.
    pub rto: Span,
    /// Number of times the timeout was doubled since new data was last acknowledged.
    pub backoff: u32,
    /// Window advertised by the peer.
    pub peer_window: Bytes,
    /// Current size of our receive buffer.
    pub recv_buffer: Bytes,
    /// Bytes received in order that the application has not read.
    pub unread: Bytes,
    /// Bytes written that have not been sent.
    pub unsent: Bytes,
    /// Options and features in use.
    pub options: NegotiatedOptions,
    /// Whether the peer reports the arrival times of our segments.
    pub arrival_times: bool,
    /// Results of flipped pairs, if they are sent.
    pub pairs: Option<PairInfo>,
    /// Requests to routers and their results, if the congestion controller sends any.
    pub network: Option<NetworkInfo>,
    /// Use of the saved path from the metrics cache, if there is a cache and the congestion controller starts from
    /// it.
    pub saved_path: Option<SavedPathInfo>,
    /// Requested ACK ratios of both sides, if both support the option.
    pub ack_rate: Option<AckRateInfo>,
    /// Results of low-priority probes, if the congestion controller sends them.
    pub probes: Option<ProbeInfo>,
    /// Bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Payload bytes sent, including retransmissions.
    pub bytes_sent: u64,
    /// Payload bytes of retransmissions.
    pub bytes_retransmitted: u64,
    /// New payload bytes received.
    pub bytes_received: u64,
    /// Bytes marked lost.
    pub bytes_lost: u64,
    /// Payload bytes received more than once.
    pub duplicate_bytes_in: u64,
    /// Payload bytes dropped because of a memory limit.
    pub bytes_refused: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Segments with payload sent.
    pub data_segments_out: u64,
    /// Segments retransmitted.
    pub segments_retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
    /// Recovery episodes, including timeouts.
    pub recoveries: u64,
    /// Recovery episodes that were found spurious and undone.
    pub spurious_recoveries: u64,
    /// Duplicates reported by the peer (D-SACK).
    pub dsacks: u64,
    /// Challenge ACKs sent.
    pub challenge_acks: u64,
    /// Segments dropped by PAWS.
    pub paws_dropped: u64,
    /// Number of times the peer shrank its window by more than the rounding of window scaling (RFC 9293, section
    /// 3.8.6; RFC 7323, section 2.4).
    pub windows_shrunk: u64,
    /// Segments received with a CE mark.
    pub ce_in: u64,
    /// Segments sent with CE to verify that the peer echoes marks, because losses or a long silence made this doubtful
    /// (RFC 3168, section 20.2).
    pub echoes_asked: u64,
    /// Number of these marks that arrived and were not echoed. From two on, segments are sent as not ECN-capable.
    pub echoes_missing: u64,
    /// Newest error reported by the host.
    pub host_error: Option<HostError>,
    /// Number of errors reported by the host.
    pub host_errors: u64,
    /// Whether consecutive unanswered retransmissions have reached the threshold R1 (RFC 9293, section 3.8.3).
    pub r1_reached: bool,
    /// User timeout in force; `None` if R2 applies.
    pub user_timeout: Option<Span>,
    /// Newest user timeout announced by the peer (RFC 5482).
    pub peer_user_timeout: Option<Span>,
    /// Bytes delivered to the peer, including SACKed ones.
    pub delivered: u64,
    /// Time spent limited by each [`SendLimit`](longhaul_cc::SendLimit), in the order of its variants.
    pub limited: [Span; 6],
    /// Time since the connection was created.
    pub age: Span,
    /// Memory of the connection's buffers and records, in bytes.
    pub memory: usize,
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
pub struct NegotiatedOptions {
    /// Whether SACK is in use (RFC 2018).
    pub sack: bool,
    /// Whether timestamps are in use (RFC 7323).
    pub timestamps: bool,
    /// Whether windows are scaled (RFC 7323).
    pub window_scaling: bool,
    /// Whether ECN is in use (RFC 3168).
    pub ecn: bool,
    /// Whether timestamps count microseconds.
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

/// Results of low-priority probes, and of data that the RC3 loop sent from the tail of the send buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeInfo {
    /// Probes sent. No other counter includes them.
    pub sent: u64,
    /// Payload bytes of probes sent.
    pub bytes_sent: u64,
    /// Probes that the peer answered.
    pub acked: u64,
    /// Probes without an answer within a retransmission timeout, and segments that had to be retransmitted
    /// although the RC3 loop had sent part of them.
    pub lost: u64,
    /// Invalid answers; none of them opens the window. If the peer identifies the probe it answers (`docs/wire.md`,
    /// "Probe echo"), these are answers with a timestamp at which no probe was sent, and repeated answers to any of
    /// the last 1024 probes, which packet duplication in the network can cause as well. With other peers, these are
    /// D-SACK blocks for octets that were never sent; blocks for octets that were sent are valid, because the
    /// network may have duplicated them. Acknowledgments of data that the RC3 loop did not send count as well.
    pub refused: u64,
    /// Payload bytes that the RC3 loop delivered, so that they never had to be sent within the congestion window.
    pub carried: u64,
}

/// Requests for a different ACK frequency, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AckRateInfo {
    /// Number of segments per ACK that we requested of the peer; zero if the peer chooses.
    pub ratio: u8,
    /// Requests sent.
    pub requests: u64,
    /// Requests of the peer that were applied.
    pub heeded: u64,
    /// Requests of the peer that were refused because they ask for too few ACKs.
    pub refused: u64,
}

/// Results of a connection's requests to routers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// Use of the saved path from the metrics cache by start-up schemes that begin with it (RFC 9959). At most one
/// field is 1. All fields are 0 if there was no saved path, if it has not been decided yet, or if its window is not
/// larger than the initial window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedPathInfo {
    /// The connection sent the saved window.
    pub used: u64,
    /// The saved path is older than [`PathCacheConfig::max_age`](crate::PathCacheConfig::max_age).
    pub too_old: u64,
    /// The round-trip time shows that the path has changed ([`SavedPath::may_be`](longhaul_cc::SavedPath::may_be)).
    pub other_path: u64,
    /// The saved values are impossible ([`SavedPath::is_possible`](longhaul_cc::SavedPath::is_possible)).
    pub damaged: u64,
}
