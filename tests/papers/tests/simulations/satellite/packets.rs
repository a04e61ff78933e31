//! The paper's claims packet by packet: SW-3 (start-up), SW-4 and SW-5 (recovery and the window expanding period).

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig, Loss};
use longhaul_sim::{Packet, Plan, SessionId, Setup, Sighting, Sim, Tap};
use longhaul_tcp::Info;
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::{CheshireCodec, Codec};
use longhaul_zoo::unpaced;

use super::world::{RWND, Router, SEGMENT, Scheme, info};

const RTT: Span = Span::from_millis(550);

/// Packet with data that the sender transmitted.
#[derive(Clone, Copy, Debug)]
struct Left {
    at: Time,
    seq: u32,
    dscp: u8,
    ecn: u8,
    again: bool,
}

#[derive(Default)]
struct Wire {
    seen: HashSet<u32>,
    left: Vec<Left>,
}

impl Tap for Wire {
    fn see(&mut self, at: Time, sighting: Sighting, packet: &Packet) {
        if sighting != Sighting::Sent(0) || (packet.payload_len() as u64) < SEGMENT {
            return;
        }
        let (header, _) = CheshireCodec::parse(&packet.payload).unwrap();
        let again = !self.seen.insert(header.seq);
        self.left.push(Left { at, seq: header.seq, dscp: packet.dscp, ecn: packet.ecn.bits(), again });
    }
}

struct World {
    sim: Sim,
    sender: SessionId,
    wire: Rc<RefCell<Wire>>,
}

/// Starts a single flow without pacing over the satellite link, which drops the packets with the numbers `lost`. The
/// receive window is `rwnd` segments.
fn world(scheme: Scheme, lost: Vec<u64>, ecn: bool, rwnd: u64) -> World {
    let back = LinkConfig::delay(RTT / 2);
    let mut there = LinkConfig::new(Rate::from_bits_per_sec(10_000_000), RTT / 2).queue(Limit::Packets(50));
    there.queue.discipline = Router::Priority.discipline();
    there.loss = Loss::List(lost);
    let mut setup = Setup::pair(1, Duplex { there, back });
    let mut config = scheme.config();
    config.ecn = ecn;
    let window = (rwnd * SEGMENT) as usize;
    (config.recv_buffer, config.recv_buffer_max) = (window, window);
    config.congestion = unpaced(config.congestion);
    for host in &mut setup.hosts {
        host.config = Arc::new(config.clone());
    }
    let mut sim = Sim::new(setup);
    let wire = Rc::new(RefCell::new(Wire::default()));
    sim.add_tap(Rc::clone(&wire));
    let (sender, _) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    World { sim, sender, wire }
}

impl World {
    fn until(&mut self, round_trips: f64) -> Info {
        let end = Time::ZERO + RTT.mul_f64(round_trips);
        self.sim.run_for(end - self.sim.now());
        info(&self.sim, self.sender)
    }

    /// Runs until `done` holds, and returns the sender's state.
    fn find(&mut self, what: &str, done: impl Fn(&Info) -> bool) -> Info {
        loop {
            let info = info(&self.sim, self.sender);
            if done(&info) {
                return info;
            }
            assert!(self.sim.now() < Time::ZERO + RTT * 40, "{what} never came: {info:?}");
            self.sim.step();
        }
    }

    /// Returns the data and the probes sent from `from` on.
    fn left(&self, from: Time) -> (Vec<Left>, Vec<Left>) {
        self.wire.borrow().left.iter().filter(|left| left.at >= from).partition(|left| left.dscp == 0)
    }
}

const SCHEMES: [Scheme; 4] = [Scheme::Peach, Scheme::PeachPlus, Scheme::SwiftPaper, Scheme::Swift];

