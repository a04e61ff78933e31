//! Snapshots of a connection's state and counters.

use std::time::Duration;

use longhaul_cc::StartupOutcome;
use longhaul_tcp::{HostError, Info, NegotiatedOptions as TcpOptions, RecoveryState, State as TcpState};
use longhaul_units::{Bytes, Rate, Span, named};

use self::experiments::TcpExperiments;
use crate::io::Buffers;

/// Declares a snapshot, whose constructor takes the arguments in parentheses. Each field has the value that follows its
/// type, and serialises as specified by [`serialize::Value`].
macro_rules! snapshot {
    ($(#[$about:meta])* $public:vis struct $name:ident($($from:ident: $source:ty),*) {
        $($(#[$doc:meta])* $vis:vis $field:ident: $type:ty = $value:expr,)*
    }) => {
        $(#[$about])*
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        $public struct $name {
            $(
                $(#[$doc])*
                #[cfg_attr(feature = "serde", serde(serialize_with = "crate::info::serialize::value"))]
                $vis $field: $type,
            )*
        }

        impl $name {
            pub(crate) fn new($($from: $source),*) -> Self {
                Self { $($field: $value),* }
            }
        }
    };
}

#[cfg_attr(not(feature = "unstable-experiments"), expect(unreachable_pub, reason = "public with the feature"))]
pub(crate) mod experiments;
#[cfg(feature = "serde")]
mod serialize;

snapshot! {
    /// A snapshot of a connection, modelled on Linux's `struct tcp_info`: the first fields have the names and meanings
    /// of that struct, with the unit appended to numbers that are not plain counts. Fields of that struct that a
    /// userspace stack does not have are omitted; additional fields follow at the end.
    ///
    /// `{:?}` shows the main fields, and `{:#?}` all of them. With the feature `serde`, it serialises to an object with
    /// these field names. Durations are numbers in seconds.
    #[derive(Clone, PartialEq)]
    pub struct TcpInfo(info: &Info, socket: SocketInfo, max_pacing_rate: Option<Rate>) {
        /// The state. It serialises to its [name](TcpState::name) in RFC 9293: `ESTABLISHED`, `FIN-WAIT-1`, ...
        pub state: TcpState = info.state,
        /// The state of loss recovery. It serialises to its [name](RecoveryState::name): `open`, `recovery` or
        /// `timeout`.
        pub ca_state: RecoveryState = info.recovery,
        /// Consecutive retransmission timeouts since the last acknowledgment of new data: `rto` has been doubled this
        /// many times.
        pub backoff: u32 = info.backoff,
        /// Options negotiated in the handshake.
        pub options: TcpOptions = info.options,
        /// The current retransmission timeout.
        pub rto: Duration = info.rto.into(),
        /// Payload of a full-sized segment.
        pub snd_mss_bytes: u32 = info.mss.into(),
        /// Number of segments in flight.
        pub unacked_segments: u64 = info.unacked_segments,
        /// UDP payload that the path is known to carry (PLPMTU, RFC 8899).
        pub pmtu_bytes: u32 = info.plpmtu.into(),
        /// The smoothed RTT; `None` before the first sample.
        pub rtt: Option<Duration> = info.srtt.map(Duration::from),
        /// The mean deviation of the RTT.
        pub rttvar: Duration = info.rttvar.into(),
        /// The slow-start threshold; `None` if none is set.
        pub snd_ssthresh_segments: Option<u64> = info.ssthresh.map(|bytes| segments(bytes, info.mss)),
        /// Congestion window in segments.
        pub snd_cwnd_segments: u64 = segments(info.cwnd, info.mss),
        /// The current size of the receive buffer, which auto-tuning adjusts.
        pub rcv_space_bytes: u64 = info.recv_buffer.0,
        /// Segments retransmitted.
        pub total_retrans: u64 = info.segments_retransmitted,
        /// The pacing rate; `None` if unlimited.
        pub pacing_bytes_per_second: Option<u64> = info.pacing_rate.map(Rate::as_bytes_per_sec),
        /// The upper limit of the pacing rate, if one was set.
        pub max_pacing_bytes_per_second: Option<u64> = max_pacing_rate.map(Rate::as_bytes_per_sec),
        /// Bytes that the peer has acknowledged.
        pub bytes_acked: u64 = info.bytes_acked,
        /// New payload bytes received.
        pub bytes_received: u64 = info.bytes_received,
        /// Number of segments sent.
        pub segs_out: u64 = info.segments_out,
        /// Number of segments received.
        pub segs_in: u64 = info.segments_in,
        /// Bytes written but not yet sent.
        pub notsent_bytes: u64 = info.unsent.0,
        /// The smallest RTT; `None` before the first sample.
        pub min_rtt: Option<Duration> = info.min_rtt.map(Duration::from),
        /// Number of data segments sent.
        pub data_segs_out: u64 = info.data_segments_out,
        /// The latest sample of the delivery rate; `None` before the first sample.
        pub delivery_bytes_per_second: Option<u64> = info.delivery_rate.map(Rate::as_bytes_per_sec),
        /// The payload rate of the path as estimated by the congestion controller: the bottleneck's capacity under
        /// `copa-cubic`, the bottleneck bandwidth under BBR. `None` if there is no estimate.
        pub bandwidth_bytes_per_second: Option<u64> = info.bandwidth.map(Rate::as_bytes_per_sec),
        /// Time during which there was data to send, that is, when the sender was not application-limited.
        pub busy_time: Duration = LimitedBy::new(info.limited).busy(),
        /// Time during which the sender was limited by the peer's receive window.
        pub rwnd_limited: Duration = info.limited[SendLimit::PeerWindow as usize].into(),
        /// Time during which the application waited because the send buffer was full.
        pub sndbuf_limited: Duration = info.limited[SendLimit::SendBuffer as usize].into(),
        /// Payload bytes sent, retransmissions included.
        pub bytes_sent: u64 = info.bytes_sent,
        /// Payload bytes retransmitted.
        pub bytes_retrans: u64 = info.bytes_retransmitted,
        /// Number of duplicates that the peer has reported by DSACK (RFC 2883).
        pub dsack_dups: u64 = info.dsacks,
        /// The peer's receive window.
        pub snd_wnd_bytes: u64 = info.peer_window.0,

        /// The congestion controller's name.
        pub congestion: String = info.congestion.clone(),
        /// The phase of the congestion controller, such as slow start.
        pub phase: &'static str = info.phase,
        /// Outcome of the start-up scheme (Jump-Start, Swift Start, ...); `None` if there is none. It serialises to
        /// `running`, `used` or `given-up`.
        pub startup: Option<TcpStartup> = TcpStartup::of(info.startup),
        /// Reason why the start-up scheme was abandoned, if it was. The connection then started as it would have
        /// without the scheme.
        pub startup_given_up: Option<&'static str> = given_up(info.startup),
        /// Congestion window in bytes.
        pub snd_cwnd_bytes: u64 = info.cwnd.0,
        /// The slow-start threshold; `None` if none is set.
        pub snd_ssthresh_bytes: Option<u64> = info.ssthresh.map(|bytes| bytes.0),
        /// Bytes in flight.
        pub in_flight_bytes: u64 = info.in_flight.0,
        /// The latest RTT sample; `None` before the first.
        pub latest_rtt: Option<Duration> = info.latest_rtt.map(Duration::from),
        /// Bytes that have reached the peer, including out-of-order data.
        pub delivered_bytes: u64 = info.delivered,
        /// Bytes marked lost.
        pub lost_bytes: u64 = info.bytes_lost,
        /// Payload bytes received more than once.
        pub rcv_duplicate_bytes: u64 = info.duplicate_bytes_in,
        /// Payload bytes dropped because a memory limit was reached.
        pub rcv_refused_bytes: u64 = info.bytes_refused,
        /// Bytes received in order but not yet read.
        pub unread_bytes: u64 = info.unread.0,
        /// Number of segments received with the ECN codepoint CE (Congestion Experienced).
        pub received_ce: u64 = info.ce_in,
        /// Number of segments sent with CE to test whether the peer echoes it, after losses made this doubtful (RFC
        /// 3168, section 20.2).
        pub echoes_asked: u64 = info.echoes_asked,
        /// Number of segments sent with CE that arrived but were not echoed. After two, all segments are sent as not
        /// ECN-capable.
        pub echoes_missing: u64 = info.echoes_missing,
        /// Retransmission timeouts.
        pub timeouts: u64 = info.timeouts,
        /// Tail loss probes (RFC 8985).
        pub tail_probes: u64 = info.tail_probes,
        /// Number of recovery episodes, including those after a retransmission timeout.
        pub recoveries: u64 = info.recoveries,
        /// Number of recovery episodes that were found spurious and undone.
        pub spurious_recoveries: u64 = info.spurious_recoveries,
        /// Challenge ACKs sent (RFC 5961).
        pub challenge_acks: u64 = info.challenge_acks,
        /// Number of segments dropped by PAWS because their timestamp was too old (RFC 7323).
        pub paws_dropped: u64 = info.paws_dropped,
        /// Number of times that the peer has shrunk its window by more than the rounding of window scaling explains
        /// (RFC 9293, section 3.8.6; RFC 7323, section 2.4).
        pub windows_shrunk: u64 = info.windows_shrunk,
        /// The latest ICMP or local error reported for the path (RFC 9293, section 3.9.2.2). A single report does not
        /// end an established connection. It serialises to its [name](HostError::name).
        pub host_error: Option<HostError> = info.host_error,
        /// Number of ICMP and local errors reported for the path.
        pub host_errors: u64 = info.host_errors,
        /// Whether at least three consecutive retransmissions have gone unanswered, so that the path is in doubt
        /// (threshold R1 of RFC 9293, section 3.8.3).
        pub r1_reached: bool = info.r1_reached,
        /// The user timeout: the time for which data may remain unacknowledged. `None` if it was neither set nor
        /// adopted from the peer (RFC 5482).
        pub user_timeout: Option<Duration> = info.user_timeout.map(Duration::from),
        /// The user timeout that the peer announced most recently (RFC 5482).
        pub peer_user_timeout: Option<Duration> = info.peer_user_timeout.map(Duration::from),
        /// State of experiments, which [`experiments`](Self::experiments) returns.
        #[cfg_attr(all(feature = "serde", feature = "unstable-experiments"), serde(flatten))]
        #[cfg_attr(all(feature = "serde", not(feature = "unstable-experiments")), serde(skip))]
        pub(crate) experiments: TcpExperiments = TcpExperiments::new(info),
        /// Time for which each possible limit has limited the sender.
        pub limited_by: LimitedBy = LimitedBy::new(info.limited),
        /// Time since the connection was opened.
        pub age: Duration = info.age.into(),
        /// Memory used by the connection's buffers and other state.
        pub memory_bytes: u64 = info.memory as u64,
        /// The UDP socket that carries the connection; the connections of a listener share one.
        pub socket: SocketInfo = socket,
    }
}

/// Converts a window to full-sized segments.
fn segments(window: Bytes, mss: u16) -> u64 {
    window.0 / u64::from(mss).max(1)
}

fn given_up(startup: StartupOutcome) -> Option<&'static str> {
    if let StartupOutcome::GivenUp(reason) = startup { Some(reason) } else { None }
}

named! {
    /// Outcome of a start-up scheme.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum TcpStartup {
        /// The outcome is not known yet.
        Running = "running",
        /// The scheme set the window, the threshold or the pace.
        Used = "used",
        /// The scheme changed nothing.
        GivenUp = "given-up",
    }
}

impl TcpStartup {
    fn of(outcome: StartupOutcome) -> Option<Self> {
        match outcome {
            StartupOutcome::Running => Some(Self::Running),
            StartupOutcome::Used => Some(Self::Used),
            StartupOutcome::GivenUp(_) => Some(Self::GivenUp),
            _ => None,
        }
    }
}

/// Declares the limits of a sender, in the order of the engine's, each with the field for its time.
macro_rules! limits {
    ($($(#[$doc:meta])* $limit:ident $field:ident,)*) => {
        /// A limit on the transmission of a sender.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum SendLimit {
            $($(#[$doc])* $limit,)*
        }

        impl SendLimit {
            /// Returns the name of the limit's field in [`LimitedBy`].
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$limit => stringify!($field),)*
                }
            }
        }

        snapshot! {
            /// Time for which each limit has been in effect. The sum is the time since the handshake.
            ///
            /// With the feature `serde`, it serialises to an object of seconds.
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct LimitedBy(times: [Span; 6]) {
                $($(#[$doc])* pub $field: Duration = times[SendLimit::$limit as usize].into(),)*
            }
        }

        impl LimitedBy {
            /// Returns all limits and their times.
            pub fn fields(&self) -> impl Iterator<Item = (SendLimit, Duration)> + use<> {
                [$((SendLimit::$limit, self.$field)),*].into_iter()
            }

            /// Returns the time added since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field)),* }
            }
        }
    };
}

limits! {
    /// The application: it has no data to send.
    App app,
    /// The congestion window.
    Cwnd cwnd,
    /// The pacer.
    Pacing pacing,
    /// The peer's receive window.
    PeerWindow peer_window,
    /// Our send buffer.
    SendBuffer send_buffer,
    /// The processor or the UDP socket: there was more to send at the end of a send turn.
    Cpu cpu,
}

impl LimitedBy {
    /// Returns the limit with the longest time, unless all are zero.
    #[must_use]
    pub fn most(&self) -> Option<SendLimit> {
        let most = self.fields().max_by_key(|(_, time)| *time);
        most.filter(|(_, time)| !time.is_zero()).map(|(limit, _)| limit)
    }

    /// Returns the time during which there was data to send.
    fn busy(&self) -> Duration {
        self.fields().map(|(_, time)| time).sum::<Duration>() - self.app
    }
}

snapshot! {
    /// The UDP socket that carries a connection.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SocketInfo(buffers: Buffers) {
        /// Number of datagrams that the kernel dropped because the receive buffer was full. This is loss on the local
        /// host, not in the network.
        pub kernel_drops: u64 = 0,
        /// Number of sends that the kernel refused for a transient reason: no memory, a firewall rule, no route.
        pub send_faults: u64 = 0,
        /// Number of sends that exceeded the MTU of the first hop.
        pub too_long: u64 = 0,
        /// Number of pauses in which the socket was not read, so that one wake-up received several datagrams. During a
        /// continuous stream of data, they last up to a 64th of the round-trip time, or 50 us if the sender does not
        /// wait for their end.
        pub read_pauses: u64 = 0,
        /// Size of the send buffer, granted by the kernel.
        pub send_buffer_bytes: u64 = buffers.send as u64,
        /// Size of the receive buffer, granted by the kernel.
        pub recv_buffer_bytes: u64 = buffers.recv as u64,
    }
}

#[cfg(test)]
mod tests;
