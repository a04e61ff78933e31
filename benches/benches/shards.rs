//! Many clients of one server on one and on several cores: longhaul compared with kernel TCP and quinn.
//!
//! The server of longhaul has as many shards as threads; those of the others have one listener or endpoint and as many
//! threads. Two client processes with a single thread each load it over loopback, so that on a machine with two cores,
//! clients and server compete for them: more threads of the server then help only as far as the clients leave them time.
//!
//! * **Requests**: 64 streams, each of which writes 64 bytes and reads them back, one exchange at a time.
//! * **Connections**: 32 tasks, each of which connects, exchanges a byte and drops the stream, again and again. quinn
//!   performs a full TLS 1.3 handshake.
//! * **Goodput**: 200 streams, each of which requests 1 MiB and reads it, again and again.
//!
//! A run counts for 1.5 s, from 0.3 s after all streams are connected. There are three runs each, in which the rivals take turns; the
//! table has median and range.
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
