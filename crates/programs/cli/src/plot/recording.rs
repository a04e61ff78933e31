//! Records a transfer while it is in progress, by samples of the state of its connections.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use longhaul::{LimitedBy, TcpInfo, TcpStream};
use longhaul_tls::Fingerprint;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Transfer;
use crate::progress::Screen;
use crate::report::Stopwatch;
use crate::transport::{Connection, Snapshot, Transport};

const INTERVAL: Duration = Duration::from_millis(5);

/// Successive connections of a transfer, drawn into a file when dropped.
#[derive(Debug)]
pub(crate) struct Plot {
    file: PathBuf,
    screen: Screen,
    recording: Arc<Mutex<Recording>>,
}

impl Plot {
    /// Starts to record a transfer. `file` is written at the end.
    pub(crate) fn new(file: PathBuf, screen: &Screen) -> Self {
        Self { file, screen: screen.clone(), recording: Arc::default() }
    }

    /// Records a connection. Its state is sampled whenever it is used.
    pub(crate) fn record<S: Connection>(&self, stream: S) -> Recorded<S> {
        lock(&self.recording).begin(&stream);
        Recorded { stream, recording: Some(Arc::clone(&self.recording)) }
    }
}

impl Drop for Plot {
    fn drop(&mut self) {
        let transfer = lock(&self.recording).transfer.clone();
        if let Err(error) = std::fs::write(&self.file, transfer.complete().draw()) {
            self.screen.warn(&format!("cannot write {}: {error}", self.file.display()));
        }
    }
}

fn lock(recording: &Mutex<Recording>) -> MutexGuard<'_, Recording> {
    recording.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Recording {
    transfer: Transfer,
    watch: Stopwatch,
    sampled: Duration,
    before: Counters,
    /// Bytes marked lost and bytes retransmitted on earlier connections.
    earlier: [u64; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    sent: u64,
    delivered: u64,
    received: u64,
    lost: u64,
    retransmitted: u64,
    limited_by: LimitedBy,
}

impl Default for Recording {
    fn default() -> Self {
        Self {
            transfer: Transfer::default(),
            watch: Stopwatch::start(),
            sampled: Duration::ZERO,
            before: Counters::default(),
            earlier: [0; 2],
        }
    }
}

impl Recording {
    fn begin(&mut self, stream: &impl Connection) {
        let address =
            |address: io::Result<std::net::SocketAddr>| address.map_or_else(|_| String::new(), |a| a.to_string());
        self.transfer.local = address(stream.tcp().local_addr());
        self.transfer.remote = address(stream.tcp().peer_addr());
        self.earlier[0] += self.before.lost;
        self.earlier[1] += self.before.retransmitted;
        self.before = Counters::default();
        // Nothing is in flight between connections.
        self.sampled = self.watch.elapsed();
        let now = self.sampled.as_secs_f64();
        self.transfer.in_flight.push(now, 0.0);
        if let Ok(info) = stream.tcp().info() {
            // The data sent during the handshake is part of the first sample.
            self.transfer.congestion.clone_from(&info.congestion);
            self.before.limited_by = info.limited_by;
            self.sample(&info);
        }
    }

    /// Adds a sample unless the last one is recent.
    fn update(&mut self, stream: &TcpStream) {
        if self.watch.elapsed() - self.sampled >= INTERVAL
            && let Ok(info) = stream.info()
        {
            self.sample(&info);
        }
    }

    fn sample(&mut self, info: &TcpInfo) {
        let from = self.sampled.as_secs_f64();
        self.sampled = self.watch.elapsed();
        let now = self.sampled.as_secs_f64();
        let after = Counters {
            sent: info.bytes_sent,
            delivered: info.delivered_bytes,
            received: info.bytes_received,
            lost: info.lost_bytes,
            retransmitted: info.bytes_retrans,
            limited_by: info.limited_by,
        };
        let before = std::mem::replace(&mut self.before, after);
        let transfer = &mut self.transfer;
        transfer.end = now;
        for (buckets, after, before) in [
            (&mut transfer.sent, after.sent, before.sent),
            (&mut transfer.acked, after.delivered, before.delivered),
            (&mut transfer.received, after.received, before.received),
        ] {
            buckets.spread(from, now, after.saturating_sub(before) as f64);
        }
        let millis = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
        for (points, value) in [
            (&mut transfer.latest_rtt, millis(info.latest_rtt)),
            (&mut transfer.smoothed_rtt, millis(info.rtt)),
            (&mut transfer.cwnd, Some(info.snd_cwnd_bytes as f64)),
            (&mut transfer.in_flight, Some(info.in_flight_bytes as f64)),
            (&mut transfer.lost, Some((self.earlier[0] + after.lost) as f64)),
            (&mut transfer.retransmitted, Some((self.earlier[1] + after.retransmitted) as f64)),
        ] {
            if let Some(value) = value {
                points.push(now, value);
            }
        }
        for (limit, time) in after.limited_by.since(&before.limited_by).fields() {
            transfer.limit(limit.name(), from, now, time.as_secs_f64());
        }
    }
}

/// A connection that is recorded if there is a [`Plot`].
pub(crate) struct Recorded<S> {
    stream: S,
    recording: Option<Arc<Mutex<Recording>>>,
}

impl<S: Connection> Recorded<S> {
    /// Wraps a connection that is not recorded.
    pub(crate) fn unrecorded(stream: S) -> Self {
        Self { stream, recording: None }
    }

    fn update(&self) {
        if let Some(recording) = &self.recording {
            lock(recording).update(self.stream.tcp());
        }
    }
}

impl<S: Connection> AsyncRead for Recorded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.update();
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: Connection> AsyncWrite for Recorded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.update();
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.update();
        Pin::new(&mut self.stream).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: Connection> Transport for Recorded<S> {
    /// Also samples the state whenever it is displayed, which shows outages.
    fn snapshot(&self) -> Snapshot {
        self.update();
        self.stream.snapshot()
    }

    fn peer_key(&self) -> Option<Fingerprint> {
        self.stream.peer_key()
    }
}

impl<S: Connection + Send> Connection for Recorded<S> {
    fn tcp(&self) -> &TcpStream {
        self.stream.tcp()
    }

    async fn close(self) -> io::Result<()> {
        let Self { stream, recording } = self;
        if let (Some(recording), Ok(info)) = (recording, stream.tcp().info()) {
            lock(&recording).sample(&info);
        }
        stream.close().await
    }
}
