//! The hop where packets queue: what packets of rising TTL wait on their way to each router and back (Gerla et al., PFLDnet
//! 2006, found its bottleneck by traceroute under load).

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, bail};
use longhaul::units::{Span, Time};
use serde::Serialize;

use super::path::micros;
use super::report::{known, span, time};
use super::socket::{Event, Socket};

/// Bytes of the packets (IP).
const SIZE: u32 = 128;
/// The furthest that is looked at: traceroute's.
const FURTHEST: u8 = 30;
/// Packets to a hop of which nothing is known ...
const TRIES: u32 = 3;
/// ... each waited for so long.
const PATIENCE: Span = Span::from_millis(500);
/// So many silent hops in a row are the end of what can be seen.
const SILENT: usize = 4;
/// A packet to each hop in every round. Routers send few such reports: Linux one a second to each host.
const ROUND: Span = Span::from_millis(250);
/// How long the path is looked at before this program loads it.
pub const IDLE: Span = Span::from_secs(2);
/// How long it is looked at where something else loads it.
pub const BUSY: Span = Span::from_secs(15);
/// How often progress is shown.
const SHOWN: Span = Span::from_secs(2);
/// A packet that is returned without a word of which it is was sent this long ago at most.
const OLDEST: Span = Span::from_secs(2);
/// Fewer round trips have no median.
const LEAST: usize = 4;
/// A rise from hop to hop counts from this delay, which no busy router's processor takes in the median ...
const RISE: Span = Span::from_millis(1);
/// ... and from this part of all the queueing there is.
const PART: f64 = 0.25;

/// A hop as it was found.
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

    /// What half of the packets waited for at least.
    fn queueing(&self) -> Option<Span> {
        let mut rtts = self.rtts.clone();
        rtts.sort_unstable();
        let median = rtts.get(rtts.len() / 2).filter(|_| rtts.len() >= LEAST)?;
        Some(*median - self.base()?)
    }
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
struct Probed {
    ttl: u8,
    at: Time,
    answered: bool,
}

/// Sends the packets, from one socket, and listens to who stops them.
#[derive(Debug)]
pub struct Scanner {
    socket: Socket,
    destination: IpAddr,
    hops: Vec<Hop>,
    probes: Vec<Probed>,
    /// The number of the first packet: whoever makes reports up has to guess it.
    first: u32,
    shown: Time,
}

impl Scanner {
    /// Finds the hops on the way to `address`, up to the last that says anything.
    ///
    /// # Errors
    /// A sentence, if there is none, or the system does not pass on what they say.
    pub fn discover(address: SocketAddr) -> Result<Self> {
        let socket = Socket::connect(address)?;
        socket.hear_routers()?;
        let mut random = [0; 4];
        getrandom::fill(&mut random)?;
        let first = u32::from_ne_bytes(random);
        let shown = socket.now();
        let mut scanner =
            Self { socket, destination: address.ip(), hops: Vec::new(), probes: Vec::new(), first, shown };
        scanner.find_hops()?;
        if scanner.hops.is_empty() {
            bail!("neither {address} nor a router on the way there says anything of packets that it does not pass on");
        }
        let list: Vec<_> = scanner.hops.iter().map(|hop| known(hop.address)).collect();
        eprintln!("hops: {}", list.join(", "));
        Ok(scanner)
    }

    fn find_hops(&mut self) -> Result<()> {
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

    /// Measures all hops over and over, for `time` at most and until `enough`.
    ///
    /// # Errors
    /// The system's.
    pub fn sample(&mut self, time: Span, enough: impl Fn() -> bool) -> Result<()> {
        let ends = self.socket.now() + time;
        let heard: Vec<_> = (0..self.hops.len()).filter(|index| self.is_known(*index)).collect();
        let gap = ROUND / heard.len().max(1) as u64;
        while self.socket.now() < ends && !enough() {
            for index in &heard {
                let due = self.socket.now() + gap;
                self.send(*index)?;
                self.listen(due, |_| false)?;
            }
            self.show();
        }
        Ok(())
    }

    fn send(&mut self, index: usize) -> Result<()> {
        let number = self.first.wrapping_add(self.probes.len() as u32);
        let Some(hop) = self.hops.get_mut(index) else { return Ok(()) };
        hop.sent += 1;
        let ttl = hop.ttl;
        let size = SIZE.max(self.socket.smallest());
        let at = self.socket.send_as_far(ttl, number, size)?;
        self.probes.push(Probed { ttl, at, answered: false });
        Ok(())
    }

    /// Takes what comes until `until`, or until `done`.
    fn listen(&mut self, until: Time, done: impl Fn(&Self) -> bool) -> Result<()> {
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

    /// Somebody says of a packet that it came no further, at best with its number.
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

    /// The packet that is meant by a report that quotes nothing of it: the newest to that hop which can have been there
    /// and back; of a hop that was not heard before, the newest to one of those.
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

    fn show(&mut self) {
        let now = self.socket.now();
        if now.since(self.shown) >= SHOWN {
            self.shown = now;
            let queueing = |hop: &Hop| hop.queueing().map_or("?".to_owned(), span);
            let list: Vec<_> = self.hops.iter().map(queueing).collect();
            eprintln!("hops: {} packets, queueing {}", self.probes.len(), list.join(", "));
        }
    }

    /// What was found, after the last packets have come back. `loaded` if this program loaded the path.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(mut self, loaded: bool) -> Result<Hops> {
        self.listen(self.socket.now() + PATIENCE, |_| false)?;
        Ok(Hops::new(&self.hops, loaded))
    }
}

/// Where packets queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hops {
    /// The TTL of the first hop to which packets wait longer than to those before it.
    pub queue_at: Option<u8>,
    /// Whether the path was loaded by the program itself.
    pub loaded: bool,
    /// All of them.
    pub hops: Vec<HopFound>,
}

/// What is known of a hop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopFound {
    /// How many links away it is.
    pub ttl: u8,
    /// Who it says it is; `None` if it says nothing.
    pub address: Option<String>,
    /// Packets sent to it.
    pub sent: u32,
    /// Packets that it answered.
    pub answered: usize,
    /// The least round trip.
    pub base_rtt_us: Option<f64>,
    /// By how much the median exceeds it.
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

/// The first hop where queueing rises by more than a little and stays: what a router takes for writing a report is in its
/// own round trips, a queue is in those of all hops behind it.
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
