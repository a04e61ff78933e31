//! Segments that are sent or received together.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use longhaul_units::Rate;
use longhaul_wire::{CheshireCodec, Codec, Header};

use super::*;

/// One-way delay: a 64th of the round-trip time is 1 ms.
const DELAY: Span = Span::from_millis(32);

/// Streams from one end to the other for ten round-trip times. Returns what both ends permit after two and after ten.
fn patience_of_stream(from: usize, config: Config) -> [[Span; 2]; 2] {
    stream(&mut Net::new(DELAY), from, config)
}

fn stream(net: &mut Net, from: usize, config: Config) -> [[Span; 2]; 2] {
    let (a, b) = net.connect(config);
    let ids = [a, b];
    let start = net.now;
    [2, 10].map(|rounds| {
        net.run_until(Span::from_secs(10), |net| {
            let now = net.now;
            net.ends[from].drive(now, ids[from], |c| while matches!(c.write(&[0; 5000]), Ok(1..)) {});
            net.ends[1 - from].drive(
                now,
                ids[1 - from],
                |c| while c.read(1 << 20).is_ok_and(|data| !data.is_empty()) {},
            );
            now >= start + DELAY * (2 * rounds)
        });
        // Only what is received from here on counts.
        net.ends.iter_mut().for_each(|end| _ = end.take_read_patience());
        let end = net.now + Span::from_millis(20);
        while net.now < end {
            net.step();
        }
        [0, 1].map(|end| net.ends[end].take_read_patience())
    })
}

/// The receiver of data, not that of ACKs, leaves the socket unread, and not before senders have measured the path.
#[test]
fn the_receiver_of_a_steady_stream_may_wait() {
    let milli = Span::from_millis(1);
    let config = || Config { moderation: true, max_cwnd: 100_000, ..Config::default() };
    assert_eq!(patience_of_stream(0, config()), [[Span::ZERO; 2], [Span::ZERO, milli]]);
    assert_eq!(patience_of_stream(1, config()), [[Span::ZERO; 2], [milli, Span::ZERO]]);
    assert_eq!(patience_of_stream(0, Config { moderation: false, ..config() }), [[Span::ZERO; 2]; 2]);
    assert_eq!(patience_of_stream(0, Config { ack_every: 1, ..config() }), [[Span::ZERO; 2]; 2]);
}

/// Streams at 200 Mb/s over a path with a queue that takes `queue` segments at once. Returns the number of bursts with
/// more than ten segments, and of lost segments, in round trips 0 to 6, 6 to 12 and 12 to 20.
fn long_bursts(moderation: bool, queue: u32) -> [(usize, u32); 3] {
    let max_pacing_rate = Rate::from_bits_per_sec(200_000_000);
    let mut net = Net::new(DELAY);
    let (a, b) = net.connect(Config { moderation, max_pacing_rate, send_buffer: 4 << 20, ..Config::default() });
    let start = net.now;
    let bursts = Rc::new(RefCell::new(BTreeMap::new()));
    let (sent_at, counted) = (Rc::clone(&net.sent_at), Rc::clone(&bursts));
    net.lose = Box::new(move |_, from, _| {
        let mut counted = counted.borrow_mut();
        let segments = counted.entry(sent_at.get()).or_insert(0);
        *segments += u32::from(from == 0);
        from == 0 && *segments > queue
    });
    [6, 12, 20].map(|rounds: u64| {
        net.run_until(Span::from_secs(10), |net| {
            let now = net.now;
            net.ends[0].drive(now, a, |c| while matches!(c.write(&[0; 5000]), Ok(1..)) {});
            net.ends[1].drive(now, b, |c| while c.read(1 << 20).is_ok_and(|data| !data.is_empty()) {});
            now >= start + DELAY * (2 * rounds)
        });
        let bursts = std::mem::take(&mut *bursts.borrow_mut());
        let lost = bursts.values().map(|segments: &u32| segments.saturating_sub(queue)).sum();
        (bursts.values().filter(|segments| **segments > 10).count(), lost)
    })
}

/// In 1 ms, a 64th of the round-trip time, 17 segments of 1452 bytes leave. Without moderation, at most five of 1208
/// bytes are sent at once.
#[test]
fn the_sender_of_a_steady_stream_sends_long_bursts() {
    assert_eq!(long_bursts(false, u32::MAX), [(0, 0); 3]);
    let [start, trial, later] = long_bursts(true, u32::MAX).map(|(bursts, _)| bursts);
    assert_eq!((start, trial), (0, 4));
    // Bursts of 16 segments, in 8 round trips of up to 12.8 Mb each.
    assert!((400..=500).contains(&later), "{later}");
}

