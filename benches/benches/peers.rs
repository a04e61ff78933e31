//! Every law of the registry beside the kernel's CUBIC and BBR, on links that are hard, in real time.
//!
//! One flow at a time, over real sockets and a `longhaul-linkem shell`: the sender is inside, behind the link, the receiver
//! outside. A packet of all is 1500 bytes long and carries 1448 (so 96.5 % of a link is the most), and the same code drives
//! them. Goodput is what the receiving application has when the time is up, which begins before `connect`.
//!
//! * 155 Mb/s, 65 ms, a queue of one bandwidth-delay product, with 0, 0.1, 0.25 and 0.5 % of packets lost at random: 20 s
//!   without losses, 40 s with them, as laws that add a segment a round trip need 20 to forget where the first loss found them;
//! * 100 Mb/s, 133 ms, a queue of 150 kB, 0.005 %: 30 s;
//! * 20 Mb/s, 500 ms, a queue of one bandwidth-delay product, 0.1 %: 60 s.
//!
//! The seed is the same for all, so the same packets (by their number) are lost of each. A run in which the machine was too
//! busy is repeated twice at most; what is disturbed still is marked. Below the table stands what was wanted of it, and
//! whether it is so.
//!
//! ```sh
//! sudo -E cargo bench -p longhaul-benches --bench peers             # prints it
//! sudo -E cargo bench -p longhaul-benches --bench peers -- --write  # and writes docs/peers.md
//! ```
//!
//! Needs root and `/dev/net/tun`, and the kernel's BBR (`modprobe tcp_bbr`); it says so where it has not. It takes about 90
//! minutes. **Settings** by environment: `LONGHAUL_BENCH_CONTROLLERS` (all, or names with commas between them; the kernel's
//! are always there), `LONGHAUL_BENCH_SEEDS` (1), `LONGHAUL_BENCH_MBPS` (160), which is how much may be under way at a time.
//! Results go to `bench/peers.json` in the target directory. The code is in this package's library,
//! `longhaul_benches::peers`.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<std::process::ExitCode> {
    longhaul_benches::peers::main(env!("CARGO_TARGET_TMPDIR"))
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}
