use longhaul_cc::{AckedSegment, RttSample, TxId};
use longhaul_units::{Bytes, Span, Time};

use super::compete::is_due;
use super::*;

const MSS: Bytes = Bytes(1448);

fn path(rtt: Span) -> Path {
    update!(Path { srtt: Some(rtt), ..Path::new(MSS) })
}

/// Lets a model see one RTT sample per ms for `ms`, each with 1448 bytes, and a round trip per 40 ms, with a queue that
/// overflows at `overflow` seconds.
fn observe(model: &mut Model, from: u64, ms: u64, rtt: Span, overflow: Option<f64>) {
    for at in from..from + ms {
        let now = Time::ZERO + Span::from_millis(at);
        let mut ack = Ack::new(now);
        ack.rtt = Some(RttSample::new(rtt, now - rtt));
        (ack.delivered, ack.total_delivered) = (MSS, MSS * at);
        ack.round_start = at % 40 == 0;
        model.on_ack(&ack, &path(rtt), overflow);
    }
}

/// 1448 bytes per ms over 40 ms, and a queue of 10 ms later: the path without its queue holds four fifths of a window.
fn filled() -> Model {
    let mut model = Model::new(MSS.as_f64());
    observe(&mut model, 40, 200, Span::from_millis(40), None);
    observe(&mut model, 240, 200, Span::from_millis(50), None);
    model
}

#[test]
fn the_model_separates_path_and_queue() {
    let mut model = filled();
    assert!((model.base() - 0.04).abs() < 1e-6 && (model.delays.queueing() - 0.01).abs() < 1e-6, "{model:?}");
    assert!((model.rate() - 1_448_000.0).abs() < 1.0, "{}", model.rate());
    assert!((model.without_queue(100.0) - 80.0).abs() < 1e-6);
    // An eighth of the RTT, at most 5 ms; four segments take 4 ms; a third of a short queue.
    assert!((model.threshold - 0.005).abs() < 1e-6);
    observe(&mut model, 440, 1, Span::from_millis(50), Some(0.006));
    assert!((model.threshold - 0.00198).abs() < 1e-6);
}

fn round(at: u64) -> Ack<'static> {
    let mut ack = Ack::new(Time::ZERO + Span::from_millis(at));
    ack.round_start = true;
    ack
}

/// The window falls to nine tenths of what the path holds, less what empties the queue in two round trips.
#[test]
fn a_drain_lowers_the_window_below_what_the_path_holds() {
    let model = filled();
    let window = 40.0 * MSS.as_f64();
    let drain = Drain::new(Cause::Queue, false, window, &Losses::new(), &model);
    assert!((drain.held - 0.8 * window).abs() < 1.0, "{drain:?}");
    assert!((drain.lowered - (0.9 - 0.125) * 0.8 * window).abs() < 1.0, "{drain:?}");
}

/// A queue that is gone was the flow's own; one that stays for four round trips is not. As long as it becomes shorter,
/// nobody knows.
#[test]
fn a_drain_waits_as_long_as_the_queue_falls() {
    let model = filled();
    let new = || Drain::new(Cause::Queue, false, 40.0 * MSS.as_f64(), &Losses::new(), &model);
    let judge = |delays: &[f64]| {
        let mut drain = new();
        let mut round_trips = delays.iter().enumerate();
        round_trips.try_fold(0, |nth, (at, delay)| match drain.on_ack(&round(at as u64 * 40), *delay, 0.005) {
            None => Ok(nth + 1),
            Some(is_gone) => Err((is_gone, nth + 1)),
        })
    };
    assert_eq!(judge(&[0.002]), Err((true, 1)));
    assert_eq!(judge(&[0.01; 9]), Err((false, 5)), "nothing is shorter than before the first round trip");
    let falling: Vec<f64> = (0..12).map(|nth| 0.1 * 0.78_f64.powi(nth)).collect();
    assert_eq!(judge(&falling), Ok(12), "0.0065 s are left");
}

