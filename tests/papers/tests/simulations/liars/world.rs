//! A path whose receiver can lie: its ACKs pass through a [`Lie`] before they reach the sender.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use longhaul_link::source::Source;
use longhaul_link::topology::{Duplex, dumbbell};
use longhaul_link::{Discipline, Hook, Limit, LinkConfig, Loss, QueueConfig, Random, View};
use longhaul_sim::{Packet, Parcel, Plan, Setup, Sim};
use longhaul_tcp::Config;
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header};

/// Data segment that reached the receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    /// First sequence number.
    pub(crate) seq: u32,
    /// Sequence number after the last byte.
    pub(crate) end: u32,
    pub(crate) at: Time,
    /// TSval of the segment.
    pub(crate) value: u32,
    /// Whether a later segment arrived before this one.
    pub(crate) late: bool,
}

/// Manipulation of the ACKs that a receiver sends.
pub(crate) trait Lie {
    /// Called for each data segment that arrives.
    fn hear(&mut self, data: &Data) {
        let _ = data;
    }

    /// Returns the ACKs to send in place of `ack`, in order, each with its delay.
    fn tell(&mut self, now: Time, ack: Header) -> Vec<(Span, Header)>;
}

/// Does not manipulate ACKs.
pub(crate) struct Honest;

impl Lie for Honest {
    fn tell(&mut self, _now: Time, ack: Header) -> Vec<(Span, Header)> {
        vec![(Span::ZERO, ack)]
    }
}

/// Passes arriving data segments to the [`Lie`].
struct Ear {
    lie: Rc<RefCell<Box<dyn Lie>>>,
    highest: Option<u32>,
}

impl Hook<Parcel> for Ear {
    fn offered(&mut self, now: Time, packet: &mut longhaul_link::Packet<Parcel>, _view: &View) {
        let Some(packet) = &packet.payload else { return };
        let Ok((header, offset)) = CheshireCodec::parse(&packet.payload) else { return };
        let len = (packet.payload_len() - offset) as u32;
        let Some(stamp) = header.options.timestamps.filter(|_| len > 0) else { return };
        let end = header.seq.wrapping_add(len);
        let highest = self.highest.unwrap_or(header.seq);
        let late = header.seq.wrapping_sub(highest).cast_signed() < 0;
        if !late {
            self.highest = Some(end);
        }
        self.lie.borrow_mut().hear(&Data { seq: header.seq, end, at: now, value: stamp.value, late });
    }
}

/// Removes the receiver's packets from the link and collects them.
struct Mouth(Rc<RefCell<Vec<Packet>>>);

impl Hook<Parcel> for Mouth {
    fn offered(&mut self, _now: Time, packet: &mut longhaul_link::Packet<Parcel>, _view: &View) {
        self.0.borrow_mut().extend(packet.payload.take().map(|packet| *packet));
    }
}

/// Behaviour of a queue before it is full.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aqm {
    /// No marks or drops.
    None,
    /// Marks ECN-capable packets while this many bandwidth-delay products are queued.
    Above(f64),
    /// PIE, which marks instead of dropping up to a probability of a tenth, and drops above it (RFC 8033, section 5.1).
    Pie,
}

/// Bottleneck, flows and measured period of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) mbit: u64,
    pub(crate) rtt: u64,
    /// Queue in bandwidth-delay products.
    pub(crate) queue: f64,
    pub(crate) loss: f64,
    /// Controller of a competing honest flow, if any.
    pub(crate) beside: Option<&'static str>,
    /// Seconds from the start of the run to the start of the measurement.
    pub(crate) warm: u64,
    /// Seconds of the measurement.
    pub(crate) seconds: u64,
    /// Whether arrival times are reported, and flipped pairs sent.
    pub(crate) times: bool,
    /// Behaviour of the queue before it is full.
    pub(crate) aqm: Aqm,
    /// Whether the liar's sender requests ECN; the competing flow always does.
    pub(crate) ecn: bool,
    /// Maximum random delay of each packet to the bottleneck, and of each ACK, in multiples of the transmission time
    /// of a full packet on the bottleneck.
    pub(crate) jitter: u64,
    /// Whether the receiver acknowledges each segment.
    pub(crate) each: bool,
}

