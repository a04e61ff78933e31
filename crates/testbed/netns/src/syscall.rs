//! Safe wrappers of system calls. This is the only unsafe code of the crate.
#![expect(unsafe_code, reason = "system calls that the standard library does not wrap")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_int, c_void};

use crate::link::InterfaceRequest;

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An `ioctl(2)` request that reads or writes one `struct ifreq` and follows no pointer in it (netdevice(7)).
#[derive(Clone, Copy, Debug)]
pub(crate) enum InterfaceCall {
    GetIndex,
    GetFlags,
    SetFlags,
    SetMtu,
    SetQueueLen,
    SetAddress,
    SetNetmask,
    /// Attaches a descriptor of `/dev/net/tun` to an interface.
    SetTun,
}

impl InterfaceCall {
    /// Returns the request number, whose type depends on the C library.
    const fn number(self) -> u32 {
        match self {
            Self::GetIndex => libc::SIOCGIFINDEX as u32,
            Self::GetFlags => libc::SIOCGIFFLAGS as u32,
            Self::SetFlags => libc::SIOCSIFFLAGS as u32,
            Self::SetMtu => libc::SIOCSIFMTU as u32,
            Self::SetQueueLen => libc::SIOCSIFTXQLEN as u32,
            Self::SetAddress => libc::SIOCSIFADDR as u32,
            Self::SetNetmask => libc::SIOCSIFNETMASK as u32,
            Self::SetTun => libc::TUNSETIFF as u32,
        }
    }
}

/// Calls `ioctl(2)` with an interface request, in which the kernel may write its answer.
pub(crate) fn ioctl_interface(
    fd: BorrowedFd<'_>,
    call: InterfaceCall,
    request: &mut InterfaceRequest,
) -> io::Result<()> {
    // SAFETY: `InterfaceRequest` is at least as large and as aligned as the kernel's `struct ifreq`, which is all that an
    // `InterfaceCall` reads or writes. Another descriptor than a socket's or a TUN device's fails with ENOTTY.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), call.number() as _, ptr::from_mut(request).cast::<c_void>()) })
}

/// Namespaces whose change does not affect memory safety.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Namespace {
    Network,
    /// Mount points. The working directory and umask of the thread become private, too.
    Mounts,
    /// PIDs of future children of the thread. The first child has PID 1 in the namespace.
    ProcessesOfChildren,
}

/// Moves the calling thread to a new namespace by `unshare(2)`.
pub(crate) fn unshare(namespace: Namespace) -> io::Result<()> {
    let flags = match namespace {
        Namespace::Network => libc::CLONE_NEWNET,
        Namespace::Mounts => libc::CLONE_NEWNS,
        Namespace::ProcessesOfChildren => libc::CLONE_NEWPID,
    };
    // SAFETY: no pointers; only a namespace of this thread changes, and not its table of file descriptors.
    check(unsafe { libc::unshare(flags) })
}
