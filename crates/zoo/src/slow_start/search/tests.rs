use longhaul_cc::RttSample;

use super::*;
use crate::tests::{MSS, Sender, segments, sender};

const MS: u64 = 1_000_000;
const RTT: Span = Span::from_millis(100);

fn at(ms: u64) -> Time {
    Time::from_nanos((1000 + ms) * MS)
}

/// A sender over a path of 100 ms with an unlimited queue and one ACK per segment.
struct Bottleneck {
    sender: Sender,
    /// Rate of the bottleneck in segments per millisecond.
    rate: u64,
}

impl Bottleneck {
    fn new(spec: &str, rate: u64) -> Self {
        Self { sender: sender(spec), rate }
    }

    /// Runs until slow start ends. Returns the window before and after the ACK that ended it.
    fn run(&mut self) -> (Bytes, Bytes) {
        let sender = &mut self.sender;
        let gap = Span::from_nanos(MS / self.rate);
        // ACK time and send time of each segment in flight.
        let mut line: std::collections::VecDeque<(Time, Time)> = std::collections::VecDeque::new();
        let mut free = sender.now;
        for _ in 0..100_000 {
            for _ in 0..sender.fill() {
                free = free.max(sender.now) + gap;
                line.push_back((free + RTT, sender.now));
            }
            let (due, left) = line.pop_front().expect("something in flight");
            sender.now = due;
            sender.rtt = due - left;
            let before = sender.cwnd();
            sender.ack(1);
            if sender.snapshot().phase != "slow-start" {
                return (before, sender.cwnd());
            }
        }
        panic!("slow start never ended");
    }
}

/// Let c be two segments per ms, over 100 ms. Until time 0, the ACKs and the segments that they release double every
/// 100 ms. From then on, segments arrive at rate c and leave at 2 c; 288 segments are in flight, of which 44 ms are in
/// the queue, so a segment sent at s is acknowledged at 2 s + 144 ms. In the window of 350 ms that ends at s, c (2 s +
/// 289 (1 - 2^-((350 - s) / 100))) segments are sent. That equals 350 c / 0.74 for s = 122 ms, which shows at 388 ms
/// with 1064 segments. In the same window, c (s + 144 (1 - 2^-((350 - s) / 100))) segments arrive. That equals 350 c /
/// 1.3 for s = 165 ms, which shows at 474 ms with 1236 segments. Both are exact to two bins, which are 140 segments.
#[test]
fn it_ends_above_the_capacity_by_what_the_threshold_asks() {
    for (spec, ends) in [("search(exit=plain)+cubic", 1064), ("search(exit=plain,rule=delivered)+cubic", 1236)] {
        let (before, after) = Bottleneck::new(spec, 2).run();
        assert!(before > segments(ends) && before < segments(ends + 140), "{spec}: {} segments", before.segments(MSS));
        assert_eq!(before, after);
    }
}

/// The roll-back takes off the deliveries of two initial round trips, in whole bins 210 ms: 420 segments.
#[test]
fn a_roll_back_takes_off_what_arrived_in_two_round_trips() {
    let mut path = Bottleneck::new("search(exit=roll-back)+cubic", 2);
    let (before, after) = path.run();
    let expected = before - segments(420);
    assert!((after.as_f64() - expected.as_f64()).abs() <= 3.0 * MSS.as_f64(), "from {before} to {after}");
    assert_eq!((path.sender.ssthresh(), path.sender.snapshot().phase), (after, "congestion-avoidance"));
}

/// A roll-back does not reduce the window below the initial window.
#[test]
fn a_roll_back_ends_at_the_initial_window() {
    let mut search = search(Exit::RollBack);
    search.bins = Bins::begin(at(0), RTT, 3.5, Bytes::ZERO, Bytes::ZERO);
    if let Some(bins) = &mut search.bins {
        bins.advance(at(36), segments(300), segments(600));
    }
    let path = Path::new(MSS);
    for (cwnd, left) in [(500, 200), (305, 10), (20, 10), (4, 4)] {
        let mut window = Window::new(segments(cwnd).as_f64());
        assert_eq!(search.end(&path, &mut window), Step::Done);
        assert_eq!((window.cwnd, window.ssthresh), (segments(left).as_f64(), segments(left).as_f64()), "{cwnd}");
    }
}

