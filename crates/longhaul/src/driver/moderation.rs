//! Receive moderation: pauses in reading a socket on which data streams in, so that one wake-up serves several
//! datagrams (`docs/decisions/0049-moderation.md`).

use longhaul_units::{Span, Time};

/// Shorter pauses are not worth their system calls.
const MIN_PAUSE: Span = Span::from_micros(200);
/// Messages that must be expected during a pause.
const MIN_MESSAGES: u64 = 4;
/// Part of the receive buffer that a pause may fill with data. The kernel counts up to three times the length of a
/// datagram, and the driver may run late.
const BUFFER_PART: usize = 8;
/// Length that a shorter datagram counts as: the kernel counts 768 bytes at least.
const MIN_LEN: usize = 256;

/// Decides when to pause, by the rate of what arrives.
#[derive(Debug)]
pub(super) struct Moderation {
    /// Data in bytes that may wait in the receive buffer.
    room: u64,
    /// Start of the present measurement; messages and bytes received since then.
    since: Time,
    messages: u64,
    bytes: u64,
    /// Whether anything was received since the last decision.
    fresh: bool,
    /// Length of the pause before this measurement.
    last: Option<Span>,
}

impl Moderation {
    /// `buffer` is the size of the socket's receive buffer in bytes.
    pub(super) fn new(buffer: usize) -> Self {
        Self { room: (buffer / BUFFER_PART) as u64, since: Time::ZERO, messages: 0, bytes: 0, fresh: false, last: None }
    }

    /// Records a received message of `len` bytes, which consists of datagrams of `stride` bytes.
    pub(super) fn note(&mut self, len: usize, stride: usize) {
        self.messages += 1;
        self.bytes += len.max(len.div_ceil(stride.max(1)) * MIN_LEN) as u64;
        self.fresh = true;
    }

    /// Called when the socket has been emptied; `patience` is the longest permitted pause. Returns the end of the pause
    /// that begins, if there is one.
    pub(super) fn pause(&mut self, now: Time, patience: Span) -> Option<Time> {
        if !std::mem::take(&mut self.fresh) {
            return None;
        }
        let elapsed = now - self.since;
        if patience >= MIN_PAUSE && elapsed < self.last.map_or(patience, |last| last.min(patience)) {
            return None;
        }
        let (messages, bytes) = (std::mem::take(&mut self.messages), std::mem::take(&mut self.bytes));
        self.since = now;
        let nanos = elapsed.as_nanos().max(1);
        let pause = match bytes {
            0 => patience,
            bytes => patience.min(Span::from_nanos(scale(self.room, nanos, bytes))),
        };
        let expected = scale(messages, pause.as_nanos(), nanos);
        self.last = (pause >= MIN_PAUSE && expected >= MIN_MESSAGES).then_some(pause);
        self.last.map(|pause| now + pause)
    }
}

/// Returns `value * by / of`.
fn scale(value: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(by) / u128::from(of);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Span = Span::from_millis(1);

    /// Receives `messages` of 1400 bytes in a millisecond. Returns the pause that follows.
    fn pause_after(messages: u32, patience: Span, buffer: usize) -> Option<Span> {
        let mut moderation = Moderation::new(buffer);
        let start = Time::ZERO + Span::from_secs(1);
        moderation.since = start;
        (0..messages).for_each(|_| moderation.note(1400, 1400));
        moderation.pause(start + MILLI, patience).map(|until| until - (start + MILLI))
    }

    #[test]
    fn a_pause_follows_when_it_saves_wake_ups() {
        let buffer = 4 << 20;
        assert_eq!(pause_after(13, MILLI, buffer), Some(MILLI));
        assert_eq!((pause_after(4, MILLI, buffer), pause_after(3, MILLI, buffer)), (Some(MILLI), None));
        // The measurement is not over yet.
        assert_eq!(pause_after(13, MILLI * 2, buffer), None);
        // Paths that are too short for a pause.
        assert_eq!(pause_after(1000, Span::from_micros(199), buffer), None);
        assert_eq!(pause_after(1000, Span::ZERO, buffer), None);
    }

    /// 212,992 bytes, which Linux grants by default, hold 26,624 bytes of data.
    #[test]
    fn a_pause_does_not_overflow_the_receive_buffer() {
        let nanos = 26_624 * 1_000_000 / (40 * 1400);
        assert_eq!(pause_after(40, MILLI, 212_992), Some(Span::from_nanos(nanos)));
        assert_eq!(pause_after(100, MILLI, 212_992), None, "there is room for 190 us");
    }

    #[test]
    fn short_datagrams_take_more_of_the_buffer_than_their_length() {
        let expected = |len, stride| {
            let mut moderation = Moderation::new(0);
            moderation.note(len, stride);
            moderation.bytes
        };
        assert_eq!([expected(0, 0), expected(40, 40), expected(400, 40), expected(401, 40)], [0, 256, 2560, 2816]);
        assert_eq!([expected(1400, 1400), expected(64_000, 1400)], [1400, 64_000]);
    }

    /// A pause that the buffer limits is followed by another one at once.
    #[test]
    fn a_limited_pause_is_measured_by_its_own_length() {
        let mut moderation = Moderation::new(8 * 14_000);
        let mut now = Time::ZERO + Span::from_secs(1);
        moderation.since = now;
        for _ in 0..5 {
            now += MILLI;
            (0..20).for_each(|_| moderation.note(1400, 1400));
            // Half of what arrives in a millisecond fits.
            assert_eq!(moderation.pause(now, MILLI), Some(now + MILLI / 2));
            now += MILLI / 2;
            (0..10).for_each(|_| moderation.note(1400, 1400));
            assert_eq!(moderation.pause(now, MILLI), Some(now + MILLI / 2));
        }
    }
}
