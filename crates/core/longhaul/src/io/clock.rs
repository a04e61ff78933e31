//! The clock shared by all sockets of both implementations.

use std::time::Duration;

use longhaul_sys::clock::ClockPair;
use longhaul_units::Time;

pub(super) fn now() -> Time {
    Time::from_nanos(imp::monotonic())
}

/// Returns the times of the monotonic and the wall clock at the same moment.
pub(super) fn pair() -> ClockPair {
    imp::pair()
}

/// Returns when tokio's timer has to fire to wait for `wait`. A deadline that tokio cannot represent is too late to
/// matter.
#[expect(clippy::disallowed_methods, reason = "this is the driver's timer")]
pub(super) fn tokio_after(wait: Duration) -> Option<tokio::time::Instant> {
    tokio::time::Instant::now().checked_add(wait)
}

#[cfg(target_os = "linux")]
mod imp {
    pub(super) use longhaul_sys::linux::{clock_pair as pair, monotonic_now as monotonic};
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::sync::OnceLock;
    use std::time::{Instant, SystemTime};

    use longhaul_sys::clock::ClockPair;

    #[expect(clippy::disallowed_methods, reason = "this is the driver's clock")]
    pub(super) fn monotonic() -> u64 {
        static EPOCH: OnceLock<Instant> = OnceLock::new();
        u64::try_from(EPOCH.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the driver's clock")]
    pub(super) fn pair() -> ClockPair {
        let realtime = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        ClockPair { monotonic: monotonic(), realtime }
    }
}
