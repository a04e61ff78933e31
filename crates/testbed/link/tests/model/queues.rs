//! Tests of the queue disciplines on a link against closed-form results.

use longhaul_link::source::Source;
use longhaul_link::{
    Cause, Classes, Discipline, Ecn, Hook, Limit, Link, LinkConfig, Packet, QueueConfig, Random, Step, View, dscp,
};
use longhaul_units::{Rate, Span, Time};

/// One byte takes 1 us, a packet of 1000 bytes 1 ms.
const RATE: Rate = Rate::from_bytes_per_sec(1_000_000);

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn link(queue: impl Into<QueueConfig>) -> Link<u64> {
    Link::new(LinkConfig::new(RATE, Span::ZERO).queue(queue), 7, 0).unwrap()
}

/// Returns everything that arrives until the end, with arrival times in milliseconds.
fn drain<H: Hook<u64>>(link: &mut Link<u64, H>) -> Vec<(u64, Packet<u64>)> {
    let mut arrived = Vec::new();
    while let Some(now) = link.next_event() {
        while let Some((at, packet)) = link.poll(now) {
            arrived.push((at.as_nanos() / 1_000_000, packet));
        }
    }
    arrived
}

/// Offers a source's packets, made by `make`, for `seconds`, and returns those that arrive, with times in
/// milliseconds.
fn run<H: Hook<u64>>(
    link: &mut Link<u64, H>,
    source: Source,
    seconds: u64,
    mut make: impl FnMut(u64) -> Packet<u64>,
) -> Vec<(u64, Packet<u64>)> {
    let mut arrived = Vec::new();
    for (number, (now, _)) in (0..).zip(source).take_while(|(_, (now, _))| *now < at(seconds * 1_000)) {
        while let Some(event) = link.next_event().filter(|event| *event <= now) {
            arrived.extend(link.poll(event).map(|(at, packet)| (at.as_nanos() / 1_000_000, packet)));
        }
        link.offer(now, make(number));
    }
    arrived
}

/// Returns the mean number of packets of 1000 bytes that waited in the first `seconds`.
fn waiting(link: &Link<u64>, seconds: u64) -> f64 {
    link.stats().byte_seconds(at(seconds * 1_000)) / 1e3 / seconds as f64
}

fn overload(ratio: f64) -> Source {
    Source::cbr(Time::ZERO, RATE.mul_f64(ratio), 1_000)
}

fn poisson(ratio: f64) -> Source {
    Source::poisson(Time::ZERO, RATE.mul_f64(ratio), 1_000, Random::new(21, 0))
}

#[test]
fn md1_waits_follow_pollaczek_khinchine() {
    for load in [0.3, 0.5, 0.8, 0.9] {
        let mut link = link(Limit::Infinite);
        run(&mut link, poisson(load), 4_000, |_| Packet::new(1_000, 0));
        // W = rho s / (2 (1 - rho)) with a service time s of 1 ms, and L = lambda W by Little's law.
        let wait = load / (2.0 * (1.0 - load));
        let got = link.stats().all().sojourn.mean().as_secs_f64() * 1e3;
        let tolerance = if load > 0.85 { 0.05 } else { 0.02 };
        assert!((got / wait - 1.0).abs() < tolerance, "{load}: {got} ms for {wait}");
        let waiting = waiting(&link, 4_000);
        assert!((waiting / (load * got) - 1.0).abs() < 0.01, "{load}: {waiting}");
    }
}

