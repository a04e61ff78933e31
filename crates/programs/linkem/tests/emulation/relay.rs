//! Tests of the relay with real sockets against the predictions of the model.
#![expect(clippy::disallowed_methods, reason = "tests of real time")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::common::{burst, link, numbers, receive, receive_for, relay, socket};
use longhaul_link::spec::Direction::{Down, Up};
use longhaul_link::{Cause, Link, Packet};
use longhaul_linkem::log::{LogFiles, Logs};
use longhaul_linkem::relay::{Options, Running};
use longhaul_sys::linux::RecvBatch;
use longhaul_sys::pool::RecvPool;
use longhaul_units::Time;
use longhaul_wire::network::{Feedback, Forward, QuickStartNonce, QuickStartRate, Request, WireDelta, WireRate};
use longhaul_wire::{CheshireCodec, Codec, Header, NetworkOption, Segment};

/// Bytes of the UDP and IPv4 headers.
const HEADERS: u64 = 28;

#[test]
fn a_steady_stream_arrives_in_order_and_not_before_its_time() {
    let (client, server) = (socket("127.0.0.1"), socket("127.0.0.1"));
    let relay = relay("--rate 20mbit --rtt 100ms", server.local_addr());
    let mut sent = Vec::new();
    let arrivals = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&server, 200));
        for number in 0..200 {
            sent.push(Instant::now());
            burst(&client, relay.local_addr(), 0, 1000, number..number + 1);
            std::thread::sleep(Duration::from_micros(500));
        }
        receiver.join().unwrap()
    });
    assert_eq!(numbers(&arrivals), (0..200).collect::<Vec<_>>());
    // 1028 bytes take 411.2 us, and propagation takes 50 ms. The kernel's timestamp is not used, because its clock
    // may be stepped.
    let least = Duration::from_micros(50_411);
    let delays = arrivals.iter().map(|arrival| arrival.at - sent[arrival.number as usize]);
    let shortest = delays.min().unwrap();
    assert!(shortest + Duration::from_millis(1) > least, "{shortest:?}");
    let (engine, counts) = relay.stop().unwrap();
    let stats = engine.stats(Up);
    assert_eq!((stats.delivered, stats.delivered_bytes), (200, 200 * (1000 + HEADERS)));
    assert_eq!((engine.stats(Down).all().offered, counts.clients, counts.unsent), (0, 1, 0));
    assert_eq!(engine.lateness().len(), 200);
}

#[test]
fn merged_datagrams_are_packets_of_their_own_to_a_full_queue() {
    let (client, server) = (socket("127.0.0.1"), socket("127.0.0.1"));
    let relay = relay("--rate 500kbit --delay 1ms --queue 10p", server.local_addr());
    // All packets arrive at the same time: one is being transmitted, and ten wait.
    burst(&client, relay.local_addr(), 0, 1000, 0..60);
    assert_eq!(numbers(&receive(&server, 12)), (0..11).collect::<Vec<_>>());
    let (engine, _) = relay.stop().unwrap();
    let all = engine.stats(Up).all();
    assert_eq!((all.offered, all.dropped(Cause::QueueFull), all.dropped_total()), (60, 49, 49));
    assert_eq!((engine.stats(Up).max_packets, engine.inside(Up)), (10, 0));
}

/// Returns the numbers of the packets that the model delivers in virtual time, in order.
fn predicted(options: &str, packets: u32) -> Vec<u32> {
    let path = link(options);
    let mut link = Link::new(path.link.there.hop(), path.seed, 0).unwrap();
    (0..packets).for_each(|number| assert!(link.offer(Time::ZERO, Packet::new(128, u64::from(number)))));
    std::iter::from_fn(|| link.poll(Time::MAX)).map(|(_, packet)| packet.payload as u32).collect()
}

