use super::*;

const GAP: Span = Span::from_millis(1);
const PATIENCE: Span = Span::from_millis(300);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn plan(id: u32) -> ProbePlan {
    ProbePlan { prefer: [Some(ProbeKind::Dummy), None, None], segments: u32::MAX, gap: GAP, dscp: 1, id }
}

/// Returns probes of plan 1, sent one per millisecond, with the send time in milliseconds as timestamp.
fn sent(number: u64) -> Probes {
    let mut probes = Probes::new(true);
    probes.follow(at(0), Some(plan(1)));
    for nth in 1..=number {
        let (value, era) = (nth as u32, probes.era);
        probes.on_sent(Copied { value, start: nth * 10, end: nth * 10 + 10, sent_at: at(nth), era }, GAP);
    }
    probes
}

fn report(probes: &mut Probes) -> (u32, u32) {
    let ProbeReport { acked, lost } = probes.take_report();
    (acked, lost)
}

/// Results that were counted but not reported are discarded with a new plan or a timeout, as are later results of old
/// probes. Resuming the same plan is not a new plan.
#[test]
fn what_is_not_told_yet_goes_with_its_plan() {
    for by_plan in [true, false] {
        let mut probes = sent(10);
        probes.expire(at(4) + PATIENCE, PATIENCE);
        probes.take_by_value(9);
        match by_plan {
            true => probes.follow(at(400), Some(plan(2))),
            false => probes.begin_era(),
        }
        probes.take_by_value(10);
        probes.expire(at(500), PATIENCE);
        assert_eq!(report(&mut probes), (0, 0), "{by_plan}");
        assert_eq!((probes.info.acked, probes.info.lost), (2, 8), "but counted");
    }
    let mut probes = sent(10);
    probes.follow(at(20), None);
    probes.take_by_value(9);
    probes.follow(at(30), Some(plan(1)));
    assert_eq!((probes.sent, report(&mut probes)), (10, (1, 0)));
}

/// A probe is counted lost once and stays recorded for a while. A late answer is matched but not counted.
#[test]
fn a_late_answer_counts_nowhere() {
    let mut probes = sent(10);
    probes.expire(at(5) + PATIENCE, PATIENCE);
    assert_eq!((probes.given_up, probes.flight.len(), report(&mut probes)), (4, 10, (0, 4)));
    assert!(probes.take_by_value(2).is_some() && probes.take_by_range(30, 40).is_some());
    assert_eq!((probes.given_up, probes.flight.len(), report(&mut probes)), (2, 8, (0, 0)));
    // Outstanding probes are matched before those counted lost.
    probes.flight[0].start = 70;
    assert_eq!(probes.take_by_range(70, 80).map(|copied| copied.value), Some(7));
    assert_eq!(report(&mut probes), (1, 0));
    probes.expire(at(9) + PATIENCE * MEMORY, PATIENCE);
    assert_eq!((probes.given_up, probes.flight.len(), report(&mut probes)), (2, 2, (0, 5)));
    probes.expire(at(11) + PATIENCE * MEMORY, PATIENCE);
    assert_eq!((probes.given_up, probes.flight.len(), report(&mut probes)), (0, 0, (0, 0)));
    assert_eq!((probes.info.acked, probes.info.lost), (1, 9));
}

#[test]
fn the_memory_is_bounded() {
    let mut probes = sent(REMEMBERED as u64 + 100);
    assert_eq!((probes.flight.len(), probes.given_up, report(&mut probes)), (REMEMBERED, 0, (0, 100)));
    probes.expire(at(300) + PATIENCE, PATIENCE);
    assert_eq!((probes.flight.len(), probes.given_up, report(&mut probes)), (REMEMBERED, 199, (0, 199)));
    for value in 1..=50 {
        let era = probes.era;
        probes.on_sent(Copied { value, start: 0, end: 1, sent_at: at(5000), era }, GAP);
    }
    assert_eq!((probes.flight.len(), probes.given_up, report(&mut probes)), (REMEMBERED, 149, (0, 0)));
}
