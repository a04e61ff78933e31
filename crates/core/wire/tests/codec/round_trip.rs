//! Round trips through the codec for random headers and random bytes.

use longhaul_units::{Rate, Time};
use longhaul_wire::network::{Feedback, Forward, QuickStartNonce, QuickStartRate, Request, WireDelta, WireRate};
use longhaul_wire::probe::{ANSWER_LEN, Answer, Probe};
use longhaul_wire::{
    AckRate, Arrival, Arrivals, CheshireCodec, Codec, Flags, Header, MoveOption, MoveStep, NetworkOption, Options,
    ProbeEcho, SackBlock, Segment, Timestamps, UserTimeout,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use crate::any_datagram;

fn sack_block() -> impl Strategy<Value = SackBlock> {
    any::<(u32, u32)>().prop_map(|(left, right)| SackBlock { left, right })
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let arrival = (any::<i16>(), 0_u64..5_000_000_000, any::<bool>());
    (any::<u32>(), any::<u32>(), vec(arrival, 0..6)).prop_map(|(mut seq, start, list)| {
        let mut now = u64::from(start);
        let mut arrivals = Arrivals::EMPTY;
        for (offset, gap, coalesced) in list {
            seq = seq.wrapping_add_signed(offset.into());
            now += gap >> (gap % 32);
            arrivals.push(Arrival::new(seq, Time::from_nanos(now), coalesced));
        }
        arrivals
    })
}

fn request() -> impl Strategy<Value = Request> {
    let quick_start = || {
        (0_u8..16, any::<u32>())
            .prop_map(|(rate, nonce)| (QuickStartRate::from_code(rate), QuickStartNonce::new(nonce)))
    };
    let rate = || any::<u64>().prop_map(|rate| WireRate::new(Rate::from_bytes_per_sec(rate)));
    prop_oneof![
        quick_start().prop_map(|(rate, nonce)| Request::QuickStart { rate, nonce }),
        quick_start().prop_map(|(rate, nonce)| Request::QuickStartReport { rate, nonce }),
        (rate(), any::<u32>()).prop_map(|(rate, rtt_micros)| Request::Rcp { rate, rtt_micros }),
        (rate(), any::<u32>(), any::<i64>()).prop_map(|(throughput, rtt_micros, delta)| {
            Request::Xcp { throughput, rtt_micros, delta: WireDelta::new(delta) }
        }),
    ]
}

fn feedback() -> impl Strategy<Value = Feedback> {
    prop_oneof![
        Just(Feedback::Denied),
        (0_u8..16, any::<u32>()).prop_map(|(rate, nonce)| Feedback::QuickStart {
            rate: QuickStartRate::from_code(rate),
            nonce: QuickStartNonce::new(nonce),
        }),
        any::<u32>().prop_map(|rate| Feedback::Rcp { rate: WireRate(rate) }),
        any::<u32>().prop_map(|delta| Feedback::Xcp { delta: WireDelta(delta) }),
    ]
}

fn network() -> impl Strategy<Value = Option<NetworkOption>> {
    let forward =
        (any::<u8>(), any::<u8>(), request()).prop_map(|(ttl, stamps, request)| Forward { ttl, stamps, request });
    (of(forward), of(feedback())).prop_map(|(forward, feedback)| {
        (forward.is_some() || feedback.is_some()).then_some(NetworkOption { forward, feedback })
    })
}

fn moving() -> impl Strategy<Value = MoveOption> {
    let step = prop_oneof![Just(MoveStep::Claim), Just(MoveStep::Challenge), Just(MoveStep::Answer)];
    (step, any::<[u8; 8]>(), 0..=MoveOption::MAX_COUNTER, any::<[u8; 8]>())
        .prop_map(|(step, value, counter, tag)| MoveOption { step, value, counter, tag })
}

fn options() -> impl Strategy<Value = Options> {
    let standard = (
        of(any::<u16>()),
        of(0_u8..=14),
        any::<bool>(),
        of(any::<(u32, u32)>().prop_map(|(value, echo)| Timestamps { value, echo })),
        vec(sack_block(), 0..5),
        of(any::<u16>()).prop_map(|bits| bits.and_then(UserTimeout::from_bits)),
    );
    let experimental = (
        any::<[bool; 6]>(),
        prop_oneof![Just(Arrivals::EMPTY), arrivals()],
        of(any::<u32>().prop_map(|value| ProbeEcho { value })),
        prop_oneof![Just(None), network()],
        of(any::<u8>().prop_map(AckRate::each)),
        of(moving()),
    );
    (standard, experimental).prop_map(|(standard, experimental)| {
        let (mss, window_scale, sack_permitted, timestamps, sack, user_timeout) = standard;
        let (permitted, arrivals, probe_echo, network, ack_rate, moving) = experimental;
        let [scaled_window, microsecond_timestamps, arrival_permitted, probe_permitted, network_permitted, last] =
            permitted;
        Options {
            mss,
            window_scale,
            sack_permitted,
            timestamps,
            sack: sack.into_iter().collect(),
            user_timeout,
            scaled_window,
            microsecond_timestamps,
            arrival_permitted,
            arrivals,
            probe_permitted,
            probe_echo,
            network_permitted,
            network,
            ack_rate_permitted: last,
            ack_rate,
            moving,
        }
    })
}

fn header() -> impl Strategy<Value = Header> {
    (any::<(u16, u16, u32, u32)>(), options()).prop_map(|((flags, window, seq, ack), options)| Header {
        flags: Flags::from_bits_truncate(flags),
        window,
        seq,
        ack,
        options,
    })
}

/// Generates bytes that pass the first checks: a valid data offset and a list of mostly known options.
fn plausible_datagram() -> impl Strategy<Value = Vec<u8>> {
    let body = |kind: u8| vec(any::<u8>(), 0..23).prop_map(move |body| (kind, body));
    let exid = prop_oneof![
        Just(0x4c54_u16),
        Just(0x4c41),
        Just(0x4c50),
        Just(0x4c4e),
        Just(0x4c4d),
        Just(0x00ac),
        any::<u16>()
    ];
    let experiment = (exid, vec(any::<u8>(), 0..16))
        .prop_map(|(exid, body)| (253, [exid.to_be_bytes().as_slice(), body.as_slice()].concat()));
    let option = prop_oneof![
        4 => prop_oneof![Just(2_u8), Just(3), Just(4), Just(5), Just(8), Just(28), any::<u8>()].prop_flat_map(body),
        4 => experiment,
        1 => vec(any::<u8>(), 8).prop_map(|body| (8, body)),
        1 => vec(any::<u8>(), 8).prop_map(|body| (5, body)),
    ];
    (any::<[u8; 12]>(), vec(option, 0..5), vec(any::<u8>(), 0..8)).prop_map(|(mut fixed, list, payload)| {
        let mut options = Vec::new();
        for (kind, body) in list {
            options.push(kind);
            options.push(u8::try_from(body.len() + 2).expect("a body is short"));
            options.extend(body);
        }
        options.resize(options.len().next_multiple_of(4).min(40), 1);
        fixed[0] = fixed[0] & 0xf | u8::try_from(options.len() / 4 + 5).expect("at most 15") << 4;
        [fixed.as_slice(), &options, &payload].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_is_read(mut header in header(), payload in vec(any::<u8>(), 0..9)) {
        header.fit();
        let mut out = vec![0; 80];
        let len = CheshireCodec::emit(&header, &mut out).unwrap();
        prop_assert_eq!(len, CheshireCodec::header_len(&header.options));
        out.truncate(len);
        out.extend_from_slice(&payload);
        let segment = Segment::parse::<CheshireCodec>(&out).unwrap();
        prop_assert_eq!(segment.header, header);
        prop_assert_eq!(segment.payload, payload);
    }

    /// An emitted header is within bounds, or `emit` returns an error; after `fit`, it never does.
    #[test]
    fn options_fit(header in header(), room in 0_usize..60) {
        let mut out = vec![0; room];
        if let Ok(len) = CheshireCodec::emit(&header, &mut out) {
            prop_assert!(len <= room && len <= 52 && len % 4 == 0);
        }
        let mut fitted = header.clone();
        let all = fitted.fit();
        prop_assert!(CheshireCodec::emit(&fitted, &mut [0; 52]).is_ok());
        // A second `fit` changes nothing.
        let again = fitted.clone();
        prop_assert!(fitted.fit());
        prop_assert_eq!(&fitted, &again);
        if all {
            prop_assert_eq!(fitted.options.arrivals, header.options.arrivals);
        }
    }

    #[test]
    fn probes_and_answers_are_read_as_written(
        (nonce, train, index, sent) in any::<(u64, u32, u32, u64)>(),
        (arrived, received, ttl, tos, coalesced) in any::<(u64, u16, u8, Option<u8>, bool)>(),
        len in 0_usize..1500,
    ) {
        let probe = Probe { nonce, train, index, sent };
        let mut datagram = vec![0x5a; len];
        prop_assert_eq!(probe.emit(&mut datagram).is_some(), len >= ANSWER_LEN);
        prop_assert_eq!(Probe::parse(&datagram), (len >= ANSWER_LEN).then_some(probe));
        let answer = Answer { probe, arrived, received, ttl, tos, coalesced };
        prop_assert_eq!(Answer::parse(&answer.to_bytes()), Some(answer));
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..80)) {
        any_datagram::check(&bytes);
    }

    #[test]
    fn plausible_bytes(bytes in plausible_datagram()) {
        any_datagram::check(&bytes);
    }

    /// Checks each truncation of a valid segment, and the segment with a byte replaced.
    #[test]
    fn damaged_segments(mut header in header(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        header.fit();
        let mut out = [0; 52];
        let len = CheshireCodec::emit(&header, &mut out).unwrap();
        for len in 0..=len {
            any_datagram::check(&out[..len]);
        }
        out[at.index(len)] = byte;
        any_datagram::check(&out[..len]);
    }
}
