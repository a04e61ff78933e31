//! Hierarchical timer wheel with exact deadlines.
//!
//! The wheel is scheme 7 of Varghese and Lauck ("Hashed and Hierarchical Timing Wheels", SOSP 1987): levels of 64
//! slots, each level 64 times coarser than the one below, with an intrusive list in each slot. As in Carousel
//! (SIGCOMM 2017), it serves both release times and timeouts. A plain wheel rounds deadlines to the width of a slot,
//! and its search for the earliest timer in a slot is linear. Therefore the earliest timers are kept sorted outside
//! of the wheel: the *front* is a binary heap of every timer before the *horizon*, and the wheel has the timers at or
//! after it.
//!
//! The wheel does not advance with time. When the front is empty, the first occupied slot (found by two bit scans)
//! moves into it, and is split over finer levels first if it is crowded. When many timers are set before the horizon,
//! the later half of the front moves back into the wheel. The cost of both is at most proportional to the number of
//! timers set. As long as there are few timers, all of them are in the front and no wheel is allocated.

use core::fmt;

use longhaul_units::Time;

/// A tick is 2^10 ns, about a microsecond: the width of a slot at level 0.
const TICK_BITS: u32 = 10;
/// 64 slots per level, so that one word shows which are occupied.
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
/// Number of levels that covers every 64-bit time, so that no overflow list is needed: 10 + 9 x 6 = 64 bits.
const LEVELS: usize = 9;
/// Slots with more timers than this are split before they move into the front. A heap of this size fits into the cache.
const CROWDED: usize = 32;
/// The front does not spill while it is smaller than this.
const SPILL_MIN: usize = 2 * CROWDED;

/// End of a list.
const NIL: u32 = u32::MAX;
/// [`Entry::place`] of a timer that is not set.
const UNSET: u32 = u32::MAX;
/// [`Entry::place`] of a timer in the wheel; smaller values are indices into the front.
const IN_WHEEL: u32 = u32::MAX - 1;

/// Timers by small integer id, with one deadline per id.
///
/// Deadlines are exact to the nanosecond. Timers expire in the order of their deadlines, and those with equal
/// deadlines in the order in which they were set. [`set`](Self::set), [`cancel`](Self::cancel) and
/// [`pop_expired`](Self::pop_expired) take amortised constant time (at worst logarithmic in the number of timers);
/// [`next`](Self::next) reads a cached value. Ids are indices into a table and should be dense, as a slab's are. The
/// memory is 36 bytes per id, allocated only when an id larger than all previous ones is set.
///
/// ```
/// use longhaul_cc::TimerWheel;
/// use longhaul_units::Time;
/// let mut timers = TimerWheel::new(Time::ZERO);
/// timers.set(0, Time::from_nanos(1_000_001));
/// timers.set(1, Time::from_nanos(1_000_000));
/// assert_eq!(timers.next(), Some(Time::from_nanos(1_000_000)));
/// assert_eq!(timers.pop_expired(Time::from_nanos(1_000_000)), Some(1));
/// assert_eq!(timers.pop_expired(Time::from_nanos(1_000_000)), None);
/// ```
#[derive(Clone)]
pub struct TimerWheel {
    entries: Vec<Entry>,
    /// Binary heap of the timers before `horizon`. Empty only if the wheel is empty too.
    front: Vec<u32>,
    /// Allocated when it is first needed, since it takes 2.5 kB.
    wheel: Option<Box<Wheel>>,
    /// Time in ticks: timers before it are in the front, the others in the wheel. It is never before the wheel's
    /// anchor.
    horizon: u64,
    /// Length of the front above which it spills.
    spill_at: usize,
    /// Number of the next `set`, which orders timers with equal deadlines.
    seq: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Time,
    seq: u64,
    place: u32,
    prev: u32,
    next: u32,
}

impl Entry {
    const UNUSED: Self = Self { at: Time::ZERO, seq: 0, place: UNSET, prev: NIL, next: NIL };

    const fn tick(&self) -> u64 {
        tick(self.at)
    }
}

