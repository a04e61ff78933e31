use longhaul_units::{Bytes, Span, Time};

use super::*;
use crate::{AckedSegment, Granted, RttSample, Sent, TxId};

pub(super) const MSS: Bytes = Bytes(1448);

/// Acknowledges pairs of segments, the second of which arrives `gap` after the first.
pub(super) fn pairs(capacity: &mut Capacity, now: Time, first: u64, gaps: &[Span]) {
    let mut segments = Vec::new();
    for (gap, number) in gaps.iter().zip((first..).step_by(2)) {
        let sent_at = Time::from_nanos(number * 1000);
        let arrival = now + Span::from_millis(number);
        for (tx, arrival) in [(number, arrival), (number + 1, arrival + *gap)] {
            let mut segment = AckedSegment::new(TxId(tx), sent_at, MSS);
            segment.arrival = Some(arrival);
            segments.push(segment);
        }
    }
    let mut ack = Ack::new(now);
    (ack.acked, ack.round_start) = (&segments, true);
    capacity.on_ack(&ack);
}

/// 1448 bytes per millisecond. Eight gaps are enough; the newest decide, unless they disagree.
#[test]
fn the_capacity_is_that_of_the_gaps() {
    let (mut capacity, now, ms) = (Capacity::default(), Time::from_nanos(1), Span::from_millis(1));
    pairs(&mut capacity, now, 0, &[ms; 7]);
    assert_eq!(capacity.rate(), None);
    pairs(&mut capacity, now, 14, &[ms]);
    assert_eq!(capacity.rate(), Some(1_448_000.0));
    pairs(&mut capacity, now, 16, &[ms; 50]);
    pairs(&mut capacity, now, 116, &[ms * 4; 12]);
    assert_eq!(capacity.rate(), Some(362_000.0), "the link has become slower");
    // Three of twelve that differ do not matter, four of them leave the decision to the median of all.
    let mut newest = [ms * 4; 12];
    newest[..3].fill(ms * 2);
    pairs(&mut capacity, now, 140, &newest);
    assert_eq!(capacity.rate(), Some(362_000.0));
}

/// A clock of 1 ms shows gaps of zero and of 1 ms, whatever the capacity.
#[test]
fn a_coarse_clock_shows_no_capacity() {
    let (mut capacity, ms) = (Capacity::default(), Span::from_millis(1));
    let gaps: Vec<_> = (0..64).map(|number| if number % 3 == 0 { Span::ZERO } else { ms }).collect();
    pairs(&mut capacity, Time::from_nanos(1), 0, &gaps);
    assert_eq!(capacity.rate(), None);
    pairs(&mut capacity, Time::from_nanos(1), 128, &[ms; 12]);
    assert_eq!(capacity.rate(), None, "twelve gaps of a tick");
}

/// A network card that holds a segment for others merges those with short gaps, and lengthens the other gaps. Eight of
/// the newest 64 segments may be merged.
#[test]
fn where_offload_merges_segments_there_is_no_capacity() {
    let (mut capacity, now, ms) = (Capacity::default(), Time::from_nanos(1), Span::from_millis(1));
    let merged = |capacity: &mut Capacity, first: u64, count: u64| {
        let segments: Vec<_> = (first..first + count)
            .map(|tx| AckedSegment {
                arrival: Some(now),
                arrival_coalesced: true,
                ..AckedSegment::new(TxId(tx), now, MSS)
            })
            .collect();
        let mut ack = Ack::new(now);
        (ack.acked, ack.round_start) = (&segments, true);
        capacity.on_ack(&ack);
    };
    pairs(&mut capacity, now, 0, &[ms; 32]);
    merged(&mut capacity, 64, 8);
    assert_eq!(capacity.rate(), Some(1_448_000.0));
    merged(&mut capacity, 72, 1);
    assert!(capacity.rate().is_none() && !capacity.is_scattered);
    assert_eq!(capacity.most_jitter(now, MSS.as_f64()), None);
    pairs(&mut capacity, now, 74, &[ms; 27]);
    assert_eq!(capacity.rate(), None, "54 segments later, the newest nine merged ones still count");
    pairs(&mut capacity, now, 128, &[ms]);
    assert_eq!(capacity.rate(), Some(1_448_000.0));
}

