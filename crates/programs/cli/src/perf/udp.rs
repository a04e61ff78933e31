//! Streams of plain UDP: datagrams with a sequence number and the time of transmission.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{interval, sleep};

use super::meter::Meter;
use super::pacing::{Departures, Sleeper};
use super::protocol::{Challenge, Hello, Knock, Params};
use super::results::UdpSample;
use super::timing::Timing;
use crate::sync::{blocking, lock};

/// Length of the header of a datagram in bytes: a mark, the number of the datagram, counted from 1, and the sender's
/// time in nanoseconds.
pub(crate) const HEADER: usize = 20;
/// Maximum payload of a datagram in bytes, over IPv4.
pub(crate) const MAX_LENGTH: usize = 65_507;
const MARK: [u8; 4] = *b"lhpd";
/// Interval between a client's knocks until the test starts.
const KNOCKING: Duration = Duration::from_millis(100);
/// Length of a nonce in hexadecimal characters.
const NONCE: usize = 32;
/// Silence after which a receiver no longer waits for late datagrams once the sender has finished.
const QUIET: Duration = Duration::from_millis(300);
/// Maximum duration of the wait for late datagrams.
const STRAGGLING: Duration = Duration::from_secs(3);
/// Size of the socket buffers in bytes: 40 ms at 800 Mbit/s.
pub(crate) const SOCKET_BUFFER: usize = 4 << 20;

/// Opens a UDP socket on `address` with large buffers.
pub(crate) fn socket(address: SocketAddr, params: &Params) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    let buffer = params.window.map_or(SOCKET_BUFFER, |window| window as usize);
    // The kernel may grant less.
    let options = socket2::SockRef::from(&socket);
    let _ = options.set_recv_buffer_size(buffer).and_then(|()| options.set_send_buffer_size(buffer));
    if params.tos != 0 {
        let tos = u32::from(params.tos);
        if address.is_ipv4() { options.set_tos_v4(tos) } else { options.set_tclass_v6(tos) }?;
    }
    UdpSocket::from_std(socket)
}

/// Announces the sockets of the streams to the server and answers its challenges, repeatedly. Returns only on an error.
pub(crate) async fn knock(sockets: &[(UdpSocket, Hello)]) -> io::Result<()> {
    let mut ticks = interval(KNOCKING);
    let mut nonces = vec![None; sockets.len()];
    let mut buffer = [0; 512];
    loop {
        ticks.tick().await;
        for ((socket, hello), nonce) in sockets.iter().zip(&mut nonces) {
            while let Ok(length) = socket.try_recv(&mut buffer) {
                let heard = serde_json::from_slice::<Challenge>(buffer.get(..length).unwrap_or_default());
                *nonce = heard.map(|challenge| Some(challenge.nonce)).unwrap_or(nonce.take());
            }
            let knock = Knock { hello: hello.clone(), nonce: nonce.clone() };
            socket.send(&serde_json::to_vec(&knock)?).await?;
        }
    }
}

/// Waits until the client of this test, at the address `client`, sends a [`Knock`] and answers a challenge; then
/// connects `socket` to its address and port. Other datagrams are not answered, and no answer is longer than the
/// datagram that it answers.
pub(crate) async fn answer(socket: UdpSocket, hello: &Hello, client: IpAddr) -> io::Result<UdpSocket> {
    let mut key = [0; blake3::KEY_LEN];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    let mut buffer = [0; 512];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await?;
        if from.ip().to_canonical() != client.to_canonical() {
            continue;
        }
        let heard = serde_json::from_slice::<Knock>(buffer.get(..length).unwrap_or_default());
        let Some(knock) = heard.ok().filter(|knock| knock.hello == *hello) else { continue };
        let nonce = nonce(&key, from);
        if knock.nonce.as_deref() == Some(&*nonce) {
            socket.connect(from).await?;
            return Ok(socket);
        }
        let challenge = serde_json::to_vec(&Challenge { nonce })?;
        if challenge.len() <= length {
            // A lost challenge is repeated after the next `Knock`.
            let _ = socket.try_send_to(&challenge, from);
        }
    }
}

