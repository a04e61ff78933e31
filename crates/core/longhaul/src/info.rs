//! Snapshots of a connection's state and counters.

use std::fmt;
use std::time::Duration;

use longhaul_cc::StartupOutcome;
use longhaul_tcp::{HostError, Info, NegotiatedOptions, RecoveryState, State as TcpState};
use longhaul_units::{Rate, Span};

use self::experiments::TcpExperiments;
use crate::io::Buffers;
use crate::shared::SocketStats;

#[cfg_attr(not(feature = "unstable-experiments"), expect(unreachable_pub, reason = "public with the feature"))]
pub(crate) mod experiments;
#[cfg(feature = "serde")]
mod serialize;

/// A snapshot of a connection, modelled on Linux's `struct tcp_info`: the first fields have the names and meanings of
/// that struct, with the unit of numbers that are no plain counts appended. Fields of that struct that a userspace
/// stack does not have are omitted; additional fields follow at the end.
///
/// `{:?}` shows the main fields, and `{:#?}` all of them. With the feature `serde`, it serialises to an object with these field names. Durations are numbers in seconds.
#[derive(Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TcpInfo {
    /// The state. It serialises to its [name](TcpState::name) in RFC 9293: `ESTABLISHED`, `FIN-WAIT-1`, ...
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::text"))]
    pub state: TcpState,
    /// The state of loss recovery. It serialises to its [name](RecoveryState::name): `open`, `recovery` or `timeout`.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::text"))]
    pub ca_state: RecoveryState,
    /// Consecutive retransmission timeouts since the last acknowledgment of new data: `rto` has been doubled this
    /// many times.
    pub backoff: u32,
    /// Options negotiated in the handshake.
    pub options: TcpOptions,
    /// The current retransmission timeout.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::seconds"))]
    pub rto: Duration,
    /// Payload of a full-sized segment.
    pub snd_mss_bytes: u32,
    /// Segments in flight.
    pub unacked_segments: u64,
    /// UDP payload that the path is known to carry (PLPMTU, RFC 8899).
    pub pmtu_bytes: u32,
    /// The smoothed RTT; `None` before the first sample.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::seconds"))]
    pub rtt: Option<Duration>,
    /// The mean deviation of the RTT.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::seconds"))]
    pub rttvar: Duration,
    /// The slow-start threshold; `None` if none is set.
    pub snd_ssthresh_segments: Option<u64>,
    /// The congestion window.
    pub snd_cwnd_segments: u64,
    /// The current size of the receive buffer, which auto-tuning adjusts.
    pub rcv_space_bytes: u64,
    /// Segments retransmitted.
    pub total_retrans: u64,
    /// The pacing rate; `None` if unlimited.
    pub pacing_bytes_per_second: Option<u64>,
    /// The ceiling of the pacing rate, if one was set.
    pub max_pacing_bytes_per_second: Option<u64>,
    /// Bytes the peer has acknowledged.
    pub bytes_acked: u64,
    /// New payload bytes received.
    pub bytes_received: u64,
    /// Segments sent.
    pub segs_out: u64,
    /// Segments received.
    pub segs_in: u64,
    /// Bytes written but not yet sent.
    pub notsent_bytes: u64,
    /// The smallest RTT; `None` before the first sample.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::seconds"))]
    pub min_rtt: Option<Duration>,
    /// Segments sent that carry data.
    pub data_segs_out: u64,
    /// The latest sample of the delivery rate; `None` before the first sample.
    pub delivery_bytes_per_second: Option<u64>,
    /// The payload rate of the path as estimated by the congestion controller: the bottleneck's capacity under
    /// `copa-cubic`, the bottleneck bandwidth under BBR. `None` if there is no estimate.
    pub bandwidth_bytes_per_second: Option<u64>,
    /// Time during which there was data to send, that is, when the sender was not application-limited.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::seconds"))]
    pub busy_time: Duration,
    /// Time during which the sender was limited by the peer's receive window.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::seconds"))]
    pub rwnd_limited: Duration,
    /// Time during which the application waited because the send buffer was full.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::seconds"))]
    pub sndbuf_limited: Duration,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes retransmitted.
    pub bytes_retrans: u64,
    /// Duplicates that the peer has reported by DSACK (RFC 2883).
    pub dsack_dups: u64,
    /// The peer's receive window.
    pub snd_wnd_bytes: u64,

    /// The congestion controller's name.
    pub congestion: String,
    /// The phase of the congestion controller, such as slow start.
    pub phase: &'static str,
    /// Outcome of the start-up scheme (Jump-Start, Swift Start, ...); `None` if there is none. It serialises to
    /// `running`, `used` or `given-up`.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::optional_text"))]
    pub startup: Option<TcpStartup>,
    /// Why the start-up scheme was given up, if it was. The connection then started as it would have without the
    /// scheme.
    pub startup_given_up: Option<&'static str>,
    /// The congestion window.
    pub snd_cwnd_bytes: u64,
    /// The slow-start threshold; `None` if none is set.
    pub snd_ssthresh_bytes: Option<u64>,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// The latest RTT sample; `None` before the first.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::seconds"))]
    pub latest_rtt: Option<Duration>,
    /// Bytes that have reached the peer, including out-of-order data.
    pub delivered_bytes: u64,
    /// Bytes marked lost.
    pub lost_bytes: u64,
    /// Payload bytes received more than once.
    pub rcv_duplicate_bytes: u64,
    /// Payload bytes dropped because a memory limit was reached.
    pub rcv_refused_bytes: u64,
    /// Bytes received in order but not yet read.
    pub unread_bytes: u64,
    /// Segments received with the ECN codepoint CE (Congestion Experienced).
    pub received_ce: u64,
    /// Segments sent with CE to test whether the peer echoes it, after losses made this doubtful (RFC 3168, section
    /// 20.2).
    pub echoes_asked: u64,
    /// Such segments that arrived but were not echoed. Once there are two, segments are sent as not ECN-capable.
    pub echoes_missing: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes (RFC 8985).
    pub tail_probes: u64,
    /// Recovery episodes, including those after a retransmission timeout.
    pub recoveries: u64,
    /// Recovery episodes that were found spurious and undone.
    pub spurious_recoveries: u64,
    /// Challenge ACKs sent (RFC 5961).
    pub challenge_acks: u64,
    /// Segments dropped by PAWS because their timestamp was too old (RFC 7323).
    pub paws_dropped: u64,
    /// How often the peer has shrunk its window by more than the rounding of window scaling explains (RFC 9293,
    /// section 3.8.6; RFC 7323, section 2.4).
    pub windows_shrunk: u64,
    /// The latest ICMP or local error reported for the path (RFC 9293, section 3.9.2.2). A single report does not end
    /// an established connection. It serialises to its [name](HostError::name).
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::name"))]
    pub host_error: Option<HostError>,
    /// How often such errors have been reported.
    pub host_errors: u64,
    /// Whether at least three consecutive retransmissions have gone unanswered, so that the path is in doubt
    /// (threshold R1 of RFC 9293, section 3.8.3).
    pub r1_reached: bool,
    /// The user timeout: how long data may stay unacknowledged. `None` if it was neither set nor adopted from the peer
    /// (RFC 5482).
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::seconds"))]
    pub user_timeout: Option<Duration>,
    /// The user timeout that the peer has announced last (RFC 5482).
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::seconds"))]
    pub peer_user_timeout: Option<Duration>,
    /// State of experiments, which [`experiments`](Self::experiments) returns.
    #[cfg_attr(all(feature = "serde", feature = "unstable-experiments"), serde(flatten))]
    #[cfg_attr(all(feature = "serde", not(feature = "unstable-experiments")), serde(skip))]
    pub(crate) experiments: TcpExperiments,
    /// Time for which each possible limit has held the sender back.
    pub limited_by: LimitedBy,
    /// Time since the connection was opened.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize::seconds"))]
    pub age: Duration,
    /// Memory used by the connection's buffers and other state.
    pub memory_bytes: u64,
    /// The UDP socket that carries the connection; the connections of a listener share one.
    pub socket: SocketInfo,
}

