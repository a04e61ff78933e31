use longhaul_units::{Rate, Span};

use super::*;
use crate::config::LinkConfig;
use crate::hook::View;
use crate::queue::Limit;
use crate::stats::Cause;
use crate::topology::{Duplex, chain, dumbbell, row};

fn ms(millis: u64) -> Span {
    Span::from_millis(millis)
}

/// Polls at every event until the network is empty, as a simulator in virtual time does.
fn drain<H: Hook<u64>>(network: &mut Network<u64, H>) -> Vec<Delivery<u64>> {
    let mut deliveries = Vec::new();
    while let Some(now) = network.next_event() {
        while let Some(delivery) = network.poll(now) {
            assert_eq!(delivery.at, now);
            deliveries.push(delivery);
        }
    }
    deliveries
}

fn at(millis: u64) -> Time {
    Time::ZERO + ms(millis)
}

#[test]
fn a_chain_adds_its_links_and_takes_from_the_ttl() {
    let link = |rate, delay| Duplex::symmetric(LinkConfig::new(Rate::from_bytes_per_sec(rate), ms(delay)));
    let chain = chain([link(1_000_000, 1), link(100_000, 20), link(1_000_000, 3)]);
    let mut network = Network::new(chain.topology, 1).unwrap();
    network.offer(Time::ZERO, chain.ends.0, Packet::new(1_000, 7).to(chain.ends.1));
    network.offer(Time::ZERO, chain.ends.1, Packet::new(1_000, 8).to(chain.ends.0));
    let deliveries = drain(&mut network);
    // Serialization takes 1 + 10 + 1 ms and propagation 24 ms, equally in both directions, with two routers on the
    // way.
    assert_eq!(deliveries.iter().map(|d| (d.at, d.node)).collect::<Vec<_>>(), [(at(36), 0), (at(36), 3)]);
    assert!(deliveries.iter().all(|delivery| delivery.packet.ttl == 62));
    let stale = Packet { ttl: 2, ..Packet::new(40, 0).to(chain.ends.1) };
    network.offer(at(40), chain.ends.0, stale);
    assert_eq!(drain(&mut network), []);
    assert_eq!(network.link(chain.links[2].0).unwrap().stats().all().dropped(Cause::TtlExpired), 1);
}

#[test]
fn dumbbell_flows_share_one_link() {
    let bottleneck =
        Duplex::symmetric(LinkConfig::new(Rate::from_bytes_per_sec(1_000_000), ms(10)).queue(Limit::Packets(3)));
    let access = || (0..4u64).map(|n| Duplex::delay(ms(n)));
    let dumbbell = dumbbell(bottleneck, access(), access());
    let mut network = Network::new(dumbbell.topology, 1).unwrap();
    for flow in 0..4usize {
        for number in 0..2 {
            let packet = Packet::new(1_000, number).to(dumbbell.right[flow]);
            assert!(network.offer(Time::ZERO, dumbbell.left[flow], packet));
        }
    }
    let times: Vec<_> = drain(&mut network).iter().map(|d| (d.at, d.node)).collect();
    // Two packets reach the bottleneck at each of 0 to 3 ms and one leaves per millisecond: the queue holds 1, 2, 3,
    // 3 (one is dropped).
    let node = |flow: usize| dumbbell.right[flow];
    let expected = [(11, 0), (12, 0), (14, 1), (15, 1), (17, 2), (18, 2), (20, 3)].map(|(t, n)| (at(t), node(n)));
    assert_eq!(times, expected);
    let stats = network.link(dumbbell.bottleneck.0).unwrap().stats();
    assert_eq!((stats.all().offered, stats.all().dropped(Cause::QueueFull)), (8, 1));
    assert_eq!(network.link(dumbbell.bottleneck.1).unwrap().stats().all().offered, 0);
}

#[test]
fn a_parking_lot_leads_each_pair_over_its_own_links() {
    let link = || Duplex::symmetric(LinkConfig::new(Rate::from_bytes_per_sec(1_000_000), ms(10)));
    let access = |places: [usize; 4]| places.map(|place| (place, Duplex::default()));
    let lot = row([link(), link(), link()], access([0, 1, 2, 0]), access([1, 2, 3, 3]));
    let mut network = Network::new(lot.topology, 1).unwrap();
    for (&from, &to) in lot.left.iter().zip(&lot.right) {
        network.offer(Time::ZERO, from, Packet::new(1_000, 0).to(to));
        network.offer(Time::ZERO, to, Packet::new(1_000, 1).to(from));
    }
    assert_eq!(drain(&mut network).len(), 8);
    for (there, back) in lot.links {
        let offered = |number| network.link(number).unwrap().stats().all().offered;
        assert_eq!((offered(there), offered(back)), (2, 2));
    }
}

