//! Tests of the distribution.

use super::*;
use crate::experiment::Experiment;
use crate::random::request::Seeds;
use crate::random::{Request, Set, text};

/// Whether a scenario has a kind of competition.
type Is = fn(&Competition) -> bool;

fn all(seeds: std::ops::RangeInclusive<u64>) -> Vec<Scenario> {
    seeds.map(Scenario::draw).collect()
}

/// The scenario of a seed must never change within a version of the distribution. A new distribution needs a new
/// number in `VERSION`, and then new lines here.
#[test]
fn a_seed_always_has_the_same_scenario() {
    assert_eq!(VERSION, 1);
    for (seed, duration, told) in [
        (
            1,
            60,
            "2.69 Mb/s, 320 ms, queue 0.13 BDP, CoDel with ECN, loss 2.67 %, policer 2.07 Mb/s with 52.2 kB, back 0.189 Mb/s",
        ),
        (2, 60, "2.52 Mb/s, 383 ms, queue 2.31 BDP, loss 0.218 % in bursts of 2, back 0.299 Mb/s"),
        (
            5,
            16,
            "598 Mb/s, 57.9 ms, queue 4.09 BDP, loss 0.0026 % in bursts of 6, jitter 2.4 ms, 0.291 % late by up to \
             4.82 ms, 2 NewReno first, back 15.2 Mb/s every 19 ms",
        ),
        (
            14,
            23,
            "637 Mb/s, 18.9 ms, queue 0.12 BDP, jitter 5.4 ms, every 11.2 s a step (795, 118 Mb/s), handovers of \
             255 ms, 3 of its kind, back 24.1 Mb/s every 3 ms",
        ),
        (
            300,
            60,
            "3.01 Mb/s, 10.1 ms, queue 5.76 BDP, loss 0.0204 %, every 8.6 s a step (12.8, 0.805, 0.525, 0.455, \
             0.462, 0.76 Mb/s), 14 of its kind, back 0.485 Mb/s",
        ),
        (5000, 60, "23.4 Mb/s, 55.2 ms, queue 0.31 BDP, CoDel, back 0.859 Mb/s every 14 ms"),
    ] {
        let scenario = Scenario::draw(seed);
        assert_eq!((scenario.to_string().as_str(), scenario.duration), (told, duration), "seed {seed}");
    }
    assert_eq!(Scenario::draw(7), Scenario::draw(7));
}

/// All shares and quantiles of 1000 seeds are within six standard errors of the stated ones.
#[test]
fn shares_are_those_of_the_distribution() {
    let scenarios = all(1..=1000);
    let share = |name: &str, expected: f64, has: &dyn Fn(&Scenario) -> bool| {
        let count = scenarios.iter().filter(|scenario| has(scenario)).count() as f64;
        let error = 6.0 * (1000.0 * expected * (1.0 - expected)).sqrt();
        assert!((count - 1000.0 * expected).abs() <= error, "{name}: {count}, expected {expected} of 1000");
    };
    share("loss", 0.5, &|scenario| scenario.loss.is_some());
    share("bursts", 1.0 / 6.0, &|scenario| scenario.loss.is_some_and(|loss| loss.burst.is_some()));
    share("jitter", 0.5, &|scenario| scenario.jitter > 0);
    share("jitter above 5 ms", 0.25, &|scenario| scenario.jitter > 5_000);
    share("reordering", 0.1, &|scenario| scenario.reordering.is_some());
    for (aqm, expected) in [(Aqm::DropTail, 0.7), (Aqm::CoDel, 0.1), (Aqm::Pie, 0.1), (Aqm::Red, 0.1)] {
        share(&format!("{aqm:?}"), expected, &|scenario| scenario.aqm == aqm);
    }
    share("ECN", 0.15, &|scenario| scenario.ecn);
    share("policer", 0.05, &|scenario| scenario.policer.is_some());
    share("steps", 0.2, &|scenario| !scenario.steps.is_empty());
    share("handovers", 0.1, &|scenario| !scenario.handovers.is_empty());
    share("outage", 0.05, &|scenario| scenario.outage.is_some());
    share("alone", 0.4, &|scenario| scenario.competition == Competition::Alone);
    share("own kind", 0.2, &|scenario| matches!(scenario.competition, Competition::Own(_)));
    share("others", 0.2, &|scenario| matches!(scenario.competition, Competition::Others { .. }));
    share("NewReno", 0.1, &|scenario| matches!(scenario.competition, Competition::Others { are_new_reno: true, .. }));
    share("others first", 0.1, &|scenario| matches!(scenario.competition, Competition::Others { are_first: true, .. }));
    share("traffic", 0.15, &|scenario| matches!(scenario.competition, Competition::Traffic(_)));
    share("short flows", 0.05, &|scenario| matches!(scenario.competition, Competition::Short(_)));
    // Medians and quartiles of log-uniform distributions: geometric means of their ends.
    let between = |least: f64, most: f64, share: f64| least * (most / least).powf(share);
    for quantile in [0.25, 0.5, 0.75] {
        let rate = between(1_000.0, 1_000_000.0, quantile);
        share("rate", quantile, &|scenario| (scenario.rate as f64) < rate);
        let rtt = between(4_000.0, 700_000.0, quantile);
        share("RTT", quantile, &|scenario| (scenario.rtt as f64) < rtt);
        let queue = between(50.0, 8_000.0, quantile);
        share("queue", quantile, &|scenario| (scenario.queue_permille as f64) < queue);
        let loss = between(10.0, 30_000.0, quantile);
        share("loss below", 0.5 * quantile, &|scenario| scenario.loss.is_some_and(|one| (one.ppm as f64) < loss));
    }
}