/// Results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// Goodput of the lying receiver in Mb/s.
    pub(crate) goodput: f64,
    /// Goodput of the competing flow in Mb/s.
    pub(crate) beside: f64,
    /// Fraction of the sent data that is retransmissions.
    pub(crate) resent: f64,
    /// Number of window reductions that the sender undid.
    pub(crate) undone: u64,
    /// Capacity in Mb/s that the sender estimated from pairs.
    pub(crate) capacity: Option<f64>,
    /// Number of segments that the sender marked to test the receiver, and number of these whose mark was not echoed.
    pub(crate) echoes: (u64, u64),
}

fn config(congestion: &str, path: &Path, ecn: bool) -> Arc<Config> {
    let mut config = Config::default();
    (config.base_plpmtu, config.max_plpmtu) = (1472, 1472);
    (config.recv_buffer, config.recv_buffer_max, config.send_buffer) = (16 << 20, 16 << 20, 16 << 20);
    (config.arrival_times, config.probe_pairs, config.ecn) = (path.times, path.times, ecn);
    if path.each {
        config.ack_every = 1;
    }
    config.congestion = longhaul_tests_papers::congestion(congestion);
    Arc::new(config)
}

impl Path {
    fn bottleneck(&self) -> LinkConfig {
        let bdp = (self.mbit * self.rtt * 125) as f64;
        let link = LinkConfig::new(Rate::from_bits_per_sec(self.mbit * 1_000_000), self.one_way());
        let limit = Limit::Bytes((self.queue * bdp) as u64);
        let link = link.queue(match self.aqm {
            Aqm::None => limit.into(),
            Aqm::Above(part) => {
                QueueConfig::from(Discipline::DropTail { mark_above: Some((part * bdp) as u64) }).limit(limit)
            }
            Aqm::Pie => QueueConfig::from(Discipline::Pie(Default::default())).limit(limit).ecn(),
        });
        if self.loss > 0.0 { link.loss(Loss::Uniform(self.loss)) } else { link }
    }

    fn one_way(&self) -> Span {
        Span::from_micros(self.rtt * 500)
    }

    /// Adds Poisson cross traffic of a twentieth of the bottleneck. Losses of perfectly regular flows depend on their
    /// phase (Floyd and Jacobson, On traffic phase effects in packet-switched gateways, 1992), which any change of
    /// timing affects.
    fn add_cross_traffic(&self, sim: &mut Sim, from: usize, to: usize, seed: u64) {
        let rate = Rate::from_bits_per_sec(self.mbit * 50_000);
        let source = Source::poisson(Time::ZERO, rate, 500, Random::new(seed, 99));
        sim.add_traffic(from, to, source, Time::ZERO + Span::from_secs(self.warm + self.seconds));
    }

