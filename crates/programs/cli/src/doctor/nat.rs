//! Lifetime of the binding that a NAT on the path keeps for a silent socket.
//!
//! The clock in a reflector's answers has a secret origin for each pair of addresses. If the NAT has dropped a socket's
//! binding and assigns another port, the next answer has a different origin. A NAT that assigns the same port again is
//! not detected; it does not harm connections, either, as long as the silent end sends first.

use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use longhaul_probe::sockets::{Echo, Error, Pinger};

use super::Finding;

/// Periods of silence to try, in seconds. RFC 4787, REQ-5, requires two minutes and recommends five.
const SILENCES: [u64; 13] = [1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300];
/// Maximum change of the difference between both clocks that is attributed to the same origin. Clock drift and delay
/// variation are far smaller.
const SAME: Duration = Duration::from_secs(60);
/// Number of probes, and time to wait for each answer.
const TRIES: (u32, Duration) = (6, Duration::from_secs(1));
/// Seconds between keep-alives of an idle connection with the default of `--timeout`.
const KEEP_ALIVE: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    Changed,
    Lost,
}

/// Finds the longest silence, of at most `limit`, after which packets still come from the same address and port. Takes as
/// long as `limit`.
pub(crate) fn check(peer: SocketAddr, limit: Duration) -> Result<Finding, Error> {
    let mut silences: Vec<_> = SILENCES.into_iter().filter(|seconds| *seconds < limit.as_secs()).collect();
    silences.push(limit.as_secs().max(1));
    let fate = |seconds| thread::spawn(move || Ok((seconds, fate(peer, Duration::from_secs(seconds))?)));
    let threads: Vec<_> = silences.into_iter().map(fate).collect();
    let fates = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
    Ok(judge(fates.collect::<Result<_, Error>>()?))
}

fn fate(peer: SocketAddr, silence: Duration) -> Result<Fate, Error> {
    let mut pinger = Pinger::connect(peer)?;
    let (tries, patience) = TRIES;
    let size = pinger.smallest();
    let Some(before) = pinger.exchange(size, tries, patience)? else { return Ok(Fate::Lost) };
    thread::sleep(silence);
    let Some(after) = pinger.exchange(size, tries, patience)? else { return Ok(Fate::Lost) };
    let distance = distance(&after).wrapping_sub(distance(&before));
    let change = Duration::from_nanos(distance.min(distance.wrapping_neg()));
    Ok(if change <= SAME { Fate::Kept } else { Fate::Changed })
}

/// Returns the reflector's clock minus that of the socket.
fn distance(echo: &Echo) -> u64 {
    echo.answer.arrived.wrapping_sub(echo.answer.probe.sent)
}

fn judge(mut fates: Vec<(u64, Fate)>) -> Finding {
    const CHECK: &str = "nat-binding";
    fates.sort_unstable_by_key(|(seconds, _)| *seconds);
    let changed = fates.iter().find(|(_, fate)| *fate == Fate::Changed).map(|(seconds, _)| *seconds);
    let before = |limit| fates.iter().rfind(|(seconds, fate)| *seconds < limit && *fate == Fate::Kept);
    let kept = before(changed.unwrap_or(u64::MAX)).map(|(seconds, _)| *seconds);
    match (kept, changed) {
        (None, None) => Finding::unknown(CHECK, "no probe was answered after a silence"),
        (Some(kept), None) => {
            Finding::ok(CHECK, format!("packets come from the same address and port after {kept} s of silence"))
        }
        (kept, Some(changed)) => {
            let found = format!(
                "a NAT gives a socket another address or port after {} to {changed} s of silence; idle connections send \
                 keep-alives every {KEEP_ALIVE} s",
                kept.unwrap_or(0)
            );
            if changed > KEEP_ALIVE {
                return Finding::ok(CHECK, found);
            }
            // Keep-alives are sent after a third of the timeout.
            let timeout = (kept.unwrap_or(1) * 3).max(1);
            Finding::wrong(CHECK, found).mend(format!("longhaul send --timeout {timeout} ..."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn the_lifetime_is_between_the_last_kept_and_the_first_changed_binding() {
        use Fate::{Changed, Kept, Lost};
        for (fates, verdict, part) in [
            (&[(10, Kept), (1, Kept), (5, Lost)][..], Verdict::Ok, "after 10 s"),
            (&[(1, Kept), (2, Changed), (5, Changed)], Verdict::Wrong, "after 1 to 2 s"),
            (&[(1, Changed)], Verdict::Wrong, "after 0 to 1 s"),
            (&[(30, Kept), (45, Changed), (60, Kept)], Verdict::Ok, "after 30 to 45 s"),
            (&[(1, Lost)], Verdict::Unknown, "no probe"),
        ] {
            let finding = judge(fates.to_vec());
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert!(finding.found.contains(part), "{finding:?}");
        }
        let finding = judge(vec![(1, Kept), (2, Kept), (5, Changed)]);
        assert_eq!(finding.command.as_deref(), Some("longhaul send --timeout 6 ..."));
    }
}
