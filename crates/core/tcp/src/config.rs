//! Settings of connections and endpoints.

use std::net::SocketAddr;

use longhaul_units::{Rate, Span};

use crate::PathCache;
use crate::keys::socket_secret;

/// Settings of a connection. The default suits an unknown path. A listener's settings apply to the connections it
/// accepts. `{:?}` shows the main settings, and `{:#?}` all of them.
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// Congestion controller of the connection.
    pub congestion: longhaul_cc::Congestion,
    /// Capacity of the send buffer: unsent and unacknowledged data, in bytes.
    pub send_buffer: usize,
    /// Limit of unsent data: no more is accepted while this many bytes wait for their first transmission. `None` means
    /// 256 KiB while the congestion window or the pacer limits the sender, shared with the connections of the endpoint
    /// that wait for their turn to send, but not less than 64 KiB; and 4 MiB while the peer's window does.
    pub notsent_lowat: Option<usize>,
    /// Initial size of the receive window in bytes. It limits the first round trip of a sender that already knows the
    /// rate of the path: the default of 4 MiB covers 100 Mb/s with a round-trip time of 335 ms.
    pub recv_buffer: usize,
    /// Maximum size of the receive window in bytes: auto-tuning grows the window up to this size (at most 1 GiB;
    /// RFC 7323, section 2.2).
    pub recv_buffer_max: usize,
    /// UDP payload size, in bytes, from which path MTU discovery starts and to which it falls back (BASE_PLPMTU; RFC
    /// 8899, section 5.1.2).
    pub base_plpmtu: u16,
    /// Largest UDP payload, in bytes, that path MTU discovery probes for. If it equals `base_plpmtu`, discovery is
    /// disabled.
    pub max_plpmtu: u16,
    /// Whether to gather small writes while a segment shorter than the MSS is unacknowledged: the Nagle algorithm (RFC
    /// 9293, section 3.7.4) with Minshall's modification (draft-minshall-nagle-01), so that the end of a long message
    /// need not wait.
    pub nagle: bool,
    /// Whether to offer SACK (RFC 2018).
    pub sack: bool,
    /// Whether to offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Whether to offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Whether to offer longhaul's experimental options to the peer.
    pub extensions: bool,
    /// Whether to ask the peer to report the arrival times of our segments even if the congestion controller does not
    /// use them. The request is part of the SYN, so an accepted connection gets reports only if the peer also asked for
    /// them. A peer's request is always granted unless `extensions` is off.
    pub arrival_times: bool,
    /// Whether to measure the capacity of the narrow link with flipped pairs of segments (TCPProbe: Gerla et al.,
    /// PFLDnet 2006, section 2.3) even if the congestion controller does not use the result. At most one pair is sent
    /// per round trip. This requires a peer that supports SACK; arrival times make it more accurate.
    pub probe_pairs: bool,
    /// Whether the routers on the path answer network feedback requests. If this is not set, Quick-Start, RCP and XCP
    /// send no requests. Routers on the internet do not answer (`docs/wire.md`, "Network feedback").
    pub routers_answer: bool,
    /// TTL or hop limit of outgoing segments, as set on the socket. Receivers use it to count the routers that did
    /// not process a request.
    pub ttl: u8,
    /// Whether to negotiate ECN (RFC 3168).
    pub ecn: bool,
    /// Keep-alive probes on an idle connection (RFC 9293, section 3.8.4); `None` disables them.
    pub keep_alive: Option<KeepAlive>,
    /// User timeout: the connection is closed if data remains unacknowledged for this long (RFC 9293, section 3.8.3;
    /// RFC 5482). `None` applies R2 instead.
    pub user_timeout: Option<Span>,
    /// Whether to send the user timeout option and to adopt the peer's (ENABLED in RFC 5482). Without `user_timeout`, it
    /// is the longer of the peer's and our default of 15 minutes, but at most 1 hour.
    pub user_timeout_option: bool,
    /// Whether the peer's value is adopted even if `user_timeout` is set (CHANGEABLE in RFC 5482). The connection
    /// then uses the longer of the two, at least 100 s and at most 1 hour.
    pub user_timeout_changeable: bool,
    /// Number of SYN retransmissions before the attempt fails (RFC 9293, section 3.8.3: at least 3 minutes by default).
    pub syn_retries: u32,
    /// Minimum margin of the retransmission timeout above the round-trip time. RFC 6298 requires a timeout of at
    /// least 1 s. Deployed stacks use 200 ms above the round-trip time, which is safe with timestamps, F-RTO and
    /// Eifel detection.
    pub min_rto: Span,
    /// Maximum delay of an ACK (RFC 9293, section 3.8.6.3: less than 500 ms); zero disables delayed ACKs.
    pub ack_delay: Span,
    /// Number of full-sized segments, or a receive batch if that is larger, after which an ACK is sent without waiting
    /// for `ack_delay`. 0 and 1 acknowledge every segment. RFC 5681, section 4.2, recommends at most 2: with larger
    /// values, senders that count ACKs grow their window more slowly and get fewer samples.
    pub ack_every: u8,
    /// Number of data segments at the start of a connection that are acknowledged one by one, as Linux does with 16. 0,
    /// the default, acknowledges them as later ones.
    pub quick_acks: u8,
    /// Joins segments of a steady stream, so that each wake-up of a driver sends and receives several: in a 64th of the
    /// round-trip time, at most 10 ms, up to 16 segments are paced as one burst, if the path takes that, and the socket
    /// may be left [unread](crate::Endpoint::take_read_patience), with a fast stream for up to 50 us on any path.
    pub moderation: bool,
    /// Duration of TIME-WAIT: twice the maximum segment lifetime.
    pub time_wait: Span,
    /// Maximum time that a closed connection waits in FIN-WAIT-2 for the peer's FIN, or, if data of the peer is discarded,
    /// for the next acknowledgment of queued data before it is reset.
    pub fin_wait2_timeout: Span,
    /// Maximum pacing rate.
    pub max_pacing_rate: Rate,
    /// Maximum congestion window in bytes.
    pub max_cwnd: u64,
    /// Offset of a clock shared by several hosts ahead of the endpoint's clock
    /// ([`BuildParams::shared_clock`](longhaul_cc::BuildParams::shared_clock)).
    pub shared_clock: Option<Span>,
    /// Per-destination metrics cache (RFC 9040): seeds new connections from earlier ones to the same host.
    pub path_cache: Option<PathCache>,
}