/// Returns a nonce that only the owner of `address` can learn.
fn nonce(key: &[u8; blake3::KEY_LEN], address: SocketAddr) -> String {
    let hash = blake3::keyed_hash(key, address.to_string().as_bytes());
    hash.to_hex().as_str().chars().take(NONCE).collect()
}

fn encode(buffer: &mut [u8], number: u64, nanos: u64) {
    if let Some(header) = buffer.first_chunk_mut::<HEADER>() {
        header[..4].copy_from_slice(&MARK);
        header[4..12].copy_from_slice(&number.to_be_bytes());
        header[12..].copy_from_slice(&nanos.to_be_bytes());
    }
}

fn decode(datagram: &[u8]) -> Option<(u64, u64)> {
    let (mark, rest) = datagram.split_first_chunk::<4>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let nanos = rest.first_chunk::<8>()?;
    (*mark == MARK).then(|| (u64::from_be_bytes(*number), u64::from_be_bytes(*nanos)))
}

/// Sends datagrams of `length` bytes at the times of `departures`, until the time or the number of bytes is used up.
/// Runs on a separate thread, so that no other work delays it.
pub(crate) async fn send(
    socket: UdpSocket,
    meter: Arc<Meter>,
    timing: Timing,
    (length, departures): (usize, Departures),
    stopped: impl FnOnce(f64) + Send + 'static,
) -> Result<()> {
    let socket = socket.into_std()?;
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let socket = UdpSocket::from_std(socket)?;
            send_paced(&socket, &meter, &timing, length, departures).await
        })?;
        stopped(timing.elapsed().min(timing.end().unwrap_or(f64::MAX)));
        Ok::<_, io::Error>(())
    };
    blocking(work).await.context("sending failed")
}

async fn send_paced(
    socket: &UdpSocket,
    meter: &Meter,
    timing: &Timing,
    length: usize,
    departures: Departures,
) -> io::Result<()> {
    let sleeper = Sleeper::new(timing.clock)?;
    let mut buffer = vec![0; length];
    let end = timing.end().map(Duration::from_secs_f64);
    let mut number = 0;
    lock(meter).udp = Some(UdpSample::default());
    for time in departures {
        if let Some(end) = end.filter(|&end| time >= end || timing.clock.elapsed() >= end) {
            return sleeper.until(end).await;
        }
        let bytes = timing.take(length);
        if bytes == 0 || timing.cancelled.is_set() || timing.is_stopped() {
            break;
        }
        sleeper.until(time).await?;
        number += 1;
        let now = timing.clock.elapsed();
        encode(&mut buffer, number, now.as_nanos() as u64);
        // If a number of bytes is given, the last datagram may be shorter, but has a complete header.
        let sent = socket.send(buffer.get(..bytes.max(HEADER)).unwrap_or_default()).await?;
        let mut gauge = lock(meter);
        gauge.count(sent, now.as_secs_f64());
        gauge.udp = Some(UdpSample { packets: number, ..UdpSample::default() });
    }
    Ok(())
}

/// Evaluates sequence numbers and times at the receiver.
#[derive(Clone, Copy, Debug, Default)]
struct Tracker {
    sample: UdpSample,
    received: u64,
    transit: Option<f64>,
}

impl Tracker {
    /// Records the arrival of a datagram at time `now` of the receiver's clock. Times are in nanoseconds.
    fn arrived(&mut self, number: u64, sent: u64, now: u64) {
        self.received += 1;
        let sample = &mut self.sample;
        if number > sample.packets {
            let gap = number - sample.packets - 1;
            sample.lost = sample.lost.saturating_add(i64::try_from(gap).unwrap_or(i64::MAX));
            sample.packets = number;
        } else {
            sample.out_of_order += 1;
            sample.lost = sample.lost.saturating_sub(1);
        }
        // RFC 1889, section 6.3.1: the mean deviation of the transit time between successive arrivals. The clocks
        // need not be synchronised, because only differences are used.
        let transit = now as f64 / 1e6 - sent as f64 / 1e6;
        if let Some(last) = self.transit.replace(transit) {
            sample.jitter_ms += ((transit - last).abs() - sample.jitter_ms) / 16.0;
        }
    }

