//! PID and mount namespaces, and termination of processes.

use std::ffi::CString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::syscall::{
    detach_mounts, kill, mount, schedule_first, set_parent_death_signal, unshare_mounts, unshare_processes,
    wait_any as wait,
};

/// PID namespace for the children of the thread that creates it.
///
/// The first process started by the thread has PID 1 in the namespace. When that process ends for any reason, the
/// kernel kills all other processes in the namespace, including daemons in their own sessions.
#[derive(Debug)]
#[non_exhaustive]
pub struct Processes;

impl Processes {
    /// Creates the namespace. The calling thread cannot start threads afterwards. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// Returns the system's error if this is not permitted or there are too many namespaces.
    pub fn for_children() -> io::Result<Self> {
        unshare_processes()?;
        Ok(Self)
    }
}

/// Has the kernel kill this process (`SIGKILL`) when the thread that started it ends. If that thread has ended already,
/// this has no effect, so callers should check their parent's PID afterwards.
///
/// # Errors
/// Returns the system's error; none is known.
pub fn die_with_parent() -> io::Result<()> {
    set_parent_death_signal(libc::SIGKILL)
}

/// Moves the calling thread and its future children to a new mount namespace, in which the file systems `fresh` (pairs
/// of type and directory, such as `proc` and `/proc`) are mounted anew. Needs `CAP_SYS_ADMIN`.
///
/// # Errors
/// Returns the system's error if this is not permitted or a directory does not exist.
pub fn own_mounts(fresh: &[(&str, &str)]) -> io::Result<()> {
    unshare_mounts()?;
    detach_mounts()?;
    fresh.iter().try_for_each(|(kind, target)| mount(&CString::new(*kind)?, &CString::new(*target)?))
}

/// Gives the calling thread real-time priority (`SCHED_RR`), so that it runs before all threads of ordinary priority.
/// It is meant for a thread that must wake up on time and is mostly idle. Linux limits real-time threads to 95 % of CPU
/// time by default. Needs `CAP_SYS_NICE` or an `RLIMIT_RTPRIO`.
///
/// # Errors
/// Returns the system's error if this is not permitted.
pub fn run_first() -> io::Result<()> {
    schedule_first()
}

/// Sends `SIGTERM` to a process.
///
/// # Errors
/// Returns the system's error if the process does not exist or this is not permitted, and `InvalidInput` if `process`
/// is not a valid PID.
pub fn terminate(process: u32) -> io::Result<()> {
    match libc::pid_t::try_from(process) {
        Ok(process) if process > 0 => kill(process, libc::SIGTERM),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a process ID")),
    }
}

/// Waits until any child of this process, which may be an adopted one, ends. Returns its PID and exit status.
///
/// # Errors
/// Returns the system's error if there are no children.
pub fn wait_any() -> io::Result<(u32, ExitStatus)> {
    let (process, status) = wait()?;
    Ok((u32::try_from(process).unwrap_or(0), ExitStatus::from_raw(status)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn terminate_signals_a_single_process() {
        // Zero and negative numbers would signal process groups.
        for process in [0, u32::MAX] {
            assert_eq!(terminate(process).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        terminate(child.id()).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }
}
