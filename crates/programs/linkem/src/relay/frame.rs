//! Datagrams that the relay passes over the link.

use bytes::Bytes;
use longhaul_link::Payload;

/// A datagram from or to a client.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The client's number.
    pub client: u64,
    data: Data,
}

#[derive(Clone, Debug)]
enum Data {
    /// The datagram as received, in a buffer shared with other datagrams.
    Shared(Bytes),
    /// The datagram after a modification on the link.
    Own(Vec<u8>),
}

impl Frame {
    /// Creates a datagram.
    pub const fn new(client: u64, bytes: Bytes) -> Self {
        Self { client, data: Data::Shared(bytes) }
    }

    /// Returns the contents of the datagram.
    pub fn bytes(self) -> Bytes {
        match self.data {
            Data::Shared(bytes) => bytes,
            Data::Own(bytes) => bytes.into(),
        }
    }
}

impl Payload for Frame {
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if let Data::Shared(bytes) = &self.data {
            self.data = Data::Own(bytes.to_vec());
        }
        match &mut self.data {
            Data::Own(bytes) => Some(bytes),
            Data::Shared(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_datagram_leaves_its_neighbours_alone() {
        let mut buffer = Bytes::from_static(b"one,two");
        let mut one = Frame::new(1, buffer.split_to(4));
        let copy = one.clone();
        one.bytes_mut().unwrap()[0] = b'O';
        assert_eq!((&one.bytes()[..], &copy.bytes()[..], &buffer[..]), (&b"One,"[..], &b"one,"[..], &b"two"[..]));
    }
}
