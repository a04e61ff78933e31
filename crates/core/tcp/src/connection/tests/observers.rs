//! Events that observers receive, compared with the counters of the connections.

use std::sync::{Mutex, MutexGuard};

use longhaul_wire::Flags;

use super::*;
use crate::{
    ConnectionError, ConnectionEvent, Detail, EcnState, IncomingObservers, Metrics, Observer, Parameters,
    SegmentRecord, TimerKind,
};

/// Observer that counts events. The pairs are numbers of segments and of bytes of payload.
#[derive(Debug, Default)]
struct Counter {
    only_changes: bool,
    sent: (u64, u64),
    repeated: (u64, u64),
    received: (u64, u64),
    first_received: Option<Flags>,
    lost: u64,
    cumulative: u64,
    delivered: u64,
    recoveries: u64,
    timeouts: u64,
    undone: u64,
    states: Vec<State>,
    expired: Vec<TimerKind>,
    rto_set: bool,
    phases: Vec<&'static str>,
    mtus: Vec<u16>,
    ecn: Vec<EcnState>,
    parameters: Option<Parameters>,
    metrics: Option<Metrics>,
    released: Option<Time>,
    last_time: Time,
    /// Whether the last event was the transmission of a RST.
    sent_reset: bool,
    closed: Option<Option<ConnectionError>>,
}

fn add((segments, bytes): &mut (u64, u64), segment: &SegmentRecord<'_>) {
    *segments += 1;
    *bytes += segment.payload_len as u64;
}

impl Observer for Counter {
    fn detail(&self) -> Detail {
        if self.only_changes { Detail::Changes } else { Detail::Segments }
    }

    fn event(&mut self, now: Time, event: &ConnectionEvent<'_>) {
        assert!(now >= self.last_time && self.closed.is_none(), "{event:?}");
        self.last_time = now;
        let was_reset = std::mem::take(&mut self.sent_reset);
        match event {
            ConnectionEvent::SegmentSent { segment, retransmission } => {
                add(&mut self.sent, segment);
                if *retransmission {
                    add(&mut self.repeated, segment);
                }
                self.sent_reset = segment.header.flags.contains(Flags::RST);
            }
            ConnectionEvent::SegmentReceived(segment) => {
                self.first_received = self.first_received.or(Some(segment.header.flags));
                add(&mut self.received, segment);
            }
            ConnectionEvent::DataAcked { cumulative, delivered } => {
                self.cumulative += cumulative;
                self.delivered += delivered;
            }
            ConnectionEvent::SegmentLost { bytes, .. } => self.lost += bytes,
            ConnectionEvent::RecoveryStarted { .. } => self.recoveries += 1,
            ConnectionEvent::RecoveryUndone { .. } => self.undone += 1,
            ConnectionEvent::StateChanged { old, new } => {
                assert!(old.is_none() || self.states.is_empty() || *old == self.states.last().copied());
                self.states.push(*new);
            }
            ConnectionEvent::TimerSet { timer, at } => self.rto_set |= *timer == TimerKind::Retransmission && *at > now,
            ConnectionEvent::TimerExpired(timer) => {
                self.timeouts += u64::from(*timer == TimerKind::Retransmission);
                self.expired.push(*timer);
            }
            ConnectionEvent::PhaseChanged { new, .. } => self.phases.push(new),
            ConnectionEvent::MtuUpdated { new, .. } => self.mtus.push(*new),
            ConnectionEvent::EcnStateChanged { new, .. } => self.ecn.push(*new),
            ConnectionEvent::ParametersSet(parameters) => self.parameters = Some(parameters.clone()),
            ConnectionEvent::MetricsUpdated(metrics) => {
                assert_ne!(self.metrics, Some(*metrics), "nothing has changed");
                self.metrics = Some(*metrics);
            }
            ConnectionEvent::Released => self.released = Some(now),
            ConnectionEvent::Closed(error) => {
                self.sent_reset = was_reset;
                self.closed = Some(*error);
            }
            _ => {}
        }
    }
}

type Shared = Arc<Mutex<Counter>>;

