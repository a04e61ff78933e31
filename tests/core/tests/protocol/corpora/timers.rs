//! The timer wheel compared with an ordered map. The fuzz target and the replay of its corpus both call [`timers`].

use std::collections::{BTreeMap, BTreeSet};

use longhaul_cc::TimerWheel;
use longhaul_units::{Span, Time};

/// Model of the timer wheel: the same timers in an ordered map.
#[derive(Default)]
struct Timers {
    order: BTreeSet<(Time, u64, u32)>,
    of: BTreeMap<u32, (Time, u64)>,
    set: u64,
}

impl Timers {
    fn set(&mut self, id: u32, at: Time) {
        if self.of.get(&id).is_some_and(|(old, _)| *old == at) {
            return;
        }
        self.cancel(id);
        self.order.insert((at, self.set, id));
        self.of.insert(id, (at, self.set));
        self.set += 1;
    }

    fn cancel(&mut self, id: u32) {
        if let Some((at, set)) = self.of.remove(&id) {
            self.order.remove(&(at, set, id));
        }
    }

    fn pop_expired(&mut self, now: Time) -> Option<u32> {
        let (at, _, id) = *self.order.first()?;
        (at <= now).then(|| {
            self.cancel(id);
            id
        })
    }
}

/// Sets, cancels and expires the same timers in the wheel and in the ordered map, while the clock advances, jumps, and
/// goes back. Both must have the same timers at any time.
pub fn timers(script: &[u8]) {
    let mut bytes = script.iter().copied();
    let mut byte = || bytes.next();
    let mut now = Time::from_nanos(u64::from(byte().unwrap_or(0)) << 52);
    let (mut wheel, mut model) = (TimerWheel::new(now), Timers::default());
    while let (Some(call), Some(first), Some(second)) = (byte(), byte(), byte()) {
        let id = u32::from(first & 127);
        // A duration of any magnitude: eight bits at any position in 64.
        let span = Span::from_nanos(u64::from(second) << (call >> 3) << ((first >> 7) * 31));
        match call & 7 {
            0..=2 => {
                wheel.set(id, now + span);
                model.set(id, now + span);
            }
            3 => {
                let at = Time::from_nanos(now.as_nanos().saturating_sub(span.as_nanos()));
                wheel.set(id, at);
                model.set(id, at);
            }
            4 => {
                wheel.cancel(id);
                model.cancel(id);
            }
            5 => {
                now += span;
                for _ in 0..=u32::from(first) {
                    let expired = wheel.pop_expired(now);
                    assert_eq!(expired, model.pop_expired(now));
                    if expired.is_none() {
                        break;
                    }
                }
            }
            6 => now = Time::from_nanos(now.as_nanos().saturating_sub(span.as_nanos())),
            _ => now = wheel.next().unwrap_or(now),
        }
        assert_eq!(wheel.next(), model.order.first().map(|(at, ..)| *at));
        assert_eq!(wheel.deadline(id), model.of.get(&id).map(|(at, _)| *at));
    }
    while let Some(id) = wheel.pop_expired(Time::MAX) {
        assert_eq!(Some(id), model.pop_expired(Time::MAX));
    }
    assert!(model.order.is_empty() && wheel.next().is_none());
}
