//! What a connection tells of itself.

use longhaul_cc::Startup;
use longhaul_tcp::{AckRateInfo, HostError, Info, NetworkInfo, PairInfo, ProbeInfo, SavedPathInfo};
use longhaul_units::Span;
use serde::Serialize;

use crate::io::Buffers;
use crate::shared::SocketStats;

/// A snapshot of a connection, after Linux's `struct tcp_info`: fields of its names mean the same and have the same
/// units (times are microseconds, rates bytes per second, `snd_cwnd` and `snd_ssthresh` segments). What that struct
/// has and a userspace stack does not, is left out; what it lacks comes after.
///
/// It serialises to a flat object of these names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TcpInfo {
    /// The state, as RFC 9293 writes it: `ESTABLISHED`, `FIN-WAIT-1`, ...
    pub state: &'static str,
    /// Where repair stands: `open`, `recovery` (fast recovery) or `timeout`.
    pub ca_state: &'static str,
    /// Timeouts in a row since the last acknowledgment of new data: the exponent of `rto`'s doubling.
    pub backoff: u32,
    /// What both sides agreed on.
    pub options: TcpOptions,
    /// The retransmission timeout now, in microseconds.
    pub rto: u64,
    /// Payload of a full segment, in bytes.
    pub snd_mss: u32,
    /// Segments in flight.
    pub unacked: u64,
    /// UDP payload that the path is known to pass, in bytes (RFC 8899's PLPMTU).
    pub pmtu: u32,
    /// The smoothed RTT in microseconds; 0 before the first sample.
    pub rtt: u64,
    /// The RTT's mean deviation in microseconds.
    pub rttvar: u64,
    /// The slow-start threshold in segments; `None` while there is none.
    pub snd_ssthresh: Option<u64>,
    /// The congestion window in segments.
    pub snd_cwnd: u64,
    /// Our receive buffer in bytes, as auto-tuning has it now.
    pub rcv_space: u64,
    /// Segments retransmitted.
    pub total_retrans: u64,
    /// The pacing rate in bytes per second; `None` is unlimited.
    pub pacing_rate: Option<u64>,
    /// Its ceiling, if one was set.
    pub max_pacing_rate: Option<u64>,
    /// Bytes the peer has acknowledged.
    pub bytes_acked: u64,
    /// New payload bytes received.
    pub bytes_received: u64,
    /// Segments sent.
    pub segs_out: u64,
    /// Segments received.
    pub segs_in: u64,
    /// Bytes written and not yet sent.
    pub notsent_bytes: u64,
    /// The smallest RTT in microseconds; 0 before the first sample.
    pub min_rtt: u64,
    /// Segments with data sent.
    pub data_segs_out: u64,
    /// The newest sample of the rate at which the peer receives, in bytes per second; 0 before the first.
    pub delivery_rate: u64,
    /// Microseconds for which there was something to send: all but those limited by the application.
    pub busy_time: u64,
    /// Microseconds for which the peer's window kept data back.
    pub rwnd_limited: u64,
    /// Microseconds for which a full send buffer kept the application waiting.
    pub sndbuf_limited: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes of retransmissions.
    pub bytes_retrans: u64,
    /// Duplicates that the peer reported (RFC 2883).
    pub dsack_dups: u64,
    /// The peer's receive window in bytes.
    pub snd_wnd: u64,

    /// The congestion controller's name.
    pub congestion: String,
    /// The stage that it is in.
    pub phase: &'static str,
    /// What became of its start-up scheme (Jump-Start, Swift Start, ...): `running`, `used` or `given-up`; `None` if it has none.
    pub startup: Option<&'static str>,
    /// Why it was given up, if it was: the connection started as it would have without it.
    pub startup_given_up: Option<&'static str>,
    /// The congestion window in bytes.
    pub snd_cwnd_bytes: u64,
    /// The slow-start threshold in bytes; `None` while there is none.
    pub snd_ssthresh_bytes: Option<u64>,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// The newest RTT sample in microseconds; 0 before the first.
    pub latest_rtt: u64,
    /// Bytes that reached the peer, out of order ones included.
    pub delivered_bytes: u64,
    /// Bytes held lost.
    pub lost_bytes: u64,
    /// Payload bytes that were received more than once.
    pub rcv_duplicate_bytes: u64,
    /// Payload bytes that were dropped for want of memory.
    pub rcv_refused_bytes: u64,
    /// Bytes received in order and not yet read.
    pub unread_bytes: u64,
    /// Segments received with the ECN mark "congestion experienced".
    pub received_ce: u64,
    /// Segments sent with that mark to see whether the peer echoes it, where losses made that doubtful (RFC 3168, section 20.2).
    pub echoes_asked: u64,
    /// Those of them that arrived and were not echoed. From two on segments are not ECN-capable.
    pub echoes_missing: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes (RFC 8985).
    pub tail_probes: u64,
    /// Recovery episodes, timeouts included.
    pub recoveries: u64,
    /// Those that turned out to be unnecessary and were undone.
    pub spurious_recoveries: u64,
    /// Challenge ACKs sent (RFC 5961).
    pub challenge_acks: u64,
    /// Segments dropped because their timestamp was too old (RFC 7323).
    pub paws_dropped: u64,
    /// How often the peer took back a part of its window, by more than window scaling rounds (RFC 9293, section 3.8.6; RFC 7323, section
    /// 2.4).
    pub windows_shrunk: u64,
    /// What the system last said against the path (RFC 9293, section 3.9.2.2): `refused`, `host-unreachable`,
    /// `network-unreachable`, `network-down`, `prohibited`, `other`. A single report ends no established connection.
    pub host_error: Option<&'static str>,
    /// How often it said something against it.
    pub host_errors: u64,
    /// Whether three retransmissions or more in a row are unanswered, so that the path is in doubt: R1 of RFC 9293,
    /// section 3.8.3.
    pub r1_reached: bool,
    /// Microseconds for which data may stay unacknowledged, if it was set or the peer asked for it (RFC 5482).
    pub user_timeout: Option<u64>,
    /// The user timeout, in microseconds, that the peer last told of (RFC 5482).
    pub peer_user_timeout: Option<u64>,
    /// Whether the peer reports when our segments arrived.
    pub arrival_times: bool,
    /// What flipped pairs told of the path, if they are sent.
    pub pairs: Option<TcpPairs>,
    /// What became of low-priority probes, if the controller sends them.
    pub probes: Option<TcpProbes>,
    /// What routers were asked and said, if the controller asks them.
    pub network: Option<TcpNetwork>,
    /// What became of the memory of the path, if there is one (`longhaul_tcp::Config::path_cache`) and the start begins with it.
    pub saved_path: Option<TcpSavedPath>,
    /// How often either side was asked to acknowledge, if both know the option for it.
    pub ack_rate: Option<TcpAckRate>,
    /// What limited the sender, for how long each.
    pub limited_by: LimitedBy,
    /// Seconds since the connection began.
    pub age: f64,
    /// Bytes of memory that the connection's buffers and records take.
    pub memory: u64,
    /// The UDP socket under it; a listener's connections share one.
    pub socket: SocketInfo,
}