#[test]
fn priority_serves_the_higher_class_first_and_pushes_out_the_lower() {
    let mut link = link(QueueConfig::from(Discipline::Priority(Classes::default())).limit(Limit::Packets(4)));
    let low = |number| Packet::new(1_000, number).dscp(dscp::LE);
    // The first packet is being sent, four of low priority wait, and each of three normal ones pushes out the newest.
    for number in 0..5 {
        assert!(link.offer(at(0), low(number)));
    }
    assert!(!link.offer(at(0), low(5)));
    for number in 10..13 {
        assert!(link.offer(at(0), Packet::new(1_000, number)));
    }
    let order: Vec<u64> = drain(&mut link).iter().map(|(_, packet)| packet.payload).collect();
    assert_eq!(order, [0, 10, 11, 12, 1]);
    let (normal, less) = (link.stats().class(0), link.stats().class(1));
    assert_eq!((less.dropped(Cause::PushedOut), less.dropped(Cause::QueueFull), less.sent), (3, 1, 2));
    assert_eq!((normal.dropped_total(), normal.sent), (0, 3));
    // Four normal packets leave no room for either class.
    for number in 0..5 {
        assert!(link.offer(at(90), Packet::new(1_000, number)));
    }
    assert!(!link.offer(at(90), Packet::new(1_000, 5)) && !link.offer(at(90), low(6)));
}

#[test]
fn push_out_makes_room_in_bytes_from_the_lowest_class_upwards() {
    let classes = Classes::default().with(8, 2);
    let mut link = link(QueueConfig::from(Discipline::Priority(classes.clone())).limit(Limit::Bytes(3_000)));
    for (number, dscp) in [(0, 0), (1, 8), (2, 1), (3, 8)] {
        assert!(link.offer(at(0), Packet::new(1_000, number).dscp(dscp)));
    }
    // Packets of class 2 are pushed out first, although one of class 1 is queued.
    let mut alike = self::link(QueueConfig::from(Discipline::Priority(classes.clone())).limit(Limit::Bytes(3_000)));
    for (number, dscp) in [(0, 0), (1, 8), (2, 1), (3, 8), (4, 0)] {
        assert!(alike.offer(at(0), Packet::new(1_000, number).dscp(dscp)));
    }
    let order: Vec<u64> = drain(&mut alike).iter().map(|(_, packet)| packet.payload).collect();
    assert_eq!(order, [0, 4, 2, 1]);
    assert!(link.offer(at(0), Packet::new(2_500, 4)));
    let order: Vec<u64> = drain(&mut link).iter().map(|(_, packet)| packet.payload).collect();
    assert_eq!(order, [0, 4], "both of class 2 go, and then the one of class 1");
}

#[test]
fn nothing_is_pushed_out_for_a_packet_that_still_does_not_fit() {
    let mut link = link(QueueConfig::from(Discipline::Priority(Classes::default())).limit(Limit::Bytes(3_000)));
    // One packet is being sent; 1000 bytes of the lower class and 2000 of the higher one wait.
    for (number, dscp, size) in [(0, 0, 1_000), (1, dscp::LE, 1_000), (2, 0, 2_000)] {
        assert!(link.offer(at(0), Packet::new(size, number).dscp(dscp)));
    }
    assert!(!link.offer(at(0), Packet::new(1_500, 3)));
    assert!(link.offer(at(0), Packet::new(1_000, 4)));
    let order: Vec<u64> = drain(&mut link).iter().map(|(_, packet)| packet.payload).collect();
    assert_eq!(order, [0, 2, 4]);
    assert_eq!((link.stats().class(0).dropped(Cause::QueueFull), link.stats().class(1).dropped_total()), (1, 1));
}

/// Records the rates passed to a hook as packets arrive.
#[derive(Default)]
struct Rates(Vec<u64>);

impl Hook<u64> for Rates {
    fn offered(&mut self, _now: Time, _packet: &mut Packet<u64>, view: &View) {
        self.0.extend(view.rate.map(Rate::as_bytes_per_sec));
    }
}

