//! Search for the hop at which packets queue: round trips to each router, by packets of increasing TTL (Gerla et al.,
//! PFLDnet 2006, found its bottleneck by traceroute under load).

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};

use longhaul_link::text;
use longhaul_units::{Span, Time};
use serde::Serialize;

use super::error::{Error, fill_random};
use super::report::{known, micros, time};
use super::socket::{Event, Socket};
use super::{Note, Progress};

/// Size of the packets (IP) in bytes.
const SIZE: u32 = 128;
/// Largest TTL, the default of traceroute.
const FURTHEST: u8 = 30;
/// Number of packets sent to a hop that has not answered yet.
const TRIES: u32 = 3;
/// Time for which an ICMP error is awaited.
const PATIENCE: Span = Span::from_millis(500);
/// Number of successive silent hops that ends the search.
const SILENT: usize = 4;
/// Interval in which each hop is sent one packet. Routers limit the rate of ICMP errors: Linux sends one per second and
/// host.
const ROUND: Span = Span::from_millis(250);
/// Duration of the measurement before the transfer loads the path.
pub(super) const IDLE: Span = Span::from_secs(2);
/// Duration of the measurement if other traffic loads the path.
pub(super) const BUSY: Span = Span::from_secs(15);
const SHOWN: Span = Span::from_secs(2);
/// Maximum age of a packet to which an ICMP error without a quoted nonce may be assigned.
const OLDEST: Span = Span::from_secs(2);
/// Minimum number of round trips for a median.
const LEAST: usize = 4;
/// Minimum rise of the queueing delay from hop to hop that counts: more than the median response time of a busy router.
const RISE: Span = Span::from_millis(1);
/// The minimum rise as a fraction of the largest queueing delay.
const PART: f64 = 0.25;

#[derive(Clone, Debug, Default, PartialEq)]
struct Hop {
    ttl: u8,
    address: Option<IpAddr>,
    sent: u32,
    rtts: Vec<Span>,
}

impl Hop {
    fn base(&self) -> Option<Span> {
        self.rtts.iter().min().copied()
    }

    fn queueing(&self) -> Option<Span> {
        let mut rtts = self.rtts.clone();
        rtts.sort_unstable();
        let median = rtts.get(rtts.len() / 2).filter(|_| rtts.len() >= LEAST)?;
        Some(*median - self.base()?)
    }
}

#[derive(Clone, Copy, Debug)]
struct Probed {
    ttl: u8,
    at: Time,
    answered: bool,
}

#[derive(Debug)]
pub(super) struct Scanner {
    socket: Socket,
    destination: IpAddr,
    hops: Vec<Hop>,
    probes: Vec<Probed>,
    /// Number of the first packet. It is random, so that errors cannot be forged by hosts that see no packets.
    first: u32,
    shown: Time,
}

impl Scanner {
    /// Finds the hops on the path to `address`, up to the last that answers.
    pub(super) fn discover(address: SocketAddr, progress: Progress<'_>) -> Result<Self, Error> {
        let socket = Socket::connect(address)?;
        socket.hear_routers()?;
        let mut random = [0; 4];
        fill_random(&mut random)?;
        let first = u32::from_ne_bytes(random);
        let shown = socket.now();
        let mut scanner =
            Self { socket, destination: address.ip(), hops: Vec::new(), probes: Vec::new(), first, shown };
        scanner.find_hops()?;
        if scanner.hops.is_empty() {
            return Err(Error::failed(format!(
                "neither {address} nor a router on the way there says anything of packets that it does not pass on"
            )));
        }
        let list: Vec<_> = scanner.hops.iter().map(|hop| known(hop.address)).collect();
        progress(Note::Progress, &format!("hops: {}", list.join(", ")));
        Ok(scanner)
    }

    fn find_hops(&mut self) -> Result<(), Error> {
        for ttl in 1..=FURTHEST {
            self.hops.push(Hop { ttl, ..Hop::default() });
            let index = self.hops.len() - 1;
            for _ in 0..TRIES {
                self.send(index)?;
                self.listen(self.socket.now() + PATIENCE, |scanner| scanner.is_known(index))?;
                if self.is_known(index) {
                    break;
                }
            }
            let silent = self.hops.iter().rev().take_while(|hop| hop.address.is_none()).count();
            let arrived = self.hops.iter().any(|hop| hop.address == Some(self.destination));
            if arrived || silent >= SILENT {
                break;
            }
        }
        let end = self.hops.iter().rposition(|hop| hop.address.is_some()).map_or(0, |last| last + 1);
        self.hops.truncate(end);
        Ok(())
    }

