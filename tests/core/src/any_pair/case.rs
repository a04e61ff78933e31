//! Test case: two ends, two links, and manipulation of the packets on them.

use std::sync::Arc;

use longhaul_cc::NetworkHeaderKind;
use longhaul_link::router::{QuickStartConfig, RcpConfig, XcpConfig};
use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig, Loss, Random, Reordering, RouterConfig};
use longhaul_sim::{Close, Plan, Session, SessionId, Setup, Sim};
use longhaul_tcp::{Config, ConnectionError, KeepAlive};
use longhaul_units::{Rate, Span, Time};

use crate::any_pair::composition;
use crate::any_pair::middle::Middle;
use crate::any_pair::roaming::Roaming;
use crate::congestion;
use crate::watch::describe;

/// Maximum time of a transfer of at most 400 kB in each direction over at least 1 Mb/s with at most 5 % loss. Without
/// loss, it takes 4 s.
const BOUND: Span = Span::from_secs(600);
/// Maximum time until two ends with inconsistent state give up, from the user timeout and keep-alive of [`End::config`]
/// and the back-off of timers.
const BOUND_OF_DISAGREEMENT: Span = Span::from_secs(3600);
/// Maximum time of the transfers of [`Case::both_ways`], so short that keep-alive probes cannot hide a stall.
const BOUND_OF_BOTH: Span = Span::from_secs(30);
/// Maximum time without progress. If its window scale was removed, a transfer may continue at a few bytes at a time.
const STALLED: Span = Span::from_secs(600);
/// Maximum number of events of a case. More events indicate an endless exchange of packets.
const MAX_EVENTS: u64 = 400_000;
/// Maximum memory of an end in bytes.
const MAX_MEMORY: usize = 1 << 20;
/// Number of events between two checks of both ends.
const LOOK: u64 = 16;

/// Manipulation by a middlebox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hostility {
    /// Changes nothing.
    None,
    /// Changes fields that report progress, in segments without data.
    Lies,
    /// Changes mostly windows, SACK blocks and acknowledgments, also in segments with data, and for longer.
    WindowLies,
    /// Changes any field of any segment.
    Anything,
}

/// Time at which an application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    AtOnce,
    /// Not before this time after the start.
    Late(Span),
    /// At most this many bytes at a time, with this pause in between.
    Slowly(usize, Span),
    Never,
}

/// Settings of one end of the connection.
#[derive(Clone, Debug)]
struct End {
    composition: String,
    send: u64,
    isn: u32,
    /// Whether these are enabled: SACK, timestamps, window scaling, ECN, longhaul's extensions, Nagle, arrival times,
    /// pairs, user timeout option.
    switches: [bool; 9],
    buffers: (usize, usize),
    ack_every: u8,
    reading: Reading,
    /// Whether this end closes its stream only after the peer has closed.
    ends_last: bool,
}

/// Two ends, two links, and what a middlebox does to the packets.
#[derive(Clone, Debug)]
pub struct Case {
    seed: u64,
    hostility: Hostility,
    ends: [End; 2],
    links: Duplex,
    bound: Span,
    /// Whether the address of the client changes.
    roams: bool,
}

impl End {
    fn new(random: &mut Random) -> Self {
        let composition = composition::any(random);
        let send = 1 + if random.chance(0.3) { random.below(5_000) } else { random.below(400_000) };
        let isn = if random.chance(0.5) { random.bits() as u32 } else { u32::MAX - random.below(100_000) as u32 };
        // Options subject to negotiation are mostly enabled, so that compositions mostly get what they request.
        let switches = [0.9, 0.9, 0.9, 0.7, 0.9, 0.5, 0.3, 0.3, 0.3].map(|share| random.chance(share));
        let buffer =
            |random: &mut Random| if random.chance(0.6) { 4 << 20 } else { 4_000 + random.below(200_000) as usize };
        let buffers = (buffer(random), buffer(random));
        let ack_every = 1 + random.below(4) as u8;
        Self { composition, send, isn, switches, buffers, ack_every, reading: Reading::AtOnce, ends_last: false }
    }

    fn plan(&self) -> Plan {
        let mut plan = Plan::bulk(self.send);
        match self.reading {
            Reading::AtOnce => {}
            Reading::Late(since) => plan.read_from = Time::ZERO + since,
            Reading::Slowly(chunk, pause) => (plan.read_chunk, plan.read_pause) = (chunk, pause),
            Reading::Never => plan.read_from = Time::ZERO + BOUND * 2,
        }
        if self.ends_last {
            plan.close = Close::AfterEnd;
        }
        plan
    }

