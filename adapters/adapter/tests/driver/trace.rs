//! Delivery-rate samples of a driver and of longhaul-tcp from the same transmissions and ACKs.

use std::collections::HashMap;

use longhaul_adapter::{Acked, Choice, Driver, Lost, Stack};
use longhaul_cc::{RateSample, SendLimit};
use longhaul_link::{Limit, LinkConfig, Loss};
use longhaul_sim::{Plan, Setup, Sim};
use longhaul_units::{Rate, Span, Time};

use crate::play::{LISTS, SUMS};
use crate::recorder::{Told, recorded};

/// Returns the calls to the controller of a longhaul-tcp sender over `megabits` Mb/s and 60 ms with losses of 0.2 %, in
/// bursts that one system call sends.
fn trace(congestion: &str, plan: Plan, megabits: u64, secs: u64) -> Vec<Told> {
    let (congestion, log) = recorded(congestion);
    let rate = Rate::from_bits_per_sec(megabits * 1_000_000);
    let down = LinkConfig::new(rate, Span::from_millis(30)).queue(Limit::Bytes(rate.bytes_in(Span::from_millis(60)).0));
    let links = longhaul_link::topology::Duplex { there: down.clone().loss(Loss::Uniform(0.002)), back: down };
    let setup = Setup::pair(5, links).under(&congestion).configure(|config| {
        (config.extensions, config.moderation) = (false, true);
    });
    let mut sim = Sim::new(setup);
    let (_, server) = sim.open(plan, Plan::sink());
    sim.run_for(Span::from_secs(secs));
    assert!(sim.session(server).read > 100_000);
    // The server's controller is told of nothing but its establishment.
    let mut told = log.lock().unwrap();
    std::mem::take(&mut *told)
}

/// Reports a trace to a driver, as a stack would, and returns the samples of its controller.
fn replay(trace: &[Told], stack: Stack, congestion: &str) -> Vec<(Time, RateSample)> {
    let (congestion, log) = recorded(congestion);
    let choice = Choice::controlled(congestion, stack).unwrap();
    let mut driver = Driver::new(&choice, Time::ZERO, 1448);
    let number = |tx| stack.lists_packets.then_some(tx);
    for told in trace {
        match told {
            Told::Sent(sent) => driver.on_sent(sent.now, number(sent.tx.0), sent.bytes.0),
            Told::Ack { now, acked, lost, newly_lost, in_flight, limit, .. } => {
                let app_limited = *limit == SendLimit::App;
                for one in acked {
                    let (sent_at, bytes) = (one.sent_at, one.bytes.0);
                    driver.on_acked(*now, Acked { sent_at, number: number(one.tx.0), bytes, app_limited });
                }
                if !acked.is_empty() {
                    driver.on_end_acks(*now, (*in_flight + *newly_lost).0);
                }
                if let Some(last) = lost.iter().max_by_key(|one| one.tx.0) {
                    let event = Lost { sent_at: last.sent_at, bytes: newly_lost.0, persistent: false };
                    if stack.lists_packets {
                        lost.iter().for_each(|one| driver.on_packet_lost(one.tx.0, one.bytes.0));
                        driver.on_losses(*now, event);
                    } else {
                        driver.on_unlisted_losses(*now, event);
                    }
                }
            }
            Told::Timeout(_) | Told::Event(_) => {}
        }
    }
    rates(&log.lock().unwrap())
}

/// Does the same as a stack that keeps the state of packets, and sums up what an ACK covers.
fn replay_kept(trace: &[Told]) -> Vec<(Time, RateSample)> {
    let (congestion, log) = recorded("cubic");
    let mut driver = Driver::new(&Choice::controlled(congestion, SUMS).unwrap(), Time::ZERO, 1448);
    let mut kept = HashMap::new();
    let mut app_limited = false;
    for told in trace {
        match told {
            Told::Sent(sent) => {
                kept.insert(sent.tx, driver.on_sent_kept(sent.now, sent.bytes.0, app_limited));
                app_limited = false;
            }
            Told::Ack { now, acked, lost, limit, .. } => {
                app_limited = *limit == SendLimit::App;
                if let Some(newest) = acked.iter().max_by_key(|one| one.tx.0) {
                    driver.on_sum_acked(*now, &kept[&newest.tx], acked.iter().map(|one| one.bytes.0).sum(), Span::ZERO);
                }
                lost.iter().for_each(|one| driver.on_kept_lost(*now, &kept[&one.tx], one.bytes.0, false));
            }
            Told::Timeout(_) | Told::Event(_) => {}
        }
    }
    rates(&log.lock().unwrap())
}

fn rates(told: &[Told]) -> Vec<(Time, RateSample)> {
    let rate = |told: &Told| match told {
        Told::Ack { now, rate, .. } => rate.map(|rate| (*now, rate)),
        _ => None,
    };
    told.iter().filter_map(rate).collect()
}

/// Returns the relative differences of the samples that both have at a time, in ascending order, and the fraction of
/// longhaul-tcp's samples for which there is one.
fn differences(trace: &[Told], ours: &[(Time, RateSample)]) -> (Vec<f64>, f64) {
    let theirs = rates(trace);
    let ours: HashMap<_, _> = numbered(ours).collect();
    let difference = |(key, rate): (_, f64)| ours.get(&key).map(|ours| (ours / rate - 1.0).abs());
    let mut differences: Vec<f64> = numbered(&theirs).filter_map(difference).collect();
    differences.sort_by(f64::total_cmp);
    let found = differences.len() as f64 / theirs.len() as f64;
    (differences, found)
}

/// Returns the rates by time and, since several ACKs may arrive at the same time, by number.
fn numbered(samples: &[(Time, RateSample)]) -> impl Iterator<Item = ((Time, u32), f64)> {
    let mut last = (Time::ZERO, 0);
    samples.iter().map(move |(at, sample)| {
        last = if last.0 == *at { (*at, last.1 + 1) } else { (*at, 0) };
        (last, sample.rate.as_bytes_per_sec() as f64)
    })
}

#[test]
fn samples_equal_those_of_longhaul_tcp() {
    let on_and_off = Plan::bursts(300_000, Span::from_millis(150), Span::from_millis(250));
    for (congestion, plan) in
        [("cubic", Plan::timed(Span::from_secs(60))), ("bbr", Plan::timed(Span::from_secs(60))), ("cubic", on_and_off)]
    {
        let trace = trace(congestion, plan, 20, 20);
        for ours in [replay(&trace, LISTS, congestion), replay_kept(&trace)] {
            let (differences, found) = differences(&trace, &ours);
            let most = differences.last().copied().unwrap();
            println!("{congestion}: {} samples, {found:.4} of all, at most {most:.6} apart", differences.len());
            assert!(found > 0.97 && most < 0.01, "{congestion}: {found} of the samples, {most}");
        }
    }
}

/// Batches that left together are one transmission to a stack without packet numbers, and which of them was lost has to be
/// guessed.
#[test]
fn samples_of_batches_are_close() {
    let trace = trace("copa", Plan::timed(Span::from_secs(60)), 200, 8);
    let (differences, found) = differences(&trace, &replay(&trace, SUMS, "copa"));
    let at = |share: f64| differences[(share * (differences.len() - 1) as f64) as usize];
    println!("{found:.4} of the samples; 95 % within {:.5}, 98 % {:.5}, 99 % {:.5}", at(0.95), at(0.98), at(0.99));
    assert!(found > 0.99 && at(0.99) < 0.01, "{found}, {}", at(0.99));
}
