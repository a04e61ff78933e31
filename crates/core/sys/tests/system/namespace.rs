//! Batches over network namespaces: receive offload, and a full send buffer.

use std::io::{ErrorKind, IoSlice};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use longhaul_netns::{NetNs, VethPair};
use longhaul_sys::linux::{ErrorClass, RecvBatch, Transmit, UdpSocket};
use longhaul_sys::pool::RecvPool;

fn bind(addr: &str) -> UdpSocket {
    UdpSocket::new(std::net::UdpSocket::bind(addr).unwrap()).unwrap()
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
    if !needs::program("tc") || !needs::namespaces() {
        return;
    }
    NetNs::anonymous()
        .unwrap()
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