/// SW-3: two round trips after the handshake, the window is 64 segments, which takes slow start from one segment six
/// round trips more. Resolution 1: until then, copies of the only existing segment are sent. Resolution 2: copies are
/// spaced by 1/64 of the handshake's RTT. If the receive window is below 64 segments, the window opens to that size,
/// and the spacing of the copies increases accordingly.
#[test]
fn sw3_r01_r02_speedy_start_opens_the_window_in_two_round_trips() {
    for (scheme, rwnd, goal) in SCHEMES.into_iter().flat_map(|scheme| [(scheme, 64, 64), (scheme, 40, 40)]) {
        let mut world = world(scheme, Vec::new(), true, rwnd);
        let opened = world.until(3.05);
        assert_eq!(opened.cwnd.0, goal * SEGMENT, "{scheme:?}");
        let (data, probes) = world.left(Time::ZERO);
        assert_eq!(probes.len() as u64, goal - 1, "{scheme:?}");
        assert!(probes.iter().all(|probe| probe.seq == data[0].seq && probe.again), "{scheme:?}");
        assert!(probes.iter().all(|probe| (probe.dscp, probe.ecn) == (1, 0)), "LE, and not ECN-capable");
        assert!(data.iter().all(|data| !data.again && data.ecn == 2), "{scheme:?}");
        let tau = RTT / goal;
        for (nth, probe) in (1..).zip(&probes) {
            let late = probe.at - (data[0].at + tau * nth);
            assert!(late < Span::from_millis(1), "{scheme:?}: the {nth}th is {late} late");
        }
        assert!(data[1].at >= data[0].at + RTT && probes.last().unwrap().at < data[0].at + RTT, "{scheme:?}");
    }
    let slow = world(Scheme::Sack, Vec::new(), true, RWND).until(3.05);
    assert_eq!(slow.cwnd.0, 4 * SEGMENT);
    let mut slow = world(Scheme::Sack, Vec::new(), true, RWND);
    assert!(slow.until(6.9).cwnd.0 < RWND * SEGMENT && slow.until(8.0).cwnd.0 >= RWND * SEGMENT);
}

/// Recovery from the loss of one segment in a window of 64: time and state at the start of recovery, at its end, and at
/// the end of the window expansion. The receive window is larger than 64 segments, because otherwise no new data could
/// be sent during recovery.
struct Episode {
    world: World,
    entered: (Time, Info),
    left: (Time, Info),
    expanded: (Time, Info),
}

fn episode(scheme: Scheme) -> Episode {
    episode_of(scheme, vec![300])
}

fn episode_of(scheme: Scheme, lost: Vec<u64>) -> Episode {
    let mut world = world(scheme, lost, false, 4 * RWND);
    let entered = world.find("recovery", |info| info.phase == "recovery");
    let begun = world.sim.now();
    let left = world.find("its end", |info| info.phase != "recovery");
    let ended = world.sim.now();
    let expanded = world.find("the period's end", |info| info.phase == "congestion-avoidance");
    let over = world.sim.now();
    Episode { world, entered: (begun, entered), left: (ended, left), expanded: (over, expanded) }
}

/// SW-5, resolution 16: recovery sends half a window of data and a full window of probes. Probes are copies of one
/// segment in TCP-Peach, and of several in the other schemes (resolution 1). No probe is sent after the ACK that ends
/// recovery (resolution 24), and recovery takes one round trip.
#[test]
fn sw5_recovery_injects_half_a_window_of_data_and_one_of_probes() {
    for scheme in SCHEMES {
        let Episode { world, entered, left, .. } = episode(scheme);
        let (data, probes) = world.left(entered.0);
        let inside = |left_at: &&Left| left_at.at < left.0;
        let (data, probes) = (data.iter().filter(inside).count(), probes);
        assert!(probes.iter().all(|probe| probe.at < left.0), "{scheme:?}");
        let before = (entered.1.cwnd.0 * 2 / SEGMENT) as usize;
        println!("{scheme:?}: of {before} segments {data} of data and {} probes", probes.len());
        assert!((before - 1..=before + 1).contains(&probes.len()), "{scheme:?}: {} probes", probes.len());
        assert!((before / 2 - 4..=before / 2 + 2).contains(&data), "{scheme:?}: {data} of data");
        let took = left.0 - entered.0;
        assert!((RTT..RTT + RTT / 8).contains(&took), "{scheme:?}: {took}");
        let copied: HashSet<_> = probes.iter().map(|probe| probe.seq).collect();
        // TCP-Peach copies the last segment sent, which is the same until the window allows another one.
        assert_eq!(copied.len() > 10, scheme != Scheme::Peach, "{scheme:?}: {} different", copied.len());
    }
}

