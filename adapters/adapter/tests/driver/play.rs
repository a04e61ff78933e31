//! Calls in any order and with any values: nothing panics, the window has at least one datagram, and the pace is finite.
//! The random tests, the fuzz target and the replay of its corpus share these checks.

use longhaul_adapter::{Acked, Choice, Driver, Kept, Lost, Stack};
use longhaul_units::{Span, Time};

pub(crate) const LISTS: Stack = Stack { name: "lists", paces: true, lists_packets: true };
pub(crate) const SUMS: Stack = Stack { name: "sums", paces: false, lists_packets: false };

/// Controllers of which the last needs a pace.
const CONTROLLERS: [&str; 5] = ["cubic", "new-reno", "copa", "copa-cubic", "bbr"];

/// Plays a script: its first two bytes select the stack, the controller, and whether calls are broken; the others select
/// the calls and their values.
pub(crate) fn driver(script: &[u8]) {
    let Some((&[controller, how], rest)) = script.split_first_chunk() else { return };
    let name = CONTROLLERS[usize::from(controller) % CONTROLLERS.len()];
    let stack = if name == "bbr" || how & 1 == 0 { LISTS } else { SUMS };
    play(&mut Dice::Script(rest), u64::MAX, stack, name, how & 2 != 0);
}

/// Makes at most `most` calls of a random kind. Returns the number of calls.
pub(crate) fn any(seed: u64, most: u64) -> u64 {
    let mut dice = Dice::Seed(seed);
    let calls = (100 + dice.below(9_900)).min(most);
    let name = CONTROLLERS[usize::try_from(dice.below(5)).unwrap()];
    let stack = if name == "bbr" || dice.one_in(2) { LISTS } else { SUMS };
    let broken = dice.one_in(2);
    play(&mut dice, calls, stack, name, broken);
    calls
}

/// Source of numbers.
#[derive(Clone, Debug)]
pub(crate) enum Dice<'a> {
    /// SplitMix64.
    Seed(u64),
    /// Bytes; each number takes as many of them as its limit has. Zeros follow.
    Script(&'a [u8]),
}

impl Dice<'_> {
    fn roll(&mut self) -> u64 {
        self.take(8)
    }

    fn take(&mut self, bytes: usize) -> u64 {
        match self {
            Self::Seed(state) => {
                *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mut value = *state;
                value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                value ^ (value >> 31)
            }
            Self::Script(script) => {
                let (taken, rest) = script.split_at(bytes.min(script.len()));
                *script = rest;
                taken.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
            }
        }
    }

    const fn is_over(&self) -> bool {
        matches!(self, Self::Script([]))
    }

    fn below(&mut self, limit: u64) -> u64 {
        let last = limit.max(1) - 1;
        self.take((u64::BITS - last.leading_zeros()).div_ceil(8) as usize) % limit.max(1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// What the stack believes to be in flight.
#[derive(Clone, Debug, Default)]
struct Flight(Vec<(u64, Time, u64)>);

impl Flight {
    fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, _, bytes)| bytes).sum()
    }
}

/// Makes `calls` random calls. With `broken`, some are out of order, repeat others, or have arbitrary values.
pub(crate) fn play(dice: &mut Dice<'_>, calls: u64, stack: Stack, controller: &str, broken: bool) {
    let choice = Choice::parse(controller, stack).unwrap();
    let mut now = Time::ZERO + Span::from_secs(1);
    let mut mtu = 1200;
    let mut driver = Driver::new(&choice, now, mtu);
    let mut flight = Flight::default();
    let mut next = 0;
    let mut kept: Vec<(Kept, u64)> = Vec::new();
    let stuck_clock = dice.one_in(8);
    for call in 0..calls {
        if dice.is_over() {
            break;
        }
        if !stuck_clock {
            let most = 1 << dice.below(28);
            now += Span::from_nanos(dice.below(most));
        }
        let at = if broken && dice.one_in(50) { now - Span::from_nanos(dice.below(1 << 40)) } else { now };
        match dice.below(17) {
            0..=9 => {
                // Numbers have gaps, and begin again in each space.
                next += 1 + dice.below(3) * u64::from(dice.one_in(20));
                if dice.one_in(5000) {
                    next = 0;
                }
                let full = u64::from(mtu);
                let bytes = if dice.one_in(10) { dice.below(full + 1) } else { full };
                let bytes = if broken && dice.one_in(100) { dice.roll() } else { bytes };
                driver.on_sent(at, stack.lists_packets.then_some(next), bytes);
                if flight.bytes() < driver.window().min(1 << 18) {
                    flight.0.push((next, at, bytes.min(1 << 30)));
                }
            }
            10..=14 => ack(dice, &mut driver, stack, &mut flight, at, broken),
            15 => lose(dice, &mut driver, stack, &mut flight, at, broken),
            _ => match dice.below(40) {
                0 => driver = driver.migrated(),
                1 => flight.0.clear(), // A space is discarded.
                2 => {
                    mtu = u16::try_from(dice.below(9000)).unwrap().max(u16::from(!broken));
                    driver.on_mtu(mtu);
                }
                3 => driver.on_spurious(),
                4 => now += Span::from_millis(dice.below(10_000)),
                5 => driver.on_mark(at, at - Span::from_nanos(dice.below(1 << 27))),
                // A stack that keeps the state of packets.
                6..=19 => keep(dice, &mut driver, &mut kept, at, broken),
                _ => driver.on_cwnd_limited(),
            },
        }
        check(&driver, mtu, call);
    }
}

