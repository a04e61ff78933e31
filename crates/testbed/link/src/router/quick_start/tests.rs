use proptest::prelude::*;

use super::*;

const MBIT: u64 = 125_000;

fn view(rate: u64) -> View {
    View { rate: Some(Rate::from_bytes_per_sec(rate)), packets: 0, bytes: 0 }
}

fn router(config: QuickStartConfig) -> QuickStart {
    QuickStart::new(config, Random::new(1, 0))
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn forward(rate: u8, nonce: u32) -> Forward {
    let request = Request::QuickStart { rate: QuickStartRate::from_code(rate), nonce: QuickStartNonce::new(nonce) };
    Forward { ttl: 64, stamps: 0, request }
}

fn fields(forward: &Forward) -> (u8, u32) {
    match forward.request {
        Request::QuickStart { rate, nonce } => (rate.code(), nonce.get()),
        other => panic!("{other:?}"),
    }
}

/// Returns the rate code to which a request for the highest rate is reduced.
fn granted(router: &mut QuickStart, now: Time, rate: u64) -> u8 {
    let mut forward = forward(15, 0);
    router.answer(now, &view(rate), &mut forward);
    fields(&forward).0
}

/// Sends `bytes` evenly over a slot of 150 ms.
fn load(router: &mut QuickStart, slot: u64, bytes: u64) {
    router.sends(at(150 * slot), at(150 * slot + 150), bytes);
    router.sends(at(150 * slot + 150), at(150 * slot + 150), 0);
}

/// Returns the highest N for which 40 kb/s x 2^N fits between load and threshold (RFC 4782, table 1 and appendix D).
fn code(rate: u64, threshold: f64, load: f64) -> u8 {
    let room = (threshold - load) * rate as f64 * 8.0;
    (1..=15).take_while(|n| 40_000.0 * f64::from(1 << n) <= room).last().unwrap_or(0)
}

#[test]
fn the_grant_is_what_the_load_leaves_below_the_threshold() {
    for (rate, percent, expected) in [
        // 85 of 100 Mb/s are free; the next lower rate is 81.92 Mb/s.
        (100, 0, 11),
        (100, 50, 9),
        (100, 80, 6),
        (100, 84, 4),
        (100, 85, 0),
        (100, 100, 0),
        (1, 0, 4),
        (1, 80, 0),
        (10_000, 10, 15),
    ] {
        let mut router = router(QuickStartConfig::default());
        load(&mut router, 0, rate * MBIT * percent / 100 * 150 / 1000);
        assert_eq!(granted(&mut router, at(151), rate * MBIT), expected, "{rate} Mb/s, {percent} %");
        assert_eq!(code(rate * MBIT, 0.85, percent as f64 / 100.0), expected, "the formula");
    }
}

#[test]
fn the_highest_of_the_last_slots_counts() {
    let config = QuickStartConfig { slots: 3, ..QuickStartConfig::default() };
    let full = 100 * MBIT * 150 / 1000;
    for (slot, expected) in [(1, 8), (2, 8), (3, 8), (4, 8), (5, 11), (6, 11)] {
        let mut router = router(config);
        // Load of 55 % in slot 1 and 10 % in slot 2: 30 Mb/s are left, later 75 Mb/s.
        load(&mut router, 1, full * 55 / 100);
        load(&mut router, 2, full / 10);
        let code = granted(&mut router, at(150 * slot + 1), 100 * MBIT);
        // Load in the slot of the request itself does not count until the slot is over.
        let expected = if slot == 1 { 11 } else { expected + u8::from(slot < 5) };
        assert_eq!(code, expected.min(if slot == 5 { 10 } else { 11 }), "slot {slot}");
    }
}

#[test]
fn bytes_count_in_the_slots_they_are_sent_in() {
    // 1500 bytes take 1.2 s from the middle of slot 0: 93.75 bytes in slots 0 and 8, and 187.5 in each slot between.
    let mut slots = Slots::new(Span::from_millis(150), 100);
    slots.spread(at(75), at(1275), 1500);
    assert_eq!(slots.before(9).collect::<Vec<_>>(), [93, 188, 187, 188, 187, 188, 187, 188, 94]);
    assert_eq!(slots.before(9).sum::<u64>(), 1500);
    // Only the latest slots are kept, however long the transmission took.
    let mut slots = Slots::new(Span::from_millis(1), 3);
    slots.spread(at(0), at(1_000_000_000), 1_000_000_000);
    assert_eq!(slots.before(1_000_000_000).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn grants_of_two_intervals_count_as_load() {
    let mut router = router(QuickStartConfig::default());
    let rate = 100 * MBIT;
    // 81.92 of 85 Mb/s are granted; of the remaining 3.08, 2.56 Mb/s is the next rate.
    assert_eq!(granted(&mut router, at(10), rate), 11);
    assert_eq!(granted(&mut router, at(20), rate), 6);
    // 0.32 of the remaining 0.52 Mb/s are granted, and then 0.16 of 0.2 Mb/s.
    assert_eq!((granted(&mut router, at(149), rate), granted(&mut router, at(150), rate)), (3, 2));
    assert_eq!(granted(&mut router, at(299), rate), 0);
    // In the third interval, the grants of the first no longer count; the 0.16 Mb/s of the second still do.
    assert_eq!(granted(&mut router, at(300), rate), 11);
}

/// RFC 4782, table 2: a reduction from N to N - 1 randomizes bits 30 - 2N and 31 - 2N of 30, counted from the left.
#[test]
fn each_step_changes_its_own_two_bits() {
    for from in 2..=15u8 {
        let room = QuickStartRate::from_code(from - 1).rate();
        let config = QuickStartConfig { threshold: 1.0, intervals: 1, ..QuickStartConfig::default() };
        let mut router = router(config);
        let own = 0b11 << (28 - 2 * (15 - u32::from(from)));
        let mut seen = std::collections::BTreeSet::new();
        for turn in 0..128 {
            let nonce = if turn % 2 == 0 { 0x3fff_ffff } else { 0 };
            let mut forward = forward(from, nonce);
            let answer = router.answer(at(1000 * turn), &view(room.as_bytes_per_sec()), &mut forward);
            let (rate, lowered) = fields(&forward);
            assert_eq!((answer, rate, forward.ttl), (Answer::Lowered, from - 1, 64));
            assert_eq!((lowered ^ nonce) & !own, 0, "{from}: {nonce:030b} {lowered:030b}");
            seen.insert((nonce, lowered & own));
        }
        assert_eq!(seen.len(), 8, "both bits are random, whatever they were");
    }
    // A router turns the last step into a denial, which clears the nonce; the step itself randomizes the last two
    // bits.
    let (one, zero) = (QuickStartRate::from_code(1), QuickStartRate::ZERO);
    let nonce = QuickStartNonce::new(0x2aaa_aaaa);
    assert_eq!(nonce.lowered(one, zero, u32::MAX).get() ^ nonce.get(), 0b01);
    assert_eq!(nonce.lowered(one, zero, 0).get() ^ nonce.get(), 0b10);
}

#[test]
fn a_denial_is_all_zeros() {
    let mut router = router(QuickStartConfig::default());
    let mut forward = forward(1, 0x1234_5678);
    // 80 kb/s fit into 85 % of 94.12 kb/s, and into no less.
    assert_eq!(router.answer(at(0), &view(11_764), &mut forward), Answer::Denied);
    assert_eq!((fields(&forward), forward.ttl, forward.stamps), ((0, 0), 0, 0));
    let mut forward = self::forward(1, 7);
    assert_eq!(router.answer(at(0), &view(11_766), &mut forward), Answer::Granted);
    assert_eq!(fields(&forward), (1, 7));
}

#[test]
fn a_link_without_a_rate_grants_everything() {
    let mut router = router(QuickStartConfig::default());
    let mut forward = forward(15, 7);
    let unlimited = View { rate: None, packets: 0, bytes: 0 };
    for _ in 0..3 {
        assert_eq!(router.answer(at(0), &unlimited, &mut forward), Answer::Granted);
    }
    assert_eq!(fields(&forward), (15, 7));
}

#[test]
fn requests_of_other_kinds_pass_unchanged() {
    let mut router = router(QuickStartConfig::default());
    let nonce = QuickStartNonce::new(5);
    let rate = QuickStartRate::MAX;
    for request in [
        Request::QuickStartReport { rate, nonce },
        Request::QuickStart { rate: QuickStartRate::ZERO, nonce },
        Request::Rcp { rate: longhaul_wire::network::WireRate::UNLIMITED, rtt_micros: 1 },
    ] {
        let before = Forward { ttl: 9, stamps: 3, request };
        let mut forward = before;
        assert_eq!(router.answer(at(0), &view(1), &mut forward), Answer::Passed);
        assert_eq!(forward, before);
    }
}

proptest! {
    #[test]
    fn grants_never_exceed_the_question_nor_all_grants_the_room(
        rate in prop_oneof![1..u64::MAX, 1..100_000_000u64],
        threshold in 0.0..=1.0f64,
        questions in prop::collection::vec((0..1_000_000_000u64, 0..40_000u64, 0..=15u8, any::<u32>()), 1..40),
    ) {
        let mut router = router(QuickStartConfig { threshold, ..QuickStartConfig::default() });
        let (mut now, mut recent) = (0u64, Vec::<(u64, u64)>::new());
        for (pause, bytes, asked, nonce) in questions {
            now += pause;
            let time = Time::from_nanos(now);
            let ends = time + Rate::from_bytes_per_sec(rate).time_for(Bytes(bytes));
            router.sends(time, ends, bytes);
            let nonce = nonce & 0x3fff_ffff;
            let mut forward = forward(asked, nonce);
            let answer = router.answer(time, &view(rate), &mut forward);
            let (granted, left) = fields(&forward);
            prop_assert!(granted <= asked);
            match answer {
                Answer::Granted => prop_assert_eq!((granted, left), (asked, nonce)),
                Answer::Lowered => {
                    // The bits of the steps not taken are unchanged.
                    let below = (1u32 << (2 * granted)) - 1;
                    let above = !((1u32 << (2 * asked)) - 1);
                    prop_assert!(granted < asked && (left ^ nonce) & (below | above) == 0);
                }
                Answer::Denied => prop_assert_eq!((granted, left), (0, 0)),
                Answer::Passed => prop_assert_eq!((asked, left), (0, nonce)),
            }
            let interval = now / 150_000_000;
            recent.retain(|(other, _)| other + 2 > interval);
            if answer != Answer::Passed {
                recent.push((interval, QuickStartRate::from_code(granted).rate().as_bytes_per_sec()));
            }
            let sum: u64 = recent.iter().map(|(_, rate)| rate).sum();
            prop_assert!(sum as f64 <= threshold * rate as f64 * (1.0 + 1e-9), "{} of {}", sum, rate);
            now = now.max(ends.as_nanos().min(u64::MAX / 4));
        }
    }
}
