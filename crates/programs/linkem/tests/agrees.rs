//! Agreement of virtual and real time: the same transfer in `longhaul-sim`, and between real sockets over the relay.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "an error fails the test")]
#![expect(clippy::disallowed_methods, reason = "tests of real time")]

#[path = "emulation/common.rs"]
#[allow(dead_code, reason = "this test needs a part of it")]
mod common;

use std::future::pending;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use longhaul::{Config, Congestion, TcpListener, TcpStream};
use longhaul_link::statistics::sorted;
use longhaul_sim::{Plan, Setup, Sim};
use longhaul_sys::linux::run_first;
use longhaul_units::{Span, Time};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Tolerance, as a fraction of the completion time.
const AGREEMENT: f64 = 0.03;
/// Maximum lateness of the relay for a run to count, as a fraction of the completion time.
const DISTURBANCE: f64 = 0.005;
/// Maximum mean wait of client and server for a processor for a run to count, in seconds.
const WAIT: f64 = 0.0001;
/// Number of valid runs needed for the median, and maximum number of attempts.
const RUNS: usize = 3;
const TRIES: usize = 6;

/// Returns the seconds until the receiving application has the last byte.
fn in_virtual_time(options: &str, size: u64) -> f64 {
    let path = common::link(options);
    let mut sim = Sim::new(Setup::pair(path.seed, path.link));
    let (_, receiver) = sim.open(Plan::bulk(size).zeros(), Plan::sink().zeros());
    let read = |sim: &Sim| sim.find(receiver).map_or(0, |session| session.read);
    assert!(sim.run(Span::from_secs(600), |sim| read(sim) >= size));
    (sim.now() - Time::ZERO).as_nanos() as f64 / 1e9
}

/// Returns the same for real time, or `None` if the machine was too busy.
fn in_real_time(options: &str, size: u64) -> Option<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (seconds, relay, waited) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = common::relay(options, listener.local_addr().unwrap());
        let (began, before) = (Instant::now(), waits());
        let transfer = async {
            tokio::select! {
                () = receive(&listener, size) => {}
                () = send(relay.local_addr(), size) => {}
            }
        };
        timeout(Duration::from_secs(60), transfer).await.unwrap();
        let (seconds, after) = (began.elapsed().as_secs_f64(), waits());
        (seconds, relay, (after.0 - before.0) / (after.1 - before.1).max(1.0))
    });
    runtime.shutdown_background();
    let (engine, counts) = relay.stop().unwrap();
    let late = engine.lateness().max().as_nanos() as f64 / 1e9;
    let kept_up = counts.missed + counts.unsent == 0 && late < DISTURBANCE * seconds && waited < WAIT;
    kept_up.then_some(seconds)
}

async fn receive(listener: &TcpListener, size: u64) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let (mut buffer, mut received) = (vec![0; 1 << 20], 0);
    while received < size {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the end after {received} bytes of {size}");
        received += read as u64;
    }
}

async fn send(to: SocketAddr, size: u64) {
    // The controller of the simulation.
    let mut config = Config::default();
    config.congestion(Congestion::cubic());
    let mut stream = TcpStream::connect_with(to, &config).await.unwrap();
    stream.write_all(&vec![0; size as usize]).await.unwrap();
    stream.shutdown().await.unwrap();
    pending().await
}

/// Returns the seconds for which this thread was runnable without a processor, and how often it was scheduled
/// (proc(5)).
fn waits() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut fields = text.split_whitespace().map(|field| field.parse::<f64>().unwrap()).skip(1);
    (fields.next().unwrap_or(0.0) / 1e9, fields.next().unwrap_or(0.0))
}

/// Repeats until enough runs are valid, whatever their results are.
fn agree(options: &str, size: u64) {
    let expected = in_virtual_time(options, size);
    let runs = sorted((0..TRIES).filter_map(|_| in_real_time(options, size)).take(RUNS));
    eprintln!("{options}, {size} bytes: {expected:.4} s in virtual time, {runs:.4?} s in real time");
    if !needs::quiet_machine(runs.len() == RUNS) {
        return;
    }
    let median = runs[RUNS / 2];
    assert!((median / expected - 1.0).abs() < AGREEMENT, "{options}: {median} s instead of {expected} s");
}

/// This is one test, because concurrent transfers would disturb each other.
#[test]
fn a_transfer_takes_as_long_in_real_time_as_in_virtual_time() {
    // As root, client and server run with real-time priority, like the relay.
    let _ = run_first();
    // Slow start and its end on a long path.
    agree("--rate 40mbit --rtt 200ms --queue 1bdp", 2_000_000);
    // Handshake and first window.
    agree("--rate 10mbit --rtt 300ms", 100_000);
    // Loss and recovery, with the same packets lost.
    agree("--rate 20mbit --rtt 100ms --queue 1bdp --loss-list-up 300,301,302,500", 1_500_000);
}
