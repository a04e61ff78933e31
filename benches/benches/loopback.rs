//! Throughput of one stream: longhaul compared with raw UDP, kernel TCP and quinn.
//!
//! **Measurement.** A sender transmits 2 GiB to a receiver: over loopback, over loopback while another process computes
//! on each CPU, and over a veth pair with MTU 1500 and without segmentation offloads. Goodput is the number of bytes
//! divided by the sender's wall-clock time, from when both sides are ready until the receiver confirms that it has all
//! data. CPU seconds per GB (10^9 bytes) are the user and kernel time of each process in this period. Only the sum of
//! both is meaningful, because the kernel forwards packets within `sendmsg` and thus accounts a part of the receiver's
//! work to the sender.
//!
//! **Procedure.** Sender and receiver are processes with a tokio runtime each, of one thread by default. The transports
//! take turns in rotating order, so that a busy or throttled machine affects all of them. A run is contended, and
//! repeated, if the whole machine used more than 1.2 times the CPU time of the two processes. If too few runs are
//! uncontended, the contended ones with the least usage by other processes count as well, and their number is printed.
//! While another process computes, all runs count.
//!
//! * longhaul: the defaults (pacing, checks, timestamps, `copa-cubic`) without the Nagle algorithm and without probing
//!   for a larger path MTU; 1448 bytes per segment
//! * longhaul-bytes: the same, with writes and reads by reference (`write_bytes`, `read_chunks`)
//! * longhaul-quinn-udp: `longhaul` with `quinn-udp` instead of its own system calls
//! * udp: the upper bound, see `longhaul_benches::udp`
//! * tcp: kernel TCP with CUBIC if the process may choose it (the table tells), and an MSS for segments of 1448 bytes
//! * quinn: TLS 1.3, CUBIC, UDP payload of 1472 bytes, windows of 32 MiB
//!
//! **Settings** by environment: `LONGHAUL_BENCH_MIB` (2048), `LONGHAUL_BENCH_RUNS` (9), `LONGHAUL_BENCH_THREADS` (1) of each runtime.
//! Results go to `bench/loopback.json` in the target directory.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    longhaul_benches::loopback::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}
