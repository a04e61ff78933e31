//! Limits of what packets from third parties can cause: memory, packets in response, and changes in other connections.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use longhaul_link::{Corruption, LinkConfig, LinkRate, Loss};
use longhaul_sim::{Packet, Plan, Setup, Sighting, Sim, Tap};
use longhaul_tcp::{Config, Ecn, State};
use longhaul_tests_core::Victim;
use longhaul_tests_core::victim::plain_config;
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header, Timestamps};

fn datagram(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [0; 64];
    let len = CheshireCodec::emit(header, &mut bytes).expect("64 bytes hold any header");
    [&bytes[..len], payload].concat()
}

fn packet(from: SocketAddr, to: SocketAddr, header: &Header, payload: &[u8]) -> Packet {
    Packet { from, to, ecn: Ecn::NotEct, dscp: 0, payload: datagram(header, payload), zeros: 0 }
}

fn stranger(number: u32) -> SocketAddr {
    let [_, b, c, d] = number.to_be_bytes();
    SocketAddr::from(([198, b, c, d], 1024 + (number % 60_000) as u16))
}

fn syn(number: u32, options: bool) -> Header {
    let mut syn = Header { flags: Flags::SYN, seq: number.wrapping_mul(77_777), window: 65_535, ..Header::default() };
    if options {
        syn.options.mss = Some(1_460);
        syn.options.window_scale = Some(7);
        syn.options.sack_permitted = true;
        syn.options.timestamps = Some(Timestamps { value: number, echo: 0 });
    }
    syn
}

/// RFC 4987: under a flood of SYNs with spoofed addresses, memory stays bounded, and a real client connects with all
/// options.
#[test]
fn syn_cookies_hold_a_flood_and_let_the_real_in() {
    let link = LinkConfig::delay(Span::from_millis(10));
    let mut sim = Sim::new(Setup::symmetric(1, link));
    let to = sim.host(1).address;
    let mut worst = (0, 0);
    for number in 0..100_000u32 {
        let flood = packet(stranger(number), to, &syn(number, number % 3 > 0), &[]);
        sim.inject(Span::from_micros(u64::from(number) * 10), 1, flood);
    }
    // The flood lasts 1 s, and the client connects in the middle of it.
    sim.run_for(Span::from_millis(500));
    let (client, _) = sim.open(Plan::bulk(20_000), Plan::bulk(20_000));
    let opened = sim.now();
    let mut options = None;
    let done = sim.run(Span::from_secs(2), |sim| {
        let endpoint = &sim.host(1).endpoint;
        worst = (worst.0.max(endpoint.len()), worst.1.max(endpoint.memory()));
        if let Some(connection) = sim.host(0).endpoint.connection(sim.session(client).id) {
            options = Some(connection.info(sim.now()).options);
        }
        sim.all_done()
    });
    assert!(done && sim.session(client).ended_well());
    assert!(sim.now() - opened < Span::from_millis(200), "{:?}", sim.now() - opened);
    // A SYN cookie cannot encode microsecond timestamps.
    let options = options.unwrap();
    assert!(options.sack && options.timestamps && options.wscale && options.ecn && !options.microseconds);
    sim.run_for(Span::from_secs(60));
    let endpoint = &sim.host(1).endpoint;
    let stats = endpoint.stats();
    assert!(stats.cookies_sent > 98_000 && stats.cookies_accepted == 1, "{stats:?}");
    assert!(worst.0 <= 1_026 && worst.1 < 1 << 20, "{worst:?}");
    assert_eq!((endpoint.len(), endpoint.memory()), (0, 0));
}

/// At most three times the received bytes, including retransmissions, are sent to an unvalidated address, which is the
/// limit of RFC 9000, section 8. All first packets are tested, by flags, options and payload.
#[test]
fn responses_stay_below_the_amplification_limit() {
    for bits in 0..512u16 {
        for options in [false, true] {
            for payload in [0, 1, 1_400] {
                for listening in [false, true] {
                    let mut victim = Victim::in_state(if listening { State::Listen } else { State::Closed }, 5, 6);
                    if listening {
                        victim.endpoint.listen(Arc::default());
                    }
                    let mut header = syn(3, options);
                    header.flags = Flags::from_bits_truncate(bits);
                    header.ack = 99;
                    let payload = vec![7; payload];
                    let sent = datagram(&header, &payload).len();
                    let mut back: usize = victim.inject(&header, &payload).iter().map(|r| r.len).sum();
                    back += victim.wait(Span::from_secs(600)).iter().map(|(_, r)| r.len).sum::<usize>();
                    assert!(back <= 3 * sent, "{:?} {options}: {back} for {sent}", header.flags);
                    assert!(victim.endpoint.is_empty());
                }
            }
        }
    }
}

