use etherparse::{IpHeaders, PacketHeaders, TransportHeader};
use proptest::prelude::*;

use super::*;
use crate::{CheshireCodec, Codec, Flags, Header, Timestamps};

const PAYLOAD: &[u8] = b"an odd length";

fn datagram() -> Vec<u8> {
    let mut header =
        Header { flags: Flags::ACK | Flags::PSH | Flags::AE, window: 512, seq: 1000, ack: 7, ..Header::default() };
    header.options.timestamps = Some(Timestamps { value: 55, echo: 44 });
    let mut bytes = vec![0; 24];
    CheshireCodec::emit(&header, &mut bytes).unwrap();
    bytes.extend_from_slice(PAYLOAD);
    bytes
}

fn addresses(v6: bool) -> (SocketAddr, SocketAddr) {
    let parse = |text: &str| text.parse().unwrap();
    if v6 {
        (parse("[2001:db8::1]:40000"), parse("[2001:db8:ffff::2]:7000"))
    } else {
        (parse("192.0.2.1:40000"), parse("198.51.100.255:7000"))
    }
}

fn to_tcp(datagram: &[u8], v6: bool, ip: IpFields) -> Vec<u8> {
    let (source, destination) = addresses(v6);
    let mut out = vec![0xee; datagram.len() + MAX_GROWTH];
    let len = tcp_from_udp(datagram, source, destination, ip, &mut out).unwrap();
    out.truncate(len);
    out
}

fn to_udp(datagram: &[u8], v6: bool) -> Vec<u8> {
    let (source, destination) = addresses(v6);
    let mut out = vec![0xee; datagram.len() + MAX_GROWTH];
    let ip = IpFields { tos: 2, ..IpFields::default() };
    let len = udp_packet(datagram, source, destination, ip, &mut out).unwrap();
    out.truncate(len);
    out
}

/// Parses a packet with `etherparse`, an implementation independent of this crate.
fn read(packet: &[u8]) -> (IpHeaders, etherparse::TcpHeader, Vec<u8>) {
    let headers = PacketHeaders::from_ip_slice(packet).unwrap();
    let Some(etherparse::NetHeaders::Ipv4(..) | etherparse::NetHeaders::Ipv6(..)) = headers.net else {
        panic!("no IP")
    };
    let Some(TransportHeader::Tcp(tcp)) = headers.transport else { panic!("no TCP") };
    let (ip, _) = IpHeaders::from_slice(packet).unwrap();
    (ip, tcp, headers.payload.slice().to_vec())
}

#[test]
fn etherparse_reads_the_ipv4_form() {
    let fields = IpFields { ttl: 61, tos: 0x05, identification: 0xbeef };
    let packet = to_tcp(&datagram(), false, fields);
    let (ip, tcp, payload) = read(&packet);
    let IpHeaders::Ipv4(ip, _) = ip else { panic!("not IPv4") };
    assert_eq!((ip.source, ip.destination), ([192, 0, 2, 1], [198, 51, 100, 255]));
    assert_eq!((ip.time_to_live, ip.identification, ip.dont_fragment), (61, 0xbeef, true));
    assert_eq!((ip.dscp.value(), ip.ecn.value()), (1, 1));
    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    assert_eq!(usize::from(ip.total_len), packet.len());
    assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(&ip, &payload).unwrap());
    assert_eq!((tcp.source_port, tcp.destination_port), (40_000, 7_000));
    assert_eq!((tcp.sequence_number, tcp.acknowledgment_number, tcp.window_size), (1000, 7, 512));
    assert!(tcp.ack && tcp.psh && tcp.ns && !tcp.syn && !tcp.urg);
    assert_eq!(tcp.options.as_slice(), [1, 1, 8, 10, 0, 0, 0, 55, 0, 0, 0, 44]);
    assert_eq!(payload, PAYLOAD);
}

#[test]
fn etherparse_reads_the_ipv6_form() {
    let fields = IpFields { ttl: 61, tos: 0xb9, identification: 0 };
    let (ip, tcp, payload) = read(&to_tcp(&datagram(), true, fields));
    let IpHeaders::Ipv6(ip, _) = ip else { panic!("not IPv6") };
    assert_eq!((ip.traffic_class, ip.flow_label.value(), ip.hop_limit), (0xb9, 0, 61));
    assert_eq!(IpAddr::from(ip.source), addresses(true).0.ip());
    assert_eq!(IpAddr::from(ip.destination), addresses(true).1.ip());
    assert_eq!(tcp.checksum, tcp.calc_checksum_ipv6(&ip, &payload).unwrap());
    assert_eq!(payload, PAYLOAD);
}

