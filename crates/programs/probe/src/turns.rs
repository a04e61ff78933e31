//! Sessions that send one train at a time: the common part of Pathrate, Pathload and pathChirp.

use longhaul_units::{Span, Time};

use crate::{Arrived, Estimate, Method, MethodKind, Next, Planned, Train, TrainReport};

/// Time after the last packet of a train for which its report is awaited. Without a report, all packets of the train
/// count as lost.
const PATIENCE: Span = Span::from_secs(5);
/// Number of successive trains without any answer that ends a session.
pub(crate) const UNANSWERED: u32 = 10;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) packets: Vec<Planned>,
    /// Time from the departure of the last packet until the next train may be sent.
    pub(crate) rest: Span,
}

/// The decisions of a method, one train after another.
pub(crate) trait Session {
    const KIND: MethodKind;

    /// Returns the next train, or `None` to end the session. Called again only after [`Session::learn`].
    fn plan(&mut self) -> Option<Plan>;

    /// Returns the maximum duration of the session, which then ends with its current estimate.
    fn time(&self) -> Span {
        Span::from_secs(600)
    }

    /// Records the fate of the last train, with one entry per planned packet.
    fn learn(&mut self, packets: &[Option<Arrived>]);

    /// Ends the session early. Only [`Session::estimate`] is called after that.
    fn stop(&mut self) {}

    fn estimate(&self) -> Estimate;
}

/// A method that sends one train at a time, and ends when no train is answered or its time is over.
#[derive(Clone, Debug)]
pub(crate) struct Turns<S> {
    session: S,
    next_id: u32,
    out: Option<Out>,
    ready_at: Time,
    ends_at: Option<Time>,
    unanswered: u32,
    finished: bool,
}

#[derive(Clone, Copy, Debug)]
struct Out {
    id: u32,
    packets: usize,
    until: Time,
}

impl<S: Session> Turns<S> {
    pub(crate) fn of(session: S) -> Self {
        let (ready_at, ends_at) = (Time::ZERO, None);
        Self { session, next_id: 0, out: None, ready_at, ends_at, unanswered: 0, finished: false }
    }

    fn send(&mut self, now: Time, plan: Plan) -> Train {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let last = now + plan.packets.last().map_or(Span::ZERO, |packet| packet.at);
        self.ready_at = last + plan.rest;
        self.out = Some(Out { id, packets: plan.packets.len(), until: last + PATIENCE });
        Train { id, packets: plan.packets }
    }

    fn settle(&mut self, packets: &[Option<Arrived>]) {
        self.out = None;
        if self.finished {
            return;
        }
        self.session.learn(packets);
        let answered = packets.iter().any(Option::is_some);
        self.unanswered = if answered { 0 } else { self.unanswered.saturating_add(1) };
        if self.unanswered >= UNANSWERED {
            self.finish();
        }
    }

    fn finish(&mut self) {
        self.finished = true;
        self.session.stop();
    }
}

impl<S: Session> Method for Turns<S> {
    fn name(&self) -> &'static str {
        S::KIND.name()
    }

    fn poll(&mut self, now: Time) -> Next {
        let ends_at = *self.ends_at.get_or_insert(now + self.session.time());
        if !self.finished && now >= ends_at {
            self.finish();
        }
        if let Some(out) = self.out.filter(|out| now >= out.until) {
            self.settle(&vec![None; out.packets]);
        }
        if self.finished {
            return Next::Done;
        }
        if let Some(out) = self.out {
            return Next::Wait(out.until.min(ends_at));
        }
        if now < self.ready_at {
            return Next::Wait(self.ready_at.min(ends_at));
        }
        match self.session.plan() {
            Some(plan) => Next::Send(self.send(now, plan)),
            None => {
                self.finished = true;
                Next::Done
            }
        }
    }

    fn on_report(&mut self, _now: Time, report: &TrainReport) {
        let Some(out) = self.out.filter(|out| out.id == report.id && !self.finished) else { return };
        let mut packets = report.packets.clone();
        packets.resize(out.packets, None);
        self.settle(&packets);
    }

    fn estimate(&self) -> Estimate {
        self.session.estimate()
    }
}

#[cfg(test)]
mod tests {
    use longhaul_units::Bytes;

    use super::*;

    /// A session that sends pairs forever and counts arrivals.
    #[derive(Default)]
    struct Pairs {
        time: Span,
        learnt: Vec<usize>,
        stopped: bool,
    }

    impl Session for Pairs {
        const KIND: MethodKind = MethodKind::Pathrate;

