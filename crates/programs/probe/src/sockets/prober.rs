//! Driver that runs methods against a reflector, one after another.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::probe::Answer;

use super::doubts::Own;
use super::error::Error;
use super::path::Path;
use super::reach;
use super::report::{Outcome, Watch};
use super::socket::{Event, Sent, Socket};
use super::{Note, Progress};
use crate::{Arrived, Method, Next, Train, TrainReport, missing_from};

/// Minimum time to wait for answers after the last packet of a train.
const PATIENCE: Span = Span::from_secs(1);
/// Minimum time to wait for these answers in round trips.
const ROUND_TRIPS: u64 = 4;
/// Shortest time between two polls of a method.
const BREATH: Span = Span::from_micros(100);
/// Number of packets after which increasing sizes start again, in trains whose packets are spaced. Without the restart,
/// the rate of a stream of 100 small packets would grow by half from its first to its last packet, and the time at
/// which a queue builds up would not tell whether the mean rate is too high.
const STEPS: usize = 8;
/// Origin of the reflector's clock in reports. It allows for readings before the first one.
const ORIGIN: u64 = 1 << 62;

#[derive(Debug)]
struct Pending {
    /// The method's number of the train.
    id: u32,
    sent: Vec<Sent>,
    arrived: Vec<Option<Arrived>>,
    /// Departure time of the train's last packet.
    last: Time,
    /// Time of its latest answer, and its longest round trip.
    answers: Option<(Time, Span)>,
    patience: Span,
}

impl Pending {
    fn until(&self) -> Time {
        missing_from(self.last, self.answers, self.patience)
    }
}

/// Driver over UDP sockets that runs methods, one after another, against the same reflector.
#[derive(Debug)]
pub struct Prober {
    socket: Socket,
    largest: u32,
    /// Properties of the path according to the packets of all methods.
    path: Path,
    /// Properties of the path according to the packets of the current method.
    own: Path,
    machine: Own,
    /// Trains by their numbers in answers.
    pending: BTreeMap<u32, Pending>,
    epoch: Option<u64>,
}

impl Prober {
    /// Looks for a reflector at `address`, and for the largest packet that reaches it. `progress` receives a line if
    /// the path drops larger packets.
    ///
    /// # Errors
    ///
    /// No reflector answers, or the system refuses the socket.
    pub fn connect(address: SocketAddr, progress: Progress<'_>) -> Result<Self, Error> {
        let mut socket = Socket::connect(address)?;
        let reached = reach::check(&mut socket, address)?;
        if let Some(note) = reached.note() {
            progress(Note::Warning, &note);
        }
        let mut path = Path::default();
        path.on_sent(reached.largest);
        path.on_fate(Some(reached.rtt));
        Ok(Self {
            socket,
            largest: reached.largest,
            path,
            own: Path::default(),
            machine: Own::default(),
            pending: BTreeMap::new(),
            epoch: None,
        })
    }

