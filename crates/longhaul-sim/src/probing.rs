//! Active probing in virtual time: a path of hops in a row, cross traffic over some of them, a receiver with a clock of its
//! own, and any [`Method`] that sends trains over it.
//!
//! ```
//! use longhaul_cc::estimate::active::{CapProbeMethod, CapProbeOptions};
//! use longhaul_link::LinkConfig;
//! use longhaul_sim::probing::ProbedPath;
//! use longhaul_units::{Rate, Span, Time};
//!
//! let hop = |mbit| LinkConfig::new(Rate::from_bits_per_sec(mbit), Span::from_millis(20));
//! let mut path = ProbedPath::new([hop(1_000_000_000), hop(80_000_000)], Span::from_millis(40))?;
//! let mut method = CapProbeMethod::new(CapProbeOptions::default()).unwrap();
//! let probing = path.run(&mut method, Time::ZERO, Time::ZERO + Span::from_secs(60));
//! let capacity = probing.estimate.capacity.unwrap().value.as_bits_per_sec();
//! assert!(probing.done && (79_000_000..81_000_000).contains(&capacity));
//! # Ok::<(), longhaul_link::ConfigError>(())
//! ```

use std::collections::BTreeMap;

use longhaul_cc::estimate::active::{Arrived, Estimate, Method, Next, Train, TrainReport, missing_from};
use longhaul_link::source::Source;
use longhaul_link::{ConfigError, Link, LinkConfig, LinkStats, Packet, Payload};
use longhaul_units::{Bytes, Span, Time};

/// The receiver's clock: how the time that it reads follows from the true one.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverClock {
    /// What it reads at the beginning.
    pub offset: Span,
    /// How fast it runs too fast, in parts per million; negative if it is slow.
    pub skew_ppm: f64,
    /// It reads multiples of that.
    pub tick: Span,
}

impl Default for ReceiverClock {
    /// To the nanosecond, and 1000 s ahead.
    fn default() -> Self {
        Self { offset: Span::from_secs(1000), skew_ppm: 0.0, tick: Span::from_nanos(1) }
    }
}

impl ReceiverClock {
    fn reads(&self, now: Time) -> Time {
        let skewed = now.as_nanos() as f64 * self.skew_ppm * 1e-6;
        let nanos = (now + self.offset).as_nanos().saturating_add_signed(skewed as i64);
        Time::from_nanos(nanos - nanos % self.tick.as_nanos().max(1))
    }
}

/// What a method found, and what it took.
#[derive(Clone, Debug)]
pub struct Probing {
    /// What the method knew at the end.
    pub estimate: Estimate,
    /// Whether it was done before the time was over.
    pub done: bool,
    /// When it ended.
    pub took: Span,
    /// When it first said that it had converged.
    pub converged_at: Option<Time>,
    /// Trains that left.
    pub trains: u64,
    /// Packets that left.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The path. Probes pass all hops in their order; each cross traffic passes some.
#[derive(Debug)]
pub struct ProbedPath {
    hops: Vec<Link<Load>>,
    cross: Vec<Cross>,
    /// How long a report takes back to the prober.
    pub reverse: Span,
    /// The receiver's clock.
    pub clock: ReceiverClock,
    /// Packets that arrive closer together than that are merged by the receiver, and all have the time of the last.
    pub merges: Span,
    /// So long after its last packet left, a train whose packets are missing is reported at the latest ([`missing_from`]).
    pub patience: Span,
}

/// Who a packet belongs to.
#[derive(Clone, Copy, Debug)]
enum Load {
    Probe {
        train: u32,
        index: usize,
    },
    /// It leaves the path after this hop.
    Cross {
        last: usize,
    },
}

impl Payload for Load {
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }
}

#[derive(Debug)]
struct Cross {
    source: Source,
    first: usize,
    last: usize,
    next: (Time, u32),
}

