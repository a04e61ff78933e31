//! RC3 over simulated links: its benefit and its effect on other traffic if routers support priorities, and its cost if
//! they do not.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_link::source::Source;
use longhaul_link::topology::Duplex;
use longhaul_link::{Classes, Discipline, Limit, LinkConfig, Loss, Random};
use longhaul_sim::{Close, Packet, Plan, SessionId, Setup, Sighting, Sim, Tap, TrafficId, full_segments};
use longhaul_tcp::{Config, Info, ProbeInfo};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags};

const MSS: u64 = 1448;
const KB: u64 = 1000;
const MB: u64 = 1000 * KB;
/// IP length of a full packet in bytes.
const PACKET: u64 = 1500;

/// A path of `mbit` Mb/s and `rtt` ms with a queue of one bandwidth-delay product.
#[derive(Clone, Copy, Debug)]
struct Path {
    mbit: u64,
    rtt: u64,
    /// Whether the queue has RC3's five priorities.
    priorities: bool,
    /// Fraction of the link used by cross traffic at normal priority, in percent.
    load: u64,
}

const SLOW: Path = Path { mbit: 20, rtt: 100, priorities: true, load: 0 };
const FAST: Path = Path { mbit: 1000, rtt: 40, priorities: true, load: 0 };

impl Path {
    fn rate(self) -> Rate {
        Rate::from_bits_per_sec(self.mbit * 1_000_000)
    }

    fn rtt(self) -> Span {
        Span::from_millis(self.rtt)
    }

    fn there(self) -> LinkConfig {
        let packets = self.mbit * self.rtt * 125 / PACKET;
        let mut there = LinkConfig::new(self.rate(), self.rtt() / 2).queue(Limit::Packets(packets));
        if self.priorities {
            there.queue.discipline = Discipline::Priority(Classes::rc3());
        }
        there
    }

    /// Returns the lower bound in seconds from the SYN until `bytes` bytes are read: handshake, one-way delay, and
    /// serialisation.
    fn limit(self, bytes: u64) -> f64 {
        let wire = bytes.div_ceil(MSS) * PACKET * 8;
        let share = 1.0 - self.load as f64 / 100.0;
        self.rtt().as_secs_f64() * 1.5 + wire as f64 / (self.mbit as f64 * 1e6 * share)
    }
}

/// Segments that the sender transmits: number per instant and priority, and the highest byte sent.
#[derive(Default)]
struct Leaving {
    at: Time,
    together: [u64; 2],
    most: [u64; 2],
    of_level: [u64; 16],
    isn: u32,
    highest: u64,
}

impl Tap for Leaving {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let Ok((header, offset)) = CheshireCodec::parse(&packet.payload) else { return };
        if sighting != Sighting::Sent(0) {
            return;
        }
        if header.flags.contains(Flags::SYN) {
            self.isn = header.seq;
        }
        let len = packet.payload_len().saturating_sub(offset) as u64;
        if len == 0 {
            return;
        }
        if now != self.at {
            (self.at, self.together) = (now, [0; 2]);
        }
        let low = usize::from(packet.dscp != 0);
        self.together[low] += 1;
        self.most[low] = self.most[low].max(self.together[low]);
        self.of_level[usize::from(packet.dscp & 15)] += 1;
        self.highest = self.highest.max(u64::from(header.seq.wrapping_sub(self.isn)) + len);
    }
}

struct World {
    sim: Sim,
    sender: SessionId,
    receiver: SessionId,
    cross: Option<TrafficId>,
    leaving: Rc<RefCell<Leaving>>,
    bytes: u64,
}

/// Returns `plan` with a stream of zeros that does not end.
fn open_end(plan: Plan) -> Plan {
    let mut plan = plan.zeros();
    plan.close = Close::Never;
    plan
}

impl World {
    fn new(path: Path, there: LinkConfig, congestion: &str, plan: Plan, change: impl Fn(&mut Config)) -> Self {
        let back = LinkConfig::delay(path.rtt() / 2);
        let setup = Setup::pair(3, Duplex { there, back }).configure(|config| {
            full_segments(config);
            config.congestion = longhaul_tests_papers::congestion(congestion);
            config.nagle = false;
            change(config);
        });
        let mut sim = Sim::new(setup);
        let cross = (path.load > 0).then(|| {
            let rate = path.rate().mul_f64(path.load as f64 / 100.0);
            sim.add_traffic(0, 1, Source::poisson(Time::ZERO, rate, 1200, Random::new(5, 9)), Time::MAX)
        });
        let leaving = Rc::new(RefCell::new(Leaving::default()));
        sim.add_tap(Rc::clone(&leaving));
        let bytes = plan.send;
        let mut sink = Plan::sink();
        sink.content = plan.content;
        let (sender, receiver) = sim.open(plan, sink);
        Self { sim, sender, receiver, cross, leaving, bytes }
    }

    fn open(path: Path, congestion: &str, bytes: u64) -> Self {
        Self::new(path, path.there(), congestion, open_end(Plan::bulk(bytes)), |_| {})
    }

