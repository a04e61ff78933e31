//! Settings of one end of a connection, as observed on the wire.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use longhaul_link::{Limit, LinkConfig, Loss};
use longhaul_sim::{Close, Packet, Plan, SessionId, Setup, Sighting, Sim, Tap};
use longhaul_tcp::{Config, Info};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header};

/// Payload in bytes of a 1472-byte datagram with a header of 12 bytes and 12 bytes of timestamps.
const MSS: u32 = 1448;

/// Records every segment that either host sends or receives, in order.
#[derive(Default)]
struct Wire(Vec<Seen>);

struct Seen {
    at: Time,
    sighting: Sighting,
    header: Header,
    len: u32,
    datagram: usize,
}

impl Tap for Wire {
    fn see(&mut self, at: Time, sighting: Sighting, packet: &Packet) {
        let (header, offset) = CheshireCodec::parse(&packet.payload).expect("a whole segment");
        let (len, datagram) = ((packet.payload.len() - offset) as u32 + packet.zeros, packet.payload_len());
        self.0.push(Seen { at, sighting, header, len, datagram });
    }
}

impl Wire {
    fn seen(&self, sighting: Sighting) -> impl Iterator<Item = &Seen> {
        self.0.iter().filter(move |seen| seen.sighting == sighting)
    }

    fn data(&self, sighting: Sighting) -> impl Iterator<Item = &Seen> {
        self.seen(sighting).filter(|seen| seen.len > 0)
    }

    /// Returns the ACKs without data.
    fn acks(&self, sighting: Sighting) -> impl Iterator<Item = &Seen> {
        self.seen(sighting).filter(|seen| seen.len == 0 && seen.header.flags == Flags::ACK)
    }
}

/// Sets up two hosts with `link` in both directions; `change` modifies the settings of the host at node `at` only.
fn setup(link: LinkConfig, at: usize, change: impl Fn(&mut Config)) -> Setup {
    let mut setup = Setup::symmetric(1, link).configure(|config| {
        (config.base_plpmtu, config.max_plpmtu) = (1472, 1472);
        (config.recv_buffer, config.recv_buffer_max) = (1 << 20, 1 << 20);
    });
    change(Arc::make_mut(&mut setup.hosts[at].config));
    setup
}

fn watched(setup: Setup) -> (Sim, Rc<RefCell<Wire>>) {
    let mut sim = Sim::new(setup);
    let wire = Rc::new(RefCell::new(Wire::default()));
    sim.add_tap(Rc::clone(&wire));
    (sim, wire)
}

fn info(sim: &Sim, id: SessionId) -> Info {
    let (session, host) = (sim.session(id), sim.host(id.host));
    host.endpoint.connection(session.id).expect("it was not released").info(host.clock(sim.now()))
}

fn finish(sim: &mut Sim, (client, server): (SessionId, SessionId)) {
    assert!(sim.run(Span::from_secs(60), Sim::all_done));
    for session in [client, server].map(|id| sim.session(id)) {
        assert!(session.ended_well() && session.intact);
    }
}

/// RFC 2018, section 2: SACK requires both ends. Without it, recovery follows RFC 5681, section 3.2, and RFC 6582:
/// the third duplicate ACK indicates the first hole, each partial ACK the next one, and nothing else is
/// retransmitted.
#[test]
fn without_sack_at_one_end_duplicate_acks_drive_recovery() {
    const BYTES: u64 = 600_000;
    let lost = [60, 150, 152, 155, 300];
    for (without, blocks_seen) in [(Some(0), false), (Some(1), false), (None, true)] {
        let rate = Rate::from_bits_per_sec(20_000_000);
        let link = LinkConfig::new(rate, Span::from_millis(10)).queue(Limit::Packets(200));
        let mut setup = setup(link, without.unwrap_or(0), |config| config.sack = without.is_none());
        setup.link_mut(0).loss = Loss::List(lost.to_vec());
        setup = setup.configure(|config| config.congestion = "new-reno".parse().expect("a registered name"));
        let (mut sim, wire) = watched(setup);
        let ids = sim.open(Plan::bulk(BYTES), Plan::sink());
        assert!(sim.run(Span::from_secs(60), |sim| sim.find(ids.1).is_some_and(|session| session.read == BYTES)));
        let info = info(&sim, ids.0);
        finish(&mut sim, ids);
        let wire = wire.borrow();
        assert_eq!(wire.0.iter().any(|seen| !seen.header.options.sack.is_empty()), blocks_seen, "{without:?}");
        // Each loss is retransmitted once, in three recovery episodes, none of which starts with a timeout.
        assert_eq!((info.segments_retransmitted, info.recoveries, info.timeouts), (5, 3, 0), "{without:?}");
        if without.is_some() {
            assert_eq!(duplicates_before_each_recovery(&wire), [3, 3, 3]);
        }
    }
}

