use std::collections::{BTreeMap, BTreeSet};

use longhaul_units::{Span, Time};
use proptest::prelude::*;

use super::*;

/// Reference model: the same timers as an ordered map.
#[derive(Default)]
struct Model {
    order: BTreeSet<(Time, u64, u32)>,
    timers: BTreeMap<u32, (Time, u64)>,
    seq: u64,
}

impl Model {
    fn set(&mut self, id: u32, at: Time) {
        if self.timers.get(&id).is_some_and(|&(old, _)| old == at) {
            return;
        }
        self.cancel(id);
        self.order.insert((at, self.seq, id));
        self.timers.insert(id, (at, self.seq));
        self.seq += 1;
    }

    fn cancel(&mut self, id: u32) {
        if let Some((at, seq)) = self.timers.remove(&id) {
            self.order.remove(&(at, seq, id));
        }
    }

    fn next(&self) -> Option<Time> {
        self.order.first().map(|&(at, ..)| at)
    }

    fn pop_expired(&mut self, now: Time) -> Option<u32> {
        let &(at, _, id) = self.order.first()?;
        (at <= now).then(|| {
            self.cancel(id);
            id
        })
    }
}

/// Checks that every timer is in the place that its deadline determines, and that every count is right.
fn check(timers: &TimerWheel) {
    let linked = timers.wheel.as_ref().map_or(0, |wheel| check_wheel(timers, wheel));
    for (index, &id) in timers.front.iter().enumerate() {
        assert_eq!(timers.entries[id as usize].place as usize, index);
        assert!(timers.entries[id as usize].tick() < timers.horizon);
        assert!(timers.key(index.saturating_sub(1) / 2) <= timers.key(index));
    }
    assert!(linked == 0 || !timers.front.is_empty());
    assert_eq!(timers.len(), linked + timers.front.len());
}

/// Checks the wheel alone, and returns how many timers it has.
fn check_wheel(timers: &TimerWheel, wheel: &Wheel) -> usize {
    let mut linked = 0;
    for level in 0..LEVELS {
        let mut on_level = 0;
        for index in 0..SLOTS {
            let mut id = wheel.heads[level][index];
            assert_eq!(wheel.occupied[level] >> index & 1 == 1, id != NIL);
            let mut prev = NIL;
            while id != NIL {
                let entry = &timers.entries[id as usize];
                assert_eq!((entry.place, entry.prev), (IN_WHEEL, prev));
                assert!(entry.tick() >= timers.horizon && entry.tick() >= wheel.anchor);
                assert_eq!(wheel.slot(entry.tick()), (level, index));
                on_level += 1;
                prev = id;
                id = entry.next;
            }
        }
        assert_eq!(wheel.count[level], on_level);
        linked += on_level;
    }
    linked
}

#[derive(Clone, Debug)]
enum Op {
    /// Deadline relative to the current time.
    Set(u32, i64),
    SetAt(u32, u64),
    Cancel(u32),
    /// Lets time pass and pops everything due.
    Advance(u64),
    /// Pops only a few of the expired timers.
    PopSome(u64, u8),
    ToNext,
}

fn span() -> impl Strategy<Value = u64> {
    // Every order of magnitude is equally likely, so that every level is used.
    (0u32..63, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
}

fn op(ids: u32) -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..ids, span()).prop_map(|(id, span)| Op::Set(id, span as i64)),
        4 => (0..ids, 0i64..3_000_000).prop_map(|(id, near)| Op::Set(id, near)),
        1 => (0..ids, 0i64..3_000_000).prop_map(|(id, past)| Op::Set(id, -past)),
        // Equal deadlines.
        4 => (0..ids, 0i64..3).prop_map(|(id, near)| Op::Set(id, near * 500_000)),
        1 => (0..ids, prop_oneof![Just(u64::MAX), Just(u64::MAX - 1), Just(0), any::<u64>()])
            .prop_map(|(id, at)| Op::SetAt(id, at)),
        3 => (0..ids).prop_map(Op::Cancel),
        3 => (0u64..5_000_000).prop_map(Op::Advance),
        1 => span().prop_map(Op::Advance),
        2 => (0u64..5_000_000, 0u8..4).prop_map(|(span, pops)| Op::PopSome(span, pops)),
        3 => Just(Op::ToNext),
    ]
}

fn run(start: u64, ops: Vec<Op>) {
    let mut now = Time::from_nanos(start);
    let (mut wheel, mut model) = (TimerWheel::new(now), Model::default());
    for op in ops {
        match op {
            Op::Set(id, offset) => {
                let at = Time::from_nanos(now.as_nanos().saturating_add_signed(offset));
                wheel.set(id, at);
                model.set(id, at);
                assert_eq!(wheel.deadline(id), Some(at));
            }
            Op::SetAt(id, at) => {
                wheel.set(id, Time::from_nanos(at));
                model.set(id, Time::from_nanos(at));
            }
            Op::Cancel(id) => {
                wheel.cancel(id);
                model.cancel(id);
                assert_eq!(wheel.deadline(id), None);
            }
            Op::Advance(span) => {
                now += Span::from_nanos(span);
                pop(&mut wheel, &mut model, now, usize::MAX);
            }
            Op::PopSome(span, pops) => {
                now += Span::from_nanos(span);
                pop(&mut wheel, &mut model, now, usize::from(pops));
            }
            Op::ToNext => {
                now = now.max(model.next().unwrap_or(now));
                pop(&mut wheel, &mut model, now, usize::MAX);
            }
        }
        assert_eq!(wheel.next(), model.next());
        assert_eq!((wheel.len(), wheel.is_empty()), (model.timers.len(), model.timers.is_empty()));
        check(&wheel);
    }
    pop(&mut wheel, &mut model, Time::MAX, usize::MAX);
    assert!(wheel.is_empty());
}

