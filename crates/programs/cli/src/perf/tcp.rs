//! Streams over longhaul: sources and sinks.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use longhaul::{Chunks, TcpSocket, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Interval, MissedTickBehavior, sleep};

use super::meter::Meter;
use super::protocol::Params;
use super::timing::Timing;
use crate::sync::lock;
use crate::transport;

const SAMPLING: Duration = Duration::from_millis(10);
/// Maximum time without any data, as in iperf3.
pub(crate) const IDLE: Duration = Duration::from_secs(120);
/// Bounds on the unsent data in bytes. It is limited to what the path delivers in 20 ms, so that the count of sent
/// bytes is not far ahead of the transmission. The lower bound is the library's own, which applies while the congestion
/// window is full.
const AHEAD: (u64, u64) = (256 << 10, 4 << 20);
const READ: usize = 1 << 20;
/// Maximum number of bytes read at a time if a rate was agreed.
const PACED_READ: usize = 64 << 10;

/// Length of the header of a datagram without options in bytes (`docs/wire.md`).
const HEADER: u16 = 12;
/// UDP payload in bytes that fills an Ethernet frame, up to which longhaul probes the path by default.
const ETHERNET: u16 = 1472;

/// Applies the settings of a test's streams to a socket.
pub(crate) fn set_up(socket: &mut TcpSocket, params: &Params) -> io::Result<()> {
    if let Some(window) = params.window {
        socket.set_send_buffer_size(window)?;
        socket.set_recv_buffer_size(window)?;
    }
    if let Some(mss) = params.mss {
        socket.config().max_plpmtu(mss.saturating_add(HEADER).min(ETHERNET));
    }
    if params.tos != 0 {
        socket.set_tos_v4(params.tos.into())?;
    }
    Ok(())
}

fn sampling() -> Interval {
    let mut ticks = tokio::time::interval(SAMPLING);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn sample(stream: &TcpStream, meter: &Meter) {
    if let Ok(info) = stream.info() {
        lock(meter).sample(info);
    }
}

/// Detects, by periodic checks, a receiver that accepts nothing for a long time although data is waiting.
#[derive(Debug, Default)]
struct Watchdog {
    acknowledged: u64,
    at: f64,
}

impl Watchdog {
    fn look(&mut self, stream: &TcpStream, meter: &Meter, now: f64) -> io::Result<()> {
        let Ok(info) = stream.info() else { return Ok(()) };
        if info.bytes_acked != self.acknowledged || info.in_flight_bytes + info.notsent_bytes == 0 {
            (self.acknowledged, self.at) = (info.bytes_acked, now);
        }
        stream.set_notsent_lowat(Some(
            (info.delivery_bytes_per_second.unwrap_or(0) / 50).clamp(AHEAD.0, AHEAD.1) as u32
        ))?;
        lock(meter).sample(info);
        if now - self.at > IDLE.as_secs_f64() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the receiver takes nothing"));
        }
        Ok(())
    }
}

/// Data sent on a stream.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Bytes that identify the stream to the receiver. They are written with the first data and not counted.
    pub(crate) opening: Vec<u8>,
    /// Length of a block in bytes.
    pub(crate) length: usize,
    /// Maximum rate in bit/s; 0 is unlimited.
    pub(crate) rate: u64,
    /// Number of blocks per burst at the configured rate.
    pub(crate) burst: u32,
}

/// Sends data until the time or the number of bytes is used up, and waits until the receiver has confirmed all data.
/// Calls `stopped` with the end of the stream's measurement.
pub(crate) async fn send(
    mut stream: TcpStream,
    meter: Arc<Meter>,
    timing: Timing,
    load: Load,
    stopped: impl FnOnce(f64),
) -> Result<()> {
    let mut watchdog = Watchdog::default();
    stream.set_notsent_lowat(Some(AHEAD.0 as u32))?;
    sample(&stream, &meter);
    write(&mut stream, &meter, &timing, load, &mut watchdog).await.context("sending failed")?;
    let end = timing.elapsed();
    stream.shutdown().await.context("sending failed")?;
    // A timed test ends at its time, and a test of a number of bytes when all of them have been confirmed.
    let mut stopped = Some(stopped);
    if timing.is_timed()
        && let Some(stopped) = stopped.take()
    {
        stopped(end);
    }
    let mut ticks = sampling();
    let mut byte = [0];
    let heard = loop {
        tokio::select! {
            heard = stream.read(&mut byte) => break heard.context("the receiver did not confirm everything")?,
            _ = ticks.tick() => watchdog.look(&stream, &meter, timing.elapsed())?,
        }
    };
    if heard > 0 {
        bail!("the receiver sent unexpected data");
    }
    let confirmed = timing.elapsed();
    sample(&stream, &meter);
    lock(&meter).confirmed = Some(confirmed);
    if let Some(stopped) = stopped {
        stopped(confirmed);
    }
    // The receiver has all data; a failed close has no consequence.
    let _ = tokio::time::timeout(timing.patience, transport::close(stream)).await;
    Ok(())
}

