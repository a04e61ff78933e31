use longhaul_units::Time;

use super::*;
use crate::network::{Feedback, Forward, QuickStartNonce, QuickStartRate, Request, WireDelta, WireRate};
use crate::{Arrival, CheshireCodec, Codec, Header, MoveStep, SackBlock};

const TIMESTAMPS: Timestamps = Timestamps { value: 1, echo: 2 };
const QUICK_START: Forward = Forward {
    ttl: 64,
    stamps: 0,
    request: Request::QuickStart { rate: QuickStartRate::MAX, nonce: QuickStartNonce::new(0x1234_5678) },
};
const QUICK_START_RESPONSE: Feedback =
    Feedback::QuickStart { rate: QuickStartRate::MAX, nonce: QuickStartNonce::new(0x1234_5678) };

fn syn() -> Options {
    Options {
        mss: Some(1460),
        window_scale: Some(14),
        sack_permitted: true,
        timestamps: Some(TIMESTAMPS),
        ..Options::NONE
    }
}

fn sack(count: u32) -> SackBlocks {
    (0..count).map(|i| SackBlock { left: 10_000 * (i + 1), right: 10_000 * (i + 1) + 5_000 }).collect()
}

fn arrivals(count: u32) -> Arrivals {
    let mut arrivals = Arrivals::EMPTY;
    for i in 0..count {
        assert!(arrivals.push(Arrival::new(i, Time::from_nanos(u64::from(i) * 1000), false)));
    }
    arrivals
}

fn bytes(options: &Options) -> Vec<u8> {
    let mut out = [0; 60];
    let header = Header { options: options.clone(), ..Header::default() };
    let len = CheshireCodec::emit(&header, &mut out).unwrap();
    assert_eq!(len, CheshireCodec::header_len(options));
    out[12..len].to_vec()
}

#[test]
fn size() {
    // Two `Options` are copied for each segment with options other than timestamps, so they should fit into few cache
    // lines.
    assert!(size_of::<Options>() <= 160, "{}", size_of::<Options>());
    assert!(size_of::<Header>() <= 172, "{}", size_of::<Header>());
}

/// Checks the lengths of SYN options in the table of `docs/wire.md`.
#[test]
fn syn_budget() {
    let mut options = syn();
    assert_eq!(bytes(&options).len(), 20);
    for (step, expected) in [24, 28, 32, 36, 40].into_iter().enumerate() {
        match step {
            0 => options.microsecond_timestamps = true,
            1 => options.arrival_permitted = true,
            2 => options.probe_permitted = true,
            3 => options.network_permitted = true,
            _ => options.scaled_window = true,
        }
        assert_eq!(bytes(&options).len(), expected);
    }
    assert!(options.fit(Flags::SYN, 0));
    options.user_timeout = UserTimeout::from_bits(30);
    assert!(!options.fit(Flags::SYN, 0));
    assert_eq!((options.user_timeout, options.scaled_window), (None, true));
}

/// The ACK rate has the lowest priority: it never displaces another option.
#[test]
fn the_ack_rate_has_the_lowest_priority() {
    let with = |change: &dyn Fn(&mut Options)| {
        let mut options = Options { ack_rate_permitted: true, ..syn() };
        change(&mut options);
        let without = Options { ack_rate_permitted: false, ..options.clone() };
        let fits = options.fit(Flags::SYN, 0);
        assert_eq!(Options { ack_rate_permitted: false, ..options.clone() }, without);
        assert_eq!(fits, options.ack_rate_permitted);
        (fits, bytes(&options).len())
    };
    assert_eq!(with(&|_| ()), (true, 24));
    assert_eq!(with(&|options| options.user_timeout = UserTimeout::from_bits(30)), (true, 28));
    let four = |options: &mut Options| {
        options.microsecond_timestamps = true;
        options.arrival_permitted = true;
        options.probe_permitted = true;
        options.scaled_window = true;
    };
    assert_eq!(with(&four), (true, 40));
    let five = |options: &mut Options| {
        four(options);
        options.user_timeout = UserTimeout::from_bits(30);
    };
    assert_eq!(with(&five), (false, 40));
    // A Quick-Start request leaves room for two permissions.
    let network = Some(NetworkOption { forward: Some(QUICK_START), feedback: None });
    let request = |options: &mut Options| {
        (options.network, options.network_permitted) = (network, true);
        options.microsecond_timestamps = true;
    };
    assert_eq!(with(&request), (true, 40));
    let timed = |options: &mut Options| {
        request(options);
        options.arrival_permitted = true;
    };
    assert_eq!(with(&timed), (false, 40));
}

