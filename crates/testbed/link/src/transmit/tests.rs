use super::*;

fn config(rate: u64) -> LinkConfig {
    LinkConfig::new(Rate::from_bytes_per_sec(rate), Span::ZERO)
}

/// Sends packets that are all queued from the start, and returns the ends of their transmissions.
fn ends(config: &LinkConfig, sizes: &[u32]) -> Vec<u64> {
    let mut transmitter = Transmitter::new(config);
    let send = |&size| {
        let at = transmitter.next_start(Time::ZERO);
        transmitter.send(at, size, true).as_nanos()
    };
    sizes.iter().map(send).collect()
}

#[test]
fn a_packet_takes_its_bits_by_the_rate_to_the_nanosecond() {
    // 1500 bytes take 12 us at 1 Gb/s and 600 us at 20 Mb/s. At 7 B/s, one byte takes 1/7 s, and the remainder is
    // never lost.
    assert_eq!(ends(&config(125_000_000), &[1500]), [12_000]);
    assert_eq!(ends(&config(2_500_000), &[1500, 40]), [600_000, 616_000]);
    let sevenths: Vec<u64> = (1..=21).map(|n: u64| (n * 1_000_000_000).div_ceil(7)).collect();
    assert_eq!(ends(&config(7), &[1; 21]), sevenths);
    let cells = config(53_000_000).overhead(Overhead::Aal5);
    assert_eq!(ends(&cells, &[40, 41]), [1_000, 3_000]);
}

#[test]
fn an_idle_transmitter_begins_when_the_packet_comes() {
    let mut transmitter = Transmitter::new(&config(3));
    assert_eq!(transmitter.send(Time::from_nanos(5), 1, false).as_nanos(), 5 + 333_333_334);
    // A packet that was not queued begins exactly when the first ends: its start is its own nanosecond.
    let at = transmitter.next_start(Time::ZERO);
    assert_eq!(transmitter.send(at, 1, false), at + Span::from_nanos(333_333_334));
}

#[test]
fn a_step_divides_the_packet_that_is_being_sent() {
    let step = |at, rate| Step { at: Time::from_nanos(at), rate: Some(Rate::from_bytes_per_sec(rate)), delay: None };
    let mut config = config(1_000);
    config.steps = vec![step(500_000_000, 2_000), step(700_000_000, 100)];
    // 500 bytes are sent by 0.5 s, 400 by 0.7 s, and the last 100 take 1 s.
    assert_eq!(ends(&config, &[1_000, 1]), [1_700_000_000, 1_710_000_000]);
    // A packet that ends exactly on the step is not affected by it.
    assert_eq!(ends(&config, &[500, 2]), [500_000_000, 501_000_000]);
}

#[test]
fn no_packet_begins_while_transmission_is_held() {
    let hold =
        |from, until| Outage { from: Time::from_nanos(from), until: Time::from_nanos(until), kind: OutageKind::Hold };
    let mut config = config(1_000_000_000);
    config.outages = vec![hold(10, 100), hold(150, 200)];
    // The second packet began before the outage; the third waits until 100, the fifth until 200.
    assert_eq!(ends(&config, &[5, 20, 45, 10, 1]), [5, 25, 145, 155, 201]);
    config.rate = LinkRate::Unlimited;
    let mut transmitter = Transmitter::new(&config);
    let starts = [0, 10, 120].map(|earliest| transmitter.next_start(Time::from_nanos(earliest)).as_nanos());
    assert_eq!(starts, [0, 100, 120]);
}

#[test]
fn a_trace_gives_opportunities_of_1504_bytes_that_are_lost_when_nobody_waits() {
    let ms = |millis: u64| millis * 1_000_000;
    let config = LinkConfig { rate: LinkRate::Trace(Arc::new(Trace::parse("1\n1\n4").unwrap())), ..Default::default() };
    // Full-sized packets take one opportunity each; the trace repeats every 4 ms.
    assert_eq!(ends(&config, &[1500; 5]), [1, 1, 4, 5, 5].map(ms));
    // 372 + 4 bytes: four packets per opportunity. 3000 + 4 bytes need two of them and leave 4 bytes.
    assert_eq!(ends(&config, &[372; 5]), [1; 5].map(ms));
    assert_eq!(ends(&config, &[3_000, 0, 0]), [1, 1, 4].map(ms));
    let mut transmitter = Transmitter::new(&config);
    transmitter.send(Time::from_nanos(ms(1)), 100, true);
    transmitter.idle(Time::from_nanos(ms(2)));
    assert_eq!(transmitter.next_start(Time::ZERO).as_nanos(), ms(4));
    transmitter.idle(Time::from_nanos(ms(4)));
    assert_eq!(transmitter.next_start(Time::ZERO).as_nanos(), ms(5));
}
