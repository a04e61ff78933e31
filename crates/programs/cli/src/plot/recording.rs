//! Records a transfer while it is in progress, by samples of the state of its connections.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use longhaul::{TcpInfo, TcpStream};

use super::Transfer;
use crate::progress::Screen;
use crate::report::Stopwatch;

const INTERVAL: Duration = Duration::from_millis(5);

/// Successive connections of a transfer, drawn into a file when dropped.
#[derive(Debug)]
pub(crate) struct Plot {
    file: PathBuf,
    screen: Screen,
    transfer: Transfer,
    watch: Stopwatch,
    sampled: Duration,
    /// The last sample of the current connection.
    before: Option<TcpInfo>,
    /// Bytes marked lost and bytes retransmitted on earlier connections.
    earlier: [u64; 2],
}

impl Plot {
    /// Starts to record a transfer. `file` is written at the end.
    pub(crate) fn new(file: PathBuf, screen: &Screen) -> Self {
        Self {
            file,
            screen: screen.clone(),
            transfer: Transfer::default(),
            watch: Stopwatch::start(),
            sampled: Duration::ZERO,
            before: None,
            earlier: [0; 2],
        }
    }

    /// Starts to record a connection.
    pub(crate) fn begin(&mut self, stream: &TcpStream) {
        let address = |address: io::Result<SocketAddr>| address.map_or_else(|_| String::new(), |a| a.to_string());
        self.transfer.local = address(stream.local_addr());
        self.transfer.remote = address(stream.peer_addr());
        if let Some(before) = self.before.take() {
            self.earlier[0] += before.lost_bytes;
            self.earlier[1] += before.bytes_retrans;
        }
        // Nothing is in flight between connections.
        self.sampled = self.watch.elapsed();
        let now = self.sampled.as_secs_f64();
        self.transfer.in_flight.push(now, 0.0);
        if let Ok(info) = stream.info() {
            // The data sent during the handshake is part of the first sample.
            self.transfer.congestion.clone_from(&info.congestion);
            self.add(info);
        }
    }

    /// Adds a sample of the connection unless the last one is recent.
    pub(crate) fn update(&mut self, stream: &TcpStream) {
        if self.watch.elapsed() - self.sampled >= INTERVAL {
            self.sample(stream);
        }
    }

    pub(crate) fn sample(&mut self, stream: &TcpStream) {
        if let Ok(info) = stream.info() {
            self.add(info);
        }
    }

    fn add(&mut self, info: TcpInfo) {
        let from = self.sampled.as_secs_f64();
        self.sampled = self.watch.elapsed();
        let now = self.sampled.as_secs_f64();
        let Self { transfer, before, .. } = self;
        let since = |field: fn(&TcpInfo) -> u64| field(&info).saturating_sub(before.as_ref().map_or(0, field)) as f64;
        transfer.end = now;
        transfer.sent.spread(from, now, since(|info| info.bytes_sent));
        transfer.acked.spread(from, now, since(|info| info.delivered_bytes));
        transfer.received.spread(from, now, since(|info| info.bytes_received));
        let millis = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
        let [lost, retransmitted] = [self.earlier[0] + info.lost_bytes, self.earlier[1] + info.bytes_retrans];
        let bytes = [info.snd_cwnd_bytes, info.in_flight_bytes, lost, retransmitted].map(|bytes| Some(bytes as f64));
        transfer.sample(now, [millis(info.latest_rtt), millis(info.rtt)], bytes);
        if let Some(before) = before {
            for (limit, time) in info.limited_by.since(&before.limited_by).fields() {
                transfer.limit(limit.name(), from, now, time.as_secs_f64());
            }
        }
        self.before = Some(info);
    }
}

impl Drop for Plot {
    fn drop(&mut self) {
        let transfer = std::mem::take(&mut self.transfer).complete();
        if let Err(error) = std::fs::write(&self.file, transfer.draw()) {
            self.screen.warn(&format!("cannot write {}: {error}", self.file.display()));
        }
    }
}
