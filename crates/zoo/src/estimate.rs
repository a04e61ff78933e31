//! Estimators of path properties that only algorithms of this crate and experiments use.

pub(crate) mod bandwidth;
mod delivered;
pub(crate) mod eligible_rate;
pub(crate) mod fused_capacity;
pub(crate) mod round_rate;
pub(crate) mod round_rtt;

use longhaul_cc::registry::OptionSpec;

pub(crate) use self::{
    bandwidth::{Bandwidth, BandwidthStart},
    eligible_rate::EligibleRate,
    fused_capacity::FusedCapacity,
    round_rate::RoundRate,
    round_rtt::RoundRtt,
};

/// Option of the algorithms whose minimum RTT does not expire by default. Its unit is seconds, which
/// [`expiry`](longhaul_cc::internal::expiry) converts.
pub(crate) const RTT_MIN_WINDOW: OptionSpec =
    OptionSpec::int("rtt-min-window", 0, 3600, 0, "window of the minimum RTT, s; 0: unlimited");
