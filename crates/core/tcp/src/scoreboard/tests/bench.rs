//! Access to the scoreboard for this repository's benchmarks and fuzz targets: equally sized segments addressed by
//! number, and scripted tests.

use longhaul_units::Time;

use crate::scoreboard::{Burst, Scoreboard, Told};

/// Payload bytes of every segment.
const MSS: u64 = 1448;

/// A scoreboard whose segments are all of one size: segment `n` is at offset `n * MSS`.
#[derive(Clone, Debug)]
pub struct Window {
    board: Scoreboard,
    next: u64,
}

impl Window {
    /// Creates a window whose first `segments` segments were sent at time zero, in bursts of 32.
    #[must_use]
    pub fn new(segments: u64) -> Self {
        let mut window = Self { board: Scoreboard::new(), next: 0 };
        while window.next < segments {
            window.send(Time::ZERO, 32.min(segments - window.next));
        }
        window
    }

    /// Sends new segments in one burst.
    pub fn send(&mut self, now: Time, segments: u64) {
        self.board.begin_burst(Burst::new(now));
        for _ in 0..segments {
            self.board.push(self.next * MSS, MSS as u16, false, false);
            self.next += 1;
        }
    }

    /// Applies a SACK block that covers segments `first..end`; returns the number of newly SACKed bytes.
    pub fn sack(&mut self, first: u64, end: u64) -> u64 {
        self.board.sack(first * MSS, end * MSS, |_, _| {})
    }

    /// Acknowledges every segment below `end`; returns the number of bytes that were not SACKed before.
    pub fn acknowledge(&mut self, end: u64) -> u64 {
        self.board.acknowledge(end * MSS, Told::Ends { and: &[] }, |_, _| {})
    }

    /// Marks lost every segment in flight that was sent before `segment`: RACK's rule (RFC 8985, section 6.2) with
    /// a reordering window of zero, applied once the newest transmission of `segment` is delivered. Returns the
    /// number of segments marked lost.
    pub fn lose_older_than(&mut self, segment: u64) -> u64 {
        let una = self.board.front().map_or(segment, |(_, record)| record.start / MSS);
        let Some(arrived) = self.board.get(self.board.head + (segment - una)).map(|record| record.tx) else {
            return 0;
        };
        let mut lost = 0;
        while let Some(index) = self.board.oldest_sent()
            && self.board.get(index).is_some_and(|record| record.tx < arrived)
        {
            self.board.mark_lost(index);
            lost += 1;
        }
        lost
    }

    /// Retransmits the lowest lost segment; returns false if there is none.
    pub fn retransmit(&mut self, now: Time) -> bool {
        let Some(index) = self.board.next_lost() else { return false };
        self.board.begin_burst(Burst::new(now));
        self.board.retransmit(index);
        true
    }

    /// Returns the candidates of rules 3 and 4 of NextSeg() (RFC 6675, section 4), which apply when neither lost
    /// nor new data can be sent: the lowest segment in flight from `segment` on that has a SACKed one above it, and
    /// the highest segment that is not SACKed.
    #[must_use]
    pub fn rescue(&self, segment: u64) -> (Option<u64>, Option<u64>) {
        (self.board.next_in_doubt(segment * MSS), self.board.last_unsacked_below(u64::MAX))
    }

    /// Number of segments sent and not cumulatively acknowledged.
    #[must_use]
    pub fn len(&self) -> usize {
        self.board.len()
    }

    /// Returns whether there are no such segments.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.board.is_empty()
    }

    /// Number of the next new segment.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Heap memory of the scoreboard in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.board.memory()
    }
}

/// Plays a script to the scoreboard and to a naive model of it.
///
/// # Panics
/// Panics if the two disagree.
pub fn scoreboard(script: &[u8]) {
    crate::scoreboard::model::play(script);
}
