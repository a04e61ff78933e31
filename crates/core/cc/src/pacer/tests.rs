use proptest::prelude::*;

use super::*;

const MSS: Bytes = Bytes(1448);
const PLENTY: Bytes = Bytes(1 << 30);

fn paced(rate: Rate, quantum: Option<Bytes>) -> Pacer {
    let mut pacer = Pacer::new(Time::ZERO);
    pacer.set(Time::ZERO, Some(Pace { rate, quantum }), MSS);
    pacer
}

/// Sends all that is allowed at `now`. Returns the bytes, the number of batches, and the next due time.
fn drain(pacer: &mut Pacer, now: Time) -> (Bytes, usize, Time) {
    let (mut total, mut batches) = (Bytes::ZERO, 0);
    loop {
        match pacer.ready(now, PLENTY) {
            Ok(batch) => {
                assert!(batch <= pacer.quantum());
                pacer.sent(now, batch);
                total += batch;
                batches += 1;
            }
            Err(due) => return (total, batches, due),
        }
    }
}

#[test]
fn the_quantum_is_a_quarter_of_a_millisecond_within_two_segments_and_64_kib() {
    let quantum = |bits| paced(Rate::from_bits_per_sec(bits), None).quantum();
    assert_eq!(quantum(1_000), Bytes(2_896));
    assert_eq!(quantum(600_000_000), Bytes(18_750));
    assert_eq!(quantum(400_000_000_000), Bytes(65_536));
    let named = |bytes| paced(Rate::from_bits_per_sec(1_000), Some(Bytes(bytes))).quantum();
    assert_eq!((named(0), named(5_000), named(1 << 20)), (MSS, Bytes(5_000), Bytes(1 << 20)));
}

/// A burst larger than a batch leaves in several, without waiting for the bucket to be full again.
#[test]
fn a_large_quantum_leaves_in_batches() {
    let mut pacer = paced(Rate::from_bits_per_sec(8_000_000), Some(Bytes(200_000)));
    let (sent, batches, due) = drain(&mut pacer, Time::ZERO);
    assert_eq!((sent, batches), (Bytes(3 * 65_536), 3));
    assert_eq!(due - Time::ZERO, Span::from_micros(4 * 65_536 - 200_000));
}

#[test]
fn quanta_leave_at_the_spacing_of_the_rate() {
    // 8 Mbit/s is 1 byte/us.
    let mut pacer = paced(Rate::from_bits_per_sec(8_000_000), Some(Bytes(3_000)));
    let mut now = Time::ZERO;
    for _ in 0..100 {
        let (sent, batches, due) = drain(&mut pacer, now);
        assert_eq!((sent, batches, due - now), (Bytes(3_000), 1, Span::from_micros(3_000)));
        assert_eq!(pacer.ready(due - Span::from_nanos(1), PLENTY), Err(due));
        now = due;
    }
}

#[test]
fn a_short_segment_does_not_wait_for_a_whole_quantum() {
    let mut pacer = paced(Rate::from_bits_per_sec(8_000_000), Some(Bytes(3_000)));
    let (_, _, due) = drain(&mut pacer, Time::ZERO);
    assert_eq!(due, Time::ZERO + Span::from_micros(3_000));
    assert_eq!(pacer.ready(Time::ZERO, Bytes(100)), Err(Time::ZERO + Span::from_micros(100)));
    assert_eq!(pacer.ready(Time::ZERO + Span::from_micros(100), Bytes(100)), Ok(Bytes(100)));
}

#[test]
fn idleness_earns_one_quantum_and_no_more() {
    let mut pacer = paced(Rate::from_bits_per_sec(8_000_000), Some(Bytes(3_000)));
    drain(&mut pacer, Time::ZERO);
    // The wait ends in time, the sender sends what is allowed, and then has nothing to send for an hour.
    let due = Time::ZERO + Span::from_micros(3_000);
    assert_eq!(pacer.ready(due, PLENTY), Ok(Bytes(3_000)));
    pacer.sent(due, Bytes(3_000));
    let (sent, ..) = drain(&mut pacer, due + Span::from_secs(3_600));
    assert_eq!(sent, Bytes(3_000));
}

