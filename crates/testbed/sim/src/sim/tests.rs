use longhaul_link::{Corruption, Limit, Loss, Reordering};
use longhaul_units::Rate;

use super::*;
use crate::agent::{Agent, Progress};
use crate::packet::Packet;
use crate::plan::Plan;

fn rough() -> LinkConfig {
    let rate = Rate::from_bits_per_sec(20_000_000);
    let mut link = LinkConfig::new(rate, Span::from_millis(15)).queue(Limit::Packets(39)).loss(Loss::Uniform(0.03));
    link.duplication = 0.02;
    link.corruption = Corruption { share: 0.01, unseen: 0.0 };
    link.reordering = Some(Reordering::Late { share: 0.05, least: Span::ZERO, most: Span::from_millis(10) });
    link
}

fn run(seed: u64) -> (u64, Time) {
    let mut sim = Sim::new(Setup::symmetric(seed, rough()));
    let (client, server) = sim.open(Plan::bulk(300_000), Plan::bulk(50_000));
    assert!(sim.run(Span::from_secs(120), Sim::is_quiet));
    assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
    (sim.trace(), sim.now())
}

#[test]
fn one_seed_gives_one_trace_and_another_seed_another() {
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn goodput_stays_below_the_rate_and_comes_near_it() {
    let link = LinkConfig::new(Rate::from_bytes_per_sec(1_000_000), Span::from_millis(5)).queue(Limit::Packets(49));
    let mut sim = Sim::new(Setup::symmetric(1, link));
    let (_, server) = sim.open(Plan::bulk(5_000_000), Plan::sink());
    assert!(sim.run(Span::from_secs(60), |sim| sim.all_done()));
    assert_eq!(sim.session(server).read, 5_000_000);
    // Headers take 52 of 1500 bytes, so the minimum is 5.18 s.
    let seconds = sim.now().as_secs_f64();
    assert!((5.18..6.5).contains(&seconds), "{seconds}");
}

#[test]
fn requests_and_responses_take_a_round_trip_each() {
    let mut sim = Sim::new(Setup::symmetric(1, LinkConfig::delay(Span::from_millis(50))));
    let (client, server) = sim.open(Plan::requests(10, 100, 200), Plan::responses(10, 100, 200));
    assert!(sim.run(Span::from_secs(60), |sim| sim.all_done()));
    assert_eq!((sim.session(client).read, sim.session(server).read), (2_000, 1_000));
    // The handshake, ten rounds, and the one-way delay of the last FIN.
    assert!((1.1..1.3).contains(&sim.now().as_secs_f64()), "{}", sim.now());
}

#[test]
fn a_half_closed_connection_still_answers() {
    let mut sim = Sim::new(Setup::symmetric(1, LinkConfig::delay(Span::from_millis(5))));
    let (client, server) = sim.open(Plan::bulk(10_000), Plan::reply_at_end(70_000));
    assert!(sim.run(Span::from_secs(10), |sim| sim.all_done()));
    assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
    assert_eq!(sim.session(client).read, 70_000);
}

/// Sends one datagram per `every`, and returns what arrives.
#[derive(Debug)]
struct Pinger {
    addresses: [std::net::SocketAddr; 2],
    every: Option<Span>,
    next: Option<Time>,
    pending: u32,
    progress: Progress,
}

impl Agent for Pinger {
    fn due(&mut self) -> Option<Time> {
        self.next
    }

    fn receive(&mut self, now: Time, packet: &Packet) {
        self.progress.read += packet.payload_len() as u64;
        self.progress.ended_at = Some(now);
        self.pending += u32::from(self.every.is_none());
    }

    fn transmit(&mut self, now: Time, send: &mut dyn FnMut(Packet)) {
        if let Some(every) = self.every
            && self.next.is_some_and(|due| due <= now)
        {
            (self.pending, self.next) = (1, Some(now + every));
        }
        for _ in 0..std::mem::take(&mut self.pending) {
            self.progress.packets += 1;
            let [from, to] = self.addresses;
            let (ecn, payload) = (longhaul_wire::Ecn::NotEct, vec![7; 100]);
            send(Packet { from, to, ecn, dscp: 0, payload, zeros: 0 });
        }
    }

    fn progress(&self) -> Progress {
        self.progress
    }
}

#[test]
fn agents_exchange_datagrams_over_the_links() {
    let mut sim = Sim::new(Setup::symmetric(1, LinkConfig::delay(Span::from_millis(30))));
    let addresses = [0, 1].map(|node| sim.host(node).address);
    let agent = |addresses, every, next| -> Box<dyn Agent> {
        Box::new(Pinger { addresses, every, next, pending: 0, progress: Progress::default() })
    };
    let start = Time::ZERO + Span::from_millis(500);
    let ping = agent(addresses, Some(Span::from_millis(100)), Some(start));
    sim.place_agents([0, 1], [ping, agent([addresses[1], addresses[0]], None, None)]);
    sim.run_for(Span::from_millis(955));
    // Datagrams leave at 500 to 900 ms; the answer to the last one is still on its way.
    let [client, server] = [0, 1].map(|node| sim.host(node).agent().unwrap().progress());
    assert_eq!((client.packets, client.read, server.read, server.packets), (5, 400, 500, 5));
    assert_eq!(server.ended_at, Some(Time::ZERO + Span::from_millis(930)));
    assert_eq!(sim.link(0).stats().all().sent_bytes, 5 * 128);
}
