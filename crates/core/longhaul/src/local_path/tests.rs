use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use longhaul_tcp::{Config, Endpoint, EndpointConfig, Tuple};

use super::*;

const V4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9);
const V6: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 9);

fn paths(addresses: &[IpAddr]) -> LocalPaths {
    LocalPaths { list: addresses.iter().map(|ip| LocalPath::Address(*ip)).collect(), ..LocalPaths::default() }
}

#[test]
fn the_next_path_may_lead_to_the_address_of_the_other_family() {
    if !needs::ipv6() {
        return;
    }
    let mut paths = paths(&[V4.ip(), V6.ip()]);
    assert_eq!(paths.advance(Time::ZERO, &[V4, V6]), Some(V6));
    assert_eq!(paths.current(), Some(&LocalPath::Address(V6.ip())));
    // The current one is the last to be tried.
    assert_eq!(paths.advance(Time::ZERO, &[V6]), Some(V6));
    assert_eq!(paths.advance(Time::ZERO, &[V6, V4]), Some(V4));
}

#[test]
fn a_path_of_the_other_family_is_not_chosen() {
    let mut paths = paths(&[V4.ip()]);
    assert_eq!(paths.choose(V6).unwrap_err().kind(), io::ErrorKind::NetworkUnreachable);
    paths.choose(V4).unwrap();
    assert!(paths.list[0].leads(V4, V4));
    assert!(!paths.list[0].leads(SocketAddr::from(([192, 0, 2, 9], 9)), V4), "an address of another host");
}

#[test]
fn the_path_in_use_is_chosen_first() {
    let mut paths = paths(&[V4.ip(), V4.ip()]);
    assert_eq!((paths.advance(Time::ZERO, &[V4]), paths.current), (Some(V4), 1));
    paths.choose(V4).unwrap();
    assert_eq!(paths.current, 1);
    // An address of another host leads nowhere.
    paths.list[1] = LocalPath::Address(IpAddr::from([192, 0, 2, 9]));
    paths.choose(V4).unwrap();
    assert_eq!(paths.current, 0);
}

#[test]
fn a_connection_begins_at_a_path_of_the_family_of_its_peer() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let unbound = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    let mut both = paths(&[V6.ip(), V4.ip()]);
    both.begin(SockRef::from(&unbound()), V4).unwrap();
    assert_eq!(both.current, 1);
    let error = paths(&[V6.ip()]).begin(SockRef::from(&unbound()), V4).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    // Without paths, the system chooses.
    LocalPaths::default().begin(SockRef::from(&socket), V4).unwrap();
}

#[test]
fn each_further_silent_path_gets_more_time() {
    let at = |millis| Time::ZERO + Span::from_millis(millis);
    let mut endpoint = Endpoint::new(EndpointConfig::new([1; 32]), at(0));
    let tuple = Tuple { remote: V4, local: V4.ip() };
    let id = endpoint.connect(at(0), tuple, Arc::new(Config::default())).unwrap();
    let mut info = endpoint.connection(id).unwrap().info(at(0));
    (info.srtt, info.segments_in, info.unacked_segments) = (Some(Span::from_millis(100)), 5, 1);
    let mut paths = paths(&[V4.ip(), V4.ip()]);
    let mut now = 1000;
    for _ in 0..2 {
        assert!(!paths.is_silent(at(now), &info), "something has arrived");
        for time in [300, 1200, 4800, 8000, 8000] {
            let silent = [time - 1, time].map(|after| paths.is_silent(at(now + after), &info));
            assert_eq!(silent, [false, true], "{time} ms");
            now += time;
            paths.advance(at(now), &[V4]);
        }
        info.segments_in += 1;
    }
    info.srtt = Some(Span::from_millis(9));
    paths.is_silent(at(now), &info);
    assert_eq!([199, 200].map(|after| paths.is_silent(at(now + after), &info)), [false, true]);
    info.unacked_segments = 0;
    assert!(!paths.is_silent(at(now + 9999), &info), "no answer is due");
}

/// An empty datagram leaves over the next path every 20 s, if that is wanted.
#[test]
fn the_next_path_is_kept_open() {
    let peer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    peer.set_nonblocking(true).unwrap();
    let mut paths = paths(&[V4.ip(), V4.ip()]);
    for (warm, seconds, count) in [(false, 0, 0), (true, 0, 1), (true, 19, 0), (true, 20, 1), (true, 21, 0)] {
        paths.warm = warm;
        paths.keep_warm(Time::ZERO + Span::from_secs(seconds), &[V6, peer.local_addr().unwrap()]);
        let received = std::iter::from_fn(|| peer.recv(&mut [0; 9]).ok());
        assert_eq!(received.collect::<Vec<_>>(), vec![0; count], "after {seconds} s");
    }
}
