//! Round trips longer than the first timeouts: the SYN is sent again, and so is what follows, though nothing is lost.

use super::two_way::exchange;
use super::*;

/// A server waits 7 s for the ACK of its SYN-ACK, however often the SYN is repeated meanwhile.
const LONGEST: u64 = 6;

/// In either direction and both: ten segments and twice as many each round trip would take four.
#[test]
fn a_round_trip_longer_than_the_timers_is_learnt() {
    for seconds in 1..=LONGEST {
        for bytes in [[100_000, 0], [0, 100_000], [100_000, 100_000]] {
            for (timestamps, extensions, sack) in
                [(true, true, true), (true, false, true), (false, false, true), (false, false, false)]
            {
                let config = || Config { timestamps, extensions, sack, nagle: false, ..Config::default() };
                let delay = Span::from_millis(seconds * 500);
                let taken = exchange([config(), config()], bytes, delay, Box::new(|_, _, _| false));
                // Beyond three seconds the first flight is sent twice, unless the client knows better by its SYN's echo.
                let bound = if seconds <= 3 { 6 } else { 12 };
                let what =
                    format!("{seconds} s, {bytes:?}, timestamps {timestamps}, extensions {extensions}, SACK {sack}");
                assert!(taken <= Span::from_secs(seconds * bound), "{what}: {taken}");
            }
        }
    }
}
