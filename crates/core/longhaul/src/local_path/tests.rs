use std::net::{Ipv4Addr, Ipv6Addr};

use longhaul_units::Time;

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
