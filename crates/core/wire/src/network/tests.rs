use longhaul_units::Rate;
use proptest::prelude::*;

use super::*;
use crate::{CheshireCodec, Codec, Flags, Header};

/// Rates of RFC 4782, table 1, in kb/s.
const TABLE: [u64; 16] =
    [0, 80, 160, 320, 640, 1_280, 2_560, 5_120, 10_240, 20_480, 40_960, 81_920, 163_840, 327_680, 655_360, 1_310_720];

#[test]
fn quick_start_rates() {
    for (code, kbps) in (0..=15).zip(TABLE) {
        let rate = Rate::from_bits_per_sec(kbps * 1000);
        let coded = QuickStartRate::from_code(code);
        assert_eq!((coded.code(), coded.rate()), (code, rate));
        assert_eq!((QuickStartRate::at_most(rate), QuickStartRate::at_least(rate)), (coded, coded), "{code}");
        let more = Rate::from_bytes_per_sec(rate.as_bytes_per_sec() + 1);
        assert_eq!((QuickStartRate::at_most(more), QuickStartRate::at_least(more).code()), (coded, (code + 1).min(15)));
        if code > 0 {
            let less = Rate::from_bytes_per_sec(rate.as_bytes_per_sec() - 1);
            assert_eq!((QuickStartRate::at_most(less).code(), QuickStartRate::at_least(less)), (code - 1, coded));
        }
    }
}

#[test]
fn a_router_rounds_down_and_a_sender_up() {
    let rate = Rate::from_bits_per_sec(100_000);
    assert_eq!(QuickStartRate::at_most(rate).code(), 1);
    assert_eq!(QuickStartRate::at_least(rate).code(), 2);
    assert_eq!(QuickStartRate::at_most(Rate::from_bits_per_sec(79_000)), QuickStartRate::ZERO);
    assert_eq!(QuickStartRate::at_least(Rate::from_bytes_per_sec(1)).code(), 1);
    assert_eq!(QuickStartRate::at_least(Rate::ZERO), QuickStartRate::ZERO);
    assert_eq!(QuickStartRate::at_least(Rate::MAX), QuickStartRate::MAX);
}

/// RFC 4782, section 3.4: lowering 15 to 14 changes the leftmost two bits, lowering 1 to 0 the rightmost two.
#[test]
fn nonce_pairs() {
    let nonce = QuickStartNonce::new(0);
    let ones = u32::MAX;
    let lowered = |from, to| nonce.lowered(QuickStartRate::from_code(from), QuickStartRate::from_code(to), ones).get();
    assert_eq!(lowered(15, 14), 0x3000_0000);
    assert_eq!(lowered(1, 0), 0x0000_0003);
    assert_eq!(lowered(5, 3), 0x0000_03c0);
    assert_eq!(lowered(5, 5), 0);
}

proptest! {
    #[test]
    fn an_honest_nonce_approves_and_replaced_pairs_refute_a_higher_claim(
        bits in any::<u32>(), random in any::<u32>(), from in 0_u8..16, to in 0_u8..16,
    ) {
        let (from, to) = (QuickStartRate::from_code(from.max(to)), QuickStartRate::from_code(from.min(to)));
        let nonce = QuickStartNonce::new(bits);
        let answer = nonce.lowered(from, to, random);
        prop_assert!(nonce.approves(to, answer));
        let all_flipped = nonce.lowered(from, to, !bits);
        for claim in to.code() + 1..=from.code() {
            prop_assert!(!nonce.approves(QuickStartRate::from_code(claim), all_flipped));
        }
    }

    #[test]
    fn rates_survive_within_their_precision(rate in any::<u64>(), shift in 0_u32..64) {
        let rate = rate >> shift;
        let wire = WireRate::new(Rate::from_bytes_per_sec(rate));
        let read = wire.rate().as_bytes_per_sec();
        prop_assert!(u128::from(read.abs_diff(rate)) << 26 <= u128::from(rate));
        if rate < 1 << 26 {
            prop_assert_eq!(read, rate);
        }
        prop_assert_eq!(WireRate::new(wire.rate()), wire);
    }

    #[test]
    fn deltas_survive_within_their_precision(delta in any::<i64>(), shift in 0_u32..64) {
        let delta = delta >> shift;
        let read = WireDelta::new(delta).bytes_per_sec();
        prop_assert!(u128::from(read.abs_diff(delta)) << 25 <= u128::from(delta.unsigned_abs()));
        prop_assert_eq!(read.signum(), delta.signum());
        if delta.unsigned_abs() < 1 << 25 {
            prop_assert_eq!(read, delta);
        }
    }

    #[test]
    fn any_bits_decode_to_an_encodable_number(bits in any::<u32>()) {
        let rate = WireRate(bits).rate();
        prop_assert_eq!(WireRate::new(rate).rate(), rate);
        let delta = WireDelta(bits).bytes_per_sec();
        let again = WireDelta::new(delta).bytes_per_sec();
        // Decoding saturates at i64::MAX, which has no exact encoding.
        prop_assert!(again == delta || delta.abs() == i64::MAX);
    }
}