    /// Returns the seconds from the SYN until all data is read.
    fn finish(&mut self) -> f64 {
        let (receiver, bytes) = (self.receiver, self.bytes);
        let done = |sim: &Sim| sim.find(receiver).is_some_and(|session| session.read >= bytes);
        assert!(self.sim.run(Span::from_secs(100), done), "it takes longer than a hundred seconds");
        (self.sim.now() - Time::ZERO).as_secs_f64()
    }

    fn info(&self) -> Info {
        let id = self.sim.session(self.sender).id;
        self.sim.host(0).endpoint.connection(id).unwrap().info(self.sim.now())
    }

    fn probes(&self) -> ProbeInfo {
        self.info().probes.unwrap()
    }

    fn until(&mut self, time: Span) {
        let end = Time::ZERO + time;
        self.sim.run_for(end - self.sim.now());
    }

    /// Returns the numbers of packets of cross traffic sent and received.
    fn cross(&self) -> (u64, u64) {
        let traffic = self.sim.traffic(self.cross.unwrap());
        (traffic.sent, traffic.received)
    }
}

/// A transfer of 1 MB takes the handshake, the one-way delay and the serialisation time, plus at most 25 % (80 % with
/// slower pacing), with the full link or with the capacity that 30 % of cross traffic leaves. CUBIC's slow start takes
/// at least 30 % more.
#[test]
fn a_megabyte_takes_the_time_of_the_link() {
    for (path, start, most) in [
        (SLOW, "rc3", 1.25),
        (Path { load: 30, ..SLOW }, "rc3", 1.25),
        (FAST, "rc3(pace=line)", 1.25),
        (Path { load: 30, ..FAST }, "rc3(pace=line)", 1.25),
        (FAST, "rc3", 1.8),
        (Path { load: 30, ..FAST }, "rc3", 1.8),
    ] {
        let mut world = World::open(path, &format!("{start}+cubic"), MB);
        let (took, limit) = (world.finish(), path.limit(MB));
        let info = world.info();
        let without = World::open(path, "cubic", MB).finish();
        println!("{path:?} {start}: {took:.3} s, limit {limit:.3}, cubic {without:.3}; {:?}", info.probes);
        assert!(took <= limit * most, "{path:?} {start}: {took} of {limit}, {info:?}");
        assert!(took * 1.3 < without, "{path:?} {start}: {took} and {without}");
        assert_eq!((info.timeouts, info.spurious_recoveries, info.dsacks), (0, 0, 0), "{info:?}");
    }
}

/// Priorities protect other traffic: its packets have no additional losses, and are delayed by at most the packet in
/// transmission.
#[test]
fn others_keep_what_they_have() {
    for (path, start) in [(SLOW, "rc3+cubic"), (FAST, "rc3(pace=line,levels=4)+cubic"), (SLOW, "rc3(pace=line)+cubic")]
    {
        let path = Path { load: 50, ..path };
        let result = |congestion: &str, bytes: u64| {
            let mut world = World::open(path, congestion, bytes);
            world.until(Span::from_secs(2));
            world.cross()
        };
        let (alone, beside, usual) = (result("cubic", 1), result(start, MB), result("cubic", MB));
        println!("{path:?} {start}: alone {alone:?}, beside {beside:?}, beside cubic {usual:?}");
        let share = beside.1 as f64 / alone.1 as f64;
        assert!((share - 1.0).abs() < 0.01, "{path:?} {start}: {share}");
    }
}

/// NSDI 2014, section 5: 1 Gb/s, 40 ms, 30 % load, five queues, and an initial window of four segments. Flows of 100 kB
/// to 3 MB take less than 30 % of slow start's time after the handshake.
#[test]
fn flows_take_a_fraction_of_what_slow_start_takes() {
    let path = Path { load: 30, ..FAST };
    let handshake = path.rtt().as_secs_f64();
    for bytes in [100 * KB, 300 * KB, MB, 3 * MB] {
        let took = |congestion: &str| World::open(path, congestion, bytes).finish() - handshake;
        let [four, ten] = ["slow-start(iw=4)+cubic", "slow-start(iw=10)+cubic"].map(took);
        let published = took("rc3(pace=line,levels=4)+slow-start(iw=4)+cubic");
        let own = took("rc3+slow-start(iw=10)+cubic");
        let cut = |time: f64, of: f64| 100.0 * (1.0 - time / of);
        println!(
            "{bytes}: iw 4 {four:.3}, iw 10 {ten:.3}, published {published:.3} (-{:.0} %, -{:.0} %), default {own:.3} (-{:.0} %, -{:.0} %)",
            cut(published, four),
            cut(published, ten),
            cut(own, four),
            cut(own, ten),
        );
        assert!(cut(published, four) > 70.0, "{bytes}: {published} of {four}");
    }
}