fn pop(wheel: &mut TimerWheel, model: &mut Model, now: Time, most: usize) {
    for _ in 0..most {
        let (popped, expected) = (wheel.pop_expired(now), model.pop_expired(now));
        assert_eq!(popped, expected);
        if popped.is_none() {
            break;
        }
    }
}

proptest! {
    #[test]
    fn equals_an_ordered_map(start in span(), ops in prop::collection::vec(op(12), 0..200)) {
        run(start, ops);
    }

    #[test]
    fn equals_an_ordered_map_when_crowded(start in span(), ops in prop::collection::vec(op(400), 0..900)) {
        run(start, ops);
    }
}

#[test]
fn equal_deadlines_expire_in_the_order_set_whatever_their_number() {
    let mut wheel = TimerWheel::new(Time::ZERO);
    let at = Time::from_nanos(200_000_000);
    let order: Vec<u32> = (0..5_000).map(|index| (index * 2_741) % 5_000).collect();
    for &id in &order {
        wheel.set(id, at);
    }
    assert_eq!(wheel.pop_expired(at - Span::from_nanos(1)), None);
    let popped: Vec<u32> = core::iter::from_fn(|| wheel.pop_expired(at)).collect();
    assert_eq!(popped, order);
}

#[test]
fn a_moved_timer_goes_behind_its_equals_and_an_unmoved_one_stays() {
    let (early, late) = (Time::from_nanos(5), Time::from_nanos(9));
    let mut wheel = TimerWheel::new(Time::ZERO);
    wheel.set(0, early);
    wheel.set(1, late);
    wheel.set(2, late);
    wheel.set(1, late);
    wheel.set(0, late);
    let popped: Vec<u32> = core::iter::from_fn(|| wheel.pop_expired(late)).collect();
    assert_eq!(popped, [1, 2, 0]);
}

#[test]
fn rearming_the_earliest_of_many_does_not_scan_its_slot() {
    // 20,000 connections are served in turn and postpone a timeout of 200 ms: each call moves the earliest timer.
    let mut wheel = TimerWheel::new(Time::ZERO);
    let mut now = Time::ZERO;
    let mut longest = 0;
    for step in 0..100_000u32 {
        now += Span::from_micros(1);
        wheel.set(step % 20_000, now + Span::from_millis(200));
        longest = longest.max(wheel.front.len());
        assert!(wheel.next().is_some_and(|next| next <= now + Span::from_millis(200)));
    }
    check(&wheel);
    assert!(longest <= SPILL_MIN + 1, "the front held {longest} timers");
}

#[test]
fn a_far_timer_does_not_turn_the_front_into_a_heap_of_all() {
    let mut wheel = TimerWheel::new(Time::ZERO);
    wheel.set(0, Time::ZERO + Span::from_secs(7_200));
    for id in 1..10_000 {
        wheel.set(id, Time::ZERO + Span::from_micros(u64::from(id) * 7_919 % 1_000_000));
    }
    check(&wheel);
    assert!(wheel.front.len() <= SPILL_MIN + 1, "the front holds {} timers", wheel.front.len());
}

/// The timer that fills the gap in the heap comes from elsewhere, and may have been set before its new parent.
#[test]
fn order_among_equals_survives_a_cancellation_in_the_heap() {
    let at = Time::from_nanos;
    let mut wheel = TimerWheel::new(Time::ZERO);
    for (id, deadline) in [(0, 1), (1, 250), (2, 500), (3, 900), (4, 900), (5, 500), (1, 500)] {
        wheel.set(id, at(deadline));
    }
    wheel.cancel(3);
    check(&wheel);
    let popped: Vec<u32> = core::iter::from_fn(|| wheel.pop_expired(at(900))).collect();
    assert_eq!(popped, [0, 2, 5, 1, 4]);
}

#[test]
fn a_few_timers_need_no_wheel() {
    let mut timers = TimerWheel::new(Time::ZERO);
    for round in 0..100u64 {
        for id in 0..SPILL_MIN as u32 - 1 {
            timers.set(id, Time::from_nanos(round * 1_000_000 + u64::from(id) * 7_919_000_000));
        }
    }
    assert!(timers.wheel.is_none());
    check(&timers);
    for id in SPILL_MIN as u32..SPILL_MIN as u32 + 2 {
        timers.set(id, Time::from_nanos(u64::MAX - 100 + u64::from(id)));
    }
    assert!(timers.wheel.is_some());
    check(&timers);
}
