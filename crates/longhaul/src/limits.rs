//! What the connections of one socket may take together.

use std::sync::OnceLock;

use longhaul_tcp::EndpointConfig;

use crate::socket::TcpSocket;

/// The share of the machine's memory that the buffers of one socket's connections may take.
const SHARE: usize = 4;
/// The least ceiling that is chosen for a machine, and the one where its memory is not known.
const LEAST_MEMORY: usize = 64 << 20;
const UNKNOWN_MEMORY: usize = 1 << 30;

/// What an idle connection takes at most, all in all.
const CONNECTION: usize = 8 << 10;
/// Connections by default, whatever the machine has.
const CONNECTIONS: std::ops::RangeInclusive<usize> = 4096..=1 << 20;
/// The part of the connections, and of the memory, that one address may have by default.
const ADDRESS_SHARE: usize = 2;

/// Limits of an endpoint; what is not set is the default.
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
        // Whoever lowers the limit of all may have a proxy in front, and says what one address may have.
        config.max_per_address =
            self.per_address.or(self.connections).unwrap_or_else(|| default_connections() / ADDRESS_SHARE);
        config.always_cookies = self.always_cookies;
        config.reset_unknown = !self.silent;
    }
}

/// Settings of a listener or connector as a whole.
impl TcpSocket {
    /// Bytes that the buffers and records of all connections of this socket may take together. Above three quarters of it
    /// receive windows stop growing; when it is reached, new connections are refused and data that would be buffered is
    /// dropped, to be sent again by its sender. `None`, the default, is a quarter of the machine's memory, or of what
    /// the process's control group allows if that is less. A program with several busy sockets lowers it.
    pub fn set_max_memory(&self, bytes: Option<usize>) {
        self.setup().limits.memory = bytes;
    }

    /// The ceiling set by [`set_max_memory`](Self::set_max_memory), or the default.
    #[must_use]
    pub fn max_memory(&self) -> usize {
        self.setup().limits.memory.unwrap_or_else(default_memory)
    }

    /// Bytes of that memory that the connections of one client address may take together: one IPv4 address, or one IPv6
    /// network of 64 bits. Above it their windows stop growing, and what they send may be dropped, while others find room.
    /// `None`, the default, is half of [`max_memory`](Self::max_memory); a server behind a proxy, whose clients have one
    /// address, sets the whole.
    pub fn set_max_memory_per_address(&self, bytes: Option<usize>) {
        self.setup().limits.memory_per_address = bytes;
    }

    /// Connections of this socket at most, those in the handshake and those being closed included; further SYNs are
    /// dropped. `None`, the default, is as many as fit idle into the memory of [`max_memory`](Self::max_memory)'s default,
    /// 8 KiB each, and 1,048,576 at most.
    pub fn set_max_connections(&self, connections: Option<usize>) {
        self.setup().limits.connections = connections;
    }

    /// Connections that one address may have with a listener at a time: one IPv4 address, or one IPv6 network of 64 bits,
    /// which is what a single customer has. Further SYNs from there are dropped, so that others still find room. `None`,
    /// the default, is half of the default number in all: on a machine with 4 GiB that is more than an IPv4 address has
    /// ports. Where [`set_max_connections`](Self::set_max_connections) is set, the default is that number: one address
    /// may have them all.
    pub fn set_max_connections_per_address(&self, connections: Option<usize>) {
        self.setup().limits.per_address = connections;
    }

    /// Whether a listener answers every SYN by a SYN cookie and keeps nothing of it, instead of only when the backlog is
    /// full. Off by default.
    pub fn set_always_cookies(&self, always: bool) {
        self.setup().limits.always_cookies = always;
    }

    /// Whether segments that belong to no connection are answered by a reset, as RFC 9293 has it. On by default. Without
    /// it a peer that this end has forgotten, after a restart for instance, waits for its own timeouts.
    pub fn set_reset_unknown(&self, reset: bool) {
        self.setup().limits.silent = !reset;
    }
}

/// A quarter of the machine's memory.
fn default_memory() -> usize {
    static MEMORY: OnceLock<usize> = OnceLock::new();
    *MEMORY.get_or_init(|| machine_memory().map_or(UNKNOWN_MEMORY, |bytes| (bytes / SHARE).max(LEAST_MEMORY)))
}

fn default_connections() -> usize {
    (default_memory() / CONNECTION).clamp(*CONNECTIONS.start(), *CONNECTIONS.end())
}

/// Bytes of memory that this process may use, if the system tells: the machine's, or its control group's if that is less.
fn machine_memory() -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let total = read("/proc/meminfo").and_then(|text| total_memory(&text));
    let group = read("/proc/self/cgroup").and_then(|text| unified_group(&text).map(str::to_owned));
    // The limits of all groups above hold as well.
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

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total_memory(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The path of the process's control group of version 2, from `/proc/self/cgroup`, without a slash at its end.
fn unified_group(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::")).map(|path| path.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From proc_meminfo(5) and cgroups(7).
    #[test]
    fn what_the_system_says_is_understood() {
        let text = "MemTotal:       16332416 kB\nMemFree:         1212312 kB\n";
        assert_eq!(total_memory(text), Some(16_332_416 * 1024));
        assert_eq!(total_memory("MemFree: 12 kB\n"), None);
        assert_eq!(total_memory("MemTotal: many kB\n"), None);
        assert_eq!(unified_group("0::/user.slice/a.scope\n"), Some("/user.slice/a.scope"));
        assert_eq!(unified_group("12:cpu:/\n0::/\n"), Some(""));
        assert_eq!(unified_group("12:cpu:/\n"), None);
    }

    #[test]
    fn a_socket_has_the_machines_share_unless_told_otherwise() {
        let socket = TcpSocket::new_v4().unwrap();
        assert!(socket.max_memory() >= LEAST_MEMORY);
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
