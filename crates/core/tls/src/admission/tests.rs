use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

const LIMITS: Limits = Limits { all: 4, per_address: 2 };

fn is_evicted(ticket: &Ticket) -> bool {
    pin!(ticket.evicted()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

fn host_number(number: u8) -> IpAddr {
    [192, 0, 2, number].into()
}

#[test]
fn only_strangers_are_evicted() {
    let admission = Admission::new(LIMITS);
    let admit = |number| admission.admit([192, 0, number, 1].into(), Some(Duration::ZERO));
    let mut places: Vec<_> = [1, 2, 3, 3].map(|number| admit(number).unwrap()).into();
    places[0].is_known();
    places[1].has_spoken();
    places.push(admit(4).unwrap());
    let evicted: Vec<_> = places.iter().map(is_evicted).collect();
    assert_eq!(evicted, [false, false, true, false, false]);
    places.iter().for_each(Ticket::is_known);
    assert!(admit(5).is_none());
    places.pop();
    assert!(admit(5).is_some());
}

#[test]
fn an_address_cannot_take_all_places() {
    let admission = Admission::new(LIMITS);
    let greedy = host_number(1);
    let (first, second) = (admission.admit(greedy, None).unwrap(), admission.admit(greedy, None).unwrap());
    second.has_spoken();
    let third = admission.admit(greedy, None).unwrap();
    assert_eq!([&first, &second, &third].map(is_evicted), [true, false, false]);
    second.is_known();
    third.is_known();
    assert!(admission.admit(greedy, None).is_none());
    assert!(admission.admit(host_number(2), None).is_some());
}

#[test]
fn networks_are_prefixes() {
    let [one, other, near, far] = ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1", "2001:db8:1::1"]
        .map(|address| host(address.parse().unwrap()));
    assert_eq!(one, other);
    assert_ne!(one, near);
    assert_eq!(network(one), network(near));
    assert_ne!(network(one), network(far));
    assert_eq!(host("::ffff:192.0.2.1".parse().unwrap()), host_number(1));
    assert_eq!(network(host_number(1)), network(host_number(200)));
    assert_ne!(network(host_number(1)), network([192, 0, 3, 1].into()));
}

#[test]
fn a_limited_number_of_hosts_is_remembered() {
    let mut entries = Entries::default();
    let host = |number: u32| IpAddr::from(Ipv4Addr::from_bits(number));
    for number in 0..2000 {
        entries.remember(host(number));
        entries.next += 1;
    }
    assert_eq!(entries.remembered.len(), REMEMBERED);
    assert!(entries.remembered.contains_key(&host(1999)) && !entries.remembered.contains_key(&host(900)));
}

/// Default limits of [`HandshakeLimits`](crate::HandshakeLimits).
const HANDSHAKES: Limits = Limits { all: 1024, per_address: 32 };
const RTT: Duration = Duration::from_millis(600);

/// A server and its clients in virtual time.
struct Simulation {
    entries: Entries,
    start: Instant,
    strangers: u32,
}

/// Strangers who connect at a constant rate.
#[derive(Clone, Copy, Debug)]
struct Flood {
    per_second: u64,
    /// Number of networks from which the strangers come; 0 if they come from the address of the honest client.
    networks: u32,
    /// Whether the strangers send a complete first message.
    speaks: bool,
    rtt: Duration,
}

const HONEST: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));

impl Simulation {
    #[expect(clippy::disallowed_methods, reason = "any time will do as the first one")]
    fn new(seed: u64) -> Self {
        Self { entries: Entries { seed, ..Entries::default() }, start: Instant::now(), strangers: 0 }
    }

    fn connect(&mut self, millis: u64, peer: IpAddr, rtt: Duration) -> Option<u64> {
        let now = self.start + Duration::from_millis(millis);
        Some(self.entries.admit(HANDSHAKES, peer, Some(rtt), now)?.0)
    }

    fn has(&self, number: u64) -> bool {
        self.entries.list.iter().any(|entry| entry.number == number)
    }

    /// Lets the strangers of the millisecond `millis` connect.
    fn flood(&mut self, millis: u64, flood: Flood) {
        let until = (millis * flood.per_second / 1000 + 1) as u32;
        while self.strangers < until {
            self.strangers += 1;
            // Each network has several hosts.
            let peer = match flood.networks {
                0 => HONEST,
                networks => [10, 0, (self.strangers % networks) as u8, (self.strangers / networks % 8) as u8].into(),
            };
            if let Some(number) = self.connect(millis, peer, flood.rtt).filter(|_| flood.speaks) {
                self.entries.advance(number, Stage::Spoken);
            }
        }
    }