        fn time(&self) -> Span {
            self.time
        }

        fn plan(&mut self) -> Option<Plan> {
            let packets = Train::regular(0, 2, Bytes(100), Span::from_millis(2)).packets;
            Some(Plan { packets, rest: Span::from_millis(10) })
        }

        fn learn(&mut self, packets: &[Option<Arrived>]) {
            self.learnt.push(packets.iter().flatten().count());
        }

        fn stop(&mut self) {
            self.stopped = true;
        }

        fn estimate(&self) -> Estimate {
            Estimate::default()
        }
    }

    fn pairs(seconds: u64) -> Turns<Pairs> {
        Turns::of(Pairs { time: Span::from_secs(seconds), ..Pairs::default() })
    }

    /// Time of reports, which has no effect.
    const NOW: Time = Time::ZERO;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn arrived() -> Option<Arrived> {
        Some(Arrived {
            sent_at: at(0),
            arrived_at: at(5),
            rtt: Span::from_millis(9),
            size: Bytes(100),
            coalesced: false,
        })
    }

    #[test]
    fn a_train_is_sent_when_the_last_is_answered_and_the_path_has_rested() {
        let mut turns = pairs(600);
        let Next::Send(first) = turns.poll(at(0)) else { panic!("the path is idle") };
        assert_eq!(turns.poll(at(1)), Next::Wait(at(5002)), "a patience of 5 s");
        turns.on_report(NOW, &TrainReport { id: first.id + 1, packets: vec![arrived(); 2] });
        assert!(turns.session.learnt.is_empty(), "unknown number");
        turns.on_report(NOW, &TrainReport { id: first.id, packets: vec![arrived(); 2] });
        assert_eq!(turns.poll(at(4)), Next::Wait(at(12)), "10 ms after the last packet");
        let Next::Send(second) = turns.poll(at(12)) else { panic!("the path has rested") };
        assert_ne!(first.id, second.id);
        turns.on_report(NOW, &TrainReport { id: first.id, packets: vec![arrived(); 2] });
        assert_eq!(turns.session.learnt, [2], "a second report of the first is ignored");
    }

    #[test]
    fn a_report_of_the_wrong_length_is_cut_and_filled() {
        let mut turns = pairs(600);
        for (id, packets) in [(0, vec![arrived(); 7]), (1, vec![arrived(); 1])] {
            assert!(matches!(turns.poll(at(100 * u64::from(id))), Next::Send(_)));
            turns.on_report(NOW, &TrainReport { id, packets });
        }
        assert_eq!(turns.session.learnt, [2, 1]);
    }

    #[test]
    fn a_session_ends_after_ten_trains_without_an_answer() {
        let mut turns = pairs(600);
        let (mut now, mut sent) = (at(0), 0);
        loop {
            match turns.poll(now) {
                Next::Send(_) => sent += 1,
                Next::Wait(until) => now = until,
                Next::Done => break,
            }
        }
        assert_eq!((sent, turns.session.stopped), (10, true));
        assert_eq!(turns.poll(now), Next::Done);
    }

    #[test]
    fn lost_trains_between_answered_ones_do_not_end_a_session() {
        let mut turns = pairs(600);
        let (mut now, mut sent) = (at(0), 0);
        while sent < 40 {
            match turns.poll(now) {
                Next::Send(train) => {
                    sent += 1;
                    if sent % 2 == 0 {
                        turns.on_report(NOW, &TrainReport { id: train.id, packets: vec![arrived(); 2] });
                    }
                }
                Next::Wait(until) => now = until,
                Next::Done => panic!("after {sent} trains, of which every second was answered"),
            }
        }
    }

    #[test]
    fn a_session_ends_when_its_time_is_up() {
        let mut turns = pairs(1);
        assert!(matches!(turns.poll(at(0)), Next::Send(_)));
        assert_eq!(turns.poll(at(1)), Next::Wait(at(1000)), "the session ends before the patience does");
        assert_eq!(turns.poll(at(1000)), Next::Done);
        turns.on_report(NOW, &TrainReport { id: 0, packets: vec![arrived(); 2] });
        assert!(turns.session.learnt.is_empty() && turns.session.stopped);
        let mut resting = pairs(1);
        for now in [0, 995] {
            let Next::Send(train) = resting.poll(at(now)) else { panic!("the path has rested") };
            resting.on_report(NOW, &TrainReport { id: train.id, packets: vec![arrived(); 2] });
        }
        assert_eq!(resting.poll(at(996)), Next::Wait(at(1000)), "the session ends before the rest does");
    }
}
