//! Header codec.

use crate::options::{self, TIMESTAMPS_ALIGNED};
use crate::{EmitError, Flags, Header, MAX_OPTIONS_LEN, Options, ParseError, Timestamps};

#[cfg(test)]
mod tests;

/// Encoding of segments in UDP payloads. Dispatch is static, because an endpoint uses a single format.
pub trait Codec {
    /// Length in bytes of a header without options.
    const HEADER_LEN: usize;

    /// Parses a header. Returns the header and the offset of the payload.
    ///
    /// # Errors
    /// Returns an error if the datagram is not a valid segment. Semantic errors (such as SYN together with FIN) are not
    /// detected.
    fn parse(datagram: &[u8]) -> Result<(Header, usize), ParseError>;

    /// Emits a header with its options, padded to a multiple of 4 bytes. Returns its length in bytes.
    ///
    /// # Errors
    /// Returns an error if the options are too long or the buffer is too small. The contents of the buffer are then
    /// unspecified.
    fn emit(header: &Header, out: &mut [u8]) -> Result<usize, EmitError>;

    /// Returns the length in bytes of a header with these options, as returned by [`emit`](Codec::emit).
    fn header_len(options: &Options) -> usize;
}

/// Encoding of draft-cheshire-tcp-over-udp-00: data offset, flags and window, then sequence and acknowledgment number,
/// options, and data. The data offset has the same value as in TCP (5 to 15), although 8 bytes of that header are
/// omitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheshireCodec;

/// Length of the fixed part in bytes: the 20 bytes of the TCP header without ports, checksum and urgent pointer.
pub(crate) const FIXED_LEN: usize = 12;
const SEQUENCE_AT: usize = 4;
/// Length of the header of an ordinary data segment: the fixed part and 12 bytes of aligned timestamps.
const WITH_TIMESTAMPS_LEN: usize = 24;
const _: () = assert!(WITH_TIMESTAMPS_LEN == FIXED_LEN + 12);
/// Data offset of a header without options, in 4-byte words (RFC 9293, section 3.1).
const MIN_DATA_OFFSET: u8 = 5;
const TIMESTAMPS_DATA_OFFSET: u8 = 8;

impl Codec for CheshireCodec {
    const HEADER_LEN: usize = FIXED_LEN;

    #[inline]
    fn parse(datagram: &[u8]) -> Result<(Header, usize), ParseError> {
        let Some((fixed, rest)) = datagram.split_first_chunk::<FIXED_LEN>() else {
            return Err(ParseError::TooShort { len: datagram.len() });
        };
        let offset = fixed[0] >> 4;
        if offset == TIMESTAMPS_DATA_OFFSET
            && let Some(timestamps) = rest.first_chunk().and_then(parse_aligned_timestamps)
        {
            let options = Options { timestamps: Some(timestamps), ..Options::NONE };
            return Ok((parse_fixed(fixed, options), WITH_TIMESTAMPS_LEN));
        }
        parse_general(offset, fixed, rest)
    }

    #[inline]
    fn emit(header: &Header, out: &mut [u8]) -> Result<usize, EmitError> {
        if let Some(timestamps) = header.options.only_timestamps()
            && let Some(out) = out.first_chunk_mut::<WITH_TIMESTAMPS_LEN>()
        {
            emit_with_timestamps(header, timestamps, out);
            return Ok(WITH_TIMESTAMPS_LEN);
        }
        emit_general(header, out)
    }

    fn header_len(options: &Options) -> usize {
        if options.only_timestamps().is_some() {
            return WITH_TIMESTAMPS_LEN;
        }
        FIXED_LEN.saturating_add(options.padded_len())
    }
}

impl CheshireCodec {
    /// Returns the sequence number of `datagram` if its header differs from `header` in nothing else, otherwise `None`.
    #[must_use]
    #[inline]
    pub fn continuation(header: &[u8], datagram: &[u8]) -> Option<u32> {
        let (start, rest) = datagram.split_first_chunk::<SEQUENCE_AT>()?;
        let (sequence, rest) = rest.split_first_chunk::<4>()?;
        let (first, others) = header.split_first_chunk::<SEQUENCE_AT>()?;
        let others = others.get(sequence.len()..)?;
        (start == first && rest.starts_with(others)).then_some(u32::from_be_bytes(*sequence))
    }
}

/// Parses the fixed part and combines it with `options`. The header is built in a single expression, so that no copy is
/// needed where this function is inlined.
#[inline]
fn parse_fixed(fixed: &[u8; FIXED_LEN], options: Options) -> Header {
    let [b0, b1, w0, w1, s0, s1, s2, s3, a0, a1, a2, a3] = *fixed;
    Header {
        flags: Flags::from_bits_truncate(u16::from_be_bytes([b0, b1])),
        window: u16::from_be_bytes([w0, w1]),
        seq: u32::from_be_bytes([s0, s1, s2, s3]),
        ack: u32::from_be_bytes([a0, a1, a2, a3]),
        options,
    }
}

