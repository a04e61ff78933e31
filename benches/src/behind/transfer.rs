//! The two sides of a transfer, as workers.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use longhaul::PathCache;
use longhaul::units::Span;
use longhaul_sys::linux::{monotonic_now, run_first};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::meter::seconds_since;
use crate::transport::{Connector, Listener, Rival, Stream, Transport};
use crate::worker;

/// What is transferred.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Load {
    /// So much, however long it takes.
    Bytes(u64),
    /// As much as arrives in that time.
    Seconds(f64),
}

/// A worker's job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Outside: says the port, then [`Received`].
    Receive { transport: Transport },
    /// Inside: says for how much of its time it waited for a processor, from 0 to 1. What it knows of the path is in the file
    /// `memory`, if one is given, and what it learns goes there. It begins after `rest` seconds.
    Send { rival: Rival, port: u16, load: Load, memory: Option<PathBuf>, rest: f64 },
}

/// What arrived.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Received {
    /// From before the sender's `connect` to the last byte.
    pub(crate) seconds: f64,
    pub(crate) bytes: u64,
    /// Bytes that arrived in each second of it.
    pub(crate) each_second: Vec<u64>,
}

/// The first bytes of the stream: when the sender began, and when the receiver is to stop if the stream does not end
/// before. Nanoseconds of the monotonic clock, which all namespaces share.
struct Order {
    began: u64,
    until: u64,
}

const ORDER_LEN: usize = 16;
/// How much the kernel's TCP may have under way. The namespace of a shell has its own.
const SEND_BUFFERS: &str = "/proc/sys/net/ipv4/tcp_wmem";
/// What longhaul may, besides the kernel's own least and first.
const MOST_SENT: &str = "4096 16384 67108864";
/// Bytes of a write, and the most of a read.
const CHUNK: usize = 64 << 10;

impl Load {
    /// The metric's name: it is in seconds, or in Mb/s.
    pub(crate) const fn metric(self) -> &'static str {
        match self {
            Self::Bytes(_) => "completion_s",
            Self::Seconds(_) => "goodput_mbps",
        }
    }

    pub(crate) fn value(self, received: &Received) -> f64 {
        match self {
            Self::Bytes(_) => received.seconds,
            Self::Seconds(seconds) => received.bytes as f64 * 8e-6 / seconds,
        }
    }

    /// How much has to arrive, if that is fixed.
    pub(crate) const fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Seconds(_) => None,
        }
    }

    fn until(self, began: u64) -> u64 {
        match self {
            Self::Bytes(_) => u64::MAX,
            Self::Seconds(seconds) => began + (seconds * 1e9) as u64,
        }
    }
}

impl Order {
    fn to_bytes(&self) -> [u8; ORDER_LEN] {
        let mut bytes = [0; ORDER_LEN];
        bytes[..8].copy_from_slice(&self.began.to_be_bytes());
        bytes[8..].copy_from_slice(&self.until.to_be_bytes());
        bytes
    }

    async fn read(stream: &mut Stream) -> Result<Self> {
        Ok(Self { began: stream.read_u64().await?, until: stream.read_u64().await? })
    }
}

/// Does a job.
pub(crate) async fn work(job: Job) -> Result<()> {
    // What others do on this machine is not to be measured. Where it is not permitted, `waited` tells.
    let _ = run_first();
    match job {
        Job::Receive { transport } => {
            let listener = Listener::bind(transport, IpAddr::V4(Ipv4Addr::UNSPECIFIED)).await?;
            worker::say(&listener.local_addr()?.port())?;
            let mut stream = listener.accept().await?;
            worker::say(&receive(&mut stream).await?)?;
            stream.shutdown().await?;
            worker::until_ended().await
        }
        Job::Send { rival, port, load, memory, rest } => {
            let outside =
                env::var("LONGHAUL_OUTSIDE").context("this worker belongs into a shell of longhaul-linkem")?;
            let outside: IpAddr = outside.parse()?;
            let _ = fs::write(SEND_BUFFERS, MOST_SENT);
            let paths = PathCache::default();
            let mut connector = Connector::new(rival)?;
            if let Some(file) = &memory {
                if file.exists() {
                    paths.load(longhaul::now(), Span::ZERO, &as_of(outside, &fs::read_to_string(file)?))?;
                }
                connector = connector.remembering(paths.clone());
            }
            sleep(Duration::from_secs_f64(rest)).await;
            let began = monotonic_now();
            let mut stream = connector.connect((outside, port).into()).await?;
            send(&mut stream, load, began).await?;
            drop(stream);
            if let Some(file) = &memory {
                fs::write(file, paths.save(longhaul::now()))?;
            }
            worker::say(&(waited()? / seconds_since(began)))
        }
    }
}

