//! Resegmentation after a decrease of the path MTU.

use super::{FIN, LINKED, NIL, PROBE, Record, Scoreboard};

impl Scoreboard {
    /// Splits every segment longer than `mss`. This takes linear time and is rare.
    pub(crate) fn resegment(&mut self, mss: u16) {
        let mss = mss.max(1);
        if (self.head..self.tail).all(|i| self.record(i).len <= mss) {
            return;
        }
        let old: Vec<Record> = (self.head..self.tail).map(|i| *self.record(i)).collect();
        // Start an empty scoreboard that keeps the bursts and the transmission counter.
        let mut fresh = Self {
            bursts: std::mem::take(&mut self.bursts),
            first_burst: self.first_burst,
            next_tx: self.next_tx,
            ..Self::new()
        };
        for burst in &mut fresh.bursts {
            burst.live = 0;
        }
        // Cut the records. A piece keeps the flags, except that only the last one carries the FIN and none is an
        // MTU probe.
        let mut pieces = Vec::new();
        for record in old {
            let mut left = record;
            while left.len > mss {
                pieces.push(Record { len: mss, flags: left.flags & !(FIN | PROBE), ..left });
                left.start += u64::from(mss);
                left.len -= mss;
            }
            left.flags &= !PROBE;
            pieces.push(left);
        }
        // Rebuild the ring and the counters in sequence order, and the list in order of transmission.
        let mut by_time: Vec<usize> = (0..pieces.len()).collect();
        by_time.sort_by_key(|i| pieces[*i].tx);
        for piece in &pieces {
            fresh.restore(*piece);
        }
        for i in by_time {
            if fresh.record(i as u64).counts_in_flight() {
                fresh.link_newest(i as u64);
            }
        }
        *self = fresh;
    }

    /// Appends a copy of a record without linking it into the list.
    fn restore(&mut self, mut record: Record) {
        if self.len() == self.ring.len() {
            self.grow();
        }
        record.flags &= !LINKED;
        (record.prev, record.next) = (NIL, NIL);
        let index = self.tail;
        self.tail += 1;
        let slot = self.slot(index);
        self.ring[slot] = record;
        let bytes = record.sequence_len();
        if record.is_sacked() {
            self.sacked.set(index);
            *self.count_of(&record) += bytes;
            if !record.is_passed() {
                self.sacked_top = index + 1;
            }
        } else if record.is_lost() {
            self.lost.set(index);
            self.lost_bytes += bytes;
        } else {
            self.in_flight += bytes;
        }
        let at = record.burst.wrapping_sub(self.first_burst) as usize;
        if let Some(burst) = self.bursts.get_mut(at) {
            burst.live += 1;
        }
    }
}
