//! Controllers that watch the delay, and UDT, over whole links in virtual time: what they take, how long a queue they
//! keep, and what they leave to CUBIC.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::sync::Arc;

use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Cause, GilbertElliott, Limit, LinkConfig, Loss, Policer};
use longhaul_sim::{Plan, Sampling, Setup, Sim, full_segments};
use longhaul_tcp::Config;
use longhaul_units::{Rate, Span, Time};

const MSS: f64 = 1448.0;

fn config(congestion: &str) -> Arc<Config> {
    let mut config = Config::default();
    full_segments(&mut config);
    config.congestion = congestion.parse().unwrap();
    Arc::new(config)
}

/// A bottleneck of `mbit` Mb/s, `rtt_millis` ms there and back, with a queue of `queue` bytes.
fn link(mbit: u64, rtt_millis: u64, queue: u64) -> LinkConfig {
    let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
    LinkConfig::new(rate, Span::from_micros(rtt_millis * 500)).queue(Limit::Bytes(queue))
}

/// What flows did between `from` and the end.
struct Outcome {
    /// Goodput of each, Mb/s.
    goodput: Vec<f64>,
    /// Bytes that waited at the bottleneck, every 5 ms, in order of size.
    queue: Vec<f64>,
    /// Seconds that a byte in the queue stands for.
    seconds_a_byte: f64,
}

impl Outcome {
    fn mean_queue_segments(&self) -> f64 {
        self.queue.iter().sum::<f64>() / self.queue.len() as f64 / MSS
    }

    /// The queueing delay that `part` of the time was less, in milliseconds.
    fn delay_ms(&self, part: f64) -> f64 {
        self.queue[(part * (self.queue.len() - 1) as f64) as usize] * self.seconds_a_byte * 1e3
    }

    fn share(&self, flow: usize) -> f64 {
        self.goodput[flow] / self.goodput.iter().sum::<f64>()
    }
}