fn read(counter: &Shared) -> MutexGuard<'_, Counter> {
    counter.lock().unwrap()
}

/// Observes every connection by the same counter.
#[derive(Debug)]
struct Incoming(Shared);

impl IncomingObservers for Incoming {
    fn observers(&mut self, _: Time, tuple: &Tuple) -> Vec<Box<dyn Observer>> {
        assert_eq!(tuple.remote, SocketAddr::from(A));
        vec![Box::new(Arc::clone(&self.0))]
    }
}

/// Opens a connection with an observer at each end from the first segment on.
fn connect(net: &mut Net, config: Config, counters: [&Shared; 2]) -> (ConnId, ConnId) {
    let config = Arc::new(config);
    net.ends[1].listen(Arc::clone(&config));
    net.ends[1].observe_incoming(Some(Box::new(Incoming(Arc::clone(counters[1])))));
    let a = net.ends[0].connect(net.now, Net::tuple(1), config).unwrap();
    assert!(net.ends[0].observe(net.now, a, Box::new(Arc::clone(counters[0]))));
    let mut b = None;
    net.run_until(Span::from_secs(100), |net| {
        b = b.or_else(|| net.ends[1].accept());
        b.is_some() && net.ends[0].connection(a).unwrap().state() == State::Established
    });
    (a, b.unwrap())
}

#[test]
fn every_event_is_counted_once() {
    let (mut undone, mut timeouts) = (0, 0);
    for seed in 1..12_u64 {
        let mut net = Net::new(Span::from_millis(10));
        let mut random = seed * 7919;
        net.lose = Box::new(move |_, _, _| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % 100 < 6
        });
        net.lead = Span::from_millis(3);
        let counters = [Shared::default(), Shared::default()];
        let ids = connect(&mut net, Config::default(), counters.each_ref());
        net.transfer(ids, 1_000_000, Span::from_secs(600));
        let info = |end: usize, id| net.ends[end].connection(id).unwrap().info(net.now);
        // The SYN of an incoming connection is counted by the endpoint.
        for (counter, info, uncounted) in [(&counters[0], info(0, ids.0), 0), (&counters[1], info(1, ids.1), 1)] {
            let counter = read(counter);
            assert_eq!(counter.sent, (info.segments_out, info.bytes_sent));
            assert_eq!(counter.repeated.1, info.bytes_retransmitted);
            assert_eq!(counter.received.0, info.segments_in + uncounted);
            assert_eq!(counter.lost, info.bytes_lost);
            assert_eq!(counter.cumulative, info.bytes_acked);
            assert_eq!(counter.delivered, info.delivered);
            assert_eq!((counter.recoveries, counter.undone), (info.recoveries, info.spurious_recoveries));
            let parameters = counter.parameters.as_ref().unwrap();
            assert_eq!(
                (parameters.initial_sequence, &parameters.congestion),
                (info.initial_sequence, &info.congestion)
            );
            undone += counter.undone;
            timeouts += counter.timeouts;
        }
        assert!(read(&counters[1]).first_received.unwrap().contains(Flags::SYN));
        let counter = read(&counters[0]);
        let metrics = counter.metrics.unwrap();
        let info = info(0, ids.0);
        assert_eq!((metrics.cwnd, metrics.srtt, metrics.bytes_lost), (info.cwnd, info.srtt, info.bytes_lost));
        assert!(counter.rto_set && counter.lost > 0 && counter.phases.len() > 1);
        assert_eq!(counter.mtus.last(), Some(&info.plpmtu));
        // A retransmitted SYN does not ask for ECN.
        let ecn = counter.parameters.as_ref().unwrap().options.ecn;
        assert_eq!(counter.ecn.first(), ecn.then_some(&EcnState::Capable));
    }
    assert!(undone + timeouts > 0, "the runs contain timeouts");
}

