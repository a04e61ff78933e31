//! State of a listener, for metrics.

use crate::shared::State;

/// State of a listener, from [`TcpListener::info`](crate::TcpListener::info). Counters are totals since the socket was
/// opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ListenerInfo {
    /// Number of connections of each shard, including those in the handshake and those being closed.
    pub connections: Vec<usize>,
    /// Memory of all connections' buffers and records, in bytes.
    pub memory_bytes: u64,
    /// SYN cookies sent.
    pub cookies_sent: u64,
    /// Number of connections opened by a returned SYN cookie.
    pub cookies_accepted: u64,
    /// Number of SYNs and returned cookies that were dropped because of a limit.
    pub refused: u64,
    /// Received segments without a connection.
    pub stray_segments: u64,
    /// Number of resets sent in response to such segments.
    pub resets_sent: u64,
    /// Number of received datagrams that could not be parsed.
    pub malformed_datagrams: u64,
    /// Number of datagrams that were received by one shard but belong to a connection of another.
    pub forwarded_datagrams: u64,
    /// Number of datagrams that the kernel dropped because a socket's receive buffer was full, if the system reports
    /// them.
    pub kernel_drops: u64,
}

impl ListenerInfo {
    pub(crate) fn add(&mut self, state: &State) {
        let stats = state.endpoint.stats();
        self.connections.push(state.endpoint.len());
        self.memory_bytes += state.endpoint.memory() as u64;
        self.cookies_sent += stats.cookies_sent;
        self.cookies_accepted += stats.cookies_accepted;
        self.refused += stats.refused;
        self.stray_segments += stats.stray;
        self.resets_sent += stats.resets_sent;
        self.malformed_datagrams += stats.malformed;
        self.forwarded_datagrams += state.forwarded_messages;
        self.kernel_drops += state.stats.kernel_drops;
    }
}