#[test]
fn there_and_back() {
    for v6 in [false, true] {
        let fields = IpFields { ttl: 61, tos: 0xb9, identification: if v6 { 0 } else { 7 } };
        let packet = to_tcp(&datagram(), v6, fields);
        let mut out = vec![0; packet.len()];
        let converted = udp_from_tcp(&packet, &mut out).unwrap();
        let (source, destination) = addresses(v6);
        assert_eq!(converted, FromTcp { source, destination, ip: fields, len: datagram().len() });
        assert_eq!(out[..converted.len], datagram());
    }
}

#[test]
fn a_segment_that_etherparse_wrote() {
    let mut tcp = etherparse::TcpHeader::new(1, 2, 3, 4);
    tcp.urg = true;
    tcp.urgent_pointer = 99;
    tcp.syn = true;
    let payload = [1, 2, 3];
    let packet = |tcp: etherparse::TcpHeader| {
        let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9).tcp_header(tcp);
        let mut packet = Vec::new();
        builder.write(&mut packet, &payload).unwrap();
        packet
    };
    let mut out = [0; 64];
    let converted = udp_from_tcp(&packet(tcp), &mut out).unwrap();
    assert_eq!((converted.source.port(), converted.destination.port()), (1, 2));
    assert_eq!(out[..converted.len], [0x50, 0x02, 0, 4, 0, 0, 0, 3, 0, 0, 0, 0, 1, 2, 3], "URG is cleared");
}

#[test]
fn every_flipped_bit_and_every_truncation_is_noticed() {
    for v6 in [false, true] {
        let packet = to_tcp(&datagram(), v6, IpFields::default());
        let header = if v6 { IPV6_LEN } else { IPV4_LEN };
        let mut out = [0; 128];
        for bit in header * 8..packet.len() * 8 {
            let mut bad = packet.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(udp_from_tcp(&bad, &mut out), Err(ShimError::Checksum), "bit {bit}");
        }
        for len in 0..packet.len() {
            assert_eq!(udp_from_tcp(&packet[..len], &mut out), Err(ShimError::NotIp), "{len} bytes");
        }
    }
}

#[test]
fn packets_without_tcp_are_refused() {
    let packet = to_tcp(&datagram(), false, IpFields::default());
    let changed = |at: usize, to: u8| {
        let mut bad = packet.clone();
        bad[at] = to;
        udp_from_tcp(&bad, &mut [0; 128])
    };
    assert_eq!(changed(9, 17), Err(ShimError::NotTcp), "UDP");
    assert_eq!(changed(6, 0x20), Err(ShimError::NotTcp), "a first fragment");
    assert_eq!(changed(7, 1), Err(ShimError::NotTcp), "a later fragment");
    assert_eq!(changed(0, 0x44), Err(ShimError::NotIp), "a header of four words");
    assert_eq!(changed(0, 0x55), Err(ShimError::NotIp), "version 5");
}

#[test]
fn ipv4_options_are_stepped_over() {
    let packet = to_tcp(&datagram(), false, IpFields::default());
    let mut longer = packet[..20].to_vec();
    longer[0] = 0x46;
    longer[3] += 4;
    longer.extend_from_slice(&[1, 1, 1, 0]);
    longer.extend_from_slice(&packet[20..]);
    let mut out = [0; 128];
    let len = udp_from_tcp(&longer, &mut out).unwrap().len;
    assert_eq!(out[..len], datagram());
}

#[test]
fn bad_arguments() {
    let (v4, v4_peer) = addresses(false);
    let (_, v6) = addresses(true);
    let ip = IpFields::default();
    assert_eq!(tcp_from_udp(&[0x50; 11], v4, v4_peer, ip, &mut [0; 99]), Err(ShimError::NotASegment));
    assert_eq!(tcp_from_udp(&[0x60; 12], v4, v4_peer, ip, &mut [0; 99]), Err(ShimError::NotASegment));
    assert_eq!(tcp_from_udp(&[0x40; 12], v4, v4_peer, ip, &mut [0; 99]), Err(ShimError::NotASegment));
    assert_eq!(tcp_from_udp(&[0x50; 12], v4, v6, ip, &mut [0; 99]), Err(ShimError::MixedAddresses));
    let long = vec![0x50; 65_510];
    let mut out = vec![0; 70_000];
    assert_eq!(tcp_from_udp(&long, v4, v4_peer, ip, &mut out), Err(ShimError::TooLong { len: 65_538 }));
    assert!(tcp_from_udp(&long[..65_507], v4, v4_peer, ip, &mut out).is_ok(), "the longest UDP payload over IPv4");
    for len in 0..40 {
        let expected = ShimError::BufferTooSmall { needed: 40, available: len };
        assert_eq!(tcp_from_udp(&[0x50; 12], v4, v4_peer, ip, &mut vec![0; len]), Err(expected));
    }
    let packet = to_tcp(&datagram(), false, ip);
    for available in 0..datagram().len() {
        let expected = ShimError::BufferTooSmall { needed: datagram().len(), available };
        assert_eq!(udp_from_tcp(&packet, &mut vec![0; available]), Err(expected));
    }
}