    /// Runs an endless transfer with `congestion` to a receiver with `lie`.
    pub(crate) fn run(&self, congestion: &str, seed: u64, lie: Box<dyn Lie>) -> Outcome {
        let flows = 1 + usize::from(self.beside.is_some());
        // Apart from the tested hosts, a pair of hosts exchanges cross traffic.
        let noise = Span::from_nanos(self.jitter * 12_000_000 / self.mbit);
        let there = LinkConfig { jitter: noise, ..LinkConfig::delay(Span::ZERO) };
        let access = || (0..=flows).map(|_| Duplex { there: there.clone(), ..Duplex::delay(Span::ZERO) });
        let back = LinkConfig::delay(self.one_way());
        let net = dumbbell(Duplex { there: self.bottleneck(), back }, access(), access());
        let (edges, liar) = (net.topology.edges(), net.right[0]);
        let edge = |from_liar: bool| edges.iter().position(|e| if from_liar { e.from == liar } else { e.to == liar });
        let (up, down) = (edge(true).expect("a link") as u32, edge(false).expect("a link") as u32);
        let mut setup = Setup::new(seed, net.topology);
        let ends = net.left.iter().zip(&net.right).take(flows);
        let senders = [Some((congestion, self.ecn)), self.beside.map(|beside| (beside, true))];
        for ((left, right), (congestion, ecn)) in ends.clone().zip(senders.into_iter().flatten()) {
            for host in [left, right] {
                setup.hosts[*host as usize].config = config(congestion, self, ecn);
            }
        }
        let mut sim = Sim::new(setup);
        let (lie, said) = (Rc::new(RefCell::new(lie)), Rc::new(RefCell::new(Vec::new())));
        sim.set_hook(down, Ear { lie: Rc::clone(&lie), highest: None });
        sim.set_hook(up, Mouth(Rc::clone(&said)));
        let mut sessions = Vec::new();
        for (left, right) in ends {
            let plans = (Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
            // Flows start at different times, so that they are not synchronised.
            let at = Time::ZERO + Span::from_millis(37 * (seed % 16) * u64::from(!sessions.is_empty()));
            sessions.push(sim.open_at(at, *left as usize, *right as usize, plans.0, plans.1));
        }
        if self.beside.is_some() || self.times {
            self.add_cross_traffic(&mut sim, net.left[flows] as usize, net.right[flows] as usize, seed);
        }
        let sender = net.left[0] as usize;
        let (liar_sends, liar_reads) = sessions[0];
        let read = |sim: &Sim| {
            let of = |reader| sim.find(reader).map_or(0, |session| session.read);
            (of(liar_reads), sessions.get(1).map_or(0, |(_, reader)| of(*reader)))
        };
        let (mut noises, mut last) = (Random::new(seed, 98), Time::ZERO);
        let mut warm = (0, 0);
        for (until, marks) in [(self.warm, true), (self.warm + self.seconds, false)] {
            let end = Time::ZERO + Span::from_secs(until);
            while sim.now() < end && sim.step().is_some() {
                let packets: Vec<Packet> = said.borrow_mut().drain(..).collect();
                for packet in packets {
                    for (late, packet) in tell(&lie, sim.now(), packet) {
                        // Like the jitter of a link, the random delay does not reorder packets.
                        let noise = if noise.is_zero() { Span::ZERO } else { noises.span(noise) };
                        last = if self.jitter == 0 { sim.now() + late } else { last.max(sim.now() + late + noise) };
                        sim.inject(self.one_way() + last.since(sim.now()), sender, packet);
                    }
                }
            }
            if marks {
                warm = read(&sim);
            }
        }
        let all = read(&sim);
        let goodput = |read: u64| read as f64 * 8e-6 / self.seconds as f64;
        let host = sim.host(sender);
        let info = host.endpoint.connection(sim.session(liar_sends).id).map(|c| c.info(sim.now())).expect("open");
        Outcome {
            goodput: goodput(all.0 - warm.0),
            beside: goodput(all.1 - warm.1),
            resent: info.bytes_retransmitted as f64 / info.bytes_sent.max(1) as f64,
            undone: info.spurious_recoveries,
            capacity: info.pairs.and_then(|pairs| pairs.capacity).map(|rate| rate.as_bits_per_sec() as f64 * 1e-6),
            echoes: (info.echoes_asked, info.echoes_missing),
        }
    }
}

/// Returns the packets to send in place of `packet`.
fn tell(lie: &RefCell<Box<dyn Lie>>, now: Time, packet: Packet) -> Vec<(Span, Packet)> {
    let parsed = CheshireCodec::parse(&packet.payload).ok();
    let Some((ack, _)) = parsed.filter(|(header, _)| !header.flags.intersects(Flags::SYN | Flags::FIN)) else {
        return vec![(Span::ZERO, packet)];
    };
    let told = lie.borrow_mut().tell(now, ack);
    let packets = told.into_iter().map(|(late, mut header)| {
        header.fit();
        let mut bytes = [0; 64];
        let len = CheshireCodec::emit(&header, &mut bytes).expect("it fits");
        (late, Packet { payload: bytes[..len].to_vec(), ..packet.clone() })
    });
    packets.collect()
}
