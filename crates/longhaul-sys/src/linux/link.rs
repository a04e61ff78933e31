//! Network interfaces: up, address, MTU.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use super::addr::{RawAddr, array};
use super::syscall::ioctl_interface;

/// The kernel's `struct ifreq`: the interface's name, NUL-terminated, then what the request is about.
#[repr(C, align(8))]
pub(super) struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    value: [u8; 24],
}

const _: () = assert!(size_of::<InterfaceRequest>() >= size_of::<libc::ifreq>());
const _: () = assert!(align_of::<InterfaceRequest>() >= align_of::<libc::ifreq>());

impl InterfaceRequest {
    /// A request about the interface called `name`.
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let mut request = Self { name: [0; libc::IFNAMSIZ], value: [0; 24] };
        let fits = name.len() < libc::IFNAMSIZ && !name.contains('\0');
        match request.name.get_mut(..name.len()) {
            Some(room) if fits => room.copy_from_slice(name.as_bytes()),
            _ => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an interface name"));
            }
        }
        Ok(request)
    }

    /// The name, which the kernel may have completed.
    pub(super) fn name(&self) -> String {
        let len = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(self.name.get(..len).unwrap_or_default()).into_owned()
    }

    /// Puts `value` where the request's argument is.
    pub(super) fn set(&mut self, value: &[u8]) {
        for (to, from) in self.value.iter_mut().zip(value) {
            *to = *from;
        }
    }

    fn flags(&self) -> i16 {
        i16::from_ne_bytes(array(&self.value, 0))
    }
}

/// A network interface of the network namespace in which this handle was made. Changing it needs `CAP_NET_ADMIN`.
#[derive(Debug)]
pub struct Link {
    name: String,
    /// Any socket: the kernel wants one to know which namespace is meant.
    control: UdpSocket,
}

impl Link {
    /// The interface called `name`. Whether it exists shows when it is used.
    ///
    /// # Errors
    /// When no socket can be opened.
    pub fn new(name: &str) -> io::Result<Self> {
        // Port 0 of the unspecified address can be bound in any namespace, even while its loopback is down.
        let control = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        Ok(Self { name: name.to_owned(), control })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number in its namespace.
    ///
    /// # Errors
    /// The system's: no such interface.
    pub fn index(&self) -> io::Result<u32> {
        let request = self.request(libc::SIOCGIFINDEX as u32, &[])?;
        Ok(u32::from_ne_bytes(array(&request.value, 0)))
    }

    /// Switches it on.
    ///
    /// # Errors
    /// The system's: no such interface, not permitted.
    pub fn set_up(&self) -> io::Result<()> {
        let mut request = self.request(libc::SIOCGIFFLAGS as u32, &[])?;
        let flags = request.flags() | libc::IFF_UP as i16;
        request.set(&flags.to_ne_bytes());
        ioctl_interface(self.control.as_fd(), libc::SIOCSIFFLAGS as u32, &mut request)
    }

    /// Sets its MTU in bytes.
    ///
    /// # Errors
    /// The system's: no such interface, not permitted, out of the interface's range.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        self.request(libc::SIOCSIFMTU as u32, &i32::from(mtu).to_ne_bytes())?;
        Ok(())
    }

    /// Sets how many packets its transmit queue holds; for a TUN device, how many wait to be read.
    ///
    /// # Errors
    /// The system's: no such interface, not permitted, out of range.
    pub fn set_queue_len(&self, packets: u32) -> io::Result<()> {
        let packets = i32::try_from(packets).unwrap_or(i32::MAX);
        self.request(libc::SIOCSIFTXQLEN as u32, &packets.to_ne_bytes())?;
        Ok(())
    }

    /// Gives it an IPv4 address, with a prefix of at most 32 bits: once the interface is up, the kernel routes that
    /// network to it. (IPv6 addresses: `ip address`.)
    ///
    /// # Errors
    /// The system's: no such interface, not permitted; `InvalidInput` for a longer prefix.
    pub fn set_address(&self, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mask = match prefix {
            0 => 0,
            1..=32 => u32::MAX << (32 - prefix),
            _ => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "prefix longer than an address"));
            }
        };
        self.request(libc::SIOCSIFADDR as u32, socket_address(address).as_bytes())?;
        self.request(libc::SIOCSIFNETMASK as u32, socket_address(Ipv4Addr::from(mask)).as_bytes())?;
        Ok(())
    }

    fn request(&self, number: u32, value: &[u8]) -> io::Result<InterfaceRequest> {
        let mut request = InterfaceRequest::new(&self.name)?;
        request.set(value);
        ioctl_interface(self.control.as_fd(), number, &mut request)?;
        Ok(request)
    }
}

fn socket_address(address: Ipv4Addr) -> RawAddr {
    RawAddr::encode(SocketAddr::from((address, 0)), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_not_fit_are_refused() {
        assert_eq!(InterfaceRequest::new("fifteen-letters").unwrap().name(), "fifteen-letters");
        assert!(InterfaceRequest::new("sixteen--letters").is_err());
        assert!(InterfaceRequest::new("a\0b").is_err());
    }
}
