//! How fast the relay is, and how late: `cargo test --release -p longhaul-linkem --test keeps_up -- --ignored --nocapture`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "an error fails the test")]
#![expect(clippy::disallowed_methods, reason = "tests of real time")]

mod common;

use std::time::{Duration, Instant};

use common::{burst, relay, socket};
use longhaul_link::spec::Direction::Up;
use longhaul_linkem::engine::readable;
use longhaul_sys::linux::{RecvBatch, process_cpu_time};
use longhaul_sys::pool::RecvPool;

const LEN: usize = 1472;
const SECONDS: u64 = 5;

/// Sends at a rate in bits a second of IP packets for some seconds; prints what came through, and how late.
fn measure(options: &str, bits: u64) {
    let (client, server) = (socket("127.0.0.1"), socket("127.0.0.1"));
    let relay = relay(options, server.local_addr().unwrap());
    let (to, began, cpu) = (relay.local_addr(), Instant::now(), process_cpu_time());
    let packets = bits * SECONDS / 8 / 1500;
    let sender = std::thread::spawn(move || {
        let mut sent = 0;
        while sent < packets {
            let due = (began.elapsed().as_nanos() as u64 * (bits / 1000) / 12_000 / 1_000_000).min(packets);
            if due > sent {
                burst(&client, to, 0, LEN, sent as u32..due as u32);
                sent = due;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        (began.elapsed(), longhaul_sys::linux::thread_cpu_time())
    });
    let receiver = std::thread::spawn(move || {
        let mut batch = RecvBatch::new(&RecvPool::new(32, 0), 32);
        let (mut received, mut last) = (0, Instant::now());
        while received < packets && last.elapsed() < Duration::from_secs(1) {
            match server.recv(&mut batch) {
                Ok(_) => {
                    received += batch.messages().map(|message| message.datagrams().count() as u64).sum::<u64>();
                    last = Instant::now();
                }
                Err(_) => std::thread::sleep(Duration::from_micros(200)),
            }
        }
        (received, last - began, longhaul_sys::linux::thread_cpu_time())
    });
    let (sending, sender_cpu) = sender.join().unwrap();
    let (received, took, receiver_cpu) = receiver.join().unwrap();
    let cpu = process_cpu_time() - cpu - sender_cpu - receiver_cpu;
    let (engine, counts) = relay.stop().unwrap();
    let stats = engine.stats(Up);
    println!("{options}: {packets} sent in {sending:.2?}, {received} received in {took:.2?}; {counts:?}");
    println!("  dropped {}; queue p99 {}", stats.all().dropped_total(), readable(stats.all().sojourn.quantile(0.99)));
    println!("  {:.0} % of a core", 100.0 * cpu.as_secs_f64() / took.as_secs_f64());
    let [p50, p99] = [0.5, 0.99].map(|q| readable(engine.lateness().quantile(q)));
    println!("  lateness p50 {p50}, p99 {p99}, max {}", readable(engine.lateness().max()));
}

#[test]
#[ignore = "measures; nothing is asserted of a machine's speed"]
fn the_relay_at_155_megabits_and_a_gigabit() {
    measure("--scenario oc3", 150_000_000);
    measure("--scenario oc3 --queue 1bdp", 155_000_000);
    measure("--scenario transoceanic", 950_000_000);
    measure("--scenario transoceanic", 1_000_000_000);
}