/// Resolution 23: three segments of a window are lost, which causes two partial ACKs. They acknowledge only part of the
/// data sent before recovery, so they do not end it: there is a single recovery, which ends when all this data is
/// acknowledged. The first gap is retransmitted at once, and the others when the halved window allows it: half a round
/// trip later, or earlier after a probe.
#[test]
fn r23_partial_acks_do_not_end_recovery() {
    for scheme in SCHEMES {
        let Episode { mut world, entered, left, expanded } = episode_of(scheme, vec![300, 305, 310]);
        let (begun, known) = &entered;
        let point = known.bytes_sent - known.bytes_retransmitted;
        assert!(known.bytes_acked + 11 * SEGMENT < point, "{scheme:?}: {known:?}");
        assert_eq!((left.1.bytes_acked, left.1.phase), (point, "window-expanding"), "{scheme:?}");
        assert!((RTT..RTT * 13 / 8).contains(&(left.0 - *begun)), "{scheme:?}: {}", left.0 - *begun);
        assert!((RTT * 7 / 8..RTT * 9 / 8).contains(&(expanded.0 - left.0)), "{scheme:?}: {}", expanded.0 - left.0);
        let later = world.until(40.0);
        let Info { recoveries, timeouts, segments_retransmitted, .. } = later;
        assert_eq!((recoveries, timeouts, segments_retransmitted <= 3), (1, 0, true), "{scheme:?}: {later:?}");
    }
}

/// SW-4: the window expands for one round trip after recovery. The first half of the answers to probes is ignored, and
/// the second half restores TCP-Peach's window. TCP-Swift also adds one segment per ACK of data. Its gated variant does
/// so only from the second half on and up to the former window; the published variant does so from the first answer on
/// and up to the peer's window.
#[test]
fn sw4_the_window_expands_for_a_round_trip() {
    for scheme in SCHEMES {
        let Episode { mut world, entered, left, expanded } = episode(scheme);
        let before = entered.1.cwnd.0 * 2 / SEGMENT;
        assert!((60..=70).contains(&before), "{scheme:?}: {before}");
        assert_eq!(left.1.cwnd, entered.1.cwnd, "{scheme:?}: {:?}", left.1.phase);
        let took = expanded.0 - left.0;
        assert!((RTT - RTT / 8..RTT + RTT / 8).contains(&took), "{scheme:?}: {took}");
        let after = expanded.1.cwnd.0 / SEGMENT;
        println!("{scheme:?}: {before} -> {} -> {after} segments, {took}", left.1.cwnd.0 / SEGMENT);
        if scheme == Scheme::SwiftPaper {
            assert!((before * 14 / 10..before * 16 / 10).contains(&after), "half as large again: {before} -> {after}");
            continue;
        }
        assert!((before - 2..=before).contains(&after), "{scheme:?}: {before} -> {after}");
        let later = info(&world.sim, world.sender);
        assert_eq!((later.recoveries, later.spurious_recoveries, later.timeouts), (1, 0, 0), "{scheme:?}");
        let probes = later.probes.unwrap();
        assert_eq!((probes.lost, probes.refused, probes.sent), (0, 0, probes.acked), "{scheme:?}");
        assert!(world.until(40.0).recoveries == 1);
    }
}
