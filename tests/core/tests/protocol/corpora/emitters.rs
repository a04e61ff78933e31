//! Logs of arbitrary packets from a peer: qlog and pcap. The fuzz target and the replay of its corpus both call
//! [`emitters`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul_qlog::{Log, Reference, Role, Sequence, Start};
use longhaul_sim::{Packet, Pcap, Sighting, Tap};
use longhaul_tcp::{Batch, Config, DatagramMeta, Ecn, Endpoint, EndpointConfig, Tuple};
use longhaul_units::{Span, Time};
use serde_json::Value;

const NAME: usize = 40;

/// Logs arbitrary datagrams under arbitrary names: a log must be a sequence of complete JSON texts, one per event, and
/// a capture a sequence of complete packets. No external data may begin a record of its own.
pub fn emitters(script: &[u8]) {
    let (name, datagrams) = script.split_at(script.len().min(NAME));
    let name = String::from_utf8_lossy(name).into_owned();
    let datagrams: Vec<&[u8]> = pieces(datagrams);
    qlog(&name, &datagrams);
    pcap(&datagrams);
}

/// Splits bytes into pieces, each preceded by a byte with its length.
fn pieces(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while let Some((len, rest)) = bytes.split_first() {
        let (piece, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

fn qlog(name: &str, datagrams: &[&[u8]]) {
    let (local, remote) = (SocketAddr::from(([192, 0, 2, 1], 7000)), SocketAddr::from(([192, 0, 2, 2], 4000)));
    let mut now = Time::ZERO + Span::from_secs(1);
    let start = Start {
        role: Role::Client,
        local,
        remote,
        segments_before: [0, 0],
        at: now,
        epoch: Time::ZERO,
        reference: if name.is_empty() { Reference::Monotonic } else { Reference::System(Duration::from_secs(1)) },
        vantage_point: name.to_owned(),
    };
    let mut endpoint = Endpoint::new(EndpointConfig::new([7; 32]), now);
    let tuple = Tuple { remote, local: local.ip() };
    let id = endpoint.connect(now, tuple, Arc::new(Config::default())).expect("the first connection");
    let log = Arc::new(Mutex::new(Log::new(start, Sequence::new(Vec::new()))));
    endpoint.observe(now, id, Box::new(Arc::clone(&log)));
    let mut batch = Batch::default();
    let mut came = 0;
    for datagram in datagrams {
        now += Span::from_millis(3);
        // The handshake ends with the first valid SYN-ACK.
        let datagram = answer(&endpoint, id, datagram);
        came += 1;
        let mut meta = DatagramMeta::new(remote, datagram.len());
        meta.tuple = tuple;
        meta.segment.ecn = Ecn::from_bits(datagram.first().copied().unwrap_or(0));
        endpoint.handle_datagram(now, &meta, &datagram, None);
        while endpoint.poll_transmit(now, &mut batch, 1).is_some() {
            came += 1;
        }
    }
    drop(endpoint);
    let mut log = log.lock().expect("nobody has panicked");
    log.end();
    let [sent, received] = log.segments();
    check_sequence(&log.sink_mut().finish().expect("a vector takes all"), name, came, sent + received);
}

/// Turns a datagram with the first bit set into a SYN-ACK for the connection, with the remaining bytes unchanged.
/// Returns other datagrams as they are.
fn answer(endpoint: &Endpoint, id: longhaul_tcp::ConnId, datagram: &[u8]) -> Vec<u8> {
    let mut datagram = datagram.to_vec();
    let isn = endpoint.connection(id).map_or(0, |c| c.info(Time::ZERO).initial_sequence.iss);
    if datagram.len() >= 12 && datagram[0] & 128 != 0 {
        // Data offset and flags come first, then window, sequence number, acknowledgment number, and up to three words
        // of options.
        datagram[0] = 0x50 + (datagram[0] & 0x30);
        datagram[1] = 0x12;
        datagram[8..12].copy_from_slice(&isn.wrapping_add(1).to_be_bytes());
    }
    datagram
}

fn check_sequence(text: &[u8], name: &str, came: u64, segments: u64) {
    if text.is_empty() {
        return;
    }
    let (first, rest) = text.split_first().expect("a record");
    assert_eq!(*first, 0x1e, "a record begins with a separator");
    let mut counted = 0;
    for (number, record) in rest.split(|byte| *byte == 0x1e).enumerate() {
        assert_eq!(record.iter().filter(|byte| **byte == b'\n').count(), 1, "one line feed in a record");
        assert!(record.ends_with(b"\n"));
        let value: Value = serde_json::from_slice(record).expect("a record is JSON");
        if number == 0 {
            assert_eq!(value["trace"]["vantage_point"]["name"], name);
            continue;
        }
        let event = value["name"].as_str().expect("an event has a name");
        assert!(event.starts_with("tcp:") && value["time"].is_number() && value["data"].is_object(), "{value}");
        counted += u64::from(matches!(event, "tcp:segment_sent" | "tcp:segment_received" | "tcp:segment_dropped"));
    }
    assert!(counted <= came && counted >= segments, "{counted} records of {came} datagrams, {segments} segments");
}

fn pcap(datagrams: &[&[u8]]) {
    let mut pcap = Pcap::at_host(0, Vec::new()).expect("a vector takes all");
    for (number, datagram) in datagrams.iter().enumerate() {
        let v6 = datagram.first().is_some_and(|byte| byte & 1 != 0);
        let address = |last: u8| match v6 {
            true => IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into())),
            false => IpAddr::from(Ipv4Addr::new(192, 0, 2, last)),
        };
        let packet = Packet {
            from: SocketAddr::new(address(1), 7000),
            to: SocketAddr::new(address(2), 4000),
            ecn: Ecn::Ect0,
            dscp: 0,
            payload: datagram.to_vec(),
            zeros: 0,
        };
        pcap.see(Time::ZERO + Span::from_millis(number as u64), Sighting::Received(0), &packet);
    }
    let capture = pcap.finish().expect("a vector takes all");
    check_capture(capture, datagrams.len());
}

/// Checks all records to the end: their lengths must be consistent with each other and with the IP packets.
fn check_capture(capture: &[u8], most: usize) {
    let mut rest = &capture[24..];
    let mut packets = 0;
    while let Some((header, behind)) = rest.split_first_chunk::<16>() {
        let field =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]) as usize;
        let len = field(8);
        assert_eq!(len, field(12));
        assert!(len <= behind.len(), "a packet of {len} bytes, {} are left", behind.len());
        let (packet, behind) = behind.split_at(len);
        let of_ip = match packet[0] >> 4 {
            4 => usize::from(u16::from_be_bytes([packet[2], packet[3]])),
            6 => 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])),
            version => panic!("an IP packet of version {version}"),
        };
        assert_eq!(of_ip, len);
        packets += 1;
        rest = behind;
    }
    assert!(rest.is_empty() && packets <= most, "{packets} packets of {most}, and {} bytes", rest.len());
}