/// CVE-2024-2169: two endpoints that receive stray packets from each other must fall silent.
#[test]
fn strays_between_two_endpoints_die_out() {
    struct Count(Rc<RefCell<(u32, Time)>>);
    impl Tap for Count {
        fn see(&mut self, now: Time, sighting: Sighting, _: &Packet) {
            if matches!(sighting, Sighting::Sent(..) | Sighting::Injected(_)) {
                let mut count = self.0.borrow_mut();
                *count = (count.0 + 1, now);
            }
        }
    }
    for bits in 0..512u16 {
        for (options, payload) in [(false, 0), (true, 0), (false, 100)] {
            let mut sim = Sim::new(Setup::symmetric(1, LinkConfig::delay(Span::from_millis(10))));
            sim.listen(0);
            let count = Rc::new(RefCell::new((0, Time::ZERO)));
            sim.add_tap(Count(Rc::clone(&count)));
            let mut header = syn(1, options);
            header.flags = Flags::from_bits_truncate(bits);
            let (from, to) = (sim.host(1).address, sim.host(0).address);
            sim.inject(Span::ZERO, 0, packet(from, to, &header, &vec![1; payload]));
            sim.run_for(Span::from_secs(600));
            let (packets, last) = *count.borrow();
            assert!(packets <= 4 && last < Time::ZERO + Span::from_secs(1), "{:?}: {packets}", header.flags);
            assert!(sim.is_quiet());
        }
    }
}

/// Desynchronised peers (RFC 9293, section 3.5.1): both have the same addresses, but their sequence numbers do not
/// match.
#[test]
fn desynchronised_peers_do_not_storm() {
    for shift in [1u32, 1_000, 100_000, 1 << 31] {
        let mut ends =
            [Victim::in_state(State::Established, 100, 200), Victim::in_state(State::Established, 200 + shift, 100)];
        let mut flying = ends[0].act(|c| c.write(&[1; 400])).1;
        flying.extend(ends[1].act(|c| c.write(&[2; 400])).1);
        let (mut packets, mut to) = (0, 1);
        for _ in 0..600 {
            let mut next = Vec::new();
            for reply in flying.drain(..) {
                packets += 1;
                next.extend(ends[to].inject(&reply.header, &reply.payload));
            }
            flying = next;
            to = 1 - to;
            for end in &mut ends {
                flying.extend(end.wait(Span::from_millis(100)).into_iter().map(|(_, r)| r));
            }
        }
        // Challenge ACKs and retransmissions are limited to two per second in each direction.
        assert!(packets <= 240, "{shift}: {packets}");
    }
}

/// CVE-2018-5390: after single bytes out of order, memory is bounded, and data in order is still delivered.
#[test]
fn tiny_segments_out_of_order_cost_little() {
    let mut config = plain_config();
    (config.recv_buffer, config.recv_buffer_max, config.window_scaling) = (65_535, 65_535, false);
    let mut victim = Victim::with_config(State::Established, u32::MAX - 9, 7, config);
    let start = victim.next;
    let mut worst = 0;
    for i in 0..100_000u32 {
        let mut header = victim.header(Flags::ACK);
        header.seq = start.wrapping_add(2 + 2 * (i % 32_000));
        victim.inject(&header, b"x");
        worst = worst.max(victim.info().map_or(0, |i| i.memory));
    }
    assert!(worst <= 2 * 65_535 + 4_096, "{worst}");
    for i in 0..20 {
        victim.send(Flags::ACK, &[i; 100]);
    }
    let mut read = 0;
    while let Ok(part) = victim.act(|c| c.read(1 << 20)).0 {
        read += part.len();
    }
    assert!(read >= 2_000, "{read}");
}