/// Returns the number of duplicate ACKs that host 0 had received for each hole when it filled the hole. Holes indicated
/// by a partial ACK are omitted.
fn duplicates_before_each_recovery(wire: &Wire) -> Vec<usize> {
    let (mut highest, mut last_ack, mut count, mut counts) = (None::<u32>, None, 0, Vec::new());
    let mut recover = None::<u32>;
    for seen in &wire.0 {
        match seen.sighting {
            Sighting::Received(0) if Some(seen.header.ack) == last_ack => count += 1,
            Sighting::Received(0) => (last_ack, count) = (Some(seen.header.ack), 0),
            Sighting::Sent(0) if seen.len > 0 => {
                let (seq, end) = (seen.header.seq, seen.header.seq.wrapping_add(seen.len));
                let is_new = highest.is_none_or(|highest| (end.wrapping_sub(highest) as i32) > 0);
                if !is_new && recover.is_none_or(|recover| (seq.wrapping_sub(recover) as i32) >= 0) {
                    counts.push(count);
                    recover = highest;
                }
                if is_new {
                    highest = Some(end);
                }
            }
            _ => {}
        }
    }
    counts
}

/// The MSS announced by one end limits the other (RFC 9293, section 3.7.1), and each end sends what its own path
/// supports (RFC 8899, section 5.1.2).
#[test]
fn each_end_has_a_segment_size_of_its_own() {
    for small in [0, 1] {
        let (mut sim, wire) = watched(setup(LinkConfig::delay(Span::from_millis(5)), small, |config| {
            (config.base_plpmtu, config.max_plpmtu) = (1000, 1000);
        }));
        let ids = sim.open(Plan::bulk(100_000), Plan::bulk(100_000));
        finish(&mut sim, ids);
        let wire = wire.borrow();
        let announced = [0, 1].map(|host| {
            let syn = wire.seen(Sighting::Sent(host)).find(|seen| seen.header.flags.contains(Flags::SYN));
            syn.and_then(|seen| seen.header.options.mss)
        });
        assert!(announced[small] < announced[1 - small], "{announced:?}");
        let largest = [0, 1].map(|host| wire.seen(Sighting::Sent(host)).map(|seen| seen.datagram).max());
        assert_eq!(largest[small], Some(1000), "{largest:?}");
        let most = announced[small].map(|mss| usize::from(mss) + 12);
        assert!(largest[1 - small] <= most && largest[1 - small] > Some(900), "{largest:?} {announced:?}");
    }
}

/// The flight never exceeds the window announced by the other end (RFC 9293, section 3.8.6).
#[test]
fn each_end_has_a_window_of_its_own() {
    const WINDOW: u32 = 20_480;
    for narrow in [0, 1] {
        let (mut sim, wire) = watched(setup(LinkConfig::delay(Span::from_millis(20)), narrow, |config| {
            (config.recv_buffer, config.recv_buffer_max) = (WINDOW as usize, WINDOW as usize);
        }));
        let ids = sim.open(Plan::bulk(1_000_000), Plan::bulk(1_000_000));
        finish(&mut sim, ids);
        let most = [0, 1].map(|host| most_in_flight(&wire.borrow(), host));
        assert!(most[narrow] > 20 * WINDOW / 2, "{most:?}");
        assert!((WINDOW - MSS..=WINDOW).contains(&most[1 - narrow]), "{most:?}");
    }
}