/// Options that both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TcpOptions {
    /// Selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Window scaling (RFC 7323).
    pub wscale: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Timestamps tick in microseconds, not milliseconds.
    pub microseconds: bool,
}

/// Seconds for which the sender was limited by each; together they are the time since the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LimitedBy {
    /// The application had nothing to send.
    pub app: f64,
    /// The congestion window.
    pub cwnd: f64,
    /// The pacer.
    pub pacing: f64,
    /// The peer's receive window.
    pub peer_window: f64,
    /// Our send buffer.
    pub send_buffer: f64,
    /// The processor or the socket: there was more to send when its turn was over.
    pub cpu: f64,
}

impl LimitedBy {
    pub(crate) fn of(info: &Info) -> Self {
        let [app, cwnd, pacing, peer_window, send_buffer, cpu] = info.limited.map(Span::as_secs_f64);
        Self { app, cwnd, pacing, peer_window, send_buffer, cpu }
    }

    /// Each by its name.
    #[must_use]
    pub const fn fields(&self) -> [(&'static str, f64); 6] {
        [
            ("app", self.app),
            ("cwnd", self.cwnd),
            ("pacing", self.pacing),
            ("peer_window", self.peer_window),
            ("send_buffer", self.send_buffer),
            ("cpu", self.cpu),
        ]
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            app: self.app - earlier.app,
            cwnd: self.cwnd - earlier.cwnd,
            pacing: self.pacing - earlier.pacing,
            peer_window: self.peer_window - earlier.peer_window,
            send_buffer: self.send_buffer - earlier.send_buffer,
            cpu: self.cpu - earlier.cpu,
        }
    }

    /// What took the most time, if any took some.
    #[must_use]
    pub fn most(&self) -> Option<&'static str> {
        let most = self.fields().into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        most.filter(|(_, seconds)| *seconds > 0.0).map(|(name, _)| name)
    }
}

