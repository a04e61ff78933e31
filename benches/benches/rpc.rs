//! Requests and responses, connection set-up, and idle connections: longhaul compared with kernel TCP and quinn.
//!
//! Client and server are processes on loopback with a single-threaded tokio runtime each.
//!
//! * **Latency.** A client writes 64 bytes and reads them back from the server, one exchange at a time, on a connection
//!   that has had 1,000 exchanges. A run has 20,000 timed exchanges; p50 and p99 are computed by nearest rank.
//! * **Connections per second.** The client connects, writes one byte, reads it back, and drops the stream without waiting
//!   for the close, 2,000 times per run. quinn performs a full TLS 1.3 handshake and shares one UDP socket among the
//!   client's connections; each connection of longhaul opens a socket.
//! * **Idle memory.** Four client processes open 10,000 connections to one listener, each of which carries one byte in
//!   both directions. The value is the growth of the server's resident memory per connection, from when it began to listen
//!   until five seconds after the last exchange. Memory of the kernel, for its TCP and for sockets, is not included.
//!
//! Latency and connection rate have five runs per transport, in which the transports take turns; the table has median
//! and range. The machine should be otherwise idle, which the bench does not check. No process is pinned to a CPU. If
//! the scheduler places both ends on the same CPU, latency is far lower, which the range shows.
//!
//! **Settings** by environment: `LONGHAUL_BENCH_RUNS` (5), `LONGHAUL_BENCH_EXCHANGES` (20000),
//! `LONGHAUL_BENCH_CONNECTS` (2000), `LONGHAUL_BENCH_IDLE` (10000).
//! Results go to `bench/latency.json` in the target directory.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::rpc::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}