#[test]
fn a_seed_loses_doubles_and_reorders_the_packets_that_it_does_in_virtual_time() {
    for options in [
        "--loss 10% --seed 7",
        "--loss-ge 5%,30% --delay 5ms --seed 3",
        "--loss-list 1,2,50,299",
        "--reorder 5%,3,10s --seed 2",
        "--duplicate 10% --loss 2%",
    ] {
        let expected = predicted(options, 300);
        let (client, server) = (socket("127.0.0.1"), socket("127.0.0.1"));
        let relay = relay(options, server.local_addr());
        burst(&client, relay.local_addr(), 0, 100, 0..300);
        let arrivals = receive_for(&server, expected.len() + 1, Duration::from_millis(500));
        // A packet held back near the end still waits for others to arrive.
        let came = numbers(&arrivals);
        assert!(came.len() + 3 >= expected.len() && came.len() > 200, "{options}: {}", came.len());
        assert_eq!(came, expected[..came.len()], "{options}");
        assert_ne!(came, (0..300).collect::<Vec<_>>(), "{options}");
        relay.stop().unwrap();
    }
}

#[test]
fn marks_reach_the_receiver_both_ways_and_the_codepoint_stays() {
    const DSCP: u8 = 0x2e << 2;
    const ECT0: u8 = 2;
    const CE: u8 = 3;
    let (client, server) = (socket("127.0.0.1"), socket("127.0.0.1"));
    let relay = relay("--rate 1mbit --aqm codel --ecn", server.local_addr());
    // The queue of 0.5 s exceeds CoDel's target of 5 ms for longer than its interval of 100 ms.
    burst(&client, relay.local_addr(), DSCP | ECT0, 1000, 0..60);
    let up = receive(&server, 60);
    burst(&server, up[0].from, DSCP | ECT0, 1000, 0..60);
    let down = receive(&client, 60);
    burst(&client, relay.local_addr(), DSCP, 1000, 0..60);
    let deaf = receive_for(&server, 60, Duration::from_secs(1));
    let (engine, _) = relay.stop().unwrap();
    for (arrivals, direction) in [(&up, Up), (&down, Down)] {
        assert_eq!(numbers(arrivals), (0..60).collect::<Vec<_>>(), "marked, not dropped");
        assert!(arrivals.iter().all(|arrival| arrival.tos & !3 == DSCP));
        let marked = arrivals.iter().filter(|arrival| arrival.tos & 3 == CE).count() as u64;
        assert_eq!(marked, engine.stats(direction).all().marked);
        assert!((1..30).contains(&marked), "{marked}");
        assert!(arrivals[..10].iter().all(|arrival| arrival.tos & 3 == ECT0), "its interval is longer");
    }
    assert!(deaf.iter().all(|arrival| arrival.tos == DSCP));
    assert_eq!(60 - deaf.len() as u64, engine.stats(Up).all().dropped(Cause::Aqm));
    assert!(deaf.len() < 60);
}

#[test]
fn clients_share_the_link_and_get_their_own_answers() {
    const CLIENTS: u32 = 20;
    let server = socket("127.0.0.1");
    let relay = relay("--rate 10mbit --rtt 10ms --queue 1000p", server.local_addr());
    let clients: Vec<_> = (0..CLIENTS).map(|_| socket("127.0.0.1")).collect();
    let began = Instant::now();
    for (client, number) in clients.iter().zip(0..) {
        burst(client, relay.local_addr(), 0, 500, number * 10..number * 10 + 10);
    }
    let arrivals = receive(&server, 200);
    assert_eq!(arrivals.len(), 200);
    // 200 packets of 528 bytes at 10 Mb/s take 84 ms; those of one client would take a twentieth of that.
    assert!(began.elapsed() >= Duration::from_millis(84), "{:?}", began.elapsed());
    let mut sources: Vec<_> = arrivals.iter().map(|arrival| arrival.from).collect();
    sources.sort_unstable();
    sources.dedup();
    assert_eq!(sources.len() as u32, CLIENTS);
    for arrival in &arrivals {
        burst(&server, arrival.from, 0, 100, arrival.number..arrival.number + 1);
    }
    for (client, number) in clients.iter().zip(0..) {
        let answers = receive(client, 10);
        assert_eq!(numbers(&answers), (number * 10..number * 10 + 10).collect::<Vec<_>>());
        assert!(answers.iter().all(|answer| answer.from == relay.local_addr()));
    }
    let (engine, counts) = relay.stop().unwrap();
    assert_eq!((counts.clients, counts.refused, counts.missed, counts.unsent), (20, 0, 0, 0));
    assert_eq!((engine.stats(Up).delivered, engine.stats(Down).delivered), (200, 200));
}