/// Where gaps vary, as with jitter, there is no estimate; nor after ten seconds without gaps.
#[test]
fn without_agreement_there_is_no_capacity() {
    let (mut capacity, now, ms) = (Capacity::default(), Time::from_nanos(1), Span::from_millis(1));
    let gaps: Vec<_> = (0..64).map(|number| ms * (1 << (number % 5))).collect();
    pairs(&mut capacity, now, 0, &gaps[..7]);
    assert!(!capacity.is_scattered, "too few gaps");
    pairs(&mut capacity, now, 14, &gaps);
    assert!(capacity.rate().is_none() && capacity.is_scattered);
    pairs(&mut capacity, now, 142, &[ms; 64]);
    assert!(capacity.rate().is_some() && !capacity.is_scattered);
    pairs(&mut capacity, now, 270, &gaps);
    pairs(&mut capacity, now + Span::from_secs(11), 398, &[]);
    assert!(capacity.rate().is_none() && !capacity.is_scattered);
    pairs(&mut capacity, now, 398, &gaps);
    assert!(capacity.is_scattered);
    capacity.clear();
    assert!(!capacity.is_scattered);
}

/// The ninth decile of 64 gaps is the seventh longest. It exceeds the median by 3 ms here, and the jitter is at most twice
/// that. A quarter of all gaps may be far shorter than their mean.
#[test]
fn gaps_limit_the_jitter() {
    let (now, ms) = (Time::from_nanos(1), Span::from_millis(1));
    let most = |gaps: &[Span], later: u64| {
        let mut capacity = Capacity::default();
        pairs(&mut capacity, now, 0, gaps);
        let most = capacity.most_jitter(now + Span::from_secs(later), MSS.as_f64());
        most.map(|secs| (secs * 1e6).round())
    };
    for (long, zero, expected) in
        [(0, 0, Some(0.0)), (6, 0, Some(0.0)), (7, 0, Some(6000.0)), (7, 16, Some(6000.0)), (7, 17, None)]
    {
        let mut gaps = [ms; 64];
        gaps[..long].fill(ms * 4);
        for short in [Span::ZERO, ms / 10] {
            gaps[64 - zero..].fill(short);
            assert_eq!(most(&gaps, 0), expected, "{long}, {zero}, {short:?}");
        }
    }
    assert_eq!((most(&[ms; 8], 0), most(&[ms; 7], 0), most(&[ms; 64], 11)), (Some(0.0), None, None));
}

/// A connection whose handshake is complete, on a transport with the given features.
fn established(granted: &Granted) -> CopaCubic {
    let path = Path::new(MSS);
    let mut controller = CopaCubic::new("copa-cubic".to_owned(), CopaCubicConfig::default(), &BuildParams::default());
    controller.on_granted(granted, &path).expect("no required needs");
    controller.on_event(&PathEvent::Established { now: Time::ZERO, granted: *granted }, &path);
    controller
}

/// Without pacing, the controller is CUBIC from the first segment on.
#[test]
fn without_pacing_it_is_cubic() {
    let path = Path::new(MSS);
    let mut granted = Granted::basic();
    granted.pacing = false;
    let mut controller = established(&granted);
    assert_eq!(controller.control().cwnd, MSS * 10);
    let mut ack = Ack::new(Time::from_nanos(100_000_000));
    (ack.delivered, ack.cumulative, ack.cwnd_limited) = (MSS, MSS, true);
    controller.on_ack(&ack, &path);
    assert_eq!(controller.control().cwnd, MSS * 11);
    assert!(controller.is_composed());
}

