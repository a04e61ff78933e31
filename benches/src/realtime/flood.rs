//! Speed of the relay with packets at a constant rate.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket as StdSocket};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul_link::spec::Direction;
use longhaul_linkem::relay::Counts;
use longhaul_sys::linux::{RecvBatch, Transmit, UdpSocket, monotonic_now, thread_cpu_time};
use longhaul_sys::pool::RecvPool;
use serde::Serialize;

use super::transfer::relay;
use super::{Lateness, link};
use crate::meter::{Meter, seconds_since};

/// Number of bytes of the UDP payload. [`PACKET_BITS`] is the size of the IP packet in bits.
const LEN: usize = 1472;
const PACKET_BITS: u64 = 8 * 1500;
/// Datagrams per system call: the maximum that the UDP length field and Linux's segmentation offload allow.
const CALL: usize = 40;
/// Time without a packet after which the receiver gives up.
const SILENCE: Duration = Duration::from_secs(1);
const BUFFER: usize = 8 << 20;
/// Maximum number of processors that other processes may use during a measurement.
const FOREIGN: f64 = 0.2;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Flood {
    pub(super) link: &'static str,
    pub(super) mbps: f64,
    pub(super) sent_mbps: f64,
    /// Fraction of the sent packets that arrived.
    pub(super) received: f64,
    /// Datagrams lost at the relay's sockets.
    pub(super) socket_drops: u64,
    /// Processor time of the relay's thread, as a fraction of a processor.
    pub(super) relay_cpu: f64,
    pub(super) lateness: Lateness,
    /// Number of processors that other processes used.
    foreign: f64,
}

impl Flood {
    /// Returns whether the machine was otherwise idle.
    pub(super) fn kept_up(&self) -> bool {
        self.foreign < FOREIGN
    }

    /// Returns whether the sender reached the rate and at most 0.01 % of the packets were lost.
    pub(super) fn held(&self) -> bool {
        self.received > 0.9999 && self.socket_drops == 0 && self.sent_mbps > 0.99 * self.mbps
    }
}

/// Sends packets of 1500 bytes at `bits` per second over a link for some seconds.
pub(super) fn flood(name: &'static str, bits: u64, seconds: u64) -> Result<Flood> {
    let (client, server) = (socket()?, socket()?);
    let relay = relay(&link(&format!("--scenario {name}"))?, server.local_addr())?;
    let (to, packets) = (relay.local_addr(), bits * seconds / PACKET_BITS);
    let (meter, began) = (Meter::start()?, monotonic_now());
    let sender = thread::spawn(move || -> Result<_> {
        send(&client, to, packets, bits, began)?;
        Ok((seconds_since(began), thread_cpu_time()))
    });
    let receiver = thread::spawn(move || (receive(&server, packets), thread_cpu_time()));
    let (took, sender_cpu) = sender.join().ok().context("the sender failed")??;
    let (received, receiver_cpu) = receiver.join().ok().context("the receiver failed")?;
    let usage = meter.stop()?;
    let (engine, counts) = relay.stop()?;
    let Counts { refused, missed, unsent, .. } = counts;
    anyhow::ensure!(engine.stats(Direction::Up).all().dropped_total() == 0, "the link dropped what fits it");
    Ok(Flood {
        link: name,
        mbps: bits as f64 / 1e6,
        sent_mbps: (packets * PACKET_BITS) as f64 / 1e6 / took,
        received: received as f64 / packets as f64,
        socket_drops: refused + missed + unsent,
        relay_cpu: (usage.cpu_s - sender_cpu.as_secs_f64() - receiver_cpu.as_secs_f64()) / usage.seconds,
        lateness: Lateness::of(engine.lateness()),
        foreign: (usage.machine_s - usage.cpu_s) / usage.seconds,
    })
}

fn socket() -> Result<UdpSocket> {
    let socket = UdpSocket::new(StdSocket::bind((Ipv4Addr::LOCALHOST, 0))?)?;
    socket.set_recv_buffer(BUFFER)?;
    socket.set_send_buffer(BUFFER)?;
    Ok(socket)
}

/// Sends the packets that are due, every 50 us. `began` is the start in nanoseconds of the monotonic clock.
fn send(socket: &UdpSocket, to: SocketAddr, packets: u64, bits: u64, began: u64) -> Result<()> {
    let zeros = [0; LEN * CALL];
    let mut sent = 0;
    while sent < packets {
        let due = (seconds_since(began) * bits as f64) as u64 / PACKET_BITS;
        while sent < due.min(packets) {
            let count = (due.min(packets) - sent).min(CALL as u64);
            let slices = [IoSlice::new(zeros.get(..LEN * count as usize).unwrap_or(&zeros))];
            let segment_size = (count > 1).then_some(LEN as u16);
            socket.send(&Transmit { destination: Some(to), tos: 0, src_ip: None, segment_size, slices: &slices })?;
            sent += count;
        }
        thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

fn receive(socket: &UdpSocket, packets: u64) -> u64 {
    let mut batch = RecvBatch::new(&RecvPool::new(32, 0), 32);
    let (mut received, mut last) = (0, monotonic_now());
    while received < packets && seconds_since(last) < SILENCE.as_secs_f64() {
        if socket.recv(&mut batch).is_ok() {
            received += batch.messages().map(|message| message.datagrams().count() as u64).sum::<u64>();
            last = monotonic_now();
        } else {
            thread::sleep(Duration::from_micros(200));
        }
    }
    received
}
