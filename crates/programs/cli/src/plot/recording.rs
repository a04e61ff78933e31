//! Records a transfer while it is in progress, by samples of the state of its connections.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use longhaul::{LimitedBy, TcpInfo, TcpStream};

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

impl Plot {
    /// Starts to record a transfer. `file` is written at the end.
    pub(crate) fn new(file: PathBuf, screen: &Screen) -> Self {
        Self {
            file,
            screen: screen.clone(),
            transfer: Transfer::default(),
            watch: Stopwatch::start(),
            sampled: Duration::ZERO,
            before: Counters::default(),
            earlier: [0; 2],
        }
    }

    /// Starts to record a connection.
    pub(crate) fn begin(&mut self, stream: &TcpStream) {
        let address = |address: io::Result<SocketAddr>| address.map_or_else(|_| String::new(), |a| a.to_string());
        self.transfer.local = address(stream.local_addr());
        self.transfer.remote = address(stream.peer_addr());
        self.earlier[0] += self.before.lost;
        self.earlier[1] += self.before.retransmitted;
        self.before = Counters::default();
        // Nothing is in flight between connections.
        self.sampled = self.watch.elapsed();
        let now = self.sampled.as_secs_f64();
        self.transfer.in_flight.push(now, 0.0);
        if let Ok(info) = stream.info() {
            // The data sent during the handshake is part of the first sample.
            self.transfer.congestion.clone_from(&info.congestion);
            self.before.limited_by = info.limited_by;
            self.add(&info);
        }
    }

    /// Adds a sample of the connection unless the last one is recent.
    pub(crate) fn update(&mut self, stream: &TcpStream) {
        if self.watch.elapsed() - self.sampled >= INTERVAL {
            self.sample(stream);
        }
    }

    /// Adds a sample of the connection.
    pub(crate) fn sample(&mut self, stream: &TcpStream) {
        if let Ok(info) = stream.info() {
            self.add(&info);
        }
    }

    fn add(&mut self, info: &TcpInfo) {
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

impl Drop for Plot {
    fn drop(&mut self) {
        let transfer = std::mem::take(&mut self.transfer).complete();
        if let Err(error) = std::fs::write(&self.file, transfer.draw()) {
            self.screen.warn(&format!("cannot write {}: {error}", self.file.display()));
        }
    }
}