#[test]
fn several_pairs_share_one_link() {
    let servers = [socket("127.0.0.1"), socket("127.0.0.1")];
    let [first, second] = servers.each_ref().map(|server| server.local_addr());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = Options::new(any, first).and(any, second);
    let path = link("--rate-up 1mbit --rate-down 100mbit --rtt 10ms --queue 100p");
    let relay = Running::start(&options, &path, Logs::default()).unwrap();
    let &[to_first, to_second] = relay.local_addrs() else { panic!("{:?}", relay.local_addrs()) };
    assert_eq!(relay.local_addr(), to_first);
    // One socket sends to both servers. One packet is being sent and 100 wait, from either pair, so that there is no
    // room for the last ones to the second server. Even if the client is interrupted between its two calls for up to
    // 150 ms, it finds the queue full.
    let client = socket("127.0.0.1");
    let began = Instant::now();
    burst(&client, to_first, 0, 1000, 0..60);
    burst(&client, to_second, 0, 1000, 60..160);
    let [here, there] = servers.each_ref().map(|server| receive_for(server, 100, Duration::from_millis(500)));
    assert_eq!(numbers(&here), (0..60).collect::<Vec<_>>());
    let came = numbers(&there);
    assert!(came.len() < 60 && came.starts_with(&(60..101).collect::<Vec<_>>()), "{came:?}");
    // 100 packets of 1028 bytes at 1 Mb/s. With separate links, the later ones would have arrived after 340 ms.
    assert!(there.last().unwrap().at - began >= Duration::from_millis(820), "{:?}", there.last().unwrap().at - began);
    // Each answer has the address that the client sent to as its source.
    burst(&servers[1], there[0].from, 0, 100, 0..5);
    burst(&servers[0], here[0].from, 0, 100, 5..10);
    let mut answers: Vec<_> = receive(&client, 10).iter().map(|answer| (answer.number, answer.from)).collect();
    answers.sort_unstable();
    let expected = (0..10).map(|number| (number, if number < 5 { to_second } else { to_first }));
    assert_eq!(answers, expected.collect::<Vec<_>>());
    let (engine, counts) = relay.stop().unwrap();
    assert_eq!((counts.clients, counts.refused, counts.missed, counts.unsent), (2, 0, 0, 0));
    let all = engine.stats(Up).all();
    assert_eq!((all.offered, all.dropped_total()), (160, 100 - came.len() as u64));
}

#[test]
fn a_relay_is_a_hop() {
    for addr in ["127.0.0.1", "::1"] {
        let (client, server) = (std::net::UdpSocket::bind((addr, 0)).unwrap(), socket(addr));
        let relay = relay("--rate 100mbit", server.local_addr());
        let options = socket2::SockRef::from(&client);
        for ttl in [64, 7, 2, 1, 9] {
            let set = if addr.contains(':') { options.set_unicast_hops_v6(ttl) } else { options.set_ttl_v4(ttl) };
            set.unwrap();
            client.send_to(&ttl.to_be_bytes(), relay.local_addr()).unwrap();
        }
        let arrivals = receive_for(&server, 4, Duration::from_secs(2));
        let seen: Vec<_> = arrivals.iter().map(|arrival| (arrival.number, arrival.ttl)).collect();
        assert_eq!(seen, [(64, 63), (7, 6), (2, 1), (9, 8)], "{addr}");
        let (engine, _) = relay.stop().unwrap();
        let all = engine.stats(Up).all();
        assert_eq!(all.dropped(Cause::TtlExpired), 1);
        let headers = if addr.contains(':') { 48 } else { HEADERS };
        assert_eq!(all.offered_bytes, 5 * (4 + headers));
    }
}

