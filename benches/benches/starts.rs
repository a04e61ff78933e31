//! A megabyte on a fresh connection, under every start, beside the kernel's CUBIC and BBR, over real sockets in real time.
//!
//! The links are those on which other stacks were measured: 5 Mb/s with 500 ms, 20 Mb/s with 500 and 100 ms, each with a queue of one and of half
//! a bandwidth-delay product. The sender is inside a `longhaul-linkem shell`, the receiver outside. The time is from before `connect` until
//! the receiving application has the last byte; the limit is the handshake, one way, and the time that the bytes take. Starts
//! that remember are measured on the second of two connections, of which the first carried 20 MB; those that ask routers, with such routers.
//!
//! ```sh
//! sudo -E cargo bench -p longhaul-benches --bench starts             # prints it
//! sudo -E cargo bench -p longhaul-benches --bench starts -- --write  # and writes docs/starts.md
//! ```
//!
//! Needs root, `/dev/net/tun`, and the kernel's BBR (`modprobe tcp_bbr`); it says so where it has not. It takes some minutes.
//! **Settings** by environment: `LONGHAUL_BENCH_SEEDS` (3) runs of each, `LONGHAUL_BENCH_MBPS` (100), which is how much may be under way
//! at a time. Results go to `bench/starts.json` in the target directory.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<std::process::ExitCode> {
    longhaul_benches::starts::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}
