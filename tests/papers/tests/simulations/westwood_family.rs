//! The Westwood family compared with algorithms that take every loss for congestion, on the papers' paths: goodput,
//! start-up and fairness.

use std::sync::Arc;

use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Limit, LinkConfig, Loss};
use longhaul_sim::{Plan, SessionId, Setup, Sim, full_segments};
use longhaul_units::{Rate, Span};

/// Returns a bottleneck with a queue of `bdps` bandwidth-delay products.
fn link(mbit: u64, rtt: Span, bdps: f64, loss: f64) -> LinkConfig {
    let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
    let queue = rate.bytes_in(rtt).mul_f64(bdps).0;
    LinkConfig::new(rate, rtt / 2).queue(Limit::Bytes(queue)).loss(Loss::Uniform(loss))
}

/// Returns the path from UCLA to Alabama (Persson et al., section II.B): 155 Mb/s, 65 ms.
fn alabama(bdps: f64, loss: f64) -> LinkConfig {
    link(155, Span::from_millis(65), bdps, loss)
}

/// Returns the path from Los Angeles to Tokyo (Gerla et al., PFLDnet 2006): 80 Mb/s, 133 ms, and a queue of 150 kB,
/// which is 0.113 BDP.
fn tokyo(loss: f64) -> LinkConfig {
    link(80, Span::from_millis(133), 0.113, loss)
}

/// Starts one sender per algorithm in `algorithms`, each with its own receiver, over `bottleneck`. Segments have 1448
/// bytes, and receive windows are not limiting.
fn transfers(bottleneck: LinkConfig, algorithms: &[&str], seed: u64) -> (Sim, Vec<SessionId>) {
    let back = LinkConfig::delay(bottleneck.delay);
    let access = || algorithms.iter().map(|_| Duplex::delay(Span::from_micros(10)));
    let net = dumbbell(Duplex { there: bottleneck, back }, access(), access());
    let mut setup = Setup::new(seed, net.topology).configure(full_segments);
    for (node, algorithm) in net.left.iter().zip(algorithms) {
        Arc::make_mut(&mut setup.hosts[*node as usize].config).congestion =
            longhaul_tests_papers::congestion(algorithm);
    }
    let mut sim = Sim::new(setup);
    let pairs = net.left.iter().zip(&net.right);
    let open = |(from, to): (&u32, &u32)| {
        sim.open_between(*from as usize, *to as usize, Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros()).1
    };
    let receivers = pairs.map(open).collect();
    (sim, receivers)
}

/// Returns the goodput of a single flow over `secs` in Mb/s, start-up included.
fn goodput(bottleneck: &LinkConfig, algorithm: &str, secs: u64) -> f64 {
    let (mut sim, receivers) = transfers(bottleneck.clone(), &[algorithm], 1);
    sim.run_for(Span::from_secs(secs));
    let rate = sim.session(receivers[0]).read as f64 * 8e-6 / secs as f64;
    println!("{algorithm}: {rate:.1} Mb/s with {:?}", bottleneck.loss);
    rate
}

/// Returns the time until a flow gets 88 % of `mbit` for 100 ms, at most `limit` seconds.
fn time_to_fill(sim: &mut Sim, receiver: SessionId, mbit: f64, limit: u64) -> Span {
    let (start, mut last) = (sim.now(), sim.find(receiver).map_or(0, |session| session.read));
    for _ in 0..limit * 10 {
        sim.run_for(Span::from_millis(100));
        let read = sim.find(receiver).map_or(0, |session| session.read);
        if (read - last) as f64 * 80.0 > 0.88e6 * mbit {
            break;
        }
        last = read;
    }
    sim.now() - start
}

/// Without random losses, the link stays in full use after the overflow at the end of slow start, because the rate has
/// been estimated by then.
#[test]
fn the_first_overflow_leaves_the_path_full() {
    let path = alabama(1.0, 0.0);
    let reno = goodput(&path, "new-reno", 30);
    for algorithm in ["westwood", "westwood-re", "westwood-crb", "adaptive-reno"] {
        let own = goodput(&path, algorithm, 30);
        assert!(own > 0.99 * reno, "{algorithm} {own:.1}, NewReno {reno:.1}");
    }
    let published = goodput(&path, "westwood(from=zero)", 30);
    assert!(published < 0.9 * reno, "{published:.1}");
}

