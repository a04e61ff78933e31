//! Streams over longhaul: sources and sinks.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use longhaul::{TcpSocket, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Interval, MissedTickBehavior, sleep};

use super::meter::Meter;
use super::protocol::Params;
use super::timing::Timing;
use crate::transport;

/// How often the connection's state is noted.
const SAMPLING: Duration = Duration::from_millis(10);
/// How long nothing may arrive: iperf3's.
pub const IDLE: Duration = Duration::from_secs(120);
/// Bytes that wait to be sent at most, so that what counts as sent is not far ahead of what is: what the path delivers
/// in 20 ms, within these limits. The lower is the library's own, which it keeps while the congestion window is full.
const AHEAD: (u64, u64) = (256 << 10, 4 << 20);
/// Bytes taken from a connection at a time.
const READ: usize = 1 << 20;

/// Bytes of the header in a datagram before options (`docs/wire.md`).
const HEADER: u16 = 12;

/// Gives a socket the settings of a test's streams.
///
/// # Errors
/// The socket's.
pub fn set_up(socket: &mut TcpSocket, params: &Params) -> io::Result<()> {
    if let Some(window) = params.window {
        socket.set_send_buffer_size(window)?;
        socket.set_recv_buffer_size(window)?;
    }
    if let Some(mss) = params.mss {
        let config = socket.config();
        let most = mss.saturating_add(HEADER);
        config.max_plpmtu = config.max_plpmtu.min(most);
        config.base_plpmtu = config.base_plpmtu.min(most);
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
        meter.with(|gauge| gauge.sample(info));
    }
}

/// Looks at a sender now and then: notices when the receiver takes nothing for long, though there is something for it.
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
        stream.set_notsent_lowat(Some((info.delivery_rate / 50).clamp(AHEAD.0, AHEAD.1) as u32))?;
        meter.with(|gauge| gauge.sample(info));
        if now - self.at > IDLE.as_secs_f64() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the receiver takes nothing"));
        }
        Ok(())
    }
}

/// What is sent on a stream.
#[derive(Clone, Debug)]
pub struct Load {
    /// What tells the receiver which stream it is, before the data and in one write with it. It does not count.
    pub opening: Vec<u8>,
    /// Bytes of a block.
    pub length: usize,
    /// Bits per second, 0 for no limit.
    pub rate: u64,
    /// Blocks that leave at once under such a limit.
    pub burst: u32,
}

/// Sends a load until the time or the budget is up, and waits until the receiver has confirmed all. `stopped` is told
/// when the stream has ended, as far as it is to be measured.
///
/// # Errors
/// The connection's.
pub async fn send(
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
    // A time is up when it is up; a number of bytes is sent when it is there.
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
        bail!("the receiver sent what it should not");
    }
    let confirmed = timing.elapsed();
    sample(&stream, &meter);
    meter.with(|gauge| gauge.confirmed = Some(confirmed));
    if let Some(stopped) = stopped {
        stopped(confirmed);
    }
    // All is there: what may still go wrong concerns nobody.
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
    // Bytes of the opening that are still to be written: they are no data.
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
                    meter.with(|gauge| gauge.count(counted, timing.elapsed()));
                }
                // Where the connection takes all at once, others must have their turn all the same.
                tokio::task::consume_budget().await;
            }
        }
    }
}

/// Receives to the end of the stream, and ends ours. `stopped` is told when that was. A sender that exceeds the agreed
/// `rate` (bits per second, 0 for no limit) by more than `slack` bytes is held back by the receive window.
///
/// # Errors
/// The connection's, or when nothing arrives for long.
pub async fn receive(
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
            data = stream.read_bytes(READ), if early <= 0.0 => {
                let data = data.context("receiving failed")?;
                heard = timing.elapsed();
                if data.is_empty() {
                    break;
                }
                received += data.len() as u64;
                meter.with(|gauge| gauge.count(data.len(), heard));
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

    /// Such a sender was admitted by a server with `--max-rate` and does not keep to what it announced.
    #[tokio::test]
    async fn a_sender_beyond_the_agreed_rate_is_held_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let meter = Arc::<Meter>::default();
        let timing = Timing::start(&Params::default(), (IDLE, IDLE));
        let receiving = tokio::spawn(receive(server, Arc::clone(&meter), timing, (8_000, 10_000), |_| {}));
        // Without the limit this takes less than the time.
        let all = client.write_all(&[0; 64 << 20]);
        assert!(tokio::time::timeout(Duration::from_secs(3), all).await.is_err());
        receiving.abort();
    }
}
