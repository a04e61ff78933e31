//! Recorded links, in mahimahi's format (Netravali et al., USENIX ATC 2015).

use longhaul_units::{Rate, Span, Time};

/// Bytes of one delivery opportunity: a 1500-byte IP packet and the 4 bytes that a TUN device prepends, as counted by
/// mahimahi's link shell.
pub const OPPORTUNITY: u32 = 1504;

/// Bytes counted for each packet in addition to its own.
pub const TUN_PREFIX: u32 = 4;

/// Delivery opportunities of a recorded link, one per line of the trace; the trace repeats forever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Times in milliseconds, ascending; the last one is the length of the trace.
    millis: Vec<u32>,
}

/// Error in the text of a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The text contains no number.
    #[error("the trace is empty; it needs one line with a time in milliseconds for each 1500 bytes")]
    Empty,
    /// A line is not a whole number of milliseconds.
    #[error("line {line} of the trace is {text:?}; each line is a whole number of milliseconds since the beginning")]
    NotANumber {
        /// The line number, from 1.
        line: usize,
        /// The text of the line, truncated.
        text: String,
    },
    /// A time is earlier than that of the previous line.
    #[error("line {line} of the trace goes backwards, from {last} to {millis} ms; sort the lines by time")]
    Backwards {
        /// The line number, from 1.
        line: usize,
        /// The time of the line before.
        last: u32,
        /// The time of this line.
        millis: u32,
    },
    /// All times are zero, so the trace would deliver an unlimited number of bytes at once.
    #[error("all times in the trace are 0; the last one is its length and must be at least 1 ms")]
    NoLength,
}

impl Trace {
    /// Parses a trace with one time in milliseconds per line. Empty lines are skipped.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut millis: Vec<u32> = Vec::new();
        for (index, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let (line, text) = (index + 1, text.trim());
            let Ok(time) = text.parse() else {
                return Err(TraceError::NotANumber { line, text: text.chars().take(40).collect() });
            };
            if let Some(&last) = millis.last().filter(|&&last| last > time) {
                return Err(TraceError::Backwards { line, last, millis: time });
            }
            millis.push(time);
        }
        match millis.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoLength),
            Some(_) => Ok(Self { millis }),
        }
    }

    /// Returns the time after which the trace repeats.
    pub fn period(&self) -> Span {
        Span::from_millis(u64::from(self.millis.last().copied().unwrap_or(1)))
    }

    /// Returns the mean rate, counting all bytes of the opportunities.
    pub fn mean_rate(&self) -> Rate {
        let bytes = self.millis.len() as u64 * u64::from(OPPORTUNITY);
        Rate::from_bytes_over(longhaul_units::Bytes(bytes), self.period())
    }

    fn at(&self, round: u64, index: usize) -> Time {
        let millis = self.millis.get(index).copied().unwrap_or(0);
        Time::ZERO + self.period() * round + Span::from_millis(u64::from(millis))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    round: u64,
    index: usize,
}

impl Cursor {
    pub(crate) fn time(&self, trace: &Trace) -> Time {
        trace.at(self.round, self.index)
    }

    pub(crate) fn advance(&mut self, trace: &Trace) {
        self.index += 1;
        if self.index >= trace.millis.len() {
            (self.round, self.index) = (self.round + 1, 0);
        }
    }

    /// Advances to the first opportunity after `now`; never moves backwards.
    pub(crate) fn skip_through(&mut self, trace: &Trace, now: Time) {
        if self.time(trace) > now {
            return;
        }
        let period = trace.period().as_nanos().max(1);
        let round = now.as_nanos() / period;
        if round > self.round {
            // The previous round ends at exactly this time, possibly with several opportunities.
            (self.round, self.index) = (round, 0);
        }
        let within = now.as_nanos() - self.round * period;
        let passed = |millis: &u32| u64::from(*millis) * 1_000_000 <= within;
        self.index = self.index.max(trace.millis.partition_point(passed));
        if self.index >= trace.millis.len() {
            (self.round, self.index) = (self.round + 1, 0);
            self.skip_through(trace, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named_with_their_line() {
        assert_eq!(Trace::parse(" \n\n"), Err(TraceError::Empty));
        assert_eq!(Trace::parse("0\n0\n"), Err(TraceError::NoLength));
        assert_eq!(Trace::parse("1\n\n-5"), Err(TraceError::NotANumber { line: 3, text: "-5".into() }));
        assert_eq!(Trace::parse("1\n7\n\n6\n"), Err(TraceError::Backwards { line: 4, last: 7, millis: 6 }));
        let message = Trace::parse("3\n2").unwrap_err().to_string();
        assert_eq!(message, "line 2 of the trace goes backwards, from 3 to 2 ms; sort the lines by time");
    }

    #[test]
    fn skipping_equals_advancing_step_by_step() {
        for text in ["1\n1\n3", "0\n2\n2\n5\n", "4"] {
            let trace = Trace::parse(text).unwrap();
            for now in (0..60u64).map(|half| Time::from_nanos(half * 500_000)) {
                for start in 0..7 {
                    let mut walked = Cursor::default();
                    (0..start).for_each(|_| walked.advance(&trace));
                    let mut skipped = walked.clone();
                    while walked.time(&trace) <= now {
                        walked.advance(&trace);
                    }
                    skipped.skip_through(&trace, now);
                    assert_eq!((walked.round, walked.index), (skipped.round, skipped.index), "{text:?} {now}");
                }
            }
        }
    }

    #[test]
    fn mean_rate_counts_whole_opportunities() {
        let trace = Trace::parse("0\n1\n1\n2").unwrap();
        assert_eq!(trace.mean_rate(), Rate::from_bytes_per_sec(4 * 1504 * 500));
        assert_eq!(trace.period(), Span::from_millis(2));
    }
}
