//! Packets between the end of their transmission and their arrival.

use std::collections::VecDeque;

use longhaul_units::Time;

use crate::events::EventQueue;
use crate::packet::Packet;

/// Packets in flight. Those delivered in order need no sorting; the few that are reordered are kept separately.
#[derive(Debug)]
pub(crate) struct Arrivals<T> {
    in_order: VecDeque<(Time, Packet<T>)>,
    /// The latest arrival scheduled in order; later packets arrive no earlier than this.
    last: Time,
    /// Packets held back until others have overtaken them, in the order of their deadlines.
    held: VecDeque<Held<T>>,
    late: EventQueue<Packet<T>>,
}

#[derive(Debug)]
struct Held<T> {
    deadline: Time,
    places: u32,
    packet: Packet<T>,
}

impl<T> Arrivals<T> {
    pub(crate) fn new() -> Self {
        Self { in_order: VecDeque::new(), last: Time::ZERO, held: VecDeque::new(), late: EventQueue::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.in_order.len() + self.held.len() + self.late.len()
    }

    /// Schedules a packet to arrive at `at`, or together with its predecessor if that arrives later.
    pub(crate) fn in_order(&mut self, at: Time, packet: Packet<T>) {
        let at = at.max(self.last);
        self.last = at;
        if self.held.is_empty() {
            self.in_order.push_back((at, packet));
        } else {
            self.overtake(at, packet);
        }
    }

    /// Schedules a packet to arrive right after `places` more packets, or at `deadline` if that is earlier.
    pub(crate) fn after(&mut self, places: u32, deadline: Time, packet: Packet<T>) {
        let deadline = self.held.back().map_or(deadline, |last| deadline.max(last.deadline)).max(self.last);
        self.held.push_back(Held { deadline, places, packet });
    }

    pub(crate) fn late(&mut self, at: Time, packet: Packet<T>) {
        self.late.add(at, packet);
    }

    /// Returns the time of the next arrival.
    ///
    /// `or_in_order` is when the next packet may join the ones delivered in order; it counts only if there are no such
    /// packets.
    pub(crate) fn next(&self, or_in_order: Option<Time>) -> Option<Time> {
        let in_order = self.in_order.front().map(|(at, _)| *at).or(or_in_order);
        let held = self.held.front().map(|held| held.deadline);
        let late = self.late.peek().map(|(at, _)| at);
        match (held, late) {
            (None, None) => in_order,
            _ => [in_order, held, late].into_iter().flatten().min(),
        }
    }

    pub(crate) fn take(&mut self, now: Time) -> Option<(Time, Packet<T>)> {
        let next = self.next(None).filter(|at| *at <= now)?;
        if self.in_order.front().is_some_and(|(at, _)| *at == next) {
            return self.in_order.pop_front();
        }
        if self.held.front().is_some_and(|held| held.deadline == next) {
            self.last = self.last.max(next);
            return self.held.pop_front().map(|held| (next, held.packet));
        }
        self.late.take()
    }

    fn overtake(&mut self, at: Time, packet: Packet<T>) {
        while let Some(deadline) = self.held.front().map(|held| held.deadline).filter(|deadline| *deadline < at) {
            self.release(deadline);
        }
        self.in_order.push_back((at, packet));
        for held in &mut self.held {
            held.places = held.places.saturating_sub(1);
        }
        while self.held.front().is_some_and(|held| held.places == 0) {
            self.release(at);
        }
    }

    fn release(&mut self, at: Time) {
        if let Some(held) = self.held.pop_front() {
            self.in_order.push_back((at, held.packet));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn packet(number: u64) -> Packet<u64> {
        Packet::new(100, number)
    }

    fn drain(arrivals: &mut Arrivals<u64>, now: u64) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| arrivals.take(at(now))).map(|(at, packet)| (at.as_nanos(), packet.payload)).collect()
    }

    #[test]
    fn order_is_kept_whatever_the_times() {
        let mut arrivals = Arrivals::new();
        for (number, time) in [(1, 10), (2, 30), (3, 20), (4, 31)] {
            arrivals.in_order(at(time), packet(number));
        }
        assert_eq!(arrivals.next(None), Some(at(10)));
        assert_eq!(drain(&mut arrivals, 30), [(10, 1), (30, 2), (30, 3)]);
        assert_eq!((arrivals.len(), drain(&mut arrivals, 99)), (1, vec![(31, 4)]));
    }

    #[test]
    fn a_held_packet_comes_so_many_places_later_or_at_its_deadline() {
        let mut arrivals = Arrivals::new();
        arrivals.after(2, at(100), packet(0));
        for number in 1..=3 {
            arrivals.in_order(at(10 * number), packet(number));
        }
        assert_eq!(drain(&mut arrivals, 99), [(10, 1), (20, 2), (20, 0), (30, 3)]);
        arrivals.after(2, at(200), packet(4));
        arrivals.in_order(at(150), packet(5));
        arrivals.in_order(at(250), packet(6));
        assert_eq!(drain(&mut arrivals, 999), [(150, 5), (200, 4), (250, 6)]);
        arrivals.after(1, at(1_100), packet(7));
        assert_eq!((arrivals.next(None), arrivals.next(Some(at(1_050)))), (Some(at(1_100)), Some(at(1_050))));
        assert_eq!(drain(&mut arrivals, 1_100), [(1_100, 7)]);
    }

    #[test]
    fn late_packets_come_at_their_own_time() {
        let mut arrivals = Arrivals::new();
        arrivals.late(at(25), packet(1));
        arrivals.late(at(15), packet(2));
        arrivals.late(at(15), packet(3));
        arrivals.in_order(at(15), packet(4));
        arrivals.in_order(at(20), packet(5));
        assert_eq!(drain(&mut arrivals, 99), [(15, 4), (15, 2), (15, 3), (20, 5), (25, 1)]);
    }
}