#[test]
fn a_late_wake_up_is_made_up_for_within_the_allowance() {
    let rate = Rate::from_bits_per_sec(600_000_000);
    let mut pacer = paced(rate, None);
    let (_, _, due) = drain(&mut pacer, Time::ZERO);
    // 1 ms late: the due quantum and four more of 250 us each.
    let (sent, batches, next) = drain(&mut pacer, due + Span::from_millis(1));
    assert_eq!((sent, batches), (Bytes(5 * 18_750), 5));
    assert_eq!(next - due, Span::from_micros(1_250));
    // 10 ms late: the same amount, limited by the allowance.
    let (sent, ..) = drain(&mut pacer, next + Span::from_millis(10));
    assert_eq!(sent, Bytes(5 * 18_750));
    pacer.set_lateness(Span::ZERO);
    let (_, _, next) = drain(&mut pacer, next + Span::from_millis(12));
    assert_eq!(drain(&mut pacer, next + Span::from_millis(1)).0, Bytes(18_750));
}

/// A sender that may send but waits for its turn has missed what the rate releases until then.
#[test]
fn a_late_turn_is_made_up_for_like_a_late_wake_up() {
    let mut pacer = paced(Rate::from_bits_per_sec(600_000_000), None);
    let turn = Time::ZERO + Span::from_millis(1);
    let mut idle = pacer.clone();
    assert_eq!(drain(&mut idle, turn).0, Bytes(18_750), "a sender that had nothing to send");
    pacer.wait(Time::ZERO, PLENTY);
    // The quantum that it could have sent, and four more.
    assert_eq!(drain(&mut pacer, turn).0, Bytes(5 * 18_750));
}

/// Turns that come at once do not show that timers are exact.
#[test]
fn turns_teach_nothing_about_timers() {
    let mut pacer = paced(Rate::from_bits_per_sec(600_000_000), None);
    let mut now = Time::ZERO;
    for _ in 0..20 {
        let (_, _, due) = drain(&mut pacer, now);
        now = due + Span::from_millis(10);
        pacer.wait(now, PLENTY);
        pacer.wait(now, PLENTY);
    }
    assert_eq!(drain(&mut pacer, now).0, Bytes(41 * 18_750), "the quantum that was due, and 10 ms");
}

/// With timers in multiples of 1/64 s, as on some systems, any rate is reached once the pacer has learnt the
/// lateness. A sender that is late only once gets no more than 1 ms.
#[test]
fn the_rate_is_reached_under_a_coarse_timer() {
    const TICK: u64 = 15_625_000;
    for megabits in [1, 8, 50, 600, 9_000] {
        let rate = Rate::from_bits_per_sec(megabits * 1_000_000);
        let mut pacer = paced(rate, None);
        let (mut now, mut total, mut begin) = (Time::ZERO, Bytes::ZERO, Time::ZERO);
        for wake in 0..1_000 {
            let (sent, _, due) = drain(&mut pacer, now);
            // The first quantum does not wait; the eight waits of the first block take effect after sixteen ticks.
            if wake == 16 {
                (total, begin) = (Bytes::ZERO, now);
            } else {
                total += sent;
            }
            now = Time::ZERO + Span::from_nanos(due.as_nanos().next_multiple_of(TICK));
        }
        total += drain(&mut pacer, now).0;
        let part = total.as_f64() / rate.bytes_in(now - begin).as_f64();
        assert!((0.99..1.01).contains(&part), "{megabits} Mb/s: {part}");
    }
}

/// One batch of several quanta carries as much as several batches.
#[test]
fn missed_quanta_may_leave_in_one_batch() {
    let mut pacer = paced(Rate::from_bits_per_sec(600_000_000), None);
    let (_, _, due) = drain(&mut pacer, Time::ZERO);
    for late in [0, 300, 1_000, 5_000] {
        let now = due + Span::from_micros(late);
        let mut one_by_one = pacer.clone();
        let mut spent = one_by_one.clone().ready(now, PLENTY).unwrap();
        let mut at_once = pacer.clone();
        assert_eq!(at_once.ready(now, PLENTY), Ok(spent));
        loop {
            match at_once.more(spent, PLENTY) {
                Bytes::ZERO => break,
                more => spent += more,
            }
        }
        assert_eq!(drain(&mut one_by_one, now).0, spent, "{late} us");
        assert_eq!(at_once.more(spent, Bytes(1)), if late == 300 { Bytes(1) } else { Bytes::ZERO }, "{late} us");
    }
    assert_eq!(Pacer::new(Time::ZERO).more(Bytes(1), PLENTY), Bytes::ZERO, "without a rate there is no lateness");
}