/// A train that was not reported yet.
#[derive(Debug)]
struct Flight {
    train: Train,
    began: Time,
    /// Packets that left.
    left: usize,
    arrived: Vec<Option<Arrived>>,
    /// When the last packet arrived.
    latest: Time,
}

impl ProbedPath {
    /// A path over these links in their order, and back in `reverse`.
    ///
    /// # Errors
    /// A link that cannot be.
    pub fn new(hops: impl IntoIterator<Item = LinkConfig>, reverse: Span) -> Result<Self, ConfigError> {
        Self::seeded(hops, reverse, 1)
    }

    /// The same with the links' chance from another seed.
    ///
    /// # Errors
    /// A link that cannot be.
    pub fn seeded(hops: impl IntoIterator<Item = LinkConfig>, reverse: Span, seed: u64) -> Result<Self, ConfigError> {
        let link = |(number, config)| Link::new(config, seed, number as u64);
        Ok(Self {
            hops: hops.into_iter().enumerate().map(link).collect::<Result<_, _>>()?,
            cross: Vec::new(),
            reverse,
            clock: ReceiverClock::default(),
            merges: Span::ZERO,
            patience: Span::from_secs(2),
        })
    }

    /// Adds cross traffic that enters before hop `first` and leaves after hop `last`, counted from 0; there is none over hops
    /// that are not there.
    #[must_use]
    pub fn cross(mut self, first: usize, last: usize, mut source: Source) -> Self {
        if let Some(next) = source.next().filter(|_| first <= last && last < self.hops.len()) {
            self.cross.push(Cross { source, first, last, next });
        }
        self
    }

    /// What hop number `hop` counted; `None` if there is no such hop.
    #[must_use]
    pub fn stats(&self, hop: usize) -> Option<&LinkStats> {
        self.hops.get(hop).map(Link::stats)
    }

    /// Runs a method from `from` until it is done, or until `until`. Cross traffic has run since 0.
    pub fn run(&mut self, method: &mut dyn Method, from: Time, until: Time) -> Probing {
        while let Some(now) = self.next_event().filter(|at| *at <= from) {
            self.step(now, &mut BTreeMap::new());
        }
        self.measure(method, from, until)
    }

    fn measure(&mut self, method: &mut dyn Method, from: Time, until: Time) -> Probing {
        let mut now = from;
        let mut flights = BTreeMap::new();
        let mut run = Probing {
            estimate: method.estimate(),
            done: false,
            took: Span::ZERO,
            converged_at: None,
            trains: 0,
            packets: 0,
            bytes: 0,
        };
        while now <= until && !run.done {
            self.step(now, &mut flights);
            self.report(now, method, &mut flights);
            let mut wakes = None;
            while wakes.is_none() && !run.done {
                match method.poll(now) {
                    Next::Send(train) => self.launch(now, train, &mut flights, &mut run),
                    Next::Wait(at) => wakes = Some(at),
                    Next::Done => run.done = true,
                }
            }
            if method.estimate().converged {
                run.converged_at.get_or_insert(now);
            }
            run.took = now.since(from);
            let next = self.next_event().into_iter().chain(wakes.filter(|at| *at > now));
            let next = next.chain(flights.values().map(|flight| self.next_of(flight))).min();
            // A method that waits for a time that has passed is asked again after the next event.
            let Some(next) = next else { break };
            now = next.max(now);
        }
        run.estimate = method.estimate();
        run
    }

    /// When something happens next on the links, or a source sends.
    fn next_event(&self) -> Option<Time> {
        let links = self.hops.iter().filter_map(Link::next_event);
        links.chain(self.cross.iter().map(|cross| cross.next.0)).min()
    }

    /// When something happens next to a train: a packet leaves, or its report is due.
    fn next_of(&self, flight: &Flight) -> Time {
        match flight.train.packets.get(flight.left) {
            Some(packet) => flight.began + packet.at,
            None => self.due(flight),
        }
    }