#[test]
fn values_are_within_the_stated_ranges() {
    for scenario in all(1..=2000) {
        let seed = scenario.seed;
        assert!((1_000..=1_000_000).contains(&scenario.rate), "{seed}");
        assert!((4_000..=700_000).contains(&scenario.rtt) && scenario.queue >= 6_000, "{seed}");
        assert!(scenario.loss.is_none_or(|loss| (10..=30_000).contains(&loss.ppm)), "{seed}");
        assert!(scenario.jitter <= 10_000 && scenario.burst_interval <= 20, "{seed}");
        assert_eq!(scenario.burst_packets() > 0, scenario.burst_interval > 0, "{seed}");
        assert!((8..=60).contains(&scenario.duration), "{seed}");
        // A burst can be half a packet larger than drawn, of one packet.
        let least = scenario.rate as f64 / 50.0 * 0.6;
        assert!(scenario.back as f64 >= least && scenario.back as f64 <= 2.02 * scenario.rate as f64, "{seed}");
        let end = scenario.duration * 1000;
        assert!(scenario.steps.iter().all(|step| step.at < end && step.rate >= 100), "{seed}");
        let [first, last] = [scenario.limit(0, end), scenario.limit(end / 2, end)];
        assert!(first > 0.0 && last > 0.0 && first < 1_000.0, "{seed}: {first} {last}");
        if let Some((at, length)) = scenario.outage {
            assert!(at + length <= end - 5_000, "{seed}");
        }
    }
}

/// Each scenario of a set is a valid experiment, and 300 scenarios carry a bounded number of packets.
#[test]
fn each_scenario_of_a_set_is_valid() {
    for set in ["training", "test", "changing", "changing-test"].map(|set| set.parse::<Set>().unwrap()) {
        let request = Request::new(set, None, vec!["cubic".into(), "copa-cubic".into()]).unwrap();
        let text = text(&request);
        let experiment = Experiment::read(&request.id(), &text).unwrap();
        assert_eq!(experiment.cells.len(), 300 * 3);
        assert_eq!(experiment.id(), request.id());
        let seeds = set.seeds.unwrap();
        let packets = |scenario: &Scenario| scenario.rate as f64 * 1e3 / PACKET_BITS * scenario.duration as f64;
        let packets: f64 = seeds.each().map(|seed| packets(&set.draw(seed))).sum();
        assert!(packets < 100e6, "{packets} packets");
    }
}