fn most_in_flight(wire: &Wire, host: usize) -> u32 {
    let (mut acked, mut most) = (None::<u32>, 0);
    for seen in &wire.0 {
        if seen.sighting == Sighting::Received(host) {
            acked = Some(seen.header.ack);
        } else if let (true, Some(acked)) = (seen.sighting == Sighting::Sent(host) && seen.len > 0, acked) {
            most = most.max(seen.header.seq.wrapping_add(seen.len).wrapping_sub(acked));
        }
    }
    most
}

/// Sends `bytes` from one host and only ACKs in return, and returns the segments seen.
fn acks_of(setup: Setup, sender: usize, bytes: u64) -> Rc<RefCell<Wire>> {
    // The window of a SYN is not scaled. A buffer that fits into an unscaled window has no larger window to announce at
    // the first read.
    let (mut sim, wire) = watched(setup.configure(|config| {
        (config.recv_buffer, config.recv_buffer_max) = (60_000, 60_000);
    }));
    let [mut talks, mut listens] = [Plan::bulk(bytes), Plan::sink()];
    (talks.close, listens.close) = (Close::Never, Close::Never);
    let (client, server) = if sender == 0 { (talks, listens) } else { (listens, talks) };
    sim.open(client, server);
    sim.run_for(Span::from_secs(20));
    wire
}

/// RFC 9293, section 3.8.6.3: an ACK of less than two segments is sent when the delay is over, exact to the nanosecond.
#[test]
fn each_end_delays_its_acks_as_it_likes() {
    for (slow, sender) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let setup = setup(LinkConfig::delay(Span::from_millis(20)), slow, |config| {
            config.ack_delay = Span::from_millis(170);
        });
        let wire = acks_of(setup, sender, 100);
        let wire = wire.borrow();
        let receiver = 1 - sender;
        let came = wire.data(Sighting::Received(receiver)).next().expect("the data").at;
        let acked = wire.acks(Sighting::Sent(receiver)).find(|seen| seen.at >= came).expect("its ACK").at;
        // The default is 40 ms.
        let expected = Span::from_millis(if slow == receiver { 170 } else { 40 });
        assert_eq!(acked - came, expected, "slow is {slow}, {sender} sends");
    }
}

/// RFC 5681, section 4.2: every second full-sized segment is acknowledged, or every nth if the host is configured so;
/// the setting of one host does not affect the other.
#[test]
fn each_end_acknowledges_every_nth_segment_as_it_likes() {
    for every in [1, 2, 3, 4, 8] {
        for (special, sender) in [(0, 1), (1, 0), (0, 0)] {
            let link = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), Span::from_millis(5));
            let setup = setup(link, special, |config| config.ack_every = every).configure(|config| {
                config.ack_delay = Span::from_millis(400);
                config.max_cwnd = 60_000;
            });
            let receiver = 1 - sender;
            let expected = if special == receiver { u32::from(every) } else { 2 };
            // The number of segments is divisible by all tested frequencies.
            let wire = acks_of(setup, sender, 480 * u64::from(MSS));
            let wire = wire.borrow();
            let first = wire.data(Sighting::Sent(sender)).next().expect("data").header.seq;
            assert!(wire.data(Sighting::Sent(sender)).all(|seen| seen.len == MSS));
            let numbers = wire.acks(Sighting::Sent(receiver)).map(|seen| seen.header.ack.wrapping_sub(first) / MSS);
            let numbers: Vec<u32> = numbers.skip_while(|number| *number == 0).collect();
            let wanted: Vec<u32> = (1..=480 / expected).map(|n| n * expected).collect();
            assert_eq!(numbers, wanted, "every {every} at {special}, {sender} sends");
        }
    }
}
