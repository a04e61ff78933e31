//! Batches of many slices, which are passed to the kernel as they are or joined in a buffer first, whichever takes less
//! time (`docs/decisions/0059-slices-that-are-joined.md`).

use std::cell::RefCell;
use std::io::{self, IoSlice};

use longhaul_units::{Span, Time};

use crate::io::join;

/// Fewer slices are passed as they are.
const MIN_SLICES: usize = 8;
/// Number of batches from the start of a trial to that of the next one.
const PERIOD: u32 = 512;
/// Number of batches of a trial, of which every second one is joined.
const TRIAL: u32 = 8;
/// Part of its time that the other way must save.
const MARGIN: u64 = 8;

thread_local! {
    /// Shared by the sockets of this thread, since copies take the same time for all.
    static JOINING: RefCell<Joining> = const { RefCell::new(Joining::new()) };
}

/// Passes `slices` to `send`, joined if that is likely to take less time. `now` is the clock.
pub(super) fn send(
    slices: &[IoSlice<'_>],
    now: impl Fn() -> Time,
    send: impl FnOnce(&[IoSlice<'_>]) -> io::Result<()>,
) -> io::Result<()> {
    // A stream that is dropped while its thread ends may still send.
    if slices.len() < MIN_SLICES || JOINING.try_with(|_| ()).is_err() {
        return send(slices);
    }
    JOINING.with_borrow_mut(|joining| joining.send(slices, now, send))
}

#[derive(Debug)]
struct Joining {
    /// Whether batches are joined between trials.
    joins: bool,
    /// Number of batches since the last trial began.
    batches: u32,
    /// Least nanoseconds per MiB in this trial, of batches that were passed as they are, and of joined ones.
    least: [u64; 2],
    buffer: Vec<u8>,
}

impl Joining {
    const fn new() -> Self {
        Self { joins: false, batches: 0, least: [u64::MAX; 2], buffer: Vec::new() }
    }

    fn send(
        &mut self,
        slices: &[IoSlice<'_>],
        now: impl Fn() -> Time,
        send: impl FnOnce(&[IoSlice<'_>]) -> io::Result<()>,
    ) -> io::Result<()> {
        let start = (self.batches < TRIAL).then(&now);
        let joins = if start.is_some() { self.batches % 2 == 1 } else { self.joins };
        if joins {
            join(slices, &mut self.buffer);
            send(&[IoSlice::new(&self.buffer)])?;
        } else {
            send(slices)?;
        }
        if let Some(start) = start {
            let len = slices.iter().map(|slice| slice.len()).sum();
            self.note(joins, len, now() - start);
        }
        self.batches = (self.batches + 1) % PERIOD;
        if self.batches == TRIAL {
            self.choose();
        }
        Ok(())
    }

    /// Records that a batch of `len` bytes took `time`.
    fn note(&mut self, joined: bool, len: usize, time: Span) {
        let cost = time.as_nanos().saturating_mul(1 << 20) / (len as u64).max(1);
        let least = &mut self.least[usize::from(joined)];
        *least = cost.min(*least);
    }

    /// Ends a trial.
    fn choose(&mut self) {
        let [apart, joined] = std::mem::replace(&mut self.least, [u64::MAX; 2]);
        let (used, other) = if self.joins { (joined, apart) } else { (apart, joined) };
        self.joins ^= other < used - used / MARGIN;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread;

    use super::*;

    /// Sends `batches` of 44 slices, for which the kernel needs this many nanoseconds as they are, and joined. Returns how
    /// many of them were joined.
    fn joined(joining: &mut Joining, batches: u32, nanos: [u64; 2]) -> u32 {
        let clock = Cell::new(Time::ZERO);
        let data: Vec<u8> = (0..=255).cycle().take(44 * 700).collect();
        let slices: Vec<_> = data.chunks(700).map(IoSlice::new).collect();
        let mut joined = 0;
        for _ in 0..batches {
            let send = |slices: &[IoSlice<'_>]| {
                assert_eq!(
                    slices.iter().flat_map(|slice| slice.iter()).collect::<Vec<_>>(),
                    data.iter().collect::<Vec<_>>()
                );
                let is_joined = slices.len() == 1;
                joined += u32::from(is_joined);
                clock.set(clock.get() + Span::from_nanos(nanos[usize::from(is_joined)]));
                Ok(())
            };
            joining.send(&slices, || clock.get(), send).unwrap();
        }
        joined
    }

    #[test]
    fn batches_are_joined_where_that_takes_less_time() {
        let mut joining = Joining::new();
        let rest = PERIOD - TRIAL;
        assert_eq!(joined(&mut joining, TRIAL, [9000, 5000]), TRIAL / 2);
        assert_eq!(joined(&mut joining, rest, [9000, 5000]), rest);
        // The machine has changed.
        assert_eq!(joined(&mut joining, PERIOD, [5000, 9000]), TRIAL / 2);
        assert_eq!(joined(&mut joining, PERIOD, [5000, 9000]), TRIAL / 2);
    }

    #[test]
    fn a_way_that_is_little_faster_is_not_chosen() {
        for (nanos, chosen) in
            [([8000, 7001], [false, true]), ([8000, 6999], [true, true]), ([7001, 8000], [false, true])]
        {
            let start = |joins| Joining { joins, ..Joining::new() };
            let after = [false, true].map(|joins| {
                let mut joining = start(joins);
                joined(&mut joining, TRIAL, nanos);
                joining.joins
            });
            assert_eq!(after, chosen, "{nanos:?}");
        }
    }

    /// A thread that loses the processor within a call.
    #[test]
    fn one_slow_batch_of_a_trial_does_not_matter() {
        let mut joining = Joining::new();
        joined(&mut joining, 2, [5000, 900_000]);
        joined(&mut joining, TRIAL - 2, [9000, 5000]);
        assert!(!joining.joins);
        joining.batches = 0;
        joined(&mut joining, 2, [900_000, 900_000]);
        joined(&mut joining, TRIAL - 2, [9000, 5000]);
        assert!(joining.joins);
    }

    #[test]
    fn a_batch_that_the_socket_refuses_is_no_part_of_a_trial() {
        let mut joining = Joining::new();
        let slices = [IoSlice::new(&[0; 700]); 44];
        let refused = joining.send(&slices, || Time::ZERO, |_| Err(io::ErrorKind::WouldBlock.into()));
        assert_eq!((refused.unwrap_err().kind(), joining.batches), (io::ErrorKind::WouldBlock, 0));
        assert_eq!(joining.least, [u64::MAX; 2]);
    }

    #[test]
    fn few_slices_are_passed_as_they_are() {
        // A socket of another test may have used this thread.
        let passed =
            |count: usize| thread::spawn(move || passed(&vec![IoSlice::new(&[0; 700]); count])).join().unwrap();
        assert_eq!(passed(MIN_SLICES - 1), [MIN_SLICES - 1; TRIAL as usize]);
        assert_eq!(passed(MIN_SLICES)[..2], [MIN_SLICES, 1]);
    }

    /// Sends a batch several times. Returns how many slices were passed in each call.
    fn passed(slices: &[IoSlice<'_>]) -> Vec<usize> {
        let mut passed = Vec::new();
        for _ in 0..TRIAL {
            let mut note = |slices: &[IoSlice<'_>]| {
                passed.push(slices.len());
                Ok(())
            };
            send(slices, || Time::ZERO, &mut note).unwrap();
        }
        passed
    }
}