/// Sends a segment with a request over a relay, and returns the request as it arrives, with its TTL.
fn passed(options: &str, request: Request) -> (Forward, u8) {
    let mut header = Header::default();
    header.options.network =
        Some(NetworkOption { forward: Some(Forward { ttl: 64, stamps: 0, request }), feedback: None });
    let mut datagram = vec![0; 1200];
    CheshireCodec::emit(&header, &mut datagram).unwrap();
    let (client, server) = (std::net::UdpSocket::bind("127.0.0.1:0").unwrap(), socket("127.0.0.1"));
    client.set_ttl(64).unwrap();
    let relay = relay(options, server.local_addr());
    client.send_to(&datagram, relay.local_addr()).unwrap();
    let mut batch = RecvBatch::new(&RecvPool::new(32, 0), 32);
    let deadline = Instant::now() + Duration::from_secs(5);
    while server.recv(&mut batch).is_err() {
        assert!(Instant::now() < deadline, "nothing came");
        std::thread::sleep(Duration::from_micros(200));
    }
    let message = batch.messages().next().unwrap();
    let ttl = message.meta.ttl.unwrap();
    let received = message.datagrams().next().unwrap();
    let segment = Segment::parse::<CheshireCodec>(received).unwrap();
    assert_eq!(segment.payload, &datagram[datagram.len() - segment.payload.len()..], "the payload is as it was");
    relay.stop().unwrap();
    (segment.header.options.network.unwrap().forward.unwrap(), ttl)
}

#[test]
fn a_router_stamps_what_passes_the_relay_and_a_relay_without_one_denies() {
    let nonce = QuickStartNonce::new(0x1357_9bdf);
    let throughput = WireRate::default();
    let requests = [
        ("quick-start", Request::QuickStart { rate: QuickStartRate::from_code(11), nonce }),
        ("rcp(gamma=0.95)", Request::Rcp { rate: WireRate::UNLIMITED, rtt_micros: 0 }),
        ("xcp", Request::Xcp { throughput, rtt_micros: 0, delta: WireDelta::new(7) }),
    ];
    for (number, (router, request)) in requests.into_iter().enumerate() {
        let (forward, ttl) = passed(&format!("--rate 20mbit --delay 1ms --router {router}"), request);
        assert_eq!((forward.stamps, forward.ttl, ttl), (1, 64, 63));
        match forward.feedback(Some(ttl)).unwrap() {
            // 85 % of 20 Mb/s admits 10.24 Mb/s.
            Feedback::QuickStart { rate, nonce: left } => {
                assert!(number == 0 && rate.code() == 8 && nonce.approves(rate, left));
            }
            // 5 % of 20 Mb/s.
            Feedback::Rcp { rate } => assert!(number == 1 && rate.rate().as_bytes_per_sec() == 125_000),
            Feedback::Xcp { delta } => assert!(number == 2 && delta.bytes_per_sec() == 0),
            denied => panic!("{router}: {denied:?}"),
        }
        let (other, _) = requests[(number + 1) % 3];
        for options in ["--rate 20mbit".to_owned(), format!("--rate 20mbit --router {other}")] {
            let (forward, ttl) = passed(&options, request);
            assert_eq!((forward.request, forward.stamps, ttl), (request, 0, 63), "{options}");
            assert_eq!(forward.feedback(Some(ttl)), Some(Feedback::Denied));
        }
    }
}

