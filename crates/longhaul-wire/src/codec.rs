//! The codec: header to bytes and back.

use crate::options::{self, TIMESTAMPS_ALIGNED};
use crate::{EmitError, Flags, Header, MAX_OPTIONS_LEN, Options, ParseError, Timestamps};

#[cfg(test)]
mod tests;

/// A way to lay a segment into a UDP payload. Dispatch is static: an endpoint speaks one format.
pub trait Codec {
    /// Bytes of a header without options.
    const HEADER_LEN: usize;

    /// Reads a header; returns it and where the payload begins.
    ///
    /// # Errors
    /// When the bytes are no segment. Whether the segment makes sense (SYN with FIN, say) is not looked at.
    fn parse(datagram: &[u8]) -> Result<(Header, usize), ParseError>;

    /// Writes a header with its options, padded to a multiple of four bytes; returns its length.
    ///
    /// # Errors
    /// When the options or the buffer are out of bounds. Nothing useful is in the buffer then.
    fn emit(header: &Header, out: &mut [u8]) -> Result<usize, EmitError>;

    /// Bytes that a header with these options takes: what [`emit`](Codec::emit) returns for it.
    fn header_len(options: &Options) -> usize;
}

/// draft-cheshire-tcp-over-udp-00: data offset, flags and window, then sequence and acknowledgment number, options,
/// data. The data offset keeps the value it has in TCP (5 to 15) although 8 bytes of that header are not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheshireCodec;

/// Bytes of the fixed part: TCP's 20 without ports, checksum and urgent pointer.
pub(crate) const FIXED_LEN: usize = 12;
/// The fixed part and twelve bytes of timestamps: what a plain data segment has in front.
const WITH_TIMESTAMPS_LEN: usize = 24;
const _: () = assert!(WITH_TIMESTAMPS_LEN == FIXED_LEN + 12);
/// The data offset of a header without options, in words (RFC 9293, section 3.1).
const MIN_DATA_OFFSET: u8 = 5;
/// The data offset of a header whose only option is timestamps.
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

/// The header of the fixed part and options that were read already: built in one go, so that a caller which inlines
/// this need not copy it.
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

/// The layout RFC 7323, appendix A recommends: two NOPs, then timestamps.
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

/// The option bytes at the beginning of `rest`, which is what follows the fixed part.
fn options_bytes(offset: u8, rest: &[u8]) -> Result<&[u8], ParseError> {
    let words = offset.checked_sub(MIN_DATA_OFFSET).ok_or(ParseError::DataOffset { offset })?;
    let len = usize::from(words).saturating_mul(4);
    rest.get(..len).ok_or_else(|| ParseError::HeaderTruncated {
        offset,
        needed: len.saturating_add(FIXED_LEN),
        len: rest.len().saturating_add(FIXED_LEN),
    })
}

/// The option bytes of a datagram, for those who edit them in place; `None` when it is no segment.
pub(crate) fn options_bytes_mut(datagram: &mut [u8]) -> Option<&mut [u8]> {
    let (fixed, rest) = datagram.split_first_chunk_mut::<FIXED_LEN>()?;
    let len = options_bytes(fixed.first()? >> 4, rest).ok()?.len();
    rest.get_mut(..len)
}

/// The fixed part, for a data offset in words.
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
    // At most 10 words of options on top of 5: the cast and the sum are exact.
    *fixed = emit_fixed(header, MIN_DATA_OFFSET.saturating_add((options_len / 4) as u8));
    options::emit(&header.options, rest).ok_or(too_small)?;
    Ok(needed)
}
