//! A stack that calls in the order that noq, quinn or s2n-quic document, over a path that loses packets, and adapters
//! with faults.

use longhaul_adapter::{Acked, Choice, Driver, Kept, Lost, Stack};
use longhaul_cc::{Episode, PathEvent};
use longhaul_units::{Span, Time};

use crate::play::{LISTS, SUMS};
use crate::recorder::{Told, recorded};

const MTU: u16 = 1200;
const RTT: Span = Span::from_millis(40);
/// Time between two packets of the bottleneck: 9.6 Mb/s.
const GAP: Span = Span::from_millis(1);

/// Which calls an adapter makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calls {
    /// Those of noq, with packet numbers.
    Listed,
    /// Those of quinn, without.
    Summed,
    /// Those of s2n-quic, which keeps the state of packets.
    Kept,
}

impl Calls {
    const fn stack(self) -> Stack {
        if matches!(self, Self::Listed) { LISTS } else { SUMS }
    }

    /// Reports a packet as sent.
    fn send(self, driver: &mut Driver, now: Time, number: u64) -> Option<Kept> {
        let bytes = u64::from(MTU);
        if self == Self::Kept {
            let kept = driver.on_sent_kept(now, bytes, false);
            // An ACK without data follows: the newest packet that an ACK covers does not count as in flight.
            let is_followed = number % 7 == 3 && !is_lost(number);
            return Some(if is_followed { driver.on_sent_kept(now, 0, false) } else { kept });
        }
        driver.on_sent(now, self.number(number), bytes);
        None
    }

    fn number(self, number: u64) -> Option<u64> {
        (self == Self::Listed).then_some(number)
    }
}

/// What an adapter does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    DropsAnAck,
    TellsALossTwice,
    CountsALossTwice,
    ReportsLossesAsDelivered,
    ForgetsTheEnd,
}

/// Returns whether the network loses a packet.
const fn is_lost(number: u64) -> bool {
    number % 50 == 49
}

/// A packet in the network.
#[derive(Clone, Copy, Debug)]
struct Packet {
    number: u64,
    sent_at: Time,
    back_at: Time,
    arrives: bool,
    kept: Option<Kept>,
}

/// The stack's own sums, with which the sums reported to the controller have to agree.
#[derive(Debug, Default)]
struct Truth {
    sent: u64,
    delivered: u64,
    lost: u64,
    in_flight: u64,
}

/// Sends `count` packets, every 50th of which is lost, after a handshake in packet number spaces of their own that are
/// discarded with a packet in flight.
fn run(calls: Calls, fault: Fault, count: u64) -> (Truth, Vec<Told>, Driver) {
    let (congestion, log) = recorded("cubic");
    let choice = Choice::controlled(congestion, calls.stack()).unwrap();
    let mut now = Time::ZERO + Span::from_secs(1);
    let mut driver = Driver::new(&choice, now, MTU);
    let bytes = u64::from(MTU);
    // The handshake: numbers 0 and 1 of another space, of which one is acknowledged, and the other one is discarded.
    let kept = calls.send(&mut driver, now, 0);
    calls.send(&mut driver, now + GAP, 1);
    let first = Packet { number: 0, sent_at: now, back_at: now + RTT, arrives: true, kept };
    now += RTT;
    acknowledge(&mut driver, calls, now, &[first]);
    if calls == Calls::Kept {
        driver.on_discarded(bytes);
    } else {
        driver.on_end_acks(now, bytes);
    }
    let mut truth = Truth::default();
    let (mut flight, mut next, mut free): (Vec<Packet>, u64, Time) = (Vec::new(), 0, now);
    let mut acked = Vec::new();
    while truth.delivered + truth.lost < count * bytes {
        let window = driver.window();
        if truth.in_flight + bytes <= window && next < count {
            free = free.max(now) + GAP;
            let (kept, arrives) = (calls.send(&mut driver, now, next), !is_lost(next));
            flight.push(Packet { number: next, sent_at: now, back_at: free + RTT, arrives, kept });
            next += 1;
            truth.sent += bytes;
            truth.in_flight += bytes;
            // A packet of a batch leaves at the same time for stacks that tell no numbers.
            now +=
                if calls == Calls::Summed { Span::from_micros(u64::from(next % 8 == 0)) } else { Span::from_nanos(1) };
            continue;
        }
        now = flight.iter().filter(|one| one.arrives).map(|one| one.back_at).min().unwrap_or(now + RTT).max(now);
        // The ACK: each packet, the end, then losses: what was sent three packets before an acknowledged one.
        acked.extend(flight.iter().copied().filter(|one| one.arrives && one.back_at <= now));
        flight.retain(|one| !(one.arrives && one.back_at <= now));
        let largest = acked.last().map_or(0, |last| last.number);
        let drops = fault == Fault::DropsAnAck && largest % 20 == 7;
        truth.delivered += bytes * acked.len() as u64;
        truth.in_flight -= bytes * acked.len() as u64;
        if !drops {
            acknowledge(&mut driver, calls, now, &acked);
        }
        acked.clear();
        if fault != Fault::ForgetsTheEnd && calls != Calls::Kept {
            driver.on_end_acks(now, truth.in_flight);
        }
        let is_end = next == count && flight.iter().all(|one| !one.arrives);
        let is_lost = |one: &Packet| !one.arrives && (one.number + 3 <= largest || is_end);
        let lost: Vec<_> = flight.iter().copied().filter(is_lost).collect();
        flight.retain(|one| !lost.iter().any(|other| other.number == one.number));
        let Some(last) = lost.last() else { continue };
        let event = Lost { sent_at: last.sent_at, bytes: bytes * lost.len() as u64, persistent: false };
        truth.lost += event.bytes;
        truth.in_flight -= event.bytes;
        for _ in 0..if fault == Fault::TellsALossTwice { 2 } else { 1 } {
            tell(&mut driver, calls, fault, now, &lost, event);
        }
    }
    let told = std::mem::take(&mut *log.lock().unwrap());
    (truth, told, driver)
}