/// Outcome of a start-up scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TcpStartup {
    /// The outcome is not known yet.
    Running,
    /// The scheme set the window, the threshold or the pace.
    Used,
    /// The scheme changed nothing.
    GivenUp,
}

impl fmt::Display for TcpStartup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Used => "used",
            Self::GivenUp => "given-up",
        })
    }
}

/// Options negotiated in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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
    /// Whether timestamps tick in microseconds instead of milliseconds.
    pub microseconds: bool,
}

/// What holds a sender back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendLimit {
    /// The application: it has no data to send.
    App,
    /// The congestion window.
    Cwnd,
    /// The pacer.
    Pacing,
    /// The peer's receive window.
    PeerWindow,
    /// Our send buffer.
    SendBuffer,
    /// The processor or the UDP socket: there was more to send at the end of a turn.
    Cpu,
}

impl SendLimit {
    /// Returns the name of its field in [`LimitedBy`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Cwnd => "cwnd",
            Self::Pacing => "pacing",
            Self::PeerWindow => "peer_window",
            Self::SendBuffer => "send_buffer",
            Self::Cpu => "cpu",
        }
    }
}

/// Time for which each limit has held the sender back. The sum is the time since the handshake.
///
/// With the feature `serde`, it serialises to an object of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitedBy {
    /// The application: it had no data to send.
    pub app: Duration,
    /// The congestion window.
    pub cwnd: Duration,
    /// The pacer.
    pub pacing: Duration,
    /// The peer's receive window.
    pub peer_window: Duration,
    /// Our send buffer.
    pub send_buffer: Duration,
    /// The processor or the UDP socket: there was more to send at the end of a turn.
    pub cpu: Duration,
}

