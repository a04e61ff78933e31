//! Peers that routers report as unreachable, in network namespaces with a router that has no route to them. The tests
//! need root.
#![cfg(target_os = "linux")]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::Command;

use crate::common::soon;
use longhaul::{TcpConnector, TcpListener, TcpStream};
use longhaul_netns::{NetNs, VethPair, veth};

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// Creates a host and its default router. The router reports hosts of 10.98.0.0/16 as unreachable, and has no route
/// to the network 10.97.0.0/16.
fn host_and_router() -> Option<(NetNs, NetNs)> {
    if !needs::veth() {
        return None;
    }
    let [host, router] = [(); 2].map(|()| NetNs::anonymous().unwrap());
    veth::join((&host, "host", VethPair::NEAR_ADDR), (&router, "router", VethPair::FAR_ADDR)).unwrap();
    host.run(|| {
        ip("link set lo up");
        ip(&format!("route add default via {}", VethPair::FAR_ADDR));
    })
    .unwrap();
    router
        .run(|| {
            ip("route add unreachable 10.98.0.0/16");
            // Disable rate limiting, so that every datagram is answered.
            std::fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0").unwrap();
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        })
        .unwrap();
    Some((host, router))
}

/// Runs `work` on a runtime in the host's namespace.
fn on_the_host<F: Future>(work: impl FnOnce() -> F + Send) {
    let Some((host, _router)) = host_and_router() else { return };
    host.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work());
    })
    .unwrap();
}

const NO_HOST: &str = "10.98.0.1:7000";
const NO_NETWORK: &str = "10.97.0.1:7000";

/// Kernel TCP ends the attempt at the first message. longhaul sends a second SYN after one second, and then ends it
/// instead of waiting for two minutes.
#[test]
fn an_attempt_ends_when_routers_report_an_error_twice() {
    if !crate::common::needs_system_sockets() {
        return;
    }
    on_the_host(|| async {
        for (to, kind) in [(NO_HOST, ErrorKind::HostUnreachable), (NO_NETWORK, ErrorKind::NetworkUnreachable)] {
            assert_eq!(tokio::net::TcpStream::connect(to).await.unwrap_err().kind(), kind, "the kernel's TCP");
            assert_eq!(soon(TcpStream::connect(to)).await.unwrap_err().kind(), kind);
            let connector = TcpConnector::bind("0.0.0.0:0").await.unwrap();
            assert_eq!(soon(connector.connect(to)).await.unwrap_err().kind(), kind, "from a connector");
        }
    });
}

#[test]
fn the_next_address_of_a_name_is_tried_if_the_first_is_unreachable() {
    if !crate::common::needs_system_sockets() {
        return;
    }
    on_the_host(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses: [SocketAddr; 2] = [NO_HOST.parse().unwrap(), listener.local_addr().unwrap()];
        let stream = soon(TcpStream::connect(&addresses[..])).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addresses[1]);
        let connector = TcpConnector::bind("0.0.0.0:0").await.unwrap();
        let stream = soon(connector.connect(&addresses[..])).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addresses[1]);
    });
}