/// The slots. A timer's level is that of the highest 6-bit digit in which its tick differs from the anchor, and its
/// slot is the value of that digit. Hence all timers of a level precede all those of the next.
#[derive(Clone, Debug)]
struct Wheel {
    heads: [[u32; SLOTS]; LEVELS],
    occupied: [u64; LEVELS],
    count: [usize; LEVELS],
    /// Time in ticks; no timer in the wheel is before it.
    anchor: u64,
}

const fn tick(at: Time) -> u64 {
    at.as_nanos() >> TICK_BITS
}

impl fmt::Debug for TimerWheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerWheel").field("next", &self.next()).finish_non_exhaustive()
    }
}

impl TimerWheel {
    /// A wheel without timers. Deadlines are expected from `now` on, but earlier ones work as well.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self { entries: Vec::new(), front: Vec::new(), wheel: None, horizon: tick(now), spill_at: SPILL_MIN, seq: 0 }
    }

    /// Sets or changes the deadline of timer `id`. A deadline in the past expires at the next
    /// [`pop_expired`](Self::pop_expired). Setting the same deadline again changes nothing; with a different one, the
    /// timer expires after all others that have this deadline already. `id` must be below 2^32 - 2.
    pub fn set(&mut self, id: u32, at: Time) {
        self.reserve(id);
        let entry = self.entries[id as usize];
        if entry.place != UNSET && entry.at == at {
            return;
        }
        // A timer that stays in the front or in its slot is changed in place; otherwise it is removed first.
        let early = self.is_early(tick(at));
        let stays = match (entry.place, &mut self.wheel) {
            (UNSET, _) => false,
            (IN_WHEEL, Some(wheel)) => {
                let stays = !early && wheel.slot(entry.tick()) == wheel.slot(tick(at));
                if !stays {
                    wheel.unlink(&mut self.entries, id);
                }
                stays
            }
            _ if early => true,
            (place, _) => {
                self.front_remove(place as usize);
                false
            }
        };
        let entry = &mut self.entries[id as usize];
        entry.at = at;
        entry.seq = self.seq;
        self.seq = self.seq.wrapping_add(1);
        if stays {
            if entry.place != IN_WHEEL {
                let place = entry.place as usize;
                self.sift(place);
            }
            return;
        }
        // Add the timer to the front or to the wheel, depending on the horizon.
        if early {
            self.front.push(id);
            self.sift(self.front.len() - 1);
            if self.front.len() > self.spill_at {
                self.spill();
            }
        } else {
            let anchor = self.horizon;
            self.wheel.get_or_insert_with(|| Wheel::new(anchor)).link(&mut self.entries, id);
        }
        self.fill_front();
    }

    /// Returns whether a timer with that tick belongs to the front. While there are few timers, the horizon moves so
    /// that all of them do.
    fn is_early(&mut self, tick: u64) -> bool {
        if tick >= self.horizon && self.front.len() < SPILL_MIN && self.wheel.as_ref().is_none_or(|w| w.is_empty()) {
            self.horizon = tick + 1;
        }
        tick < self.horizon
    }

    /// Cancels the deadline of timer `id`, if it has one.
    pub fn cancel(&mut self, id: u32) {
        let Some(entry) = self.entries.get(id as usize) else {
            return;
        };
        match (entry.place, &mut self.wheel) {
            (UNSET, _) => return,
            (IN_WHEEL, Some(wheel)) => wheel.unlink(&mut self.entries, id),
            (place, _) => self.front_remove(place as usize),
        }
        self.entries[id as usize].place = UNSET;
        self.fill_front();
    }

    /// Returns the deadline of timer `id`, if it is set.
    #[must_use]
    pub fn deadline(&self, id: u32) -> Option<Time> {
        self.entries.get(id as usize).filter(|entry| entry.place != UNSET).map(|entry| entry.at)
    }

    /// Returns the earliest deadline, exact to the nanosecond; it may be in the past.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        self.front.first().map(|&id| self.entries[id as usize].at)
    }

    /// Removes and returns the earliest timer if its deadline is at or before `now`. Call it until it returns `None`.
    pub fn pop_expired(&mut self, now: Time) -> Option<u32> {
        let id = *self.front.first()?;
        if self.entries[id as usize].at > now {
            return None;
        }
        self.front_remove(0);
        self.entries[id as usize].place = UNSET;
        self.fill_front();
        Some(id)
    }

    /// Returns how many timers are set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.front.len() + self.wheel.as_ref().map_or(0, |wheel| wheel.count.iter().sum())
    }

    /// Returns whether no timer is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.front.is_empty()
    }

    fn reserve(&mut self, id: u32) {
        debug_assert!(id < IN_WHEEL, "ids are small integers");
        let needed = id as usize + 1;
        if self.entries.len() < needed {
            self.entries.resize(needed, Entry::UNUSED);
            self.front.reserve(self.entries.capacity() - self.front.len());
        }
    }

    /// Moves the wheel's first slot into the front if that is empty. A crowded slot is split first.
    fn fill_front(&mut self) {
        let Some(wheel) = self.wheel.as_mut().filter(|_| self.front.is_empty()) else { return };
        while self.front.is_empty()
            && let Some((level, index)) = wheel.first_slot()
        {
            // The first slot becomes the new anchor of the wheel.
            let shift = level as u32 * DIGIT_BITS;
            let above = shift + DIGIT_BITS;
            let start = (wheel.anchor >> above << above) | ((index as u64) << shift);
            let crowded = level > 0 && wheel.is_crowded(&self.entries, level, index);
            let mut id = wheel.take(level, index);
            wheel.anchor = start;
            // If the slot was split, one of its parts is the next slot and sets a nearer horizon.
            self.horizon = start + (1 << shift);
            let mut moved = 0;
            // A crowded slot is distributed over finer levels, any other one moves into the front.
            while id != NIL {
                let next = self.entries[id as usize].next;
                if crowded {
                    wheel.link(&mut self.entries, id);
                } else {
                    self.front.push(id);
                }
                moved += 1;
                id = next;
            }
            wheel.count[level] -= moved;
            self.spill_at = SPILL_MIN;
        }
        self.heapify();
    }

    /// Moves the later half of the front back into the wheel, if this is worth its cost.
    fn spill(&mut self) {
        // Split the front at its median.
        let earliest = self.entries[self.front[0] as usize].tick();
        let middle = self.front.len() / 2;
        let entries = &self.entries;
        let (_, &mut median, _) = self.front.select_nth_unstable_by_key(middle, |&id| entries[id as usize].at);
        let bound = self.entries[median as usize].tick();
        // Timers within one tick cannot be split. Lowering the anchor must not move more timers than were set since.
        let wheel = self.wheel.get_or_insert_with(|| Wheel::new(bound));
        if bound <= earliest || wheel.cost_of_anchor(bound) > self.front.len() {
            self.spill_at = 2 * self.front.len();
            self.heapify();
            return;
        }
        wheel.lower_anchor(&mut self.entries, bound);
        self.horizon = bound;
        // Timers from the median on move into the wheel.
        let mut kept = 0;
        for index in 0..self.front.len() {
            let id = self.front[index];
            if self.entries[id as usize].tick() < bound {
                self.front[kept] = id;
                kept += 1;
            } else {
                wheel.link(&mut self.entries, id);
            }
        }
        self.front.truncate(kept);
        self.spill_at = SPILL_MIN.max(2 * kept);
        self.heapify();
    }

    fn key(&self, index: usize) -> (Time, u64) {
        let entry = &self.entries[self.front[index] as usize];
        (entry.at, entry.seq)
    }

    fn heapify(&mut self) {
        for index in (0..self.front.len()).rev() {
            self.sift_down(index);
        }
    }

    /// Restores the heap's order after the key at `index` changed.
    fn sift(&mut self, index: usize) {
        let index = self.sift_up(index);
        self.sift_down(index);
    }

    fn sift_up(&mut self, mut index: usize) -> usize {
        while index > 0 {
            let parent = (index - 1) / 2;
            if self.key(parent) <= self.key(index) {
                break;
            }
            self.front.swap(parent, index);
            self.place(index);
            index = parent;
        }
        index
    }

    fn sift_down(&mut self, mut index: usize) {
        loop {
            let left = 2 * index + 1;
            if left >= self.front.len() {
                break;
            }
            let right = left + 1;
            let child = if right < self.front.len() && self.key(right) < self.key(left) { right } else { left };
            if self.key(index) <= self.key(child) {
                break;
            }
            self.front.swap(index, child);
            self.place(index);
            index = child;
        }
        self.place(index);
    }

    fn place(&mut self, index: usize) {
        // Ids are below 2^32 - 2 and distinct, so indices into the front fit into 32 bits.
        self.entries[self.front[index] as usize].place = index as u32;
    }

    fn front_remove(&mut self, index: usize) {
        self.front.swap_remove(index);
        if index < self.front.len() {
            self.sift(index);
        }
    }
}

