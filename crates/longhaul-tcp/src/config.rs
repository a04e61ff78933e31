//! What an application may set for a connection and for an endpoint.

use std::net::SocketAddr;

use longhaul_units::{Rate, Span};

use crate::endpoint::{PathCache, socket_secret};

/// Settings of a connection. `Default` is what suits an unknown path; a listener's apply to what it accepts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The congestion controller to make for the connection.
    pub congestion: longhaul_cc::Congestion,
    /// Bytes of data that may wait for acknowledgement or transmission.
    pub send_buffer: usize,
    /// [`Connection::write`](crate::Connection::write) takes no more while as many bytes wait to be sent for the first
    /// time. Small values keep data with the application until it can leave. `None` is 256 KiB while the congestion
    /// window or the pacer keeps it back, and 4 MiB while the peer's window does.
    pub notsent_lowat: Option<usize>,
    /// The receive window's size at the start. The default of 4 MiB is a window of 100 Mb/s over 335 ms, so that a sender
    /// that knows how fast the path is may say all of it in the first round trip; smaller ones bound it there.
    pub recv_buffer: usize,
    /// The receive window's ceiling: auto-tuning grows it up to here (at most 1 GiB, RFC 7323, section 2.2).
    pub recv_buffer_max: usize,
    /// UDP payload that is assumed to pass every path: where path MTU discovery starts and falls back to
    /// (RFC 8899, section 5.1.2).
    pub base_plpmtu: u16,
    /// UDP payload above which path MTU discovery does not probe; equal to `base_plpmtu` switches it off.
    pub max_plpmtu: u16,
    /// Coalesce small writes while data is unacknowledged (RFC 9293, section 3.7.4).
    pub nagle: bool,
    /// Whether to offer SACK (RFC 2018).
    pub sack: bool,
    /// Whether to offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Whether to offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Whether to offer longhaul's own options to the peer.
    pub extensions: bool,
    /// Whether to ask the peer to report when our segments arrived even if the congestion controller has no use for it. It
    /// is asked in the SYN: who accepts a connection gets reports if the other side asked. A peer that asks is always
    /// answered, unless `extensions` is off.
    pub arrival_times: bool,
    /// Whether to measure the capacity of the path's narrow link by flipped pairs of segments (TCPProbe: Gerla et al.,
    /// PFLDnet 2006, section 2.3), at most one a round trip, even if the congestion controller has no use for it. Needs a
    /// peer that speaks SACK, and is the better for arrival times.
    pub probe_pairs: bool,
    /// Whether the routers of the path answer network feedback: Quick-Start, RCP and XCP ask nothing without it. Those of the
    /// internet do not (`docs/wire.md`, "Network feedback").
    pub routers_answer: bool,
    /// The TTL or hop limit that segments leave with, as the socket has it: receivers count the routers by it that did not
    /// answer.
    pub ttl: u8,
    /// Whether to negotiate ECN (RFC 3168).
    pub ecn: bool,
    /// Probe an idle peer after this long (RFC 9293, section 3.8.4); `None` never does.
    pub keep_alive: Option<KeepAlive>,
    /// Give up when data stays unacknowledged for this long (RFC 9293, section 3.8.3; RFC 5482); `None` uses R2.
    pub user_timeout: Option<Span>,
    /// Tell the peer of the user timeout, and heed what it tells of its own (RFC 5482: ENABLED). Without a
    /// `user_timeout` the longer of the peer's and our default of 15 minutes is adopted, an hour at most.
    pub user_timeout_option: bool,
    /// Heed it even if `user_timeout` is set (RFC 5482: CHANGEABLE); the longer of both is adopted then, 100 s at least
    /// and an hour at most.
    pub user_timeout_changeable: bool,
    /// Retransmissions of a SYN before the connection attempt fails (RFC 9293, section 3.8.3: at least 3 minutes'
    /// worth unless told otherwise).
    pub syn_retries: u32,
    /// The least that the retransmission timeout is above the round trip. RFC 6298 wants a timeout of 1 s; 200 ms above
    /// the round trip is what deployed stacks use, and is safe with timestamps, F-RTO and Eifel detection.
    pub min_rto: Span,
    /// The longest an acknowledgement is delayed (RFC 9293, section 3.8.6.3: below 500 ms); zero never delays one.
    pub ack_delay: Span,
    /// So many full-sized segments are acknowledged at once, without waiting for `ack_delay`; all that came in one batch
    /// if those are more. 1 acknowledges whatever comes, as 0 does. 2 is the most that RFC 9293, section 3.8.6.3, and
    /// RFC 5681, section 4.2, recommend: with more, senders that count ACKs grow more slowly and learn of less.
    pub ack_every: u8,
    /// How long TIME-WAIT lasts: twice the maximum segment lifetime.
    pub time_wait: Span,
    /// How long a closed connection may wait for its peer's FIN.
    pub fin_wait2_timeout: Span,
    /// A ceiling for the pacing rate.
    pub max_pacing_rate: Rate,
    /// A ceiling for the congestion window in bytes.
    pub max_cwnd: u64,
    /// A memory of paths: begin where earlier connections to the same host ended, and leave word for later ones
    /// (RFC 9040). All that have a clone of it share it. `None`, the default, begins each connection afresh.
    pub path_cache: Option<PathCache>,
}