    fn config(&self) -> Config {
        let mut config = Config::default();
        [config.sack, config.timestamps, config.window_scaling, config.ecn, config.extensions, ..] = self.switches;
        [.., config.nagle, config.arrival_times, config.probe_pairs, config.user_timeout_option] = self.switches;
        (config.send_buffer, config.recv_buffer) = self.buffers;
        config.recv_buffer_max = config.recv_buffer_max.max(config.recv_buffer);
        config.ack_every = self.ack_every;
        config.congestion = congestion(&self.composition);
        config.routers_answer = composition::header(&self.composition).is_some();
        // These timers let an end detect that its peer has given up.
        config.user_timeout = Some(Span::from_secs(300));
        config.keep_alive = Some(KeepAlive { idle: Span::from_secs(30), interval: Span::from_secs(10), probes: 6 });
        config
    }
}

/// Returns the settings of a router that answers requests with this header.
fn router(header: NetworkHeaderKind) -> Option<RouterConfig> {
    match header {
        NetworkHeaderKind::QuickStart => Some(RouterConfig::QuickStart(QuickStartConfig::default())),
        NetworkHeaderKind::Rcp => Some(RouterConfig::Rcp(RcpConfig::default())),
        NetworkHeaderKind::Xcp => Some(RouterConfig::Xcp(XcpConfig::default())),
        _ => None,
    }
}

fn link(random: &mut Random, header: Option<NetworkHeaderKind>) -> LinkConfig {
    let fastest = if random.chance(0.5) { 10_000_000 } else { 200_000_000 };
    let rate = Rate::from_bits_per_sec(1_000_000 + random.below(fastest));
    let longest = if random.chance(0.7) { 60_000 } else { 300_000 };
    let delay = Span::from_micros(random.below(longest));
    let mut link = LinkConfig::new(rate, delay);
    let queue = 3_000 + (rate.bytes_in(delay * 2).0 as f64 * 2.0 * random.unit()) as u64;
    link = link.queue(Limit::Bytes(queue));
    let mut rare = |share: f64, most: f64| if random.chance(share) { random.unit() * most } else { 0.0 };
    link = link.loss(Loss::Uniform(rare(0.5, 0.05)));
    link.duplication = rare(0.4, 0.05);
    let late = rare(0.4, 0.1);
    link.reordering = (late > 0.0).then_some(Reordering::Late { share: late, least: Span::ZERO, most: delay });
    link.router = header.and_then(router);
    link
}

impl Case {
    /// Creates the case with this number.
    #[must_use]
    pub fn new(seed: u64, hostility: Hostility) -> Self {
        let random = &mut Random::new(seed, 1 + hostility as u64);
        let mut ends = [End::new(random), End::new(random)];
        // With identical ends, a scheme may interact with itself.
        if random.chance(0.3) {
            ends[1].composition = ends[0].composition.clone();
        }
        let [there, back] = ends.each_ref().map(|end| link(random, composition::header(&end.composition)));
        let bound = if hostility == Hostility::Anything { BOUND_OF_DISAGREEMENT } else { BOUND };
        Self { seed, hostility, ends, links: Duplex { there, back }, bound, roams: false }
    }

    /// Creates a case in which one end or both read late, slowly, or not at all, and in which smaller windows close. At
    /// most one end does not read at all, and the other end then does not wait for its close.
    #[must_use]
    pub fn unread(seed: u64, hostility: Hostility) -> Self {
        let mut case = Self::new(seed, hostility);
        let random = &mut Random::new(seed, 300 + hostility as u64);
        for end in &mut case.ends {
            end.reading = match random.below(4) {
                0 => Reading::AtOnce,
                1 => Reading::Late(Span::from_millis(random.below(100_000))),
                2 => Reading::Slowly(4_000 + random.below(20_000) as usize, Span::from_millis(random.below(200))),
                _ => Reading::Never,
            };
            end.ends_last = random.chance(0.2);
            if random.chance(0.8) {
                end.buffers.1 = 1_000 + random.below(100_000) as usize;
            }
            if random.chance(0.1) {
                end.send = 0;
            }
        }
        // A segment that arrives much later advertises an outdated window.
        for link in [&mut case.links.there, &mut case.links.back] {
            if random.chance(0.2) {
                let most = Span::from_millis(random.below(5_000));
                link.reordering = Some(Reordering::Late { share: 0.02, least: Span::ZERO, most });
            }
        }
        // The data fills the peer's buffer exactly, or to within a byte, and a FIN follows.
        for (from, to) in [(0, 1), (1, 0)] {
            if random.chance(0.2) {
                case.ends[from].send =
                    (case.ends[to].buffers.1 as u64 + random.below(3)).saturating_sub(1).min(400_000);
            }
        }
        let [first, second] = &mut case.ends;
        if first.reading == Reading::Never && (second.reading == Reading::Never || second.ends_last) {
            (second.reading, second.ends_last) = (Reading::AtOnce, false);
        }
        for end in &mut case.ends {
            // An end that does not read would wait forever for the peer's close.
            end.ends_last &= end.reading != Reading::Never;
        }
        if case.ends.iter().all(|end| end.ends_last) {
            case.ends[0].ends_last = false;
        }
        case
    }

