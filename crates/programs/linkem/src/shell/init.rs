//! First process of the PID namespace: starts the command, reaps orphaned processes, and terminates all others when
//! it ends.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;

use longhaul_netns::{die_with_parent, own_mounts, terminate, wait_any};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Grace period of the command after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// Exit codes for signals, as in shells: 128 plus the signal's number.
const SIGNALLED: i32 = 128;
const SIGTERM: i32 = 15;

/// Runs a command as the first process of its namespace, on behalf of the process `parent`.
pub fn init(parent: u32, command: &[OsString]) -> ExitCode {
    match run(parent, command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let name = command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let _ = writeln!(io::stderr(), "longhaul-linkem: {name}: {error}");
            ExitCode::from(match error.kind() {
                ErrorKind::NotFound => 127,
                ErrorKind::PermissionDenied => 126,
                _ => 2,
            })
        }
    }
}

fn run(parent: u32, command: &[OsString]) -> io::Result<u8> {
    die_with_parent()?;
    if parent_now()? != Some(parent) {
        return Err(io::Error::other("the parent process is gone"));
    }
    // New mounts let `ps`, `ip` and `ethtool` see the namespace. Everything else works without them.
    if let Err(error) = own_mounts(&[("proc", "/proc"), ("sysfs", "/sys")]) {
        let _ = writeln!(io::stderr(), "longhaul-linkem: /proc and /sys show the outside: {error}");
    }
    let (name, arguments) = command.split_first().ok_or(ErrorKind::InvalidInput)?;
    let (started, start) = oneshot::channel();
    // Install the signal handler first, so that signals are not lost before the command has started.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let terminated = {
        let _context = runtime.enter();
        signal(SignalKind::terminate())?
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(pass_on(terminated, start)))?;
    let child = Command::new(name).args(arguments).spawn()?.id();
    // Ignore errors: the receiver exists as long as this process.
    let _ = started.send(child);
    loop {
        let (ended, status) = wait_any()?;
        if ended == child {
            return Ok(code(status));
        }
    }
}

/// Forwards SIGTERM to the command, and exits if the command does not end in time.
async fn pass_on(mut terminated: Signal, start: oneshot::Receiver<u32>) {
    let Ok(child) = start.await else { return };
    terminated.recv().await;
    // Ignore errors: the command may just have ended.
    let _ = terminate(child);
    tokio::time::sleep(GRACE).await;
    process::exit(SIGNALLED + SIGTERM);
}

/// Returns this process's parent, by its process ID outside the namespace.
fn parent_now() -> io::Result<Option<u32>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    Ok(parent.and_then(|parent| parent.trim().parse().ok()))
}

pub(super) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| SIGNALLED + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_shells() {
        let codes = [0, 3 << 8, 255 << 8, 9, 15].map(|raw| code(ExitStatus::from_raw(raw)));
        assert_eq!(codes, [0, 3, 255, 137, 143]);
    }

    #[test]
    fn the_parent_is_found() {
        let expected = std::os::unix::process::parent_id();
        assert_eq!(parent_now().unwrap(), Some(expected));
    }
}
