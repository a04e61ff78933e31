//! Networks of the paper, and flows over them.

use std::sync::Arc;

use longhaul_link::statistics;
use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Classes, Discipline, Limit, LinkConfig, Loss};
use longhaul_sim::{Plan, SessionId, Setup, Sim};
use longhaul_tcp::{Config, Info};
use longhaul_units::{Rate, Span, Time};

/// Payload of a segment in bytes (table 2).
pub(crate) const SEGMENT: u64 = 1000;
/// Rate of the bottleneck (table 2) and of the access links of topology 1.
const RATE: Rate = Rate::from_bits_per_sec(10_000_000);
/// Receive window in segments, and buffer of the ground stations in packets (table 2).
pub(crate) const RWND: u64 = 64;
const BUFFER: u64 = 50;

/// Algorithm of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Sack,
    Peach,
    PeachPlus,
    /// TCP-Swift as published. `Swift` is longhaul's variant.
    SwiftPaper,
    Swift,
}

impl Scheme {
    /// Returns the composition. TCP of ns-2.1b7a, here `Sack`, has an initial window of one segment, and counts ACKs.
    const fn congestion(self) -> &'static str {
        match self {
            Self::Sack => "slow-start=slow-start(iw=1,l=1),avoidance=new-reno,recovery=rfc6675",
            Self::Peach => "tcp-peach",
            Self::PeachPlus => "tcp-peach-plus",
            Self::SwiftPaper => {
                "slow-start=slow-start,startup=speedy-start,avoidance=new-reno,recovery=speedy-recovery-paper"
            }
            Self::Swift => "tcp-swift",
        }
    }

    /// Returns settings with segments of 1000 bytes, one ACK per segment, a window of 64 segments, and no ECN.
    pub(crate) fn config(self) -> Config {
        let mut config = Config::default();
        (config.base_plpmtu, config.max_plpmtu) = (SEGMENT as u16 + 24, SEGMENT as u16 + 24);
        let window = (RWND * SEGMENT) as usize;
        (config.recv_buffer, config.recv_buffer_max) = (window, window);
        (config.ecn, config.ack_every) = (false, 1);
        config.congestion = longhaul_tests_papers::congestion(self.congestion());
        config
    }
}

/// Treatment of low-priority packets by the routers of the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Router {
    /// Priority has no effect: a single FIFO queue.
    Blind,
    /// Strict priority: probes are dropped in favour of data.
    Priority,
    /// TCP-Peach's queue: a single queue that accepts probes only if at most one packet is queued.
    Peach,
}

impl Router {
    pub(crate) fn discipline(self) -> Discipline {
        match self {
            Self::Blind => Discipline::default(),
            Self::Priority => Discipline::Priority(Classes::less_effort()),
            Self::Peach => Discipline::Threshold(1),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) goodput: Vec<f64>,
    /// At the bottleneck: data packets offered and dropped by the queue, and the same for probes.
    pub(crate) data: (u64, u64),
    pub(crate) probes: (u64, u64),
    /// Totals over all flows.
    pub(crate) retransmitted: u64,
    pub(crate) timeouts: u64,
    pub(crate) refused: u64,
    pub(crate) spurious: u64,
}

impl Outcome {
    pub(crate) fn total(&self) -> f64 {
        self.goodput.iter().sum()
    }

    pub(crate) fn jain(&self) -> f64 {
        statistics::jain(&self.goodput).unwrap()
    }
}

/// Duration and start times of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// Time between the starts of two successive flows.
    pub(crate) apart: Span,
}

/// Algorithm of a flow, and its access links on both sides.
pub(crate) struct Flow {
    pub(crate) scheme: Scheme,
    pub(crate) left: Duplex,
    pub(crate) right: Duplex,
}

/// Runs flows on topology 1: a satellite link with the loss rate `loss`, and access links of 10 Mb/s and 1 ms.
pub(crate) fn satellite(scheme: Scheme, flows: usize, loss: f64, router: Router, seconds: u64, seed: u64) -> Outcome {
    let access = || Duplex::symmetric(LinkConfig::new(RATE, Span::from_millis(1)));
    let flows: Vec<_> = (0..flows).map(|_| Flow { scheme, left: access(), right: access() }).collect();
    let hop = Span::from_millis(275);
    let back = LinkConfig::new(RATE, hop).queue(Limit::Packets(BUFFER));
    let there = LinkConfig { loss: Loss::Uniform(loss), ..back.clone() };
    run(Duplex { there, back }, &flows, router, Course { seconds, seed, apart: Span::from_millis(27) })
}

fn run(mut shared: Duplex, flows: &[Flow], router: Router, course: Course) -> Outcome {
    shared.there.queue.discipline = router.discipline();
    let net = dumbbell(shared, flows.iter().map(|flow| flow.left.clone()), flows.iter().map(|flow| flow.right.clone()));
    let ends: Vec<_> = net.left.iter().zip(&net.right).map(|(l, r)| (*l as usize, *r as usize)).collect();
    let mut setup = Setup::new(course.seed, net.topology);
    for (flow, (left, right)) in flows.iter().zip(&ends) {
        let config = Arc::new(flow.scheme.config());
        (setup.hosts[*left].config, setup.hosts[*right].config) = (Arc::clone(&config), config);
    }
    let mut sim = Sim::new(setup);
    let mut sessions = Vec::new();
    for (nth, (left, right)) in (0..).zip(&ends) {
        let at = Time::ZERO + course.apart * nth;
        sessions.push(sim.open_at(at, *left, *right, Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros()));
    }
    sim.run_for(Span::from_secs(course.seconds));
    let mut outcome = Outcome::default();
    for (sender, receiver) in sessions {
        outcome.goodput.push(sim.session(receiver).read as f64 * 8e-3 / course.seconds as f64);
        let info = info(&sim, sender);
        outcome.retransmitted += info.segments_retransmitted;
        outcome.timeouts += info.timeouts;
        outcome.spurious += info.spurious_recoveries;
        outcome.refused += info.probes.map_or(0, |probes| probes.refused);
    }
    let stats = sim.link(net.bottleneck.0).stats();
    let class = |nth| (stats.class(nth).offered, queue_drops(&stats.class(nth)));
    (outcome.data, outcome.probes) = (class(0), class(1));
    outcome
}

fn queue_drops(class: &longhaul_link::ClassStats) -> u64 {
    class.offered - class.sent.min(class.offered)
}

pub(crate) fn info(sim: &Sim, sender: SessionId) -> Info {
    let id = sim.session(sender).id;
    sim.host(sender.host).endpoint.connection(id).unwrap().info(sim.now())
}
