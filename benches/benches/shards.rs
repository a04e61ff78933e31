//! Many clients of one server on one and on several cores: longhaul compared with kernel TCP and quinn.
//!
//! The server of longhaul has as many shards as threads; the other servers have one listener or endpoint and the same
//! number of threads. Two client processes with a single thread each load the server over loopback. On a machine with
//! two cores, clients and server compete for them, so that more threads help the server only as far as the clients
//! leave it CPU time.
//!
//! * **Requests**: 64 streams, each of which writes 64 bytes and reads them back, one exchange at a time.
//! * **Connections**: 32 tasks, each of which connects, exchanges a byte and drops the stream, again and again. quinn
//!   performs a full TLS 1.3 handshake.
//! * **Goodput**: 200 streams, each of which requests 1 MiB and reads it, again and again.
//!
//! A run takes 1.5 s, from 0.3 s after all streams are connected. There are three runs per transport, in which the
//! transports take turns; the table has median and range.
//!
//! **Settings** by environment: `LONGHAUL_BENCH_RUNS` (3), `LONGHAUL_BENCH_MS` (1500), `LONGHAUL_BENCH_SHARDS` (2: each
//! server runs with one and with this many), `LONGHAUL_BENCH_PIN` (0; with 1, `taskset` keeps each client on a core of its
//! own). Results go to `bench/shards.json` in the target directory.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::shards::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}
