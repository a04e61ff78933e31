//! Information from an ACK, in BBR's terms.

use longhaul_units::{Bytes, Span, Time};

use super::app_limit::AppLimit;
use crate::Ack;

/// The draft's rate sample RS and state C of the connection at an ACK; volumes in bytes, rates in bytes/s.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sample {
    pub now: Time,
    /// C.delivered.
    pub total_delivered: Bytes,
    /// C.inflight, after this ACK and before it.
    pub in_flight: f64,
    pub prior_in_flight: f64,
    /// RS.newly_acked and RS.newly_lost.
    pub newly_acked: f64,
    pub newly_lost: f64,
    /// RS.delivery_rate; zero without a sample.
    pub bw: f64,
    /// RS.delivered.
    pub delivered: f64,
    /// RS.prior_delivered, if there is a sample.
    pub prior_delivered: Option<Bytes>,
    pub tx_in_flight: f64,
    /// RS.lost.
    pub lost: f64,
    pub app_limited: bool,
    pub rtt: Option<Span>,
    /// `C.is_cwnd_limited`.
    pub cwnd_limited: bool,
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