/// Low-priority segments have the priorities of the paper: 40 segments at the first, 400 at the second, and the rest of
/// 1 MB at the third.
#[test]
fn segments_have_the_priorities_of_their_places() {
    let mut world = World::open(FAST, "rc3(pace=line,levels=4)+slow-start(iw=4)+cubic", MB);
    world.finish();
    let leaving = world.leaving.borrow();
    let segments = MB.div_ceil(MSS);
    let low: u64 = leaving.of_level[1..].iter().sum();
    assert_eq!((leaving.of_level[1], leaving.of_level[5], leaving.of_level[13]), (40, 400, 0));
    assert!(low >= segments - 8 && low <= segments && leaving.of_level[9] == low - 440, "{low} of {segments}");
}

/// NSDI 2014, section 3.2: of 10 MB, 40, 400 and 4000 segments are sent at the first three low priorities, and the rest
/// at the fourth.
#[test]
fn a_large_transfer_reaches_the_last_level() {
    let bytes = 10 * MB;
    let plan = open_end(Plan::bulk(bytes));
    let mut world = World::new(FAST, FAST.there(), "rc3(pace=line,levels=4)+slow-start(iw=4)+cubic", plan, |config| {
        config.send_buffer = 2 * bytes as usize;
        config.recv_buffer = 2 * bytes as usize;
    });
    world.finish();
    let leaving = world.leaving.borrow();
    assert_eq!((leaving.of_level[1], leaving.of_level[5], leaving.of_level[9]), (40, 400, 4000));
    let (segments, low) = (bytes.div_ceil(MSS), leaving.of_level[1..].iter().sum::<u64>());
    assert!(leaving.of_level[13] == low - 4440 && low > segments * 9 / 10, "{low} of {segments}");
}

/// Routers without priorities drop packets of any kind. The transfer takes no more time than without RC3, but causes
/// losses of other traffic.
#[test]
fn a_path_without_priorities_is_survived() {
    for path in [SLOW, FAST].map(|path| Path { priorities: false, load: 30, ..path }) {
        for start in ["rc3+cubic", "rc3(pace=line)+cubic", "cubic"] {
            let plan = Plan::bulk(MB);
            let mut world = World::new(path, path.there(), start, plan, |_| {});
            let took = world.finish();
            let info = world.info();
            let cross = world.cross();
            println!("{path:?} {start}: {took:.3} s, {:?}, {} lost; {cross:?}", info.probes, info.bytes_lost);
            world.until(Span::from_secs(20));
            assert!(world.sim.session(world.receiver).ended_well() && took < 3.0, "{path:?} {start}: {took}");
        }
    }
}

/// With random losses and either kind of loss detection, the content arrives unchanged, byte by byte.
#[test]
fn bytes_are_intact_under_random_loss() {
    for percent in [0.1, 1.0, 5.0] {
        for congestion in
            ["rc3+cubic", "rc3(pace=line,levels=4)+new-reno+rfc6675", "rc3(rate=10)+cubic+speedy-recovery"]
        {
            let there = SLOW.there().loss(Loss::Uniform(percent / 100.0));
            let mut world = World::new(SLOW, there, congestion, Plan::bulk(3 * MB), |_| {});
            let took = world.finish();
            world.until(Span::from_secs(100));
            let session = world.sim.session(world.receiver);
            assert!(session.ended_well(), "{percent} % {congestion}: {session:?}");
            println!("{percent} % {congestion}: {took:.2} s");
        }
    }
}

/// No data is sent beyond the peer's window. Low-priority bursts are limited to 250 us at the pacing rate, and normal
/// bursts are as without RC3.
#[test]
fn bursts_and_windows_are_bounded() {
    for (start, most) in [("rc3(pace=line)", 21), ("rc3(rate=100,pace=line)", 2), ("rc3", 21)] {
        for window in [64 << 10, 500_000, 64 << 20] {
            let plan = open_end(Plan::bulk(2 * MB));
            let sink_window = window;
            let mut world = World::new(SLOW, SLOW.there(), &format!("{start}+cubic"), plan, |config| {
                config.recv_buffer = sink_window;
                config.recv_buffer_max = sink_window;
            });
            world.until(Span::from_millis(140));
            let early = world.leaving.borrow().highest;
            assert!(early <= window as u64 + 1448, "{start}: {early} of {window} in the first round trip");
            world.finish();
            let leaving = world.leaving.borrow();
            assert!(leaving.most[1] <= most && leaving.most[0] <= 10, "{start} {window}: {:?}", leaving.most);
        }
    }
}

/// New data after a pause restarts the low-priority loop.
#[test]
fn batches_after_pauses_are_carried_too() {
    let plan = open_end(Plan::bursts(3 * MB, Span::from_millis(10), Span::from_millis(1500)));
    let mut world =
        World::new(FAST, FAST.there(), "rc3(pace=line)+cubic", plan, |config| config.send_buffer = MB as usize);
    world.finish();
    let probes = world.probes();
    // RC3 carries most of each of the three batches; the window carries the rest.
    assert!(probes.carried_bytes > 3 * MB / 2 && probes.refused == 0, "{probes:?}");
}
