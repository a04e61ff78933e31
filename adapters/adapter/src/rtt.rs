//! Round-trip times (RFC 6298), from the samples that the controllers receive. The stack's own estimates are updated
//! one ACK too late.

use longhaul_cc::Path;
use longhaul_units::{Bytes, Span, Time};

/// Margin of the RTO above the smoothed RTT, as in longhaul-tcp.
const MIN_MARGIN: Span = Span::from_millis(200);

/// Adds a sample to `path`. With several samples per round trip, the gains are divided by their number (RFC 7323, appendix
/// G).
pub(crate) fn observe(path: &mut Path, rtt: Span, flight: Bytes) {
    path.latest_rtt = Some(rtt);
    path.min_rtt = Some(path.min_rtt.map_or(rtt, |min| min.min(rtt)));
    let Some(srtt) = path.srtt else {
        (path.srtt, path.rttvar) = (Some(rtt), rtt / 2);
        return;
    };
    let expected = flight.0.div_ceil(path.mss.0.max(1).saturating_mul(2)).max(1) as f64;
    let (alpha, beta) = (0.125 / expected, 0.25 / expected);
    let deviation = if srtt > rtt { srtt - rtt } else { rtt - srtt };
    path.rttvar = path.rttvar.mul_f64(1.0 - beta) + deviation.mul_f64(beta);
    path.srtt = Some(srtt.mul_f64(1.0 - alpha) + rtt.mul_f64(alpha));
}

/// Returns the time without transmissions after which the window may no longer fit the path.
pub(crate) fn rto(path: &Path) -> Span {
    let longest = path.srtt.unwrap_or(Span::from_secs(1)).max(path.latest_rtt.unwrap_or(Span::ZERO));
    longest + (path.rttvar * 4).max(MIN_MARGIN)
}

/// Longest delay of an ACK: the default `max_ack_delay` (RFC 9000, section 18.2), and 5 ms of late timers.
const DELAY: Span = Span::from_millis(30);

/// The newest RTT without a delay of the peer. Receivers delay ACKs of a single packet (RFC 9000, section 13.2.2), and
/// stacks report the delay only after the callbacks for the ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undelayed(Option<(Time, Span)>);

impl Undelayed {
    /// Returns the sample `rtt` of an ACK of this number of packets, 0 if unknown, or the newest one of several packets in
    /// its place if that is at most one round trip old and shorter by a possible delay.
    pub(crate) fn sample(&mut self, now: Time, rtt: Span, packets: u32) -> Span {
        match self.0 {
            Some((at, last)) if packets == 1 && now.since(at) <= rtt && rtt <= last + DELAY => rtt.min(last),
            _ => {
                self.0 = (packets > 1).then_some((now, rtt)).or(self.0);
                rtt
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_of_single_packets_may_be_delayed() {
        let mut undelayed = Undelayed::default();
        // Times, samples and numbers of packets, and what the controller sees.
        let acks = [
            (0, 80, 1, 80),
            (10, 65, 2, 65),
            (50, 91, 1, 65),
            (60, 64, 1, 64),
            (61, 96, 1, 96),
            (70, 91, 2, 91),
            (90, 65, 2, 65),
            (181, 90, 1, 90),
            (182, 65, 2, 65),
            (183, 90, 0, 90),
            (184, 90, 1, 65),
        ];
        for (at, rtt, packets, seen) in acks {
            let now = Time::ZERO + Span::from_millis(at);
            assert_eq!(undelayed.sample(now, Span::from_millis(rtt), packets), Span::from_millis(seen), "{at}");
        }
    }
}
