//! Transfer with one congestion controller.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use longhaul::{Config, Congestion, TcpInfo, TcpListener, TcpStream};
use tokio::io::AsyncWriteExt;

use super::data;
use super::link::Emulated;
use super::progress::Progress;
use super::running::{Running, Seen};

/// Maximum number of bytes per write or read.
const BLOCK: usize = 64 << 10;

/// Transfer between two sockets of this process.
#[derive(Debug)]
pub struct Racer {
    congestion: Congestion,
    size: u64,
    link: Option<Emulated>,
    received: Arc<AtomicU64>,
}

/// Result of a transfer.
#[derive(Clone, Debug)]
pub struct Finish {
    /// Name of the congestion controller.
    pub congestion: String,
    /// Size of the data in bytes.
    pub size: u64,
    /// Time from the first packet until the receiver had all data.
    pub took: Duration,
    /// Number of retransmitted bytes.
    pub retransmitted: u64,
    /// Measurements of the emulated link, if there is one.
    pub seen: Option<Seen>,
}

impl Racer {
    /// Creates a transfer of `size` bytes over `link`, or over the loopback interface alone if it is `None`.
    #[must_use]
    pub fn new(congestion: Congestion, size: u64, link: Option<Emulated>) -> Self {
        Self { congestion, size, link, received: Arc::default() }
    }

    /// Returns the counters of the transfer, which continue to change.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::new(self.congestion.to_string(), self.size, Arc::clone(&self.received))
    }

    /// Sends and receives the data.
    ///
    /// # Errors
    /// Returns the error because of which the data was not delivered.
    #[expect(clippy::disallowed_methods, reason = "a transfer over sockets takes real time")]
    pub async fn run(self) -> Result<Finish> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let server = listener.local_addr()?;
        let link = self.link.as_ref().map(|link| Running::start(link, server)).transpose()?;
        let address = link.as_ref().map_or(server, Running::addr);
        let start = Instant::now();
        let received = Arc::clone(&self.received);
        let receiver = tokio::spawn(async move {
            let size = receive(&listener, &received).await?;
            anyhow::Ok((size, start.elapsed()))
        });
        let info = self.send(address).await.context("the sender failed")?;
        let (size, took) = receiver.await?.context("the receiver failed")?;
        ensure!(size == self.size, "{size} of {} bytes have arrived", self.size);
        let seen = link.map(Running::stop).transpose()?;
        Ok(Finish { congestion: info.congestion, size, took, retransmitted: info.bytes_retrans, seen })
    }

    /// Sends the data. Returns the state of the connection at the end.
    async fn send(&self, to: SocketAddr) -> Result<TcpInfo> {
        let mut config = Config::default();
        // Each emulated link carries only its own connection, so no other traffic can suffer.
        config.congestion(self.congestion.clone()).allow_unsafe_congestion(self.link.is_some());
        let mut stream = TcpStream::connect_with(to, &config).await?;
        let mut block = vec![0; BLOCK];
        let mut sent = 0;
        while sent < self.size {
            let part = (self.size - sent).min(BLOCK as u64) as usize;
            let block = block.get_mut(..part).unwrap_or_default();
            data::fill(sent, block);
            stream.write_all(block).await?;
            sent += part as u64;
        }
        stream.shutdown().await?;
        // The peer closes its direction when it has all data.
        ensure!(stream.read_bytes(1).await?.is_empty(), "the receiver sent data");
        let info = stream.info()?;
        stream.close().await?;
        Ok(info)
    }
}

/// Accepts one connection, and reads and checks all of its data. Returns the number of bytes.
async fn receive(listener: &TcpListener, received: &AtomicU64) -> Result<u64> {
    let (mut stream, _) = listener.accept().await?;
    let mut at = 0;
    loop {
        let block = stream.read_bytes(BLOCK).await?;
        if block.is_empty() {
            break;
        }
        ensure!(data::is_right(at, &block), "the {} bytes from {at} on differ from what was sent", block.len());
        at += block.len() as u64;
        received.store(at, Ordering::Relaxed);
    }
    stream.close().await?;
    Ok(at)
}
