//! Event schedule: an indexed binary heap.

use longhaul_units::Time;

const ABSENT: u32 = u32::MAX;

/// Next event time of each of a fixed number of members, such as links or hosts. Setting a time takes logarithmic
/// time, and each member has at most one entry.
#[derive(Clone, Debug)]
pub struct Schedule {
    heap: Vec<(Time, u32)>,
    places: Vec<u32>,
}

impl Schedule {
    /// Creates a schedule for `members` members, numbered from 0, none of which is due.
    pub fn new(members: usize) -> Self {
        Self { heap: Vec::with_capacity(members), places: vec![ABSENT; members] }
    }

    /// Returns the earliest time and its member; ties go to the lowest member number.
    #[inline]
    pub fn first(&self) -> Option<(Time, u32)> {
        self.heap.first().copied()
    }

    /// Returns when a member is due, if it is.
    #[inline]
    pub fn get(&self, member: u32) -> Option<Time> {
        let place = *self.places.get(member as usize)?;
        self.heap.get(place as usize).map(|(at, _)| *at)
    }

    /// Sets when a member is due, or removes it from the schedule.
    ///
    /// # Panics
    /// Panics if there is no such member.
    #[inline]
    pub fn set(&mut self, member: u32, at: Option<Time>) {
        let place = self.places[member as usize];
        match (place, at) {
            (ABSENT, None) => {}
            (ABSENT, Some(at)) => {
                self.heap.push((at, member));
                self.rise(self.heap.len() - 1, (at, member));
            }
            (place, Some(at)) => {
                let place = place as usize;
                let before = self.heap[place].0;
                if at < before {
                    self.rise(place, (at, member));
                } else if at > before {
                    self.sink(place, (at, member));
                }
            }
            (place, None) => self.remove(place as usize),
        }
    }

    fn remove(&mut self, place: usize) {
        let Some(last) = self.heap.pop() else { return };
        let Some(&removed) = self.heap.get(place) else {
            self.places[last.1 as usize] = ABSENT;
            return;
        };
        self.places[removed.1 as usize] = ABSENT;
        if last < removed { self.rise(place, last) } else { self.sink(place, last) }
    }

    /// Inserts an entry at `place` or above, moving later entries down.
    fn rise(&mut self, mut place: usize, entry: (Time, u32)) {
        while place > 0 {
            let parent = (place - 1) / 2;
            let above = self.heap[parent];
            if above <= entry {
                break;
            }
            self.put(place, above);
            place = parent;
        }
        self.put(place, entry);
    }

    /// Inserts an entry at `place` or below, moving earlier entries up.
    fn sink(&mut self, mut place: usize, entry: (Time, u32)) {
        loop {
            let mut child = 2 * place + 1;
            let Some(&(mut least)) = self.heap.get(child) else { break };
            if let Some(&right) = self.heap.get(child + 1).filter(|right| **right < least) {
                (least, child) = (right, child + 1);
            }
            if entry <= least {
                break;
            }
            self.put(place, least);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (Time, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn first_is_the_least_whatever_is_set(sets in prop::collection::vec((0u32..20, prop::option::of(0u64..50)), 0..300)) {
            let mut schedule = Schedule::new(20);
            let mut naive = [None; 20];
            for (link, at) in sets {
                let at = at.map(Time::from_nanos);
                schedule.set(link, at);
                naive[link as usize] = at;
                let least = (0u32..).zip(naive).filter_map(|(link, at)| Some((at?, link))).min();
                prop_assert_eq!(schedule.first(), least);
                prop_assert_eq!(schedule.get(link), at);
            }
        }
    }
}
