//! Why a datagram is no segment, or a header no datagram.

/// Why bytes are not a segment. The datagram is dropped without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Shorter than a header without options. Keep-alive datagrams for NATs are meant to end here.
    #[error("{len} bytes are less than a header")]
    TooShort {
        /// Bytes there are.
        len: usize,
    },
    /// The data offset is less than 5 words (RFC 9293, section 3.1).
    #[error("data offset {offset} is less than 5")]
    DataOffset {
        /// The data offset, in words of four bytes.
        offset: u8,
    },
    /// The data offset points behind the end of the datagram.
    #[error("data offset {offset} needs a header of {needed} bytes, but there are {len}")]
    HeaderTruncated {
        /// The data offset, in words of four bytes.
        offset: u8,
        /// Header bytes that it promises.
        needed: usize,
        /// Bytes there are.
        len: usize,
    },
    /// An option's length field is 0 or 1, less than its own two bytes.
    #[error("option {kind} has length {len}")]
    OptionLength {
        /// The option's kind.
        kind: u8,
        /// Its length field.
        len: u8,
    },
    /// An option reaches beyond the header, or the header ends before its length field.
    #[error("option {kind} overruns the header")]
    OptionOverrun {
        /// The option's kind.
        kind: u8,
    },
}

/// Why a header cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The options take more than [`MAX_OPTIONS_LEN`](crate::MAX_OPTIONS_LEN) bytes;
    /// [`Header::fit`](crate::Header::fit) makes them fit.
    #[error("options need {len} bytes, more than 40")]
    OptionsTooLong {
        /// Bytes that they need, packed.
        len: usize,
    },
    /// The buffer is smaller than the header.
    #[error("the header needs {needed} bytes, the buffer has {available}")]
    BufferTooSmall {
        /// Bytes that the header needs.
        needed: usize,
        /// Bytes the buffer has.
        available: usize,
    },
}
