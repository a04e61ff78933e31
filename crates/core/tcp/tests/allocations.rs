//! Counts the allocations of the protocol engine: a SYN of an unknown peer must leave no memory behind, and a
//! connection in the steady state must not allocate for any packet.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use allocation_counter::measure;
use bytes::Bytes;
use longhaul_cc::registry::known;
use longhaul_tcp::{Batch, Config, ConnId, Connection, DatagramMeta, Endpoint, EndpointConfig, Info, Tuple};
use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header, Timestamps};

const NOW: Time = Time::from_nanos(1_000_000_000);

fn host(number: u32, port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + number), port))
}

/// Delivers a datagram from `from` to `endpoint`.
fn deliver(endpoint: &mut Endpoint, now: Time, from: SocketAddr, datagram: &[u8]) {
    endpoint.handle_datagram(now, &DatagramMeta::new(from, datagram.len()), datagram, None);
}

fn syn(seq: u32) -> ([u8; 64], usize) {
    let mut header = Header { flags: Flags::SYN, seq, window: 65_535, ..Header::default() };
    header.options.mss = Some(1460);
    header.options.sack_permitted = true;
    header.options.window_scale = Some(10);
    header.options.timestamps = Some(Timestamps { value: 1, echo: 0 });
    let mut datagram = [0; 64];
    let len = CheshireCodec::emit(&header, &mut datagram).unwrap();
    (datagram, len)
}

/// Delivers `count` SYNs, each from a different address, and takes the answers; returns their number.
fn flood(endpoint: &mut Endpoint, batch: &mut Batch, first: u32, count: u32) -> u32 {
    let mut answers = 0;
    for number in first..first + count {
        let now = NOW + Span::from_micros(u64::from(number));
        let (datagram, len) = syn(number.wrapping_mul(0x9e37_79b9));
        deliver(endpoint, now, host(number, 1024 + (number % 50_000) as u16), &datagram[..len]);
        while endpoint.poll_transmit(now, batch, 64).is_some() {
            answers += 1;
        }
        while endpoint.poll_event().is_some() {}
    }
    answers
}

/// Beyond the backlog, SYNs are answered with SYN cookies (RFC 4987, section 3.6) and leave no memory behind.
#[test]
fn a_flood_of_syns_keeps_no_memory() {
    const BACKLOG: u32 = 128;
    const FLOOD: u32 = 100_000;
    for always in [true, false] {
        let mut config = EndpointConfig::new([7; 32]);
        config.backlog = BACKLOG as usize;
        config.always_cookies = always;
        let mut endpoint = Endpoint::new(config, NOW);
        endpoint.listen(Arc::new(Config::default()));
        let mut batch = Batch::default();
        // Fill the backlog, and let reused buffers reach their final size.
        let opening = 2 * BACKLOG;
        assert_eq!(flood(&mut endpoint, &mut batch, 0, opening), opening);
        let connections = endpoint.len();
        let flooded = measure(|| assert_eq!(flood(&mut endpoint, &mut batch, opening, FLOOD), FLOOD));
        assert_eq!(endpoint.stats().cookies_sent, u64::from(FLOOD + opening) - connections as u64);
        assert_eq!(endpoint.len(), connections);
        assert_eq!(flooded.bytes_current, 0, "bytes retained after {FLOOD} SYNs");
        assert_eq!(flooded.count_total, 0, "allocations for {FLOOD} SYNs");
    }
}

/// The queue of answers is bounded, too: SYNs that arrive while the socket is blocked are answered only as long as
/// there is room.
#[test]
fn a_flood_that_cannot_be_answered_is_bounded() {
    let mut config = EndpointConfig::new([7; 32]);
    config.always_cookies = true;
    let mut endpoint = Endpoint::new(config, NOW);
    endpoint.listen(Arc::new(Config::default()));
    let flooded = measure(|| {
        for number in 0..100_000 {
            let (datagram, len) = syn(number);
            deliver(&mut endpoint, NOW, host(number, 1024), &datagram[..len]);
        }
    });
    let held = flooded.bytes_current;
    // 4096 answers, and at most as much unused capacity of the vector.
    let answer = (size_of::<Tuple>() + size_of::<Header>()) as i64;
    assert!(held <= 2 * 4096 * answer, "{held} bytes for answers of {answer}");
}