/// The UDP socket under a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SocketInfo {
    /// Datagrams that the kernel dropped because the receive buffer was full: loss on this machine, not in the network.
    pub kernel_drops: u64,
    /// Sends that the kernel refused for a passing reason: no memory, a firewall, no route.
    pub send_faults: u64,
    /// Sends that were longer than the first hop takes.
    pub too_long: u64,
    /// Bytes of send buffer that the kernel granted.
    pub send_buffer: u64,
    /// Bytes of receive buffer that the kernel granted.
    pub recv_buffer: u64,
}

/// What flipped pairs of segments told of the path (TCPProbe: `longhaul_tcp::Config::probe_pairs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TcpPairs {
    /// The rate of the narrow link, in bytes of IP packets per second; `None` before the first pair.
    pub capacity: Option<u64>,
    /// Whether the estimate has converged.
    pub converged: bool,
    /// Pairs that were measured.
    pub measured: u64,
    /// Of those, the ones that the receiver's offload merged: they say nothing.
    pub coalesced: u64,
    /// Pairs of which nothing was learnt.
    pub dropped: u64,
}

impl TcpPairs {
    fn new(info: PairInfo) -> Self {
        Self {
            capacity: info.capacity.map(|rate| rate.as_bytes_per_sec()),
            converged: info.converged,
            measured: info.measured,
            coalesced: info.coalesced,
            dropped: info.dropped,
        }
    }
}

/// What became of low-priority probes: copies of data beside the window (TCP-Peach, TCP-Swift and their kin), and new data that
/// left beside it from the end of what was queued (RC3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TcpProbes {
    /// Probes sent. They count in `segs_out` and in nothing else of what was sent.
    pub sent: u64,
    /// Payload bytes of them.
    pub bytes_sent: u64,
    /// Probes that the peer answered.
    pub acked: u64,
    /// Probes without an answer for a retransmission timeout, and segments with what had left from the tail and had to leave once
    /// more. That is no loss, and no sign of congestion.
    pub lost: u64,
    /// Answers that no honest peer gives, and that open no window. With a peer that has the option of `docs/wire.md`, "Probe echo": of a
    /// time at which nothing left, and to a probe that was answered before; a network that duplicates packets makes such a repetition,
    /// too. With another peer: duplicates of octets that never left. What did leave the network may have duplicated, so that those
    /// count nowhere. And acknowledgements of data from the tail that was not sent.
    pub refused: u64,
    /// Payload bytes that arrived from the tail, and that the window never had to carry.
    pub carried: u64,
}

impl TcpProbes {
    fn new(info: ProbeInfo) -> Self {
        let ProbeInfo { sent, bytes_sent, acked, lost, refused, carried, .. } = info;
        Self { sent, bytes_sent, acked, lost, refused, carried }
    }
}

/// Requests for another rate of acknowledgements, ours and the peer's (draft-ietf-tcpm-ack-rate-request).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TcpAckRate {
    /// How many segments an ACK is to be for that the peer sends, by our wish; zero where it is its own choice.
    pub ratio: u8,
    /// Requests sent.
    pub requests: u64,
    /// Requests of the peer's that were heeded.
    pub heeded: u64,
    /// Those that were not, for they asked for too few ACKs.
    pub refused: u64,
}

impl TcpAckRate {
    fn new(info: AckRateInfo) -> Self {
        let AckRateInfo { ratio, requests, heeded, refused, .. } = info;
        Self { ratio, requests, heeded, refused }
    }
}

/// What became of requests to routers (Quick-Start, RCP, XCP: `longhaul_tcp::Config::routers_answer`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TcpNetwork {
    /// Requests sent.
    pub requests: u64,
    /// Answers that grant something.
    pub granted: u64,
    /// Denials, no answer to a SYN included.
    pub denied: u64,
    /// Answers that were forged, replayed, not asked for, or too late.
    pub refused: u64,
}

impl TcpNetwork {
    fn new(info: NetworkInfo) -> Self {
        let NetworkInfo { requests, granted, denied, refused, .. } = info;
        Self { requests, granted, denied, refused }
    }
}

/// What became of what an earlier connection to the host had come to, for starts that begin there (Careful Resume, TCP Fast Start): one of
/// these is 1 at most, and all are 0 where there was nothing, or it is not decided yet, or it was no more than there was without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TcpSavedPath {
    /// The connection sent what the memory says.
    pub used: u64,
    /// It was learnt too long ago (`longhaul_tcp::PathCacheConfig::max_age`).
    pub too_old: u64,
    /// It is of another path, by its round trip (RFC 9959, section 3.2).
    pub other_path: u64,
    /// No connection can have come to it.
    pub damaged: u64,
}

impl TcpSavedPath {
    fn new(info: SavedPathInfo) -> Self {
        let SavedPathInfo { used, too_old, other_path, damaged, .. } = info;
        Self { used, too_old, other_path, damaged }
    }
}

