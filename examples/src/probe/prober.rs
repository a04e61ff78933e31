//! Drives a method: its trains go out, and reports of them come back to it.

use std::collections::BTreeMap;

use anyhow::Result;
use longhaul::units::{Bytes, Span, Time};
use longhaul_probe::{Arrived, Method, Next, Train, TrainReport, missing_from};
use longhaul_wire::probe::Answer;

use super::doubts::Own;
use super::path::Path;
use super::reach::Reached;
use super::report::{Outcome, Watch};
use super::socket::{Event, Sent, Socket};

/// A train that nobody answers is waited for at least so long after its last packet ...
const PATIENCE: Span = Span::from_secs(1);
/// ... and for so many round trips.
const ROUND_TRIPS: u64 = 4;
/// A method that wants to be polled at once is polled after this.
const BREATH: Span = Span::from_micros(100);
/// Where packets leave apart, sizes begin anew after so many: else the rate of a stream of 100 small packets would grow by a
/// half from its first to its last, and a queue build up whose beginning says nothing of the mean.
const STEPS: usize = 8;
/// Where the reflector's clock is made to begin: room on both sides.
const ORIGIN: u64 = 1 << 62;

/// A train whose answers are waited for.
#[derive(Debug)]
struct Pending {
    /// The method's number.
    id: u32,
    sent: Vec<Sent>,
    arrived: Vec<Option<Arrived>>,
    /// When its last packet left.
    last: Time,
    /// When its latest answer came, and the longest round trip of all.
    answers: Option<(Time, Span)>,
    patience: Span,
}

impl Pending {
    /// When it is given up.
    fn until(&self) -> Time {
        missing_from(self.last, self.answers, self.patience)
    }
}

/// A path that is measured, by one method after the other.
#[derive(Debug)]
pub struct Prober {
    socket: Socket,
    largest: u32,
    /// What all methods' packets say.
    path: Path,
    /// What those of the present one say.
    own: Path,
    /// What this machine did meanwhile.
    machine: Own,
    /// By the numbers that answers carry.
    pending: BTreeMap<u32, Pending>,
    /// The reflector's first reading.
    epoch: Option<u64>,
}

impl Prober {
    /// Measures what was reached.
    #[must_use]
    pub fn new(socket: Socket, reached: &Reached) -> Self {
        let mut path = Path::default();
        path.on_sent(reached.largest);
        path.on_fate(Some(reached.rtt));
        Self {
            socket,
            largest: reached.largest,
            path,
            own: Path::default(),
            machine: Own::default(),
            pending: BTreeMap::new(),
            epoch: None,
        }
    }

    /// What all methods' packets together say.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `method` until it is done or `limit` is over, and shows on standard error how it goes.
    ///
    /// # Errors
    /// If the reflector goes away, or the system takes no more packets.
    pub fn measure(&mut self, method: &mut dyn Method, limit: Span) -> Result<Outcome> {
        let began = self.socket.now();
        let ends = began + limit;
        let mut watch = Watch::new(method.name());
        (self.own, self.machine, self.pending) = (Path::default(), Own::default(), BTreeMap::new());
        loop {
            self.expire(method);
            let now = self.socket.now();
            let show_at = began + watch.follow(now.since(began), &method.estimate(), self.own.spent().0);
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
        watch.follow(took, &estimate, self.own.spent().0);
        let path = self.own.facts(estimate.capacity.map(|range| range.value));
        let own = std::mem::take(&mut self.machine);
        let outcome = Outcome::new(method.name(), estimate, took, path);
        Ok(Outcome { converged_after: watch.converged_after(), own, ..outcome })
    }

    fn send(&mut self, train: &Train) -> Result<()> {
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

    /// Takes one thing that arrives until then, and what has arrived with it.
    fn wait(&mut self, until: Time, method: &mut dyn Method) -> Result<()> {
        let mut next = self.socket.receive(until)?;
        while let Some(event) = next {
            match event {
                Event::Answer(answer, at) => self.take(&answer, at, method),
                Event::Refused => anyhow::bail!("the reflector has gone away"),
                Event::Segment | Event::Returned(..) => {}
            }
            next = self.socket.receive(Time::ZERO)?;
        }
        Ok(())
    }

    /// An answer. What does not fit what was sent is nobody's; of two the first counts.
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
        let mut arrived = Arrived::new(sent.at, arrived_at, rtt, Bytes(sent.size.into()));
        arrived.coalesced = answer.coalesced;
        *place = Some(arrived);
        if train.arrived.iter().all(Option::is_some) {
            self.report(number, method);
        }
    }

    /// Gives up trains that were waited for long enough.
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

/// Sizes close to the wanted ones, each larger by a byte than the one before, since the receiver's offload merges a
/// packet only with ones that are as large as it or larger. The mean stays where the limits allow it.
fn ascending(wanted: &[Bytes], smallest: u32, largest: u32) -> Vec<u32> {
    let count = u32::try_from(wanted.len()).unwrap_or(u32::MAX);
    let most = wanted.iter().map(|size| size.0).max().unwrap_or(0).min(largest.into()) as u32;
    // Of the last over what is wanted.
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
