//! What a connection tells of itself.

use longhaul_cc::estimate::PairSample;
use longhaul_units::{Bytes, Rate, Span};

use crate::error::HostError;
use crate::state::State;

/// Counters of a connection's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    pub(crate) segments_in: u64,
    pub(crate) segments_out: u64,
    pub(crate) data_segments_out: u64,
    pub(crate) segments_retransmitted: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_retransmitted: u64,
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
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

/// Counts `more`: a counter that is full stays full.
pub(crate) fn add(counter: &mut u64, more: u64) {
    *counter = counter.saturating_add(more);
}

/// A snapshot of a connection, for applications, logs and tests.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Info {
    /// The state.
    pub state: State,
    /// Our initial sequence number and, once its SYN has come, the peer's.
    pub initial_sequence: (u32, u32),
    /// The congestion controller's name.
    pub congestion: String,
    /// The stage it is in.
    pub phase: &'static str,
    /// What became of its start-up scheme.
    pub startup: longhaul_cc::Startup,
    /// Where repair stands: `open`, `recovery` or `timeout`.
    pub recovery: &'static str,
    /// The congestion window.
    pub cwnd: Bytes,
    /// The slow-start threshold, if there is one.
    pub ssthresh: Option<Bytes>,
    /// The newest sample of the rate at which the peer receives.
    pub delivery_rate: Option<Rate>,
    /// The pacing rate in force; `None` is unlimited.
    pub pacing_rate: Option<Rate>,
    /// Bytes in flight (RFC 9937's `inflight`).
    pub in_flight: Bytes,
    /// Segments in flight.
    pub unacked_segments: u64,
    /// Payload of a full segment.
    pub mss: u16,
    /// UDP payload that the path is known to pass.
    pub plpmtu: u16,
    /// Smoothed RTT.
    pub srtt: Option<Span>,
    /// RTT variation.
    pub rttvar: Span,
    /// The newest RTT sample.
    pub latest_rtt: Option<Span>,
    /// How many there were.
    pub rtt_samples: u64,
    /// The smallest RTT.
    pub min_rtt: Option<Span>,
    /// The retransmission timeout now.
    pub rto: Span,
    /// How often it was doubled since the last acknowledgment of new data.
    pub backoff: u32,
    /// The peer's window.
    pub peer_window: Bytes,
    /// Our receive buffer's size now.
    pub recv_buffer: Bytes,
    /// Bytes that arrived in order and were not read.
    pub unread: Bytes,
    /// Bytes that wait to be sent.
    pub unsent: Bytes,
    /// Whether SACK, timestamps, window scaling, ECN and microsecond ticks are in force.
    pub options: [bool; 5],
    /// Whether the peer reports when our segments arrived.
    pub arrival_times: bool,
    /// What flipped pairs told of the path, if they are sent.
    pub pairs: Option<PairInfo>,
    /// What routers were asked and said, if the controller asks them.
    pub network: Option<NetworkInfo>,
    /// What became of the memory of the path, if there is one and the controller begins with it.
    pub saved_path: Option<SavedPathInfo>,
    /// How often either side was asked to acknowledge, if both know the option for it.
    pub ack_rate: Option<AckRateInfo>,
    /// What became of probes at low priority, if the controller sends them.
    pub probes: Option<ProbeInfo>,
    /// Bytes the peer acknowledged.
    pub bytes_acked: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes of retransmissions.
    pub bytes_retransmitted: u64,
    /// New payload bytes received.
    pub bytes_received: u64,
    /// Bytes held lost.
    pub bytes_lost: u64,
    /// Payload bytes received more than once.
    pub duplicate_bytes_in: u64,
    /// Payload bytes dropped for want of memory.
    pub bytes_refused: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Segments with data sent.
    pub data_segments_out: u64,
    /// Segments retransmitted.
    pub segments_retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
    /// Recovery episodes, timeouts included.
    pub recoveries: u64,
    /// Episodes found spurious and undone.
    pub spurious_recoveries: u64,
    /// Duplicates that the peer reported.
    pub dsacks: u64,
    /// Challenge ACKs sent.
    pub challenge_acks: u64,
    /// Segments dropped by PAWS.
    pub paws_dropped: u64,
    /// How often the peer took back a part of its window, by more than window scaling rounds (RFC 9293, section 3.8.6; RFC 7323, section
    /// 2.4).
    pub windows_shrunk: u64,
    /// Segments received with CE.
    pub ce_in: u64,
    /// Segments that left with CE to see it echoed, where losses made it doubtful that the peer echoes marks (RFC 3168,
    /// section 20.2).
    pub echoes_asked: u64,
    /// Those of them that arrived and were not echoed. From two on segments are not ECN-capable.
    pub echoes_missing: u64,
    /// What the host last said against the path.
    pub host_error: Option<HostError>,
    /// How often it said something against it.
    pub host_errors: u64,
    /// Whether so many retransmissions in a row went unanswered that the path is in doubt (R1 of RFC 9293, section
    /// 3.8.3).
    pub r1_reached: bool,
    /// How long data may stay unacknowledged before the connection is given up, if that is not R2's to say.
    pub user_timeout: Option<Span>,
    /// The user timeout that the peer last told of (RFC 5482).
    pub peer_user_timeout: Option<Span>,
    /// Bytes delivered to the peer so far, SACKed ones included.
    pub delivered: u64,
    /// Time spent limited by [`SendLimit`](longhaul_cc::SendLimit), in its order.
    pub limited: [Span; 6],
    /// Time since the connection began.
    pub age: Span,
    /// What the connection's buffers and records take.
    pub memory: usize,
}