#[test]
fn no_limit() {
    assert_eq!(WireRate::UNLIMITED.rate(), Rate::MAX);
    assert_eq!(WireRate::new(Rate::MAX), WireRate::UNLIMITED);
    assert_eq!(format!("{:?}", WireRate::UNLIMITED), "unlimited");
    assert_eq!(format!("{:?}", WireDelta::new(-12)), "-12 B/s");
}

fn rcp(ttl: u8, stamps: u8) -> Forward {
    let rate = WireRate::new(Rate::from_bytes_per_sec(1_000_000));
    Forward { ttl, stamps, request: Request::Rcp { rate, rtt_micros: 130_000 } }
}

#[test]
fn feedback_fails_closed() {
    let granted = Some(Feedback::Rcp { rate: WireRate::new(Rate::from_bytes_per_sec(1_000_000)) });
    assert_eq!(rcp(64, 3).feedback(Some(61)), granted);
    assert_eq!(rcp(64, 1).feedback(Some(64)), granted, "an emulator that routes without touching the TTL");
    for (what, forward, ttl) in [
        ("a router did not stamp", rcp(64, 2), Some(61)),
        ("nobody stamped", rcp(64, 0), Some(61)),
        ("nobody stamped, nobody routed", rcp(64, 0), Some(64)),
        ("the TTL grew on the way", rcp(64, 3), Some(65)),
        ("the TTL is not known", rcp(64, 3), None),
    ] {
        assert_eq!(forward.feedback(ttl), Some(Feedback::Denied), "{what}");
    }
}

#[test]
fn quick_start_zero_is_a_denial_and_a_report_has_no_feedback() {
    let nonce = QuickStartNonce::new(7);
    let request = Request::QuickStart { rate: QuickStartRate::ZERO, nonce };
    assert_eq!(Forward { ttl: 64, stamps: 1, request }.feedback(Some(63)), Some(Feedback::Denied));
    let request = Request::QuickStartReport { rate: QuickStartRate::MAX, nonce };
    assert_eq!(Forward { ttl: 64, stamps: 1, request }.feedback(Some(63)), None);
}

fn datagram(network: NetworkOption) -> Vec<u8> {
    let mut header = Header { flags: Flags::ACK, ..Header::default() };
    header.options.network = Some(network);
    let mut out = vec![0; 60];
    let len = CheshireCodec::emit(&header, &mut out).unwrap();
    out.truncate(len);
    out.extend_from_slice(b"data");
    out
}

#[test]
fn a_router_edits_in_place() {
    let feedback = Some(Feedback::Denied);
    let mut bytes = datagram(NetworkOption { forward: Some(rcp(64, 0)), feedback });
    let less = WireRate::new(Rate::from_bytes_per_sec(1_000));
    let stamped = edit_forward(&mut bytes, |forward| {
        forward.stamps += 1;
        if let Request::Rcp { rate, .. } = &mut forward.request {
            *rate = less;
        }
    });
    assert!(stamped);
    let request = Request::Rcp { rate: less, rtt_micros: 130_000 };
    let expected = NetworkOption { forward: Some(Forward { ttl: 64, stamps: 1, request }), feedback };
    assert_eq!(bytes, datagram(expected));
}

#[test]
fn a_router_leaves_everything_else_alone() {
    let answer = NetworkOption { forward: None, feedback: Some(Feedback::Denied) };
    let mut bytes = datagram(answer);
    assert!(!edit_forward(&mut bytes, |_| ()));
    assert_eq!(bytes, datagram(answer));

    let request = NetworkOption { forward: Some(rcp(64, 0)), feedback: None };
    let mut bytes = datagram(request);
    let changed = edit_forward(&mut bytes, |forward| {
        forward.request = Request::QuickStart { rate: QuickStartRate::MAX, nonce: QuickStartNonce::new(1) };
    });
    assert!(!changed, "another kind of request");
    assert_eq!(bytes, datagram(request));

    for len in 0..bytes.len() - 4 {
        assert!(!edit_forward(&mut bytes[..len], |_| ()), "{len} bytes are no segment");
    }
}