fn search(exit: Exit) -> Search {
    Search { exit, ..Search::default() }
}

/// The drain takes half of the delivered bytes off the window, down to the deliveries of one round trip of three bins
/// (105 ms): 210 segments.
#[test]
fn a_drain_leads_to_what_arrives_in_a_round_trip() {
    let mut path = Bottleneck::new("search(exit=drain)+cubic", 2);
    let (before, after) = path.run();
    assert_eq!((before, path.sender.snapshot().phase), (after, "drain"));
    let sender = &mut path.sender;
    let mut cwnd = sender.cwnd();
    let mut arrived = 0;
    while sender.snapshot().phase == "drain" {
        sender.now += Span::from_micros(500);
        sender.ack(1);
        arrived += 1;
        assert!(cwnd - sender.cwnd() <= MSS * 0.5 as u64 + Bytes(MSS.0 / 2 + 1), "at once");
        cwnd = sender.cwnd();
    }
    assert_eq!(sender.ssthresh(), cwnd);
    assert!(cwnd.segments(MSS) > 207.0 && cwnd.segments(MSS) < 213.0, "{}", cwnd.segments(MSS));
    let taken = 2.0 * (before - cwnd).segments(MSS);
    assert!((f64::from(arrived) - taken).abs() <= 1.0, "{arrived} ACKs took {taken} halves");
}

/// After a pause of more than a window, counting starts again if so configured.
#[test]
fn after_a_pause_it_begins_anew() {
    for (reset, expected) in [(true, 0), (false, 12)] {
        let mut search = Search { reset, ..search(Exit::Plain) };
        assert!(!search.count(at(0), MSS, RTT), "the first ACK only begins");
        assert!(search.count(at(35), MSS, RTT));
        let counted = search.count(at(35 * 12), MSS, RTT);
        assert_eq!((counted, search.bins.as_ref().map(|bins| bins.last)), (!reset, Some(expected)));
    }
    let mut search = search(Exit::Plain);
    search.count(at(0), MSS, RTT);
    search.count(at(35), MSS, RTT);
    assert!(search.count(at(35 * 11), MSS, RTT), "ten bins are a window");
}

/// Probes do not count as data, and a new slow start discards the bins.
#[test]
fn what_is_sent_is_counted_without_probes() {
    let mut search = search(Exit::Plain);
    let path = Path::new(MSS);
    for kind in [SegmentKind::Data, SegmentKind::Probe, SegmentKind::Retransmit] {
        let mut sent = Sent::new(at(0), longhaul_cc::TxId(0), MSS);
        sent.kind = kind;
        search.on_sent(&sent, &path);
    }
    assert_eq!(search.sent, segments(2));
    search.count(at(0), MSS, RTT);
    search.begin(Reason::Timeout, &path, &Window::new(1460.0));
    assert!(search.bins.is_none());
}

/// A shortfall of exactly the threshold, 26 %, ends slow start.
#[test]
fn a_shortfall_of_the_threshold_ends_it() {
    for (delivered, ends) in [(7401, false), (7400, true)] {
        let mut search = search(Exit::Plain);
        let mut window = Window::new(100_000.0);
        let path = Path::new(MSS);
        let mut step = Step::Stay;
        for bin in 0..=13 {
            // 1000 bytes are sent per bin; all of them arrive, except in the last bin.
            search.sent = Bytes(1000 * bin);
            let mut ack = Ack::new(at(35 * bin));
            ack.total_delivered = if bin == 13 { Bytes(delivered + 3000) } else { Bytes(1000 * bin) };
            ack.rtt = Some(RttSample::new(Span::from_millis(70), at(0)));
            if bin == 0 {
                ack.rtt = Some(RttSample::new(RTT, at(0)));
            }
            step = search.on_ack(&ack, Bytes::ZERO, &path, &mut window);
        }
        assert_eq!(step == Step::Done, ends, "{delivered} of 10000 bytes");
        assert_eq!(window.ssthresh.is_finite(), ends);
    }
}
