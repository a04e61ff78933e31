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

/// An `ioctl(2)` request that reads or writes one `struct ifreq` and follows no pointer in it (netdevice(7)). The type
/// of its number depends on the C library.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum InterfaceCall {
    GetIndex = libc::SIOCGIFINDEX as u32,
    GetFlags = libc::SIOCGIFFLAGS as u32,
    SetFlags = libc::SIOCSIFFLAGS as u32,
    SetMtu = libc::SIOCSIFMTU as u32,
    SetQueueLen = libc::SIOCSIFTXQLEN as u32,
    SetAddress = libc::SIOCSIFADDR as u32,
    SetNetmask = libc::SIOCSIFNETMASK as u32,
    /// Attaches a descriptor of `/dev/net/tun` to an interface.
    SetTun = libc::TUNSETIFF as u32,
}

/// Calls `ioctl(2)` with an interface request, in which the kernel may write its answer.
pub(crate) fn ioctl_interface(
    fd: BorrowedFd<'_>,
    call: InterfaceCall,
    request: &mut InterfaceRequest,
) -> io::Result<()> {
    // SAFETY: `InterfaceRequest` is at least as large and as aligned as the kernel's `struct ifreq`, which is all that an
    // `InterfaceCall` reads or writes. Another descriptor than a socket's or a TUN device's fails with ENOTTY.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), call as u32 as _, ptr::from_mut(request).cast::<c_void>()) })
}

/// Namespaces whose change does not affect memory safety.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(crate) enum Namespace {
    Network = libc::CLONE_NEWNET,
    /// Mount points. The working directory and umask of the thread become private, too.
    Mounts = libc::CLONE_NEWNS,
    /// PIDs of future children of the thread. The first child has PID 1 in the namespace.
    ProcessesOfChildren = libc::CLONE_NEWPID,
}

/// Moves the calling thread to a new namespace by `unshare(2)`.
pub(crate) fn unshare(namespace: Namespace) -> io::Result<()> {
    // SAFETY: no pointers; only a namespace of this thread changes, and not its table of file descriptors.
    check(unsafe { libc::unshare(namespace as c_int) })
}