/// Acknowledges ten segments that are `late` by ms, of which one more is lost.
fn lose(losses: &mut Losses, model: &Model, at: u64, late: u64, lost: u64) -> bool {
    let now = Time::ZERO + Span::from_millis(at);
    let segments: Vec<_> = (0..10)
        .map(|nth| {
            let arrival = Some(now + Span::from_millis(late));
            update!(AckedSegment { arrival, ..AckedSegment::new(TxId(at + nth), now, MSS) })
        })
        .collect();
    let mut ack = Ack::new(now);
    (ack.acked, ack.delivered, ack.newly_lost) = (&segments, MSS * 10, MSS * lost);
    ack.episode = if lost > 0 { Episode::Enter } else { Episode::None };
    losses.observe(&ack);
    losses.on_ack(&ack, false, model)
}

fn empty() -> Model {
    let mut model = Model::new(MSS.as_f64());
    observe(&mut model, 40, 200, Span::from_millis(40), None);
    model
}

/// The link loses packets whether they are late or not, a full queue the latest ones.
#[test]
fn losses_among_late_segments_are_those_of_a_queue() {
    let model = empty();
    let mut losses = Losses::new();
    for at in 0..100 {
        assert!(!lose(&mut losses, &model, at, if at % 10 == 9 { 30 } else { 1 }, 0));
    }
    assert!(!lose(&mut losses, &model, 100, 1, 1), "no later than others");
    assert_eq!(losses.overflow(), None);
    for at in 101..105 {
        lose(&mut losses, &model, at, 30, 1);
    }
    assert!(losses.overflow().is_some_and(|delay| (0.02..0.03).contains(&delay)), "{:?}", losses.overflow());
    // A queue in which a segment waits for 40 ms does not overflow at 30 ms.
    lose(&mut losses, &model, 105, 40, 0);
    assert!(losses.overflow().is_some_and(|delay| delay > 0.035), "{:?}", losses.overflow());
}

/// Losses without a delay are the link's as long as they are few, and if a lower window leaves more than half of them.
#[test]
fn a_lower_window_tells_whose_losses_they_are() {
    let model = empty();
    for (remaining, is_own) in [(0, true), (1, false)] {
        let mut losses = Losses::new();
        let lossy = |losses: &mut Losses, is_lowered, lost| {
            for at in 0..40 {
                let mut ack = Ack::new(Time::ZERO + Span::from_millis(at));
                (ack.delivered, ack.newly_lost) = (MSS * 10, MSS * lost);
                losses.on_ack(&ack, is_lowered, &model);
            }
        };
        lossy(&mut losses, false, 0);
        assert!(!losses.are_many(MSS.as_f64()));
        lossy(&mut losses, false, 1);
        assert!(losses.are_many(MSS.as_f64()), "a twentieth is lost");
        lossy(&mut losses, true, remaining);
        assert_eq!(losses.judge(), is_own);
        lossy(&mut losses, false, 1);
        assert_eq!(losses.are_many(MSS.as_f64()), is_own, "the link loses a tenth");
    }
}

/// Flows that began to compete at different times, on hosts whose clocks differ, test at the same moment, those with a
/// longer gap at some of these moments. Without a shared clock, each waits for its own gap.
#[test]
fn flows_test_together_by_a_shared_clock() {
    let at = |millis: u64| Time::ZERO + Span::from_millis(millis);
    let (gap, long) = (Span::from_secs(5), Span::from_secs(20));
    for (tested, ahead) in [(5_100, 0), (9_900, 0), (2_100, 3_000), (6_900, 3_000)] {
        let due = |millis: u64, gap| is_due(at(tested), at(millis - ahead), gap, Some(Span::from_millis(ahead)));
        assert!(!due(9_999, gap) && due(10_000, gap), "{tested}");
        assert!(!due(19_999, long) && due(20_000, long), "{tested}");
    }
    assert!(!is_due(at(5_100), at(10_100), gap, None) && is_due(at(5_100), at(10_101), gap, None));
}

/// A flow that fills a path of 40 ms with 100 segments.
fn filling() -> Tide {
    let mut tide = Tide::new("tide".to_owned(), TideConfig::default(), &BuildParams::default());
    tide.model = empty();
    tide.fill(100.0 * MSS.as_f64(), 0.0);
    tide
}

