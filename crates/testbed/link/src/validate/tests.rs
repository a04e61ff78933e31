use std::sync::Arc;

use longhaul_units::Time;

use super::*;
use crate::config::{Corruption, GilbertElliott, Outage, OutageKind, Phase, Policer, Step};
use crate::queue::{DualPi2Config, PieConfig, RedConfig};
use crate::trace::Trace;

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn link() -> LinkConfig {
    LinkConfig::new(Rate::from_bytes_per_sec(1_000), Span::from_millis(1))
}

fn fault(change: impl FnOnce(&mut LinkConfig)) -> String {
    let mut config = link();
    change(&mut config);
    config.validate().map_or_else(|error| error.to_string(), |()| "none".into())
}

#[test]
fn each_fault_is_named() {
    let outage = |from, until| Outage { from: at(from), until: at(until), kind: OutageKind::Lose };
    let step = |millis, rate| Step { at: at(millis), rate, delay: None };
    let faults = [
        fault(|c| c.rate = Rate::ZERO.into()),
        fault(|c| c.queue = Limit::Packets(0).into()),
        fault(|c| c.queue = Limit::Bytes(0).into()),
        fault(|c| c.policer = Some(Policer { rate: Rate::ZERO, burst: 3_000 })),
        fault(|c| c.policer = Some(Policer { rate: Rate::MAX, burst: 1_499 })),
        fault(|c| c.loss = Loss::Uniform(1.5)),
        fault(|c| c.loss = Loss::Uniform(f64::NAN)),
        fault(|c| c.loss = Loss::GilbertElliott(GilbertElliott::simple(0.1, -0.5))),
        fault(|c| c.loss = Loss::BitErrors(0.6)),
        fault(|c| c.loss = Loss::List(vec![0])),
        fault(|c| c.loss = Loss::List(vec![1, 4, 4])),
        fault(|c| c.cycle = vec![Phase { loss: 0.1, ..Phase::default() }]),
        fault(|c| {
            c.loss = Loss::Uniform(0.1);
            c.cycle = vec![Phase { lasts: Span::from_millis(1), loss: 0.1, ..Phase::default() }];
        }),
        fault(|c| c.corruption = Corruption { share: 0.1, unseen: 2.0 }),
        fault(|c| c.duplication = -0.1),
        fault(|c| c.outages = vec![outage(5, 5)]),
        fault(|c| c.outages = vec![outage(5, 9), outage(8, 10)]),
        fault(|c| c.steps = vec![step(5, Some(Rate::ZERO))]),
        fault(|c| c.steps = vec![step(5, None), step(5, None)]),
        fault(|c| {
            c.rate = LinkRate::Trace(Arc::new(Trace::parse("1").unwrap()));
            c.steps = vec![step(5, Some(Rate::MAX))];
        }),
        fault(|c| c.reordering = Some(Reordering::Places { share: 0.1, places: 0, patience: Span::ZERO })),
        fault(|c| {
            let (least, most) = (Span::from_millis(2), Span::from_millis(1));
            c.reordering = Some(Reordering::Late { share: 0.1, least, most });
        }),
        fault(|c| c.queue = Discipline::Red(RedConfig { min: 15.0, max: 5.0, ..RedConfig::default() }).into()),
        fault(|c| c.queue = Discipline::Pie(PieConfig { update: Span::ZERO, ..PieConfig::default() }).into()),
        fault(|c| c.queue = Discipline::DualPi2(DualPi2Config { alpha: 0.0, ..DualPi2Config::default() }).into()),
    ];
    let expected = [
        "the rate is 0, so nothing would ever pass; give at least 8 bit/s, or an outage for a time without service",
        "the queue holds 0 packets; give at least 1, or leave the limit out for an infinite queue",
        "the queue holds 0 bytes; give at least 1, or leave the limit out for an infinite queue",
        "the policer's rate is 0, so nothing would ever pass; give at least 8 bit/s, or an outage for a time without service",
        "the policer's burst of 1499 bytes is less than a packet; give at least 1500 bytes",
        "the loss is 1.5; it must be from 0 to 1",
        "the loss is NaN; it must be from 0 to 1",
        "the probability r to go to the good state is -0.5; it must be from 0 to 1",
        "the bit error rate is 0.6; it must be from 0 to 0.5",
        "the number of a lost packet (the first is 1) must be more than 0",
        "lost packet 3 of the list is not after the one before; sort them by number, each once",
        "the duration of a phase of the cycle must be more than 0",
        "losses and losses in a cycle exclude each other; leave one of them out",
        "the share of undetected corruption is 2; it must be from 0 to 1",
        "the share of duplicates is -0.1; it must be from 0 to 1",
        "outage number 1 ends at t+5ns, not after its beginning at t+5ns",
        "outage number 2 is not after the one before; sort them by time and keep them apart",
        "the rate of a step is 0, so nothing would ever pass; give at least 8 bit/s, or an outage for a time without service",
        "step number 2 is not after the one before; sort them by time and keep them apart",
        "a trace and a step of the rate exclude each other; leave one of them out",
        "the number of places back must be more than 0",
        "the minimum extra delay is not below the maximum extra delay; swap them or move them apart",
        "the lower RED threshold is not below the upper RED threshold; swap them or move them apart",
        "the PIE update interval must be more than 0",
        "the DualPI2 alpha must be more than 0",
    ];
    for (fault, expected) in faults.iter().zip(expected) {
        assert_eq!(fault, expected);
    }
    assert_eq!(faults.len(), expected.len());
}

#[test]
fn valid_configurations_pass() {
    assert_eq!(LinkConfig::default().validate(), Ok(()));
    assert_eq!(link().queue(Limit::Packets(1)).loss(Loss::Uniform(1.0)).validate(), Ok(()));
    for discipline in [
        Discipline::CoDel(Default::default()),
        Discipline::Red(Default::default()),
        Discipline::Pie(Default::default()),
        Discipline::DualPi2(Default::default()),
    ] {
        assert_eq!(link().queue(discipline).validate(), Ok(()));
    }
}