    /// Creates a case in which the addresses change, or that of a NAT before the client. In half of the cases, ends read
    /// late or slowly, so that bindings of the NAT expire in between.
    #[must_use]
    pub fn roaming(seed: u64, hostility: Hostility) -> Self {
        let pauses = Random::new(seed, 500).chance(0.5);
        let mut case = if pauses { Self::unread(seed, hostility) } else { Self::new(seed, hostility) };
        for end in &mut case.ends {
            // If the keep-alive timer expired in a pause, it might end the connection before the next window probe.
            end.reading = match end.reading {
                Reading::Late(since) => Reading::Late(since / 5),
                Reading::Never => Reading::Late(Span::from_secs(20)),
                reading => reading,
            };
        }
        Self { roams: true, ..case }
    }

    /// Creates a case with the same composition at both ends over 100 Mb/s and 100 ms with a queue of half a BDP and
    /// the random loss rate `loss`.
    #[must_use]
    pub fn both_ways(composition: &str, send: [u64; 2], loss: f64) -> Self {
        let ends = send.map(|send| End {
            composition: composition.to_owned(),
            send,
            isn: u32::MAX - 50_000,
            switches: [true, true, true, true, true, false, false, false, false],
            buffers: (4 << 20, 4 << 20),
            ack_every: 2,
            reading: Reading::AtOnce,
            ends_last: false,
        });
        let mut link = LinkConfig::new(Rate::from_bits_per_sec(100_000_000), Span::from_millis(50));
        link = link.queue(Limit::Bytes(625_000)).loss(Loss::Uniform(loss));
        link.router = composition::header(composition).and_then(router);
        let links = Duplex { there: link.clone(), back: link };
        Self { seed: 1, hostility: Hostility::None, ends, links, bound: BOUND_OF_BOTH, roams: false }
    }

    fn sim(&self) -> Sim {
        let mut setup = Setup::pair(self.seed, self.links.clone());
        for (host, end) in setup.hosts.iter_mut().zip(&self.ends) {
            host.endpoint.initial_sequence = Some(end.isn);
            host.config = Arc::new(end.config());
        }
        // The former port of a client is closed: no endpoint answers what still arrives there.
        setup.hosts[0].endpoint.reset_unknown = !self.roams;
        let mut sim = Sim::new(setup);
        if self.hostility != Hostility::None {
            for number in 0..2 {
                sim.set_hook(number, Middle::new(self.seed, number, self.hostility));
            }
        }
        sim
    }

    /// Runs the case to the end of both applications.
    ///
    /// # Errors
    /// Returns what does not hold.
    pub fn run(&self) -> Result<(), String> {
        let mut sim = self.sim();
        let ids = sim.open(self.ends[0].plan(), self.ends[1].plan());
        let (mut events, end) = (0, sim.now() + self.bound);
        let (mut progress, mut progress_at) = (0, sim.now());
        let mut roaming = self.roams.then(|| Roaming::new(self.seed));
        while !self.is_over(&sim, ids) {
            events += 1;
            if sim.step_until(end).is_none() {
                if self.hostility == Hostility::Anything && sim.now() - progress_at < STALLED {
                    return Ok(());
                }
                return Err(format!("not over after {}, stalled at {progress_at}: {}", self.bound, describe(&sim)));
            }
            if let Some(roaming) = &mut roaming {
                roaming.act(&mut sim, ids);
            }
            let read = [ids.0, ids.1].into_iter().filter_map(|id| sim.find(id)).map(|session| session.read).sum();
            if read > progress {
                (progress, progress_at) = (read, sim.now());
            }
            if events > MAX_EVENTS {
                return Err(format!("{MAX_EVENTS} events and no end: {}", describe(&sim)));
            }
            if events % LOOK == 0 && self.hostility != Hostility::Anything {
                nothing_acknowledged_is_missing(&sim, ids)?;
                self.uses_little_memory(&sim)?;
            }
        }
        self.judge(&sim, ids)
    }

