//! Driver in virtual time: an emulated path of several hops with cross traffic, and a receiver with its own clock.
//!
//! The documentation of the crate contains an example.

use std::collections::BTreeMap;

use longhaul_link::source::Source;
use longhaul_link::{ConfigError, Link, LinkConfig, LinkStats, Packet, Payload};
use longhaul_units::{Bytes, Span, Time};

use crate::{Arrived, Estimate, Method, Next, Train, TrainReport, missing_from};

/// Clock of the receiver, relative to true time.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReceiverClock {
    /// Reading of the clock at time 0.
    pub offset: Span,
    /// Drift in parts per million: positive if the clock is fast, negative if it is slow.
    pub skew_ppm: f64,
    /// Clock resolution: readings are multiples of this.
    pub tick: Span,
}

impl Default for ReceiverClock {
    /// A clock without drift that is 1000 s ahead and has a resolution of 1 ns.
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

/// Result and cost of a measurement.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Probing {
    /// Final estimate of the method.
    pub estimate: Estimate,
    /// Whether the method was done before its time limit.
    pub done: bool,
    /// Duration of the measurement.
    pub took: Span,
    /// Time from the start until the method first reported that it had converged.
    pub converged_after: Option<Span>,
    /// Number of trains sent.
    pub trains: u64,
    /// Number of packets sent.
    pub packets: u64,
    /// Bytes of IP packets sent.
    pub bytes: u64,
}

/// Emulated path. Probes traverse all hops in order, and each source of cross traffic traverses some of them.
#[derive(Debug)]
pub struct ProbedPath {
    hops: Vec<Link<Load>>,
    cross: Vec<Cross>,
    /// One-way delay of reports to the prober.
    pub reverse: Span,
    /// Clock of the receiver.
    pub clock: ReceiverClock,
    /// Interval of receive offload: packets that arrive within less than this of each other are merged, and all of them
    /// have the arrival time of the last.
    pub merges: Span,
    /// Maximum time after the departure of its last packet until a train with missing answers is reported
    /// ([`missing_from`]).
    pub patience: Span,
}

#[derive(Clone, Copy, Debug)]
enum Load {
    Probe {
        train: u32,
        index: usize,
    },
    /// Cross traffic that leaves the path after hop `last`.
    Cross {
        last: usize,
    },
}

impl Payload for Load {}

#[derive(Debug)]
struct Cross {
    source: Source,
    first: usize,
    last: usize,
    next: (Time, u32),
}

#[derive(Debug)]
struct Flight {
    train: Train,
    began: Time,
    /// Number of packets sent.
    left: usize,
    arrived: Vec<Option<Arrived>>,
    latest: Time,
}

impl ProbedPath {
    /// A path over these links, in this order, and a return path with the one-way delay `reverse`.
    pub fn new(hops: impl IntoIterator<Item = LinkConfig>, reverse: Span) -> Result<Self, ConfigError> {
        Self::seeded(hops, reverse, 1)
    }

    /// Creates the same path with another seed for the random behaviour of its links.
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

    /// Adds cross traffic that enters before hop `first` and leaves after hop `last`, counted from 0. If the path does
    /// not have these hops, nothing is added.
    #[must_use]
    pub fn cross(mut self, first: usize, last: usize, mut source: Source) -> Self {
        if let Some(next) = source.next().filter(|_| first <= last && last < self.hops.len()) {
            self.cross.push(Cross { source, first, last, next });
        }
        self
    }

    /// Returns the counters of hop number `hop`, or `None` if there is no such hop.
    pub fn stats(&self, hop: usize) -> Option<&LinkStats> {
        self.hops.get(hop).map(Link::stats)
    }

    /// Runs a method from `from` until it is done, or until `until`. Cross traffic starts at time 0.
    pub fn run(&mut self, method: &mut dyn Method, from: Time, until: Time) -> Probing {
        while let Some(now) = self.next_event().filter(|at| *at <= from) {
            self.step(now, &mut BTreeMap::new());
        }
        self.measure(method, from, until)
    }

    fn measure(&mut self, method: &mut dyn Method, from: Time, until: Time) -> Probing {
        let mut now = from;
        let mut flights = BTreeMap::new();
        let mut run = Probing { estimate: method.estimate(), ..Probing::default() };
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
                run.converged_after.get_or_insert(now.since(from));
            }
            run.took = now.since(from);
            let next = self.next_event().into_iter().chain(wakes.filter(|at| *at > now));
            let next = next.chain(flights.values().map(|flight| self.next_of(flight))).min();
            // If the method waits for a time in the past, it is polled again after the next event.
            let Some(next) = next else { break };
            now = next.max(now);
        }
        run.estimate = method.estimate();
        run
    }

    fn next_event(&self) -> Option<Time> {
        let links = self.hops.iter().filter_map(Link::next_event);
        links.chain(self.cross.iter().map(|cross| cross.next.0)).min()
    }

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

    /// Processes all events up to `now`, except for reports: links, cross traffic, departures of probes.
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
                // `Time::MAX` stops a source that has ended.
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
        // If a method reuses a number, only its later train is reported.
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

    /// A method that sends one train and keeps its report.
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

    /// Store and forward over two hops: 1000 bytes take 1 ms on the first link and 0.1 ms on the second.
    #[test]
    fn a_pair_over_two_idle_hops_takes_the_links_own_time() {
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
    fn a_train_with_a_loss_is_reported_after_a_silence() {
        let loss = longhaul_link::Loss::List(vec![2]);
        let hop = LinkConfig::new(Rate::from_bits_per_sec(8_000_000), Span::ZERO).loss(loss);
        let mut path = ProbedPath::new([hop], Span::ZERO).unwrap();
        let mut once = Once(Some(Train::regular(0, 3, Bytes(1000), Span::from_millis(5))), Vec::new());
        let run = path.run(&mut once, Time::ZERO, Time::from_nanos(9_000_000_000));
        // Two packets arrive within 11 ms, and then no answer arrives for 50 ms.
        assert_eq!(run.took, Span::from_millis(61));
        assert_eq!(once.1[0].packets.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    }

    /// 10 s of cross traffic at half the rate of the middle link, and a clock with offset, drift and tick.
    #[test]
    fn cross_traffic_traverses_its_own_hops_only() {
        let hop = || LinkConfig::new(Rate::from_bits_per_sec(80_000_000), Span::ZERO);
        let cbr = Source::cbr(Time::ZERO, Rate::from_bits_per_sec(40_000_000), 1000);
        let mut path = ProbedPath::new([hop(), hop(), hop()], Span::ZERO).unwrap().cross(1, 1, cbr);
        path.clock = ReceiverClock { offset: Span::from_secs(1), skew_ppm: 50.0, tick: Span::from_micros(10) };
        let mut once = Once(Some(Train::regular(0, 1, Bytes(1000), Span::ZERO)), Vec::new());
        path.run(&mut once, Time::from_nanos(10_000_000_000), Time::from_nanos(11_000_000_000));
        assert_eq!([0, 1, 2].map(|n| path.stats(n).unwrap().delivered >= 50_000), [false, true, false]);
        assert_eq!((path.stats(0).unwrap().delivered, path.stats(2).unwrap().delivered), (1, 1));
        // 10 s until the start, 300 us (and up to 100 us in the queue), 500 us of drift, 1 s of offset.
        let reads = once.1[0].packets[0].unwrap().arrived_at.as_nanos();
        assert!((11_000_800_000..=11_000_900_000).contains(&reads) && reads.is_multiple_of(10_000), "{reads}");
    }
}