impl SocketInfo {
    pub(crate) fn new(stats: SocketStats, buffers: Buffers) -> Self {
        Self {
            kernel_drops: stats.kernel_drops,
            send_faults: stats.send_faults,
            too_long: stats.too_long,
            send_buffer: buffers.send as u64,
            recv_buffer: buffers.recv as u64,
        }
    }
}

impl TcpInfo {
    pub(crate) fn new(info: Info, socket: SocketInfo, max_pacing_rate: Option<u64>) -> Self {
        let limited_by = LimitedBy::of(&info);
        let micros = |span: Option<Span>| span.map_or(0, Span::as_micros);
        let mss = u64::from(info.mss).max(1);
        let [sack, timestamps, wscale, ecn, microseconds] = info.options;
        let [app, _, _, peer_window, send_buffer, _] = info.limited;
        let all: u64 = info.limited.iter().map(|span| span.as_nanos()).sum();
        Self {
            state: info.state.name(),
            ca_state: info.recovery,
            backoff: info.backoff,
            options: TcpOptions { sack, timestamps, wscale, ecn, microseconds },
            rto: info.rto.as_micros(),
            snd_mss: info.mss.into(),
            unacked: info.unacked_segments,
            pmtu: info.plpmtu.into(),
            rtt: micros(info.srtt),
            rttvar: info.rttvar.as_micros(),
            snd_ssthresh: info.ssthresh.map(|bytes| bytes.0 / mss),
            snd_cwnd: info.cwnd.0 / mss,
            rcv_space: info.recv_buffer.0,
            total_retrans: info.segments_retransmitted,
            pacing_rate: info.pacing_rate.map(|rate| rate.as_bytes_per_sec()),
            max_pacing_rate,
            bytes_acked: info.bytes_acked,
            bytes_received: info.bytes_received,
            segs_out: info.segments_out,
            segs_in: info.segments_in,
            notsent_bytes: info.unsent.0,
            min_rtt: micros(info.min_rtt),
            data_segs_out: info.data_segments_out,
            delivery_rate: info.delivery_rate.map_or(0, |rate| rate.as_bytes_per_sec()),
            busy_time: all.saturating_sub(app.as_nanos()) / 1000,
            rwnd_limited: peer_window.as_micros(),
            sndbuf_limited: send_buffer.as_micros(),
            bytes_sent: info.bytes_sent,
            bytes_retrans: info.bytes_retransmitted,
            dsack_dups: info.dsacks,
            snd_wnd: info.peer_window.0,
            congestion: info.congestion,
            phase: info.phase,
            startup: match info.startup {
                Startup::Absent => None,
                Startup::Running => Some("running"),
                Startup::Used => Some("used"),
                Startup::GivenUp(_) => Some("given-up"),
            },
            startup_given_up: match info.startup {
                Startup::GivenUp(reason) => Some(reason),
                _ => None,
            },
            snd_cwnd_bytes: info.cwnd.0,
            snd_ssthresh_bytes: info.ssthresh.map(|bytes| bytes.0),
            in_flight_bytes: info.in_flight.0,
            latest_rtt: micros(info.latest_rtt),
            delivered_bytes: info.delivered,
            lost_bytes: info.bytes_lost,
            rcv_duplicate_bytes: info.duplicate_bytes_in,
            rcv_refused_bytes: info.bytes_refused,
            unread_bytes: info.unread.0,
            received_ce: info.ce_in,
            echoes_asked: info.echoes_asked,
            echoes_missing: info.echoes_missing,
            timeouts: info.timeouts,
            tail_probes: info.tail_probes,
            recoveries: info.recoveries,
            spurious_recoveries: info.spurious_recoveries,
            challenge_acks: info.challenge_acks,
            paws_dropped: info.paws_dropped,
            windows_shrunk: info.windows_shrunk,
            host_error: info.host_error.map(HostError::name),
            host_errors: info.host_errors,
            r1_reached: info.r1_reached,
            user_timeout: info.user_timeout.map(Span::as_micros),
            peer_user_timeout: info.peer_user_timeout.map(Span::as_micros),
            arrival_times: info.arrival_times,
            pairs: info.pairs.map(TcpPairs::new),
            probes: info.probes.map(TcpProbes::new),
            network: info.network.map(TcpNetwork::new),
            saved_path: info.saved_path.map(TcpSavedPath::new),
            ack_rate: info.ack_rate.map(TcpAckRate::new),
            limited_by,
            age: info.age.as_secs_f64(),
            memory: info.memory as u64,
            socket,
        }
    }
}

#[cfg(test)]
mod tests;
