//! TUN devices: network interfaces whose packets a program reads and writes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use super::link::{InterfaceRequest, Link};
use super::syscall::ioctl_interface;

/// A TUN device of the network namespace in which it was opened: reads and writes are bare IP packets. It vanishes when
/// this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    link: Link,
}

impl Tun {
    /// Creates the device, or attaches to a persistent one of that name. An empty name, or one with a `%d` in it,
    /// lets the kernel choose. Needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The system's: no TUN support, not permitted, name taken; `InvalidInput` for a name above 15 bytes.
    pub fn open(name: &str) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        let mut request = InterfaceRequest::new(name)?;
        let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
        request.set(&flags.to_ne_bytes());
        ioctl_interface(file.as_fd(), libc::TUNSETIFF as u32, &mut request)?;
        let link = Link::new(&request.name())?;
        Ok(Self { file, link })
    }

    /// The interface, to give it an address and switch it on.
    #[must_use]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Reads one packet; one that is longer than `packet` is cut.
    ///
    /// # Errors
    /// The system's: `WouldBlock` when there is none; `EIO` (no [`std::io::ErrorKind`]) while the device is down.
    pub fn read(&self, packet: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(packet)
    }

    /// Writes one packet, whole.
    ///
    /// # Errors
    /// The system's: `EINVAL` for what is not an IP packet; `EIO` while the device is down.
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