    /// Returns whether both applications have released their connections. If the handshake failed, there is only the
    /// client's connection.
    fn is_over(&self, sim: &Sim, (client, server): (SessionId, SessionId)) -> bool {
        let first = sim.session(client);
        let Some(second) = sim.find(server) else { return first.released };
        self.has_ended(first, 0) && self.has_ended(second, 1)
    }

    /// Returns whether an application has read and written all that it can.
    fn has_ended(&self, session: &Session, number: usize) -> bool {
        session.released || self.ends[number].reading == Reading::Never || (session.ended && self.is_unread(number))
    }

    /// Returns whether the peer of this end does not read, so that the end may be unable to write everything.
    fn is_unread(&self, number: usize) -> bool {
        self.ends[1 - number].reading == Reading::Never
    }

    /// Checks that no end occupies more memory than its data needs, whatever the middlebox reports. Without a
    /// middlebox, transfers may be larger, and memory is not checked.
    fn uses_little_memory(&self, sim: &Sim) -> Result<(), String> {
        let memory = [0, 1].map(|node| sim.host(node).endpoint.memory());
        let holds = self.hostility == Hostility::None || memory.iter().all(|bytes| *bytes <= MAX_MEMORY);
        if holds { Ok(()) } else { Err(format!("memory {memory:?}: {}", describe(sim))) }
    }

    /// Checks that both ends have read everything the other wrote, unless one of them got an error.
    fn judge(&self, sim: &Sim, (client, server): (SessionId, SessionId)) -> Result<(), String> {
        let sessions = [Some(sim.session(client)), sim.find(server)];
        let errors = sessions.map(|session| session.and_then(|session| session.error));
        if self.hostility == Hostility::Anything {
            return Ok(());
        }
        let refused = |error: &Option<ConnectionError>| matches!(error, Some(ConnectionError::NeedNotGranted { .. }));
        // The server gives up a handshake after three SYN-ACKs, unless data of the client completes it.
        let has_no_data = self.ends[0].send == 0 && sessions[1].is_none();
        let demanding = self.ends.iter().any(|end| composition::is_demanding(&end.composition));
        if has_no_data || demanding && (errors.iter().any(refused) || sessions[1].is_none()) {
            return Ok(());
        }
        for (session, number) in sessions.iter().zip([0, 1]) {
            let Some(session) = session else { return Err(format!("no connection: {errors:?}")) };
            let (end, peer) = (&self.ends[number], &self.ends[1 - number]);
            if end.reading == Reading::Never && session.error.is_none() {
                continue;
            }
            // A server that has closed does not know the number of a client that moves before its last ACK arrives.
            let has_closed = self.roams && number == 0 && sessions[1].is_some_and(Session::ended_well);
            if has_closed && session.intact && session.error == Some(ConnectionError::Reset) {
                continue;
            }
            let well = session.ended_well() || (session.ended && session.error.is_none() && self.is_unread(number));
            if !well || session.read != peer.send {
                return Err(format!("read {} of {}, {errors:?}: {}", session.read, peer.send, describe(sim)));
            }
        }
        Ok(())
    }
}

/// Checks that all acknowledged data was received, and that received data is read or readable.
fn nothing_acknowledged_is_missing(sim: &Sim, (client, server): (SessionId, SessionId)) -> Result<(), String> {
    let info = |id: SessionId| {
        let session = sim.find(id)?;
        if !session.intact {
            return None;
        }
        Some((session.read, sim.host(id.host).endpoint.connection(session.id)?.info(sim.now())))
    };
    for id in [client, server] {
        if sim.find(id).is_some_and(|session| !session.intact) {
            return Err(format!("{id:?} read what was not written: {}", describe(sim)));
        }
    }
    let (Some((_, sender)), Some((read, receiver))) = (info(client), info(server)) else { return Ok(()) };
    for (sender, receiver) in [(&sender, &receiver), (&receiver, &sender)] {
        // The count of acknowledged bytes includes the SYN and the FIN, unlike that of received bytes.
        if sender.bytes_acked > receiver.bytes_received + 2 {
            return Err(format!("acknowledged {}, received {}", sender.bytes_acked, receiver.bytes_received));
        }
    }
    if receiver.bytes_received < read {
        return Err(format!("read {read} of {} that came", receiver.bytes_received));
    }
    Ok(())
}
