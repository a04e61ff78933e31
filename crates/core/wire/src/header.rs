//! Segments and their headers.

use core::fmt;

use crate::{Codec, Flags, Options, ParseError};

/// Header of a segment, without the ports, which are in the UDP header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Control bits.
    pub flags: Flags,
    /// Receive window as transmitted, before scaling by the window scale option (RFC 7323, section 2.2).
    pub window: u16,
    /// Sequence number of the first data byte, or of the SYN.
    pub seq: u32,
    /// Acknowledgment number; meaningful only if [`Flags::ACK`] is set.
    pub ack: u32,
    /// Options.
    pub options: Options,
}

impl Header {
    /// Returns SEG.LEN, the sequence space occupied by `payload` bytes of data and by the SYN and FIN flags of this
    /// header (RFC 9293, section 3.4).
    #[must_use]
    pub const fn sequence_len(&self, payload: u32) -> u32 {
        let syn = self.flags.contains(Flags::SYN) as u32;
        let fin = self.flags.contains(Flags::FIN) as u32;
        payload.wrapping_add(syn).wrapping_add(fin)
    }

    /// Calls [`Options::fit`] with this header's flags and acknowledgment number.
    pub fn fit(&mut self) -> bool {
        self.options.fit(self.flags, self.ack)
    }
}

/// Segment: a header and the data after it in the datagram.
#[derive(Clone, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Header of the datagram.
    pub header: Header,
    /// The data, which may be empty.
    pub payload: &'a [u8],
}

/// Omits the data.
impl fmt::Debug for Segment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { header, payload } = self;
        f.debug_struct("Segment").field("header", header).field("payload", &payload.len()).finish()
    }
}

impl<'a> Segment<'a> {
    /// Parses a complete datagram.
    ///
    /// # Errors
    /// Returns the errors of [`Codec::parse`].
    #[inline]
    pub fn parse<C: Codec>(datagram: &'a [u8]) -> Result<Self, ParseError> {
        let (header, offset) = C::parse(datagram)?;
        Ok(Self { header, payload: datagram.get(offset..).unwrap_or_default() })
    }
}
