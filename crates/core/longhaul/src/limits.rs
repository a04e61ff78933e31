//! Limits on the memory and number of all connections of a socket.

use std::sync::OnceLock;

use longhaul_tcp::EndpointConfig;

use crate::socket::TcpSocket;

/// Divisor of the machine's memory that yields the default memory limit of one socket's connections.
const SHARE: usize = 4;
/// Lower bound of the default memory limit, and its value if the machine's memory is not known, in bytes.
const MIN_MEMORY: usize = 64 << 20;
const UNKNOWN_MEMORY: usize = 1 << 30;

/// Upper bound of an idle connection's memory, in bytes.
const CONNECTION: usize = 8 << 10;
/// Range of the default limit on connections.
const CONNECTIONS: std::ops::RangeInclusive<usize> = 4096..=1 << 20;
/// Divisor of the socket's limits that yields the default limits per address.
const ADDRESS_SHARE: usize = 2;

/// Limits of an endpoint; `None` stands for the default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    memory: Option<usize>,
    memory_per_address: Option<usize>,
    connections: Option<usize>,
    per_address: Option<usize>,
    always_cookies: bool,
    silent: bool,
}

impl Limits {
    pub(crate) fn apply(&self, config: &mut EndpointConfig) {
        config.max_memory = self.memory.unwrap_or_else(default_memory);
        config.max_memory_per_address = self.memory_per_address.unwrap_or(config.max_memory / ADDRESS_SHARE);
        config.max_connections = self.connections.unwrap_or_else(default_connections);
        // A lower limit for all connections may be meant for clients behind a proxy: one address may then have all
        // connections, unless a limit per address is set.
        config.max_per_address =
            self.per_address.or(self.connections).unwrap_or_else(|| default_connections() / ADDRESS_SHARE);
        config.always_cookies = self.always_cookies;
        config.reset_unknown = !self.silent;
    }
}

/// Limits of a listener or connector as a whole.
impl TcpSocket {
    /// Sets the limit in bytes on the memory for the buffers and other state of all connections of this socket
    /// together. Above three quarters of it, receive windows stop growing. When it is reached, new connections are
    /// refused, and received data that would have to be buffered is dropped and left to the peer's retransmission.
    /// `None`, the default, is a quarter of the machine's memory, or of the limit of the process's control group if
    /// that is lower. A program with several busy sockets should set a lower limit.
    pub fn set_max_memory(&self, bytes: Option<usize>) {
        self.setup().limits.memory = bytes;
    }

    /// Returns the limit set by [`set_max_memory`](Self::set_max_memory), or the default.
    #[must_use]
    pub fn max_memory(&self) -> usize {
        self.setup().limits.memory.unwrap_or_else(default_memory)
    }

    /// Sets the limit in bytes on the memory for all connections of one client address, which is an IPv4 address or an
    /// IPv6 /64 prefix. Above it, their windows stop growing and their data may be dropped, so that memory remains for
    /// other clients. `None`, the default, is half of [`max_memory`](Self::max_memory). A server behind a proxy, whose
    /// clients share one address, should set it to the full limit.
    pub fn set_max_memory_per_address(&self, bytes: Option<usize>) {
        self.setup().limits.memory_per_address = bytes;
    }

    /// Sets the maximum number of connections of this socket, including those in the handshake or being closed.
    /// Further SYNs are dropped. `None`, the default, is the number of idle connections of 8 KiB each that fit into
    /// the default of [`max_memory`](Self::max_memory), but at least 4096 and at most 1,048,576.
    pub fn set_max_connections(&self, connections: Option<usize>) {
        self.setup().limits.connections = connections;
    }

    /// Sets the maximum number of simultaneous connections of a listener from one address, which is an IPv4 address or
    /// an IPv6 /64 prefix, the usual assignment of a single customer. Further SYNs from the address are dropped, so
    /// that other clients can still connect. `None`, the default, is half of the default total, which on a machine with
    /// 4 GiB exceeds the ports of an IPv4 address. If [`set_max_connections`](Self::set_max_connections) is set, the
    /// default is that number: one address may then have all connections.
    pub fn set_max_connections_per_address(&self, connections: Option<usize>) {
        self.setup().limits.per_address = connections;
    }

    /// Sets whether a listener answers every SYN with a stateless SYN cookie, and not only when the backlog is full.
    /// Off by default.
    pub fn set_always_cookies(&self, always: bool) {
        self.setup().limits.always_cookies = always;
    }

    /// Sets whether segments that belong to no connection are answered with a reset, as RFC 9293 requires. On by
    /// default. Without it, a peer whose connection is unknown to this host, for instance after a restart, must wait
    /// for its own timeouts.
    pub fn set_reset_unknown(&self, reset: bool) {
        self.setup().limits.silent = !reset;
    }
}

/// Returns a quarter of the machine's memory, in bytes.
fn default_memory() -> usize {
    static MEMORY: OnceLock<usize> = OnceLock::new();
    *MEMORY.get_or_init(|| machine_memory().map_or(UNKNOWN_MEMORY, |bytes| (bytes / SHARE).max(MIN_MEMORY)))
}

fn default_connections() -> usize {
    (default_memory() / CONNECTION).clamp(*CONNECTIONS.start(), *CONNECTIONS.end())
}

/// Returns the memory that this process may use, in bytes, if the system reports it: that of the machine, or the
/// lower limit of the control group.
fn machine_memory() -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let total = read("/proc/meminfo").and_then(|text| total_memory(&text));
    let group = read("/proc/self/cgroup").and_then(|text| unified_group(&text).map(str::to_owned));
    // The limits of all ancestor groups apply as well.
    let mut group = group.as_deref();
    let mut least = total;
    while let Some(path) = group {
        let limit = read(&format!("/sys/fs/cgroup{path}/memory.max")).and_then(|text| text.trim().parse().ok());
        least = match (least, limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        group = path.rfind('/').map(|end| &path[..end]);
    }
    least
}

fn total_memory(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Returns the path of the process's control group (version 2) from `/proc/self/cgroup`, without a trailing slash.
fn unified_group(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::")).map(|path| path.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats of proc_meminfo(5) and cgroups(7).
    #[test]
    fn memory_and_cgroup_files_are_parsed() {
        let text = "MemTotal:       16332416 kB\nMemFree:         1212312 kB\n";
        assert_eq!(total_memory(text), Some(16_332_416 * 1024));
        assert_eq!(total_memory("MemFree: 12 kB\n"), None);
        assert_eq!(total_memory("MemTotal: many kB\n"), None);
        assert_eq!(unified_group("0::/user.slice/a.scope\n"), Some("/user.slice/a.scope"));
        assert_eq!(unified_group("12:cpu:/\n0::/\n"), Some(""));
        assert_eq!(unified_group("12:cpu:/\n"), None);
    }

    #[test]
    fn memory_limits_default_to_a_share_of_the_machine() {
        let socket = TcpSocket::new_v4().unwrap();
        assert!(socket.max_memory() >= MIN_MEMORY);
        socket.set_max_memory(Some(12_345));
        socket.set_max_connections(Some(7));
        socket.set_max_connections_per_address(Some(3));
        socket.set_always_cookies(true);
        socket.set_reset_unknown(false);
        assert_eq!(socket.max_memory(), 12_345);
        let mut config = EndpointConfig::new([0; 32]);
        socket.setup().limits.apply(&mut config);
        assert_eq!((config.max_memory, config.max_connections, config.max_per_address), (12_345, 7, 3));
        assert_eq!(config.max_memory_per_address, 6_172, "half");
        assert!(config.always_cookies && !config.reset_unknown);
    }
}
