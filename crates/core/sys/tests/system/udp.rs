//! UDP over the loopback interface.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;
use longhaul_sys::clock::ClockMap;
use longhaul_sys::linux::{
    ErrorClass, MAX_GSO_SEGMENTS, Meta, RecvBatch, Transmit, UdpSocket, clock_pair, monotonic_now,
};
use longhaul_sys::pool::RecvPool;

/// Listening address of the server, local address of the client, and destination address of the client.
const FAMILIES: [(&str, &str, &str); 9] = [
    ("0.0.0.0:0", "127.0.0.1:0", "127.0.0.1"),
    ("0.0.0.0:0", "127.0.0.1:0", "127.0.0.9"),
    ("[::]:0", "[::1]:0", "::1"),
    ("[::]:0", "127.0.0.1:0", "127.0.0.1"),
    ("[::]:0", "[::]:0", "127.0.0.1"),
    ("127.0.0.2:0", "0.0.0.0:0", "127.0.0.2"),
    ("[::1]:0", "[::]:0", "::1"),
    ("[::ffff:127.0.0.1]:0", "127.0.0.1:0", "127.0.0.1"),
    ("[::ffff:0.0.0.0]:0", "127.0.0.1:0", "127.0.0.9"),
];

fn bind(addr: &str) -> UdpSocket {
    UdpSocket::new(std::net::UdpSocket::bind(addr).unwrap()).unwrap()
}

/// Creates server and client. Returns them with the server's address as used by the client.
fn pair((listen, from, to): (&str, &str, &str)) -> (UdpSocket, UdpSocket, SocketAddr) {
    let server = bind(listen);
    let to: IpAddr = to.parse().unwrap();
    let destination = SocketAddr::new(to, server.local_addr().port());
    (server, bind(from), destination)
}

fn to<'a>(destination: SocketAddr, slices: &'a [IoSlice<'a>]) -> Transmit<'a> {
    Transmit { destination: Some(destination), tos: 0, src_ip: None, segment_size: None, slices }
}

/// Waits until a message arrives, and receives it.
fn recv(socket: &UdpSocket, batch: &mut RecvBatch) -> io::Result<usize> {
    for _ in 0..2000 {
        match socket.recv(batch) {
            Err(error) if ErrorClass::of(&error) == ErrorClass::WouldBlock => sleep(Duration::from_millis(1)),
            result => return result,
        }
    }
    panic!("nothing arrived");
}

fn batch() -> RecvBatch {
    RecvBatch::new(&RecvPool::new(32, 1024), 8)
}

fn datagrams(socket: &UdpSocket, count: usize) -> Vec<(Meta, Vec<u8>)> {
    let mut batch = batch();
    let mut all = Vec::new();
    while all.len() < count {
        recv(socket, &mut batch).unwrap();
        for message in batch.messages() {
            all.extend(message.datagrams().map(|bytes| (*message.meta, bytes.to_vec())));
        }
    }
    all
}

#[test]
fn everything_is_granted_here() {
    for addr in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
        let socket = bind(addr);
        let f = socket.features();
        assert!(
            f.gro && f.gso && f.timestamps && f.tos && f.ttl && f.dst_ip && f.drops && f.dont_fragment,
            "{addr}: {f:?}"
        );
        assert_eq!(socket.max_gso_segments(), MAX_GSO_SEGMENTS);
    }
}

#[test]
fn a_gathered_batch_is_merged_and_cut_again() {
    for family in FAMILIES {
        let (server, client, destination) = pair(family);
        let payload: Vec<u8> = (0..20_500_u32).map(|i| (i * i / 7) as u8).collect();
        // The boundaries of slices differ from those of datagrams, and one slice is empty.
        let cuts = [0, 12, 12, 1000, 1700, 9_999, 20_499, 20_500];
        let slices: Vec<_> = cuts.windows(2).map(|w| IoSlice::new(&payload[w[0]..w[1]])).collect();
        let batch = Transmit { segment_size: Some(1000), ..to(destination, &slices) };
        client.send(&batch).unwrap();

        let received = datagrams(&server, 21);
        let expected: Vec<_> = payload.chunks(1000).collect();
        let got: Vec<_> = received.iter().map(|(_, bytes)| &bytes[..]).collect();
        assert_eq!(got, expected, "{family:?}");
        let (meta, _) = &received[0];
        assert!(meta.coalesced() && meta.stride == 1000, "{meta:?}");
    }
}

