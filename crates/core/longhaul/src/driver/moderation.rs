//! Receive moderation: pauses in reading a socket with a continuous stream of data, so that one wake-up serves several
//! datagrams (`docs/decisions/0049-moderation.md`).

use longhaul_units::{Span, Time};

/// Minimum length of a pause: shorter ones are not worth their system calls.
const MIN_PAUSE: Span = Span::from_micros(25);
/// Maximum short pause. A short pause may exceed a 64th of the round-trip time if the sender does not wait for its end.
const SHORT: Span = Span::from_micros(50);
/// Increment of the limit of short pauses per measurement, so that a stream is not paused for its first 1.6 ms.
const STEP: Span = Span::from_nanos(800);
/// Minimum number of messages expected during a pause.
const MIN_MESSAGES: u64 = 3;
/// Fraction of the receive buffer that a pause may fill with data. The kernel counts up to three times the length of a
/// datagram, and the driver may be scheduled late.
const BUFFER_PART: usize = 8;
/// Minimum length that a datagram counts as: the kernel counts at least 768 bytes.
const MIN_LEN: usize = 256;

/// Decides when to pause, based on the arrival rate.
#[derive(Debug)]
pub(super) struct Moderation {
    /// Data in bytes that may wait in the receive buffer.
    room: u64,
    /// Start of the current measurement, and the messages and bytes received since then.
    since: Time,
    messages: u64,
    bytes: u64,
    /// Arrival time of the newest message since the last decision, if there was one.
    newest: Option<Time>,
    /// Length of the pause before this measurement.
    last: Option<Span>,
    /// Limit of short pauses.
    short: Span,
}

impl Moderation {
    /// Creates the state; `buffer` is the size of the socket's receive buffer in bytes.
    pub(super) fn new(buffer: usize) -> Self {
        let room = (buffer / BUFFER_PART) as u64;
        Self { room, since: Time::ZERO, messages: 0, bytes: 0, newest: None, last: None, short: Span::ZERO }
    }

    /// Records a message of `len` bytes that arrived at `at` and consists of datagrams of `stride` bytes.
    pub(super) fn note(&mut self, at: Time, len: usize, stride: usize) {
        self.messages += 1;
        self.bytes += len.max(len.div_ceil(stride.max(1)) * MIN_LEN) as u64;
        self.newest = Some(at);
    }

    /// Called when the socket has been emptied; `patience` is a small fraction of the round-trip time, or zero for no
    /// pause. Returns the end of the pause, if one begins.
    pub(super) fn pause(&mut self, now: Time, patience: Span) -> Option<Time> {
        let newest = self.newest.take()?;
        let most = if patience.is_zero() { Span::ZERO } else { SHORT };
        let longest = patience.max(most);
        let elapsed = now - self.since;
        if elapsed < self.last.map_or(longest, |last| last.min(longest)) {
            return None;
        }
        let (messages, bytes) = (std::mem::take(&mut self.messages), std::mem::take(&mut self.bytes));
        self.since = now;
        let nanos = elapsed.as_nanos().max(1);
        let is_stream = scale(messages, SHORT.as_nanos(), nanos) >= MIN_MESSAGES;
        let short = if is_stream { self.next_short(now - newest, elapsed / messages.max(1)) } else { Span::ZERO };
        self.short = short.min(most);
        let longest = patience.max(self.short);
        let pause = match bytes {
            0 => longest,
            bytes => longest.min(Span::from_nanos(scale(self.room, nanos, bytes))),
        };
        let expected = scale(messages, pause.as_nanos(), nanos);
        self.last = (pause >= MIN_PAUSE && expected >= MIN_MESSAGES).then_some(pause);
        self.last.map(|pause| now + pause)
    }

    /// Returns the next limit of short pauses. The last pause was too long if the `silence` since the newest message is
    /// a large part of it and much longer than the mean `distance` of messages: the sender then waits for ACKs or has
    /// nothing to send.
    fn next_short(&self, silence: Span, distance: Span) -> Span {
        match self.last {
            Some(pause) if silence > pause * 3 / 8 + distance => self.short / 2,
            _ => self.short + STEP,
        }
    }
}

