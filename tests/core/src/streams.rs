//! Random streams over impaired paths, with any registered profiles at both ends.

use std::sync::Arc;

use longhaul_cc::BuildParams;
use longhaul_cc::registry::known;
use longhaul_link::topology::Duplex;
use longhaul_link::{Corruption, Discipline, Limit, LinkConfig, LinkRate, Loss, QueueConfig, Reordering};
use longhaul_sim::{Begin, Close, Plan, Setup, Sim};
use longhaul_tcp::{Config, ConnectionError, KeepAlive};
use longhaul_units::{Rate, Span, Time};
use proptest::prelude::*;
use proptest::sample;

use crate::{Watch, cases, congestion};

/// Returns settings of proptest for `few` cases, or `all` with `LONGHAUL_LONG`. `LONGHAUL_CASES` sets the number.
#[must_use]
pub fn config(few: u32, all: u32) -> ProptestConfig {
    ProptestConfig { cases: cases(few, all), failure_persistence: None, ..ProptestConfig::default() }
}

/// Generates initial sequence numbers at the boundaries of 32-bit arithmetic.
fn isn() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        Just(1),
        Just((1 << 31) - 1),
        Just(1 << 31),
        Just(u32::MAX - 65_535),
        Just(u32::MAX),
        any::<u32>()
    ]
}

fn link() -> impl Strategy<Value = LinkConfig> {
    let rate = prop_oneof![Just(None), (300_000u64..100_000_000).prop_map(|bps| Some(Rate::from_bits_per_sec(bps)))];
    let delay = prop_oneof![0u64..100, 100_000u64..60_000_000, 60_000_000u64..600_000_000];
    let loss = prop_oneof![Just(0.0), 0.0..0.05, 0.05..0.3];
    let rare = || prop_oneof![Just(0.0), 0.0..0.1];
    let reordering = prop_oneof![Just(None), (0.0..0.3f64, 0u64..100).prop_map(Some)];
    (rate, delay, loss, rare(), rare(), reordering, 0.0..10.0f64).prop_map(
        |(rate, delay, loss, duplication, corruption, reordering, bdps)| {
            let mut link = LinkConfig::delay(Span::from_nanos(delay)).loss(Loss::Uniform(loss));
            link.rate = rate.map_or(LinkRate::Unlimited, LinkRate::from);
            let bdp = rate.map_or(0, |r| r.bytes_in(link.delay * 2).0) as f64;
            let mark_above = Some((bdp / 2.0) as u64 + 3_000);
            let queue = QueueConfig::from(Discipline::DropTail { mark_above });
            link.queue = queue.limit(Limit::Bytes((bdp * bdps) as u64 + 1_500));
            link.duplication = duplication;
            link.corruption = Corruption { share: corruption, unseen: 0.0 };
            link.reordering = reordering.map(|(share, ms)| Reordering::Late {
                share,
                least: Span::ZERO,
                most: Span::from_millis(ms),
            });
            link
        },
    )
}

fn plan() -> impl Strategy<Value = Plan> {
    let size = prop_oneof![Just(0u64), 1u64..3_000, 3_000u64..200_000];
    let chunk = prop_oneof![Just(1usize << 20), 1usize..5_000];
    let pause = || prop_oneof![3 => Just(0u64), 1 => 1u64..20];
    (size, chunk.clone(), pause(), chunk, pause(), 0u64..2_000, any::<bool>(), any::<bool>()).prop_map(
        |(send, write_chunk, write_pause, read_chunk, read_pause, late, half, after)| {
            let mut plan = Plan::bulk(send);
            // Small chunks with long pauses between them would take hours.
            plan.write_chunk = write_chunk.max(send as usize / 300).max(1);
            plan.write_pause = Span::from_millis(write_pause);
            plan.read_chunk = if read_pause > 0 { read_chunk.max(1_000) } else { read_chunk };
            plan.read_pause = Span::from_millis(read_pause);
            plan.read_from = Time::ZERO + Span::from_millis(if late > 1_000 { late } else { 0 });
            plan.close = if half { Close::AfterWriting } else { Close::AfterEnd };
            plan.begin = if after { Begin::AfterEnd } else { Begin::AtOnce };
            plan
        },
    )
}

/// Settings of one end.
#[derive(Clone, Debug)]
struct Options {
    switches: [bool; 5],
    nagle: bool,
    profile: &'static str,
    buffers: (usize, usize),
}

fn options() -> impl Strategy<Value = Options> {
    let buffers =
        (prop_oneof![Just(4usize << 20), 2_000usize..100_000], prop_oneof![Just(256usize << 10), 3_000usize..200_000]);
    (any::<[bool; 5]>(), any::<bool>(), sample::select(profiles()), buffers)
        .prop_map(|(switches, nagle, profile, buffers)| Options { switches, nagle, profile, buffers })
}

/// Returns the profiles that can connect without routers.
fn profiles() -> Vec<&'static str> {
    let needs = |name: &str| congestion(name).build(&BuildParams::default()).needs();
    let names = known().profiles.iter().map(|profile| profile.name);
    names.filter(|name| needs(name).required.network_header.is_none()).collect()
}

impl Options {
    fn config(&self) -> Config {
        let mut config = Config::default();
        [config.sack, config.timestamps, config.window_scaling, config.ecn, config.extensions] = self.switches;
        config.nagle = self.nagle;
        // If all final ACKs of the handshake are lost, keep-alive tells the client that the server has given up.
        config.keep_alive = Some(KeepAlive { idle: Span::from_secs(60), ..KeepAlive::default() });
        config.congestion = congestion(self.profile);
        (config.send_buffer, config.recv_buffer) = self.buffers;
        config
    }
}