#[test]
fn datagrams_of_every_size_pass() {
    let (client, server) = (socket("127.0.0.1"), socket("127.0.0.1"));
    let relay = relay("--delay 1ms", server.local_addr());
    let plain = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for len in [0, 1, 1472, 9000, 65_507] {
        plain.send_to(&vec![7; len], relay.local_addr()).unwrap();
    }
    let lens: Vec<_> = receive(&server, 5).iter().map(|arrival| arrival.len).collect();
    assert_eq!(lens, [0, 1, 1472, 9000, 65_507]);
    // Batches with different sizes, or with a shorter last datagram, are not mixed up.
    burst(&client, relay.local_addr(), 0, 1200, 0..50);
    burst(&client, relay.local_addr(), 0, 700, 50..100);
    let arrivals = receive(&server, 100);
    assert_eq!(numbers(&arrivals), (0..100).collect::<Vec<_>>());
    assert!(arrivals.iter().all(|arrival| arrival.len == if arrival.number < 50 { 1200 } else { 700 }));
    relay.stop().unwrap();
}

#[test]
fn a_server_may_come_later() {
    let addr = socket("127.0.0.1").local_addr();
    let (client, other) = (socket("127.0.0.1"), socket("127.0.0.1"));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = Options::new(any, addr).and(any, other.local_addr());
    let relay = Running::start(&options, &link("--delay 1ms"), Logs::default()).unwrap();
    let &[to_absent, to_other] = relay.local_addrs() else { panic!("{:?}", relay.local_addrs()) };
    for number in 0..5 {
        burst(&client, to_absent, 0, 100, number..number + 1);
        // Both share a link that keeps the order: when this one has arrived, the one before has been refused.
        burst(&client, to_other, 0, 100, number..number + 1);
        assert_eq!(numbers(&receive(&other, 1)), [number]);
    }
    let server = longhaul_sys::linux::UdpSocket::new(std::net::UdpSocket::bind(addr).unwrap()).unwrap();
    burst(&client, to_absent, 0, 100, 5..15);
    assert_eq!(numbers(&receive(&server, 10)), (5..15).collect::<Vec<_>>());
    relay.stop().unwrap();
}

#[test]
fn a_log_has_mahimahis_lines_of_each_direction() {
    let directory = std::env::temp_dir().join(format!("longhaul-linkem-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (client, server) = (socket("127.0.0.1"), socket("127.0.0.1"));
    let options = Options::new(SocketAddr::from(([127, 0, 0, 1], 0)), server.local_addr());
    let files = LogFiles { up: Some(file("up")), down: Some(file("down")) };
    let path = link("--rate 1mbit --delay 3ms --queue 2p");
    let relay = Running::start(&options, &path, Logs::create(&files, "test").unwrap()).unwrap();
    burst(&client, relay.local_addr(), 0, 972, 0..5);
    let arrivals = receive(&server, 3);
    burst(&server, arrivals[0].from, 0, 100, 0..1);
    assert_eq!(receive(&client, 1).len(), 1);
    relay.stop().unwrap();
    let [up, down] = [file("up"), file("down")].map(|name| std::fs::read_to_string(name).unwrap());
    std::fs::remove_dir_all(directory).unwrap();
    assert!(up.starts_with("# mahimahi test\n# queue: longhaul-link\n# init timestamp: "), "{up}");
    // Each packet takes 8 ms. The time of the first is removed, because it depends on the client.
    let events = |log: &str| -> Vec<String> {
        let lines = log.lines().filter(|line| !line.starts_with('#') && !line.contains(" # "));
        lines.map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    };
    let expected =
        ["+ 1000"; 4].iter().chain(&["d 1 1000", "+ 1000", "d 1 1000", "- 1000 8", "- 1000 16", "- 1000 24"]);
    assert_eq!(events(&up), expected.map(|line| (*line).to_owned()).collect::<Vec<_>>());
    assert_eq!(events(&down), ["+ 128", "- 128 1"]);
    // Each direction has opportunities from the start, one per 12.032 ms for 1504 bytes.
    for part in ["# base timestamp: 0\n", "\n0 # 1504\n", "\n12 # 1504\n", "\n24 # 1504\n"] {
        assert!(up.contains(part) && down.contains(part), "{part:?}: {up}{down}");
    }
}