#[test]
fn a_last_segment_alone_needs_no_segmentation() {
    let (server, client, destination) = pair(FAMILIES[0]);
    for len in [999, 1000] {
        let payload = vec![1; len];
        let slices = [IoSlice::new(&payload)];
        client.send(&Transmit { segment_size: Some(1000), ..to(destination, &slices) }).unwrap();
        let (meta, bytes) = datagrams(&server, 1).remove(0);
        assert_eq!((bytes.len(), meta.stride, meta.coalesced()), (len, len, false));
    }
}

/// All control messages of a coalesced message fit: timestamp, segment size, destination, TOS, TTL, drops.
#[test]
fn ecn_and_dscp_survive_merging_beside_everything_else() {
    for family in FAMILIES {
        for tos in (0..4).flat_map(|ecn| [0, 1, 46, 63].map(|dscp| dscp << 2 | ecn)) {
            for segment_size in [None, Some(100)] {
                let (server, client, destination) = pair(family);
                let payload = [7; 1000];
                let slices = [IoSlice::new(&payload)];
                client.send(&Transmit { tos, segment_size, ..to(destination, &slices) }).unwrap();

                let (meta, _) = datagrams(&server, 1).remove(0);
                assert_eq!(meta.tos, Some(tos), "{family:?} {segment_size:?}");
                assert_eq!(meta.ecn(), tos & 3);
                assert_eq!(meta.coalesced(), segment_size.is_some());
                assert_eq!(meta.addr.port(), client.local_addr().port());
                assert!(meta.addr.ip().is_loopback(), "mapped addresses are unmapped: {}", meta.addr);
                assert_eq!(meta.dst_ip, Some(destination.ip()));
                assert_eq!(meta.ttl, Some(64));
                assert!(meta.timestamp.is_some() && !meta.control_truncated && !meta.truncated, "{meta:?}");
            }
        }
    }
}

/// After drops, there is an additional control message.
#[test]
fn drops_are_counted_and_fit_too() {
    for family in FAMILIES {
        let (server, client, destination) = pair(family);
        server.set_recv_buffer(40_000).unwrap();
        let payload = [7; 60_000];
        let slices = [IoSlice::new(&payload)];
        let transmit = Transmit { tos: 3, segment_size: Some(1000), ..to(destination, &slices) };
        for _ in 0..10 {
            client.send(&transmit).unwrap();
        }
        let mut batch = batch();
        while server.recv(&mut batch).is_ok() {}
        client.send(&transmit).unwrap();
        let (meta, _) = datagrams(&server, 1).remove(0);
        assert!(meta.drops > Some(0), "{meta:?}");
        assert!(meta.ecn() == 3 && meta.dst_ip.is_some() && meta.ttl.is_some() && meta.timestamp.is_some());
        assert!(meta.coalesced() && !meta.control_truncated);
    }
}

#[test]
fn a_mark_ends_with_its_datagram() {
    for family in FAMILIES {
        let (server, client, destination) = pair(family);
        let slices = [IoSlice::new(b"x")];
        for tos in [0xb9, 0, 2, 0] {
            client.send(&Transmit { tos, ..to(destination, &slices) }).unwrap();
            assert_eq!(datagrams(&server, 1)[0].0.tos, Some(tos));
        }
    }
}

#[test]
fn replies_come_from_the_address_that_was_called() {
    for family in FAMILIES {
        let (server, client, destination) = pair(family);
        let slices = [IoSlice::new(b"call")];
        client.send(&to(destination, &slices)).unwrap();
        let (call, _) = datagrams(&server, 1).remove(0);
        let reply = Transmit { src_ip: call.dst_ip, tos: 1, ..to(call.addr, &slices) };
        server.send(&reply).unwrap();
        let (meta, _) = datagrams(&client, 1).remove(0);
        assert_eq!((meta.addr, meta.tos), (destination, Some(1)), "{family:?}");
    }
}

#[test]
fn a_connected_socket_needs_no_destination() {
    for (listen, from, to) in FAMILIES {
        let server = bind(listen);
        let io = std::net::UdpSocket::bind(from).unwrap();
        let to: IpAddr = to.parse().unwrap();
        io.connect(SocketAddr::new(if from == "[::]:0" { mapped(to) } else { to }, server.local_addr().port()))
            .unwrap();
        let client = UdpSocket::new(io).unwrap();
        let payload = [1; 300];
        let slices = [IoSlice::new(&payload)];
        let transmit =
            Transmit { destination: None, tos: 0x2a, src_ip: None, segment_size: Some(100), slices: &slices };
        client.send(&transmit).unwrap();
        let (meta, _) = datagrams(&server, 3).remove(0);
        assert_eq!(meta.tos, Some(0x2a), "{from}");
        assert_eq!(meta.dst_ip, Some(to));
    }
}

