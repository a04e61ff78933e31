//! Estimates from a transfer's own segments.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use longhaul_cc::estimate::{FusedCapacity, PacketPair, TcpProbe};
use longhaul_cc::{Congestion, Demands, watched};
use longhaul_link::source::Source;
use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Limit, LinkConfig, LinkRate, Random, Trace};
use longhaul_sim::{Plan, Setup, Sim};
use longhaul_units::{Rate, Span, Time};
use serde::Serialize;

use crate::parallel::in_parallel;

/// The estimators, by their pages.
pub(super) const ESTIMATORS: [&str; 3] = ["packet-pair", "tcpprobe", "fused-capacity"];
/// Mb/s of IP packets.
pub(super) const CAPACITY: u64 = 80;
/// The way back, and the way there without its queue.
const DELAY: Span = Span::from_millis(20);
const SECONDS: u64 = 30;

/// What is special about a path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Special {
    Nothing,
    Bunches,
    SeldomAcks,
    SlowBack,
    HalfTaken,
}

const SCENARIOS: [(&str, Special); 5] = [
    ("an idle way back", Special::Nothing),
    ("an ACK for 16 segments", Special::SeldomAcks),
    ("ACKs handed over every 20 ms", Special::Bunches),
    ("a way back of 500 kb/s", Special::SlowBack),
    ("half of the link taken, at random times", Special::HalfTaken),
];

/// What the estimators say at the end, Mb/s of IP packets, in the order of [`ESTIMATORS`].
#[derive(Clone, Debug, Serialize)]
pub(super) struct Found {
    pub(super) scenario: &'static str,
    pub(super) with_arrival_times: bool,
    pub(super) estimates: [Option<f64>; 3],
    /// Whether the last two say that they have converged.
    pub(super) converged: [bool; 3],
}

/// All estimators on all paths.
///
/// # Errors
/// A path that cannot be.
pub(super) fn measure() -> Result<Vec<Found>> {
    let cells: Vec<_> = SCENARIOS.iter().flat_map(|path| [true, false].map(|with| (path, with))).collect();
    in_parallel(&cells, |((title, special), with)| run(title, *special, *with)).into_iter().collect()
}

/// What looks on.
#[derive(Debug, Default)]
struct Filters {
    pairs: PacketPair,
    probe: TcpProbe,
    fused: FusedCapacity,
}

impl Filters {
    fn found(&self) -> [Option<f64>; 3] {
        let rates = [self.pairs.median(), self.probe.capacity(), self.fused.capacity()];
        rates.map(|rate| rate.map(|rate| rate.as_bits_per_sec() as f64 * 1e-6))
    }
}

fn run(scenario: &'static str, special: Special, with_arrival_times: bool) -> Result<Found> {
    let filters = Arc::new(Mutex::new(Filters::default()));
    let into = Arc::clone(&filters);
    let wants = Demands { pairs: true, arrival_times: true, ..Demands::default() };
    let congestion = watched("vegas".parse::<Congestion>()?, wants, move |ack, path, _| {
        let Ok(mut filters) = into.lock() else { return };
        filters.fused.observe(ack, path);
        if let Some(pair) = &ack.pair {
            filters.pairs.on_pair(pair);
            filters.probe.on_pair(pair, ack.now);
        }
    });
    transfer(special, congestion, with_arrival_times)?;
    let filters = filters.lock().ok().context("a filter has panicked")?;
    let converged = [false, filters.probe.converged(), filters.fused.converged()];
    Ok(Found { scenario, with_arrival_times, estimates: filters.found(), converged })
}

fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_sec(rate * 1_000_000)
}

/// A transfer of half a minute.
fn transfer(special: Special, congestion: Congestion, extensions: bool) -> Result<()> {
    let there = LinkConfig::new(mbit(CAPACITY), DELAY).queue(Limit::Bytes(2_000_000));
    let mut back = LinkConfig::delay(DELAY);
    match special {
        Special::Bunches => back.rate = LinkRate::Trace(Arc::new(Trace::parse(&"20\n".repeat(100))?)),
        Special::SlowBack => back = LinkConfig::new(Rate::from_bits_per_sec(500_000), DELAY),
        Special::Nothing | Special::SeldomAcks | Special::HalfTaken => {}
    }
    let access = || (0..2).map(|_| Duplex::symmetric(LinkConfig::new(mbit(1000), Span::from_micros(10))));
    let net = dumbbell(Duplex { there, back }, access(), access());
    let mut sim = Sim::new(Setup::new(1, net.topology).configure(|config| {
        (config.base_plpmtu, config.max_plpmtu) = (1472, 1472);
        if special == Special::SeldomAcks {
            config.ack_every = 16;
        }
        (config.congestion, config.extensions) = (congestion.clone(), extensions);
    }));
    let hosts = |side: &[u32]| side.iter().map(|node| *node as usize).collect::<Vec<_>>();
    let (left, right) = (hosts(&net.left), hosts(&net.right));
    let ([from, others], [to, sink]) = (left[..].try_into()?, right[..].try_into()?);
    sim.open_between(from, to, Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    if special == Special::HalfTaken {
        let half = Source::poisson(Time::ZERO, mbit(CAPACITY / 2), 500, Random::new(1, 9));
        sim.add_traffic(others, sink, half, Time::ZERO + Span::from_secs(SECONDS));
    }
    sim.run_for(Span::from_secs(SECONDS));
    Ok(())
}