    fn ended(&mut self, sent: u64) {
        let missed = sent.saturating_sub(self.sample.packets);
        self.sample.lost = self.sample.lost.saturating_add(i64::try_from(missed).unwrap_or(i64::MAX));
        self.sample.packets = self.sample.packets.max(sent);
    }
}

/// Receives until all datagrams have arrived, or the rest counts as lost. `done` announces the number sent on this
/// stream, at `index` among the received streams. Calls `stopped` with the time of the last arrival.
pub(crate) async fn receive(
    socket: UdpSocket,
    meter: Arc<Meter>,
    timing: Timing,
    (mut done, index): (watch::Receiver<Option<Vec<u64>>>, usize),
    stopped: impl FnOnce(f64),
) -> Result<()> {
    let mut buffer = vec![0; MAX_LENGTH];
    let mut tracker = Tracker::default();
    let mut last = 0.0_f64;
    let mut total = None;
    lock(&meter).udp = Some(tracker.sample);
    let straggling = sleep(Duration::MAX);
    tokio::pin!(straggling);
    while total.is_none_or(|total| tracker.received < total) {
        tokio::select! {
            length = socket.recv(&mut buffer) => {
                let length = length.context("receiving failed")?;
                let Some((number, sent)) = decode(buffer.get(..length).unwrap_or_default()) else { continue };
                let now = timing.clock.elapsed();
                last = now.as_secs_f64();
                tracker.arrived(number, sent, now.as_nanos() as u64);
                let mut gauge = lock(&meter);
                gauge.count(length, last);
                gauge.udp = Some(tracker.sample);
            }
            changed = done.changed(), if total.is_none() => {
                changed.context("the other end has ended the test")?;
                total = done.borrow_and_update().as_ref().and_then(|sent| sent.get(index).copied());
                straggling.set(sleep(STRAGGLING));
            }
            () = sleep(QUIET), if total.is_some() => break,
            () = &mut straggling => break,
        }
    }
    tracker.ended(total.unwrap_or_default());
    lock(&meter).udp = Some(tracker.sample);
    stopped(last.max(timing.end().unwrap_or_default().min(timing.elapsed())));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_were_written() {
        let mut datagram = [0; HEADER];
        encode(&mut datagram, 7, 1 << 40);
        assert_eq!(decode(&datagram), Some((7, 1 << 40)));
        assert_eq!(decode(&datagram[..HEADER - 1]), None);
        assert_eq!(decode(&[0; HEADER]), None);
    }

    #[test]
    fn loss_and_order_are_told_apart() {
        let mut tracker = Tracker::default();
        for number in [1, 2, 5, 4, 6] {
            tracker.arrived(number, 0, 0);
        }
        tracker.ended(8);
        let UdpSample { packets, lost, out_of_order, .. } = tracker.sample;
        // 3, 7 and 8 are lost; 4 is late.
        assert_eq!((packets, lost, out_of_order), (8, 3, 1));
        assert_eq!(tracker.sample.lost_percent(), 37.5);
    }

    /// Transit times of 10, 26 and 10 ms: 16/16 ms, then (15 * 1 + 16)/16 ms.
    #[test]
    fn jitter_is_rfc_1889s_whatever_the_clocks_say() {
        for offset in [0, 1 << 50] {
            let mut tracker = Tracker::default();
            let ms = 1_000_000;
            for (number, sent, arrived) in [(1, 0, 10 * ms), (2, 20 * ms, 46 * ms), (3, 40 * ms, 50 * ms)] {
                tracker.arrived(number, sent + offset, arrived);
            }
            assert!((tracker.sample.jitter_ms - 31.0 / 16.0).abs() < 1e-6, "{tracker:?}");
        }
    }
}