    /// Returns how many of `count` clients that connect at the same time are authenticated, while strangers have been
    /// connecting for 4 s. The first message of a client arrives `late` ms after its connection is accepted, its last
    /// message a round trip later.
    fn authenticated(&mut self, count: usize, late: u64, flood: Flood) -> usize {
        let mut clients = Vec::new();
        let begin = 4000;
        for millis in 0..=begin + late + RTT.as_millis() as u64 {
            self.flood(millis, flood);
            if millis == begin {
                clients.extend((0..count).filter_map(|_| self.connect(millis, HONEST, RTT)));
            }
            if millis == begin + late {
                clients.iter().for_each(|number| self.entries.advance(*number, Stage::Spoken));
            }
        }
        let admitted = clients.iter().filter(|number| self.has(**number)).count();
        assert!(self.entries.list.len() <= HANDSHAKES.all);
        admitted
    }
}

/// Asserts that all clients that connect at the same time from one address are authenticated.
#[track_caller]
fn nobody_is_kept_out(clients: usize, late: u64, flood: Flood) {
    for seed in 0..2 {
        let authenticated = Simulation::new(seed).authenticated(clients, late, flood);
        assert_eq!(authenticated, clients, "{flood:?}, {late} ms late, seed {seed}");
    }
}

/// The first message of a client follows immediately after the last segment of TCP's handshake.
#[test]
fn silent_strangers_keep_nobody_out_of_a_long_path() {
    for rtt in [Duration::ZERO, RTT] {
        for (per_second, networks) in [(50, 0), (500, 17), (500, 256)] {
            nobody_is_kept_out(10, 3, Flood { per_second, networks, speaks: false, rtt });
        }
    }
}

/// The first messages of the clients are lost and retransmitted.
#[test]
fn late_first_messages_keep_nobody_out_beside_strangers_of_other_networks() {
    for rtt in [Duration::ZERO, RTT] {
        nobody_is_kept_out(3, 1200, Flood { per_second: 500, networks: 256, speaks: false, rtt });
    }
}

/// Strangers of other networks begin handshakes and do not complete them.
#[test]
fn handshakes_of_strangers_keep_nobody_out() {
    for rtt in [Duration::ZERO, RTT] {
        nobody_is_kept_out(10, 3, Flood { per_second: 500, networks: 64, speaks: true, rtt });
        // The fair share of a network is four of 1,024.
        nobody_is_kept_out(4, 3, Flood { per_second: 500, networks: 256, speaks: true, rtt });
    }
}

/// With an RTT of 600 ms, 32 handshakes are in progress until their four round trips have passed.
#[test]
fn no_handshake_ends_in_favour_of_another_one_of_the_same_network() {
    let mut simulation = Simulation::new(1);
    let first: Vec<_> = (0..40).filter_map(|_| simulation.connect(0, HONEST, RTT)).collect();
    assert_eq!(first.len(), 40, "those who are silent make room");
    let present: Vec<_> = first.into_iter().filter(|number| simulation.has(*number)).collect();
    assert_eq!(present.len(), HANDSHAKES.per_address);
    present.iter().for_each(|number| simulation.entries.advance(*number, Stage::Spoken));
    assert_eq!(simulation.connect(2399, HONEST, RTT), None);
    assert!(present.iter().all(|number| simulation.has(*number)));
    assert!(simulation.connect(2400, HONEST, RTT).is_some());
}

#[test]
fn a_returning_host_takes_the_place_of_others() {
    let mut simulation = Simulation::new(1);
    let other = |number: u32| IpAddr::from(Ipv4Addr::from_bits(number << 8));
    for number in 0..HANDSHAKES.all as u32 {
        let place = simulation.connect(0, other(number), RTT).unwrap();
        simulation.entries.advance(place, Stage::Spoken);
    }
    assert_eq!(simulation.connect(1, HONEST, RTT), None, "each network has one");
    simulation.entries.remember(HONEST);
    let returning: Vec<_> = (0..32).map(|_| simulation.connect(1, HONEST, RTT).unwrap()).collect();
    returning.iter().for_each(|number| simulation.entries.advance(*number, Stage::Spoken));
    // Even when the four round trips of the returning host have passed, strangers are evicted before it.
    for number in 0..HANDSHAKES.all as u32 {
        simulation.connect(3000 + u64::from(number), other(number), RTT);
    }
    assert!(returning.iter().all(|number| simulation.has(*number)));
}

/// A stranger whose network has its share already does not displace a returning host, even one that has not sent its
/// first message.
#[test]
fn strangers_take_no_place_of_a_returning_host() {
    let mut simulation = Simulation::new(1);
    let other = |number: u32| IpAddr::from(Ipv4Addr::from_bits(number << 8));
    simulation.entries.remember(HONEST);
    let returning = simulation.connect(0, HONEST, RTT).unwrap();
    for number in 1..HANDSHAKES.all as u32 {
        let place = simulation.connect(2000, other(number), RTT).unwrap();
        simulation.entries.advance(place, Stage::Spoken);
    }
    // The four round trips of the returning host have passed, those of the strangers have not.
    assert_eq!(simulation.connect(2400, other(0), RTT), None);
    assert!(simulation.has(returning));
}
