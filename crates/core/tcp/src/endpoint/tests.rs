//! Tests of an endpoint with individual segments.

use std::net::Ipv6Addr;

use bytes::Bytes;
use longhaul_units::Span;
use longhaul_wire::{CheshireCodec, Codec, Flags, Timestamps};

use super::*;
use crate::batch::Batch;

mod group;
mod moves;
mod rules;
mod runs;
mod strays;
mod time_wait;
mod trains;
mod turns;

const NOW: Time = Time::from_nanos(1_000_000_000);

fn tuple(remote: IpAddr, local: IpAddr) -> Tuple {
    Tuple { remote: SocketAddr::new(remote, 4000), local }
}

fn here() -> IpAddr {
    IpAddr::from([192, 0, 2, 2])
}

fn there() -> IpAddr {
    IpAddr::from([192, 0, 2, 1])
}

fn listening(config: Config) -> Endpoint {
    let mut endpoint = Endpoint::new(EndpointConfig::new([5; 32]), NOW);
    endpoint.listen(Arc::new(config));
    endpoint
}

fn datagram(header: &Header) -> Vec<u8> {
    let mut datagram = vec![0; 60];
    let len = CheshireCodec::emit(header, &mut datagram).unwrap();
    datagram.truncate(len);
    datagram
}

fn deliver(endpoint: &mut Endpoint, now: Time, tuple: Tuple, header: &Header, payload: &[u8]) {
    let mut datagram = datagram(header);
    datagram.extend_from_slice(payload);
    let mut meta = DatagramMeta::new(tuple.remote, datagram.len());
    meta.tuple = tuple;
    endpoint.handle_datagram(now, &meta, &datagram, None);
}

fn sent(endpoint: &mut Endpoint, now: Time) -> Vec<Header> {
    let mut batch = Batch::default();
    let mut headers = Vec::new();
    while endpoint.poll_transmit(now, &mut batch, 64).is_some() {
        headers.extend(batch.parts().map(|(_, header)| CheshireCodec::parse(header).unwrap().0));
    }
    headers
}

fn syn() -> Header {
    let mut syn = Header { flags: Flags::SYN, seq: 99, window: 65_535, ..Header::default() };
    syn.options.timestamps = Some(Timestamps { value: 1, echo: 0 });
    syn
}

fn connect(endpoint: &mut Endpoint, tuple: Tuple, syn: &Header) -> (ConnId, Header) {
    connect_in(endpoint, tuple, syn, Span::ZERO)
}

/// Opens a connection whose handshake takes a round trip of this time.
fn connect_in(endpoint: &mut Endpoint, tuple: Tuple, syn: &Header, round_trip: Span) -> (ConnId, Header) {
    deliver(endpoint, NOW, tuple, syn, &[]);
    let answer = sent(endpoint, NOW).pop().unwrap();
    let mut ack = Header {
        flags: Flags::ACK,
        seq: syn.seq.wrapping_add(1),
        ack: answer.seq.wrapping_add(1),
        window: 1000,
        ..Header::default()
    };
    ack.options.timestamps = answer.options.timestamps.map(|t| Timestamps { value: 2, echo: t.value });
    deliver(endpoint, NOW + round_trip, tuple, &ack, &[]);
    (endpoint.accept().unwrap(), ack)
}

/// RFC 9293, MUST-15: 536 bytes for IPv4 and 1220 for IPv6, minus 12 bytes of options.
#[test]
fn a_syn_without_mss_implies_the_default_of_the_ip_version() {
    let v6 = |last| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
    for (tuple, mss) in [(tuple(there(), here()), 524), (tuple(v6(1), v6(2)), 1208)] {
        let mut endpoint = listening(Config::default());
        let (id, _) = connect(&mut endpoint, tuple, &syn());
        assert_eq!(endpoint.connection(id).unwrap().info(NOW).mss, mss);
    }
}

