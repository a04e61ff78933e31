//! Priority of threads.

use std::io;

use super::syscall::schedule_first;

/// Gives the calling thread real-time priority (`SCHED_RR`), so that it runs before all threads of ordinary priority.
/// Use this for a thread that must wake up on time and is mostly idle. By default, Linux limits real-time threads to 95
/// % of CPU time. Needs `CAP_SYS_NICE` or an `RLIMIT_RTPRIO`.
///
/// # Errors
/// Returns the system's error if this is not permitted.
pub fn run_first() -> io::Result<()> {
    schedule_first()
}