fn mapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        v6 => v6,
    }
}

#[test]
fn a_small_buffer_yields_whole_datagrams_only() {
    let (server, client, destination) = pair(FAMILIES[0]);
    let payload: Vec<u8> = (0..10_000_u32).map(|i| (i / 1000) as u8).collect();
    let slices = [IoSlice::new(&payload)];
    client.send(&Transmit { segment_size: Some(1000), ..to(destination, &slices) }).unwrap();
    client.send(&to(destination, &slices)).unwrap();

    let pool = RecvPool::with_buffer_len(2500, 4, 4);
    let mut batch = RecvBatch::new(&pool, 4);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        recv(&server, &mut batch).unwrap();
        seen.extend(
            batch.messages().map(|m| (m.meta.truncated, m.datagrams().map(<[u8]>::to_vec).collect::<Vec<_>>())),
        );
    }
    assert_eq!(seen, [(true, vec![vec![0; 1000], vec![1; 1000]]), (true, vec![])]);
}

#[test]
fn receive_stamps_map_between_the_send_and_the_read() {
    let (server, client, destination) = pair(FAMILIES[0]);
    let mut map = ClockMap::new(clock_pair());
    let slices = [IoSlice::new(b"x")];
    let mut batch = batch();
    for _ in 0..100 {
        let before = monotonic_now();
        client.send(&to(destination, &slices)).unwrap();
        recv(&server, &mut batch).unwrap();
        map.begin_batch(clock_pair());
        let stamp = batch.messages().next().unwrap().meta.timestamp.unwrap();
        let arrived = map.map(stamp).unwrap();
        // The conversion is inexact, because `clock_pair` reads the two clocks at slightly different times.
        assert!(arrived + 1_000_000 > before && arrived <= monotonic_now());
    }
}

#[test]
fn a_batch_goes_in_order_up_to_the_first_failure() {
    let (server, client, destination) = pair(FAMILIES[0]);
    let names: Vec<[u8; 1]> = (0..40).map(|i| [i]).collect();
    let small: Vec<_> = names.iter().map(|name| [IoSlice::new(name)]).collect();
    let huge = vec![0; 70_000];
    let huge = [IoSlice::new(&huge)];
    let mut all: Vec<_> = small.iter().map(|slices| to(destination, slices)).collect();
    all.insert(5, to(destination, &huge));

    let mut rest = &all[..];
    let mut calls = Vec::new();
    while !rest.is_empty() {
        match client.send_batch(rest) {
            Ok(sent) => {
                calls.push(sent as i32);
                rest = &rest[sent..];
            }
            Err(error) => {
                assert_eq!(ErrorClass::of(&error), ErrorClass::MessageTooLarge);
                calls.push(-1);
                rest = &rest[1..];
            }
        }
    }
    assert_eq!(calls, [5, -1, 32, 3]);
    assert_eq!(client.send_batch(&[]).unwrap(), 0);
    let order: Vec<u8> = datagrams(&server, 40).iter().map(|(_, bytes)| bytes[0]).collect();
    assert_eq!(order, (0..40).collect::<Vec<_>>());
}

#[test]
fn a_batch_may_mix_destinations_sizes_and_marks() {
    let (a, client, to_a) = pair(FAMILIES[0]);
    let (b, _, to_b) = pair(FAMILIES[3]);
    let payload = [5; 500];
    let slices = [IoSlice::new(&payload)];
    let transmits = [
        Transmit { tos: 1, segment_size: Some(100), ..to(to_a, &slices) },
        Transmit { tos: 2, ..to(to_b, &slices) },
        Transmit { tos: 0xb8, ..to(to_a, &slices) },
    ];
    assert_eq!(client.send_batch(&transmits).unwrap(), 3);
    let at_a: Vec<_> = datagrams(&a, 6).iter().map(|(m, bytes)| (m.tos.unwrap(), bytes.len())).collect();
    assert_eq!(at_a, [[(1, 100); 5].to_vec(), vec![(0xb8, 500)]].concat());
    let at_b = datagrams(&b, 1);
    assert_eq!((at_b[0].0.tos, at_b[0].1.len()), (Some(2), 500));
}