/// The last ACK of a connection in TIME-WAIT leaves nothing to be sent, but the endpoint has to forget the connection.
#[test]
fn a_released_connection_is_forgotten_after_its_last_ack() {
    let mut endpoint = listening(Config::default());
    let tuple = tuple(there(), here());
    let (id, ack) = connect(&mut endpoint, tuple, &syn());
    endpoint.release(NOW, id);
    assert!(sent(&mut endpoint, NOW).pop().unwrap().flags.contains(Flags::FIN));
    let fin = Header { flags: Flags::ACK | Flags::FIN, ack: ack.ack.wrapping_add(1), ..ack };
    deliver(&mut endpoint, NOW, tuple, &fin, &[]);
    assert_eq!(endpoint.connection(id).unwrap().state(), State::TimeWait);
    assert_eq!(sent(&mut endpoint, NOW).pop().unwrap().flags, Flags::ACK);
    assert!(endpoint.connection(id).is_none());
}

/// RFC 9293, MUST-41.
#[test]
fn listening_again_keeps_connections_that_wait_for_accept() {
    let mut endpoint = listening(Config::default());
    let tuple = tuple(there(), here());
    deliver(&mut endpoint, NOW, tuple, &syn(), &[]);
    let answer = sent(&mut endpoint, NOW).pop().unwrap();
    endpoint.listen(Arc::new(Config::default()));
    let mut ack = Header { flags: Flags::ACK, seq: 100, ack: answer.seq.wrapping_add(1), ..Header::default() };
    ack.options.timestamps = answer.options.timestamps.map(|t| Timestamps { value: 2, echo: t.value });
    deliver(&mut endpoint, NOW, tuple, &ack, &[]);
    endpoint.listen(Arc::new(Config::default()));
    assert!(endpoint.accept().is_some());
}

/// RFC 9293, MUST-46, MUST-57 and MUST-63.
#[test]
fn broadcast_and_multicast_addresses_are_no_peers() {
    let everybody = [IpAddr::from([255, 255, 255, 255]), IpAddr::from([224, 0, 0, 1]), "ff02::1".parse().unwrap()];
    for address in everybody {
        let mut endpoint = listening(Config::default());
        deliver(&mut endpoint, NOW, tuple(there(), address), &syn(), &[]);
        deliver(&mut endpoint, NOW, tuple(address, here()), &syn(), &[]);
        assert_eq!((sent(&mut endpoint, NOW).len(), endpoint.len()), (0, 0), "{address}");
        assert!(endpoint.connect(NOW, tuple(address, here()), Arc::new(Config::default())).is_none(), "{address}");
    }
}

/// RFC 9293, MUST-40.
#[test]
fn ack_delay_is_limited_to_half_a_second() {
    let mut endpoint = listening(Config { ack_delay: Span::from_secs(10), ..Config::default() });
    let tuple = tuple(there(), here());
    let (_, ack) = connect(&mut endpoint, tuple, &syn());
    deliver(&mut endpoint, NOW, tuple, &ack, b"x");
    assert_eq!(sent(&mut endpoint, NOW).len(), 0);
    let mut acks = 0;
    while let Some(at) = endpoint.poll_timeout().filter(|at| *at - NOW < Span::from_millis(500)) {
        endpoint.handle_timeout(at);
        acks += sent(&mut endpoint, at).len();
    }
    assert_eq!(acks, 1);
}

/// The data of connections that wait for each other's turns would stay unsent for long.
#[test]
fn connections_that_send_in_turns_share_the_limit_of_unsent_data() {
    let mut endpoint = listening(Config { nagle: false, ..Config::default() });
    let peers = (0..3).map(|port| Tuple { remote: SocketAddr::new(there(), 1000 + port), ..tuple(there(), here()) });
    let ids: Vec<_> = peers.map(|tuple| connect(&mut endpoint, tuple, &syn()).0).collect();
    for (busy, limit) in [(1, 256 << 10), (3, (256 << 10) / 3), (2, 128 << 10)] {
        let busy = &ids[..busy];
        for id in busy {
            endpoint.drive(NOW, *id, |c| c.write(&[7]).unwrap());
        }
        let mut batch = Batch::default();
        for _ in busy {
            assert!(endpoint.poll_transmit(NOW, &mut batch, 64).is_some());
        }
        assert!(busy.iter().all(|id| endpoint.connection(*id).unwrap().status().writable() == limit), "{limit}");
        assert_eq!(sent(&mut endpoint, NOW).len(), 0);
    }
}