/// Persson et al., section IV.A and figure 4: the adaptive start reaches the full rate within a few seconds, whereas
/// NewReno's increase takes 40 s. Slow start is faster, but loses a window of data when it overshoots, which the
/// adaptive start does not.
#[test]
fn adaptive_start_fills_the_path_in_seconds_without_losses() {
    for (algorithm, limit, most_lost) in [("abse", 4000, 50), ("tcpw-a", 4000, 50), ("slow-start+abse", 1000, u64::MAX)]
    {
        let (mut sim, receivers) = transfers(alabama(1.0, 0.0), &[algorithm], 1);
        let taken = time_to_fill(&mut sim, receivers[0], 155.0, 20);
        sim.run_for(Span::from_secs(2));
        let lost = sim.link(0).stats().all().dropped_total();
        println!("{algorithm}: {taken}, {lost} lost");
        assert!(taken <= Span::from_millis(limit), "{algorithm}: {taken}");
        assert!(lost <= most_lost && (most_lost < u64::MAX || lost > 800), "{algorithm}: {lost} lost");
    }
}

/// Robustness to the buffer size is the purpose of BBE: competing with NewReno, its share with a buffer of 0.02 BDP is
/// no larger than with one BDP, whereas Westwood takes nearly everything.
#[test]
fn bbe_is_friendly_whatever_the_buffer() {
    for bottleneck in [alabama(1.0, 0.0), alabama(0.02, 0.0), tokyo(0.0)] {
        let share = |algorithm: &str| {
            let (mut sim, receivers) = transfers(bottleneck.clone(), &[algorithm, "new-reno"], 1);
            let mut read = |secs| {
                sim.run_for(Span::from_secs(secs));
                [0, 1].map(|flow| sim.session(receivers[flow]).read as f64)
            };
            let (early, late) = (read(60), read(120));
            let (own, others) = (late[0] - early[0], late[1] - early[1]);
            println!("{algorithm}: {:.2} times NewReno's beside it over {:?}", own / others, bottleneck.queue);
            own / others
        };
        let own = share("westwood-bbe");
        assert!(own < 1.5 && own > 0.3, "{own}");
        if bottleneck == alabama(0.02, 0.0) {
            let westwood = share("westwood");
            assert!(westwood > 5.0, "{westwood}");
        }
    }
}

/// JSAC 23(2), 2005, dynamic, large, leaky pipes: the capacity grows from 15 to 155 Mb/s under random losses, during
/// congestion avoidance. Persistent non-congestion detection makes the window follow, whereas one segment per round
/// trip takes half a minute.
#[test]
fn pncd_finds_a_pipe_that_grew() {
    let path = |mbit| link(mbit, Span::from_millis(65), 1.0, 1e-4);
    let taken = |algorithm: &str| {
        let (mut sim, receivers) = transfers(path(15), &[algorithm], 3);
        sim.run_for(Span::from_secs(30));
        sim.reconfigure(0, path(155)).unwrap();
        let taken = time_to_fill(&mut sim, receivers[0], 155.0, 90);
        println!("{algorithm}: {taken}");
        taken
    };
    let (with, without) = (taken("tcpw-a"), taken("abse"));
    assert!(with * 2 < without, "{with} and {without}");
}

/// The route becomes 60 ms longer under random losses. Compared with the minimum RTT of the whole connection, this
/// looks like a permanent queue, and every loss like congestion. With a minimum over ten seconds, losses are soon
/// classified correctly again.
#[test]
fn a_longer_route_is_not_taken_for_congestion() {
    let rate = |algorithm: &str, window: u32| {
        let (name, slots) = algorithm.split_once('/').unwrap_or((algorithm, "{}"));
        let algorithm = slots.replace("{}", &format!("{name}(rtt-min-window={window})"));
        let (mut sim, receivers) = transfers(tokyo(1e-3), &[&algorithm], 1);
        sim.run_for(Span::from_secs(10));
        let longer = tokyo(1e-3);
        let delay = longer.delay + Span::from_millis(60);
        sim.reconfigure(0, LinkConfig { delay, ..longer }).unwrap();
        sim.run_for(Span::from_secs(20));
        let before = sim.session(receivers[0]).read;
        sim.run_for(Span::from_secs(40));
        let rate = (sim.session(receivers[0]).read - before) as f64 * 8e-6 / 40.0;
        println!("{algorithm}: {rate:.1} Mb/s");
        rate
    };
    for algorithm in ["westwood-bbe", "adaptive-reno", "bbe/slow-start=slow-start,avoidance=new-reno,loss={}"] {
        let (forever, ten) = (rate(algorithm, 0), rate(algorithm, 10));
        assert!(ten > 2.0 * forever, "{algorithm}: {ten:.1} and {forever:.1}");
    }
}