/// A timeout leaves one segment in every mode, and a spurious one restores the window. Only the start needs all segments.
#[test]
fn a_timeout_leaves_one_segment() {
    let (path, now) = (Path::new(MSS), Time::from_nanos(1_000_000_000));
    let granted = Granted::basic();
    let trial = Trial::new(100.0 * MSS.as_f64(), 1e6, 0.04, 0.04, true);
    for mode in [Mode::Start, Mode::Cruise, Mode::Trial(trial), Mode::Compete(Competition::new(now, GAP.0))] {
        let mut controller = established(&granted);
        controller.begin_cruise(100.0 * MSS.as_f64(), false);
        controller.cubic.take_over(100.0 * MSS.as_f64(), now, &path);
        controller.mode = mode;
        assert_eq!(controller.control().each_segment, matches!(mode, Mode::Start), "{mode:?}");
        controller.on_timeout(&Timeout::new(now, 1, MSS * 100), &path);
        assert_eq!(controller.control().cwnd, MSS, "{mode:?}");
        let spurious = PathEvent::Spurious { now, timeout: true, in_flight: MSS };
        controller.on_event(&spurious, &path);
        assert_eq!(controller.control().cwnd, MSS * 100, "{mode:?}");
    }
}

/// Acknowledges windows for some round trips of 40 ms without a queue. Returns the largest window in segments.
pub(super) fn without_a_queue(controller: &mut CopaCubic, now: &mut Time, rounds: u32, marked: bool) -> f64 {
    let (path, rtt) = (Path::new(MSS), Span::from_millis(40));
    let (mut most, mut total) = (0.0_f64, Bytes::ZERO);
    for _ in 0..rounds {
        *now += rtt;
        for number in 0..controller.control().cwnd.0 / MSS.0 {
            let mut ack = Ack::new(*now);
            (ack.round_start, ack.cwnd_limited, ack.ecn_echo) = (number == 0, true, marked && number == 0);
            total += MSS;
            (ack.delivered, ack.cumulative, ack.total_delivered) = (MSS, MSS, total);
            ack.in_flight = controller.control().cwnd - MSS;
            ack.rtt = Some(RttSample::new(rtt, *now - rtt));
            controller.on_ack(&ack, &path);
        }
        most = most.max(controller.copa.cwnd / MSS.as_f64());
    }
    most
}

/// Cruise with a window of so many segments, in slow start or not.
pub(super) fn cruising(segments: f64, grows: bool) -> (CopaCubic, Time) {
    let (mut controller, mut now) = (established(&Granted::basic()), Time::from_nanos(1_000_000_000));
    controller.begin_cruise(segments * MSS.as_f64(), false);
    without_a_queue(&mut controller, &mut now, 1, false);
    controller.copa.take_over(segments * MSS.as_f64(), grows);
    (controller, now)
}

/// Slow start after a timeout ends at the window before the first of consecutive timeouts, or at two segments. A spurious one
/// sets no limit.
#[test]
fn slow_start_after_a_timeout_ends_at_the_window_before() {
    let path = Path::new(MSS);
    let after = |window: f64, timeouts: u32, spurious: bool, rounds| {
        let (mut controller, mut now) = cruising(window, true);
        for nth in 1..=timeouts {
            controller.on_timeout(&Timeout::new(now, nth, MSS), &path);
        }
        if spurious {
            controller.on_event(&PathEvent::Spurious { now, timeout: true, in_flight: MSS }, &path);
        }
        without_a_queue(&mut controller, &mut now, rounds, false)
    };
    for timeouts in [1, 3] {
        let windows = [20.0, 1.0].map(|window| after(window, timeouts, false, 7));
        assert!((20.0..40.0).contains(&windows[0]) && (2.0..20.0).contains(&windows[1]), "{timeouts}: {windows:?}");
        assert_eq!(after(1.0, timeouts, false, 1), 2.0);
    }
    assert!(after(20.0, 1, true, 7) > 100.0);
    assert!(after(200.0, 1, false, 7) > 100.0);
}