/// Minimum time before the first keep-alive probe and between two probes. A probe is a segment outside the receiver's
/// window. Receivers limit how often they answer those (RFC 5961, section 7): longhaul and common stacks answer two per
/// second, so faster probes would make a live peer appear dead. Linux accepts whole seconds only.
pub const MIN_KEEP_ALIVE: Span = Span::from_secs(1);

/// Keep-alive probes on an idle connection. Times below [`MIN_KEEP_ALIVE`] are raised to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle time before the first probe.
    pub idle: Span,
    /// Time between probes.
    pub interval: Span,
    /// Number of unanswered probes after which the connection is closed.
    pub probes: u32,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { idle: Span::from_secs(7200), interval: Span::from_secs(75), probes: 9 }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            congestion: longhaul_cc::Congestion::default(),
            send_buffer: 64 << 20,
            notsent_lowat: None,
            recv_buffer: 4 << 20,
            // The largest window with a scale of 10. A scale of 11 would make window updates multiples of 2 KiB.
            recv_buffer_max: 0xffff << 10,
            base_plpmtu: 1232,
            max_plpmtu: 1472,
            nagle: true,
            sack: true,
            timestamps: true,
            window_scaling: true,
            extensions: true,
            arrival_times: false,
            probe_pairs: false,
            routers_answer: false,
            ttl: 64,
            ecn: true,
            keep_alive: None,
            user_timeout: None,
            user_timeout_option: false,
            user_timeout_changeable: false,
            syn_retries: 7,
            min_rto: Span::from_millis(200),
            ack_delay: Span::from_millis(40),
            ack_every: 2,
            quick_acks: 0,
            moderation: false,
            time_wait: Span::from_secs(60),
            fin_wait2_timeout: Span::from_secs(60),
            max_pacing_rate: Rate::MAX,
            max_cwnd: 1 << 32,
            shared_clock: None,
            path_cache: None,
        }
    }
}

impl Config {
    /// Returns the number of segments after which an acknowledgment is sent at once; at least 1.
    pub(crate) fn ack_every(&self) -> u32 {
        u32::from(self.ack_every.max(1))
    }