#[test]
fn the_current_rate_is_that_of_the_last_step() {
    let step = |millis, rate| Step { at: at(millis), rate: Some(Rate::from_bytes_per_sec(rate)), delay: None };
    let mut config = LinkConfig::new(RATE, Span::ZERO);
    config.steps = vec![step(10, 500_000), step(20, 250_000)];
    let mut link = Link::with_hook(config.clone(), 1, 0, Rates::default()).unwrap();
    // The packet at 9 ms ends after the first step, and none arrives until after the second.
    let mut now = Vec::new();
    for millis in [9, 9, 10, 40] {
        link.offer(at(millis), Packet::new(1_500, 0));
        now.extend(link.rate().map(Rate::as_bytes_per_sec));
    }
    assert_eq!(link.hook.0, [1_000_000, 1_000_000, 500_000, 250_000]);
    assert_eq!(link.hook.0, now);
    link.reconfigure(at(50), LinkConfig::new(RATE, Span::ZERO)).unwrap();
    assert_eq!(link.rate(), Some(RATE));
}

#[test]
fn reds_idle_decay_uses_the_current_rate() {
    // Two links with the same load; while they are idle, one becomes a thousand times slower.
    let slow = Rate::from_bytes_per_sec(1_000);
    let dropped = |steps: Vec<Step>, reconfigured: Option<Rate>| {
        let config = LinkConfig::new(RATE, Span::ZERO).queue(Discipline::Red(Default::default()));
        let mut link = Link::new(LinkConfig { steps, ..config }, 7, 0).unwrap();
        run(&mut link, overload(2.0), 30, |_| Packet::new(1_000, 0));
        drain(&mut link);
        if let Some(rate) = reconfigured {
            link.reconfigure(at(31_000), LinkConfig::new(rate, Span::ZERO)).unwrap();
        }
        let before = link.stats().all().dropped(Cause::Aqm);
        for number in 0..60 {
            link.offer(at(50_000) + Span::from_nanos(number), Packet::new(1, 0));
        }
        link.stats().all().dropped(Cause::Aqm) - before
    };
    assert_eq!(dropped(Vec::new(), None), 0, "20 s are 13,000 packets of 1500 bytes");
    // At the lower rate, they are 13 packets, so the average hardly decays.
    assert!(dropped(Vec::new(), Some(slow)) > 0);
    assert!(dropped(vec![Step { at: at(31_000), rate: Some(slow), delay: None }], None) > 0);
}

#[test]
fn peachs_threshold_lets_low_priority_in_while_the_queue_is_short() {
    let mut link = link(QueueConfig::from(Discipline::Threshold(1)).limit(Limit::Packets(3)));
    let low = Packet::new(1_000, 0).dscp(dscp::LE);
    // One packet is sent, up to two of low priority wait, and normal ones fill the rest.
    let admitted = [low.clone(), low.clone(), low.clone(), low.clone()].map(|packet| link.offer(at(0), packet));
    assert_eq!(admitted, [true, true, true, false]);
    assert!(link.offer(at(0), Packet::new(1_000, 1)) && !link.offer(at(0), Packet::new(1_000, 2)));
    assert_eq!(link.stats().class(1).dropped(Cause::LowPriority), 1);
    assert_eq!(link.stats().class(0).dropped(Cause::QueueFull), 1);
}

#[test]
fn drop_head_keeps_the_newest_and_a_threshold_marks() {
    let mut head = link(QueueConfig::from(Discipline::DropHead).limit(Limit::Packets(2)));
    (0..6).for_each(|number| assert!(head.offer(at(0), Packet::new(1_000, number))));
    let order: Vec<u64> = drain(&mut head).iter().map(|(_, packet)| packet.payload).collect();
    assert_eq!(order, [0, 4, 5]);
    let mut marking = link(Discipline::DropTail { mark_above: Some(2_000) });
    (0..6).for_each(|number| assert!(marking.offer(at(0), Packet::new(1_000, number).ecn(Ecn::Ect0))));
    assert!(marking.offer(at(0), Packet::new(1_000, 6)));
    let marked: Vec<u64> = drain(&mut marking)
        .iter()
        .filter(|(_, packet)| packet.ecn == Ecn::Ce)
        .map(|(_, packet)| packet.payload)
        .collect();
    assert_eq!((marked, marking.stats().class(0).marked), (vec![4, 5], 2));
}

/// Records when packets are dropped.
#[derive(Default)]
struct Drops(Vec<f64>);

