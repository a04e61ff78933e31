//! Benefit of arrival times: capacity estimates from flipped pairs of segments, over simulated links.

use std::sync::{Arc, Mutex};

use longhaul_cc::{Demands, observed};
use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig, LinkRate, Loss, Trace};
use longhaul_sim::{Plan, Setup, Sim};
use longhaul_tcp::{Config, Info};
use longhaul_units::{Rate, Span};

const CAPACITY: Rate = Rate::from_bits_per_sec(80_000_000);

/// Returns links of 80 Mb/s with an RTT of 40 ms. `back` is the reverse link.
fn links(back: LinkConfig) -> Duplex {
    Duplex { there: LinkConfig::new(CAPACITY, Span::from_millis(20)).queue(Limit::Bytes(2_000_000)), back }
}

/// Returns a reverse link that delivers ACKs in bunches every 20 ms.
fn bunches() -> LinkConfig {
    let mut link = LinkConfig::delay(Span::from_millis(20));
    link.rate = LinkRate::Trace(Arc::new(Trace::parse(&"20\n".repeat(100)).unwrap()));
    link
}

/// Returns the state of the sender of an endless transfer after this many seconds.
fn run(links: Duplex, seconds: u64, change: impl Fn(&mut Config), receiver: impl Fn(&mut Config)) -> Info {
    let mut setup = Setup::pair(1, links).configure(|config| {
        (config.base_plpmtu, config.max_plpmtu) = (1472, 1472);
        config.congestion = longhaul_tests_papers::congestion("vegas");
        change(config);
    });
    receiver(Arc::make_mut(&mut setup.hosts[1].config));
    let mut sim = Sim::new(setup);
    let (sender, _) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    sim.run_for(Span::from_secs(seconds));
    let id = sim.session(sender).id;
    sim.host(0).endpoint.connection(id).unwrap().info(sim.now())
}

fn error(info: &Info) -> Option<f64> {
    let capacity = info.pairs.unwrap().capacity?;
    Some((capacity.as_bits_per_sec() as f64 / CAPACITY.as_bits_per_sec() as f64 - 1.0).abs())
}

/// With arrival times, the estimate equals the capacity of the link, whatever happens to ACKs. Without arrival times,
/// the estimate is correct only if the reverse path preserves the spacing of ACKs.
#[test]
fn capacity_is_known_in_spite_of_compressed_and_delayed_acks() {
    let slow = LinkConfig::new(Rate::from_bits_per_sec(500_000), Span::from_millis(20));
    let paths = [
        ("an idle way back", LinkConfig::delay(Span::from_millis(20)), true, true),
        // If the reverse path adds up to 20 ms, the sender cannot know whether a pair had the minimum delay.
        ("ACKs in bunches", bunches(), false, false),
        ("a way back of 500 kb/s", slow, false, true),
    ];
    for (name, back, usable, converges) in paths {
        let of = |extensions| {
            let change = |config: &mut Config| (config.probe_pairs, config.extensions) = (true, extensions);
            let info = run(links(back.clone()), 10, change, |config| config.ack_every = 16);
            assert_eq!(info.arrival_times, extensions);
            info
        };
        let (with, without) = (of(true), of(false));
        println!("{name}: with {:?} {:?}, without {:?} {:?}", error(&with), with.pairs, error(&without), without.pairs);
        assert!(error(&with).unwrap() <= 0.01 && (with.pairs.unwrap().converged || !converges), "{name}");
        let fair = error(&without).is_some_and(|error| error <= 0.05);
        assert_eq!(fair, usable, "{name} without arrival times");
    }
}