/// Returns `value * by / of`, saturating.
fn scale(value: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(by) / u128::from(of);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Span = Span::from_millis(1);
    const MICRO: Span = Span::from_micros(1);
    const START: Time = Time::from_nanos(1_000_000_000);

    /// Receives `messages` of 1400 bytes in a millisecond. Returns the pause that follows.
    fn pause_after(messages: u32, patience: Span, buffer: usize) -> Option<Span> {
        let mut moderation = Moderation::new(buffer);
        moderation.since = START;
        (0..messages).for_each(|_| moderation.note(START, 1400, 1400));
        moderation.pause(START + MILLI, patience).map(|until| until - (START + MILLI))
    }

    #[test]
    fn a_pause_follows_when_it_saves_wake_ups() {
        let buffer = 4 << 20;
        assert_eq!(pause_after(13, MILLI, buffer), Some(MILLI));
        assert_eq!((pause_after(3, MILLI, buffer), pause_after(2, MILLI, buffer)), (Some(MILLI), None));
        // The measurement is not over yet.
        assert_eq!(pause_after(13, MILLI * 2, buffer), None);
        // Paths that are too short for a pause.
        assert_eq!(pause_after(1000, MIN_PAUSE, buffer), Some(MIN_PAUSE));
        assert_eq!(pause_after(1000, MIN_PAUSE - Span::from_nanos(1), buffer), None);
        assert_eq!(pause_after(1000, Span::ZERO, buffer), None);
    }

    /// 212,992 bytes, which Linux grants by default, hold 26,624 bytes of data.
    #[test]
    fn a_pause_does_not_overflow_the_receive_buffer() {
        let nanos = 26_624 * 1_000_000 / (40 * 1400);
        assert_eq!(pause_after(40, MILLI, 212_992), Some(Span::from_nanos(nanos)));
        assert_eq!(pause_after(1000, MILLI, 212_992), None, "there is room for 19 us");
    }

    #[test]
    fn short_datagrams_take_more_of_the_buffer_than_their_length() {
        let expected = |len, stride| {
            let mut moderation = Moderation::new(0);
            moderation.note(START, len, stride);
            moderation.bytes
        };
        assert_eq!([expected(0, 0), expected(40, 40), expected(400, 40), expected(401, 40)], [0, 256, 2560, 2816]);
        assert_eq!([expected(1400, 1400), expected(64_000, 1400)], [1400, 64_000]);
    }

    /// A pause that the buffer limits is followed by another one at once.
    #[test]
    fn a_limited_pause_is_measured_by_its_own_length() {
        let mut moderation = Moderation::new(8 * 14_000);
        let mut now = START;
        moderation.since = now;
        for _ in 0..5 {
            now += MILLI;
            (0..20).for_each(|_| moderation.note(now, 1400, 1400));
            // Half of what arrives in a millisecond fits.
            assert_eq!(moderation.pause(now, MILLI), Some(now + MILLI / 2));
            now += MILLI / 2;
            (0..10).for_each(|_| moderation.note(now, 1400, 1400));
            assert_eq!(moderation.pause(now, MILLI), Some(now + MILLI / 2));
        }
    }

    /// Receiver of 64 kB every `distance`, which empties its socket every `wait`, or after each pause.
    struct Rack {
        moderation: Moderation,
        now: Time,
        patience: Span,
        wait: Span,
    }

    impl Rack {
        fn new() -> Self {
            Self {
                moderation: Moderation { since: START, ..Moderation::new(8 << 20) },
                now: START,
                patience: MICRO,
                wait: SHORT,
            }
        }

        /// Reads what has arrived with this distance, and then nothing for `silence`. Returns the pause that follows.
        fn read(&mut self, distance: Span, silence: Span) -> Option<Span> {
            let wait = self.moderation.last.unwrap_or(self.wait);
            self.now += wait;
            let messages = wait.as_nanos() / distance.as_nanos();
            (0..messages).for_each(|_| self.moderation.note(self.now - silence, 64_000, 1448));
            self.moderation.pause(self.now, self.patience).map(|until| until - self.now)
        }

        fn reads(&mut self, times: u64, distance: Span, silence: Span) -> Vec<Option<Span>> {
            (0..times).map(|_| self.read(distance, silence)).collect()
        }
    }

    #[test]
    fn pauses_within_a_rack_become_longer_while_data_streams() {
        let (mut rack, distance) = (Rack::new(), MICRO * 8);
        assert_eq!(rack.reads(31, distance, MICRO), [None; 31]);
        let pauses = rack.reads(40, distance, MICRO);
        assert_eq!((pauses[0], pauses[1], pauses[39]), (Some(STEP * 32), Some(STEP * 33), Some(SHORT)));
        // The peer wants an ACK per segment, or another connection has joined.
        rack.patience = Span::ZERO;
        assert_eq!(rack.read(distance, MICRO), None);
        rack.patience = MICRO;
        assert_eq!(rack.reads(31, distance, MICRO), [None; 31]);
        assert_eq!(rack.read(distance, MICRO), Some(STEP * 32));
    }

    #[test]
    fn a_measurement_within_a_rack_covers_several_reads() {
        let (mut rack, distance) = (Rack { wait: SHORT / 5, ..Rack::new() }, MICRO * 5);
        assert_eq!(rack.reads(5 * 32 - 1, distance, MICRO), [None; 5 * 32 - 1]);
        assert_eq!(rack.read(distance, MICRO), Some(STEP * 32));
    }

    /// The sender has used up its window, or has nothing left to send.
    #[test]
    fn a_pause_whose_end_was_silent_halves_the_next_one() {
        let (mut rack, distance) = (Rack::new(), MICRO * 8);
        rack.reads(80, distance, MICRO);
        let bound = SHORT * 3 / 8 + SHORT / 6;
        assert_eq!(rack.read(distance, bound), Some(SHORT), "6 messages in 50 us");
        assert_eq!(rack.read(distance, bound + MICRO), Some(SHORT / 2));
        assert_eq!(rack.read(distance, SHORT / 2), None);
        assert_eq!(rack.reads(15, distance, SHORT), [None; 15], "no pause, thus no silence of one");
        assert_eq!(rack.read(distance, SHORT), Some(SHORT / 4 + STEP * 16));
    }

    /// A pause that a 64th of the round-trip time permits does not depend on silence.
    #[test]
    fn a_long_path_keeps_its_pauses_in_silence() {
        let mut rack = Rack { patience: SHORT * 2, ..Rack::new() };
        assert_eq!(rack.reads(2, MICRO * 8, SHORT), [None, Some(SHORT * 2)]);
        assert_eq!(rack.reads(9, MICRO * 8, SHORT * 2), [Some(SHORT * 2); 9]);
    }

    #[test]
    fn a_slow_stream_within_a_rack_is_not_paused() {
        let mut rack = Rack::new();
        assert_eq!(rack.reads(200, MICRO * 17, MICRO), [None; 200]);
        rack.reads(80, MICRO * 8, MICRO);
        assert_eq!(rack.reads(2, MICRO * 17, MICRO), [None; 2]);
        assert_eq!(rack.reads(31, MICRO * 8, MICRO), [None; 31], "and it begins anew");
    }
}