/// Parses two NOPs and a timestamps option, the layout recommended in RFC 7323, appendix A.
#[inline]
fn parse_aligned_timestamps(bytes: &[u8; 12]) -> Option<Timestamps> {
    let [k0, k1, k2, k3, v0, v1, v2, v3, e0, e1, e2, e3] = *bytes;
    (u32::from_be_bytes([k0, k1, k2, k3]) == TIMESTAMPS_ALIGNED).then_some(Timestamps {
        value: u32::from_be_bytes([v0, v1, v2, v3]),
        echo: u32::from_be_bytes([e0, e1, e2, e3]),
    })
}

#[inline(never)]
fn parse_general(offset: u8, fixed: &[u8; FIXED_LEN], rest: &[u8]) -> Result<(Header, usize), ParseError> {
    let bytes = options_bytes(offset, rest)?;
    let mut header = parse_fixed(fixed, Options::NONE);
    options::parse(bytes, header.flags.contains(Flags::SYN), &mut header.options)?;
    Ok((header, FIXED_LEN.saturating_add(bytes.len())))
}

/// Returns the option bytes. `rest` is the datagram without the fixed part, and `offset` the data offset in 4-byte
/// words.
pub(crate) fn options_bytes(offset: u8, rest: &[u8]) -> Result<&[u8], ParseError> {
    let words = offset.checked_sub(MIN_DATA_OFFSET).ok_or(ParseError::DataOffset { offset })?;
    let len = usize::from(words).saturating_mul(4);
    rest.get(..len).ok_or_else(|| ParseError::HeaderTruncated {
        offset,
        needed: len.saturating_add(FIXED_LEN),
        len: rest.len().saturating_add(FIXED_LEN),
    })
}

/// Returns the option bytes of a datagram for editing in place, or `None` if it is not a segment.
pub(crate) fn options_bytes_mut(datagram: &mut [u8]) -> Option<&mut [u8]> {
    let (fixed, rest) = datagram.split_first_chunk_mut::<FIXED_LEN>()?;
    let len = options_bytes(fixed.first()? >> 4, rest).ok()?.len();
    rest.get_mut(..len)
}

/// Copies `bytes` to the start of `out`. Returns the rest of `out`, or `None` if the bytes do not fit.
#[inline]
pub(crate) fn put<'a>(out: &'a mut [u8], bytes: &[u8]) -> Option<&'a mut [u8]> {
    let (place, rest) = out.split_at_mut_checked(bytes.len())?;
    place.copy_from_slice(bytes);
    Some(rest)
}

/// Emits the fixed part. `offset` is the data offset in 4-byte words.
#[inline]
fn emit_fixed(header: &Header, offset: u8) -> [u8; FIXED_LEN] {
    let [b0, b1] = (header.flags.bits() | u16::from(offset) << 12).to_be_bytes();
    let [w0, w1] = header.window.to_be_bytes();
    let [s0, s1, s2, s3] = header.seq.to_be_bytes();
    let [a0, a1, a2, a3] = header.ack.to_be_bytes();
    [b0, b1, w0, w1, s0, s1, s2, s3, a0, a1, a2, a3]
}

#[inline]
fn emit_with_timestamps(header: &Header, timestamps: Timestamps, out: &mut [u8; WITH_TIMESTAMPS_LEN]) {
    if let Some((fixed, rest)) = out.split_first_chunk_mut() {
        *fixed = emit_fixed(header, TIMESTAMPS_DATA_OFFSET);
        if let Some(rest) = rest.first_chunk_mut() {
            *rest = options::aligned_timestamps(timestamps);
        }
    }
}

#[inline(never)]
fn emit_general(header: &Header, out: &mut [u8]) -> Result<usize, EmitError> {
    let options_len = header.options.padded_len();
    if options_len > MAX_OPTIONS_LEN {
        return Err(EmitError::OptionsTooLong { len: header.options.packed_len() });
    }
    let needed = options_len.saturating_add(FIXED_LEN);
    let too_small = EmitError::BufferTooSmall { needed, available: out.len() };
    let (fixed, rest) = out.split_first_chunk_mut().ok_or(too_small)?;
    let rest = rest.get_mut(..options_len).ok_or(too_small)?;
    // The options have at most 10 words, so the cast is lossless and the data offset is at most 15.
    *fixed = emit_fixed(header, MIN_DATA_OFFSET.saturating_add((options_len / 4) as u8));
    options::emit(&header.options, rest).ok_or(too_small)?;
    Ok(needed)
}
