use super::*;
use crate::{AckRate, SackBlock, UserTimeout};

/// SYN of a Linux client after conversion by the shim: MSS 1460, SACK-permitted, timestamps, window scale 7.
const SYN: [u8; 32] = [
    0xa0, 0x02, 0xff, 0x00, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, //
    2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0x10, 0, 0, 0, 0, 0, 1, 3, 3, 7,
];

fn segment(flags: Flags, options: &[u8]) -> Vec<u8> {
    let words = u16::try_from(5 + options.len().div_ceil(4)).unwrap();
    let mut bytes = (flags.bits() | words << 12).to_be_bytes().to_vec();
    bytes.extend_from_slice(&[0; 10]);
    bytes.extend_from_slice(options);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn options(flags: Flags, bytes: &[u8]) -> Options {
    CheshireCodec::parse(&segment(flags, bytes)).unwrap().0.options
}

fn emitted(header: &Header) -> Vec<u8> {
    let mut out = [0xee; 60];
    let len = CheshireCodec::emit(header, &mut out).unwrap();
    assert_eq!(len, CheshireCodec::header_len(&header.options));
    assert!(out[len..].iter().all(|&byte| byte == 0xee), "bytes after the header are unchanged");
    out[..len].to_vec()
}

#[test]
fn the_syn_of_a_stock_client() {
    let (header, payload) = CheshireCodec::parse(&SYN).unwrap();
    assert_eq!(payload, 32);
    let expected = Header {
        flags: Flags::SYN,
        window: 0xff00,
        seq: 0x1234_5678,
        ack: 0,
        options: Options {
            mss: Some(1460),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 4096, echo: 0 }),
            window_scale: Some(7),
            ..Options::NONE
        },
    };
    assert_eq!(header, expected);
    assert_eq!(emitted(&expected), SYN);
}

#[test]
fn a_plain_data_segment() {
    let bytes = [0x80, 0x18, 0x01, 0xf6, 0, 0, 3, 0xe8, 0, 0, 0, 7, 1, 1, 8, 10, 0, 0, 0, 55, 0, 0, 0, 44, b'h', b'i'];
    let (header, payload) = CheshireCodec::parse(&bytes).unwrap();
    assert_eq!(&bytes[payload..], b"hi");
    assert_eq!((header.flags, header.window), (Flags::ACK | Flags::PSH, 502));
    assert_eq!((header.seq, header.ack), (1000, 7));
    assert_eq!(header.options.timestamps, Some(Timestamps { value: 55, echo: 44 }));
    assert_eq!(emitted(&header), bytes[..24]);
}

#[test]
fn every_truncation_of_a_header_is_an_error() {
    for len in 0..12 {
        assert_eq!(CheshireCodec::parse(&SYN[..len]), Err(ParseError::TooShort { len }));
    }
    for len in 12..32 {
        let expected = ParseError::HeaderTruncated { offset: 10, needed: 32, len };
        assert_eq!(CheshireCodec::parse(&SYN[..len]), Err(expected));
    }
}

#[test]
fn data_offsets() {
    for offset in 0..5 {
        let mut bytes = [0; 60];
        bytes[0] = offset << 4;
        assert_eq!(CheshireCodec::parse(&bytes), Err(ParseError::DataOffset { offset }));
    }
    for offset in 5..=15_u8 {
        let mut bytes = [0; 60];
        bytes[0] = offset << 4;
        assert_eq!(CheshireCodec::parse(&bytes).unwrap().1, usize::from(offset) * 4 - 8);
    }
}

#[test]
fn urgent_and_reserved_bits_are_ignored_and_ecn_bits_are_kept() {
    let mut bytes = segment(Flags::NONE, &[]);
    bytes[0] |= 0x0f;
    bytes[1] = 0xff;
    let (header, _) = CheshireCodec::parse(&bytes).unwrap();
    assert_eq!(header.flags.bits(), 0x1df);
    assert_eq!(emitted(&header)[..2], [0x51, 0xdf]);
}

#[test]
fn malformed_options_are_errors() {
    let parse = |options: &[u8]| CheshireCodec::parse(&segment(Flags::SYN, options));
    assert_eq!(parse(&[77, 0, 0, 0]), Err(ParseError::OptionLength { kind: 77, len: 0 }));
    assert_eq!(parse(&[2, 1, 0, 0]), Err(ParseError::OptionLength { kind: 2, len: 1 }));
    assert_eq!(parse(&[1, 1, 1, 3]), Err(ParseError::OptionOverrun { kind: 3 }));
    assert_eq!(parse(&[2, 4, 5, 0xb4, 8, 10, 0, 0]), Err(ParseError::OptionOverrun { kind: 8 }));
    assert_eq!(parse(&[253, 5, 0x4c, 0x54]), Err(ParseError::OptionOverrun { kind: 253 }));
    assert!(parse(&[0, 77, 0, 0]).is_ok(), "bytes after the end of the list are ignored");
    assert_eq!(parse(&[1; 40]).unwrap().0.options, Options::NONE);
}

