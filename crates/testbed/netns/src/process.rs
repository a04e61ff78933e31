//! PID and mount namespaces, and termination of processes.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, wait};

use crate::syscall::{Namespace, unshare};

/// Creates a PID namespace for the children of the calling thread, which cannot start threads afterwards. Needs
/// `CAP_SYS_ADMIN`.
///
/// The first process started by the thread has PID 1 in the namespace. When that process ends for any reason, the
/// kernel kills all other processes in the namespace, including daemons in their own sessions.
pub fn own_processes() -> io::Result<()> {
    unshare(Namespace::ProcessesOfChildren)
}

/// Makes the kernel kill this process (`SIGKILL`) when the thread that started it ends. If that thread has already
/// ended, this has no effect, so callers should check their parent's PID afterwards.
pub fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Moves the calling thread and its future children to a new mount namespace, and mounts the file systems `fresh`
/// (pairs of type and directory, such as `proc` and `/proc`) in it. Needs `CAP_SYS_ADMIN`.
pub fn own_mounts(fresh: &[(&str, &str)]) -> io::Result<()> {
    unshare(Namespace::Mounts)?;
    // Later mounts do not propagate to the parent namespace.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    fresh.iter().try_for_each(|(kind, target)| Ok(mount(*kind, *target, *kind, flags, None)?))
}

/// Sends `SIGTERM` to a process.
///
/// # Errors
/// Returns the system's error if the process does not exist or this is not permitted, and `InvalidInput` if `process`
/// is not a valid PID.
pub fn terminate(process: u32) -> io::Result<()> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let process = process.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a process ID"))?;
    Ok(kill_process(process, Signal::TERM)?)
}

/// Waits until any child process ends, including adopted ones. Returns its PID and exit status.
pub fn wait_any() -> io::Result<(u32, ExitStatus)> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((process, status))) => {
                return Ok((process.as_raw_pid().cast_unsigned(), ExitStatus::from_raw(status.as_raw())));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
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