/// A writer that waits can go on before all of its data has been sent.
#[test]
fn a_writer_is_woken_between_two_batches() {
    let mut endpoint = listening(Config { notsent_lowat: Some(3_000), ..Config::default() });
    let (id, mut ack) = connect(&mut endpoint, tuple(there(), here()), &syn());
    ack.window = 60_000;
    deliver(&mut endpoint, NOW, tuple(there(), here()), &ack, &[]);
    let write = |c: &mut Connection| while c.write(&[7; 500]).is_ok() {};
    endpoint.drive(NOW, id, write).unwrap();
    let (mut batch, mut batches, mut woken) = (Batch::default(), 0, None);
    while endpoint.poll_transmit(NOW, &mut batch, 1).is_some() {
        batches += 1;
        while let Some(event) = endpoint.poll_event() {
            if matches!(event, EndpointEvent::Connection(_, Event::Writable)) {
                woken = woken.or(Some(batches));
            }
        }
    }
    assert!(woken.is_some_and(|woken| woken < batches), "{woken:?} of {batches}");
}

/// RFC 9293, MUST-37: a peer that sends ACKs is kept, even if its window has shrunk below the data in flight.
#[test]
fn a_window_that_shrinks_to_zero_below_snd_nxt_is_survived() {
    let mut endpoint = listening(Config::default());
    let tuple = tuple(there(), here());
    let (id, mut ack) = connect(&mut endpoint, tuple, &syn());
    endpoint.drive(NOW, id, |c| c.write(&[7; 5000])).unwrap().unwrap();
    assert!(!sent(&mut endpoint, NOW).is_empty());
    ack.window = 0;
    let mut now = NOW;
    for _ in 0..40 {
        now = endpoint.poll_timeout().unwrap().max(now);
        endpoint.handle_timeout(now);
        for _ in sent(&mut endpoint, now) {
            deliver(&mut endpoint, now, tuple, &ack, &[]);
        }
    }
    assert!(now - NOW > Span::from_secs(900), "{now}");
    assert_eq!(endpoint.connection(id).unwrap().state(), State::Established);
}

/// A datagram in two parts is handled like a contiguous one, even if a damaged header claims a different length.
#[test]
fn a_datagram_in_parts_is_the_same_datagram() {
    let outcome = |claims: i8, in_parts: bool| {
        let mut endpoint = listening(Config::default());
        let tuple = tuple(there(), here());
        let (id, ack) = connect(&mut endpoint, tuple, &syn());
        let mut header = vec![0; 60];
        let len = CheshireCodec::emit(&ack, &mut header).unwrap();
        header.truncate(len);
        // The data offset is the high half of the first octet (`docs/wire.md`).
        header[0] = (header[0] >> 4).wrapping_add_signed(claims) << 4 | header[0] & 15;
        let payload = Bytes::from_static(&[1; 100]);
        let mut meta = DatagramMeta::new(tuple.remote, len + 100);
        meta.tuple = tuple;
        if in_parts {
            endpoint.handle_parts(NOW, &meta, &header, &payload);
        } else {
            endpoint.handle_datagram(NOW, &meta, &[&header, &payload[..]].concat(), None);
        }
        let received = endpoint.connection(id).unwrap().info(NOW).bytes_received;
        (received, endpoint.stats().malformed)
    };
    for claims in [0, -1, 1, 2] {
        assert_eq!(outcome(claims, true), outcome(claims, false), "{claims}");
    }
    assert_eq!(outcome(0, true), (100, 0));
}

fn from(address: [u8; 4], port: u16) -> Tuple {
    Tuple { remote: SocketAddr::from((address, port)), local: here() }
}

