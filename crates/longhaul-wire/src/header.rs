//! A segment's header and a segment.

use crate::{Codec, Flags, Options, ParseError};

/// A segment's header: what the wire holds apart from data. Ports are the datagram's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Control bits.
    pub flags: Flags,
    /// Receive window as sent: not yet scaled by the window scale option (RFC 7323, section 2.2).
    pub window: u16,
    /// Sequence number of the first data byte, or of the SYN.
    pub seq: u32,
    /// Next sequence number expected; of meaning only with [`Flags::ACK`].
    pub ack: u32,
    /// Options.
    pub options: Options,
}

impl Header {
    /// SEG.LEN: the sequence space that this header and `payload` bytes of data take, SYN and FIN counted
    /// (RFC 9293, section 3.4).
    #[must_use]
    pub const fn sequence_len(&self, payload: u32) -> u32 {
        let syn = self.flags.contains(Flags::SYN) as u32;
        let fin = self.flags.contains(Flags::FIN) as u32;
        payload.wrapping_add(syn).wrapping_add(fin)
    }

    /// Makes the options fit: [`Options::fit`] with this header's flags and acknowledgment number.
    pub fn fit(&mut self) -> bool {
        self.options.fit(self.flags, self.ack)
    }
}

/// A segment: a header and the data that follows it in the datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The header.
    pub header: Header,
    /// The data, possibly none.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads a whole datagram.
    ///
    /// # Errors
    /// As [`Codec::parse`].
    #[inline]
    pub fn parse<C: Codec>(datagram: &'a [u8]) -> Result<Self, ParseError> {
        let (header, offset) = C::parse(datagram)?;
        Ok(Self { header, payload: datagram.get(offset..).unwrap_or_default() })
    }
}