/// Reports packets that an ACK covers.
fn acknowledge(driver: &mut Driver, calls: Calls, now: Time, acked: &[Packet]) {
    let bytes = u64::from(MTU);
    if calls == Calls::Kept {
        let newest = acked.last().and_then(|last| last.kept);
        driver.on_sum_acked(now, &newest.unwrap(), bytes * acked.len() as u64, Span::ZERO);
        return;
    }
    for one in acked {
        let (sent_at, number) = (one.sent_at, calls.number(one.number));
        driver.on_acked(now, Acked { sent_at, number, bytes, app_limited: false });
    }
}

fn tell(driver: &mut Driver, calls: Calls, fault: Fault, now: Time, lost: &[Packet], event: Lost) {
    let bytes = u64::from(MTU);
    if fault == Fault::ReportsLossesAsDelivered {
        acknowledge(driver, calls, now, lost);
        return;
    }
    match calls {
        Calls::Listed => {
            lost.iter().for_each(|one| driver.on_packet_lost(one.number, bytes));
            driver.on_losses(now, event);
        }
        Calls::Summed if fault == Fault::CountsALossTwice => {
            driver.on_unlisted_losses(now, Lost { sent_at: now, bytes: event.bytes * 2, ..event });
        }
        Calls::Summed => driver.on_unlisted_losses(now, event),
        Calls::Kept => lost.iter().for_each(|one| driver.on_kept_lost(now, &one.kept.unwrap(), bytes, false)),
    }
}

/// Compares what the controller was told with the truth.
fn disagreement(truth: &Truth, told: &[Told]) -> Option<String> {
    let (mut sent, mut delivered, mut lost, mut last) = (0, 0, 0, 0);
    let (mut entered, mut exited, mut established) = (0, 0, 0);
    for one in told {
        match one {
            Told::Sent(event) => sent += event.bytes.0,
            Told::Ack { delivered: more, newly_lost, in_flight, episode, .. } => {
                delivered += more.0;
                lost += newly_lost.0;
                last = in_flight.0;
                entered += u32::from(*episode == Episode::Enter);
                exited += u32::from(*episode == Episode::Exit);
            }
            Told::Timeout(event) => return Some(format!("{event:?}")),
            Told::Event(event) => established += u64::from(matches!(event, PathEvent::Established { .. })),
        }
    }
    let sums = [
        ("sent", sent, truth.sent),
        ("delivered", delivered, truth.delivered),
        ("lost", lost, truth.lost),
        ("in flight", last, truth.in_flight),
        ("established", established, 1),
    ];
    let wrong = sums.into_iter().find(|(_, told, truth)| told != truth);
    let wrong = wrong.map(|(what, told, truth)| format!("{told} {what}, not {truth}"));
    wrong.or_else(|| (entered == 0 || entered - exited > 1).then(|| format!("{entered} episodes, {exited} ended")))
}

