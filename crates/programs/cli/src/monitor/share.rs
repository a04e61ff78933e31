//! Initial window of a tunnel that has carried nothing yet: its share of the windows of other tunnels to the same host
//! (ensemble sharing; RFC 9040, section 7).

use super::TunnelGuard;
use crate::sync::lock;
use crate::transport::Snapshot;

/// Number of acknowledged bytes after which the congestion window of a tunnel counts as measured rather than initial.
/// The handshakes take less.
const CARRIED: u64 = 32 << 10;

impl TunnelGuard {
    /// Returns the window with which the tunnel may start, if it has carried nothing yet, but others have.
    pub(crate) fn share(&self) -> Option<u64> {
        let mut state = lock(&self.monitor.state);
        let own = state.tunnels.get_mut(&self.number)?;
        own.probe();
        if has_carried(&own.link) {
            return None;
        }
        let host = own.address.ip();
        let mut others = Vec::new();
        for (number, tunnel) in &mut state.tunnels {
            if *number != self.number && tunnel.address.ip() == host {
                tunnel.probe();
                others.push((&tunnel.link, tunnel.stream.is_some()));
            }
        }
        share(&others)
    }
}

fn has_carried(link: &Snapshot) -> bool {
    link.acked_bytes >= CARRIED
}

/// Divides the sum of the measured windows by the number of tunnels that send, including the new one. The result is at
/// most the largest of these windows, because no tunnel has found more.
fn share(others: &[(&Snapshot, bool)]) -> Option<u64> {
    let busy = others.iter().filter(|(_, busy)| *busy).count() as u64;
    let windows = || others.iter().filter(|(link, _)| has_carried(link)).map(|(link, _)| link.cwnd_bytes);
    let most = windows().max()?;
    let sum = windows().fold(0, u64::saturating_add);
    Some((sum / (busy + 1)).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_tunnels_that_have_carried_something_are_divided() {
        let link = |cwnd_bytes, acked_bytes| Snapshot { cwnd_bytes, acked_bytes, ..Snapshot::default() };
        let (large, small, cold) = (link(120_000, 1 << 20), link(60_000, CARRIED), link(14_480, 5000));
        for (others, expected) in [
            (vec![], None),
            (vec![(&cold, true), (&cold, false)], None),
            // No other tunnel sends: the share is what the best tunnel has found.
            (vec![(&large, false), (&small, false), (&cold, false)], Some(120_000)),
            (vec![(&large, true), (&small, false)], Some(90_000)),
            (vec![(&large, true), (&small, true)], Some(60_000)),
            (vec![(&large, true), (&small, true), (&cold, true)], Some(45_000)),
        ] {
            assert_eq!(share(&others), expected, "{others:?}");
        }
    }
}
