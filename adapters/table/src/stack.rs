//! A bulk transfer between two endpoints of a QUIC stack without sockets, in virtual time.

use std::time::{Duration, Instant};

use longhaul_link::{Cause, Ecn, Link, LinkConfig, Packet};
use longhaul_units::{Span, Time};

use crate::links::Place;

/// IPv4 and UDP headers.
const HEADERS: u32 = 28;
/// Number of calls to an endpoint without progress of time after which it counts as stuck.
const PATIENCE: u32 = 100_000;

/// A datagram between the endpoints.
pub(crate) struct Datagram {
    pub(crate) bytes: Vec<u8>,
    /// The ECN field, as its two bits.
    pub(crate) ecn: u8,
}

/// One end of a connection.
pub(crate) trait End {
    /// Returns when this end must be called next.
    fn due(&mut self) -> Option<Instant>;
    fn receive(&mut self, now: Instant, datagram: Datagram);
    /// Handles timers, and returns the datagrams to send.
    fn drive(&mut self, now: Instant, out: &mut Vec<Datagram>);
    /// Returns the number of bytes that the application has read, or the reason why the connection failed.
    fn read(&self) -> Result<u64, &str>;
}

/// Result of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Mb/s.
    pub(crate) goodput: f64,
    /// Fraction of the packets that arrived at a full queue.
    pub(crate) overflow: f64,
}

/// Runs the transfer for the duration of `place`; `client`, `server` or both send.
pub(crate) fn transfer<E: End>(
    place: &Place,
    client: &mut E,
    server: &mut E,
    origin: Instant,
    seed: u64,
) -> anyhow::Result<Outcome> {
    let mut links = [link(&place.up, seed, 0), link(&place.down, seed, 1)];
    let end = Time::ZERO + place.lasts;
    let instant = |at: Time| origin + Duration::from_nanos(at.since(Time::ZERO).as_nanos());
    let (mut now, mut out, mut idle) = (Time::ZERO, Vec::new(), 0);
    while now < end {
        for (side, here) in [&mut *client, &mut *server].into_iter().enumerate() {
            here.drive(instant(now), &mut out);
            for datagram in out.drain(..) {
                let size = u32::try_from(datagram.bytes.len()).unwrap_or(u32::MAX - HEADERS) + HEADERS;
                let mut packet = Packet::new(size, datagram.bytes);
                packet.ecn = Ecn::from_bits(datagram.ecn);
                links[side].offer(now, packet);
            }
        }
        let timers = [client.due(), server.due()].into_iter().flatten().map(|due| {
            let nanos = due.saturating_duration_since(origin).as_nanos();
            Time::ZERO + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        });
        let Some(next) = links.iter().filter_map(Link::next_event).chain(timers).min() else { break };
        idle = if next <= now { idle + 1 } else { 0 };
        anyhow::ensure!(idle < PATIENCE, "stuck: an endpoint asks again and again for the same time");
        now = now.max(next);
        for (side, there) in [&mut *server, &mut *client].into_iter().enumerate() {
            while let Some((_, packet)) = links[side].poll(now) {
                let ecn = packet.ecn.bits();
                there.receive(instant(now), Datagram { bytes: packet.payload, ecn });
            }
        }
    }
    let all = links[0].stats().all();
    let overflow = all.dropped(Cause::QueueFull) as f64 / all.offered.max(1) as f64;
    let read = |end: &E| end.read().map_err(|reason| anyhow::anyhow!("closed: {reason}"));
    let read = read(client)? + read(server)?;
    Ok(Outcome { goodput: read as f64 * 8.0 / place.lasts.as_secs_f64() / 1e6, overflow })
}

fn link(config: &LinkConfig, seed: u64, number: u64) -> Link<Vec<u8>> {
    Link::new(config.clone(), seed, number).expect("the links are possible")
}