    fn is_known(&self, index: usize) -> bool {
        self.hops.get(index).is_some_and(|hop| hop.address.is_some())
    }

    /// Measures all hops repeatedly, for at most `time` and until `enough` returns true.
    pub(super) fn sample(
        &mut self,
        time: Span,
        enough: impl Fn() -> bool,
        progress: Progress<'_>,
    ) -> Result<(), Error> {
        let ends = self.socket.now() + time;
        let heard: Vec<_> = (0..self.hops.len()).filter(|index| self.is_known(*index)).collect();
        let gap = ROUND / heard.len().max(1) as u64;
        while self.socket.now() < ends && !enough() {
            for index in &heard {
                let due = self.socket.now() + gap;
                self.send(*index)?;
                self.listen(due, |_| false)?;
            }
            self.show(progress);
        }
        Ok(())
    }

    fn send(&mut self, index: usize) -> Result<(), Error> {
        let number = self.first.wrapping_add(self.probes.len() as u32);
        let Some(hop) = self.hops.get_mut(index) else { return Ok(()) };
        hop.sent += 1;
        let ttl = hop.ttl;
        let size = SIZE.max(self.socket.smallest());
        let at = self.socket.send_with_ttl(ttl, number, size)?;
        self.probes.push(Probed { ttl, at, answered: false });
        Ok(())
    }

    fn listen(&mut self, until: Time, done: impl Fn(&Self) -> bool) -> Result<(), Error> {
        while !done(self) {
            match self.socket.receive(until)? {
                None => break,
                Some(Event::Answer(answer, at)) => {
                    let number = (answer.probe.nonce >> 32) as u32;
                    self.take(Some(number), Some(self.destination), at);
                }
                Some(Event::Returned(returned, at)) => self.take(returned.nonce, returned.from, at),
                Some(Event::Refused | Event::Segment) => {}
            }
        }
        Ok(())
    }

    /// Takes an answer or an ICMP error from `from`, which quotes the number of the packet if it is long enough.
    fn take(&mut self, number: Option<u32>, from: Option<IpAddr>, at: Time) {
        let index = match number {
            Some(number) => number.wrapping_sub(self.first) as usize,
            None => match self.most_likely(from, at) {
                Some(index) => index,
                None => return,
            },
        };
        let Some(probe) = self.probes.get_mut(index).filter(|probe| !probe.answered && at >= probe.at) else { return };
        probe.answered = true;
        let Some(hop) = self.hops.iter_mut().find(|hop| hop.ttl == probe.ttl) else { return };
        hop.address = hop.address.or(from);
        hop.rtts.push(at.since(probe.at));
    }

    /// Returns the packet to which an error without a quoted nonce most likely belongs: if the sender is a known hop,
    /// the newest packet to that hop that is older than its base round trip; otherwise the newest packet to an unknown
    /// hop.
    fn most_likely(&self, from: Option<IpAddr>, at: Time) -> Option<usize> {
        let known = self.hops.iter().find(|hop| hop.address.is_some() && hop.address == from);
        let can_be = |probe: &Probed| {
            let hop = self.hops.iter().find(|hop| hop.ttl == probe.ttl);
            let fits = match known {
                Some(known) => known.ttl == probe.ttl,
                None => hop.is_some_and(|hop| hop.address.is_none()),
            };
            let age = at.since(probe.at);
            let base = hop.and_then(Hop::base).unwrap_or(Span::ZERO);
            fits && !probe.answered && at >= probe.at && age <= OLDEST && age >= base
        };
        self.probes.iter().rposition(can_be)
    }