/// The option has 5 bytes. The last byte has 7 bits of rate and a reserved bit; padding follows it.
#[test]
fn an_ack_rate_is_a_byte() {
    assert_eq!(AckRate::each(200), AckRate::each(127));
    assert_eq!((AckRate::from_byte(0x0d), AckRate::each(0)), (AckRate::each(6), AckRate::AT_ONCE));
    let options = Options { timestamps: Some(TIMESTAMPS), ack_rate: Some(AckRate::each(127)), ..Options::NONE };
    assert_eq!(bytes(&options)[12..], [253, 5, 0, 0xac, 0xfe, 0, 0, 0]);
    // Three SACK blocks leave no room for the ACK rate.
    let mut crowded = Options { sack: sack(3), ..options };
    assert!(!crowded.fit(Flags::ACK, 0));
    assert_eq!((crowded.sack.len(), crowded.ack_rate), (3, None));
}

#[test]
fn a_quick_start_request_on_a_syn_costs_the_probe_echo() {
    let mut options = Options {
        microsecond_timestamps: true,
        arrival_permitted: true,
        probe_permitted: true,
        network: Some(NetworkOption { forward: Some(QUICK_START), feedback: None }),
        ..syn()
    };
    assert!(!options.fit(Flags::SYN, 0));
    assert!(options.microsecond_timestamps && options.arrival_permitted && !options.probe_permitted);
    assert!(options.network.is_some() && options.network_permitted);
    assert_eq!(bytes(&options).len(), 40);
}

#[test]
fn a_quick_start_response_on_a_syn_ack_leaves_room_for_all_flags() {
    let mut options = Options {
        microsecond_timestamps: true,
        arrival_permitted: true,
        probe_permitted: true,
        network: Some(NetworkOption { forward: None, feedback: Some(QUICK_START_RESPONSE) }),
        ..syn()
    };
    assert!(options.fit(Flags::SYN | Flags::ACK, 0));
    assert_eq!(bytes(&options).len(), 40);
}

/// Checks the lengths of options on other segments in the table of `docs/wire.md`.
#[test]
fn data_segment_budget() {
    let timestamps = Some(TIMESTAMPS);
    let plain = Options { timestamps, ..Options::NONE };
    let len = |change: &dyn Fn(&mut Options)| {
        let mut options = plain.clone();
        change(&mut options);
        bytes(&options).len()
    };
    assert_eq!(len(&|_| ()), 12);
    for (count, expected) in [(1, 24), (2, 32), (3, 40)] {
        assert_eq!(len(&|options| options.sack = sack(count)), expected);
    }
    for (count, expected) in [(1, 24), (2, 28), (3, 32), (4, 36), (5, 40)] {
        assert_eq!(len(&|options| options.arrivals = arrivals(count)), expected);
    }
    for (blocks, count, expected) in [(1, 1, 36), (1, 2, 40), (1, 3, 40), (2, 1, 40)] {
        let both = |options: &mut Options| {
            options.sack = sack(blocks);
            options.arrivals = arrivals(count);
        };
        assert_eq!(len(&both), expected);
    }
    for (blocks, expected) in [(0, 20), (1, 32)] {
        let both = |options: &mut Options| {
            options.sack = sack(blocks);
            options.probe_echo = Some(ProbeEcho { value: 1 });
        };
        assert_eq!(len(&both), expected);
    }
    let (rate, delta) = (WireRate::default(), WireDelta::default());
    for feedback in [QUICK_START_RESPONSE, Feedback::Rcp { rate }, Feedback::Xcp { delta }] {
        let both = |options: &mut Options| {
            options.sack = sack(2);
            options.network = Some(NetworkOption { forward: None, feedback: Some(feedback) });
        };
        assert_eq!(len(&both), 40);
    }
    let rcp = Request::Rcp { rate, rtt_micros: 0 };
    let xcp = Request::Xcp { throughput: rate, rtt_micros: 0, delta };
    for (request, expected) in [(QUICK_START.request, 24), (rcp, 28), (xcp, 32)] {
        let forward = Some(Forward { request, ..QUICK_START });
        let network = Some(NetworkOption { forward, feedback: None });
        assert_eq!(len(&|options| options.network = network), expected);
    }
}