    fn due(&self, flight: &Flight) -> Time {
        if flight.arrived.iter().all(Option::is_some) {
            return flight.latest + self.reverse;
        }
        let last = flight.train.packets.last().map_or(Span::ZERO, |packet| packet.at);
        let rtt = flight.arrived.iter().flatten().map(|packet| packet.rtt).max();
        missing_from(flight.began + last, rtt.map(|rtt| (flight.latest + self.reverse, rtt)), self.patience)
    }

    /// Everything that happens at `now` and not on the prober's side.
    fn step(&mut self, now: Time, flights: &mut BTreeMap<u32, Flight>) {
        for hop in 0..self.hops.len() {
            while let Some((at, packet)) = self.hops[hop].poll(now) {
                self.pass_on(at, hop, packet, flights);
            }
        }
        for cross in &mut self.cross {
            while cross.next.0 <= now {
                let (at, size) = cross.next;
                self.hops[cross.first].offer(at, Packet::new(size, Load::Cross { last: cross.last }));
                // A source that has ended sends no more.
                cross.next = cross.source.next().unwrap_or((Time::MAX, 0));
            }
        }
        for (id, flight) in flights.iter_mut() {
            while let Some(packet) = flight.train.packets.get(flight.left).filter(|p| flight.began + p.at <= now) {
                let load = Load::Probe { train: *id, index: flight.left };
                self.hops[0].offer(now, Packet::new(packet.size.0 as u32, load));
                flight.left += 1;
            }
        }
    }

    fn pass_on(&mut self, at: Time, hop: usize, packet: Packet<Load>, flights: &mut BTreeMap<u32, Flight>) {
        match packet.payload {
            Load::Cross { last } if last == hop => {}
            _ if hop + 1 < self.hops.len() => {
                self.hops[hop + 1].offer(at, packet);
            }
            Load::Cross { .. } => {}
            Load::Probe { train, index } => {
                if let Some(flight) = flights.get_mut(&train) {
                    self.arrive(at, index, flight);
                }
            }
        }
    }

    fn arrive(&self, at: Time, index: usize, flight: &mut Flight) {
        let planned = flight.train.packets[index];
        let sent_at = flight.began + planned.at;
        let reads = self.clock.reads(at);
        let merged = !self.merges.is_zero() && flight.latest > Time::ZERO && at.since(flight.latest) < self.merges;
        if merged && let Some(before) = flight.arrived[..index].iter_mut().rev().flatten().next() {
            (before.arrived_at, before.coalesced) = (reads, true);
        }
        flight.latest = flight.latest.max(at);
        flight.arrived[index] = Some(Arrived {
            sent_at,
            arrived_at: reads,
            rtt: (at + self.reverse).since(sent_at),
            size: planned.size,
            coalesced: merged,
        });
    }

    fn launch(&mut self, now: Time, train: Train, flights: &mut BTreeMap<u32, Flight>, run: &mut Probing) {
        run.trains += 1;
        run.packets += train.packets.len() as u64;
        run.bytes += train.packets.iter().map(|packet| packet.size).sum::<Bytes>().0;
        let arrived = vec![None; train.packets.len()];
        let flight = Flight { began: now, left: 0, arrived, latest: Time::ZERO, train };
        let id = flight.train.id;
        // A method that gives a number twice hears of the later train.
        flights.insert(id, flight);
        self.step(now, flights);
    }

    fn report(&self, now: Time, method: &mut dyn Method, flights: &mut BTreeMap<u32, Flight>) {
        let is_due = |flight: &Flight| flight.left == flight.train.packets.len() && self.due(flight) <= now;
        let due: Vec<u32> = flights.iter().filter(|(_, flight)| is_due(flight)).map(|(id, _)| *id).collect();
        for id in due {
            let Some(flight) = flights.remove(&id) else { continue };
            method.on_report(now, &TrainReport { id, packets: flight.arrived });
        }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Rate;

    use super::*;

    /// Sends one train and keeps its report.
    struct Once(Option<Train>, Vec<TrainReport>);

    impl Method for Once {
        fn name(&self) -> &'static str {
            "once"
        }

        fn poll(&mut self, now: Time) -> Next {
            match self.0.take() {
                Some(train) => Next::Send(train),
                None if self.1.is_empty() => Next::Wait(now + Span::from_secs(1)),
                None => Next::Done,
            }
        }

        fn on_report(&mut self, _: Time, report: &TrainReport) {
            self.1.push(report.clone());
        }

        fn estimate(&self) -> Estimate {
            Estimate::default()
        }
    }

