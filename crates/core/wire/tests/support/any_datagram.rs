//! Properties of the codec for arbitrary datagrams, checked by the fuzz target and by the replay of its corpus.

use std::net::SocketAddr;

use longhaul_wire::network::edit_forward;
use longhaul_wire::probe::{Answer, PROBE_LEN, Probe};
use longhaul_wire::shim::{self, IpFields};
use longhaul_wire::{CheshireCodec, Codec};

/// Panics if a property does not hold for `datagram`.
pub(crate) fn check(datagram: &[u8]) {
    check_codec(datagram);
    check_shim(datagram);
    check_probe(datagram);
    // Interpret the bytes as an IP packet.
    let _ = shim::udp_from_tcp(datagram, &mut vec![0; datagram.len()]);
}

fn check_codec(datagram: &[u8]) {
    let Ok((header, payload)) = CheshireCodec::parse(datagram) else {
        edit_forward(&mut datagram.to_vec(), |_| ());
        return;
    };
    assert!(payload % 4 == 0 && (12..=52).contains(&payload) && payload <= datagram.len());

    // A parsed header can be emitted, and parsing the result gives the same header.
    let mut out = [0; 52];
    let len = CheshireCodec::emit(&header, &mut out).expect("options that were read fit");
    assert_eq!(len, CheshireCodec::header_len(&header.options));
    assert_eq!(CheshireCodec::parse(&out[..len]), Ok((header.clone(), len)));

    // Parsed options are valid for the segment and fit, so `fit` removes nothing.
    let mut fitted = header.clone();
    assert!(fitted.fit());
    assert_eq!(fitted, header);

    // An edit without changes leaves the header as it is; an edit of the stamps changes only the stamps.
    let mut routed = datagram.to_vec();
    let forward = header.options.network.and_then(|network| network.forward);
    assert_eq!(edit_forward(&mut routed, |_| ()), forward.is_some());
    assert_eq!(CheshireCodec::parse(&routed), Ok((header.clone(), payload)));
    edit_forward(&mut routed, |forward| forward.stamps = !forward.stamps);
    let (routed, _) = CheshireCodec::parse(&routed).expect("the length is the same");
    let stamps = routed.options.network.and_then(|network| network.forward).map(|forward| forward.stamps);
    assert_eq!(stamps, forward.map(|forward| !forward.stamps));
}

fn check_probe(datagram: &[u8]) {
    let (probe, answer) = (Probe::parse(datagram), Answer::parse(datagram));
    let segment = CheshireCodec::parse(datagram).is_ok();
    assert!(usize::from(probe.is_some()) + usize::from(answer.is_some()) + usize::from(segment) <= 1);
    if let Some(probe) = probe {
        let mut out = datagram.to_vec();
        probe.emit(&mut out).expect("as long as what was read");
        assert_eq!((Probe::parse(&out), &out[PROBE_LEN..]), (Some(probe), &datagram[PROBE_LEN..]));
        assert_eq!(Probe::parse_quoted(&datagram[..PROBE_LEN]), Some(probe));
        // The answer is not longer than the probe.
        let received = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
        let answer = Answer { probe, arrived: 0, received, ttl: 0, tos: None, coalesced: false };
        assert!(answer.to_bytes().len() <= datagram.len());
    }
    if let Some(answer) = answer {
        assert_eq!(Answer::parse(&answer.to_bytes()), Some(answer));
    }
}

fn check_shim(datagram: &[u8]) {
    for [source, destination] in [["192.0.2.1:1", "198.51.100.2:65535"], ["[2001:db8::1]:7", "[2001:db8::2]:0"]] {
        let parse = |text: &str| -> SocketAddr { text.parse().expect("an address") };
        let (source, destination) = (parse(source), parse(destination));
        let ip = IpFields { ttl: 3, tos: 0xff, identification: 0 };
        let mut packet = vec![0; datagram.len() + shim::MAX_GROWTH];
        let Ok(len) = shim::tcp_from_udp(datagram, source, destination, ip, &mut packet) else {
            continue;
        };
        let mut back = vec![0; datagram.len()];
        let converted = shim::udp_from_tcp(&packet[..len], &mut back).expect("what was written is valid");
        assert_eq!(converted, shim::FromTcp { source, destination, ip, len: datagram.len() });
        // URG is the only bit that is not converted.
        assert_eq!(back[1], datagram[1] & !0x20);
        back[1] = datagram[1];
        assert_eq!(back, datagram);
    }
}