#[test]
fn unknown_options_and_wrong_lengths_are_skipped() {
    let mss = [2, 4, 5, 0xb4];
    for skipped in [
        &[34, 4, 1, 2][..],
        &[254, 6, 0x4c, 0x54, 0, 0],
        &[253, 4, 0xf9, 0x89],
        &[253, 3, 0x4c],
        &[253, 2],
        &[2, 3, 9],
        &[2, 6, 9, 9, 9, 9],
        &[3, 2],
        &[4, 3, 0],
        &[8, 9, 0, 0, 0, 0, 0, 0, 0],
        &[28, 4, 0, 0],
        &[28, 4, 0x80, 0],
        &[253, 5, 0x4c, 0x54, 0],
        &[253, 5, 0x4c, 0x41, 0],
        &[253, 8, 0x4c, 0x50, 0, 0, 0, 0],
        &[253, 5, 0x4c, 0x4e, 0],
    ] {
        let bytes = [skipped, &mss].concat();
        assert_eq!(options(Flags::SYN, &bytes), Options { mss: Some(1460), ..Options::NONE }, "{skipped:?}");
    }
    for skipped in [&[5, 2][..], &[5, 9, 0, 0, 0, 0, 0, 0, 0], &[253, 4, 0x4c, 0x41], &[253, 7, 0x4c, 0x50, 0, 0, 0]] {
        assert_eq!(options(Flags::ACK, skipped), Options::NONE, "{skipped:?}");
    }
}

#[test]
fn the_first_of_duplicate_options_counts() {
    let syn = options(Flags::SYN, &[2, 4, 1, 0, 2, 4, 2, 0, 3, 3, 1, 3, 3, 2, 28, 4, 0, 9, 28, 4, 0, 8]);
    assert_eq!((syn.mss, syn.window_scale), (Some(256), Some(1)));
    assert_eq!(syn.user_timeout, UserTimeout::from_bits(9));
    let ack = options(
        Flags::ACK,
        &[
            8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 8, 10, 9, 9, 9, 9, 9, 9, 9, 9, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 5, 10, 0, 0,
            0, 3, 0, 0, 0, 4,
        ],
    );
    assert_eq!(ack.timestamps, Some(Timestamps { value: 1, echo: 2 }));
    assert_eq!(ack.sack.as_slice(), [SackBlock { left: 1, right: 2 }]);
}

#[test]
fn window_scale_is_clamped_both_ways() {
    assert_eq!(options(Flags::SYN, &[3, 3, 15]).window_scale, Some(14));
    assert_eq!(options(Flags::SYN, &[3, 3, 255]).window_scale, Some(14));
    let mut header = Header { flags: Flags::SYN, ..Header::default() };
    header.options.window_scale = Some(200);
    assert_eq!(emitted(&header)[12..], [1, 3, 3, 14]);
}

#[test]
fn options_in_the_wrong_place_are_ignored() {
    let on_syn =
        [2, 4, 5, 0xb4, 4, 2, 3, 3, 7, 253, 4, 0x4c, 0x54, 253, 4, 0x4c, 0x41, 253, 4, 0x4c, 0x50, 253, 4, 0x4c, 0x4e];
    assert_eq!(options(Flags::ACK, &on_syn), Options::NONE);
    let all = options(Flags::SYN | Flags::ACK, &on_syn);
    assert!(all.microsecond_timestamps && all.arrival_permitted && all.probe_permitted && all.network_permitted);

    let elsewhere =
        [5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 253, 12, 0x4c, 0x41, 0, 0, 0, 1, 0, 0, 0, 2, 253, 8, 0x4c, 0x50, 0, 0, 0, 3];
    let rate = [253, 5, 0, 0xac, 2];
    assert_eq!(options(Flags::SYN, &rate), Options::NONE);
    assert_eq!(options(Flags::ACK, &rate).ack_rate.map(AckRate::segments), Some(1));
    assert_eq!(options(Flags::ACK, &[253, 4, 0, 0xac, 253, 6, 0, 0xac, 2, 2]), Options::NONE);
    assert!(options(Flags::SYN, &[253, 4, 0, 0xac]).ack_rate_permitted);
    assert_eq!(options(Flags::SYN, &elsewhere), Options::NONE);
    let ack = options(Flags::ACK, &elsewhere);
    assert_eq!((ack.sack.len(), ack.arrivals.len()), (1, 1));
    assert_eq!(ack.probe_echo.map(|echo| echo.value), Some(3));
}

#[test]
fn timestamps_are_found_in_any_layout() {
    let timestamps = Some(Timestamps { value: 1, echo: 2 });
    for bytes in [
        &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2][..],
        &[8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1],
        &[8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0],
        &[1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 0],
        &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 1, 1],
    ] {
        assert_eq!(options(Flags::ACK, bytes), Options { timestamps, ..Options::NONE }, "{bytes:?}");
    }
}

#[test]
fn emit_reports_what_does_not_fit() {
    let (header, _) = CheshireCodec::parse(&SYN).unwrap();
    for len in 0..32 {
        let expected = EmitError::BufferTooSmall { needed: 32, available: len };
        assert_eq!(CheshireCodec::emit(&header, &mut vec![0; len]), Err(expected));
    }
    let mut data = Header::default();
    data.options.timestamps = Some(Timestamps::default());
    for len in 0..24 {
        let expected = EmitError::BufferTooSmall { needed: 24, available: len };
        assert_eq!(CheshireCodec::emit(&data, &mut vec![0; len]), Err(expected));
    }
    for left in 0..4 {
        data.options.sack.push(SackBlock { left, right: left });
    }
    assert_eq!(CheshireCodec::emit(&data, &mut [0; 60]), Err(EmitError::OptionsTooLong { len: 44 }));
}

#[test]
fn errors_are_sentences() {
    let error = ParseError::HeaderTruncated { offset: 10, needed: 32, len: 13 };
    assert_eq!(error.to_string(), "data offset 10 means a header of 32 bytes, but the datagram has 13");
    assert_eq!(EmitError::OptionsTooLong { len: 44 }.to_string(), "options need 44 bytes, more than 40");
}