/// A timeout soon after the first one, such as that of a retransmission, does not make its small window the limit, but half of
/// the old limit. If it was spurious, the old limit holds again.
#[test]
fn timeouts_in_slow_start_halve_its_limit() {
    let path = Path::new(MSS);
    for (spurious, expected) in [(false, 20.0..30.0), (true, 40.0..60.0)] {
        let (mut controller, mut now) = cruising(40.0, false);
        controller.on_timeout(&Timeout::new(now, 1, MSS), &path);
        without_a_queue(&mut controller, &mut now, 1, false);
        controller.on_timeout(&Timeout::new(now, 1, MSS), &path);
        if spurious {
            controller.on_event(&PathEvent::Spurious { now, timeout: true, in_flight: MSS }, &path);
        }
        let most = without_a_queue(&mut controller, &mut now, 7, false);
        assert!(expected.contains(&most), "{spurious}: {most}");
    }
}

/// A mark in each round trip takes more than Copa adds, of a small window too, but leaves two segments. After an idle period,
/// Copa adds as much as without marks.
#[test]
fn marks_outweigh_what_copa_adds() {
    for window in [5.0, 10.0, 30.0] {
        let (mut controller, mut now) = cruising(window, false);
        without_a_queue(&mut controller, &mut now, 20, true);
        let left = controller.copa.cwnd / MSS.as_f64();
        assert!((2.0..4.0).contains(&left), "{window}: {left}");
        assert!(controller.crowd.on_round(left) < 0.2);
        controller.on_event(&PathEvent::IdleRestart { now, idle: Span::from_secs(10) }, &Path::new(MSS));
        assert_eq!(controller.crowd.on_round(left), 1.0);
    }
}

/// A timeout ends a dip, whose limit then no longer holds.
#[test]
fn a_timeout_ends_a_dip() {
    let (path, window) = (Path::new(MSS), MSS * 100);
    let mut mode = Competition::new(Time::ZERO, GAP.0);
    let mut ack = Ack::new(Time::ZERO);
    ack.round_start = true;
    (0..10).for_each(|_| mode.on_dip_ack(&ack, 0.1, None));
    ack.episode = Episode::Enter;
    mode.on_queue(&ack, Delay { queueing: 0.05, rtt: 0.1, empty: 0.001 }, window.as_f64(), || None);
    let mut controller = established(&Granted::basic());
    controller.mode = Mode::Compete(mode);
    for (timeout, expected) in [(false, MSS * 50), (true, window)] {
        if timeout {
            controller.on_timeout(&Timeout::new(Time::ZERO, 1, window), &path);
        }
        controller.cubic.take_over(window.as_f64(), Time::ZERO, &path);
        assert_eq!(controller.control().cwnd, expected, "{timeout}");
    }
}