/// A queue of ten segments drops the ends of the four bursts of 16 under trial.
#[test]
fn a_short_queue_ends_long_bursts() {
    assert_eq!(long_bursts(true, 10), [(0, 0), (4, 24), (0, 0)]);
}

/// Connects another host, 100 us away, to end 1. The connection stays idle.
fn connect_neighbour(net: &mut Net, config: Config) {
    let config = Arc::new(config);
    let tuple = |remote: ([u8; 4], u16)| Tuple { remote: remote.into(), local: IpAddr::from([0, 0, 0, 0]) };
    let (neighbour, end) = (tuple(([10, 0, 0, 3], 3000)), Net::tuple(1));
    let mut host = Endpoint::new(EndpointConfig::new([3; 32]), net.now);
    net.ends[1].listen(Arc::clone(&config));
    host.connect(net.now, end, config).unwrap();
    let mut batch = Batch::default();
    for _ in 0..4 {
        net.now += Span::from_micros(50);
        for is_answer in [false, true] {
            let (from, to, source) =
                if is_answer { (&mut net.ends[1], &mut host, end) } else { (&mut host, &mut net.ends[1], neighbour) };
            while from.poll_transmit(net.now, &mut batch, 64).is_some() {
                let mut meta = DatagramMeta::new(source.remote, batch.headers.len());
                meta.tuple = source;
                to.handle_datagram(net.now, &meta, &batch.headers, None);
            }
            net.now += Span::from_micros(50);
        }
    }
    assert!(net.ends[1].accept().is_some());
}

/// A connection with a short round-trip time would suffer from pauses on behalf of others, even if it is idle now.
#[test]
fn the_shortest_round_trip_time_limits_the_wait() {
    let config = || Config { moderation: true, max_cwnd: 100_000, ..Config::default() };
    let mut net = Net::new(DELAY);
    connect_neighbour(&mut net, config());
    let [_, [_, with_neighbour]] = stream(&mut net, 0, config());
    assert!(with_neighbour < Span::from_micros(10), "{with_neighbour}");
}

/// Arrival times would leave room for one SACK block in an ACK. Those of a receive batch report all blocks that it has
/// changed: the sender would take the others for lost.
#[test]
fn acks_of_a_batch_report_all_changed_blocks() {
    for arrival_times in [false, true] {
        let mut net = Net::new(DELAY);
        let (a, _) = net.connect(Config { arrival_times, ..Config::default() });
        let now = net.now;
        net.ends[0].drive(now, a, |c| c.write(&[0; 20_000]).unwrap());
        // The flight is paced.
        while net.now < now + DELAY / 2 {
            net.step();
        }
        let flight = net.flying.drain(..).filter(|flying| flying.1 == 1).map(|flying| flying.3);
        let flight: Vec<Vec<u8>> = flight.take(7).collect();
        assert_eq!(flight.len(), 7);
        let parse =
            |datagram: &[u8]| CheshireCodec::parse(datagram).map(|(header, at)| (header, datagram.len() - at)).unwrap();
        let first = parse(&flight[0]).0.seq;
        let mut received = BTreeSet::new();
        for (index, datagram) in flight.iter().enumerate() {
            if [0, 2, 5].contains(&index) {
                // It is lost.
                continue;
            }
            let (header, len) = parse(datagram);
            received.extend((0..len as u32).map(|byte| header.seq.wrapping_add(byte).wrapping_sub(first)));
            let mut meta = DatagramMeta::new(Net::tuple(0).remote, datagram.len());
            meta.tuple = Net::tuple(0);
            net.ends[1].handle_datagram(net.now, &meta, datagram, None);
        }
        net.pump();
        let acks: Vec<Header> = net.flying.iter().map(|flying| parse(&flying.3).0).collect();
        let mut reported = BTreeSet::new();
        for block in acks.iter().flat_map(|ack| ack.options.sack.as_slice()) {
            let [left, right] = [block.left, block.right].map(|edge| edge.wrapping_sub(first));
            reported.extend(left..right);
        }
        assert_eq!(reported, received);
        assert_eq!(acks.len(), 1, "the second segment of the second block needs none of its own");
        assert_eq!(acks[0].options.sack.len(), 3);
    }
}
