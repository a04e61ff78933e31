//! Configuration of network interfaces.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::syscall::{InterfaceCall, ioctl_interface};

/// The kernel's `struct ifreq`: the NUL-terminated name of the interface, and the argument or result.
#[repr(C, align(8))]
pub(crate) struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    value: [u8; 24],
}

const _: () = assert!(size_of::<InterfaceRequest>() >= size_of::<libc::ifreq>());
const _: () = assert!(align_of::<InterfaceRequest>() >= align_of::<libc::ifreq>());

impl InterfaceRequest {
    /// Creates a request for the interface `name`. Fails if the name is too long for the kernel.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
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

    /// Returns the name. The kernel replaces a pattern such as `tun%d` by the name of the interface that it created.
    pub(crate) fn name(&self) -> String {
        let len = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(self.name.get(..len).unwrap_or_default()).into_owned()
    }

    pub(crate) fn set(&mut self, value: &[u8]) {
        for (to, from) in self.value.iter_mut().zip(value) {
            *to = *from;
        }
    }

    fn flags(&self) -> i16 {
        i16::from_ne_bytes([self.value[0], self.value[1]])
    }
}

/// Network interface in the network namespace in which this handle was created. Changes need `CAP_NET_ADMIN`.
#[derive(Debug)]
pub struct Link {
    name: String,
    /// Socket that selects the network namespace of the requests. Its type is arbitrary.
    control: UdpSocket,
}

impl Link {
    /// Creates a handle for the interface `name`, which need not exist yet.
    ///
    /// # Errors
    /// Returns an error if no socket can be opened.
    pub fn new(name: &str) -> io::Result<Self> {
        // The unspecified address can be bound in any namespace, even if its loopback interface is down.
        let control = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        Ok(Self { name: name.to_owned(), control })
    }

    /// Returns the name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the index of the interface in its namespace.
    pub fn index(&self) -> io::Result<u32> {
        let [a, b, c, d, ..] = self.request(InterfaceCall::GetIndex, &[])?.value;
        Ok(u32::from_ne_bytes([a, b, c, d]))
    }

    /// Sets the interface up.
    pub fn set_up(&self) -> io::Result<()> {
        let mut request = self.request(InterfaceCall::GetFlags, &[])?;
        let flags = request.flags() | libc::IFF_UP as i16;
        request.set(&flags.to_ne_bytes());
        ioctl_interface(self.control.as_fd(), InterfaceCall::SetFlags, &mut request)
    }

    /// Sets the MTU in bytes.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        self.request(InterfaceCall::SetMtu, &i32::from(mtu).to_ne_bytes())?;
        Ok(())
    }

    /// Sets the length of the transmit queue in packets. That of a TUN device holds the packets that were not read yet.
    pub fn set_queue_len(&self, packets: u32) -> io::Result<()> {
        let packets = i32::try_from(packets).unwrap_or(i32::MAX);
        self.request(InterfaceCall::SetQueueLen, &packets.to_ne_bytes())?;
        Ok(())
    }

    /// Sets how long the driver waits after the last packet for further packets to coalesce (receive offload). A batch
    /// ends earlier if it is full, or at a tick of the kernel's clock. The interface must belong to the network
    /// namespace of the process's `/sys`.
    pub fn set_receive_hold(&self, hold: Duration) -> io::Result<()> {
        fs::write(format!("/sys/class/net/{}/gro_flush_timeout", self.name), hold.as_nanos().to_string())
    }

    /// Sets the IPv4 address and its prefix length in bits (at most 32). When the interface is up, the kernel routes
    /// the prefix to it. For IPv6 addresses, use `ip address`.
    ///
    /// # Errors
    /// Returns the system's error if the interface does not exist or this is not permitted, and `InvalidInput` if the
    /// prefix is longer than 32 bits.
    pub fn set_address(&self, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mask = match prefix {
            0 => 0,
            1..=32 => u32::MAX << (32 - prefix),
            _ => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "prefix longer than an address"));
            }
        };
        self.request(InterfaceCall::SetAddress, &socket_address(address))?;
        self.request(InterfaceCall::SetNetmask, &socket_address(Ipv4Addr::from(mask)))?;
        Ok(())
    }

    fn request(&self, call: InterfaceCall, value: &[u8]) -> io::Result<InterfaceRequest> {
        let mut request = InterfaceRequest::new(&self.name)?;
        request.set(value);
        ioctl_interface(self.control.as_fd(), call, &mut request)?;
        Ok(request)
    }
}

/// Returns the first bytes of a `struct sockaddr_in` with port 0.
fn socket_address(address: Ipv4Addr) -> [u8; 8] {
    let ([f, g], [a, b, c, d]) = ((libc::AF_INET as u16).to_ne_bytes(), address.octets());
    [f, g, 0, 0, a, b, c, d]
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
