//! Parse and emit errors.

/// Reason why a datagram is not a valid segment. The receiver drops such a datagram silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The datagram is shorter than a header without options. NAT keep-alive datagrams are dropped with this error.
    #[error("datagram of {len} bytes is shorter than a header")]
    TooShort {
        /// Length of the datagram in bytes.
        len: usize,
    },
    /// The data offset is less than 5 words (RFC 9293, section 3.1).
    #[error("data offset {offset} is less than 5")]
    DataOffset {
        /// The data offset in 4-byte words.
        offset: u8,
    },
    /// The data offset points past the end of the datagram.
    #[error("data offset {offset} means a header of {needed} bytes, but the datagram has {len}")]
    HeaderTruncated {
        /// The data offset in 4-byte words.
        offset: u8,
        /// Header length in bytes according to the data offset.
        needed: usize,
        /// Length of the datagram in bytes.
        len: usize,
    },
    /// An option's length field is 0 or 1, but it must count the kind and length bytes.
    #[error("option {kind} has length {len}")]
    OptionLength {
        /// The option's kind.
        kind: u8,
        /// Value of the option's length field.
        len: u8,
    },
    /// An option extends past the end of the header, or the header ends before the option's length field.
    #[error("option {kind} extends past the end of the header")]
    OptionOverrun {
        /// The option's kind.
        kind: u8,
    },
}

/// Reason why a header cannot be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The options need more than [`MAX_OPTIONS_LEN`](crate::MAX_OPTIONS_LEN) bytes. Call
    /// [`Header::fit`](crate::Header::fit) first.
    #[error("options need {len} bytes, more than 40")]
    OptionsTooLong {
        /// Length of the options in bytes without padding.
        len: usize,
    },
    /// The buffer is smaller than the header.
    #[error("the header needs {needed} bytes, the buffer has {available}")]
    BufferTooSmall {
        /// Length of the header in bytes.
        needed: usize,
        /// Length of the buffer in bytes.
        available: usize,
    },
}
