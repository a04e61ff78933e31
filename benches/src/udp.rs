//! Upper bound: raw UDP through tokio and quinn-udp, with segmentation and receive offload.
//!
//! A reliable transport without any costs would have this speed. The sender repeatedly sends batches of datagrams of
//! 1472 bytes from one buffer, with at most 1 MiB in flight. The receiver counts the bytes without reading them, and
//! reports the count every 64 KiB. All 1472 bytes count as goodput, although 24 of them are headers in longhaul.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::meter::{Meter, Usage};
use crate::transport::{UDP_PAYLOAD, udp_socket};

/// Maximum number of bytes in flight.
const WINDOW: u64 = 1 << 20;
/// Bytes received between two reports.
const REPORT_EVERY: u64 = 64 << 10;
/// Maximum UDP payload over IPv4 in bytes, and thus of a batch.
const MAX_BATCH: usize = 65_507;
/// Time without a report after which all bytes in flight are assumed to be lost.
const STALL: Duration = Duration::from_millis(100);

/// UDP socket on tokio with quinn-udp's offloads.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Udp {
    /// Binds to a port that the system chooses.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn bind(ip: IpAddr) -> Result<Self> {
        let socket = UdpSocket::from_std(udp_socket(SocketAddr::new(ip, 0))?)?;
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self { socket, state })
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        Ok(self.socket.local_addr()?)
    }

    async fn send(&self, destination: SocketAddr, contents: &[u8]) -> io::Result<()> {
        let segment_size = (contents.len() > usize::from(UDP_PAYLOAD)).then_some(usize::from(UDP_PAYLOAD));
        let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
        self.socket.async_io(Interest::WRITABLE, || self.state.try_send((&self.socket).into(), &transmit)).await
    }

    async fn receive(&self, buffers: &mut [IoSliceMut<'_>], metas: &mut [RecvMeta]) -> io::Result<usize> {
        self.socket.async_io(Interest::READABLE, || self.state.recv((&self.socket).into(), buffers, metas)).await
    }

    /// Waits for the receiver's next report, and returns the number of bytes received so far.
    async fn report(&self) -> Result<u64> {
        let mut report = [0; 8];
        self.socket.recv(&mut report).await?;
        Ok(u64::from_be_bytes(report))
    }
}

/// Sends until the receiver has `bytes` bytes. Returns the usage, and the bytes that were assumed to be lost and
/// retransmitted.
///
/// # Errors
/// Returns the system's error.
pub async fn send(to: SocketAddr, bytes: u64) -> Result<(Usage, u64)> {
    let udp = Udp::bind(Ipv4Addr::UNSPECIFIED.into())?;
    let segments = udp.state.max_gso_segments().min(MAX_BATCH / usize::from(UDP_PAYLOAD));
    let batch = vec![0x5a; segments * usize::from(UDP_PAYLOAD)];
    udp.send(to, &[]).await?;
    udp.report().await?;
    let meter = Meter::start()?;
    let (mut sent, mut received, mut lost) = (0, 0, 0);
    while received < bytes {
        let left = (bytes + lost).saturating_sub(sent).min(batch.len() as u64);
        let outstanding = sent.saturating_sub(received + lost);
        if left > 0 && outstanding + left <= WINDOW {
            udp.send(to, &batch[..left as usize]).await?;
            sent += left;
        } else if let Ok(report) = timeout(STALL, udp.report()).await {
            received = received.max(report?);
        } else {
            lost += outstanding;
        }
    }
    Ok((meter.stop()?, lost))
}

/// Receives `bytes` bytes.
///
/// # Errors
/// Returns the system's error.
pub async fn receive(udp: &Udp, bytes: u64) -> Result<Usage> {
    let mut memory = vec![[0; 1 << 16]; BATCH_SIZE];
    let mut buffers: Vec<_> = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
    let mut metas = vec![RecvMeta::default(); BATCH_SIZE];
    // An empty datagram reports that the sender is ready.
    udp.receive(&mut buffers, &mut metas).await?;
    let meter = Meter::start()?;
    let sender = metas[0].addr;
    udp.send(sender, &0_u64.to_be_bytes()).await?;
    let (mut received, mut reported) = (0, 0);
    while received < bytes {
        let messages = udp.receive(&mut buffers, &mut metas).await?;
        received += metas[..messages].iter().map(|meta| meta.len as u64).sum::<u64>();
        if received - reported >= REPORT_EVERY || received >= bytes {
            reported = received;
            udp.send(sender, &received.to_be_bytes()).await?;
        }
    }
    meter.stop()
}
