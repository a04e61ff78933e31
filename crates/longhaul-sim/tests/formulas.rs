//! Congestion control over long virtual times, against closed forms.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_link::{LinkConfig, Loss};
use longhaul_sim::{Packet, Plan, Setup, Sighting, Sim, Tap};
use longhaul_tcp::Config;
use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec};

/// Segments of 1448 bytes from the first one on, and windows that never limit.
fn plain(config: &mut Config, congestion: &str) {
    (config.base_plpmtu, config.max_plpmtu) = (1472, 1472);
    (config.recv_buffer, config.recv_buffer_max, config.send_buffer) = (64 << 20, 64 << 20, 64 << 20);
    config.congestion = congestion.parse().expect("a registered name");
}

const MSS: u64 = 1448;

/// When each data segment of host 0 left, the first transmissions and the others.
#[derive(Default)]
struct Sent(Vec<(Time, u32)>);

impl Tap for Sent {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let Ok((header, _)) = CheshireCodec::parse(&packet.payload) else { return };
        if sighting == Sighting::Sent(0) && packet.zeros > 0 {
            self.0.push((now, header.seq));
        }
    }
}

/// RFC 6928: ten segments first. RFC 5681, section 3.1: then, for each segment acknowledged, one more, which doubles the
/// window each round: round n has 10 * 2^n segments, whatever the receiver's delayed ACKs if bytes are counted (RFC 3465
/// with no limit). If an ACK counts for one segment only, as in RFC 5681's upper bound of SMSS an ACK, and covers two,
/// the window grows by half: round n + 1 has the segments of round n and one for each two of them, the last one of an
/// odd number being acknowledged alone.
#[test]
fn ten_rounds_of_slow_start() {
    let second = Span::from_millis(500);
    for (name, delay, doubles) in [
        ("slow-start+new-reno", Span::ZERO, true),
        ("slow-start+new-reno", Span::from_millis(40), true),
        ("slow-start(l=1)+new-reno", Span::ZERO, true),
        ("slow-start(l=1)+new-reno", Span::from_millis(40), false),
    ] {
        let setup = Setup::symmetric(1, LinkConfig::delay(second / 2)).configure(|config| {
            plain(config, name);
            config.ack_delay = delay;
        });
        let mut sim = Sim::new(setup);
        let sent = Rc::new(RefCell::new(Sent::default()));
        sim.add_tap(Rc::clone(&sent));
        sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
        sim.run_for(second * 13);
        let sent = &sent.borrow().0;
        let (began, first) = sent[0];
        // All of a round leaves within its first half: pacing is at twice the window a round trip.
        let rounds: Vec<&[(Time, u32)]> = sent
            .chunk_by(|(a, _), (b, _)| {
                (*a - began).as_nanos() / second.as_nanos() == (*b - began).as_nanos() / second.as_nanos()
            })
            .collect();
        let counts: Vec<u64> = rounds.iter().take(10).map(|round| round.len() as u64).collect();
        let grows = |a: u64, b: u64| if doubles { b == 2 * a } else { (3 * a..=3 * a + 2).contains(&(2 * b)) };
        let as_expected = counts[0] == 10 && counts.windows(2).all(|pair| grows(pair[0], pair[1]));
        assert!(as_expected && counts.len() == 10, "{name}, ACKs delayed by {delay}: {counts:?}");
        // One after the other, each once, and whole.
        for (n, (_, seq)) in (0u32..).zip(sent.iter()) {
            assert_eq!(*seq, first.wrapping_add(n * MSS as u32), "segment {n}");
        }
    }
}

/// The mean window in segments: what arrives in a round trip.
fn mean_window(link: LinkConfig, congestion: &str, ack_delay: Span, seed: u64, warm_up: Span, time: Span) -> f64 {
    let rtt = link.delay * 2;
    let setup = Setup::pair(seed, longhaul_link::topology::Duplex { back: LinkConfig::delay(link.delay), there: link });
    let mut sim = Sim::new(setup.configure(|config| {
        plain(config, congestion);
        config.ack_delay = ack_delay;
    }));
    let (_, server) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    sim.run_for(warm_up);
    let before = sim.session(server).read;
    sim.run_for(time);
    let segments = (sim.session(server).read - before) as f64 / MSS as f64;
    segments * rtt.as_secs_f64() / time.as_secs_f64()
}

/// Mathis, Semke, Mahdavi and Ott (CCR 27(3), 1997): W = C / sqrt(p) with C = sqrt(3/2) if every segment is
/// acknowledged. (Random losses without any timeout or recovery would give 1.31.)
#[test]
fn new_reno_follows_mathis_formula() {
    for p in [0.001, 0.003, 0.01] {
        let expected = f64::sqrt(1.5 / p);
        let windows: Vec<f64> = (1..=4)
            .map(|seed| {
                let link = LinkConfig::delay(Span::from_millis(50)).loss(Loss::Uniform(p));
                mean_window(link, "new-reno", Span::ZERO, seed, Span::from_secs(30), Span::from_secs(1_000))
            })
            .collect();
        let mean = windows.iter().sum::<f64>() / windows.len() as f64;
        println!("{p}: {mean:.1} of {expected:.1}: {windows:?}");
        assert!((mean / expected - 1.0).abs() < 0.1, "{p}: {mean} instead of {expected}");
    }
}

/// RFC 9438, section 5.1, table 1: RTT 0.1 s and C = 0.4. The model loses every 1/p-th segment.
#[test]
fn cubic_follows_its_response_function() {
    for (segments, cycles, expected) in [(10_000u64, 12, 187.0), (100_000, 6, 1_054.0)] {
        // An early loss ends slow start near the mean.
        let list = std::iter::once(2_000).chain((1..=2 * cycles).map(|n| n * segments)).collect();
        let link = LinkConfig::delay(Span::from_millis(50)).loss(Loss::List(list));
        // A cycle lasts 1 / (p W) round trips.
        let cycle = Span::from_secs_f64(segments as f64 / expected * 0.1);
        let window = mean_window(link, "cubic", Span::from_millis(40), 1, cycle * 2, cycle * cycles);
        println!("{segments}: {window:.1} of {expected}");
        assert!((window / expected - 1.0).abs() < 0.12, "{segments}: {window} instead of {expected}");
    }
}
