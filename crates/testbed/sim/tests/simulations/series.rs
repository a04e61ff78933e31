//! Columns of a time series, compared with the values implied by a path of known rate and delay.

use longhaul_link::topology::Duplex;
use longhaul_link::{LinkConfig, Loss};
use longhaul_sim::{Plan, Series, Setup, Sim};
use longhaul_tcp::Config;
use longhaul_units::{Bytes, Rate, Span, Time};

/// Payload of a segment in bytes, and the length of its IP packet: 20 + 8 + 12 bytes of headers and 12 bytes of
/// timestamps.
const MSS: u64 = 1448;
const PACKET: u64 = 1500;
const DELAY: Span = Span::from_millis(20);

fn plain(config: &mut Config) {
    (config.base_plpmtu, config.max_plpmtu) = (1472, 1472);
    (config.recv_buffer, config.recv_buffer_max) = (16 << 20, 16 << 20);
    config.congestion = "new-reno".parse().expect("a registered name");
    config.ack_delay = Span::ZERO;
}

/// RFC 5681, section 3.1, with RFC 6928's initial window of ten segments: the window doubles each round trip, because
/// there is no threshold yet. Pacing at twice the window per round trip sends each round within its first half.
#[test]
fn the_window_doubles_each_round_trip_of_slow_start() {
    let mut sim = Sim::new(Setup::symmetric(1, LinkConfig::delay(DELAY)).configure(plain));
    let (client, _) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    let id = sim.record(client, None, DELAY / 2);
    sim.run_for(DELAY * 20);
    let series = sim.series(id);
    // The connection is established after 40 ms, each round starts 40 ms later, and 70 ms, 110 ms, ... are three
    // quarters into a round.
    for round in 0..8 {
        let row = 7 + 4 * round;
        assert_eq!(series.time[row], Time::ZERO + DELAY * 7 / 2 + DELAY * 2 * round as u64);
        assert_eq!(series.cwnd[row], Bytes((10 * MSS) << round), "round {round}");
        assert_eq!((series.ssthresh[row], series.queue[row]), (None, Bytes(0)));
    }
}

/// At 10 Mb/s, transmitting a packet takes 1.2 ms. The window is at most 100 segments, three times the capacity of the
/// path: the RTT is the transmission time of 100 packets, and the rest waits in the queue. Then a segment is lost.
#[test]
fn a_standing_queue_is_in_every_column() {
    const WINDOW: u64 = 100;
    let rate = Rate::from_bits_per_sec(10_000_000);
    let there = LinkConfig::new(rate, DELAY).loss(Loss::List(vec![8_000]));
    let setup = Setup::pair(1, Duplex { there, back: LinkConfig::delay(DELAY) }).configure(|config| {
        plain(config);
        config.max_cwnd = WINDOW * MSS;
    });
    let mut sim = Sim::new(setup);
    let (client, _) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    // The samples are taken between the events of the path, which are at least 100 ns apart.
    sim.run_for(Span::from_nanos(12_345));
    let id = sim.record(client, Some(0), Span::from_millis(1));
    let mut backlog = vec![sim.link(0).backlog().1];
    for _ in 1..10_200 {
        sim.run_for(Span::from_millis(1));
        backlog.push(sim.link(0).backlog().1);
    }
    let series: &Series = sim.series(id);
    assert_eq!(series.queue, backlog.into_iter().map(Bytes).collect::<Vec<_>>());
    let round_trip = rate.time_for(Bytes(WINDOW * PACKET));
    let in_queue = WINDOW * PACKET - rate.bytes_in(DELAY * 2).0;
    // After 58 round trips, (7/8)^58 of the initial value remains in the smoothed RTT; the 8,000th packet is sent at
    // 9.6 s.
    for row in 7_000..9_500 {
        let (cwnd, queue, srtt) = (series.cwnd[row], series.queue[row].0, series.srtt[row]);
        assert!(cwnd == Bytes(WINDOW * MSS) && series.ssthresh[row].is_none(), "{row}: {cwnd}");
        // The packet in transmission is not in the queue, and the ACK that permits the next packet may be due.
        assert!((in_queue - 2 * PACKET..=in_queue).contains(&queue), "{row}: {queue} instead of {in_queue}");
        let off = srtt.map_or(1.0, |srtt| srtt.as_secs_f64() / round_trip.as_secs_f64() - 1.0);
        assert!(off.abs() < 0.001, "{row}: {srtt:?} instead of {round_trip}");
        let goodput = rate.as_bytes_per_sec() as f64 * MSS as f64 / PACKET as f64;
        let measured = series.rate[row].map_or(0.0, |rate| rate.as_bytes_per_sec() as f64);
        assert!((measured / goodput - 1.0).abs() < 0.001, "{row}: {measured} instead of {goodput}");
    }
    // RFC 5681, section 3.1, equation 4: half of the flight size.
    let last = series.time.len() - 1;
    assert_eq!(series.ssthresh[last], Some(Bytes(WINDOW * MSS / 2)));
    assert!(series.cwnd[last] < Bytes(WINDOW * MSS) && series.queue[last].0 < in_queue / 2);
}
