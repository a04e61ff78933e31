//! Network namespaces and TUN devices.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

use std::io::{ErrorKind, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{self, Command};
use std::thread::sleep;
use std::time::Duration;

use longhaul_netns::{NetNs, Tun};
use longhaul_sys::linux::{ErrorClass, RecvBatch, Transmit, UdpSocket};
use longhaul_sys::pool::RecvPool;

fn bind(addr: &str) -> UdpSocket {
    UdpSocket::new(std::net::UdpSocket::bind(addr).unwrap()).unwrap()
}

fn send(socket: &UdpSocket, destination: &str, len: usize) -> Result<(), ErrorClass> {
    let payload = vec![9; len];
    let transmit = Transmit {
        destination: Some(destination.parse().unwrap()),
        tos: 0x2e << 2 | 1,
        src_ip: None,
        segment_size: None,
        slices: &[IoSlice::new(&payload)],
    };
    socket.send(&transmit).map_err(|error| ErrorClass::of(&error))
}

fn read(tun: &Tun, packet: &mut [u8]) -> usize {
    for _ in 0..2000 {
        match tun.read(packet) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(Duration::from_millis(1)),
            result => return result.unwrap(),
        }
    }
    panic!("no packet");
}

#[test]
fn a_namespace_is_another_world_with_a_loopback() {
    if !needs::namespaces() {
        return;
    }
    let namespace = NetNs::anonymous().unwrap();
    let outside = bind("127.0.0.1:0");
    let addr = outside.local_addr();
    namespace
        .run(|| {
            // The same address can be bound in this namespace, and no other network is reachable.
            let inside = std::net::UdpSocket::bind(addr).unwrap();
            let inside = UdpSocket::new(inside).unwrap();
            assert_eq!(send(&inside, &addr.to_string(), 10), Ok(()));
            assert_eq!(send(&bind("0.0.0.0:0"), "192.0.2.1:9", 10), Err(ErrorClass::Unreachable));
        })
        .unwrap();
    assert_eq!(send(&outside, &addr.to_string(), 10), Ok(()));
}

#[test]
fn named_namespaces_are_found() {
    if !needs::namespaces() || !needs::program("ip") {
        return;
    }
    let name = format!("longhaul-{}", process::id());
    let ip = |action| assert!(Command::new("ip").args(["netns", action, &name]).status().unwrap().success());
    let inode = |namespace: &NetNs| namespace.run(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
    ip("add");
    let opened = NetNs::open(&name);
    ip("delete");
    assert_ne!(inode(&opened.unwrap()), inode(&NetNs::current().unwrap()));
    assert_eq!(NetNs::open(&name).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(NetNs::open("../x").unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_tun_device_carries_ip_packets_both_ways() {
    if !needs::tun() {
        return;
    }
    let namespace = NetNs::anonymous().unwrap();
    let (tun, socket) = namespace
        .run(|| {
            let tun = Tun::open("lh%d").unwrap();
            assert_eq!(tun.link().name(), "lh0");
            (tun, bind("0.0.0.0:4000"))
        })
        .unwrap();
    // The interface handle refers to the device's namespace, although this thread is in another one.
    tun.link().set_address(Ipv4Addr::new(10, 9, 0, 1), 24).unwrap();
    tun.link().set_mtu(1400).unwrap();
    tun.link().set_up().unwrap();

    let mut packet = [0; 2000];
    assert_eq!(send(&socket, "10.9.0.2:5000", 1372), Ok(()));
    let len = loop {
        let len = read(&tun, &mut packet);
        // Skip IPv6 packets sent by the kernel itself, such as router solicitations.
        if packet[0] >> 4 == 4 {
            break len;
        }
    };
    assert_eq!(len, 1400);
    assert_eq!(packet[1], 0x2e << 2 | 1, "TOS");
    assert_eq!(packet[6] & 0x40, 0x40, "don't fragment");
    assert_eq!(packet[12..20], [10, 9, 0, 1, 10, 9, 0, 2]);
    assert_eq!(send(&socket, "10.9.0.2:5000", 1373), Err(ErrorClass::MessageTooLarge));

    // Return the packet to its sender with exchanged addresses and ports, which leaves the checksums valid.
    let mut reply = packet;
    reply[12..16].copy_from_slice(&packet[16..20]);
    reply[16..20].copy_from_slice(&packet[12..16]);
    reply[20..22].copy_from_slice(&packet[22..24]);
    reply[22..24].copy_from_slice(&packet[20..22]);
    tun.write(&reply[..len]).unwrap();
    let pool = RecvPool::new(2, 2);
    let mut batch = RecvBatch::new(&pool, 1);
    while socket.recv(&mut batch).is_err() {
        sleep(Duration::from_millis(1));
    }
    let message = batch.messages().next().unwrap();
    assert_eq!(message.meta.addr, SocketAddr::from(([10, 9, 0, 2], 5000)));
    assert_eq!((message.meta.tos, message.data().len()), (Some(0x2e << 2 | 1), 1372));
}
