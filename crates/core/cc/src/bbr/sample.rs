//! Information from an ACK, in BBR's terms.

use longhaul_units::{Bytes, Span, Time};

use super::app_limit::AppLimit;
use crate::Ack;

/// The draft's rate sample RS and state C of the connection at an ACK; volumes in bytes, rates in bytes/s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) now: Time,
    /// C.delivered.
    pub(super) total_delivered: Bytes,
    /// C.inflight, after this ACK and before it.
    pub(super) in_flight: f64,
    pub(super) prior_in_flight: f64,
    /// RS.newly_acked and RS.newly_lost.
    pub(super) newly_acked: f64,
    pub(super) newly_lost: f64,
    /// RS.delivery_rate; zero without a sample.
    pub(super) bw: f64,
    /// RS.delivered.
    pub(super) delivered: f64,
    /// RS.prior_delivered, if there is a sample.
    pub(super) prior_delivered: Option<Bytes>,
    pub(super) tx_in_flight: f64,
    /// RS.lost.
    pub(super) lost: f64,
    pub(super) app_limited: bool,
    pub(super) rtt: Option<Span>,
    /// C.is_cwnd_limited.
    pub(super) cwnd_limited: bool,
}

impl Sample {
    pub(super) fn of(ack: &Ack<'_>, limit: &AppLimit) -> Self {
        let rate = ack.rate.as_ref();
        let volume = |of: fn(&crate::RateSample) -> Bytes| rate.map_or(0.0, |rate| of(rate).as_f64());
        Self {
            now: ack.now,
            total_delivered: ack.total_delivered,
            in_flight: ack.in_flight.as_f64(),
            prior_in_flight: ack.prior_in_flight.as_f64(),
            newly_acked: ack.delivered.as_f64(),
            newly_lost: ack.newly_lost.as_f64(),
            bw: rate.map_or(0.0, |rate| rate.rate.as_bytes_per_sec() as f64),
            delivered: volume(|rate| rate.delivered),
            prior_delivered: rate.map(|rate| rate.prior_delivered),
            tx_in_flight: volume(|rate| rate.tx_in_flight),
            lost: volume(|rate| rate.lost),
            app_limited: rate.is_some_and(|rate| rate.app_limited || limit.covers(rate.prior_delivered)),
            rtt: ack.rtt.map(|sample| sample.rtt),
            cwnd_limited: ack.cwnd_limited,
        }
    }
}
