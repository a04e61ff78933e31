//! Liveness of the peer: time of the last arrival, keep-alive probes, host errors and the user timeout.

use longhaul_units::Time;

use super::host_errors::HostErrors;
use super::user_timeout::UserTimeout;
use crate::config::Config;

#[derive(Debug)]
pub(super) struct Liveness {
    /// When the last acceptable segment arrived.
    pub(super) last_heard: Time,
    /// Keep-alive probes sent since then.
    pub(super) keep_alive_probes: u32,
    pub(super) host_errors: HostErrors,
    pub(super) user_timeout: UserTimeout,
    /// The time since which data has been outstanding without progress; the user timeout counts from here.
    pub(super) stalled_since: Option<Time>,
}

impl Liveness {
    pub(super) fn new(config: &Config, now: Time) -> Self {
        Self {
            last_heard: now,
            keep_alive_probes: 0,
            host_errors: HostErrors::default(),
            user_timeout: UserTimeout::new(config),
            stalled_since: None,
        }
    }
}
