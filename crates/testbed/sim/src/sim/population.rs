//! Client populations: short connections among many hosts, of which only measurements are kept.

use longhaul_link::source::{ConnectionVector, Side};
use longhaul_units::Time;

use super::{Event, Sim};

/// A connection of a client population: the nodes of its client and server, and the exchange.
pub type Visit = (usize, usize, ConnectionVector);

/// Identifier of a client population, in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PopulationId(u32);

/// A request and its response, or the part that took place: an epoch of the a-b-t model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Time at which the first byte of the request was written on the established connection.
    pub began: Time,
    /// Time at which the last byte of the response was read.
    pub ended: Option<Time>,
    /// Bytes of the response.
    pub response: u64,
}

pub(super) struct Population {
    /// The connections, in the order of their start times.
    visits: Box<dyn Iterator<Item = Visit>>,
    until: Time,
    next: Option<Visit>,
    opened: u64,
    epochs: Vec<Epoch>,
}

#[derive(Clone, Debug)]
pub(crate) struct Guest {
    population: u32,
    number: u32,
    marks: Vec<Mark>,
    epochs: Vec<Epoch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    written: u64,
    read: u64,
    response: u64,
}

impl Guest {
    pub(crate) fn look(&mut self, now: Time, written: u64, read: u64) {
        while let Some(mark) = self.marks.get(self.epochs.len().saturating_sub(1)) {
            if let Some(last) = self.epochs.last_mut()
                && last.ended.is_none()
            {
                if read < mark.read {
                    return;
                }
                last.ended = Some(now);
            }
            let Some(next) = self.marks.get(self.epochs.len()).filter(|next| written > next.written) else { return };
            self.epochs.push(Epoch { began: now, ended: None, response: next.response });
        }
    }
}

fn marks(vector: &ConnectionVector) -> Vec<Mark> {
    let (mut marks, mut written, mut read) = (Vec::<Mark>::new(), 0, 0);
    let mut asks = false;
    for adu in &vector.adus {
        if adu.from == Side::Initiator {
            if !asks {
                marks.push(Mark { written, read, response: 0 });
            }
            written += adu.bytes;
        } else {
            read += adu.bytes;
            if let Some(mark) = marks.last_mut() {
                (mark.read, mark.response) = (read, mark.response + adu.bytes);
            }
        }
        asks = adu.from == Side::Initiator;
    }
    marks.retain(|mark| mark.response > 0);
    marks
}

impl Sim {
    /// Opens connections from `visits` until a time; their start times must not decrease. Each session is discarded
    /// after its end; only its [epochs](Self::epochs) are kept.
    ///
    /// # Panics
    /// Panics when a connection is opened, if there is no host at one of its nodes. If there is
    /// [no port left](Self::lacks_port), the connection is never opened.
    pub fn add_population(
        &mut self,
        visits: impl IntoIterator<Item = Visit, IntoIter: 'static>,
        until: Time,
    ) -> PopulationId {
        let number = self.populations.len() as u32;
        let visits = Box::new(visits.into_iter());
        self.populations.push(Population { visits, until, next: None, opened: 0, epochs: Vec::new() });
        self.plan_visit(number);
        PopulationId(number)
    }

    /// Returns the number of connections that a client population has opened so far.
    pub fn visits(&self, id: PopulationId) -> u64 {
        self.populations[id.0 as usize].opened
    }

    /// Returns all epochs of a client population that have begun so far, in arbitrary order.
    pub fn epochs(&self, id: PopulationId) -> Vec<Epoch> {
        let mut epochs = self.populations[id.0 as usize].epochs.clone();
        let guests = self.hosts.iter().flat_map(|host| &host.sessions).filter_map(|session| session.guest.as_ref());
        guests.filter(|guest| guest.population == id.0).for_each(|guest| epochs.extend_from_slice(&guest.epochs));
        epochs
    }

    fn plan_visit(&mut self, number: u32) {
        let population = &mut self.populations[number as usize];
        let until = population.until;
        population.next = population.visits.next().filter(|(_, _, vector)| vector.start < until);
        if let Some((_, _, vector)) = &population.next {
            self.waiting += 1;
            self.queue.add(vector.start, Event::Visit(number));
        }
    }

    /// Opens the next connection, and returns the node from which it is opened.
    pub(super) fn next_visit(&mut self, number: u32) -> usize {
        let population = &mut self.populations[number as usize];
        let Some((from, to, vector)) = population.next.take() else { return 0 };
        population.opened += 1;
        let (mut opening, _) = self.plan_replay(from, to, &vector);
        let guest = |own, marks| Box::new(Guest { population: number, number: own, marks, epochs: Vec::new() });
        let (client, server) = (&mut opening.client, &mut opening.server);
        client.0.guest = Some(guest(client.1, marks(&vector)));
        server.0.guest = Some(guest(server.1, Vec::new()));
        self.open_planned(opening);
        self.plan_visit(number);
        from
    }

    /// Discards the ended sessions of a host's populations, and keeps their epochs.
    pub(super) fn see_off(&mut self, place: u32) {
        let host = &mut self.hosts[place as usize];
        for index in std::mem::take(&mut host.leaving) {
            let Some(guest) = host.sessions.get_mut(index as usize).and_then(|session| session.guest.take()) else {
                continue;
            };
            if let Some(known) = self.sessions.get_mut(guest.number as usize) {
                *known = None;
            }
            if let Some(population) = self.populations.get_mut(guest.population as usize) {
                population.epochs.extend(guest.epochs);
            }
            host.free.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_link::source::Adu;
    use longhaul_units::Span;

    use super::*;

    fn guest(adus: &[(Side, u64)]) -> Guest {
        let adus = adus.iter().map(|(from, bytes)| Adu::new(*from, *bytes)).collect();
        let vector = ConnectionVector { start: Time::ZERO, adus };
        Guest { population: 0, number: 0, marks: marks(&vector), epochs: Vec::new() }
    }

    /// Consecutive requests count as one request, and consecutive responses as one response. A request without a
    /// response is no epoch.
    #[test]
    fn epochs_are_counted_by_bytes() {
        use Side::{Acceptor as B, Initiator as A};
        let mut guest = guest(&[(A, 100), (A, 50), (B, 1000), (B, 500), (A, 10), (B, 20), (A, 7)]);
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        for (millis, written, read) in [
            (1, 0, 0),
            (2, 100, 0),
            (3, 150, 0),
            (4, 150, 1499),
            (5, 150, 1500),
            (6, 151, 1500),
            (7, 160, 1520),
            (8, 167, 1520),
        ] {
            guest.look(at(millis), written, read);
        }
        let epoch = |began, ended, response| Epoch { began: at(began), ended: Some(at(ended)), response };
        assert_eq!(guest.epochs, [epoch(2, 5, 1500), epoch(6, 7, 20)]);
    }
}