/// A memory as if it were of this host: the path is the same, but each shell has an address of its own for what is outside.
fn as_of(host: IpAddr, memory: &str) -> String {
    let (head, entries) = memory.split_once('\n').unwrap_or((memory, ""));
    let moved = entries.lines().filter_map(|entry| Some(format!("\n{host} {}", entry.split_once(' ')?.1)));
    std::iter::once(head.to_owned()).chain(moved).collect()
}

/// Seconds for which the first thread of this process could have run, but others did.
fn waited() -> Result<f64> {
    let path = "/proc/self/schedstat";
    let stat = fs::read_to_string(path).context(path)?;
    let nanos: f64 = stat.split_whitespace().nth(1).context(path)?.parse()?;
    Ok(nanos / 1e9)
}

async fn send(stream: &mut Stream, load: Load, began: u64) -> Result<()> {
    let until = load.until(began);
    stream.write_all(&Order { began, until }.to_bytes()).await?;
    let chunk = vec![0x5a; CHUNK];
    match load {
        Load::Bytes(bytes) => {
            let mut left = bytes.saturating_sub(ORDER_LEN as u64);
            while left > 0 {
                let part = left.min(CHUNK as u64);
                stream.write_all(&chunk[..part as usize]).await?;
                left -= part;
            }
            stream.shutdown().await?;
            // The receiver closes when it has everything.
            let answered = stream.read(&mut [0]).await?;
            ensure!(answered == 0, "the receiver has said something");
            Ok(())
        }
        Load::Seconds(_) => {
            let all = async {
                loop {
                    stream.write_all(&chunk).await?;
                }
            };
            let left = Duration::from_nanos(until.saturating_sub(monotonic_now()));
            timeout(left, all).await.unwrap_or(Ok(()))
        }
    }
}

async fn receive(stream: &mut Stream) -> Result<Received> {
    let Order { began, until } = Order::read(stream).await?;
    let mut received = Received { seconds: 0.0, bytes: 0, each_second: Vec::new() };
    received.count(ORDER_LEN, monotonic_now() - began);
    let mut chunk = vec![0; CHUNK];
    loop {
        let left = Duration::from_nanos(until.saturating_sub(monotonic_now()));
        // Time is up, or everything is here.
        let Ok(read) = timeout(left, stream.read(&mut chunk)).await else { break };
        let (read, now) = (read?, monotonic_now());
        if read == 0 || now > until {
            break;
        }
        received.count(read, now - began);
    }
    Ok(received)
}

impl Received {
    fn count(&mut self, bytes: usize, nanos: u64) {
        self.bytes += bytes as u64;
        self.seconds = nanos as f64 / 1e9;
        let second = self.seconds as usize;
        if second >= self.each_second.len() {
            self.each_second.resize(second + 1, 0);
        }
        self.each_second[second] += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver and its sender, without a link between.
    async fn transfer(rival: Transport, load: Load) -> Received {
        let listener = Listener::bind(rival, Ipv4Addr::LOCALHOST.into()).await.unwrap();
        let to = listener.local_addr().unwrap();
        let sender = tokio::spawn(async move {
            let began = monotonic_now();
            let mut stream = Connector::new(rival).unwrap().connect(to).await.unwrap();
            send(&mut stream, load, began).await
        });
        let mut stream = listener.accept().await.unwrap();
        let received = receive(&mut stream).await.unwrap();
        stream.shutdown().await.unwrap();
        sender.await.unwrap().unwrap();
        received
    }

    #[tokio::test]
    async fn sizes_are_counted_to_the_byte() {
        for rival in [Transport::Tcp, Transport::Longhaul] {
            let received = transfer(rival, Load::Bytes(300_001)).await;
            assert_eq!(received.bytes, 300_001);
            assert_eq!(received.each_second.iter().sum::<u64>(), 300_001);
            assert!(received.seconds > 0.0);
        }
    }

    #[tokio::test]
    async fn times_end_by_themselves() {
        let load = Load::Seconds(0.2);
        let received = transfer(Transport::Tcp, load).await;
        assert!(received.bytes > 0 && received.seconds <= 0.2, "{received:?}");
        let mbps = received.bytes as f64 * 8.0 / 0.2 / 1e6;
        assert!((load.value(&received) / mbps - 1.0).abs() < 1e-9);
    }
}