impl LimitedBy {
    pub(crate) fn of(info: &Info) -> Self {
        let [app, cwnd, pacing, peer_window, send_buffer, cpu] = info.limited.map(Duration::from);
        Self { app, cwnd, pacing, peer_window, send_buffer, cpu }
    }

    /// Returns all limits and their times.
    pub fn fields(&self) -> impl Iterator<Item = (SendLimit, Duration)> + use<> {
        let Self { app, cwnd, pacing, peer_window, send_buffer, cpu } = *self;
        let sender = [(SendLimit::App, app), (SendLimit::Cwnd, cwnd), (SendLimit::Pacing, pacing)];
        let others =
            [(SendLimit::PeerWindow, peer_window), (SendLimit::SendBuffer, send_buffer), (SendLimit::Cpu, cpu)];
        sender.into_iter().chain(others)
    }

    /// Returns the time added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            app: self.app.saturating_sub(earlier.app),
            cwnd: self.cwnd.saturating_sub(earlier.cwnd),
            pacing: self.pacing.saturating_sub(earlier.pacing),
            peer_window: self.peer_window.saturating_sub(earlier.peer_window),
            send_buffer: self.send_buffer.saturating_sub(earlier.send_buffer),
            cpu: self.cpu.saturating_sub(earlier.cpu),
        }
    }

    /// Returns the limit of the largest field, unless all are zero.
    #[must_use]
    pub fn most(&self) -> Option<SendLimit> {
        let most = self.fields().max_by_key(|(_, time)| *time);
        most.filter(|(_, time)| !time.is_zero()).map(|(limit, _)| limit)
    }
}

/// The UDP socket that carries a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SocketInfo {
    /// Datagrams that the kernel dropped because the receive buffer was full. This is loss on the local host, not in
    /// the network.
    pub kernel_drops: u64,
    /// Sends that the kernel refused for a transient reason: no memory, a firewall rule, no route.
    pub send_faults: u64,
    /// Sends that exceeded the MTU of the first hop.
    pub too_long: u64,
    /// Pauses in which the socket was left unread, so that one wake-up received several datagrams. They last up to a 64th
    /// of the round-trip time, or 50 us where the sender does not wait for their end, while data streams in.
    pub read_pauses: u64,
    /// Size of the send buffer, as granted by the kernel.
    pub send_buffer_bytes: u64,
    /// Size of the receive buffer, as granted by the kernel.
    pub recv_buffer_bytes: u64,
}