/// An experiment with a single scenario has only what this scenario needs.
#[test]
fn each_competition_is_valid_by_itself() {
    let kinds: [(&str, Is); 4] = [
        ("own", |competition| matches!(competition, Competition::Own(_))),
        ("other", |competition| matches!(competition, Competition::Others { .. })),
        ("traffic", |competition| matches!(competition, Competition::Traffic(_))),
        ("short", |competition| matches!(competition, Competition::Short(_))),
    ];
    for (name, has) in kinds {
        let seed = (1..).find(|seed| has(&Scenario::draw(*seed).competition)).unwrap();
        let seeds: Seeds = format!("{seed}..{seed}").parse().unwrap();
        let text = text(&Request::new("any".parse().unwrap(), Some(seeds), vec!["cubic".into()]).unwrap());
        let experiment = Experiment::read("random-any", &text).unwrap();
        let has = |wanted: &str| text.contains(&format!("\nname = \"{wanted}\"\n"));
        assert!(has("own") && has(name), "{text}");
        assert_eq!(has("other"), name == "other");
        assert_eq!(experiment.cells.len(), 2);
    }
}

#[test]
fn limits_by_hand() {
    let plain = Scenario { rate: 10_000, steps: Vec::new(), handovers: Vec::new(), ..Scenario::draw(1) };
    let plain = Scenario { outage: None, policer: None, loss: None, competition: Competition::Alone, ..plain };
    let near = |scenario: &Scenario, from: u64, expected: f64| {
        let limit = scenario.limit(from, 10_000);
        assert!((limit - expected * PAYLOAD).abs() < 1e-9, "{limit} {expected}");
    };
    near(&plain, 0, 10.0);
    // 4 s at 10 Mb/s, and 6 s at 20 Mb/s, of which one second is silent and half a second lost.
    let step = Step { at: 4_000, rate: 20_000, rtt: 1_000 };
    let steps = Scenario { steps: vec![step], handovers: vec![(5_000, 1_000)], ..plain.clone() };
    let steps = Scenario { outage: Some((8_000, 500)), ..steps };
    near(&steps, 0, (4.0 * 10.0 + 4.5 * 20.0) / 10.0);
    near(&steps, 5_500, (4.0 * 20.0 - 0.5 * 20.0) / 4.5);
    near(&Scenario { loss: Some(Loss { ppm: 30_000, burst: None, window: None }), ..plain.clone() }, 0, 9.7);
    let policer = Policer { rate: 6_000, burst: 9_000 };
    near(&Scenario { policer: Some(policer), ..plain.clone() }, 0, 6.0);
    let traffic = |percent| Competition::Traffic(Traffic { percent, is_poisson: true });
    near(&Scenario { competition: traffic(30), ..plain.clone() }, 0, 7.0);
    near(&Scenario { competition: traffic(80), policer: Some(policer), ..plain.clone() }, 0, 0.6);
    near(&Scenario { competition: Competition::Short(25), ..plain }, 0, 7.5);
}

/// As above, for paths that change.
#[test]
fn a_seed_always_has_the_same_changing_path() {
    for (seed, told) in [
        (
            2001,
            "10.1 Mb/s, 28.5 ms, queue 2.13 BDP, loss 0.4675 %, all in a quarter of the time, jitter 3.1 ms, every 1 s a \
             step (10 to 102 Mb/s), handovers of 23 ms, back 4.08 Mb/s",
        ),
        (
            2002,
            "4.87 Mb/s, 80.3 ms, queue 9.29 BDP, jitter 7.1 ms, every 1 s a step (2 to 50 Mb/s), handovers of 189 ms, \
             3 of its kind, back 1.8 Mb/s",
        ),
    ] {
        assert_eq!(Scenario::draw_changing(seed).to_string(), told);
    }
    for scenario in (2001..=2300).map(Scenario::draw_changing) {
        let seed = scenario.seed;
        assert_eq!((scenario.steps.len(), scenario.duration), (59, 60), "{seed}");
        assert!(scenario.steps.iter().all(|step| (2_000..=200_000).contains(&step.rate)), "{seed}");
        assert!(scenario.steps.iter().all(|step| (20_000..=100_000).contains(&step.rtt)), "{seed}");
        assert!(scenario.handovers.iter().all(|(at, length)| at + length < 60_000 && *length <= 300), "{seed}");
        assert!(scenario.loss.is_none_or(|loss| (1_250..=15_000).contains(&loss.ppm)), "{seed}");
        // The base RTT changes at handovers only.
        let changes = scenario.steps.windows(2).filter(|pair| pair[0].rtt != pair[1].rtt).count();
        assert!(changes <= 4, "{seed}: {changes}");
    }
}
