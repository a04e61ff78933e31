//! Network namespaces and TUN devices.

use std::io::{ErrorKind, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{self, Command};
use std::thread::sleep;
use std::time::Duration;

use longhaul_sys::linux::{ErrorClass, NetNs, RecvBatch, Transmit, Tun, UdpSocket, VethPair};
use longhaul_sys::pool::RecvPool;

fn namespace() -> Option<NetNs> {
    needs::namespaces().then(|| NetNs::anonymous().unwrap())
}

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
    let Some(namespace) = namespace() else { return };
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
fn named_namespaces_are_found_again() {
    if !needs::namespaces() {
        return;
    }
    let name = format!("longhaul-{}", process::id());
    let inode = |namespace: &NetNs| namespace.run(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
    let created = NetNs::create(&name).unwrap();
    let opened = NetNs::open(&name);
    let again = NetNs::create(&name);
    NetNs::delete(&name).unwrap();
    assert_eq!(inode(&opened.unwrap()), inode(&created));
    assert_ne!(inode(&created), inode(&NetNs::current().unwrap()));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(NetNs::open(&name).is_err());
    assert_eq!(NetNs::create("../x").unwrap_err().kind(), ErrorKind::InvalidInput);
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

/// Creates a veth pair whose far end coalesces as many datagrams as possible.
fn merging_pair() -> Option<VethPair> {
    if !needs::veth() || !needs::mounts() {
        return None;
    }
    let pair = VethPair::new().unwrap();
    pair.hold_arrivals().unwrap();
    Some(pair)
}

/// Sends datagrams of these lengths back to back. Returns the lengths of the received datagrams per message.
fn cross(sender: &UdpSocket, receiver: &UdpSocket, lengths: [usize; 2]) -> Vec<Vec<usize>> {
    let payloads = lengths.map(|len| vec![len as u8; len]);
    let slices = [[IoSlice::new(&payloads[0])], [IoSlice::new(&payloads[1])]];
    let destination = Some(receiver.local_addr());
    let transmits =
        slices.each_ref().map(|slices| Transmit { destination, tos: 0, src_ip: None, segment_size: None, slices });
    assert_eq!(sender.send_batch(&transmits).unwrap(), 2);
    let pool = RecvPool::new(4, 4);
    let mut batch = RecvBatch::new(&pool, 4);
    let mut messages: Vec<Vec<usize>> = Vec::new();
    for _ in 0..2000 {
        if messages.iter().flatten().count() == 2 {
            break;
        }
        match receiver.recv(&mut batch) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
        for message in batch.messages() {
            for datagram in message.datagrams() {
                assert!(datagram.iter().all(|byte| *byte == datagram.len() as u8), "bytes of another datagram");
            }
            messages.push(message.datagrams().map(<[u8]>::len).collect());
        }
        batch.release();
    }
    messages
}

/// GRO coalesces datagrams of equal length, of which only the last may be shorter. A datagram after a shorter one must
/// not be coalesced with it, because their boundary would be lost.
#[test]
fn a_longer_datagram_is_not_merged_with_the_one_before() {
    const LENGTH: usize = 1200;
    let Some(pair) = merging_pair() else { return };
    let sender = pair.near.run(|| bind(&format!("{}:0", VethPair::NEAR_ADDR))).unwrap();
    let receiver = pair.far.run(|| bind(&format!("{}:0", VethPair::FAR_ADDR))).unwrap();
    let mut merged = 0;
    for _ in 0..50 {
        assert_eq!(cross(&sender, &receiver, [LENGTH - 1, LENGTH]), [[LENGTH - 1], [LENGTH]]);
        // In the opposite order, both may be coalesced, which shows that receive offload works.
        let other_way = cross(&sender, &receiver, [LENGTH, LENGTH - 1]);
        assert_eq!(other_way.concat(), [LENGTH, LENGTH - 1]);
        merged += usize::from(other_way.len() == 1);
    }
    assert!(merged > 0, "receive offload merges nothing here");
}

/// Datagrams in a slowly draining queue count towards their sender's send buffer.
#[test]
fn a_full_send_buffer_stops_a_batch_midway() {
    if !needs::program("tc") {
        return;
    }
    let Some(namespace) = namespace() else { return };
    namespace
        .run(|| {
            let slow =
                ["qdisc", "add", "dev", "lo", "root", "tbf", "rate", "80kbit", "burst", "2000", "limit", "10000000"];
            let made = Command::new("tc").args(slow).status().unwrap();
            let what = "the queueing discipline tbf; use a kernel with CONFIG_NET_SCH_TBF";
            if !needs::that(made.success(), "tbf", what) {
                return;
            }
            let (sender, receiver) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
            sender.set_send_buffer(10_000).unwrap();
            let payload = [0; 1000];
            let slices = [IoSlice::new(&payload)];
            let destination = Some(receiver.local_addr());
            let one = Transmit { destination, tos: 0, src_ip: None, segment_size: None, slices: &slices };
            let sent = sender.send_batch(&[one; 32]).unwrap();
            assert!((1..32).contains(&sent), "{sent}");
            let error = sender.send_batch(&[one; 32]).unwrap_err();
            assert_eq!(ErrorClass::of(&error), ErrorClass::WouldBlock);
        })
        .unwrap();
}
