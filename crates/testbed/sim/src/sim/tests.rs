use longhaul_link::{Corruption, Limit, Loss, Reordering};
use longhaul_units::Rate;

use super::*;
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
