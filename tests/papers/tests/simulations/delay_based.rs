//! Delay-based controllers and UDT over simulated links: goodput, standing queue, and effect on CUBIC.

use std::sync::Arc;

use longhaul_link::statistics::{mean, quantile, sorted};
use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Cause, GilbertElliott, Limit, LinkConfig, Loss, Policer};
use longhaul_sim::{Plan, Setup, Sim, full_segments};
use longhaul_tcp::Config;
use longhaul_units::{Rate, Span, Time};

const MSS: f64 = 1448.0;

fn config(congestion: &str) -> Arc<Config> {
    let mut config = Config::default();
    full_segments(&mut config);
    config.congestion = longhaul_tests_papers::congestion(congestion);
    Arc::new(config)
}

/// A bottleneck of `mbit` Mb/s with an RTT of `rtt_millis` ms and a queue of `queue` bytes.
pub(crate) fn link(mbit: u64, rtt_millis: u64, queue: u64) -> LinkConfig {
    let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
    LinkConfig::new(rate, Span::from_micros(rtt_millis * 500)).queue(Limit::Bytes(queue))
}

/// Measurements of several flows over a period.
pub(crate) struct Outcome {
    /// Goodput of each flow in Mb/s.
    pub(crate) goodput: Vec<f64>,
    /// Bytes queued at the bottleneck, sampled every 5 ms and sorted.
    queue: Vec<f64>,
    /// Queueing delay per byte in seconds.
    seconds_a_byte: f64,
}

impl Outcome {
    fn mean_queue_segments(&self) -> f64 {
        mean(&self.queue).unwrap() / MSS
    }

    /// Returns the given quantile of the queueing delay in milliseconds.
    pub(crate) fn delay_ms(&self, part: f64) -> f64 {
        quantile(&self.queue, part).unwrap() * self.seconds_a_byte * 1e3
    }

    pub(crate) fn share(&self, flow: usize) -> f64 {
        self.goodput[flow] / self.goodput.iter().sum::<f64>()
    }
}

/// Runs endless transfers that share `bottleneck`, each with its controller and start time in seconds. The measurements
/// cover `from` to `until` seconds.
pub(crate) fn run(bottleneck: LinkConfig, flows: &[(&str, u64)], from: u64, until: u64) -> Outcome {
    let back = LinkConfig::delay(bottleneck.delay);
    run_over(Duplex { there: bottleneck, back }, flows, from, until)
}

/// Like [`run`], with a bottleneck in both directions.
pub(crate) fn run_over(bottleneck: Duplex, flows: &[(&str, u64)], from: u64, until: u64) -> Outcome {
    run_as(bottleneck, flows, from, until, |_| {})
}

