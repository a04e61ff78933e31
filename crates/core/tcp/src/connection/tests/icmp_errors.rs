//! Host errors (RFC 9293, sections 3.8.3 and 3.9.2.2; RFC 5927) and keep-alive probes.

use super::*;
use crate::{ConnectionError, EndpointEvent, HostError, KeepAlive, MIN_KEEP_ALIVE};

const SILENT: fn(u64, usize, &[u8]) -> bool = |_, _, _| true;

fn say(net: &mut Net, error: HostError) {
    let now = net.now;
    net.ends[0].handle_host_error(now, Net::tuple(1), error);
    net.pump();
}

/// Opens a connection over a path that loses everything.
fn opening(config: Config) -> (Net, ConnId) {
    let mut net = Net::new(Span::from_millis(10));
    net.lose = Box::new(SILENT);
    let id = net.ends[0].connect(net.now, Net::tuple(1), Arc::new(config)).unwrap();
    net.pump();
    (net, id)
}

/// Advances the time by `span`.
fn run_for(net: &mut Net, span: Span) {
    let until = net.now + span;
    let due = |net: &mut Net| {
        let flying = net.flying.front().map(|flying| flying.0);
        flying.into_iter().chain(net.ends[0].poll_timeout()).chain(net.ends[1].poll_timeout()).min()
    };
    while due(net).is_some_and(|at| at <= until) {
        net.step();
    }
    net.now = until;
}

fn error(net: &Net, id: ConnId) -> Option<ConnectionError> {
    net.ends[0].connection(id).unwrap().status().error()
}

#[test]
fn a_refusal_is_believed_when_the_next_syn_is_refused_too() {
    let (mut net, id) = opening(Config::default());
    let begun = net.now;
    net.now += Span::from_micros(50);
    say(&mut net, HostError::Refused);
    // Reports within the pause refer to the same SYN or are forged.
    for _ in 0..5 {
        net.now += Span::from_millis(15);
        say(&mut net, HostError::Refused);
    }
    assert_eq!((error(&net, id), net.sent), (None, 1));
    net.run_until(Span::from_millis(100), |net| net.sent == 2);
    assert!(net.now - begun >= Span::from_millis(100));
    // The socket returns an old report when the next SYN is about to be sent.
    say(&mut net, HostError::Refused);
    assert_eq!(error(&net, id), None);
    net.now += Span::from_micros(50);
    say(&mut net, HostError::Refused);
    assert_eq!(error(&net, id), Some(ConnectionError::Refused));
    assert!(net.now - begun < Span::from_millis(250));
}

#[test]
fn a_forged_refusal_costs_a_syn_and_nothing_else() {
    let (mut net, id) = opening(Config::default());
    say(&mut net, HostError::Refused);
    net.ends[1].listen(Arc::new(Config::default()));
    net.lose = Box::new(|_, _, _| false);
    net.run_until(Span::from_millis(200), |net| net.ends[0].connection(id).unwrap().state() == State::Established);
    // Later reports do not close the connection either (RFC 5927, section 5.2).
    for _ in 0..5 {
        net.now += Span::from_millis(200);
        say(&mut net, HostError::Refused);
    }
    assert_eq!(error(&net, id), None);
    // Apart from the additional SYN, the back-off is unchanged.
    let (mut net, id) = opening(Config { syn_retries: 2, ..Config::default() });
    say(&mut net, HostError::Refused);
    net.run_until(Span::from_secs(60), |net| error(net, id).is_some());
    let taken = net.now.as_nanos() / 100_000_000;
    assert_eq!((error(&net, id), taken), (Some(ConnectionError::TimedOut), 71), "0.1 s, then RTOs of 1, 2 and 4 s");
}

