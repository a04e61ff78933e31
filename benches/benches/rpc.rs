//! Small things: request and response, connection set-up, idle connections; longhaul against kernel TCP and quinn.
//!
//! All over loopback, client and server in processes of their own, each on a single-threaded tokio runtime.
//!
//! * **Latency.** A client writes 64 bytes, the server writes them back, the client reads them: one exchange at a
//!   time, on a connection that has had 1,000 of them. 20,000 are timed each run; p50 and p99 of a run by nearest rank.
//! * **Connections a second.** One after the other: connect, write one byte, read the byte that comes back, drop the
//!   stream. Nobody waits for the close. 2,000 each run. quinn does a full TLS 1.3 handshake and shares one UDP socket
//!   among the client's connections; each of longhaul's opens one of its own.
//! * **Idle memory.** 10,000 connections from four client processes to one listener, each of which has carried a byte
//!   either way. The growth of the server's resident memory from just after it began to listen until five seconds
//!   after the last exchange, a connection. What the kernel holds for its TCP and for sockets is not in it.
//!
//! Latency and connection rate: five runs each, the rivals taking turns; the table has the median of the runs and their
//! range. Nobody looks whether the machine is otherwise idle: use one that is. No process is pinned to a CPU: where the
//! scheduler puts both ends on one, latency is far lower than where each must wake the other's, and the range shows it.
//!
//! **Settings** by environment: `LONGHAUL_BENCH_RUNS` (5), `LONGHAUL_BENCH_EXCHANGES` (20000),
//! `LONGHAUL_BENCH_CONNECTS` (2000), `LONGHAUL_BENCH_IDLE` (10000).
//! The code is in this package's library, `longhaul_benches::rpc`.
//! Results go to `bench/latency.json` in the target directory.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::rpc::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}