/// Acknowledges a message of 25 bytes each `every` milliseconds. `change` changes each ACK, and returns an event before
/// it; [`Episode::Rto`] stands for a timeout before it. Returns the number of the message at which there is a start with
/// the window of a new connection.
fn start_beside_messages(
    mode: Mode,
    segments: u64,
    every: u64,
    change: impl Fn(u64, &mut Ack<'_>) -> Option<PathEvent>,
) -> Option<u64> {
    let path = Path::new(MSS);
    let reports = Granted { arrival_times: true, segments: true, pacing: true, ..Granted::basic() };
    let mut controller = established(&reports);
    controller.begin_cruise((MSS * segments).as_f64(), false);
    controller.cubic.take_over((MSS * segments).as_f64(), Time::ZERO, &path);
    controller.mode = mode;
    (0..20).find(|number| {
        let mut ack = Ack::new(Time::ZERO + Span::from_millis(number * every));
        (ack.delivered, ack.cumulative, ack.round_start) = (Bytes(25), Bytes(25), true);
        if let Some(event) = change(*number, &mut ack) {
            controller.on_event(&event, &path);
        }
        if ack.episode == Episode::Rto {
            controller.on_timeout(&Timeout::new(ack.now, 1, MSS), &path);
            ack.episode = Episode::None;
        }
        controller.on_ack(&ack, &path);
        matches!(controller.mode, Mode::Start) && controller.control().cwnd == MSS * 10
    })
}

/// Small messages for four round trips and a second begin another start with the window of a new connection, in every mode, and also
/// if the pauses between them are idle periods, after which a start has at most the window from before.
#[test]
fn small_messages_begin_another_start() {
    let now = Time::from_nanos(1_000_000_000);
    let trial = Trial::new(2.0 * MSS.as_f64(), 1e6, 0.04, 0.04, true);
    for mode in [Mode::Cruise, Mode::Trial(trial), Mode::Compete(Competition::new(now, GAP.0))] {
        assert_eq!(start_beside_messages(mode, 2, 1000, |_, _| None), Some(4), "{mode:?}");
        assert_eq!(start_beside_messages(mode, 2, 100, |_, _| None), Some(10), "{mode:?}");
        let idle = |_, ack: &mut Ack<'_>| Some(PathEvent::IdleRestart { now: ack.now, idle: Span::from_secs(1) });
        assert_eq!(start_beside_messages(mode, 2, 1000, idle), Some(4), "{mode:?}");
    }
}

/// The start does not begin while anything is in flight, a window limits the flow, its own is larger than that of a
/// new connection, or anything is lost or marked. A timeout begins the time anew.
#[test]
fn what_is_no_small_message_does_not_begin_another_start() {
    let start = |change: fn(u64, &mut Ack<'_>)| {
        start_beside_messages(Mode::Cruise, 2, 1000, |second, ack| {
            change(second, ack);
            None
        })
    };
    assert_eq!(start(|second, ack| ack.in_flight = MSS * u64::from(second < 7)), Some(7));
    assert_eq!(start(|second, ack| ack.round_start = second % 2 == 0), Some(8));
    assert_eq!(start(|second, ack| ack.cwnd_limited = second == 2), Some(7));
    assert_eq!(start(|second, ack| ack.newly_lost = MSS * u64::from(second == 2)), Some(7));
    assert_eq!(start(|second, ack| ack.episode = if second == 2 { Episode::Exit } else { Episode::None }), Some(7));
    assert_eq!(start(|second, ack| ack.ecn_echo = second == 2), Some(7));
    assert_eq!(start(|second, ack| ack.episode = if second == 2 { Episode::Rto } else { Episode::None }), Some(6));
    assert_eq!(start(|_, ack| ack.limit = SendLimit::PeerWindow), None);
    assert_eq!(start_beside_messages(Mode::Cruise, 1000, 1000, |_, _| None), None);
}

/// After an idle period, every mode begins another start with at most ten segments and at most the window from before, or,
/// without arrival times, slow start.
#[test]
fn an_idle_period_begins_anew_in_every_mode() {
    let (path, now) = (Path::new(MSS), Time::from_nanos(1_000_000_000));
    let reports = Granted { arrival_times: true, segments: true, ..Granted::basic() };
    for (granted, starts) in [(reports, true), (Granted::basic(), false)] {
        for segments in [4_u64, 100] {
            let window = (MSS * segments).as_f64();
            let trial = Trial::new(window, 1e6, 0.04, 0.04, true);
            for mode in [Mode::Start, Mode::Cruise, Mode::Trial(trial), Mode::Compete(Competition::new(now, GAP.0))] {
                let mut controller = established(&granted);
                controller.begin_cruise(window, false);
                controller.cubic.take_over(window, now, &path);
                controller.mode = mode;
                controller.on_event(&PathEvent::IdleRestart { now, idle: Span::from_secs(5) }, &path);
                assert_eq!(matches!(controller.mode, Mode::Start), starts, "{mode:?}, {segments} segments");
                assert_eq!(controller.control().cwnd, MSS * segments.min(10), "{mode:?}, {segments} segments");
            }
        }
    }
}

/// After a timeout of the initial flight, if that was larger than 4 kB, restarts use RFC 3390's window (RFC 6928, section 2).
#[test]
fn a_timeout_of_the_initial_flight_makes_restarts_careful() {
    let (path, now) = (Path::new(MSS), Time::from_nanos(1_000_000_000));
    let reports = Granted { arrival_times: true, segments: true, ..Granted::basic() };
    for (sent, restart, granted) in
        [(10, Bytes(4380), reports), (10, Bytes(4380), Granted::basic()), (2, MSS * 10, reports)]
    {
        let mut controller = established(&granted);
        for number in 0..sent {
            controller.on_sent(&Sent::new(Time::ZERO, TxId(number), MSS), &path);
        }
        controller.on_timeout(&Timeout::new(now, 1, MSS * sent), &path);
        controller.begin_cruise((MSS * 100).as_f64(), false);
        controller.on_event(&PathEvent::IdleRestart { now, idle: Span::from_secs(5) }, &path);
        assert_eq!(controller.control().cwnd, restart, "{sent} segments");
    }
}

/// Four segments take 4 ms at the rate before the queue, and 40 ms at a tenth of it. A queue of 20 ms is thus not the one
/// that Copa keeps, although the flow has given way, and is tested after five round trips.
#[test]
fn a_queue_is_compared_with_the_rate_before_it() {
    let path = Path { srtt: Some(Span::from_millis(100)), ..Path::new(MSS) };
    let mut granted = Granted::basic();
    granted.pacing = true;
    let mut controller = established(&granted);
    controller.begin_cruise(100.0 * MSS.as_f64(), false);
    let mut delivered = Bytes::ZERO;
    let mut round = |controller: &mut CopaCubic, number: u64, segments: u64, rtt: u64| {
        delivered += MSS * segments;
        let mut ack = Ack::new(Time::from_nanos(number * 100_000_000));
        (ack.round_start, ack.cwnd_limited, ack.total_delivered) = (true, true, delivered);
        (ack.delivered, ack.cumulative) = (MSS * segments, MSS * segments);
        ack.rtt =
            Some(RttSample { rtt: Span::from_millis(rtt), sent_at: Time::from_nanos((number - 1) * 100_000_000) });
        controller.on_ack(&ack, &path);
    };
    (1..10).for_each(|number| round(&mut controller, number, 100, 100));
    assert!(matches!(controller.mode, Mode::Cruise));
    let tested = (10..30).find(|&number| {
        round(&mut controller, number, if number < 13 { 100 } else { 10 }, 120);
        matches!(controller.mode, Mode::Trial(_))
    });
    assert!(tested.is_some_and(|number| number < 20), "{tested:?}");
}

/// Returns the mode after 200 round trips of ten segments in cruise, of which `lost` are lost each time, whatever the
/// window.
fn after_losses(config: CopaCubicConfig, lost: u64) -> Mode {
    let path = Path { srtt: Some(Span::from_millis(20)), ..Path::new(MSS) };
    let mut granted = Granted::basic();
    granted.pacing = true;
    let mut controller = established(&granted);
    controller.config = config;
    controller.begin_cruise(10.0 * MSS.as_f64(), false);
    let mut delivered = Bytes::ZERO;
    for number in 1..200 {
        delivered += MSS * (10 - lost);
        let mut ack = Ack::new(Time::from_nanos(number * 20_000_000));
        (ack.round_start, ack.total_delivered, ack.newly_lost) = (true, delivered, MSS * lost);
        (ack.delivered, ack.cumulative) = (MSS * (10 - lost), MSS * (10 - lost));
        ack.rtt = Some(RttSample { rtt: Span::from_millis(20), sent_at: Time::from_nanos((number - 1) * 20_000_000) });
        controller.on_ack(&ack, &path);
        if matches!(controller.mode, Mode::Compete(_)) {
            break;
        }
    }
    controller.mode
}

/// A flow of ten segments that loses a fifth of them, with any window, competes with the other flows of the crowd; not one
/// that loses nothing.
#[test]
fn a_flow_in_a_crowd_competes() {
    let config = CopaCubicConfig::default();
    assert!(matches!(after_losses(config, 2), Mode::Compete(_)));
    assert!(matches!(after_losses(config, 0), Mode::Cruise));
    assert!(!matches!(after_losses(CopaCubicConfig { compete: false, ..config }, 2), Mode::Compete(_)));
}

/// A flow in cruise over 1000 segments per second and 100 ms, which hold 100 segments.
struct Unused {
    controller: CopaCubic,
    round: u64,
    delivered: Bytes,
}

impl Unused {
    fn new() -> Self {
        let mut granted = Granted::basic();
        granted.pacing = true;
        let mut controller = established(&granted);
        controller.begin_cruise(20.0 * MSS.as_f64(), false);
        Self { controller, round: 0, delivered: Bytes::ZERO }
    }

    /// Acknowledges `segments` segments of a round trip with an RTT of `rtt` milliseconds.
    fn round(&mut self, segments: u64, rtt: u64) {
        self.round += 1;
        let now = Time::from_nanos(self.round * 100_000_000);
        pairs(&mut self.controller.capacity, now, 1000 * self.round, &[Span::from_millis(1); 12]);
        self.delivered += MSS * segments;
        let mut ack = Ack::new(now);
        (ack.round_start, ack.cwnd_limited, ack.total_delivered) = (true, true, self.delivered);
        (ack.delivered, ack.cumulative) = (MSS * segments, MSS * segments);
        ack.rtt = Some(RttSample { rtt: Span::from_millis(rtt), sent_at: now - Span::from_millis(100) });
        let path = Path { srtt: Some(Span::from_millis(100)), ..Path::new(MSS) };
        self.controller.on_ack(&ack, &path);
    }

    /// Loses a segment of the window, in an episode of its own.
    fn lose(&mut self) {
        let mut ack = Ack::new(Time::from_nanos(self.round * 100_000_000));
        (ack.episode, ack.newly_lost) = (Episode::Enter, MSS);
        self.controller.on_ack(&ack, &Path::new(MSS));
    }

    /// Returns the number of round trips with an empty queue and a window of `segments` segments until the window grows
    /// quickly.
    fn rounds_until_growth(&mut self, segments: u64) -> Option<u32> {
        (1..2000).find(|_| {
            self.controller.copa.take_over((MSS * segments).as_f64(), false);
            self.round(segments, 100);
            self.controller.copa.slow_start
        })
    }

    /// Ends quick growth by a queue of at most four round trips, which the window of `segments` segments does not fill.
    fn end_by_queue(&mut self, segments: u64) {
        let ends = |flow: &mut Self| {
            flow.round(segments, 200);
            !flow.controller.copa.slow_start
        };
        assert!((0..4).any(|_| ends(self)));
    }
}

/// Copa's target is `RTT / (0.5 queueing delay)`: 12 segments for 20 ms, 42 for 5 ms, and 0.7 of that after a loss in a full
/// queue, if the flow has few segments and not the whole link.
#[test]
fn a_flow_keeps_less_in_a_queue_that_drops_its_segments() {
    let grows = |window: u64, delivered: u64, rtt: u64, change: fn(&mut Unused)| {
        let mut flow = Unused::new();
        (0..20).for_each(|_| flow.round(delivered, 100));
        // The level of congestion is a queue of 20 ms.
        let measure = |flow: &mut Unused, rtt| {
            let mut ack = Ack::new(Time::from_nanos(flow.round * 100_000_000));
            ack.rtt = Some(RttSample { rtt: Span::from_millis(rtt), sent_at: Time::ZERO });
            (0..8).for_each(|_| flow.controller.level.on_ack(&ack));
        };
        measure(&mut flow, 120);
        flow.controller.level.on_loss();
        measure(&mut flow, rtt);
        flow.round(delivered, rtt);
        flow.controller.copa.take_over((MSS * window).as_f64(), false);
        change(&mut flow);
        flow.controller.copa.take_over((MSS * window).as_f64(), false);
        let before = flow.controller.copa.cwnd;
        flow.round(delivered, rtt);
        flow.controller.copa.cwnd > before
    };
    assert!(grows(10, 20, 120, |_| ()) && !grows(10, 20, 120, Unused::lose));
    assert!(grows(36, 20, 105, Unused::lose), "a short queue");
    assert!(grows(10, 95, 120, Unused::lose), "alone");
    let without_capacity = |flow: &mut Unused| {
        flow.controller.capacity.clear();
        flow.lose();
    };
    assert!(grows(10, 20, 120, without_capacity), "perhaps alone");
    let long_ago = |flow: &mut Unused| {
        flow.lose();
        (0..50).for_each(|_| flow.round(20, 100));
        flow.round(20, 120);
    };
    assert!(grows(10, 20, 120, long_ago));
}

/// The window grows quickly after ten round trips in which the link was unused, and after twice as many each time that a
/// queue ends the growth below 0.8 of what the path holds.
#[test]
fn patience_doubles_if_a_queue_ends_quick_growth() {
    let mut flow = Unused::new();
    for rounds in [10, 20, 40, 80, 160, 320, 640, 640] {
        assert_eq!(flow.rounds_until_growth(20), Some(rounds));
        flow.end_by_queue(20);
    }
}

/// A queue is tested as soon as a new flow meets it, unless its window of a few segments shows little of it: lowering that
/// for a trial would cost a short transfer seconds. A flow that has competed is not new.
#[test]
fn a_new_flow_with_a_few_segments_tests_no_queue() {
    let is_tested = |segments, competed| {
        let mut flow = Unused::new();
        flow.round(segments, 100);
        flow.controller.cruise.newcomer = NEWCOMER_ROUNDS;
        if competed {
            let window = (MSS * segments).as_f64();
            flow.controller.begin_competition(window, Time::ZERO, &Path::new(MSS));
            flow.controller.begin_cruise(window, false);
        }
        (0..3).any(|_| {
            flow.controller.copa.take_over((MSS * segments).as_f64(), false);
            flow.round(segments, 130);
            matches!(flow.controller.mode, Mode::Trial(_))
        })
    };
    assert!(is_tested(30, false) && !is_tested(10, false) && !is_tested(30, true));
}

/// In its first mode, the start-up scheme counts what has been sent.
#[test]
fn a_run_counts_as_its_segments_do() {
    let sent_as = |send: fn(&mut CopaCubic, &Path)| {
        let mut controller =
            CopaCubic::new("copa-cubic".to_owned(), CopaCubicConfig::default(), &BuildParams::default());
        send(&mut controller, &Path::new(MSS));
        format!("{controller:#?}")
    };
    let run =
        sent_as(|controller, path| controller.on_sent_run(&Sent::new(Time::from_nanos(1), TxId(1), MSS), 3, path));
    let segments = sent_as(|controller, path| {
        for number in 0..3 {
            let mut event = Sent::new(Time::from_nanos(1), TxId(1 + number), MSS);
            event.in_flight_before = MSS * number;
            controller.on_sent(&event, &Path { queued: MSS * (2 - number), ..*path });
        }
    });
    assert_eq!(run, segments);
    assert_ne!(run, sent_as(|_, _| {}));
}