#[test]
fn the_usual_alignment_is_that_of_other_stacks() {
    let options = Options { timestamps: Some(TIMESTAMPS), sack: sack(1), ..Options::NONE };
    assert_eq!(bytes(&options)[..16], [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 5, 10]);
    let options = Options { mss: Some(536), sack_permitted: true, window_scale: Some(2), ..Options::NONE };
    assert_eq!(bytes(&options), [2, 4, 2, 24, 1, 1, 4, 2, 1, 3, 3, 2]);
}

#[test]
fn options_that_do_not_fit_aligned_are_packed() {
    let timeout = UserTimeout::from_bits(0x8002);
    let options = Options { timestamps: Some(TIMESTAMPS), sack: sack(3), user_timeout: timeout, ..Options::NONE };
    let bytes = bytes(&options);
    assert_eq!(bytes.len(), 40);
    assert_eq!(bytes[..2], [8, 10]);
    assert_eq!(bytes[10..12], [5, 26]);
    assert_eq!(bytes[36..], [28, 4, 0x80, 2]);
}

/// Fits various sets of options on an ACK, and checks which of them are kept.
#[test]
fn fit_keeps_the_order_of_priority() {
    let everything = Options {
        mss: Some(1),
        timestamps: Some(TIMESTAMPS),
        sack: sack(4),
        user_timeout: UserTimeout::from_bits(30),
        arrivals: arrivals(5),
        ..Options::NONE
    };
    let fitted = |options: &Options, ack| {
        let mut options = options.clone();
        assert!(!options.fit(Flags::ACK, ack));
        assert!(options.packed_len() <= MAX_OPTIONS_LEN);
        assert_eq!(options.mss, None);
        assert_eq!(options.timestamps, Some(TIMESTAMPS));
        (
            options.sack.len(),
            options.probe_echo.is_some(),
            options.network,
            options.arrivals.len(),
            options.user_timeout.is_some(),
        )
    };
    // Without D-SACK, timestamps and one block take 10 + 10 bytes. The first arrival takes 12 bytes, others 4.
    assert_eq!(fitted(&everything, 0), (1, false, None, 3, false));
    // The first block is below the acknowledgment number: timestamps, D-SACK and one SACK block take 10 + 18 bytes.
    assert_eq!(fitted(&everything, 17_000), (2, false, None, 1, false));
    // With fewer arrivals there is room for a user timeout and further blocks.
    let few = Options { arrivals: arrivals(1), ..everything.clone() };
    assert_eq!(fitted(&few, 0), (1, false, None, 1, true));
    let none = Options { arrivals: Arrivals::EMPTY, ..everything.clone() };
    assert_eq!(fitted(&none, 0), (3, false, None, 0, true));
    let echo = Options { probe_echo: Some(ProbeEcho { value: 9 }), ..everything.clone() };
    assert_eq!(fitted(&echo, 0), (1, true, None, 1, false));
    assert_eq!(fitted(&echo, 17_000), (2, true, None, 0, true));
    let network = Some(NetworkOption { forward: None, feedback: Some(QUICK_START_RESPONSE) });
    let with_network = Options { network, ..everything };
    assert_eq!(fitted(&with_network, 17_000), (2, false, network, 0, false));
}

