//! Receiving end of the bench `pacing`: a thread that serves one endpoint and records when data arrives.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket as StdSocket};
use std::sync::Arc;

use anyhow::{Context, Result};
use longhaul_sys::linux::{Poll, RecvBatch, Timer, Transmit, UdpSocket, monotonic_now};
use longhaul_sys::pool::RecvPool;
use longhaul_tcp::{Batch as Outgoing, Config, ConnId, DatagramMeta, Endpoint, EndpointConfig};
use longhaul_units::Time;
use longhaul_wire::{CheshireCodec, Segment};

/// Receive buffer of the socket in bytes, large enough that nothing is lost while the thread waits for the processor.
const BUFFER: usize = 8 << 20;
const MESSAGES: usize = 8;
/// Token of the socket in [`Poll::wait`].
const SOCKET: u64 = 0;
const TIMER: u64 = 1;

/// Batch of datagrams that arrived in one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Batch {
    /// Time of arrival in nanoseconds since the first batch.
    pub(super) at: f64,
    /// Number of data bytes.
    pub(super) len: f64,
}

/// Socket, and an endpoint that reads and discards one stream. Without an endpoint, nothing is answered.
#[derive(Debug)]
pub(super) struct Receiver {
    socket: UdpSocket,
    endpoint: Option<Endpoint>,
    connection: Option<ConnId>,
    outgoing: Outgoing,
}

impl Receiver {
    pub(super) fn new(answers: bool) -> Result<Self> {
        let socket = UdpSocket::new(StdSocket::bind((Ipv4Addr::LOCALHOST, 0))?)?;
        socket.set_recv_buffer(BUFFER)?;
        let listening = || {
            let mut endpoint = Endpoint::new(EndpointConfig::new([1; 32]), now());
            endpoint.listen(Arc::new(Config::default()));
            endpoint
        };
        Ok(Self { socket, endpoint: answers.then(listening), connection: None, outgoing: Outgoing::default() })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// Receives until the time `until` in nanoseconds of the monotonic clock.
    pub(super) fn run(mut self, until: u64) -> Result<Vec<Batch>> {
        let (poll, timer) = (Poll::new()?, Timer::new()?);
        poll.add(&self.socket, SOCKET)?;
        poll.add(&timer, TIMER)?;
        let mut received = RecvBatch::new(&RecvPool::new(MESSAGES, 0), MESSAGES);
        let (mut batches, mut first, mut ready) = (Vec::new(), None, Vec::new());
        while monotonic_now() < until {
            let due = self.endpoint.as_mut().and_then(Endpoint::poll_timeout);
            timer.arm(Some(due.map_or(until, |due| due.as_nanos().min(until))))?;
            ready.clear();
            poll.wait(true, &mut ready)?;
            if ready.contains(&SOCKET) && self.socket.recv(&mut received).is_ok() {
                for message in received.messages() {
                    let arrived = message.meta.timestamp.context("no receive timestamps")?;
                    let len = data_of(message.datagrams(), self.endpoint.is_some()) as f64;
                    if len > 0.0 {
                        // An `f64` would round nanoseconds since 1970 to multiples of 256.
                        let since = arrived.saturating_sub(*first.get_or_insert(arrived));
                        batches.push(Batch { at: since.as_nanos() as f64, len });
                    }
                    if let Some(endpoint) = &mut self.endpoint {
                        let meta = DatagramMeta::new(message.meta.addr, message.meta.stride);
                        endpoint.handle_datagram(now(), &meta, message.data(), None);
                    }
                }
            }
            self.serve()?;
        }
        Ok(batches)
    }

    /// Reads the data of the stream, and sends the endpoint's segments.
    fn serve(&mut self) -> Result<()> {
        let Some(endpoint) = &mut self.endpoint else { return Ok(()) };
        endpoint.handle_timeout(now());
        while endpoint.poll_event().is_some() {}
        self.connection = self.connection.or_else(|| endpoint.accept());
        if let Some(id) = self.connection {
            endpoint.drive(
                now(),
                id,
                |connection| while connection.read(usize::MAX).is_ok_and(|data| !data.is_empty()) {},
            );
        }
        // Nearly all segments are ACKs, so batches would not help.
        while let Some(to) = endpoint.poll_transmit(now(), &mut self.outgoing, 1) {
            send(&self.socket, to.tuple.remote, &self.outgoing.headers, None)?;
        }
        Ok(())
    }
}

fn now() -> Time {
    Time::from_nanos(monotonic_now())
}

/// Returns the number of data bytes in the datagrams. If they are not segments, all bytes are data.
fn data_of<'a>(datagrams: impl Iterator<Item = &'a [u8]>, segments: bool) -> usize {
    let len = |datagram: &[u8]| match Segment::parse::<CheshireCodec>(datagram) {
        Ok(segment) if segments => segment.payload.len(),
        _ if segments => 0,
        _ => datagram.len(),
    };
    datagrams.map(len).sum()
}

/// Sends datagrams of `segment_size` bytes each, or a single one if it is `None`.
pub(super) fn send(socket: &UdpSocket, to: SocketAddr, data: &[u8], segment_size: Option<u16>) -> Result<()> {
    let slices = [IoSlice::new(data)];
    Ok(socket.send(&Transmit { destination: Some(to), tos: 0, src_ip: None, segment_size, slices: &slices })?)
}