async fn write(
    stream: &mut TcpStream,
    meter: &Meter,
    timing: &Timing,
    load: Load,
    watchdog: &mut Watchdog,
) -> io::Result<()> {
    let Load { opening, length, rate, burst } = load;
    let block = Bytes::from((0..length).map(|i| i as u8).collect::<Vec<_>>());
    let mut ticks = sampling();
    let over = timing.over();
    tokio::pin!(over);
    // Remaining bytes of the opening, which do not count as data.
    let mut uncounted = opening.len();
    let mut rest = match timing.take(block.len()) {
        0 if opening.is_empty() => return Ok(()),
        first => Bytes::from([&opening, block.get(..first).unwrap_or_default()].concat()),
    };
    let (mut sent, group) = (0_u64, (length as u64 * u64::from(burst)).max(1));
    loop {
        if rest.is_empty() {
            rest = block.slice(..timing.take(block.len()));
            if rest.is_empty() {
                return Ok(());
            }
        }
        let early = match rate {
            0 => 0.0,
            rate => (sent / group * group) as f64 * 8.0 / rate as f64 - timing.elapsed(),
        };
        tokio::select! {
            biased;
            () = &mut over, if uncounted == 0 => return Ok(()),
            _ = ticks.tick() => watchdog.look(stream, meter, timing.elapsed())?,
            () = sleep(Duration::from_secs_f64(early.max(0.0))), if early > 0.0 => {}
            written = poll_fn(|cx| stream.poll_write_bytes(cx, &mut rest)), if early <= 0.0 => {
                let written = written?;
                let counted = written.saturating_sub(uncounted);
                uncounted = uncounted.saturating_sub(written);
                sent += counted as u64;
                if counted > 0 {
                    lock(meter).count(counted, timing.elapsed());
                }
                // If the connection accepts everything at once, other tasks still need to run.
                tokio::task::consume_budget().await;
            }
        }
    }
}

/// Receives until the end of the stream, and then ends the other direction. Calls `stopped` with the time of that end.
/// If the sender exceeds the agreed `rate` (in bit/s; 0 is unlimited) by more than `slack` bytes, the receive window
/// slows it down.
pub(crate) async fn receive(
    mut stream: TcpStream,
    meter: Arc<Meter>,
    timing: Timing,
    (rate, slack): (u64, u64),
    stopped: impl FnOnce(f64),
) -> Result<()> {
    let mut ticks = sampling();
    sample(&stream, &meter);
    let mut heard = timing.elapsed();
    let mut received = 0_u64;
    let mut chunks = Chunks::default();
    let most = if rate > 0 { PACED_READ } else { READ };
    loop {
        let early = match rate {
            0 => 0.0,
            rate => received.saturating_sub(slack) as f64 * 8.0 / rate as f64 - timing.elapsed(),
        };
        tokio::select! {
            biased;
            _ = ticks.tick() => {
                sample(&stream, &meter);
                if timing.elapsed() - heard > timing.idle.as_secs_f64() {
                    bail!("nothing has arrived for {:?}", timing.idle);
                }
            }
            () = sleep(Duration::from_secs_f64(early.max(0.0))), if early > 0.0 => heard = timing.elapsed(),
            read = stream.read_chunks(&mut chunks, most), if early <= 0.0 => {
                let len = read.context("receiving failed")?;
                heard = timing.elapsed();
                if len == 0 {
                    break;
                }
                chunks.clear();
                received += len as u64;
                lock(&meter).count(len, heard);
                tokio::task::consume_budget().await;
            }
        }
    }
    sample(&stream, &meter);
    stopped(heard);
    let _ = tokio::time::timeout(timing.patience, transport::close(stream)).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use longhaul::TcpListener;

    use super::*;

    /// A server with `--max-rate` has admitted this sender, which then sends faster than it announced.
    #[tokio::test]
    async fn a_sender_beyond_the_agreed_rate_is_held_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let meter = Arc::<Meter>::default();
        let timing = Timing::start(&Params::default(), (IDLE, IDLE), None);
        let receiving = tokio::spawn(receive(server, Arc::clone(&meter), timing, (8_000, 10_000), |_| {}));
        // Without the limit this takes less than the timeout.
        let all = client.write_all(&[0; 64 << 20]);
        assert!(tokio::time::timeout(Duration::from_secs(3), all).await.is_err());
        receiving.abort();
    }
}
