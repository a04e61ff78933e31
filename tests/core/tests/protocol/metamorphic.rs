//! Changes that must not affect the result: other initial sequence numbers, another time of day, other chunk sizes, and
//! duplicate packets.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use longhaul_link::{Limit, LinkConfig, Loss, Reordering};
use longhaul_sim::{Packet, Plan, Setup, Sighting, Sim, Tap};
use longhaul_tests_core::cases;
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::{CheshireCodec, Flags, Header, SackBlock, Segment};
use proptest::prelude::*;

fn config(few: u32, all: u32) -> ProptestConfig {
    ProptestConfig { cases: cases(few, all), failure_persistence: None, ..ProptestConfig::default() }
}

type Trace = Vec<(Time, Sighting, Header, usize)>;

/// Records packets with sequence numbers relative to those of the SYNs, and timestamps relative to the first timestamp.
#[derive(Default)]
struct Normal {
    isn: [Option<u32>; 2],
    stamp: [Option<u32>; 2],
    trace: Trace,
}

impl Normal {
    fn normalise(&mut self, host: usize, header: &mut Header) {
        let (own, peer) = (*self.isn[host].get_or_insert(header.seq), self.isn[1 - host].unwrap_or(0));
        header.seq = header.seq.wrapping_sub(own);
        if header.flags.contains(Flags::ACK) {
            header.ack = header.ack.wrapping_sub(peer);
        }
        header.options.sack = header
            .options
            .sack
            .iter()
            .map(|b| SackBlock { left: b.left.wrapping_sub(peer), right: b.right.wrapping_sub(peer) })
            .collect();
        if let Some(stamp) = &mut header.options.timestamps {
            let own = *self.stamp[host].get_or_insert(stamp.value);
            stamp.value = stamp.value.wrapping_sub(own);
            // Without ACK, the echo is invalid (RFC 7323, section 3.2).
            if header.flags.contains(Flags::ACK) {
                stamp.echo = stamp.echo.wrapping_sub(self.stamp[1 - host].unwrap_or(0));
            }
        }
    }
}

struct Shared(Rc<RefCell<Normal>>);

impl Tap for Shared {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let Sighting::Sent(host) = sighting else { return };
        let segment = Segment::parse::<CheshireCodec>(&packet.payload).expect("hosts send segments");
        let (mut header, len) = (segment.header, segment.payload.len());
        let mut normal = self.0.borrow_mut();
        normal.normalise(host, &mut header);
        normal.trace.push((now, sighting, header, len));
    }
}

#[derive(Clone, Debug)]
struct Shape {
    seed: u64,
    loss: f64,
    duplication: f64,
    reordering: f64,
    millis: u64,
    sizes: [u64; 2],
    chunk: usize,
    timestamps: bool,
    sack: bool,
    extensions: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    let numbers = (any::<u64>(), 0.0..0.1f64, 0.0..0.1f64, 0.0..0.2f64, 0u64..200);
    let rest = ([0u64..100_000, 0u64..60_000], 1usize..4_096, any::<bool>(), any::<bool>(), any::<bool>());
    (numbers, rest).prop_map(
        |((seed, loss, duplication, reordering, millis), (sizes, chunk, timestamps, sack, extensions))| {
            // Long streams are not written in chunks of single bytes, which would take too long.
            let chunk = chunk.max(sizes[0].max(sizes[1]) as usize / 500);
            Shape { seed, loss, duplication, reordering, millis, sizes, chunk, timestamps, sack, extensions }
        },
    )
}

struct Outcome {
    trace: Trace,
    read: [u64; 2],
}