#[test]
fn errors_are_the_systems_and_classified() {
    let class = |result: io::Result<()>| ErrorClass::of(&result.unwrap_err());
    let (_server, client, destination) = pair(FAMILIES[0]);
    let huge = vec![0; 70_000];
    let slices = [IoSlice::new(&huge)];
    assert_eq!(class(client.send(&to(destination, &slices))), ErrorClass::MessageTooLarge);
    let batch = Transmit { segment_size: Some(1200), ..to(destination, &slices) };
    assert_eq!(class(client.send(&batch)), ErrorClass::MessageTooLarge);
    assert_eq!(client.max_gso_segments(), MAX_GSO_SEGMENTS);

    let small = [IoSlice::new(b"x")];
    let nowhere = SocketAddr::new(destination.ip(), 0);
    assert_eq!(class(client.send(&to(nowhere, &small))), ErrorClass::Unreachable);
    let foreign = Transmit { src_ip: Some("192.0.2.1".parse().unwrap()), ..to(destination, &small) };
    assert_eq!(class(client.send(&foreign)), ErrorClass::Unreachable);
    let wrong_family = to("[::1]:9".parse().unwrap(), &small);
    assert_eq!(class(client.send(&wrong_family)), ErrorClass::Fatal);

    let many = vec![IoSlice::new(b""); 1025];
    let error = client.send(&to(destination, &many)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    client.send(&to(destination, &many[..1024])).unwrap();
    let error = client.recv(&mut self::batch()).unwrap_err();
    assert_eq!(ErrorClass::of(&error), ErrorClass::WouldBlock);
}

#[test]
fn a_closed_port_is_reported_on_the_next_call() {
    // Another test may be given a port that has just been closed, but never this privileged one.
    let closed = "127.0.0.1:1";
    let io = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    io.connect(closed).unwrap();
    let client = UdpSocket::new(io).unwrap();
    let slices = [IoSlice::new(b"x")];
    let transmit = Transmit { destination: None, tos: 0, src_ip: None, segment_size: None, slices: &slices };
    client.send(&transmit).unwrap();
    let error = recv(&client, &mut batch()).unwrap_err();
    assert_eq!(ErrorClass::of(&error), ErrorClass::Refused);
    client.send(&transmit).unwrap();
}

#[test]
fn buffer_sizes_are_granted_and_read_back() {
    let socket = bind("127.0.0.1:0");
    assert_eq!(socket.set_recv_buffer(300_000).unwrap(), 300_000);
    assert_eq!(socket.recv_buffer().unwrap(), 300_000);
    assert_eq!(socket.set_send_buffer(100_000).unwrap(), 100_000);
    assert_eq!(socket.send_buffer().unwrap(), 100_000);
    let most = socket.set_recv_buffer(usize::MAX).unwrap();
    assert!(most >= 300_000);
    assert_eq!(socket.recv_buffer().unwrap(), most, "what is returned was granted");
}

#[test]
fn taken_bytes_outlive_the_batch_and_their_buffers_come_back() {
    let (server, client, destination) = pair(FAMILIES[0]);
    let pool = RecvPool::new(4, 1024);
    let mut batch = RecvBatch::new(&pool, 2);
    let mut kept: Vec<Bytes> = Vec::new();
    for round in 0..10 {
        let payload = [round; 40_000];
        let slices = [IoSlice::new(&payload)];
        client.send(&Transmit { segment_size: Some(1000), ..to(destination, &slices) }).unwrap();
        client.send(&to(destination, &[IoSlice::new(&payload[..100])])).unwrap();
        let mut bytes = 0;
        while bytes < 40_100 {
            recv(&server, &mut batch).unwrap();
            for mut message in batch.messages() {
                bytes += message.data().len();
                kept.push(message.take());
            }
        }
    }
    let large: Vec<_> = kept.iter().filter(|bytes| bytes.len() == 40_000).collect();
    assert_eq!((large.len(), pool.kept()), (10, 10));
    for (round, bytes) in large.iter().enumerate() {
        assert!(bytes.iter().all(|&byte| usize::from(byte) == round));
    }
    assert!(pool.live() <= 12);
    kept.clear();
    drop(batch);
    assert_eq!((pool.live(), pool.kept(), pool.spare()), (0, 0, 4));
}
