use super::*;

const GAP: Span = Span::from_millis(1);
const TIMEOUT: Span = Span::from_millis(300);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn plan(id: u32) -> ProbePlan {
    let mut plan = ProbePlan::new(id, ProbeKind::Dummy, u32::MAX);
    plan.gap = GAP;
    plan
}

/// Returns probes of plan 1, sent one per millisecond, with the send time in milliseconds as timestamp.
fn sent(number: u64) -> Probes {
    let mut probes = Probes::new(true);
    probes.adopt(at(0), Some(plan(1)));
    for nth in 1..=number {
        let (value, generation) = (nth as u32, probes.generation);
        probes.on_sent(ProbeRecord { value, start: nth * 10, end: nth * 10 + 10, sent_at: at(nth), generation }, GAP);
    }
    probes
}

fn report(probes: &mut Probes) -> (u32, u32) {
    let ProbeReport { acked, lost } = std::mem::take(&mut probes.report);
    (acked, lost)
}

/// Results that were counted but not reported are discarded with a new plan or a timeout, as are later results of old
/// probes. Resuming the same plan is not a new plan.
#[test]
fn unreported_results_are_discarded_with_their_plan() {
    for by_plan in [true, false] {
        let mut probes = sent(10);
        probes.expire(at(4) + TIMEOUT, TIMEOUT);
        probes.take_by_value(9);
        match by_plan {
            true => probes.adopt(at(400), Some(plan(2))),
            false => probes.begin_generation(),
        }
        probes.take_by_value(10);
        probes.expire(at(500), TIMEOUT);
        assert_eq!(report(&mut probes), (0, 0), "{by_plan}");
        assert_eq!((probes.info.acked, probes.info.lost), (2, 8), "counted, though not reported");
    }
    let mut probes = sent(10);
    probes.adopt(at(20), None);
    probes.take_by_value(9);
    probes.adopt(at(30), Some(plan(1)));
    assert_eq!((probes.sent, report(&mut probes)), (10, (1, 0)));
}

/// A probe is counted lost once and stays recorded for a while. A late answer is matched but not counted.
#[test]
fn a_late_answer_is_not_counted() {
    let mut probes = sent(10);
    probes.expire(at(5) + TIMEOUT, TIMEOUT);
    assert_eq!((probes.counted_lost, probes.flight.len(), report(&mut probes)), (4, 10, (0, 4)));
    assert!(probes.take_by_value(2).is_some() && probes.take_by_range(30, 40).is_some());
    assert_eq!((probes.counted_lost, probes.flight.len(), report(&mut probes)), (2, 8, (0, 0)));
    // Outstanding probes are matched before those counted lost.
    probes.flight[0].start = 70;
    assert_eq!(probes.take_by_range(70, 80).map(|copied| copied.value), Some(7));
    assert_eq!(report(&mut probes), (1, 0));
    probes.expire(at(9) + TIMEOUT * RECORD_TIMEOUTS, TIMEOUT);
    assert_eq!((probes.counted_lost, probes.flight.len(), report(&mut probes)), (2, 2, (0, 5)));
    probes.expire(at(11) + TIMEOUT * RECORD_TIMEOUTS, TIMEOUT);
    assert_eq!((probes.counted_lost, probes.flight.len(), report(&mut probes)), (0, 0, (0, 0)));
    assert_eq!((probes.info.acked, probes.info.lost), (1, 9));
}

#[test]
fn the_number_of_records_is_bounded() {
    let mut probes = sent(MAX_RECORDS as u64 + 100);
    assert_eq!((probes.flight.len(), probes.counted_lost, report(&mut probes)), (MAX_RECORDS, 0, (0, 100)));
    probes.expire(at(300) + TIMEOUT, TIMEOUT);
    assert_eq!((probes.flight.len(), probes.counted_lost, report(&mut probes)), (MAX_RECORDS, 199, (0, 199)));
    for value in 1..=50 {
        let generation = probes.generation;
        probes.on_sent(ProbeRecord { value, start: 0, end: 1, sent_at: at(5000), generation }, GAP);
    }
    assert_eq!((probes.flight.len(), probes.counted_lost, report(&mut probes)), (MAX_RECORDS, 149, (0, 0)));
}