#[test]
fn credit_for_lateness_expires_when_the_sender_falls_idle() {
    let mut pacer = paced(Rate::from_bits_per_sec(600_000_000), None);
    let (_, _, due) = drain(&mut pacer, Time::ZERO);
    let late = due + Span::from_millis(1);
    assert_eq!(pacer.ready(late, PLENTY), Ok(Bytes(18_750)));
    pacer.sent(late, Bytes(18_750));
    // A driver that reads its clock again between two batches may still use the remaining credit.
    let mut soon = pacer.clone();
    assert!(drain(&mut soon, late + Span::from_micros(20)).0 >= Bytes(4 * 18_750));
    assert_eq!(drain(&mut pacer, late + Span::from_secs(1)).0, Bytes(18_750));
}

#[test]
fn what_was_sent_beyond_the_allowance_is_paid_back() {
    let mut pacer = paced(Rate::from_bits_per_sec(8_000_000), Some(Bytes(3_000)));
    pacer.sent(Time::ZERO, Bytes(10_000));
    assert_eq!(pacer.ready(Time::ZERO, PLENTY), Err(Time::ZERO + Span::from_micros(10_000)));
}

#[test]
fn the_limit_starts_from_the_last_unlimited_send() {
    let mut pacer = Pacer::new(Time::ZERO);
    let now = Time::ZERO + Span::from_secs(1);
    assert_eq!(pacer.ready(now, PLENTY), Ok(Bytes(65_536)));
    assert_eq!(pacer.ready(now, Bytes(7)), Ok(Bytes(7)));
    pacer.sent(now, Bytes(1_000_000));
    let pace = Pace { rate: Rate::from_bits_per_sec(8_000_000), quantum: Some(Bytes(3_000)) };
    let later = now + Span::from_micros(1_000);
    pacer.set(later, Some(pace), MSS);
    assert_eq!(pacer.ready(later, PLENTY), Err(now + Span::from_micros(3_000)));
    pacer.set(later, None, MSS);
    assert_eq!(pacer.ready(later, PLENTY), Ok(Bytes(65_536)));
}

#[test]
fn a_new_rate_earns_from_its_own_time_on() {
    let slow = Pace { rate: Rate::from_bits_per_sec(8_000_000), quantum: Some(Bytes(3_000)) };
    let mut pacer = Pacer::new(Time::ZERO);
    pacer.set(Time::ZERO, Some(slow), MSS);
    drain(&mut pacer, Time::ZERO);
    // 1,000 bytes in the first millisecond, the other 2,000 ten times as fast.
    let now = Time::ZERO + Span::from_millis(1);
    pacer.set(now, Some(Pace { rate: Rate::from_bits_per_sec(80_000_000), ..slow }), MSS);
    assert_eq!(pacer.ready(now, PLENTY), Err(now + Span::from_micros(200)));
}

#[test]
fn extremes_do_not_overflow() {
    let mut still = paced(Rate::ZERO, None);
    drain(&mut still, Time::ZERO);
    assert_eq!(still.ready(Time::from_nanos(u64::MAX - 1), PLENTY), Err(Time::MAX));
    let mut boundless = paced(Rate::MAX, Some(Bytes::MAX));
    boundless.sent(Time::ZERO, Bytes::MAX);
    boundless.sent(Time::ZERO, Bytes::MAX);
    assert!(boundless.ready(Time::ZERO, PLENTY).is_err());
    assert_eq!(boundless.ready(Time::MAX, Bytes::MAX), Ok(QUANTUM_MAX));
    // A clock that steps back earns no credit.
    boundless.sent(Time::MAX, Bytes::MAX);
    boundless.sent(Time::MAX, Bytes::MAX);
    assert_eq!(boundless.ready(Time::ZERO, Bytes::MAX), Err(Time::MAX));
}

/// 1 kbit/s to 400 Gbit/s, with every order of magnitude equally likely.
fn any_rate() -> impl Strategy<Value = Rate> {
    (7u32..36, any::<u64>()).prop_map(|(bits, random)| {
        let low = (1u64 << bits) - 1;
        Rate::from_bytes_per_sec((low + (random & low)).clamp(125, 50_000_000_000))
    })
}