/// Computes the UDP checksum of a datagram from all its bytes.
fn udp_checksum(source: SocketAddr, destination: SocketAddr, payload: &[u8]) -> u16 {
    let len = u16::try_from(payload.len() + 8).unwrap();
    let mut sum = Sum::pseudo_header(source.ip(), destination.ip(), 17, len);
    sum.add(&source.port().to_be_bytes());
    sum.add(&destination.port().to_be_bytes());
    sum.add(&len.to_be_bytes());
    sum.add(payload);
    match sum.checksum() {
        0 => 0xffff,
        checksum => checksum,
    }
}

#[test]
fn etherparse_reads_udp_datagrams() {
    for v6 in [false, true] {
        let (source, destination) = addresses(v6);
        let packet = to_udp(PAYLOAD, v6);
        let headers = PacketHeaders::from_ip_slice(&packet).unwrap();
        let (Some(net), Some(TransportHeader::Udp(udp))) = (headers.net, headers.transport) else { panic!("no UDP") };
        assert_eq!((headers.payload.slice(), usize::from(udp.length)), (PAYLOAD, 8 + PAYLOAD.len()));
        assert_eq!((udp.source_port, udp.destination_port), (40_000, 7_000));
        assert_eq!(udp.checksum, udp_checksum(source, destination, PAYLOAD));
        match net {
            etherparse::NetHeaders::Ipv4(ip, _) => {
                assert_eq!((ip.header_checksum, ip.ecn.value()), (ip.calc_header_checksum(), 2));
            }
            etherparse::NetHeaders::Ipv6(ip, _) => assert_eq!(ip.traffic_class, 2),
            _ => panic!("no IP"),
        }
    }
    let (source, _) = addresses(false);
    let (_, destination) = addresses(true);
    let mixed = udp_packet(PAYLOAD, source, destination, IpFields::default(), &mut [0; 128]);
    assert_eq!(mixed, Err(ShimError::MixedAddresses));
    let long = udp_packet(&[0; 65_528], source, source, IpFields::default(), &mut [0; 128]);
    assert_eq!(long, Err(ShimError::TooLong { len: 65_536 }));
}

#[test]
fn rfc_1071_example() {
    let mut sum = Sum::default();
    sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
    assert_eq!(sum.checksum(), !0xddf2);
}

#[test]
fn a_checksum_of_zero() {
    // The last word is chosen so that the sum is all ones.
    let (source, destination) = addresses(false);
    let mut payload = [0x50, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let fill = udp_checksum(source, destination, &payload);
    payload[12..].copy_from_slice(&fill.to_be_bytes());
    assert_eq!(udp_checksum(source, destination, &payload), 0xffff);
    assert_eq!(to_udp(&payload, false)[26..28], [0xff, 0xff]);
    let packet = to_tcp(&payload, false, IpFields::default());
    let tcp = u16::from_be_bytes([packet[36], packet[37]]);
    assert_eq!(udp_checksum_from_tcp(tcp, 22), 0xffff);
    assert_eq!(tcp_checksum_from_udp(0xffff, 22), tcp);
}

proptest! {
    #[test]
    fn the_incremental_rule_agrees_with_the_full_computation(
        mut payload in prop::collection::vec(any::<u8>(), 12..1500), v6 in any::<bool>(),
    ) {
        payload[0] = 0x50 | payload[0] & 0xf;
        payload[1] &= !URG;
        let packet = to_tcp(&payload, v6, IpFields::default());
        let at = packet.len() - payload.len() + 12 - 20 + 16;
        let tcp = u16::from_be_bytes([packet[at], packet[at + 1]]);
        let len = u16::try_from(payload.len() + 8).unwrap();
        let (source, destination) = addresses(v6);
        let udp = udp_checksum(source, destination, &payload);
        prop_assert_eq!(udp_checksum_from_tcp(tcp, len), udp);
        prop_assert_eq!(tcp_checksum_from_udp(udp, len), tcp);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..120), first in 0_u8..16) {
        let mut bytes = bytes;
        if let Some(byte) = bytes.first_mut() {
            *byte = first << 4 | *byte & 0xf;
        }
        let _ = udp_from_tcp(&bytes, &mut [0; 128]);
        let (source, destination) = addresses(first % 2 == 0);
        let mut out = [0; 256];
        if let Ok(len) = tcp_from_udp(&bytes, source, destination, IpFields::default(), &mut out) {
            let mut back = [0; 128];
            let converted = udp_from_tcp(&out[..len], &mut back).unwrap();
            bytes[1] &= !URG;
            prop_assert_eq!(&back[..converted.len], &bytes);
        }
    }
}
