//! Low-priority probes over simulated links: the information that they give to the controller, and their effect on
//! other traffic, which must be none.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_link::source::Source;
use longhaul_link::topology::Duplex;
use longhaul_link::{Classes, Discipline, Limit, LinkConfig, LinkRate, Loss, Random};
use longhaul_sim::{Packet, Plan, SessionId, Setup, Sighting, Sim, Tap, full_segments};
use longhaul_tcp::{Config, Info, ProbeInfo};
use longhaul_units::{Rate, Span, Time};

/// RTT over a geostationary satellite (Leung and Yeung, ISCC 2004, table 2).
const RTT: Span = Span::from_millis(550);
const MSS: u64 = 1448;

/// Returns links of 10 Mb/s with half of the RTT each, and a queue of 50 packets that drops probes in favour of data.
fn links() -> Duplex {
    let mut there = LinkConfig::new(Rate::from_bits_per_sec(10_000_000), RTT / 2).queue(Limit::Packets(50));
    there.queue.discipline = Discipline::Priority(Classes::less_effort());
    Duplex { there, back: LinkConfig::delay(RTT / 2) }
}

/// Packets sent by the sender's host, by DiffServ codepoint.
#[derive(Default)]
struct Leaving {
    low: u64,
    data: u64,
}

impl Tap for Leaving {
    fn see(&mut self, _now: Time, sighting: Sighting, packet: &Packet) {
        if sighting == Sighting::Sent(0) && packet.payload_len() > 100 {
            *(if packet.dscp == 1 { &mut self.low } else { &mut self.data }) += 1;
        }
    }
}

struct World {
    sim: Sim,
    sender: SessionId,
    leaving: Rc<RefCell<Leaving>>,
}

impl World {
    fn new(links: Duplex, congestion: &str, send: u64, change: impl Fn(&mut Config)) -> Self {
        let mut setup = Setup::pair(1, links).configure(|config| {
            full_segments(config);
            config.congestion = longhaul_tests_papers::congestion(congestion);
        });
        change(std::sync::Arc::make_mut(&mut setup.hosts[1].config));
        let mut sim = Sim::new(setup);
        let leaving = Rc::new(RefCell::new(Leaving::default()));
        sim.add_tap(Rc::clone(&leaving));
        let (sender, _) = sim.open(Plan::bulk(send).zeros(), Plan::sink().zeros());
        Self { sim, sender, leaving }
    }

    /// Runs until `round_trips` round trips after the SYN.
    fn until(&mut self, round_trips: f64) -> Info {
        let end = Time::ZERO + RTT.mul_f64(round_trips);
        self.sim.run_for(end - self.sim.now());
        self.info()
    }

    fn info(&self) -> Info {
        let id = self.sim.session(self.sender).id;
        self.sim.host(0).endpoint.connection(id).unwrap().info(self.sim.now())
    }

    fn probes(&self) -> ProbeInfo {
        self.info().probes.unwrap()
    }
}

fn is_quiet(info: &Info) -> bool {
    (info.recoveries, info.segments_retransmitted, info.dsacks, info.bytes_lost, info.timeouts) == (0, 0, 0, 0, 0)
}

/// Two round trips after the handshake, the window is 64 segments: one for the segment of data, and 63 for its
/// acknowledged copies. This also works with a peer without probe echo.
#[test]
fn a_window_opens_in_two_round_trips() {
    for start in ["sudden-start", "peach-jump-start", "speedy-start"] {
        for extensions in [true, false] {
            let mut world = World::new(links(), &format!("{start}+new-reno"), u64::MAX, |config| {
                config.extensions = extensions;
            });
            let info = world.until(3.05);
            assert_eq!(info.cwnd.0, 64 * MSS, "{start} {extensions}: {:?}", info.probes);
            let probes = world.probes();
            assert_eq!(
                (probes.sent, probes.acked, probes.lost, probes.refused),
                (63, 63, 0, 0),
                "{start} {extensions}"
            );
            assert!(is_quiet(&info), "{start} {extensions}: {info:?}");
            assert_eq!(world.leaving.borrow().low, 63, "low priority, each");
            // Congestion avoidance adds one segment per round trip.
            let later = world.until(8.05);
            assert!(
                (64 * MSS..=70 * MSS).contains(&later.cwnd.0) && is_quiet(&later),
                "{start} {extensions}: {later:?}"
            );
        }
    }
}

/// With a load of 90 %, most probes are dropped in favour of other data, and the window opens by the number of probes
/// that arrive.
#[test]
fn a_loaded_path_drops_probes_and_no_data() {
    let mut world = World::new(links(), "speedy-start+new-reno", u64::MAX, |_| {});
    let load = Source::poisson(Time::ZERO, Rate::from_bits_per_sec(10_500_000), 1200, Random::new(1, 7));
    world.sim.add_traffic(0, 1, load, Time::MAX);
    let info = world.until(3.3);
    let probes = world.probes();
    assert!(probes.acked < 32, "{probes:?}");
    assert_eq!(info.cwnd.0, (1 + probes.acked) * MSS, "{probes:?}");
}

/// Returns the window of `speedy-start+new-reno+{recovery}` in segments before a loss and five round trips after it. If
/// `chance`, the loss is random, otherwise due to congestion.
fn after_a_loss(recovery: &str, chance: bool) -> (u64, u64, Info) {
    let mut links = links();
    if chance {
        links.there.loss = Loss::List(vec![400]);
    } else {
        links.there.queue.limit = Limit::Packets(10);
    }
    let narrow = LinkConfig { rate: LinkRate::Constant(Rate::from_bits_per_sec(700_000)), ..links.there.clone() };
    let mut world = World::new(links, &format!("speedy-start+new-reno+{recovery}"), u64::MAX, |_| {});
    world.until(8.0);
    if !chance {
        // The rate drops from 10 Mb/s to half of the rate at which the window was sent.
        world.sim.reconfigure(0, narrow).unwrap();
    }
    let mut before = 0;
    while world.info().recoveries == 0 {
        before = world.info().cwnd.0 / MSS;
        assert!(world.sim.now() < Time::ZERO + RTT * 20, "nothing was lost");
        world.sim.run_for(Span::from_millis(5));
    }
    let begun = (world.sim.now() - Time::ZERO).as_secs_f64() / RTT.as_secs_f64();
    let info = world.until(begun + 5.0);
    println!("{recovery}, chance {chance}: {before} -> {} segments, {:?}", info.cwnd.0 / MSS, info.probes);
    (before, info.cwnd.0 / MSS, info)
}

/// If one segment of a window of 64 is lost at random, all probes arrive, and the window is restored. If the path
/// carries only half of its former rate, probes are dropped, and the window is not restored.
#[test]
fn chance_costs_no_window_and_congestion_does() {
    for recovery in ["rapid-recovery", "quick-recovery", "speedy-recovery"] {
        let (before, after, info) = after_a_loss(recovery, true);
        assert!(after + 3 >= before && after <= before + 5, "{recovery}: {before} {after}");
        assert_eq!((info.recoveries, info.spurious_recoveries, info.timeouts), (1, 0, 0), "{recovery}: {info:?}");
        let (before, after, _) = after_a_loss(recovery, false);
        assert!(after <= before * 6 / 10, "{recovery}: {before} {after}");
    }
    let (before, after, _) = after_a_loss("prr", true);
    assert!(after <= before * 6 / 10, "without probes half is gone: {before} {after}");
}
