//! The transport's RTT estimator for simulated senders in tests, in which SRTT lags behind the samples as on a real
//! connection.

use longhaul_units::{Bytes, Span};

use longhaul_cc::Path;

/// Adds a sample of `rtt` to `path`, with `flight` unacknowledged bytes. SRTT and RTTVAR follow RFC 6298, sections
/// 2.2 and 2.3, with the gains divided by the number of samples per round trip (RFC 7323, appendix G). SRTT thus
/// takes about eight round trips to follow, independently of the number of ACKs.
pub fn observe(path: &mut Path, rtt: Span, flight: Bytes) {
    path.latest_rtt = Some(rtt);
    path.min_rtt = Some(path.min_rtt.map_or(rtt, |min| min.min(rtt)));
    let Some(srtt) = path.srtt else {
        (path.srtt, path.rttvar) = (Some(rtt), rtt / 2);
        return;
    };
    // ExpectedSamples = ceil(FlightSize / (SMSS * 2)).
    let expected = flight.0.div_ceil(path.mss.0.max(1).saturating_mul(2)).max(1) as f64;
    let (alpha, beta) = (1.0 / 8.0 / expected, 1.0 / 4.0 / expected);
    let deviation = if srtt > rtt { srtt - rtt } else { rtt - srtt };
    path.rttvar = path.rttvar.mul_f64(1.0 - beta) + deviation.mul_f64(beta);
    path.srtt = Some(srtt.mul_f64(1.0 - alpha) + rtt.mul_f64(alpha));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a step, the fraction (1 - 1/(8 k))^(k n) of it remains n round trips of k samples later, which is 7/8 to
    /// exp(-1/8) per round trip for any number of samples (RFC 7323, appendix G).
    #[test]
    fn srtt_lags_by_round_trips() {
        for segments in [2, 20, 2000] {
            let mss = Bytes(1000);
            let mut path = Path::new(mss);
            observe(&mut path, Span::from_millis(100), mss * segments);
            for round in 1..=8 {
                for _ in 0..segments / 2 {
                    observe(&mut path, Span::from_millis(200), mss * segments);
                }
                let left = (0.2 - path.srtt.expect("a sample").as_secs_f64()) / 0.1;
                let samples = segments as f64 / 2.0;
                let expected = (1.0 - 0.125 / samples).powf(samples * f64::from(round));
                assert!((left - expected).abs() < 1e-4, "{segments} segments, round {round}: {left}, not {expected}");
            }
            assert_eq!((path.latest_rtt, path.min_rtt), (Some(Span::from_millis(200)), Some(Span::from_millis(100))));
        }
    }
}