/// RFC 1122, section 4.2.3.9: soft errors are recorded and reported, and close no connection.
#[test]
fn soft_errors_are_recorded_as_the_probable_cause() {
    let mut net = Net::new(Span::from_millis(10));
    let (a, _) = net.connect(Config::default());
    while net.ends[0].poll_event().is_some() {}
    let errors = [HostError::NetworkUnreachable, HostError::Refused, HostError::HostUnreachable];
    net.lose = Box::new(SILENT);
    net.now += Span::from_millis(1);
    let now = net.now;
    net.ends[0].drive(now, a, |c| c.write(b"anybody there?").unwrap());
    net.pump();
    for error in errors {
        say(&mut net, error);
    }
    let info = |net: &Net| net.ends[0].connection(a).unwrap().info(net.now);
    assert_eq!((info(&net).host_error, info(&net).host_errors), (Some(errors[2]), 3));
    assert!(!info(&net).r1_reached && error(&net, a).is_none());
    let mut stalled_at = None;
    net.run_until(Span::from_secs(3_000), |net| {
        while let Some(event) = net.ends[0].poll_event() {
            if event == EndpointEvent::Connection(a, Event::Stalled) {
                assert!(stalled_at.is_none() && info(net).r1_reached);
                stalled_at = Some(info(net).timeouts);
            }
        }
        error(net, a).is_some()
    });
    assert_eq!(stalled_at, Some(3), "R1");
    assert_eq!(error(&net, a), Some(ConnectionError::TimedOut));
    assert_eq!(net.ends[0].connection(a).unwrap().status().host_error(), Some(errors[2]));
}

#[test]
fn a_segment_of_the_peer_clears_the_error() {
    let mut net = Net::new(Span::from_millis(10));
    let (a, b) = net.connect(Config::default());
    say(&mut net, HostError::HostUnreachable);
    assert_eq!(net.ends[0].connection(a).unwrap().status().host_error(), Some(HostError::HostUnreachable));
    net.now += Span::from_millis(1);
    net.transfer((a, b), 10, Span::from_secs(5));
    let connection = net.ends[0].connection(a).unwrap();
    assert_eq!((connection.status().host_error(), connection.info(net.now).host_errors), (None, 1));
}

/// Whatever interval is configured, a living peer is kept and a dead one is detected.
#[test]
fn keep_alive_probes_are_not_faster_than_their_answers() {
    for millis in [0, 1, 100, 499] {
        let span = Span::from_millis(millis);
        let mut net = Net::new(Span::from_millis(10));
        let keep_alive = Some(KeepAlive { idle: span, interval: span, probes: 3 });
        let (a, _) = net.connect(Config { keep_alive, ..Config::default() });
        let (begun, sent) = (net.now, net.sent);
        net.run_until(Span::from_secs(61), |net| net.now - begun >= Span::from_secs(60));
        assert_eq!(error(&net, a), None, "{millis}");
        // Both ends send probes and answers.
        let probes = (net.sent - sent) / 2;
        assert!((30..=130).contains(&probes), "{millis}: {probes}");
        net.lose = Box::new(SILENT);
        let gone = net.now;
        net.run_until(Span::from_secs(20), |net| error(net, a).is_some());
        assert_eq!(error(&net, a), Some(ConnectionError::TimedOut));
        assert!(net.now - gone <= MIN_KEEP_ALIVE * 4, "{millis}");
    }
}

/// An error report about the route is confirmed by the next SYN, so that the application can try the next address of
/// a name.
#[test]
fn an_unreachable_peer_is_reported_after_one_confirmation() {
    for what in [HostError::HostUnreachable, HostError::NetworkUnreachable, HostError::NetworkDown] {
        let (mut net, id) = opening(Config::default());
        let begun = net.now;
        say(&mut net, what);
        assert_eq!(error(&net, id), None, "a single report is not enough");
        net.run_until(Span::from_millis(100), |net| net.sent == 2);
        // Without a route, the report comes when the segment is sent.
        say(&mut net, what);
        assert_eq!(error(&net, id), Some(ConnectionError::Unreachable(what)));
        assert!(net.now - begun <= Span::from_millis(100));
    }
}