/// If one address has reached its limit, other addresses can still connect. SYN cookies do not bypass the limit.
#[test]
fn connections_per_address_are_limited() {
    for always_cookies in [false, true] {
        let config = EndpointConfig { max_per_address: 3, always_cookies, ..EndpointConfig::new([5; 32]) };
        let mut endpoint = Endpoint::new(config, NOW);
        endpoint.listen(Arc::new(Config::default()));
        let ids: Vec<_> = (1..=3).map(|port| connect(&mut endpoint, from([192, 0, 2, 1], port), &syn()).0).collect();
        deliver(&mut endpoint, NOW, from([192, 0, 2, 1], 4), &syn(), &[]);
        if let Some(answer) = sent(&mut endpoint, NOW).pop() {
            let mut ack = Header { flags: Flags::ACK, seq: 100, ack: answer.seq.wrapping_add(1), ..Header::default() };
            ack.options.timestamps = answer.options.timestamps.map(|t| Timestamps { value: 2, echo: t.value });
            deliver(&mut endpoint, NOW, from([192, 0, 2, 1], 4), &ack, &[]);
        }
        assert_eq!((endpoint.len(), endpoint.stats().refused), (3, 1));
        connect(&mut endpoint, from([192, 0, 2, 7], 1), &syn());
        // A closed connection makes room for another.
        endpoint.drive(NOW, ids[0], Connection::abort);
        endpoint.release(NOW, ids[0]);
        sent(&mut endpoint, NOW);
        connect(&mut endpoint, from([192, 0, 2, 1], 4), &syn());
        assert_eq!(endpoint.len(), 4);
    }
}

/// With the defaults, 50,000 idle connections of one host do not impede the next client.
#[test]
fn fifty_thousand_idle_connections_do_not_impede_the_next_client() {
    let mut endpoint = listening(Config::default());
    for port in 1..=50_000 {
        connect(&mut endpoint, from([192, 0, 2, 1], port), &syn());
    }
    assert_eq!((endpoint.len(), endpoint.stats().cookies_sent, endpoint.stats().refused), (50_000, 0, 0));
    // The handshake completes at once, for the same host and for another one.
    for newcomer in [from([192, 0, 2, 1], 50_001), from([192, 0, 2, 7], 1)] {
        let (id, _) = connect(&mut endpoint, newcomer, &syn());
        assert_eq!(endpoint.connection(id).unwrap().state(), State::Established);
    }
    assert!(endpoint.memory() < endpoint.config.max_memory / 10, "{}", endpoint.memory());
}

/// Out-of-order data, which the application cannot read, fills the memory limit of one address and no more. Data of
/// another address is stored as before, and the memory of closed connections is released.
#[test]
fn memory_per_address_is_limited() {
    const LIMIT: usize = 1 << 20;
    let config = EndpointConfig { max_memory_per_address: LIMIT, ..EndpointConfig::new([5; 32]) };
    let mut endpoint = Endpoint::new(config, NOW);
    endpoint.listen(Arc::new(Config::default()));
    let mut syn = Header { flags: Flags::SYN, seq: 99, window: 65_535, ..Header::default() };
    syn.options.window_scale = Some(7);
    // Opens a connection and sends 280 kB of such data on it.
    let flood = |endpoint: &mut Endpoint, from: Tuple| {
        let before = endpoint.memory();
        let (id, ack) = connect(endpoint, from, &syn);
        for segment in 1..=200 {
            let header = Header { seq: ack.seq + segment * 1_400, ..ack.clone() };
            deliver(endpoint, NOW, from, &header, &[7; 1_400]);
            sent(endpoint, NOW);
        }
        (id, endpoint.memory().saturating_sub(before))
    };
    let held: Vec<_> = (1..=10).map(|port| flood(&mut endpoint, from([192, 0, 2, 1], port))).collect();
    let total: usize = held.iter().map(|(_, memory)| memory).sum();
    assert!((LIMIT..LIMIT + 10 * (64 << 10)).contains(&total), "{held:?}");
    let (_, others) = flood(&mut endpoint, from([192, 0, 2, 7], 1));
    assert!(others >= 200 * 1_400, "{others}");
    for (id, _) in held.into_iter().skip(1) {
        endpoint.drive(NOW, id, Connection::abort);
        endpoint.release(NOW, id);
    }
    sent(&mut endpoint, NOW);
    let (_, again) = flood(&mut endpoint, from([192, 0, 2, 1], 20));
    assert!(again >= 200 * 1_400, "{again}");
}