/// What flipped pairs of segments told (TCPProbe).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PairInfo {
    /// The rate of the narrow link, in bytes of IP packets a second.
    pub capacity: Option<Rate>,
    /// Whether the estimate has converged.
    pub converged: bool,
    /// Pairs that were measured.
    pub measured: u64,
    /// Of those, the ones that receive offload merged, whose spacing says nothing.
    pub coalesced: u64,
    /// Pairs of which nothing was learnt: lost, sent twice, held up at the sender, or answered by one ACK.
    pub dropped: u64,
    /// The newest that was measured.
    pub latest: Option<PairSample>,
}

/// What became of a connection's low-priority probes, and of new data that left at low priority from the tail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbeInfo {
    /// Probes sent, and their payload bytes, which no other counter has.
    pub sent: u64,
    /// Payload bytes of them.
    pub bytes_sent: u64,
    /// Probes that the peer answered.
    pub acked: u64,
    /// Probes without an answer for a retransmission timeout, and segments with what had left from the tail and had to leave once more.
    pub lost: u64,
    /// Answers that no honest peer gives. With a peer that names what it answers (`docs/wire.md`, "Probe echo"): a time at which
    /// nothing left, or a probe that it has named before, as far back as the last 1024 departures; a network that duplicates
    /// packets makes such a repetition, too. With another peer: duplicates of octets that were never sent, but not of those that were,
    /// which the network may have duplicated. And acknowledgements of data from the tail that was not sent. None of them opens a window.
    pub refused: u64,
    /// Payload bytes that arrived from the tail, and that the window never had to carry.
    pub carried: u64,
}

/// Requests for another rate of acknowledgements, ours and the peer's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AckRateInfo {
    /// How many segments an ACK is to be for that the peer sends, by our wish; zero where it is its own choice.
    pub ratio: u8,
    /// Requests sent.
    pub requests: u64,
    /// Requests of the peer's that were heeded.
    pub heeded: u64,
    /// Those that were not, for they asked for too few ACKs.
    pub refused: u64,
}

/// What became of a connection's requests to routers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetworkInfo {
    /// Requests sent.
    pub requests: u64,
    /// Answers that grant something.
    pub granted: u64,
    /// Denials: some router did not stamp the request, or refused it, or there was no answer.
    pub denied: u64,
    /// Answers that were forged, replayed, not asked for, or too late.
    pub refused: u64,
}

/// What became of what an earlier connection had come to, for launches that begin there (RFC 9959): one of these is 1 at most, and all
/// are 0 where there was nothing, or it is not decided yet, or it was no more than there was without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedPathInfo {
    /// The connection sent what the memory says.
    pub used: u64,
    /// It was learnt too long ago ([`PathCacheConfig::max_age`](crate::PathCacheConfig::max_age)).
    pub too_old: u64,
    /// It is of another path, by its round trip ([`SavedPath::may_be`](longhaul_cc::SavedPath::may_be)).
    pub other_path: u64,
    /// No connection can have come to it ([`SavedPath::is_possible`](longhaul_cc::SavedPath::is_possible)).
    pub damaged: u64,
}