    fn show(&mut self, progress: Progress<'_>) {
        let now = self.socket.now();
        if now.since(self.shown) >= SHOWN {
            self.shown = now;
            let queueing = |hop: &Hop| hop.queueing().map_or("?".to_owned(), text::time);
            let list: Vec<_> = self.hops.iter().map(queueing).collect();
            progress(Note::Progress, &format!("hops: {} packets, queueing {}", self.probes.len(), list.join(", ")));
        }
    }

    /// Waits for the last answers and returns the result. `loaded` states whether the transfer loaded the path.
    pub(super) fn finish(mut self, loaded: bool) -> Result<Hops, Error> {
        self.listen(self.socket.now() + PATIENCE, |_| false)?;
        Ok(Hops::new(&self.hops, loaded))
    }
}

/// Queueing delays along the path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Hops {
    /// TTL of the first hop behind the queue: packets to it wait longer than packets to earlier hops.
    pub queue_at: Option<u8>,
    /// Whether the transfer of this measurement loaded the path.
    pub loaded: bool,
    /// All hops in order.
    pub hops: Vec<HopFound>,
}

/// Measurements of one hop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HopFound {
    /// Number of links to the hop.
    pub ttl: u8,
    /// Address in the hop's ICMP errors; `None` if the hop is silent.
    pub address: Option<String>,
    /// Number of packets sent to the hop.
    pub sent: u32,
    /// Number of packets that the hop answered.
    pub answered: usize,
    /// Shortest round trip in microseconds.
    pub base_rtt_us: Option<f64>,
    /// Difference between the median and the shortest round trip, in microseconds.
    pub queueing_us: Option<f64>,
}

impl Hops {
    fn new(hops: &[Hop], loaded: bool) -> Self {
        let queueing: Vec<_> = hops.iter().filter_map(|hop| Some((hop.ttl, hop.queueing()?))).collect();
        Self { queue_at: queue_at(&queueing), loaded, hops: hops.iter().map(HopFound::from).collect() }
    }
}

impl From<&Hop> for HopFound {
    fn from(hop: &Hop) -> Self {
        Self {
            ttl: hop.ttl,
            address: hop.address.map(|address| address.to_string()),
            sent: hop.sent,
            answered: hop.rtts.len(),
            base_rtt_us: hop.base().map(micros),
            queueing_us: hop.queueing().map(micros),
        }
    }
}

/// Returns the first hop at which the queueing delay rises clearly and stays high: the time that a router takes to send
/// an ICMP error affects only its own round trips, whereas a queue affects the round trips of all hops behind it.
fn queue_at(queueing: &[(u8, Span)]) -> Option<u8> {
    let mut floor = Span::MAX;
    let mut floors: Vec<_> = queueing
        .iter()
        .rev()
        .map(|(ttl, queueing)| {
            floor = floor.min(*queueing);
            (*ttl, floor)
        })
        .collect();
    floors.reverse();
    let most = floors.last()?.1;
    let least = RISE.max(most.mul_f64(PART));
    let before = std::iter::once(Span::ZERO).chain(floors.iter().map(|(_, floor)| *floor));
    floors.iter().zip(before).find(|((_, floor), before)| *floor - *before >= least).map(|((ttl, _), _)| *ttl)
}

impl Display for Hops {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let load =
            if self.loaded { "while tcpprobe's transfer loads the path" } else { "with the load that there was" };
        writeln!(f, "hops, {load}")?;
        for hop in &self.hops {
            writeln!(f, "{hop}")?;
        }
        let named = self.queue_at.and_then(|ttl| self.hops.iter().find(|hop| hop.ttl == ttl));
        let Some(hop) = named else { return writeln!(f, "  no hop shows that packets queue") };
        let (ttl, address, queueing) = (hop.ttl, known(hop.address.as_ref()), known(hop.queueing_us.map(time)));
        writeln!(f, "  packets queue on the way to hop {ttl} ({address}): {queueing}")
    }
}

impl Display for HopFound {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { ttl, sent, answered, .. } = self;
        let address = self.address.as_deref().unwrap_or("silent");
        let (base, queueing) = (known(self.base_rtt_us.map(time)), known(self.queueing_us.map(time)));
        write!(f, "  {ttl:>2} {address:<15} base RTT {base}, queueing {queueing}, {answered} of {sent} answered")
    }
}

#[cfg(test)]
mod tests;
