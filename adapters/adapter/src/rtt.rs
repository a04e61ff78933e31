//! Round-trip times (RFC 6298), from the samples that the controllers receive. The stack's own estimates are updated
//! one ACK too late.

use longhaul_cc::Path;
use longhaul_units::{Bytes, Span};

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