impl Hook<u64> for Drops {
    fn dropped(&mut self, now: Time, _packet: &Packet<u64>, cause: Cause) {
        assert_eq!(cause, Cause::Aqm);
        self.0.push(now.as_secs_f64());
    }

    fn offered(&mut self, _now: Time, _packet: &mut Packet<u64>, _view: &View) {}
}

#[test]
fn codel_drops_by_the_square_root_law_as_packets_leave() {
    let config = LinkConfig::new(RATE, Span::ZERO).queue(Discipline::CoDel(Default::default()));
    let mut link = Link::with_hook(config, 1, 0, Drops::default()).unwrap();
    run(&mut link, overload(1.25), 3, |_| Packet::new(1_000, 0));
    // The n-th packet arrives at 0.8 n ms and leaves at n ms. The sojourn time reaches 5 ms at the 25th, and the
    // first drop follows one interval later.
    let drops = &link.hook.0;
    assert_eq!(drops[0], 0.125);
    let mut next = 0.125;
    for (index, drop) in drops.iter().enumerate().skip(1) {
        next += 0.1 / (index as f64).sqrt();
        // A drop occurs at the first departure after it is due, which is within 1 ms.
        assert!((0.0..0.001_000_1).contains(&(drop - next)), "drop {index} at {drop}, due {next}");
    }
    assert!(drops.len() > 150, "{}", drops.len());
}

#[test]
fn codel_marks_ecn_capable_packets_and_drops_others() {
    let mut link = link(QueueConfig::from(Discipline::CoDel(Default::default())).ecn());
    let ecn = |number| if number % 2 == 0 { Ecn::Ect0 } else { Ecn::NotEct };
    let arrived = run(&mut link, overload(1.25), 5, |number| Packet::new(1_000, number).ecn(ecn(number)));
    let all = link.stats().all();
    let marked = arrived.iter().filter(|(_, packet)| packet.ecn == Ecn::Ce).count() as u64;
    assert!(marked > 50 && all.dropped(Cause::Aqm) > 50);
    assert!(all.marked - marked <= 10, "the last are still waiting");
    assert!(arrived.iter().all(|(_, packet)| packet.payload % 2 == 0 || packet.ecn == Ecn::NotEct));
}

#[test]
fn reds_average_settles_where_its_drops_take_the_excess() {
    let mut link = link(Discipline::Red(Default::default()));
    // The rate is constant, so that the queue never runs empty.
    run(&mut link, overload(1.1), 400, |_| Packet::new(1_000, 0));
    let all = link.stats().all();
    let share = all.dropped(Cause::Aqm) as f64 / all.offered as f64;
    assert!((share - (1.0 - 1.0 / 1.1)).abs() < 0.005, "{share}");
    // Gaps are uniform over 1 .. 1/p - 1, so that a fraction 2p is dropped: p = 0.0455, or 9.5 packets between 5 and
    // 15.
    let queue = waiting(&link, 400);
    assert!((queue - 9.55).abs() < 0.7, "{queue}");
}

/// Returns the mean sojourn time in milliseconds of the packets that arrived after the first 10 s.
fn settled(arrived: &[(u64, Packet<u64>)]) -> f64 {
    let late: Vec<f64> = arrived
        .iter()
        .filter(|(at, _)| *at > 10_000)
        // Departure minus arrival, minus 1 ms of transmission.
        .map(|(at, packet)| *at as f64 - packet.enqueued.as_secs_f64() * 1e3 - 1.0)
        .collect();
    late.iter().sum::<f64>() / late.len() as f64
}

#[test]
fn pie_settles_at_its_target_and_drops_the_excess() {
    for ratio in [1.05, 1.3] {
        let mut link = link(Discipline::Pie(Default::default()));
        let arrived = run(&mut link, overload(ratio), 300, |_| Packet::new(1_000, 0));
        let delay = settled(&arrived);
        assert!((delay - 15.0).abs() < 2.0, "{ratio}: {delay} ms");
        let all = link.stats().all();
        let share = all.dropped(Cause::Aqm) as f64 / all.offered as f64;
        assert!((share - (1.0 - 1.0 / ratio)).abs() < 0.005, "{ratio}: {share}");
    }
}

