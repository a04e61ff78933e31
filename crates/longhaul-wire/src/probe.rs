//! Probes of a path, and their answers: datagrams beside the segments on the same UDP port (`docs/wire.md`, "Probes").
//!
//! A segment begins with its data offset, 5 to 15, in the high nibble of its first byte. These begin with a byte whose
//! high nibble is zero, of the range 4 to 15 that RFC 7983, section 7, leaves to nobody, so that STUN and DTLS may still
//! share the socket.
//!
//! ```
//! use longhaul_wire::probe::{Answer, Probe};
//!
//! let probe = Probe { nonce: 7, train: 1, index: 0, sent: 1_000 };
//! let mut datagram = [0; 1472];
//! probe.emit(&mut datagram).expect("room for the header");
//! assert_eq!(Probe::parse(&datagram), Some(probe));
//!
//! let answer = Answer { probe, arrived: 5_000, received: 1472, ttl: 57, coalesced: false };
//! assert_eq!(Answer::parse(&answer.to_bytes()), Some(answer));
//! ```

/// Bytes of a probe that mean something; the rest is padding.
pub const PROBE_LEN: usize = 28;

/// Bytes of an answer, always. A shorter probe is none, so that no answer is longer than what it answers.
pub const ANSWER_LEN: usize = 40;

/// The first byte of a probe.
const PROBE: u8 = 0x0c;
/// The first byte of an answer.
const ANSWER: u8 = 0x0d;
/// In the flags of an answer: the time of arrival is that of several datagrams.
const COALESCED: u8 = 0x01;

/// What a prober says in a packet, and hears again in the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Drawn at random by the prober for one measurement: who has not seen its probes cannot answer them. The first
    /// half may number packets instead ([`quoted_nonce`](Self::quoted_nonce)).
    pub nonce: u64,
    /// Which of the prober's trains the packet belongs to.
    pub train: u32,
    /// Which of the train's packets it is, from 0.
    pub index: u32,
    /// When it left, in nanoseconds of a clock of the prober's choice.
    pub sent: u64,
}

/// What a reflector says of a probe that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What the probe said.
    pub probe: Probe,
    /// When it arrived, in nanoseconds of a clock of the reflector's that never goes back and begins anywhere.
    pub arrived: u64,
    /// Bytes of UDP payload that arrived.
    pub received: u16,
    /// The TTL or hop limit that it arrived with; 0 if that is not known.
    pub ttl: u8,
    /// Whether receive offload had merged it with others, so that `arrived` is their common time.
    pub coalesced: bool,
}

impl Probe {
    /// Whether a datagram can be a probe, whole or not: then it is no segment.
    #[must_use]
    pub fn is_one(datagram: &[u8]) -> bool {
        datagram.first() == Some(&PROBE)
    }

    /// Reads a probe; `None` for anything else, and for one that is shorter than its answer would be.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        if datagram.len() < ANSWER_LEN {
            return None;
        }
        Self::parse_quoted(datagram)
    }

    /// Reads a probe of which an ICMP message quotes at least [`PROBE_LEN`] bytes.
    #[must_use]
    pub fn parse_quoted(quote: &[u8]) -> Option<Self> {
        let header: &[u8; PROBE_LEN] = quote.first_chunk()?;
        let (kind, rest) = header.split_first()?;
        (*kind == PROBE).then(|| Self::parse_fields(rest)).flatten()
    }

    /// The first four bytes of the nonce, for which eight bytes of the probe are enough. A router need not quote even
    /// those: RFC 792 asks for eight bytes behind the IP header, which are the header of UDP, while RFC 1812, section
    /// 4.3.2.3, and RFC 4443, section 2.4, ask for as much as fits.
    #[must_use]
    pub fn quoted_nonce(quote: &[u8]) -> Option<u32> {
        let &[kind, _, _, _, a, b, c, d] = quote.first_chunk::<8>()?;
        (kind == PROBE).then(|| u32::from_be_bytes([a, b, c, d]))
    }

    /// The fields after the first byte.
    fn parse_fields(bytes: &[u8]) -> Option<Self> {
        let (_, rest) = bytes.split_first_chunk::<3>()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let (train, rest) = rest.split_first_chunk()?;
        let (index, rest) = rest.split_first_chunk()?;
        Some(Self {
            nonce: u64::from_be_bytes(*nonce),
            train: u32::from_be_bytes(*train),
            index: u32::from_be_bytes(*index),
            sent: u64::from_be_bytes(*rest.first_chunk()?),
        })
    }

    /// Writes a probe that is as long as `out`; what follows the header stays as it is. `None`, and nothing written, if
    /// `out` is shorter than an answer.
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<()> {
        if out.len() < ANSWER_LEN {
            return None;
        }
        *out.first_chunk_mut()? = self.header(PROBE);
        Some(())
    }

    fn header(&self, kind: u8) -> [u8; PROBE_LEN] {
        let mut header = [0; PROBE_LEN];
        let fields = [
            &[kind, 0, 0, 0][..],
            &self.nonce.to_be_bytes(),
            &self.train.to_be_bytes(),
            &self.index.to_be_bytes(),
            &self.sent.to_be_bytes(),
        ];
        for (place, byte) in header.iter_mut().zip(fields.into_iter().flatten()) {
            *place = *byte;
        }
        header
    }
}

