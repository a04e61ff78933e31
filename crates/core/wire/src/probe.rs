//! Path probes and their answers, which are exchanged on the same UDP port as segments (`docs/wire.md`, "Probes").
//!
//! The high nibble of a segment's first byte is its data offset, 5 to 15, whereas that of a probe or answer is zero.
//! Their first byte is in the range 4 to 15, which RFC 7983, section 7 leaves unassigned, so STUN and DTLS can share
//! the socket.
//!
//! ```
//! use longhaul_wire::probe::{Answer, Probe};
//!
//! let probe = Probe { nonce: 7, train: 1, index: 0, sent: 1_000 };
//! let mut datagram = [0; 1472];
//! probe.emit(&mut datagram).expect("room for the header");
//! assert_eq!(Probe::parse(&datagram), Some(probe));
//!
//! let answer = Answer { probe, arrived: 5_000, received: 1472, ttl: 57, tos: Some(2), coalesced: false };
//! assert_eq!(Answer::parse(&answer.to_bytes()), Some(answer));
//! ```

/// Length of a probe's header in bytes; the rest of the probe is padding.
pub const PROBE_LEN: usize = 28;

/// Length of an answer in bytes. Shorter probes are invalid, so an answer is never longer than its probe.
pub const ANSWER_LEN: usize = 40;

const PROBE: u8 = 0x0c;
const ANSWER: u8 = 0x0d;
/// Flag in an answer: several coalesced datagrams share the arrival time.
const COALESCED: u8 = 0x01;
/// Flag in an answer: the TOS or traffic class of the probe is known.
const TOS_KNOWN: u8 = 0x02;

/// Header of a probe, which the reflector copies into its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Random number chosen by the prober for each measurement, so that an off-path attacker cannot forge answers. The
    /// upper half may be a packet number instead ([`quoted_nonce`](Self::quoted_nonce)).
    pub nonce: u64,
    /// Number of the packet train.
    pub train: u32,
    /// Number of the packet in its train, from 0.
    pub index: u32,
    /// Transmission time in nanoseconds, by a clock of the prober's choice.
    pub sent: u64,
}

/// Answer of a reflector to a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Header of the probe.
    pub probe: Probe,
    /// Arrival time of the probe in nanoseconds, by a monotonic clock of the reflector with an arbitrary epoch.
    pub arrived: u64,
    /// Length of the probe as received, in bytes of UDP payload.
    pub received: u16,
    /// TTL or hop limit of the probe on arrival; 0 if unknown.
    pub ttl: u8,
    /// TOS or traffic class with which the probe arrived; `None` if unknown.
    pub tos: Option<u8>,
    /// Whether receive offload (GRO) coalesced the probe with others, so that all of them have the same `arrived`.
    pub coalesced: bool,
}

impl Probe {
    /// Parses a probe. Returns `None` for any other datagram, and for a probe that is shorter than its answer would be.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        if datagram.len() < ANSWER_LEN {
            return None;
        }
        Self::parse_quoted(datagram)
    }

    /// Parses a probe quoted in an ICMP message. Returns `None` if fewer than [`PROBE_LEN`] bytes are quoted.
    #[must_use]
    pub fn parse_quoted(quote: &[u8]) -> Option<Self> {
        let header: &[u8; PROBE_LEN] = quote.first_chunk()?;
        let (kind, rest) = header.split_first()?;
        (*kind == PROBE).then(|| Self::parse_fields(rest)).flatten()
    }

    /// Returns the first 4 bytes of the nonce from a quote of at least 8 bytes of the probe.
    ///
    /// A shorter quote is also valid: RFC 792 requires only 8 bytes after the IP header, which are the UDP header. RFC
    /// 1812, section 4.3.2.3 and RFC 4443, section 2.4 require as many bytes as fit.
    #[must_use]
    pub fn quoted_nonce(quote: &[u8]) -> Option<u32> {
        let &[kind, _, _, _, a, b, c, d] = quote.first_chunk::<8>()?;
        (kind == PROBE).then(|| u32::from_be_bytes([a, b, c, d]))
    }

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

    /// Emits a probe of the length of `out`, without changing the bytes after the header. Returns `None` and writes
    /// nothing if `out` is shorter than an answer.
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<()> {
        if out.len() < ANSWER_LEN {
            return None;
        }
        *out.first_chunk_mut()? = self.header(PROBE);
        Some(())
    }

    fn header(&self, kind: u8) -> [u8; PROBE_LEN] {
        concat([
            &[kind, 0, 0, 0],
            &self.nonce.to_be_bytes(),
            &self.train.to_be_bytes(),
            &self.index.to_be_bytes(),
            &self.sent.to_be_bytes(),
        ])
    }
}

fn concat<const LEN: usize>(fields: [&[u8]; 5]) -> [u8; LEN] {
    let mut all = [0; LEN];
    for (place, byte) in all.iter_mut().zip(fields.into_iter().flatten()) {
        *place = *byte;
    }
    all
}

impl Answer {
    /// Parses an answer. Returns `None` for any other datagram and for a wrong length. Reserved bits are ignored.
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
            tos: rest.get(1).copied().filter(|_| flags & TOS_KNOWN != 0),
            coalesced: flags & COALESCED != 0,
        })
    }

    /// Returns the answer as a datagram.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ANSWER_LEN] {
        let [kind, _, _, _, header @ ..] = self.probe.header(ANSWER);
        let flags = if self.coalesced { COALESCED } else { 0 } | if self.tos.is_some() { TOS_KNOWN } else { 0 };
        concat([
            &[kind, flags],
            &self.received.to_be_bytes(),
            &header,
            &self.arrived.to_be_bytes(),
            &[self.ttl, self.tos.unwrap_or(0), 0, 0],
        ])
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

    /// Reflectors of earlier versions send zero for the TOS and for the flags, so the flags say that the TOS is
    /// unknown.
    #[test]
    fn an_unknown_tos_is_not_zero() {
        let answer = |tos| Answer { probe: PROBED, tos, ..Answer::default() };
        for tos in [None, Some(0), Some(0xbb)] {
            assert_eq!(Answer::parse(&answer(tos).to_bytes()), Some(answer(tos)));
        }
        let mut old = answer(None).to_bytes();
        assert_eq!((old[1], old[37]), (0, 0));
        old[37] = 0xbb;
        assert_eq!(Answer::parse(&old), Some(answer(None)));
    }

    /// Probes, answers and segments have disjoint encodings, so that an answer is never answered.
    #[test]
    fn probes_answers_and_segments_are_told_apart() {
        let mut datagram = [0xff; ANSWER_LEN];
        PROBED.emit(&mut datagram).unwrap();
        let answer =
            Answer { probe: PROBED, arrived: 5, received: 6, ttl: 7, tos: Some(8), coalesced: true }.to_bytes();
        assert_eq!((Answer::parse(&datagram), Probe::parse(&answer)), (None, None));
        for bytes in [datagram, answer] {
            assert_eq!(CheshireCodec::parse(&bytes).unwrap_err(), ParseError::DataOffset { offset: 0 });
        }
    }
}