impl Wheel {
    fn new(anchor: u64) -> Box<Self> {
        Box::new(Self { heads: [[NIL; SLOTS]; LEVELS], occupied: [0; LEVELS], count: [0; LEVELS], anchor })
    }

    fn is_empty(&self) -> bool {
        self.occupied == [0; LEVELS]
    }

    fn slot(&self, tick: u64) -> (usize, usize) {
        let level = level_of(tick ^ self.anchor);
        let index = (tick >> (level as u32 * DIGIT_BITS)) as usize & (SLOTS - 1);
        (level, index)
    }

    fn first_slot(&self) -> Option<(usize, usize)> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        Some((level, self.occupied[level].trailing_zeros() as usize))
    }

    fn is_crowded(&self, entries: &[Entry], level: usize, index: usize) -> bool {
        let mut id = self.heads[level][index];
        for _ in 0..CROWDED {
            if id == NIL {
                return false;
            }
            id = entries[id as usize].next;
        }
        id != NIL
    }

    fn link(&mut self, entries: &mut [Entry], id: u32) {
        let (level, index) = self.slot(entries[id as usize].tick());
        let head = core::mem::replace(&mut self.heads[level][index], id);
        let entry = &mut entries[id as usize];
        entry.place = IN_WHEEL;
        entry.prev = NIL;
        entry.next = head;
        if head != NIL {
            entries[head as usize].prev = id;
        }
        self.occupied[level] |= 1 << index;
        self.count[level] += 1;
    }

    fn unlink(&mut self, entries: &mut [Entry], id: u32) {
        let entry = entries[id as usize];
        let (level, index) = self.slot(entry.tick());
        if entry.next != NIL {
            entries[entry.next as usize].prev = entry.prev;
        }
        if entry.prev != NIL {
            entries[entry.prev as usize].next = entry.next;
        } else {
            self.heads[level][index] = entry.next;
            if entry.next == NIL {
                self.occupied[level] &= !(1 << index);
            }
        }
        self.count[level] -= 1;
    }

    /// Empties a slot and returns its list. The caller subtracts its timers from the level's count.
    fn take(&mut self, level: usize, index: usize) -> u32 {
        self.occupied[level] &= !(1 << index);
        core::mem::replace(&mut self.heads[level][index], NIL)
    }

    /// Returns how many timers `lower_anchor` would move.
    fn cost_of_anchor(&self, anchor: u64) -> usize {
        if anchor >= self.anchor {
            return 0;
        }
        self.count[..level_of(anchor ^ self.anchor)].iter().sum()
    }

    /// Moves the anchor back to `anchor`; a later one is ignored. The timers on the levels below the highest changed
    /// digit are collected in one slot on that digit's level.
    fn lower_anchor(&mut self, entries: &mut [Entry], anchor: u64) {
        if anchor >= self.anchor {
            return;
        }
        let levels = level_of(anchor ^ self.anchor);
        self.anchor = anchor;
        for level in 0..levels {
            while self.occupied[level] != 0 {
                let mut id = self.take(level, self.occupied[level].trailing_zeros() as usize);
                while id != NIL {
                    let next = entries[id as usize].next;
                    self.link(entries, id);
                    id = next;
                }
            }
            self.count[level] = 0;
        }
    }
}

/// Returns the level of the highest digit set in `difference`, which is below 2^54.
const fn level_of(difference: u64) -> usize {
    match difference.checked_ilog2() {
        Some(bit) => (bit / DIGIT_BITS) as usize,
        None => 0,
    }
}

#[cfg(test)]
mod tests;