#[derive(Clone, Debug)]
enum Step {
    /// Wakes up this long after the due time and sends all that is allowed.
    Late(u64),
    /// Wakes up before the due time.
    Early(u64),
    /// Has its turn this long after it was ready to send.
    Turn(u64),
    /// Has nothing to send for a while.
    Idle(u64),
    /// Has only this much to send.
    Little(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Late(0)),
        3 => (0u64..3_000_000).prop_map(Step::Late),
        1 => any::<u64>().prop_map(Step::Early),
        2 => (0u64..3_000_000).prop_map(Step::Turn),
        1 => (0u64..5_000_000_000).prop_map(Step::Idle),
        2 => (0u64..2_000_000, 1u64..200_000).prop_map(|(span, bytes)| Step::Little(span, bytes)),
    ]
}

/// Returns the bytes sent at each wake-up.
fn play(pacer: &mut Pacer, steps: Vec<Step>) -> Vec<(Time, Bytes)> {
    let (mut now, mut sends) = (Time::ZERO, Vec::new());
    for step in steps {
        let due = pacer.clone().ready(now, PLENTY).err().unwrap_or(now);
        let want = match step {
            Step::Late(span) => {
                // The sender asked, got `due`, and waited.
                let _ = pacer.ready(now, PLENTY);
                now = due + Span::from_nanos(span);
                PLENTY
            }
            Step::Turn(span) => {
                pacer.wait(now, PLENTY);
                now += Span::from_nanos(span);
                PLENTY
            }
            Step::Early(fraction) => {
                now += Span::from_nanos(fraction.checked_rem((due - now).as_nanos()).unwrap_or(0));
                PLENTY
            }
            Step::Idle(span) => {
                now += Span::from_nanos(span);
                continue;
            }
            Step::Little(span, bytes) => {
                now += Span::from_nanos(span);
                Bytes(bytes)
            }
        };
        let mut left = want;
        while left > Bytes::ZERO
            && let Ok(batch) = pacer.ready(now, left)
        {
            assert!(batch <= pacer.quantum());
            pacer.sent(now, batch);
            left -= batch;
        }
        sends.push((now, want - left));
    }
    sends
}

proptest! {
    #[test]
    fn no_interval_carries_more_than_rate_times_length_plus_burst(
        rate in any_rate(),
        lateness in prop_oneof![Just(0u64), 0u64..2_000_000],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut pacer = paced(rate, None);
        pacer.set_lateness(Span::from_nanos(lateness));
        let quantum = pacer.quantum();
        let sends = play(&mut pacer, steps);
        for first in 0..sends.len() {
            let mut total = Bytes::ZERO;
            for &(at, bytes) in &sends[first..] {
                total += bytes;
                let span = at - sends[first].0 + Span::from_nanos(lateness + 1);
                // The bound is rounded up by at most one byte.
                prop_assert!(total <= rate.bytes_in(span) + quantum + Bytes(1), "{total} in {span}");
            }
        }
    }

    #[test]
    fn polled_when_due_the_rate_is_exact(rate in any_rate(), quantum in prop::option::of(1u64..=65_536)) {
        let mut pacer = paced(rate, quantum.map(Bytes));
        let (mut now, mut total) = (Time::ZERO, Bytes::ZERO);
        for _ in 0..2_000 {
            let (sent, batches, due) = drain(&mut pacer, now);
            prop_assert_eq!(batches, 1);
            total += sent;
            now = due;
        }
        // After the first quantum, which does not wait, the rate is exact up to one nanosecond.
        let ideal = rate.bytes_in(now - Time::ZERO) + Bytes(1);
        prop_assert!(total <= ideal, "{} of {}", total, ideal);
        prop_assert!(total + rate.bytes_in(Span::from_nanos(1)) + Bytes(2) >= ideal, "{} of {}", total, ideal);
    }

    #[test]
    fn wake_ups_late_within_the_allowance_do_not_lower_the_rate(
        rate in any_rate(),
        late in prop::collection::vec(0u64..1_000_000, 500),
    ) {
        let mut pacer = paced(rate, None);
        let (mut now, mut total) = (Time::ZERO, Bytes::ZERO);
        for span in late {
            let (sent, _, due) = drain(&mut pacer, now);
            total += sent;
            now = due + Span::from_nanos(span);
        }
        total += drain(&mut pacer, now).0;
        // At most the quantum that is being earned is missing.
        prop_assert!(total >= rate.bytes_in(now - Time::ZERO), "{} in {}", total, now);
    }
}