    /// Returns the window scale with which the 16-bit field reaches `recv_buffer_max` (RFC 7323, section 2.3: at
    /// most 14).
    pub(crate) fn window_shift(&self) -> u8 {
        (0..14).find(|s| (0xffff_u64 << s) >= self.recv_buffer_max as u64).unwrap_or(14)
    }
}

/// Settings of an endpoint: one UDP socket with all its connections. Its `Debug` output does not show the secret.
#[derive(Clone)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// Secret that keys initial sequence numbers, timestamp offsets and SYN cookies. It must come from the
    /// operating system's entropy source; a simulation may use a seed.
    pub secret: [u8; 32],
    /// Offset of a clock shared by several hosts ahead of the endpoint's clock, if they also share `secret`: SYN
    /// cookies and initial sequence numbers then come from that clock, and a cookie of one host is valid on all of
    /// them. If clocks differ by more than a minute, cookies of other hosts are refused.
    pub shared_clock: Option<Span>,
    /// Maximum number of connections in the handshake or waiting for `accept`. Further SYNs are answered with SYN
    /// cookies, except those that reuse a pair of addresses in TIME-WAIT.
    pub backlog: usize,
    /// Whether to answer every SYN with a SYN cookie, except those that reuse a pair of addresses in TIME-WAIT.
    pub always_cookies: bool,
    /// Maximum number of connections; further SYNs are dropped.
    pub max_connections: usize,
    /// Maximum number of connections opened by one peer address, which is one IPv4 address or one IPv6 /64 prefix;
    /// further SYNs from it are dropped.
    pub max_per_address: usize,
    /// Maximum memory, in bytes, of all connections in total, including the receive buffers that contain unread data.
    /// Above it, receive windows stop growing and SYNs are dropped. The default is 4 GiB, or 1 GiB with a 32-bit
    /// address space.
    pub max_memory: usize,
    /// Maximum memory, in bytes, of all connections opened by one peer address, so that one address cannot use up the
    /// memory for all others. Above it, their receive windows stop growing; further connections are not refused.
    pub max_memory_per_address: usize,
    /// Maximum number of TIME-WAIT records. The oldest is evicted; a late duplicate may then reach a new connection
    /// (RFC 1337).
    pub max_time_wait: usize,
    /// Whether to answer segments of unknown connections with a RST; otherwise they are dropped.
    pub reset_unknown: bool,
    /// Whether to answer path measurement probes from any sender (`docs/wire.md`, "Probes"). Answers need no state,
    /// and none is longer than its probe. The default is off, because this is a service to unauthenticated senders.
    pub reflect: bool,
    /// Fixed initial sequence number of all connections without a SYN cookie, for tests with sequence numbers near
    /// 0, 2^31 and 2^32. It must be `None` on a real network, because an attacker who guesses the number can inject
    /// segments (RFC 6528).
    #[doc(hidden)]
    pub initial_sequence: Option<u32>,
}

/// Default of [`EndpointConfig::max_memory`]: 4 GiB, or 1 GiB with an address space of 4 GiB.
const MAX_MEMORY: usize = if usize::BITS < 64 { 1 << 30 } else { (1_u64 << 32) as usize };

impl EndpointConfig {
    /// Returns the defaults for the socket at `local`, with a per-socket secret derived from the secret of the
    /// process.
    ///
    /// Successive sockets at one address then take their sequence numbers and timestamps from one clock, so that a
    /// peer that still has the earlier connection in TIME-WAIT can tell that a SYN is new (RFC 6191, section 2; RFC
    /// 6528, section 3). The secret reveals nothing about sockets at other addresses.
    #[must_use]
    pub fn of_socket(secret: &[u8; 32], local: SocketAddr) -> Self {
        Self::new(socket_secret(secret, local))
    }

    /// Returns the defaults with `secret`.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        Self {
            secret,
            shared_clock: None,
            backlog: 1024,
            always_cookies: false,
            max_connections: 1 << 20,
            max_per_address: 1 << 19,
            max_memory: MAX_MEMORY,
            max_memory_per_address: MAX_MEMORY / 2,
            max_time_wait: 131_072,
            reset_unknown: true,
            reflect: false,
            initial_sequence: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_not_printed() {
        let (one, other) = (EndpointConfig::new([1; 32]), EndpointConfig::new([77; 32]));
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
    }
}