#[test]
fn a_satellite_is_thin_upwards() {
    let up = LinkConfig::new(Rate::from_bits_per_sec(4_000_000), ms(300));
    let down = LinkConfig::new(Rate::from_bits_per_sec(40_000_000), ms(300));
    let hop = chain([Duplex::default(), Duplex { there: up, back: down }, Duplex::default()]);
    let mut network = Network::new(hop.topology, 1).unwrap();
    network.offer(Time::ZERO, hop.ends.0, Packet::new(1_500, 0).to(hop.ends.1));
    network.offer(Time::ZERO, hop.ends.1, Packet::new(1_500, 0).to(hop.ends.0));
    let nanos: Vec<_> = drain(&mut network).iter().map(|delivery| (delivery.at.as_nanos(), delivery.node)).collect();
    assert_eq!(nanos, [(300_300_000, hop.ends.0), (303_000_000, hop.ends.1)]);
}

#[test]
fn a_late_poll_gives_the_same_times() {
    let run = |late: u64| {
        let bottleneck = LinkConfig::new(Rate::from_bytes_per_sec(1_000_000), ms(10)).queue(Limit::Packets(5));
        let access = || (0..3).map(|n| Duplex::delay(Span::from_micros(n * 777)));
        let dumbbell = dumbbell(Duplex::symmetric(bottleneck), access(), access());
        let mut network = Network::new(dumbbell.topology, 1).unwrap();
        let mut times = Vec::new();
        for number in 0..300u64 {
            let now = Time::from_nanos(number * 700_000);
            while let Some(event) = network.next_event().filter(|event| *event <= now) {
                let late = Time::from_nanos((event.as_nanos() + late).min(now.as_nanos()));
                times.extend(std::iter::from_fn(|| network.poll(late)).map(|d| (d.at, d.packet.payload)));
            }
            let flow = (number % 3) as usize;
            network.offer(now, dumbbell.left[flow], Packet::new(1_000, number).to(dumbbell.right[flow]));
        }
        times.extend(drain(&mut network).iter().map(|d| (d.at, d.packet.payload)));
        times
    };
    assert!(run(0).len() < 300, "some are dropped");
    assert_eq!(run(0), run(650_000));
}

#[test]
fn hooks_see_what_their_link_does() {
    #[derive(Default)]
    struct Count(u32, Vec<(Time, u64)>);
    impl Hook<u64> for Count {
        fn egress(&mut self, now: Time, _ends: Time, packet: &mut Packet<u64>, view: &View) {
            self.0 += 1;
            packet.payload += 1;
            self.1.push((now, view.packets));
        }
    }
    let link = LinkConfig::new(Rate::from_bytes_per_sec(1_000_000), ms(1));
    let chain = chain([Duplex::symmetric(link), Duplex::default()]);
    let mut network = Network::with_hooks(chain.topology, 1, |_, _| Count::default()).unwrap();
    for _ in 0..2 {
        network.offer(Time::ZERO, chain.ends.0, Packet::new(1_000, 0).to(chain.ends.1));
    }
    assert!(drain(&mut network).iter().all(|delivery| delivery.packet.payload == 2));
    assert_eq!(network.link(0).unwrap().hook.1, [(at(0), 0), (at(1), 0)]);
}

#[test]
fn impossible_networks_are_refused() {
    let mut topology = Topology::new();
    let a = topology.host();
    topology.host();
    topology.link(a, 9, LinkConfig::default());
    let error = Network::<u64>::new(topology.clone(), 1).unwrap_err().to_string();
    assert_eq!(error, "link 0 joins node 0 to node 9, but there are 2 nodes; add the nodes first");
    let mut topology = Topology::new();
    let (a, b) = (topology.host(), topology.host());
    topology.link(b, a, LinkConfig::new(Rate::ZERO, Span::ZERO));
    let error = Network::<u64>::new(topology, 1).unwrap_err().to_string();
    assert!(error.starts_with("link 0 from node 1 to node 0: the rate is 0"), "{error}");
    let mut topology = Topology::new();
    let (a, b) = (topology.host(), topology.host());
    topology.link(a, b, LinkConfig::default());
    let mut network = Network::<u64>::new(topology, 1).unwrap();
    assert!(!network.offer(Time::ZERO, b, Packet::new(1, 1).to(a)));
    assert_eq!(network.unroutable(), 1);
}