    /// Two hops store and forward: 1000 bytes take 1 ms on the first and 0.1 ms on the second.
    #[test]
    fn a_pair_over_two_idle_hops_takes_what_it_must() {
        let hop = |mbit: u64| LinkConfig::new(Rate::from_bits_per_sec(mbit * 1_000_000), Span::from_millis(10));
        let mut path = ProbedPath::new([hop(8), hop(80)], Span::from_millis(30)).unwrap();
        let mut once = Once(Some(Train::regular(7, 2, Bytes(1000), Span::ZERO)), Vec::new());
        let run = path.run(&mut once, Time::from_nanos(5_000_000_000), Time::from_nanos(9_000_000_000));
        assert_eq!((run.done, run.trains, run.packets, run.bytes), (true, 1, 2, 2000));
        assert_eq!(run.took, Span::from_micros(52_100));
        let packets: Vec<Arrived> = once.1[0].packets.iter().map(|packet| packet.unwrap()).collect();
        assert_eq!(packets.iter().map(|p| p.rtt.as_micros()).collect::<Vec<_>>(), [51_100, 52_100]);
        assert_eq!(packets[1].arrived_at.since(packets[0].arrived_at), Span::from_millis(1));
        assert_eq!(packets[0].arrived_at, Time::from_nanos(1_005_021_100_000));
    }

    #[test]
    fn what_is_lost_is_reported_after_a_while() {
        let loss = longhaul_link::Loss::List(vec![2]);
        let hop = LinkConfig::new(Rate::from_bits_per_sec(8_000_000), Span::ZERO).loss(loss);
        let mut path = ProbedPath::new([hop], Span::ZERO).unwrap();
        let mut once = Once(Some(Train::regular(0, 3, Bytes(1000), Span::from_millis(5))), Vec::new());
        let run = path.run(&mut once, Time::ZERO, Time::from_nanos(9_000_000_000));
        // Two leave and arrive within 11 ms, and for 50 ms nothing more comes.
        assert_eq!(run.took, Span::from_millis(61));
        assert_eq!(once.1[0].packets.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    }

    /// Ten seconds at half the rate: half the time is busy, and the clock reads what it should.
    #[test]
    fn cross_traffic_passes_the_hops_that_it_should() {
        let hop = || LinkConfig::new(Rate::from_bits_per_sec(80_000_000), Span::ZERO);
        let cbr = Source::cbr(Time::ZERO, Rate::from_bits_per_sec(40_000_000), 1000);
        let mut path = ProbedPath::new([hop(), hop(), hop()], Span::ZERO).unwrap().cross(1, 1, cbr);
        path.clock = ReceiverClock { offset: Span::from_secs(1), skew_ppm: 50.0, tick: Span::from_micros(10) };
        let mut once = Once(Some(Train::regular(0, 1, Bytes(1000), Span::ZERO)), Vec::new());
        path.run(&mut once, Time::from_nanos(10_000_000_000), Time::from_nanos(11_000_000_000));
        assert_eq!([0, 1, 2].map(|n| path.stats(n).unwrap().delivered >= 50_000), [false, true, false]);
        assert_eq!((path.stats(0).unwrap().delivered, path.stats(2).unwrap().delivered), (1, 1));
        // 10 s, 300 us (and up to 100 us of waiting), 500 us of skew, 1 s of offset.
        let reads = once.1[0].packets[0].unwrap().arrived_at.as_nanos();
        assert!((11_000_800_000..=11_000_900_000).contains(&reads) && reads.is_multiple_of(10_000), "{reads}");
    }
}