fn keep(dice: &mut Dice<'_>, driver: &mut Driver, kept: &mut Vec<(Kept, u64)>, at: Time, broken: bool) {
    let bytes = if broken && dice.one_in(20) { dice.roll() } else { dice.below(1500) };
    match dice.below(6) {
        0..=2 if kept.len() < 64 => kept.push((driver.on_sent_kept(at, bytes, dice.one_in(10)), bytes)),
        3 => driver.on_discarded(bytes),
        call => {
            let count = usize::try_from(dice.below(4)).unwrap().min(kept.len());
            let taken: Vec<_> = kept.drain(..count).collect();
            let Some((newest, _)) = taken.last() else { return };
            if call == 4 {
                taken.iter().for_each(|(one, bytes)| driver.on_kept_lost(at, one, *bytes, dice.one_in(30)));
            } else {
                let sum = taken.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
                let delay = if broken { dice.roll() } else { dice.below(30_000_000) };
                driver.on_sum_acked(at, newest, sum, Span::from_nanos(delay));
            }
            if broken && dice.one_in(10) {
                kept.extend(taken);
            }
        }
    }
}

fn ack(dice: &mut Dice<'_>, driver: &mut Driver, stack: Stack, flight: &mut Flight, at: Time, broken: bool) {
    let app_limited = dice.one_in(5);
    let count = dice.below(4).min(flight.0.len() as u64);
    let acked: Vec<_> = flight.0.drain(..usize::try_from(count).unwrap()).collect();
    for (number, sent_at, bytes) in acked {
        let mut one = Acked { sent_at, number: stack.lists_packets.then_some(number), bytes, app_limited };
        if broken && dice.one_in(20) {
            (one.bytes, one.sent_at) = (dice.roll(), Time::from_nanos(dice.roll()));
        }
        driver.on_acked(at, one);
        if broken && dice.one_in(20) {
            driver.on_acked(at, one);
        }
    }
    if !(broken && dice.one_in(10)) {
        driver.on_end_acks(at, if broken && dice.one_in(50) { dice.roll() } else { flight.bytes() });
    }
}

fn lose(dice: &mut Dice<'_>, driver: &mut Driver, stack: Stack, flight: &mut Flight, at: Time, broken: bool) {
    let count = dice.below(3).min(flight.0.len() as u64);
    let lost: Vec<_> = flight.0.drain(..usize::try_from(count).unwrap()).collect();
    let bytes = lost.iter().map(|(_, _, bytes)| bytes).sum();
    let sent_at = lost.last().map_or(at, |(_, sent_at, _)| *sent_at);
    let mut event = Lost { sent_at, bytes, persistent: dice.one_in(30) };
    if broken && dice.one_in(20) {
        (event.bytes, event.sent_at) = (dice.roll(), Time::from_nanos(dice.roll()));
    }
    if !stack.lists_packets {
        return driver.on_unlisted_losses(at, event);
    }
    for (number, _, bytes) in lost {
        driver.on_packet_lost(number, bytes);
    }
    if !(broken && dice.one_in(10)) {
        driver.on_losses(at, event);
    }
}

fn check(driver: &Driver, mtu: u16, call: u64) {
    let window = driver.window();
    assert!(
        (1..1 << 32).contains(&window) && window >= mtu.into(),
        "call {call}: a window of {window}, datagrams of {mtu}"
    );
    if let Some((rate, quantum)) = driver.pace() {
        assert!((1..1 << 40).contains(&rate), "call {call}: {rate} B/s");
        assert!((1..1 << 32).contains(&quantum), "call {call}: bursts of {quantum} B");
    }
}
