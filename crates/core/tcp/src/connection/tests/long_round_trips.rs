//! Round-trip times longer than the initial timeouts: SYN and data are retransmitted although nothing is lost.

use super::two_way::exchange;
use super::*;

/// A server waits 7 s for the ACK of its SYN-ACK, however often the SYN is retransmitted in the meantime.
const LONGEST: u64 = 6;

/// Transfers in one direction or both. Starting with ten segments and doubling would take 4 round trips.
#[test]
fn round_trip_times_above_the_initial_timeouts_are_learnt() {
    for seconds in 1..=LONGEST {
        for bytes in [[100_000, 0], [0, 100_000], [100_000, 100_000]] {
            for (timestamps, extensions, sack) in
                [(true, true, true), (true, false, true), (false, false, true), (false, false, false)]
            {
                let config = || Config { timestamps, extensions, sack, nagle: false, ..Config::default() };
                let delay = Span::from_millis(seconds * 500);
                let taken = exchange([config(), config()], bytes, delay, Box::new(|_, _, _| false));
                // Above 3 s, the first flight is sent twice unless the client has a sample from the timestamp echo of
                // its SYN.
                let bound = if seconds <= 3 { 6 } else { 13 };
                let what =
                    format!("{seconds} s, {bytes:?}, timestamps {timestamps}, extensions {extensions}, SACK {sack}");
                assert!(taken <= Span::from_secs(seconds * bound), "{what}: {taken}");
            }
        }
    }
}