/// CVE-2019-11477 to CVE-2019-11479: a peer has the minimum MSS and SACKs every second segment.
#[test]
fn hostile_sacks_cost_bounded_memory_and_the_stream_survives() {
    let mut config = Config::default();
    config.send_buffer = 1 << 20;
    config.congestion = longhaul_tests_core::congestion("cubic");
    let mut victim = Victim::new(1, u32::MAX - 5_000);
    victim.endpoint.listen(Arc::new(config));
    let mut opening = victim.header(Flags::SYN);
    opening.options.mss = Some(1);
    opening.options.sack_permitted = true;
    opening.options.window_scale = Some(14);
    let reply = victim.inject(&opening, &[]);
    victim.next = 2;
    victim.acked = reply[0].header.seq.wrapping_add(1);
    victim.send(Flags::ACK, &[]);
    victim.id = victim.endpoint.accept();
    let base = victim.acked;
    let data: Vec<u8> = (0..100_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
    let mut got = vec![None; data.len()];
    let mut flying = victim.act(|c| c.write(&data)).1;
    let mut worst = 0;
    for round in 0..20_000u32 {
        for reply in flying.drain(..) {
            let at = reply.header.seq.wrapping_sub(base) as usize;
            assert!(reply.payload.len() <= 128);
            for (i, byte) in reply.payload.iter().enumerate() {
                got[at + i] = Some(*byte);
            }
        }
        // The peer SACKs every second segment. In every tenth round, its acknowledgment number is truthful.
        let reach = got.iter().position(Option::is_none).unwrap_or(got.len());
        let mut ack = victim.header(Flags::ACK);
        ack.ack = if round % 10 == 9 { base.wrapping_add(reach as u32) } else { victim.acked };
        victim.acked = ack.ack;
        let una = ack.ack.wrapping_sub(base);
        for k in 0..4 {
            let left = base.wrapping_add(una + 128 * (1 + 2 * (k + round % 50)));
            ack.options.sack.push(longhaul_wire::SackBlock { left, right: left.wrapping_add(128) });
        }
        flying = victim.inject(&ack, &[]);
        flying.extend(victim.wait(Span::from_millis(20)).into_iter().map(|(_, r)| r));
        worst = worst.max(victim.info().map_or(0, |i| i.memory));
        if una as usize == data.len() {
            break;
        }
    }
    assert!(got.iter().zip(&data).all(|(g, d)| *g == Some(*d)), "{:?}", got.iter().filter(|g| g.is_none()).count());
    assert!(worst < 4 << 20, "{worst}");
}

/// Tap that records the packets between the two honest hosts.
struct Honest([SocketAddr; 2], Rc<RefCell<Trace>>);

/// Time, sending host and payload.
type Trace = Vec<(Time, usize, Vec<u8>)>;

impl Tap for Honest {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let Sighting::Sent(host) = sighting else { return };
        if self.0.contains(&packet.from) && self.0.contains(&packet.to) {
            self.1.borrow_mut().push((now, host, packet.payload.clone()));
        }
    }
}