/// Acknowledges 16 pairs of segments, the second of which arrives `gap` after the first, at the end of a round trip.
fn pairs(tide: &mut Tide, at: u64, gap: Span) {
    let now = Time::ZERO + Span::from_millis(at);
    let arrival = |nth: u64| now + Span::from_millis(nth / 2 * 8) + gap * (nth % 2);
    let segments: Vec<_> = (0..32)
        .map(|nth| {
            let sent_at = arrival(nth & !1) - Span::from_millis(20);
            update!(AckedSegment { arrival: Some(arrival(nth)), ..AckedSegment::new(TxId(at + nth), sent_at, MSS) })
        })
        .collect();
    let mut ack = Ack::new(now);
    (ack.acked, ack.round_start, ack.total_delivered) = (&segments, true, MSS * at);
    tide.on_ack(&ack, &path(Span::from_millis(40)));
}

/// 1448 bytes per ms are 1,448,000 bytes/s. At half of that, the same share needs half of the window; at 1.2 times, the window
/// stays. Twice the capacity is filled as in slow start.
#[test]
fn the_share_of_a_capacity_is_kept() {
    let ms = Span::from_millis(1);
    for (gap, window, grow_to) in
        [(ms, 100.0, 0.0), (ms * 2, 50.0, 0.0), (ms * 5 / 6, 100.0, 0.0), (ms / 2, 100.0, 200.0)]
    {
        let mut tide = filling();
        pairs(&mut tide, 1000, ms);
        assert_eq!(tide.scaled.map(f64::round), Some(1_448_000.0));
        pairs(&mut tide, 2000, gap);
        let segments = |bytes: f64| (bytes / MSS.as_f64()).round();
        assert_eq!((segments(tide.window), segments(tide.grow_to)), (window, grow_to), "{gap:?}");
    }
}

/// A queue that stays in two drains in succession is that of others, and in six where a flow has fewer than four segments.
#[test]
fn a_queue_that_outlasts_two_drains_is_others() {
    for (segments, drains) in [(100.0, 2), (3.0, 6)] {
        let mut tide = filling();
        for nth in 1..=drains {
            tide.fill(segments * MSS.as_f64(), 0.0);
            tide.drain(Cause::Queue, false);
            let Phase::Drain(drain) = tide.phase else { panic!("{:?}", tide.phase) };
            tide.on_foreign_queue(drain, Time::ZERO, &path(Span::from_millis(40)));
            assert_eq!(matches!(tide.phase, Phase::Compete(_)), nth == drains, "{segments} segments, drain {nth}");
        }
    }
    // A queue that was the flow's own starts the count anew.
    let mut tide = filling();
    for own in [false, true, false] {
        tide.drain(Cause::Queue, false);
        let Phase::Drain(drain) = tide.phase else { panic!("{:?}", tide.phase) };
        match own {
            true => tide.on_own_queue(drain, Time::ZERO),
            false => tide.on_foreign_queue(drain, Time::ZERO, &path(Span::from_millis(40))),
        }
        assert!(matches!(tide.phase, Phase::Fill(_)), "{:?}", tide.phase);
    }
}

/// A queue that is kept short with ECN marks shows nothing of others: CUBIC begins with 0.7 of the window (RFC 9438), unless
/// the flow has nine tenths of the capacity. Then it drains.
#[test]
fn with_marks_cubic_takes_over_unless_the_flow_is_alone() {
    let ms = Span::from_millis(1);
    // 1448 bytes per ms have been delivered.
    for (gap, competes) in [(ms / 2, true), (ms, false)] {
        let mut tide = filling();
        pairs(&mut tide, 240, gap);
        let before = tide.window;
        let ack = update!(Ack { ecn_echo: true, ..Ack::new(Time::ZERO + Span::from_millis(241)) });
        tide.on_ack(&ack, &path(Span::from_millis(40)));
        assert_eq!(matches!(tide.phase, Phase::Compete(_)), competes, "{gap:?}: {:?}", tide.phase);
        if competes {
            assert!((tide.control().cwnd.as_f64() / before - 0.7).abs() < 0.01, "{:?} of {before}", tide.control());
        } else {
            assert!(matches!(tide.phase, Phase::Drain(Drain { cause: Cause::Mark, .. })), "{:?}", tide.phase);
        }
    }
}
