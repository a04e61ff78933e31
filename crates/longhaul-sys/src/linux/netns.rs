//! Network namespaces.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use super::link::Link;
use super::syscall::{bind_mount, set_network, unmount, unshare_network};

/// The namespace of the thread that opens it.
pub(super) const OWN: &str = "/proc/thread-self/ns/net";
/// Where `ip netns` looks.
const NAMED: &str = "/run/netns";

/// A network namespace. An anonymous one vanishes with the last handle, thread, process and socket in it.
#[derive(Debug)]
pub struct NetNs {
    file: File,
}

impl NetNs {
    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn current() -> io::Result<Self> {
        Ok(Self { file: File::open(OWN)? })
    }

    /// The namespace that [`create`](Self::create) or `ip netns add` gave that name.
    ///
    /// # Errors
    /// The system's: no such namespace; `InvalidInput` when it is no plain name.
    pub fn open(name: &str) -> io::Result<Self> {
        Ok(Self { file: File::open(path(name)?)? })
    }

    /// A new anonymous namespace with its loopback interface up. The calling thread stays where it is. Needs
    /// `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The system's: not permitted, too many namespaces.
    pub fn anonymous() -> io::Result<Self> {
        in_thread(new_namespace)
    }

    /// As [`anonymous`](Self::anonymous), with a name for [`open`](Self::open) and for `ip -n NAME`, which holds it
    /// until [`delete`](Self::delete).
    ///
    /// # Errors
    /// The system's: not permitted, the name exists; `InvalidInput` when it is no plain name.
    pub fn create(name: &str) -> io::Result<Self> {
        let path = path(name)?;
        fs::create_dir_all(NAMED)?;
        File::create_new(&path)?;
        let target = c_path(&path)?;
        let created = in_thread(|| {
            let namespace = new_namespace()?;
            bind_mount(&CString::new(OWN)?, &target)?;
            Ok(namespace)
        });
        if created.is_err() {
            // The error that matters is the first.
            let _ = fs::remove_file(&path);
        }
        created
    }

    /// Takes the name away; the namespace lives on while it is used.
    ///
    /// # Errors
    /// The system's: no such namespace, not permitted; `InvalidInput` when it is no plain name.
    pub fn delete(name: &str) -> io::Result<()> {
        let path = path(name)?;
        unmount(&c_path(&path)?)?;
        fs::remove_file(path)
    }

    /// Moves the calling thread into the namespace: sockets, devices and child processes it makes from now on are
    /// there. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The system's: not permitted.
    pub fn enter(&self) -> io::Result<()> {
        set_network(self.file.as_fd())
    }

    /// Runs `work` in the namespace, on a thread of its own, and waits for it. A panic of `work` is passed on.
    ///
    /// # Errors
    /// The system's: not permitted, no more threads.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> io::Result<R> {
        in_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }
}

fn new_namespace() -> io::Result<NetNs> {
    unshare_network()?;
    Link::new("lo")?.set_up()?;
    NetNs::current()
}

/// A thread that changes its namespace must not be anyone else's.
fn in_thread<R: Send>(work: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn path(name: &str) -> io::Result<PathBuf> {
    let plain = !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
    if !plain {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a namespace name"));
    }
    Ok(Path::new(NAMED).join(name))
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_encoded_bytes())?)
}
