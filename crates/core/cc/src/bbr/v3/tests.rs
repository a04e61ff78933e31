use longhaul_units::{Bytes, Time};

use super::congestion::inflight_at_loss;
use super::*;

const MSS: Bytes = Bytes(1000);

/// The bound after a lossy round is the delivered amount, but at least 0.7 of the previous bound.
#[test]
fn a_lossy_round_keeps_what_was_delivered_or_seven_tenths() {
    let bounds = |latest_bw: f64, latest_inflight: f64, exact: bool| {
        let mut bbr = Bbr::new("bbr".to_owned(), exact, &BuildParams::default());
        (bbr.state, bbr.base.filled, bbr.base.cwnd) = (State::Cruise, true, 200_000.0);
        bbr.max_bw.add(1e6);
        let mut sample = sample(Time::from_nanos(1), Bytes(1000));
        (sample.bw, sample.delivered) = (latest_bw, latest_inflight);
        bbr.latest.observe(&sample);
        bbr.latest.loss = true;
        bbr.adapt_lower_bounds();
        (bbr.short_term.bw, bbr.short_term.inflight)
    };
    assert_eq!(bounds(0.8e6, 150_000.0, true), (0.8e6, 150_000.0));
    assert_eq!(bounds(0.5e6, 100_000.0, true), (0.7e6, 140_000.0));
    // Data that arrives at 0.99 of the bandwidth was sent at 0.99 of it.
    assert_eq!(bounds(0.99e6, 198_000.0, false), (1e6, 200_000.0));
    assert_eq!(bounds(0.5e6, 100_000.0, false), (0.7e6, 140_000.0));
}

fn sample(now: Time, delivered: Bytes) -> Sample {
    Sample {
        now,
        total_delivered: delivered,
        in_flight: 0.0,
        prior_in_flight: 0.0,
        newly_acked: 0.0,
        newly_lost: 0.0,
        bw: 0.0,
        delivered: 0.0,
        prior_delivered: Some(delivered),
        tx_in_flight: 0.0,
        lost: 0.0,
        app_limited: false,
        rtt: None,
        cwnd_limited: false,
    }
}

/// (lost_before + prefix) / (flight_before + prefix) = 2 %. There are 100 bytes in flight, of which the last burst
/// has 10. One was lost before and all ten are lost now, so 0.8/0.98 of the burst could have been in flight.
#[test]
fn the_flight_at_which_loss_crossed_the_threshold() {
    let at = inflight_at_loss(10.0, 100.0, 11.0);
    let prefix = at - 90.0;
    assert!(((1.0 + prefix) / (90.0 + prefix) - 0.02).abs() < 1e-12, "{at}");
    assert!((prefix - 0.8 / 0.98).abs() < 1e-12);
}

/// With the long-term bound L, Cruise leaves 15 % of it to other flows, at least one segment, and keeps at least
/// four.
#[test]
fn headroom_is_15_percent() {
    let mut bbr = Bbr::new("bbr".to_owned(), false, &BuildParams::default());
    bbr.base.mss = MSS;
    assert_eq!(bbr.inflight_with_headroom(), f64::INFINITY);
    for (bound, expected) in [(100_000.0, 85_000.0), (6_000.0, 5_000.0), (4_500.0, 4_000.0)] {
        bbr.long_term = bound;
        assert_eq!(bbr.inflight_with_headroom(), expected);
    }
}
