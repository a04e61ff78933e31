//! Processes that leave nothing behind: namespaces of processes and mounts, and who dies with whom.

use std::ffi::CString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::syscall::{
    detach_mounts, kill, mount, schedule_first, set_parent_death_signal, unshare_mounts, unshare_processes,
    wait_any as wait,
};

/// A PID namespace that the calling thread has made for its children.
///
/// The first process that the thread starts is number 1 in there. When that one ends, by whatever cause, the kernel
/// kills all others: those that fork away and make sessions of their own too.
#[derive(Debug)]
#[non_exhaustive]
pub struct Processes;

impl Processes {
    /// Makes the namespace. The calling thread can start no more threads from now on. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The system's: not permitted, too many namespaces.
    pub fn for_children() -> io::Result<Self> {
        unshare_processes()?;
        Ok(Self)
    }
}

/// The kernel kills this process (`SIGKILL`) when the thread that started it ends. If that has ended already, nothing
/// happens: ask for the parent afterwards.
///
/// # Errors
/// None that is known.
pub fn die_with_parent() -> io::Result<()> {
    set_parent_death_signal(libc::SIGKILL)
}

/// The calling thread and its children see mounts of their own from now on, with these file systems (such as `proc` at
/// `/proc`) mounted freshly, as those of their namespaces. Needs `CAP_SYS_ADMIN`.
///
/// # Errors
/// The system's: not permitted, no such directory.
pub fn own_mounts(fresh: &[(&str, &str)]) -> io::Result<()> {
    unshare_mounts()?;
    detach_mounts()?;
    fresh.iter().try_for_each(|(kind, target)| mount(&CString::new(*kind)?, &CString::new(*target)?))
}

/// The calling thread runs whenever it can from now on, before all threads of ordinary priority, as far as the system's
/// bound for such threads allows (19 of 20 on Linux). For one that keeps a time and is idle for most of it. Needs
/// `CAP_SYS_NICE` or an `RLIMIT_RTPRIO`.
///
/// # Errors
/// The system's: not permitted.
pub fn run_first() -> io::Result<()> {
    schedule_first()
}

/// Asks a process to end (`SIGTERM`).
///
/// # Errors
/// The system's: no such process, not permitted; `InvalidInput` if that is no number of a process.
pub fn terminate(process: u32) -> io::Result<()> {
    match libc::pid_t::try_from(process) {
        Ok(process) if process > 0 => kill(process, libc::SIGTERM),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a process")),
    }
}

/// Waits until some child of this process ends, an adopted one maybe, and says which and how.
///
/// # Errors
/// The system's: there are no children.
pub fn wait_any() -> io::Result<(u32, ExitStatus)> {
    let (process, status) = wait()?;
    Ok((u32::try_from(process).unwrap_or(0), ExitStatus::from_raw(status)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_one_process_is_asked_to_end() {
        // Zero and negative numbers would be whole groups.
        for process in [0, u32::MAX] {
            assert_eq!(terminate(process).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        terminate(child.id()).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }
}