impl SocketInfo {
    pub(crate) fn new(stats: SocketStats, buffers: Buffers) -> Self {
        Self {
            kernel_drops: stats.kernel_drops,
            send_faults: stats.send_faults,
            too_long: stats.too_long,
            read_pauses: stats.read_pauses,
            send_buffer_bytes: buffers.send as u64,
            recv_buffer_bytes: buffers.recv as u64,
        }
    }
}

impl TcpInfo {
    pub(crate) fn new(info: Info, socket: SocketInfo, max_pacing_rate: Option<Rate>) -> Self {
        let limited_by = LimitedBy::of(&info);
        let duration = |span: Option<Span>| span.map(Duration::from);
        let mss = u64::from(info.mss).max(1);
        let experiments = TcpExperiments::new(&info);
        let NegotiatedOptions { sack, timestamps, window_scaling: wscale, ecn, microseconds } = info.options;
        let [app, _, _, peer_window, send_buffer, _] = info.limited;
        let all = info.limited.into_iter().fold(Span::ZERO, |sum, span| sum + span);
        Self {
            state: info.state,
            ca_state: info.recovery,
            backoff: info.backoff,
            options: TcpOptions { sack, timestamps, wscale, ecn, microseconds },
            rto: info.rto.into(),
            snd_mss_bytes: info.mss.into(),
            unacked_segments: info.unacked_segments,
            pmtu_bytes: info.plpmtu.into(),
            rtt: duration(info.srtt),
            rttvar: info.rttvar.into(),
            snd_ssthresh_segments: info.ssthresh.map(|bytes| bytes.0 / mss),
            snd_cwnd_segments: info.cwnd.0 / mss,
            rcv_space_bytes: info.recv_buffer.0,
            total_retrans: info.segments_retransmitted,
            pacing_bytes_per_second: info.pacing_rate.map(Rate::as_bytes_per_sec),
            max_pacing_bytes_per_second: max_pacing_rate.map(Rate::as_bytes_per_sec),
            bytes_acked: info.bytes_acked,
            bytes_received: info.bytes_received,
            segs_out: info.segments_out,
            segs_in: info.segments_in,
            notsent_bytes: info.unsent.0,
            min_rtt: duration(info.min_rtt),
            data_segs_out: info.data_segments_out,
            delivery_bytes_per_second: info.delivery_rate.map(Rate::as_bytes_per_sec),
            bandwidth_bytes_per_second: info.bandwidth.map(Rate::as_bytes_per_sec),
            busy_time: (all - app).into(),
            rwnd_limited: peer_window.into(),
            sndbuf_limited: send_buffer.into(),
            bytes_sent: info.bytes_sent,
            bytes_retrans: info.bytes_retransmitted,
            dsack_dups: info.dsacks,
            snd_wnd_bytes: info.peer_window.0,
            congestion: info.congestion,
            phase: info.phase,
            startup: match info.startup {
                StartupOutcome::Running => Some(TcpStartup::Running),
                StartupOutcome::Used => Some(TcpStartup::Used),
                StartupOutcome::GivenUp(_) => Some(TcpStartup::GivenUp),
                _ => None,
            },
            startup_given_up: match info.startup {
                StartupOutcome::GivenUp(reason) => Some(reason),
                _ => None,
            },
            snd_cwnd_bytes: info.cwnd.0,
            snd_ssthresh_bytes: info.ssthresh.map(|bytes| bytes.0),
            in_flight_bytes: info.in_flight.0,
            latest_rtt: duration(info.latest_rtt),
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
            host_error: info.host_error,
            host_errors: info.host_errors,
            r1_reached: info.r1_reached,
            user_timeout: duration(info.user_timeout),
            peer_user_timeout: duration(info.peer_user_timeout),
            experiments,
            limited_by,
            age: info.age.into(),
            memory_bytes: info.memory as u64,
            socket,
        }
    }
}

#[cfg(test)]
mod tests;