/// Endless transfers that share `bottleneck`: each by its controller and begun at its second. Measured from second
/// `from` to second `until`.
fn run(bottleneck: LinkConfig, flows: &[(&str, u64)], from: u64, until: u64) -> Outcome {
    let seconds_a_byte = 1.0 / bottleneck.rate_at(Time::ZERO).unwrap().as_bytes_per_sec() as f64;
    let back = LinkConfig::delay(bottleneck.delay);
    let access = || flows.iter().map(|_| Duplex::delay(Span::ZERO));
    let net = dumbbell(Duplex { there: bottleneck, back }, access(), access());
    let mut setup = Setup::new(5, net.topology);
    for ((name, _), (left, right)) in flows.iter().zip(net.left.iter().zip(&net.right)) {
        for node in [left, right] {
            setup.hosts[*node as usize].config = config(name);
        }
    }
    let mut sim = Sim::new(setup);
    let mut receivers = Vec::new();
    let mut series = None;
    for ((_, at), (left, right)) in flows.iter().zip(net.left.iter().zip(&net.right)) {
        let (plan, sink) = (Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
        let at = Time::ZERO + Span::from_secs(*at);
        let (sender, receiver) = sim.open_at(at, *left as usize, *right as usize, plan, sink);
        let every = Sampling::Every(Span::from_millis(5));
        series.get_or_insert_with(|| sim.record(sender, Some(net.bottleneck.0), every));
        receivers.push(receiver);
    }
    sim.run_for(Span::from_secs(from));
    let read = |sim: &Sim| receivers.iter().map(|id| sim.session(*id).read).collect::<Vec<_>>();
    let before = read(&sim);
    sim.run_for(Span::from_secs(until - from));
    let after = read(&sim);
    let megabits = |bytes: u64| bytes as f64 * 8e-6 / (until - from) as f64;
    let goodput = before.iter().zip(after).map(|(before, after)| megabits(after - before)).collect();
    let series = sim.series(series.unwrap());
    let late = series.time.iter().zip(&series.queue).filter(|(at, _)| at.as_nanos() >= from * 1_000_000_000);
    let mut queue: Vec<f64> = late.map(|(_, queue)| queue.as_f64()).collect();
    queue.sort_unstable_by(f64::total_cmp);
    Outcome { goodput, queue, seconds_a_byte }
}

/// What a link of so many Mb/s carries of payload, where 1448 bytes take 1500.
fn payload(mbit: u64) -> f64 {
    mbit as f64 * MSS / 1500.0
}

/// Paths with a queue of four bandwidth-delay products, bytes: Mb/s and milliseconds.
const PATHS: [(u64, u64); 2] = [(20, 40), (50, 100)];

fn deep(mbit: u64, rtt: u64) -> LinkConfig {
    link(mbit, rtt, 4 * mbit * rtt * 125)
}

/// NSDI 2018, section 3: the queue of a flow alone swings between empty and 2.5 / delta segments, 1.25 / delta in the
/// mean, and the path is used in full.
#[test]
fn copa_alone_fills_the_path_and_leaves_the_queue_short() {
    for (mbit, rtt) in PATHS.into_iter().chain([(5, 20)]) {
        let outcome = run(deep(mbit, rtt), &[("copa", 0)], 20, 50);
        let (goodput, queue) = (outcome.goodput[0], outcome.mean_queue_segments());
        assert!(goodput > 0.98 * payload(mbit), "{mbit} Mb/s, {rtt} ms: {goodput} Mb/s");
        assert!((1.0..5.0).contains(&queue), "{mbit} Mb/s, {rtt} ms: {queue} segments");
    }
}

/// Two keep twice that, and share.
#[test]
fn copa_shares_with_copa() {
    for (mbit, rtt) in PATHS {
        let outcome = run(deep(mbit, rtt), &[("copa", 0), ("copa", 10)], 20, 60);
        let (share, queue) = (outcome.share(1), outcome.mean_queue_segments());
        assert!((0.4..0.6).contains(&share) && queue < 10.0, "{mbit} Mb/s, {rtt} ms: {share}, {queue} segments");
    }
}

/// CUBIC fills the queue; without the competitive mode Copa leaves it almost all.
#[test]
fn copa_competes_with_cubic() {
    for queue in [1, 4] {
        let bottleneck = || link(20, 40, queue * 20 * 40 * 125);
        let with = run(bottleneck(), &[("cubic", 0), ("copa", 5)], 20, 80).share(1);
        let without = run(bottleneck(), &[("cubic", 0), ("copa(competitive=off)", 5)], 20, 80).share(1);
        assert!((0.2..0.65).contains(&with), "{queue} BDP: {with}");
        assert!(without < 0.1, "{queue} BDP, default mode: {without}");
    }
}

/// Losses by chance do not move it: kernel CUBIC gets 2.9 Mb/s of these 155, and BBR 142.
#[test]
fn copa_is_deaf_to_losses_by_chance() {
    let lossy = link(155, 65, 155 * 65 * 125).loss(Loss::Uniform(0.005));
    let outcome = run(lossy, &[("copa", 0)], 5, 20);
    assert!(outcome.goodput[0] > 142.0, "{} Mb/s", outcome.goodput[0]);
}

/// The target of 60 ms is the usual delay, and slowdowns, of which the least delays are, take a tenth.
#[test]
fn ledbat_alone_keeps_its_target_and_sees_the_path_empty() {
    for (mbit, rtt) in PATHS {
        let outcome = run(deep(mbit, rtt), &[("ledbat-plus-plus", 0)], 20, 80);
        let [least, usual, most] = [0.05, 0.5, 0.95].map(|part| outcome.delay_ms(part));
        let name = format!("{mbit} Mb/s, {rtt} ms");
        assert!(least < 5.0 && (58.0..62.0).contains(&usual) && most < 63.0, "{name}: {least}, {usual}, {most} ms");
        assert!(outcome.goodput[0] > 0.9 * payload(mbit), "{name}: {} Mb/s", outcome.goodput[0]);
    }
}

/// Where the queue can be longer than the target, a flow that fills it gets all but a few parts in a hundred.
#[test]
fn ledbat_yields_to_cubic() {
    for (mbit, rtt) in PATHS {
        let outcome = run(deep(mbit, rtt), &[("ledbat-plus-plus", 0), ("cubic", 10)], 30, 90);
        let (share, total) = (outcome.share(0), outcome.goodput.iter().sum::<f64>());
        assert!(share < 0.05 && total > 0.95 * payload(mbit), "{mbit} Mb/s, {rtt} ms: {share} of {total} Mb/s");
    }
}

/// The latecomer does not take all: it sees the path empty when the first slows down.
#[test]
fn ledbat_shares_with_ledbat() {
    for (mbit, rtt) in PATHS {
        let flows = [("ledbat-plus-plus", 0), ("ledbat-plus-plus", 10)];
        let share = run(deep(mbit, rtt), &flows, 30, 150).share(1);
        assert!((0.25..0.75).contains(&share), "{mbit} Mb/s, {rtt} ms: {share}");
    }
}

/// 100 Mb/s, 133 ms, 150 kB, one segment in 20,000 lost: UDT itself was measured at 70 Mb/s, kernel CUBIC at 29. A loss
/// takes a ninth, most of which the steps of 12 Mb/s a second bring back within a second.
#[test]
fn udt_and_copa_on_a_long_path_with_few_losses() {
    let path = || link(100, 133, 150_000).loss(Loss::Uniform(5e-5));
    for (name, range) in [("udt", 75.0..92.0), ("copa", 92.0..97.0), ("cubic", 15.0..40.0)] {
        let goodput = run(path(), &[(name, 0)], 10, 60).goodput[0];
        assert!(range.contains(&goodput), "{name}: {goodput} Mb/s");
    }
}

/// RTTmin / RTTmax of the window is what the path alone holds: after each loss the queue just empties, and the link stays in use. On a
/// long path the queue fills within few round trips, which RTTmax from SRTT would lag behind, so that the queue never emptied.
#[test]
fn h_tcp_just_drains_the_queue() {
    for (mbit, rtt) in [(50, 100), (100, 200)] {
        let outcome = run(link(mbit, rtt, mbit * rtt * 125), &[("h-tcp", 0)], 30, 90);
        let (least, goodput) = (outcome.delay_ms(0.01) / rtt as f64, outcome.goodput[0]);
        assert!(least < 0.05, "{mbit} Mb/s, {rtt} ms: {least} of the queue is always there");
        assert!(goodput > 0.95 * payload(mbit), "{mbit} Mb/s, {rtt} ms: {goodput} Mb/s");
    }
}

/// rho is the least round trip over 25 ms: a newcomer to a queue learns it as soon as the queue once empties. With the least smoothed round
/// trip, which hardly comes down meanwhile, the newcomer took twice as much.
#[test]
fn hybla_shares_with_hybla() {
    for (mbit, rtt) in PATHS {
        let outcome = run(link(mbit, rtt, mbit * rtt * 125), &[("hybla", 0), ("hybla", 10)], 20, 80);
        let share = outcome.share(1);
        assert!((0.42..0.58).contains(&share), "{mbit} Mb/s, {rtt} ms: {share}");
    }
}

/// A policer of 20 Mb/s on a path of 100 Mb/s: no queue, and so no delay, ever. Copa comes to what passes by its losses, and goes on losing
/// little: BBR's 2 % (draft-ietf-ccwg-bbr) are the most that it asks to lose. Without a bound it loses a quarter of all it sends.
#[test]
fn copa_keeps_its_losses_at_a_policer_within_bounds() {
    for (burst, rtt) in [(15_000, 40), (60_000, 10), (500_000, 40), (30_000, 200)] {
        let rate = Rate::from_bits_per_sec(20_000_000);
        let policed = || LinkConfig { policer: Some(Policer { rate, burst }), ..link(100, rtt, 100 * rtt * 125) };
        let (goodput, lost) = run_policed(policed(), "copa");
        assert!(lost < 0.02, "burst of {burst} bytes, {rtt} ms: {lost} lost");
        assert!(goodput > 0.85 * payload(20), "burst of {burst} bytes, {rtt} ms: {goodput} Mb/s");
        let (_, lost) = run_policed(policed(), "copa(loss-bound=1)");
        assert!(lost > 0.1, "burst of {burst} bytes, {rtt} ms, without a bound: {lost} lost");
    }
}

/// Mb/s at the receiver, and the part of the data packets that the policer drops, from second 10 to second 60.
fn run_policed(policed: LinkConfig, name: &str) -> (f64, f64) {
    let back = LinkConfig::delay(policed.delay);
    let mut setup = Setup::pair(1, Duplex { there: policed, back });
    for host in &mut setup.hosts {
        host.config = config(name);
    }
    let mut sim = Sim::new(setup);
    let (_, receiver) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    let count = |sim: &Sim| {
        let stats = sim.link(0).stats().all();
        (sim.session(receiver).read as f64, stats.dropped(Cause::Policed) as f64, stats.offered as f64)
    };
    sim.run_for(Span::from_secs(10));
    let before = count(&sim);
    sim.run_for(Span::from_secs(50));
    let after = count(&sim);
    ((after.0 - before.0) * 8e-6 / 50.0, (after.1 - before.1) / (after.2 - before.2))
}

/// Losses that stay when less is sent are the link's, and cost what they are: within a tenth of what the link leaves, at 1 to 5 %, one by
/// one or five at a time.
#[test]
fn copas_loss_bound_leaves_a_lossy_link_its_goodput() {
    let bursty = |share: f64| Loss::GilbertElliott(GilbertElliott::simple(0.2 * share / (1.0 - share), 0.2));
    for loss in [Loss::Uniform(0.01), Loss::Uniform(0.03), Loss::Uniform(0.05), bursty(0.03)] {
        let goodput = run(link(30, 80, 30 * 80 * 125).loss(loss.clone()), &[("copa", 0)], 5, 35).goodput[0];
        assert!(goodput > 0.85 * payload(30), "{loss:?}: {goodput} Mb/s");
    }
}