/// The least time between keep-alive probes, and before the first. A probe is a segment that its receiver cannot
/// accept, and those are answered within limits: twice a second by us and by common stacks (RFC 5961, section 7), so
/// that faster probes would find a living peer silent. Linux takes whole seconds only.
pub const MIN_KEEP_ALIVE: Span = Span::from_secs(1);

/// Probing of an idle peer. Times below [`MIN_KEEP_ALIVE`] are raised to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle time before the first probe.
    pub idle: Span,
    /// Time between probes.
    pub interval: Span,
    /// Unanswered probes before the connection is given up.
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
            // What a window scale of 10 reaches: one more would make windows come in units of 2 KiB.
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
            time_wait: Span::from_secs(60),
            fin_wait2_timeout: Span::from_secs(60),
            max_pacing_rate: Rate::MAX,
            max_cwnd: 1 << 32,
            path_cache: None,
        }
    }
}

impl Config {
    /// Segments that an acknowledgement may cover before it is due at once; at least one.
    pub(crate) fn ack_every(&self) -> u32 {
        u32::from(self.ack_every.max(1))
    }

    /// The window scale that lets the 16-bit field reach `recv_buffer_max` (RFC 7323, section 2.3: at most 14).
    pub(crate) fn window_shift(&self) -> u8 {
        (0..14).find(|s| (0xffff_u64 << s) >= self.recv_buffer_max as u64).unwrap_or(14)
    }
}

/// Settings of an endpoint: one UDP socket with all its connections.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// Keys initial sequence numbers, timestamp offsets and SYN cookies. From the operating system's entropy; a
    /// simulation may use a seed.
    pub secret: [u8; 32],
    /// Connections in the handshake or waiting to be accepted, before SYNs are answered by stateless cookies.
    pub backlog: usize,
    /// Answer every SYN by a cookie.
    pub always_cookies: bool,
    /// Connections at most; further SYNs are dropped.
    pub max_connections: usize,
    /// Connections at most that one address opened to us: one IPv4 address, or one IPv6 network of 64 bits; further SYNs
    /// from there are dropped.
    pub max_per_address: usize,
    /// Bytes of data buffered by all connections together, at most; above it windows stop growing and new
    /// connections are refused.
    pub max_memory: usize,
    /// Bytes of that at most of the connections that one address opened to us, so that it cannot take the others' room; above it the
    /// same happens to those connections, but for being refused.
    pub max_memory_per_address: usize,
    /// TIME-WAIT records kept; the oldest makes room (a late duplicate may then meet a new connection, RFC 1337).
    pub max_time_wait: usize,
    /// Answer segments of unknown connections by a RST; a silent endpoint drops them.
    pub reset_unknown: bool,
    /// Answer probes of the path, whoever sends them (`docs/wire.md`, "Probes"). It costs no memory, and no answer is
    /// longer than its probe; yet it is a service to strangers, and off by default.
    pub reflect: bool,
    /// For tests: every connection's initial sequence number, cookies excepted, so that runs near 0, 2^31 and 2^32 can
    /// be had. On a real network it must stay `None`: a number that can be guessed lets strangers into the connection
    /// (RFC 6528).
    pub initial_sequence: Option<u32>,
}

impl EndpointConfig {
    /// The defaults for the socket of the address `local`, with a secret of its own that is derived from the process's.
    ///
    /// Two sockets of one address, one after the other, then number their connections by one clock, so that a peer
    /// which still remembers the first can tell that the second is new (RFC 6191, section 2; RFC 6528, section 3). Of
    /// sockets with other addresses nobody learns anything.
    #[must_use]
    pub fn of_socket(secret: &[u8; 32], local: SocketAddr) -> Self {
        Self::new(socket_secret(secret, local))
    }

    /// The defaults under `secret`.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        Self {
            secret,
            backlog: 1024,
            always_cookies: false,
            max_connections: 1 << 20,
            max_per_address: 1 << 19,
            max_memory: 4 << 30,
            max_memory_per_address: 2 << 30,
            max_time_wait: 131_072,
            reset_unknown: true,
            reflect: false,
            initial_sequence: None,
        }
    }
}