fn run(shape: &Shape, isn: [u32; 2], ahead: [Span; 2]) -> Outcome {
    let mut link = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), Span::from_millis(shape.millis))
        .queue(Limit::Packets(49))
        .loss(Loss::Uniform(shape.loss));
    link.duplication = shape.duplication;
    let most = Span::from_millis(30);
    link.reordering = Some(Reordering::Late { share: shape.reordering, least: Span::ZERO, most });
    let mut setup = Setup::symmetric(shape.seed, link);
    for (i, host) in setup.hosts.iter_mut().enumerate() {
        host.endpoint.initial_sequence = Some(isn[i]);
        host.clock_ahead = ahead[i];
        let config = Arc::make_mut(&mut host.config);
        (config.timestamps, config.sack, config.extensions) = (shape.timestamps, shape.sack, shape.extensions);
    }
    let mut sim = Sim::new(setup);
    let normal = Rc::new(RefCell::new(Normal::default()));
    sim.add_tap(Shared(Rc::clone(&normal)));
    let plan = |size| {
        let mut plan = Plan::bulk(size);
        plan.write_chunk = shape.chunk;
        plan
    };
    let (client, server) = sim.open(plan(shape.sizes[0]), plan(shape.sizes[1]));
    sim.run(Span::from_secs(600), |sim| sim.all_done() || sim.session(client).error.is_some());
    let accepted = !sim.host(1).sessions.is_empty();
    let read = [sim.session(client).read, if accepted { sim.session(server).read } else { 0 }];
    let intact = sim.session(client).intact && (!accepted || sim.session(server).intact);
    assert!(intact);
    let trace = std::mem::take(&mut normal.borrow_mut().trace);
    Outcome { trace, read }
}

const NO_SHIFT: [Span; 2] = [Span::ZERO; 2];

fn same(a: &Trace, b: &Trace) -> Result<(), TestCaseError> {
    let differs = a.iter().zip(b).position(|(x, y)| x != y);
    prop_assert_eq!(differs, None, "{:?} and {:?}", differs.map(|i| &a[i]), differs.map(|i| &b[i]));
    prop_assert_eq!(a.len(), b.len());
    Ok(())
}

fn isn() -> impl Strategy<Value = u32> {
    let edge = prop_oneof![Just(0u32), Just(1 << 31)];
    prop_oneof![any::<u32>(), (edge, 0u32..60_000).prop_map(|(edge, below)| edge.wrapping_sub(below))]
}

/// Generates multiples of 1 ms, because the phase of the clock tick at which a connection begins legitimately affects
/// the timestamps of the next connection between the same addresses.
fn shift() -> impl Strategy<Value = Span> {
    prop_oneof![
        Just(Span::from_millis(1 << 32)),
        Just(Span::from_millis((1 << 32) / 1_000)),
        Just(Span::from_secs(30 * 86_400)),
        (0u64..1 << 40).prop_map(Span::from_millis)
    ]
}

proptest! {
    #![proptest_config(config(250, 250))]

    /// Detects a stack whose SACK fails for half of all initial sequence numbers, for example.
    #[test]
    fn initial_sequence_numbers_do_not_matter(shape in shape(), isn in [isn(), isn()]) {
        let (plain, shifted) = (run(&shape, [0, 0], NO_SHIFT), run(&shape, isn, NO_SHIFT));
        same(&plain.trace, &shifted.trace)?;
        prop_assert_eq!(plain.read, shifted.read);
    }

    #[test]
    fn the_time_of_day_does_not_matter(shape in shape(), ahead in [shift(), shift()]) {
        let (plain, shifted) = (run(&shape, [0, 0], NO_SHIFT), run(&shape, [0, 0], ahead));
        same(&plain.trace, &shifted.trace)?;
        prop_assert_eq!(plain.read, shifted.read);
    }

    #[test]
    fn chunks_and_duplicates_do_not_change_what_arrives(shape in shape()) {
        // With a high loss rate, a handshake may fail even without the change.
        let shape = Shape { loss: shape.loss / 10.0, ..shape };
        let whole = run(&Shape { chunk: 1 << 20, ..shape.clone() }, [9, 9], NO_SHIFT);
        let chunked = run(&shape, [9, 9], NO_SHIFT);
        let doubled = run(&Shape { duplication: 1.0, ..shape.clone() }, [9, 9], NO_SHIFT);
        let expected = [shape.sizes[1], shape.sizes[0]];
        prop_assert_eq!([whole.read, chunked.read, doubled.read], [expected; 3]);
    }
}