    /// Bytes of the largest IP packet that reaches the reflector, at most 1500.
    pub fn largest_packet(&self) -> u32 {
        self.largest
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `method` until it is done or `limit` is over. `progress` receives a line every second.
    ///
    /// # Errors
    ///
    /// The reflector disappears, or the system refuses to send.
    pub fn measure(&mut self, method: &mut dyn Method, limit: Span, progress: Progress<'_>) -> Result<Outcome, Error> {
        let began = self.socket.now();
        let ends = began + limit;
        let mut watch = Watch::new(method.name());
        (self.own, self.machine, self.pending) = (Path::default(), Own::default(), BTreeMap::new());
        loop {
            self.expire(method);
            let now = self.socket.now();
            let show_at = began + watch.follow(now.since(began), &method.estimate(), self.own.spent().0, progress);
            match method.poll(now) {
                _ if now >= ends => break,
                Next::Send(train) => self.send(&train)?,
                Next::Wait(until) => {
                    let until = self.pending.values().map(Pending::until).fold(until.min(ends), Time::min);
                    self.wait(until.max(now + BREATH).min(show_at), method)?;
                }
                Next::Done => break,
            }
        }
        let (estimate, took) = (method.estimate(), self.socket.now().since(began));
        watch.follow(took, &estimate, self.own.spent().0, progress);
        let path = self.own.facts(estimate.capacity.map(|range| range.value));
        let own = std::mem::take(&mut self.machine);
        let outcome = Outcome::new(method.name(), estimate, took, path);
        Ok(Outcome { converged_after: watch.converged_after, own, ..outcome })
    }

    fn send(&mut self, train: &Train) -> Result<(), Error> {
        let wanted: Vec<_> = train.packets.iter().map(|planned| planned.size).collect();
        let apart = train.packets.get(1).is_some_and(|second| !second.at.is_zero());
        let sizes: Vec<_> = wanted
            .chunks(if apart { STEPS } else { wanted.len().max(1) })
            .flat_map(|wanted| ascending(wanted, self.socket.smallest(), self.largest))
            .collect();
        let (number, sent) = self.socket.send(&train.packets, &sizes)?;
        let mut before: Option<(Span, Time)> = None;
        for (packet, planned) in sent.iter().zip(&train.packets) {
            self.path.on_sent(packet.size);
            self.own.on_sent(packet.size);
            let apart = before.filter(|(at, _)| *at == planned.at).map(|(_, left)| packet.at.since(left));
            self.machine.on_sent(packet.late, apart, packet.size);
            before = Some((planned.at, packet.at));
        }
        let patience = PATIENCE.max(self.path.base_rtt().unwrap_or(Span::ZERO) * ROUND_TRIPS);
        let (last, arrived) = (self.socket.now(), vec![None; sent.len()]);
        self.pending.insert(number, Pending { id: train.id, arrived, sent, last, answers: None, patience });
        Ok(())
    }

    /// Waits for an event until `until`, and takes all events that are available then.
    fn wait(&mut self, until: Time, method: &mut dyn Method) -> Result<(), Error> {
        let mut next = self.socket.receive(until)?;
        while let Some(event) = next {
            match event {
                Event::Answer(answer, at) => self.take(&answer, at, method),
                Event::Refused => return Err(Error::failed("the reflector has gone away")),
                Event::Segment | Event::Returned(..) => {}
            }
            next = self.socket.receive(Time::ZERO)?;
        }
        Ok(())
    }

    /// Takes an answer. Answers that match no packet, and second answers to a packet, are ignored.
    fn take(&mut self, answer: &Answer, at: Time, method: &mut dyn Method) {
        let number = answer.probe.train;
        let Some(train) = self.pending.get_mut(&number) else { return };
        let index = answer.probe.index as usize;
        let (Some(sent), Some(place @ None)) = (train.sent.get(index), train.arrived.get_mut(index)) else { return };
        let fits = u32::from(answer.received) == self.socket.payload(sent.size) && at >= sent.at;
        if !fits || answer.probe.sent != sent.at.as_nanos() {
            return;
        }
        let epoch = *self.epoch.get_or_insert(answer.arrived);
        let rtt = at.since(sent.at);
        train.answers = Some(train.answers.map_or((at, rtt), |(latest, longest)| (latest.max(at), longest.max(rtt))));
        let arrived_at = Time::from_nanos(ORIGIN.wrapping_add(answer.arrived.wrapping_sub(epoch)));
        let size = Bytes(sent.size.into());
        *place = Some(Arrived { sent_at: sent.at, arrived_at, rtt, size, coalesced: answer.coalesced });
        if train.arrived.iter().all(Option::is_some) {
            self.report(number, method);
        }
    }

    fn expire(&mut self, method: &mut dyn Method) {
        let now = self.socket.now();
        let over: Vec<_> = self.pending.iter().filter(|(_, train)| train.until() <= now).map(|(n, _)| *n).collect();
        for number in over {
            self.report(number, method);
        }
    }

    fn report(&mut self, number: u32, method: &mut dyn Method) {
        let Some(train) = self.pending.remove(&number) else { return };
        for packet in &train.arrived {
            let rtt = packet.map(|packet| packet.rtt);
            self.path.on_fate(rtt);
            self.own.on_fate(rtt);
        }
        method.on_report(self.socket.now(), &TrainReport::new(train.id, train.arrived));
    }
}

/// Sizes close to the planned ones, each one byte larger than the previous one, because receive offload merges a packet
/// only with packets of at least its size. The mean is unchanged if the limits permit.
fn ascending(wanted: &[Bytes], smallest: u32, largest: u32) -> Vec<u32> {
    let count = u32::try_from(wanted.len()).unwrap_or(u32::MAX);
    let most = wanted.iter().map(|size| size.0).max().unwrap_or(0).min(largest.into()) as u32;
    // Excess of the last size over the planned one.
    let over = (count.saturating_sub(1) / 2).min(largest - most);
    let size = |(index, wanted): (u32, &Bytes)| {
        let wanted = u32::try_from(wanted.0).unwrap_or(u32::MAX).min(largest);
        (wanted + over + 1 + index).saturating_sub(count).clamp(smallest.min(largest), largest)
    };
    (0..).zip(wanted).map(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_of_a_train_is_larger_than_the_one_before() {
        assert_eq!(ascending(&[Bytes(700); 2], 68, 1500), [699, 700]);
        assert_eq!(ascending(&[Bytes(700); 5], 68, 1500), [698, 699, 700, 701, 702]);
        assert_eq!(ascending(&[Bytes(1499); 5], 68, 1500), [1496, 1497, 1498, 1499, 1500]);
        assert_eq!(ascending(&[Bytes(9000); 3], 68, 576), [574, 575, 576]);
        assert_eq!(ascending(&[Bytes(60); 2], 68, 1500), [68, 68], "no smaller packet is answered");
        assert_eq!(ascending(&[], 68, 1500), [0; 0]);
    }
}
