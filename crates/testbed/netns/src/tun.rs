//! TUN devices: network interfaces whose packets are read and written by a program.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::link::{InterfaceRequest, Link};
use crate::syscall::{InterfaceCall, ioctl_interface};

/// TUN device in the network namespace in which it was opened. Each read or write is an IP packet without a link-layer
/// header. The kernel removes the device when this is dropped, unless it is persistent.
#[derive(Debug)]
pub struct Tun {
    file: File,
    link: Link,
}

impl Tun {
    /// Creates the device, or attaches to a persistent device of that name. If the name is empty or contains `%d`, the
    /// kernel chooses the number or the whole name. Needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// Returns the system's error if TUN is not supported, this is not permitted, or the name is in use, and
    /// `InvalidInput` for a name of more than 15 bytes.
    pub fn open(name: &str) -> io::Result<Self> {
        Self::open_with(name, 0)
    }

    /// Opens the device as [`open`](Self::open) does, and makes the kernel coalesce packets that are written to the
    /// device, as the driver of a network card does (receive offload; since Linux 4.15). [`Link::set_receive_hold`]
    /// sets the time.
    ///
    /// # Errors
    /// Returns the same errors, and `InvalidInput` if the kernel is too old.
    pub fn open_merging(name: &str) -> io::Result<Self> {
        Self::open_with(name, libc::IFF_NAPI)
    }

    fn open_with(name: &str, more: libc::c_int) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        let mut request = InterfaceRequest::new(name)?;
        let flags = (libc::IFF_TUN | libc::IFF_NO_PI | more) as i16;
        request.set(&flags.to_ne_bytes());
        ioctl_interface(file.as_fd(), InterfaceCall::SetTun, &mut request)?;
        let link = Link::new(&request.name())?;
        Ok(Self { file, link })
    }

    /// Returns the interface, for setting its address and setting it up.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Reads one packet and returns its length. A packet longer than `packet` is truncated.
    ///
    /// # Errors
    /// Returns the system's error: `WouldBlock` if there is no packet, and `EIO` (which has no [`std::io::ErrorKind`])
    /// while the device is down.
    pub fn read(&self, packet: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(packet)
    }

    /// Writes one packet.
    ///
    /// # Errors
    /// Returns the system's error: `EINVAL` if `packet` is not an IP packet, and `EIO` while the device is down.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(|_| ())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