/// Runs the test's own code without counting its allocations.
fn uncounted<R>(act: impl FnOnce() -> R) -> R {
    let mut result = None;
    allocation_counter::opt_out(|| result = Some(act()));
    result.unwrap()
}

/// Two endpoints connected by an ideal network.
struct Pair {
    ends: [Endpoint; 2],
    ids: [Option<ConnId>; 2],
    batch: Batch,
    sink: Vec<u8>,
    now: Time,
    packets: u64,
    /// Segments with less than 512 bytes of data, which are copied.
    short: u64,
    /// Stream bytes read at both ends.
    read: u64,
}

impl Pair {
    fn new(sender: Config) -> Self {
        let ends = [1, 2].map(|number| Endpoint::new(EndpointConfig::new([number; 32]), NOW));
        let (batch, sink) = (Batch::default(), vec![0; 64 << 10]);
        let mut pair = Self { ends, ids: [None; 2], batch, sink, now: NOW, packets: 0, short: 0, read: 0 };
        pair.ends[1].listen(Arc::new(Config::default()));
        let tuple = Tuple { remote: host(2, 7000), local: IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
        pair.ids[0] = pair.ends[0].connect(NOW, tuple, Arc::new(sender));
        for _ in 0..20 {
            pair.turn();
        }
        pair.ids[1] = pair.ends[1].accept();
        assert!(pair.ids.iter().all(Option::is_some));
        pair
    }

    /// Advances the time by 1 ms: fires the timers and delivers all datagrams.
    fn turn(&mut self) {
        self.now += Span::from_millis(1);
        for end in &mut self.ends {
            end.handle_timeout(self.now);
        }
        self.carry(0, 1, host(1, 4000));
        self.carry(1, 0, host(2, 7000));
        for end in &mut self.ends {
            while end.poll_event().is_some() {}
        }
    }

    /// Delivers all segments from end `from` to end `to`, whose application reads after each batch. The datagrams are
    /// in buffers that may be kept by reference, as with a driver that uses receive offload.
    fn carry(&mut self, from: usize, to: usize, source: SocketAddr) {
        while let Some(destination) = self.ends[from].poll_transmit(self.now, &mut self.batch, 64) {
            let batch = &self.batch;
            let buffer = uncounted(|| {
                let mut buffer = Vec::new();
                for (segment, header) in batch.parts() {
                    buffer.extend_from_slice(header);
                    if let Some(id) = destination.connection {
                        self.ends[from].payload(id, segment, |part| buffer.extend_from_slice(part));
                    }
                }
                Bytes::from_owner(buffer)
            });
            let mut meta = DatagramMeta::new(source, batch.segment_size);
            meta.segment.coalesced = batch.segments.len() > 1;
            self.packets += batch.segments.len() as u64;
            self.short += batch.segments.iter().filter(|s| (1..512).contains(&s.payload_len)).count() as u64;
            self.ends[to].handle_datagram(self.now, &meta, &buffer, Some(&buffer));
            if let Some(reader) = self.ids[to] {
                let (read, sink) = (&mut self.read, &mut self.sink);
                self.ends[to].drive(self.now, reader, |connection| {
                    while let Ok(n) = connection.reader().read_into(sink) {
                        *read += n as u64;
                    }
                });
            }
            uncounted(|| drop(buffer));
        }
    }

    /// Returns the statistics of end 0.
    fn info(&self) -> Info {
        self.ends[0].connection(self.ids[0].unwrap()).unwrap().info(self.now)
    }

    /// Lets end 0 call `write` until it fails, and then advances the time.
    fn stream(&mut self, mut write: impl FnMut(&mut Connection) -> bool) {
        let writer = self.ids[0].unwrap();
        self.ends[0].drive(self.now, writer, |connection| while write(connection) {});
        self.turn();
    }
}

/// Results of 100 turns in the steady state.
struct Steady {
    /// Allocations of both ends.
    calls: u64,
    packets: u64,
    short: u64,
    /// Stream bytes read.
    read: u64,
    /// Flipped pairs with a result.
    pairs: u64,
    /// Statistics of the sender at the end.
    info: Info,
}

fn settled(info: &Info) -> u64 {
    info.pairs.map_or(0, |pairs| pairs.measured + pairs.dropped)
}

fn steady(sender: Config, mut write: impl FnMut(&mut Connection) -> bool) -> Steady {
    let mut pair = Pair::new(sender);
    // Let windows, buffers, scoreboard and reassembly reach their final sizes.
    for _ in 0..500 {
        pair.stream(&mut write);
    }
    let before = (pair.packets, pair.read, settled(&pair.info()), pair.short);
    let measured = measure(|| (0..100).for_each(|_| pair.stream(&mut write)));
    let (calls, info) = (measured.count_total, pair.info());
    let (packets, read, pairs) = (pair.packets - before.0, pair.read - before.1, settled(&info) - before.2);
    Steady { calls, packets, short: pair.short - before.3, read, pairs, info }
}

/// Compositions that use flipped pairs or arrival times instead of their default estimators.
const PAIRS: [&str; 2] = ["westwood-bbe(capacity=pairs)", "westwood-bbe(capacity=fused)"];
const ARRIVALS: &str = "ledbat-start(delay=auto)+ledbat-plus-plus(delay=auto)";

/// Bulk transfer with every congestion controller: data segments, ACKs, timers, writes by reference, and reads.
#[test]
fn a_steady_stream_allocates_nothing() {
    longhaul_zoo::register().unwrap();
    let data = Bytes::from_owner(vec![7; 16 << 10]);
    for controller in known().profiles.iter().map(|profile| profile.name).chain(PAIRS).chain([ARRIVALS]) {
        let mut sender = Config::default();
        sender.congestion = controller.parse().unwrap();
        // The routers do not answer, so the test covers the fallback.
        sender.routers_answer = true;
        let steady = steady(sender, |connection| connection.writer().write_bytes(&mut data.clone()).is_ok());
        assert!(steady.packets > 5_000 && steady.read > 5 << 20, "{controller}: {} packets", steady.packets);
        assert!(steady.pairs > 0 || !PAIRS.contains(&controller), "{controller}");
        assert!(steady.info.arrival_times || controller != ARRIVALS, "{controller}");
        // The second segment of a flipped pair arrives first and is copied while it waits for the other. The end of what was
        // written in a turn is a short segment.
        let Steady { packets, pairs, short, .. } = steady;
        assert_eq!(
            steady.calls,
            pairs + short,
            "{controller}: for {packets} packets, {pairs} pairs, {short} short ones"
        );
        assert!(short <= 100, "{controller}: {short}");
    }
}

/// Data copied into the send buffer needs one block per 64 KiB, and nothing else is allocated.
#[test]
fn a_steady_stream_of_copies_allocates_a_block_for_64_kib() {
    const BLOCK: u64 = 64 << 10;
    let data = vec![7; 16 << 10];
    let Steady { calls, packets, read, .. } =
        steady(Config::default(), |connection| connection.write(&data).is_ok_and(|taken| taken > 0));
    assert!(packets > 10_000 && read > 10 << 20, "{packets} packets, {read} bytes");
    assert!(calls <= read / BLOCK + 64, "{calls} for {packets} packets, {} blocks", read / BLOCK);
}