#[test]
fn feedback_has_priority_over_a_request() {
    let both = NetworkOption { forward: Some(QUICK_START), feedback: Some(QUICK_START_RESPONSE) };
    let mut options = Options { timestamps: Some(TIMESTAMPS), sack: sack(1), network: Some(both), ..Options::NONE };
    assert!(options.fit(Flags::ACK, 0));
    assert_eq!(options.network, Some(both));
    options.probe_echo = Some(ProbeEcho { value: 1 });
    assert!(!options.fit(Flags::ACK, 0));
    assert_eq!(options.network, Some(NetworkOption { forward: None, ..both }));
}

#[test]
fn fit_removes_misplaced_options() {
    let mut options =
        Options { sack: sack(1), arrivals: arrivals(1), probe_echo: Some(ProbeEcho { value: 1 }), ..syn() };
    options.ack_rate = Some(AckRate::each(1));
    assert!(!options.fit(Flags::SYN, 0));
    assert_eq!(options, syn());
    options.ack_rate_permitted = true;
    assert!(!options.fit(Flags::ACK, 0));
    assert_eq!(options, Options { timestamps: Some(TIMESTAMPS), ..Options::NONE });
    assert!(options.fit(Flags::ACK, 0));
}

#[test]
fn user_timeouts() {
    let bits = |secs| UserTimeout::from_span(Span::from_secs(secs)).map(UserTimeout::bits);
    assert_eq!(bits(0), None);
    assert_eq!(bits(1), Some(1));
    assert_eq!(bits(32_767), Some(32_767));
    assert_eq!(bits(32_768), Some(0x8000 | 547), "rounded up to minutes");
    assert_eq!(bits(u64::from(u16::MAX) * 60), Some(0xffff));
    assert_eq!(UserTimeout::from_span(Span::MAX).map(UserTimeout::bits), Some(0xffff));
    assert_eq!(UserTimeout::from_span(Span::from_millis(1)).map(UserTimeout::bits), Some(1));
    assert_eq!(UserTimeout::from_bits(0x8002).map(UserTimeout::span), Some(Span::from_secs(120)));
    assert_eq!(UserTimeout::from_bits(7).map(UserTimeout::span), Some(Span::from_secs(7)));
    assert_eq!(UserTimeout::from_bits(0x8000), None);
}

/// Tags are compared as they are, and the two highest bits of the counter's word are the step.
#[test]
fn a_move_has_24_bytes_and_displaces_blocks() {
    let moving = MoveOption { step: MoveStep::Answer, value: [1, 2, 3, 4, 5, 6, 7, 8], counter: 5, tag: [9; 8] };
    let mut options = Options { timestamps: Some(TIMESTAMPS), moving: Some(moving), ..Options::NONE };
    let expected = [253, 24, 0x4c, 0x4d, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0, 0, 5, 9, 9, 9, 9, 9, 9, 9, 9];
    assert_eq!(bytes(&options)[12..], expected);
    let body = |word: u32| [&[0; 8][..], &word.to_be_bytes(), &[0; 8]].concat();
    assert_eq!(MoveOption::parse(&body(u32::MAX)), None, "the fourth step is not defined");
    let parsed = [0, u32::MAX >> 2, 1 << 30].map(|word| MoveOption::parse(&body(word)).map(|m| (m.step, m.counter)));
    assert_eq!(
        parsed,
        [Some((MoveStep::Claim, 0)), Some((MoveStep::Claim, MoveOption::MAX_COUNTER)), Some((MoveStep::Challenge, 0))]
    );
    assert_eq!([19, 21].map(|len| MoveOption::parse(&vec![0; len])), [None; 2]);
    options.sack = sack(3);
    assert!(!options.fit(Flags::ACK, 17_000));
    assert_eq!((options.sack.len(), options.moving), (0, Some(moving)));
    assert!(!options.fit(Flags::SYN, 0) && options.moving.is_none());
}