/// CVE-2016-5696 and similar: packets that belong to other connections or to none change no byte in the trace of this
/// connection.
#[test]
fn floods_about_others_leave_no_trace() {
    let run = |flood: bool| {
        let link = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), Span::from_millis(10));
        let mut setup = Setup::symmetric(3, link);
        setup.hosts[1].endpoint.initial_sequence = Some(500);
        // With a rate limit, responses to the attacker would compete for the server's link, which this test does not
        // cover.
        setup.link_mut(1).rate = LinkRate::Unlimited;
        let mut sim = Sim::new(setup);
        let seen = Rc::new(RefCell::new(Vec::new()));
        let (a, b) = (sim.host(0).address, sim.host(1).address);
        sim.add_tap(Honest([a, b], Rc::clone(&seen)));
        let (client, server) = sim.open(Plan::bulk(300_000), Plan::bulk(30_000));
        assert!(sim.run(Span::from_secs(5), |sim| sim.host(1).sessions.len() == 1));
        let bystander = stranger(7);
        let at = |seq: u32, flags: Flags| Header { flags, seq, ack: 501, window: 5_000, ..Header::default() };
        // The attacker opens its own connection, so that packets on an existing connection are tested, too.
        sim.inject(Span::ZERO, 1, packet(bystander, b, &at(10, Flags::SYN), &[]));
        sim.inject(Span::from_millis(1), 1, packet(bystander, b, &at(11, Flags::ACK), &[]));
        if flood {
            for i in 0..5_000u32 {
                let flags = Flags::from_bits_truncate((i % 256) as u16);
                let (from, seq) = if i % 2 == 0 { (bystander, 11 + i * 7) } else { (stranger(i), i) };
                let late = Span::from_micros(1_001 + u64::from(i) * 40);
                sim.inject(late, 1, packet(from, b, &at(seq, flags), &[1; 30][..(i % 30) as usize]));
            }
        }
        assert!(sim.run(Span::from_secs(30), |sim| sim.session(client).released && sim.session(server).released));
        assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
        seen.take()
    };
    let (quiet, flooded) = (run(false), run(true));
    assert!(quiet.len() > 200);
    assert!(quiet == flooded);
}

/// With bit errors that no checksum detects, the stream may be wrong, but nothing panics, loops or leaks.
#[test]
fn unseen_corruption_is_survived() {
    for seed in 0..60 {
        let mut link = LinkConfig::delay(Span::from_millis(5)).loss(Loss::Uniform(0.02));
        link.corruption = Corruption { share: 0.2, unseen: 1.0 };
        let mut setup = Setup::symmetric(seed, link);
        for host in &mut setup.hosts {
            let config = Arc::make_mut(&mut host.config);
            config.user_timeout = Some(Span::from_secs(30));
            config.timestamps = seed % 2 == 0;
            config.sack = seed % 3 > 0;
        }
        let mut sim = Sim::new(setup);
        sim.open(Plan::bulk(100_000), Plan::bulk(50_000));
        for _ in 0..200_000 {
            if sim.now() > Time::ZERO + Span::from_secs(600) || sim.step().is_none() {
                break;
            }
        }
    }
}

/// Packets from addresses that cannot belong to a host are not answered (RFC 9293, section 3.9.2.3).
#[test]
fn impossible_addresses_are_not_answered() {
    for from in ["0.0.0.0:9", "255.255.255.255:9", "224.0.0.1:9", "192.0.2.9:0", "[::]:9", "[ff02::1]:9"] {
        for flags in [Flags::SYN, Flags::ACK, Flags::FIN] {
            let mut victim = Victim::in_state(State::Listen, 1, 1);
            let header = victim.header(flags);
            assert!(victim.inject_from(from.parse().unwrap(), &header, &[]).is_empty(), "{from}");
            assert!(victim.endpoint.is_empty());
        }
    }
}

/// RFC 7323, section 5.3: a timestamp is stored only if its segment passes all checks.
#[test]
fn a_stranger_cannot_poison_the_timestamp() {
    let mut config = plain_config();
    config.timestamps = true;
    let mut victim = Victim::new(1, 1);
    victim.endpoint.listen(Arc::new(config));
    let mut opening = victim.header(Flags::SYN);
    opening.options.timestamps = Some(Timestamps { value: 1_000, echo: 0 });
    victim.inject(&opening, &[]);
    (victim.next, victim.acked) = (2, 2);
    let stamped = |victim: &Victim, value: u32, ack: u32| {
        let mut header = victim.header(Flags::ACK);
        header.ack = ack;
        header.options.timestamps = Some(Timestamps { value, echo: 0 });
        header
    };
    let first = stamped(&victim, 1_001, 2);
    victim.inject(&first, &[]);
    victim.id = victim.endpoint.accept();
    // The segment has the right sequence number, a wrong acknowledgment number, and a timestamp far in the future.
    let evil = stamped(&victim, 1 << 30, 99_999);
    victim.inject(&evil, b"evil");
    let good = stamped(&victim, 1_002, 2);
    victim.inject(&good, b"good");
    assert_eq!(victim.act(|c| c.read(99)).0.as_deref(), Ok(&b"good"[..]));
    assert_eq!(victim.info().unwrap().paws_dropped, 0);
}