/// A filter that is being reloaded, or an interface that has no address yet, delays the connection and does not end it:
/// the SYN is retransmitted as usual, and the timeout names the cause if it remains.
#[test]
fn a_local_error_is_no_answer_to_a_syn() {
    for what in [HostError::Prohibited, HostError::Other] {
        let (mut net, id) = opening(Config { syn_retries: 2, ..Config::default() });
        let begun = net.now;
        let mut said = 0;
        net.run_until(Span::from_secs(60), |net| {
            while said < net.sent {
                said += 1;
                say(net, what);
            }
            error(net, id).is_some()
        });
        let connection = net.ends[0].connection(id).unwrap();
        assert_eq!(
            (connection.status().error(), connection.status().host_error()),
            (Some(ConnectionError::TimedOut), Some(what))
        );
        assert_eq!((net.sent, net.now - begun), (3, Span::from_secs(7)), "RTOs of 1, 2 and 4 s");

        let (mut net, id) = opening(Config::default());
        say(&mut net, what);
        net.ends[1].listen(Arc::new(Config::default()));
        net.lose = Box::new(|_, _, _| false);
        net.run_until(Span::from_secs(2), |net| net.ends[0].connection(id).unwrap().state() == State::Established);
    }
}

/// The peer's process was killed: its host refuses each segment, and the connection probes until the error is
/// confirmed.
#[test]
fn a_refusal_of_an_established_connection_is_confirmed() {
    for busy in [true, false] {
        let mut net = Net::new(Span::from_millis(10));
        let (a, _) = net.connect(Config::default());
        if busy {
            net.ends[0].drive(net.now, a, |c| c.write(&[7; 100_000])).unwrap().unwrap();
        }
        // Nothing arrives, and the host refuses each segment one round trip later.
        let refused = Rc::new(std::cell::RefCell::new(VecDeque::new()));
        let log = Rc::clone(&refused);
        net.lose = Box::new(move |_, from, _| {
            log.borrow_mut().push_back(from);
            true
        });
        net.pump();
        let begun = net.now;
        say(&mut net, HostError::Refused);
        let mut reports: VecDeque<Time> = VecDeque::new();
        while error(&net, a).is_none() && net.now - begun < Span::from_secs(10) {
            run_for(&mut net, Span::from_millis(1));
            reports.extend(refused.borrow_mut().drain(..).map(|_| net.now + Span::from_millis(20)));
            while reports.front().is_some_and(|at| *at <= net.now) {
                reports.pop_front();
                say(&mut net, HostError::Refused);
            }
        }
        assert_eq!(error(&net, a), Some(ConnectionError::Gone), "busy: {busy}");
        let taken = net.now - begun;
        assert!(taken >= Span::from_millis(300) && taken <= Span::from_secs(3), "{taken}");
    }
}

/// A living peer answers the probe, and no number of forged reports closes the connection.
#[test]
fn an_answer_disproves_a_reported_refusal() {
    let mut net = Net::new(Span::from_millis(10));
    let (a, _) = net.connect(Config::default());
    let begun = net.now;
    for _ in 0..2000 {
        say(&mut net, HostError::Refused);
        run_for(&mut net, Span::from_millis(5));
    }
    assert_eq!(error(&net, a), None);
    let probes = net.sent / 2;
    assert!(probes <= (net.now - begun).as_nanos() / 100_000_000 + 1, "{probes} probes in {}", net.now - begun);
}

/// If settings change during the handshake, the SYN timer stays armed: with nothing else in flight, no other event
/// would occur.
#[test]
fn a_change_of_settings_does_not_stop_the_handshake() {
    let (mut net, id) = opening(Config { syn_retries: 2, ..Config::default() });
    net.ends[0].drive(net.now, id, |c| c.update_config(|config| config.min_rto = Span::from_millis(300)));
    net.run_until(Span::from_secs(60), |net| error(net, id).is_some());
    assert_eq!((error(&net, id), net.sent), (Some(ConnectionError::TimedOut), 3));
}