#[test]
fn what_a_controller_is_told_agrees_with_the_stack() {
    for calls in [Calls::Listed, Calls::Summed, Calls::Kept] {
        let (truth, told, driver) = run(calls, Fault::None, 3000);
        assert_eq!(disagreement(&truth, &told), None, "{calls:?}");
        assert!(truth.lost == 60 * u64::from(MTU) && driver.ssthresh().is_some());
    }
}

#[test]
fn faults_of_adapters_are_found() {
    for (calls, fault) in [
        (Calls::Listed, Fault::DropsAnAck),
        (Calls::Summed, Fault::DropsAnAck),
        (Calls::Kept, Fault::DropsAnAck),
        (Calls::Summed, Fault::CountsALossTwice),
        (Calls::Kept, Fault::TellsALossTwice),
        (Calls::Listed, Fault::ReportsLossesAsDelivered),
        (Calls::Summed, Fault::ReportsLossesAsDelivered),
        (Calls::Kept, Fault::ReportsLossesAsDelivered),
        (Calls::Listed, Fault::ForgetsTheEnd),
    ] {
        let (truth, told, _) = run(calls, fault, 1000);
        assert!(disagreement(&truth, &told).is_some(), "{calls:?} {fault:?}");
    }
    // The same loss is not taken twice: the driver does not know the packet any more, and everything older was acknowledged.
    for calls in [Calls::Listed, Calls::Summed] {
        let (truth, told, _) = run(calls, Fault::TellsALossTwice, 1000);
        assert_eq!(disagreement(&truth, &told), None);
    }
}

/// A receiver has nothing or a single datagram in flight: its ACKs are not paced. A sender's data is.
#[test]
fn a_receiver_is_not_paced() {
    let choice = Choice::parse("cubic", LISTS).unwrap();
    let start = Time::ZERO + Span::from_secs(1);
    let mut driver = Driver::new(&choice, start, MTU);
    assert_eq!(driver.pace(), None);
    let bytes = u64::from(MTU);
    driver.on_sent(start, Some(0), bytes);
    driver.on_acked(start + RTT, Acked { sent_at: start, number: Some(0), bytes, app_limited: true });
    driver.on_end_acks(start + RTT, 0);
    // Twice the initial window of ten datagrams per round trip.
    let (window, full) = (driver.window(), 20 * bytes * 25);
    let rates = (1..10).map(|number| {
        let (rate, _) = driver.pace().unwrap();
        driver.on_sent(start + RTT, Some(number), bytes);
        rate
    });
    let rates: Vec<u64> = rates.collect();
    assert!(window >= 10 * bytes && rates[..2].iter().all(|rate| *rate > 1_000 * full), "{window} {rates:?}");
    assert!(rates[2..].iter().all(|rate| (full..2 * full).contains(rate)), "{rates:?}");
}

/// Receivers delay the ACK of a single packet. noq and quinn report the delay too late, s2n-quic's adapter computes it.
#[test]
fn the_peers_delay_of_an_ack_is_no_part_of_the_round_trip() {
    for calls in [Calls::Listed, Calls::Summed, Calls::Kept] {
        let mut driver = Driver::new(&Choice::parse("cubic", calls.stack()).unwrap(), Time::ZERO, MTU);
        let kept: Vec<_> = (0..3).map(|number| calls.send(&mut driver, Time::ZERO, number)).collect();
        let bytes = u64::from(MTU);
        let mut ack = |numbers: std::ops::Range<u64>, delay: Span| {
            let (now, count) = (Time::ZERO + RTT + delay, numbers.end - numbers.start);
            if let Some(newest) = &kept[numbers.end as usize - 1] {
                driver.on_sum_acked(now, newest, count * bytes, delay);
            } else {
                for number in numbers.rev() {
                    let number = calls.number(number);
                    driver.on_acked(now, Acked { sent_at: Time::ZERO, number, bytes, app_limited: false });
                }
                driver.on_end_acks(now, driver.in_flight());
            }
        };
        ack(0..2, Span::ZERO);
        ack(2..3, Span::from_millis(25));
        assert_eq!(driver.srtt(), Some(RTT), "{calls:?}");
    }
}