#[test]
fn pie_marks_only_while_the_probability_is_small() {
    let mut link = link(QueueConfig::from(Discipline::Pie(Default::default())).ecn());
    // The source does not respond to marks, so the probability rises above 0.1 and PIE drops.
    run(&mut link, poisson(1.3), 100, |_| Packet::new(1_000, 0).ecn(Ecn::Ect0));
    let all = link.stats().all();
    assert!(all.marked > 0 && all.dropped(Cause::Aqm) as f64 / all.offered as f64 > 0.2, "{all:?}");
}

#[test]
fn dual_pi2_settles_at_its_target_for_either_class() {
    for (ecn, class) in [(Ecn::NotEct, 0), (Ecn::Ect1, 1)] {
        for ratio in [1.15, 1.5] {
            let mut link = link(Discipline::DualPi2(Default::default()));
            let arrived = run(&mut link, poisson(ratio), 300, |_| Packet::new(1_000, 0).ecn(ecn));
            let delay = settled(&arrived);
            assert!((delay - 15.0).abs() < 2.0, "{ecn:?} {ratio}: {delay} ms");
            let stats = link.stats().class(class);
            let share = stats.dropped(Cause::Aqm) as f64 / stats.offered as f64;
            assert!((share - (1.0 - 1.0 / ratio)).abs() < 0.01, "{ecn:?} {ratio}: {share}");
            if ecn == Ecn::Ect1 {
                let late = arrived.iter().filter(|(at, _)| *at > 10_000);
                assert!(
                    late.clone().filter(|(_, packet)| packet.ecn == Ecn::Ce).count() as f64
                        > 0.99 * late.count() as f64
                );
            }
        }
    }
}

#[test]
fn dual_pi2_keeps_the_l4s_queue_short_next_to_a_long_classic_queue() {
    let mut link = link(Discipline::DualPi2(Default::default()));
    // Classic traffic is 0.9 of the link and L4S traffic 0.3: Classic packets queue, L4S packets do not.
    let ecn = |number| if number % 4 == 0 { Ecn::Ect1 } else { Ecn::Ect0 };
    let arrived = run(&mut link, poisson(1.2), 200, |number| Packet::new(1_000, number).ecn(ecn(number)));
    let class = |l4s: bool| -> Vec<_> {
        arrived.iter().filter(|(_, packet)| (packet.payload % 4 == 0) == l4s).cloned().collect()
    };
    let (classic, l4s) = (settled(&class(false)), settled(&class(true)));
    assert!((classic - 15.0).abs() < 4.0 && l4s < 2.0, "{classic} {l4s}");
    let median = |class| link.stats().class(class).sojourn.quantile(0.5).as_millis();
    assert!((10..=20).contains(&median(0)) && median(1) < 2, "{} {}", median(0), median(1));
    assert!(link.stats().class(1).marked > 0 && link.stats().class(0).dropped_total() > 0);
}

#[test]
fn aqm_state_decays_while_idle() {
    for discipline in [
        Discipline::Red(Default::default()),
        Discipline::Pie(Default::default()),
        Discipline::CoDel(Default::default()),
        Discipline::DualPi2(Default::default()),
    ] {
        let mut link = link(discipline.clone());
        run(&mut link, overload(1.3), 30, |_| Packet::new(1_000, 0));
        drain(&mut link);
        let before = link.stats().all().dropped(Cause::Aqm);
        assert!(before > 0, "{discipline:?}");
        // An hour later, a few packets arrive that do not even queue.
        for number in 0..100 {
            assert!(link.offer(at(3_600_000 + number * 2), Packet::new(1_000, 0)), "{discipline:?}");
            drain(&mut link);
        }
        assert_eq!(link.stats().all().dropped(Cause::Aqm), before, "{discipline:?}");
    }
}