/// Like [`run_over`], with the configuration of all hosts modified by `change`.
pub(crate) fn run_as(
    bottleneck: Duplex,
    flows: &[(&str, u64)],
    from: u64,
    until: u64,
    change: fn(&mut Config),
) -> Outcome {
    let seconds_a_byte = 1.0 / bottleneck.there.rate_at(Time::ZERO).unwrap().as_bytes_per_sec() as f64;
    let access = || flows.iter().map(|_| Duplex::delay(Span::ZERO));
    let net = dumbbell(bottleneck, access(), access());
    let mut setup = Setup::new(5, net.topology);
    for ((name, _), (left, right)) in flows.iter().zip(net.left.iter().zip(&net.right)) {
        for node in [left, right] {
            setup.hosts[*node as usize].config = config(name);
            change(Arc::make_mut(&mut setup.hosts[*node as usize].config));
        }
    }
    let mut sim = Sim::new(setup);
    let mut receivers = Vec::new();
    let mut series = None;
    for ((_, at), (left, right)) in flows.iter().zip(net.left.iter().zip(&net.right)) {
        let (plan, sink) = (Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
        let at = Time::ZERO + Span::from_secs(*at);
        let (sender, receiver) = sim.open_at(at, *left as usize, *right as usize, plan, sink);
        let every = Span::from_millis(5);
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
    let queue = sorted(late.map(|(_, queue)| queue.as_f64()));
    Outcome { goodput, queue, seconds_a_byte }
}

/// Returns the payload rate in Mb/s of a link with `mbit` Mb/s, with 1448 bytes per 1500-byte packet.
pub(crate) fn payload(mbit: u64) -> f64 {
    mbit as f64 * MSS / 1500.0
}

/// Paths with a queue of four bandwidth-delay products: Mb/s and RTT in ms.
const PATHS: [(u64, u64); 2] = [(20, 40), (50, 100)];

fn deep(mbit: u64, rtt: u64) -> LinkConfig {
    link(mbit, rtt, 4 * mbit * rtt * 125)
}

/// NSDI 2018, section 3: the queue of a single flow oscillates between 0 and 2.5 / delta segments, with a mean of
/// 1.25 / delta, and the path is fully used.
#[test]
fn copa_alone_fills_the_path_and_leaves_the_queue_short() {
    for (mbit, rtt) in PATHS.into_iter().chain([(5, 20)]) {
        let outcome = run(deep(mbit, rtt), &[("copa", 0)], 20, 50);
        let (goodput, queue) = (outcome.goodput[0], outcome.mean_queue_segments());
        assert!(goodput > 0.98 * payload(mbit), "{mbit} Mb/s, {rtt} ms: {goodput} Mb/s");
        assert!((1.0..5.0).contains(&queue), "{mbit} Mb/s, {rtt} ms: {queue} segments");
    }
}

/// Two flows keep twice the queue of a single flow, and share the path.
#[test]
fn copa_shares_with_copa() {
    for (mbit, rtt) in PATHS {
        let outcome = run(deep(mbit, rtt), &[("copa", 0), ("copa", 10)], 20, 60);
        let (share, queue) = (outcome.share(1), outcome.mean_queue_segments());
        assert!((0.4..0.6).contains(&share) && queue < 10.0, "{mbit} Mb/s, {rtt} ms: {share}, {queue} segments");
    }
}

/// CUBIC fills the queue. Without its competitive mode, Copa leaves CUBIC almost all of the capacity.
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

/// Copa does not react to random losses. On this path of 155 Mb/s, kernel CUBIC was measured at 2.9 Mb/s, and BBR at
/// 142 Mb/s.
#[test]
fn copa_is_deaf_to_losses_by_chance() {
    let lossy = link(155, 65, 155 * 65 * 125).loss(Loss::Uniform(0.005));
    let outcome = run(lossy, &[("copa", 0)], 5, 20);
    assert!(outcome.goodput[0] > 142.0, "{} Mb/s", outcome.goodput[0]);
}

/// The median delay is LEDBAT++'s target of 60 ms. The minimum delays occur in slowdowns, which take a tenth of the
/// time.
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

/// If the queue can exceed the target delay, LEDBAT++ leaves all but a few percent to a competing CUBIC flow.
#[test]
fn ledbat_yields_to_cubic() {
    for (mbit, rtt) in PATHS {
        let outcome = run(deep(mbit, rtt), &[("ledbat-plus-plus", 0), ("cubic", 10)], 30, 90);
        let (share, total) = (outcome.share(0), outcome.goodput.iter().sum::<f64>());
        assert!(share < 0.05 && total > 0.95 * payload(mbit), "{mbit} Mb/s, {rtt} ms: {share} of {total} Mb/s");
    }
}

/// A later flow does not take the whole capacity, because it measures an empty queue when the first flow slows down.
#[test]
fn ledbat_shares_with_ledbat() {
    for (mbit, rtt) in PATHS {
        let flows = [("ledbat-plus-plus", 0), ("ledbat-plus-plus", 10)];
        let share = run(deep(mbit, rtt), &flows, 30, 150).share(1);
        assert!((0.25..0.75).contains(&share), "{mbit} Mb/s, {rtt} ms: {share}");
    }
}

/// On a path of 100 Mb/s and 133 ms with a queue of 150 kB and a loss rate of 1 in 20,000, the original UDT was
/// measured at 70 Mb/s and kernel CUBIC at 29 Mb/s. A loss reduces UDT's rate by a ninth, and the increase of 12 Mb/s
/// per second restores most of it within a second.
#[test]
fn udt_and_copa_on_a_long_path_with_few_losses() {
    let path = || link(100, 133, 150_000).loss(Loss::Uniform(5e-5));
    for (name, range) in [("udt", 75.0..92.0), ("copa", 92.0..97.0), ("cubic", 15.0..40.0)] {
        let goodput = run(path(), &[(name, 0)], 10, 60).goodput[0];
        assert!(range.contains(&goodput), "{name}: {goodput} Mb/s");
    }
}

/// H-TCP multiplies the window by RTTmin / RTTmax, which leaves one BDP: after each loss, the queue just empties, and
/// the link stays in use. On a long path, the queue fills within a few round trips. If RTTmax came from SRTT, it would
/// lag behind, and the queue would never empty.
#[test]
fn h_tcp_just_drains_the_queue() {
    for (mbit, rtt) in [(50, 100), (100, 200)] {
        let outcome = run(link(mbit, rtt, mbit * rtt * 125), &[("h-tcp", 0)], 30, 90);
        let (least, goodput) = (outcome.delay_ms(0.01) / rtt as f64, outcome.goodput[0]);
        assert!(least < 0.05, "{mbit} Mb/s, {rtt} ms: {least} of the queue is always there");
        assert!(goodput > 0.95 * payload(mbit), "{mbit} Mb/s, {rtt} ms: {goodput} Mb/s");
    }
}

/// rho is the minimum RTT divided by 25 ms, which a new flow learns as soon as the queue is empty once. With the
/// minimum of the smoothed RTT, which hardly decreases in this time, the new flow would take twice as much.
#[test]
fn hybla_shares_with_hybla() {
    for (mbit, rtt) in PATHS {
        let outcome = run(link(mbit, rtt, mbit * rtt * 125), &[("hybla", 0), ("hybla", 10)], 20, 80);
        let share = outcome.share(1);
        assert!((0.42..0.58).contains(&share), "{mbit} Mb/s, {rtt} ms: {share}");
    }
}

/// A policer of 20 Mb/s on a path of 100 Mb/s causes no queueing delay. Copa finds its rate by losses, and keeps the
/// loss rate below the 2 % that BBR tolerates (draft-ietf-ccwg-bbr). Without its loss bound, Copa loses a quarter of
/// all packets.
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

/// Returns the goodput in Mb/s and the fraction of data packets that the policer drops, from 10 s to 60 s.
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

/// Losses that do not decrease with the rate are attributed to the link and do not reduce the goodput: it is within a
/// tenth of the capacity that the losses leave, at loss rates of 1 to 5 %, with single losses or bursts of five.
#[test]
fn copas_loss_bound_leaves_a_lossy_link_its_goodput() {
    let bursty = |share: f64| Loss::GilbertElliott(GilbertElliott::simple(0.2 * share / (1.0 - share), 0.2));
    for loss in [Loss::Uniform(0.01), Loss::Uniform(0.03), Loss::Uniform(0.05), bursty(0.03)] {
        let goodput = run(link(30, 80, 30 * 80 * 125).loss(loss.clone()), &[("copa", 0)], 5, 35).goodput[0];
        assert!(goodput > 0.85 * payload(30), "{loss:?}: {goodput} Mb/s");
    }
}