impl Answer {
    /// Reads an answer; `None` for anything else, be it longer or shorter. Reserved bits are ignored.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let bytes: &[u8; ANSWER_LEN] = datagram.try_into().ok()?;
        let (&[kind, flags, received @ ..], _) = bytes.split_first_chunk::<4>()?;
        let (header, rest) = bytes.split_first_chunk::<PROBE_LEN>()?;
        let (arrived, rest) = rest.split_first_chunk()?;
        let (_, fields) = header.split_first()?;
        (kind == ANSWER).then_some(())?;
        Some(Self {
            probe: Probe::parse_fields(fields)?,
            arrived: u64::from_be_bytes(*arrived),
            received: u16::from_be_bytes(received),
            ttl: *rest.first()?,
            coalesced: flags & COALESCED != 0,
        })
    }

    /// The datagram.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ANSWER_LEN] {
        let [kind, _, _, _, header @ ..] = self.probe.header(ANSWER);
        let flags = if self.coalesced { COALESCED } else { 0 };
        let mut out = [0; ANSWER_LEN];
        let fields = [
            &[kind, flags][..],
            &self.received.to_be_bytes(),
            &header,
            &self.arrived.to_be_bytes(),
            &[self.ttl, 0, 0, 0],
        ];
        for (place, byte) in out.iter_mut().zip(fields.into_iter().flatten()) {
            *place = *byte;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheshireCodec, Codec, ParseError};

    const PROBED: Probe = Probe { nonce: u64::MAX - 1, train: 2, index: 3, sent: 4 };

    #[test]
    fn a_probe_is_at_least_as_long_as_its_answer() {
        let mut datagram = [0xaa; ANSWER_LEN];
        assert_eq!(PROBED.emit(&mut datagram[1..]), None);
        assert_eq!(PROBED.emit(&mut datagram), Some(()));
        assert_eq!(datagram[PROBE_LEN..], [0xaa; ANSWER_LEN - PROBE_LEN], "padding is the caller's");
        assert_eq!(Probe::parse(&datagram), Some(PROBED));
        assert_eq!(Probe::parse(&datagram[..ANSWER_LEN - 1]), None);
        assert_eq!(Probe::parse_quoted(&datagram[..PROBE_LEN]), Some(PROBED));
        assert_eq!(Probe::parse_quoted(&datagram[..PROBE_LEN - 1]), None);
    }

    #[test]
    fn eight_bytes_are_enough_for_half_of_the_nonce() {
        let mut datagram = [0; ANSWER_LEN];
        Probe { nonce: 0x0102_0304_a5a6_a7a8, ..PROBED }.emit(&mut datagram).unwrap();
        assert_eq!(Probe::quoted_nonce(&datagram), Some(0x0102_0304));
        assert_eq!(Probe::quoted_nonce(&datagram[..8]), Some(0x0102_0304));
        assert_eq!(Probe::quoted_nonce(&datagram[..7]), None);
        let answer = Answer { probe: PROBED, ..Answer::default() }.to_bytes();
        assert_eq!(Probe::quoted_nonce(&answer), None);
    }

    /// The one is never taken for the other, and neither for a segment: nobody answers an answer.
    #[test]
    fn probes_answers_and_segments_are_told_apart() {
        let mut datagram = [0xff; ANSWER_LEN];
        PROBED.emit(&mut datagram).unwrap();
        let answer = Answer { probe: PROBED, arrived: 5, received: 6, ttl: 7, coalesced: true }.to_bytes();
        assert_eq!((Answer::parse(&datagram), Probe::parse(&answer)), (None, None));
        assert!(Probe::is_one(&datagram) && !Probe::is_one(&answer) && !Probe::is_one(&[]));
        for bytes in [datagram, answer] {
            assert_eq!(CheshireCodec::parse(&bytes).unwrap_err(), ParseError::DataOffset { offset: 0 });
        }
    }
}
