//! Serialisation of snapshots: durations as seconds, states and errors by name.

use std::fmt::Display;
use std::time::Duration;

use longhaul_tcp::HostError;
use serde::{Serialize, Serializer};

use super::LimitedBy;

/// A duration that may be unknown.
pub(super) trait Seconds {
    /// Returns the duration in seconds, if it is known.
    fn seconds(&self) -> Option<f64>;
}

impl Seconds for Duration {
    fn seconds(&self) -> Option<f64> {
        Some(self.as_secs_f64())
    }
}

impl Seconds for Option<Duration> {
    fn seconds(&self) -> Option<f64> {
        self.map(|duration| duration.as_secs_f64())
    }
}

pub(super) fn seconds<S: Serializer>(duration: &impl Seconds, serializer: S) -> Result<S::Ok, S::Error> {
    duration.seconds().serialize(serializer)
}

pub(super) fn name<S: Serializer>(error: &Option<HostError>, serializer: S) -> Result<S::Ok, S::Error> {
    error.map(HostError::name).serialize(serializer)
}

pub(super) fn text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(super) fn optional_text<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(T::to_string).serialize(serializer)
}

impl Serialize for LimitedBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields().map(|(limit, time)| (limit.name(), time.as_secs_f64())))
    }
}