/// Two ends, two links, and what the applications do.
#[derive(Clone, Debug)]
pub struct Case {
    seed: u64,
    isn: [u32; 2],
    links: Duplex,
    /// Plans of client and server.
    pub plans: [Plan; 2],
    options: [Options; 2],
}

/// Generates cases in which the applications can complete.
pub fn case() -> impl Strategy<Value = Case> {
    let pair = || (options(), options()).prop_map(|(a, b)| [a, b]);
    let links = (link(), link()).prop_map(|(there, back)| Duplex { there, back });
    (any::<u64>(), [isn(), isn()], links, [plan(), plan()], pair())
        .prop_map(|(seed, isn, links, plans, options)| Case { seed, isn, links, plans, options })
        // If both sides wait for the end of the other's stream, they wait forever.
        .prop_filter("a deadlock of the applications", |c| {
            let waits = |p: &Plan| p.begin == Begin::AfterEnd || p.close == Close::AfterEnd;
            !(waits(&c.plans[0]) && waits(&c.plans[1]))
        })
}

impl Case {
    fn sim(&self) -> Sim {
        let mut setup = Setup::pair(self.seed, self.links.clone());
        for (host, (isn, options)) in setup.hosts.iter_mut().zip(self.isn.into_iter().zip(&self.options)) {
            host.endpoint.initial_sequence = Some(isn);
            host.config = Arc::new(options.config());
        }
        Sim::new(setup)
    }

    /// Runs the case [to silence](Self::run_to_silence) with applications that release the connection early: by a RST after
    /// the milliseconds of `aborts`, if they are less than 1,500, or by not reading further.
    ///
    /// # Errors
    /// Returns the first rule that is broken.
    pub fn run_leaving(mut self, aborts: [u64; 2], early: bool) -> Result<(), String> {
        for (plan, millis) in self.plans.iter_mut().zip(aborts) {
            plan.abort_at = (millis < 1_500).then_some(Time::ZERO + Span::from_millis(millis));
            plan.leave_early = early;
        }
        self.run_to_silence()
    }

    /// Runs the case until no state is left at either end, with any outcome. An application releases its connection
    /// after an error.
    ///
    /// # Errors
    /// Returns the rule that was violated.
    pub fn run_to_silence(&self) -> Result<(), String> {
        let mut sim = self.sim();
        let mut watch = Watch::new(&mut sim, Span::from_millis(200));
        sim.open(self.plans[0], self.plans[1]);
        let gone = |sim: &Sim, host: usize| sim.host(host).sessions.iter().all(|s| s.released);
        watch.run(&mut sim, Span::from_secs(20_000), |sim| {
            gone(sim, 0) && gone(sim, 1) && sim.host(0).endpoint.is_idle() && sim.host(1).endpoint.is_idle()
        })?;
        let memory = [sim.host(0), sim.host(1)].map(|h| h.endpoint.memory());
        if memory == [0, 0] { Ok(()) } else { watch.fail(&sim, &format!("memory {memory:?} is left")) }
    }

    /// Returns the sum of the loss rates of both directions.
    fn loss(&self) -> f64 {
        let loss = |link: &LinkConfig| if let Loss::Uniform(loss) = link.loss { loss } else { 0.0 };
        loss(&self.links.there) + loss(&self.links.back)
    }

    /// Runs the case. The number of SYN retries is sufficient for 30 % loss in both directions.
    ///
    /// # Errors
    /// Returns the rule that was violated, or that data is missing.
    pub fn run(&self) -> Result<(u64, u64), String> {
        let mut sim = self.sim();
        let mut watch = Watch::new(&mut sim, Span::from_millis(200));
        let (client, server) = sim.open(self.plans[0], self.plans[1]);
        // With many losses, and neither SACK nor timestamps, all RTT samples are ambiguous (RFC 6298, section 3), so
        // that the RTO stays at its maximum.
        let limit = Span::from_secs(if self.loss() > 0.2 { 20_000 } else { 3_600 });
        watch.run(&mut sim, limit, |sim| sim.all_done() || sim.host(0).sessions[0].error.is_some())?;
        if let Some(error) = sim.session(client).error {
            // An error is a valid outcome if the handshake is lost, or too many other packets.
            let lossy = self.loss() > 0.1;
            let refused = sim.host(1).sessions.is_empty();
            // The peer may have given up, with an error, or after several unanswered FINs.
            let gave_up = error == ConnectionError::TimedOut
                || sim.host(1).sessions.iter().any(|s| s.error == Some(ConnectionError::TimedOut) || s.ended_well());
            return if refused || (lossy && gave_up) { Ok((0, 0)) } else { watch.fail(&sim, &error.to_string()) };
        }
        let (first, second) = (sim.session(client), sim.session(server));
        if (first.read, second.read) != (self.plans[1].send, self.plans[0].send) {
            return watch.fail(&sim, &format!("read {} and {}", first.read, second.read));
        }
        // From here on, nothing is lost, and all remaining state must go away.
        for number in 0..2 {
            sim.reconfigure(number, LinkConfig::delay(Span::from_millis(1))).expect("a link that only delays");
        }
        watch.run(&mut sim, Span::from_secs(3_600), Sim::is_quiet)?;
        let memory = [sim.host(0), sim.host(1)].map(|h| h.endpoint.memory());
        if memory != [0, 0] {
            return watch.fail(&sim, &format!("memory {memory:?} is left"));
        }
        Ok((sim.session(client).read, sim.session(server).read))
    }
}