#[test]
fn all_states_are_reported_and_the_end_is_last() {
    let counters = [Shared::default(), Shared::default()];
    let mut net = Net::new(Span::from_millis(5));
    let (a, b) = connect(&mut net, Config::default(), counters.each_ref());
    net.transfer((a, b), 1000, Span::from_secs(5));
    // Nothing has happened on the connection meanwhile.
    let released_at = net.now + Span::from_millis(700);
    net.ends[0].release(released_at, a);
    net.run_until(Span::from_secs(100), |net| net.ends[0].is_idle());
    use State::{CloseWait, Closed, Established, FinWait1, FinWait2, LastAck, TimeWait};
    assert_eq!(read(&counters[0]).states, [Established, FinWait1, FinWait2, TimeWait]);
    assert_eq!(read(&counters[1]).states, [Established, CloseWait, LastAck, Closed]);
    for counter in &counters {
        assert_eq!(read(counter).closed, Some(None));
        assert_eq!(Arc::strong_count(counter), if Arc::ptr_eq(counter, &counters[0]) { 1 } else { 2 });
    }
    assert_eq!((read(&counters[0]).released, read(&counters[1]).released), (Some(released_at), None));
}

/// The RST precedes the end.
#[test]
fn an_abort_is_reported_after_its_reset() {
    let counters = [Shared::default(), Shared::default()];
    let mut net = Net::new(Span::from_millis(5));
    let (a, _) = connect(&mut net, Config::default(), counters.each_ref());
    let now = net.now;
    net.ends[0].drive(now, a, crate::Connection::abort);
    assert_eq!(read(&counters[0]).closed, None);
    net.run_until(Span::from_secs(1), |net| net.ends[1].is_idle() || net.flying.is_empty());
    assert_eq!(read(&counters[0]).closed, Some(Some(ConnectionError::Aborted)));
    assert!(read(&counters[0]).sent_reset);
    assert_eq!(read(&counters[1]).closed, Some(Some(ConnectionError::Reset)));
}

#[test]
fn a_connection_attempt_without_an_answer_is_reported() {
    let counter = Shared::default();
    let mut net = Net::new(Span::from_millis(5));
    net.lose = Box::new(|_, _, _| true);
    let a = net.ends[0].connect(net.now, Net::tuple(1), Arc::new(Config::default())).unwrap();
    net.ends[0].observe(net.now, a, Box::new(Arc::clone(&counter)));
    net.run_until(Span::from_secs(1000), |_| read(&counter).closed.is_some());
    let counter = read(&counter);
    assert_eq!((counter.closed, &counter.states), (Some(Some(ConnectionError::TimedOut)), &vec![State::Closed]));
    assert!(counter.parameters.is_some());
    assert_eq!((counter.sent.0, counter.repeated.0), (counter.timeouts, counter.timeouts - 1));
}

/// An observer that is installed later learns the state; one that asks for changes only gets no events of segments.
#[test]
fn observers_choose_their_events() {
    let (late, coarse) = (Shared::default(), Shared::default());
    read(&coarse).only_changes = true;
    let mut net = Net::new(Span::from_millis(20));
    let ids = net.connect(Config::default());
    let before = net.ends[0].connection(ids.0).unwrap().info(net.now);
    net.ends[0].observe(net.now, ids.0, Box::new(Arc::clone(&coarse)));
    let mut count = 0;
    net.lose = Box::new(move |_, from, _| {
        count += 1;
        from == 0 && count % 50 == 0
    });
    // Alone, the coarse observer gets no metrics.
    net.transfer(ids, 1_000_000, Span::from_secs(60));
    let seen = read(&coarse);
    assert_eq!(seen.states, [State::Established, State::FinWait1, State::FinWait2, State::TimeWait]);
    assert_eq!((seen.sent, seen.received, seen.lost, seen.metrics), ((0, 0), (0, 0), 0, None));
    assert!(seen.recoveries > 0 && !seen.phases.is_empty() && seen.parameters.is_some());
    drop(seen);
    let mut net = Net::new(Span::from_millis(20));
    let ids = net.connect(Config::default());
    net.ends[0].observe(net.now, ids.0, Box::new(Arc::clone(&late)));
    let info = net.transfer(ids, 1_000_000, Span::from_secs(60));
    assert_eq!(read(&late).sent.1, info.bytes_sent - before.bytes_sent);
    assert_eq!(read(&late).repeated.0, 0);
}