/// Returns the relative error of UDT's capacity estimate after this many seconds, and its goodput in Mb/s.
fn run_udt(links: Duplex, seconds: u64, ack_every: u8, extensions: bool) -> (Option<f64>, f64) {
    let seen = Arc::new(Mutex::new(None));
    let change = |config: &mut Config| {
        let seen = Arc::clone(&seen);
        let udt = observed(longhaul_tests_papers::congestion("udt"), Demands::default(), move |_, _, udt| {
            *seen.lock().unwrap() = udt.snapshot().bandwidth;
        });
        (config.congestion, config.extensions) = (udt, extensions);
    };
    let info = run(links, seconds, change, |config| config.ack_every = ack_every);
    assert_eq!(info.arrival_times, extensions);
    // UDT's estimate refers to payload.
    let payload = CAPACITY.as_bits_per_sec() as f64 * f64::from(info.mss) / 1500.0;
    let capacity: Option<Rate> = *seen.lock().unwrap();
    let error = capacity.map(|rate| (rate.as_bits_per_sec() as f64 / payload - 1.0).abs());
    (error, info.delivered as f64 * 8e-6 / seconds as f64)
}

/// UDT's packet pairs: with arrival times, the estimate equals the capacity of the link, whatever happens to ACKs.
/// Without arrival times, it is correct only if the reverse path preserves the spacing of ACKs. Delayed ACKs do not
/// affect a flipped pair.
#[test]
fn udt_knows_the_capacity_in_spite_of_compressed_and_delayed_acks() {
    let idle = LinkConfig::delay(Span::from_millis(20));
    let paths = [
        ("an ACK for two segments", idle.clone(), 2, true),
        ("an ACK for sixteen", idle, 16, true),
        ("ACKs in bunches", bunches(), 2, false),
    ];
    for (name, back, ack_every, usable) in paths {
        let [with, without] = [true, false].map(|extensions| run_udt(links(back.clone()), 10, ack_every, extensions));
        println!("{name}: with {with:.3?}, without {without:.3?}");
        assert!(with.0.unwrap() <= 0.01, "{name}: {with:?}");
        assert_eq!(without.0.is_some_and(|error| error <= 0.05), usable, "{name} without arrival times: {without:?}");
    }
}

/// UDT's increase depends on its estimate of the free capacity, and is minimal without an estimate: with compressed
/// ACKs, UDT recovers its rate after random losses only if it has arrival times.
#[test]
fn udt_recovers_from_losses_in_spite_of_compressed_acks() {
    let mut links = links(bunches());
    links.there.loss = Loss::Uniform(0.0002);
    let [with, without] = [true, false].map(|extensions| run_udt(links.clone(), 200, 2, extensions).1);
    println!("with {with:.1}, without {without:.1} Mb/s");
    assert!(with > 1.5 * without, "with {with:.1}, without {without:.1} Mb/s");
}

/// A receiver sends reports only if its peer requests them, regardless of the receiver's own setting, and never without
/// its own extensions.
#[test]
fn reports_come_if_asked_for() {
    let arrivals = |sender: bool, receiver: bool, extensions: bool| {
        let back = LinkConfig::delay(Span::from_millis(20));
        let of_receiver = |config: &mut Config| (config.arrival_times, config.extensions) = (receiver, extensions);
        run(links(back), 1, |config| config.arrival_times = sender, of_receiver).arrival_times
    };
    assert!(arrivals(true, false, true));
    assert!(!arrivals(false, true, true), "who accepts a connection cannot ask");
    assert!(!arrivals(true, false, false));
}

/// Pairs have no cost: on a path without losses, nothing is retransmitted or marked lost, and the goodput is the
/// same.
#[test]
fn pairs_do_no_harm() {
    let of = |pairs| {
        let change = move |config: &mut Config| config.probe_pairs = pairs;
        run(links(LinkConfig::delay(Span::from_millis(20))), 20, change, |_| {})
    };
    let (with, without) = (of(true), of(false));
    assert!(with.pairs.unwrap().measured > 50, "{:?}", with.pairs);
    assert_eq!((with.segments_retransmitted, with.recoveries, with.dsacks), (0, 0, 0));
    assert!(with.delivered as f64 >= 0.995 * without.delivered as f64, "{} {}", with.delivered, without.delivered);
}
