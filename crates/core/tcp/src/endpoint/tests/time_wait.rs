//! Reuse of a pair of addresses in TIME-WAIT (RFC 9293, section 3.6.1, MAY-2; RFC 6191).

use super::*;

/// Endpoint with a TIME-WAIT record, the FIN of the previous peer, and the last sequence number of the endpoint.
struct Waiting {
    endpoint: Endpoint,
    tuple: Tuple,
    fin: Header,
    last: u32,
}

impl Waiting {
    fn new(settings: EndpointConfig) -> Self {
        let mut endpoint = Endpoint::new(settings, NOW);
        endpoint.listen(Arc::new(Config::default()));
        let tuple = tuple(there(), here());
        let (id, ack) = connect(&mut endpoint, tuple, &syn());
        endpoint.drive(NOW, id, Connection::shutdown);
        let last = sent(&mut endpoint, NOW).pop().unwrap().seq.wrapping_add(1);
        let fin = Header { flags: Flags::ACK | Flags::FIN, ack: last, ..ack };
        deliver(&mut endpoint, NOW, tuple, &fin, &[]);
        endpoint.release(NOW, id);
        let mut waiting = Self { endpoint, tuple, fin, last };
        sent(&mut waiting.endpoint, NOW);
        assert!(waiting.remains());
        waiting
    }

    /// Delivers a SYN that is later than the previous connection, and returns the answers.
    fn reuse(&mut self) -> Vec<Header> {
        let mut syn = Header { seq: 5000, ..syn() };
        syn.options.timestamps = Some(Timestamps { value: 1000, echo: 0 });
        deliver(&mut self.endpoint, NOW, self.tuple, &syn, &[]);
        sent(&mut self.endpoint, NOW)
    }

    /// Returns whether there is a record, and whether a retransmitted FIN is answered with an ACK.
    fn remains(&mut self) -> bool {
        deliver(&mut self.endpoint, NOW, self.tuple, &self.fin, &[]);
        let answers = sent(&mut self.endpoint, NOW);
        let acked = answers.iter().any(|answer| answer.flags == Flags::ACK && answer.seq == self.last);
        self.endpoint.time_wait_len() == 1 && acked
    }
}

#[test]
fn time_wait_continues_if_the_syn_is_refused() {
    let mut waiting = Waiting::new(EndpointConfig { max_connections: 1, ..EndpointConfig::new([5; 32]) });
    connect(&mut waiting.endpoint, tuple(IpAddr::from([192, 0, 2, 3]), here()), &syn());
    assert_eq!(waiting.reuse(), []);
    assert_eq!(waiting.endpoint.stats().refused, 1);
    assert!(waiting.remains());
}

#[test]
fn time_wait_continues_if_the_peer_denies_the_syn() {
    let mut waiting = Waiting::new(EndpointConfig::new([5; 32]));
    assert_eq!(waiting.reuse()[0].flags, Flags::SYN | Flags::ACK);
    let reset = Header { flags: Flags::RST, seq: 5001, ..Header::default() };
    deliver(&mut waiting.endpoint, NOW, waiting.tuple, &reset, &[]);
    sent(&mut waiting.endpoint, NOW);
    assert!(waiting.endpoint.is_empty() && waiting.remains());
}

#[test]
fn time_wait_continues_if_an_active_open_is_refused() {
    let mut waiting = Waiting::new(EndpointConfig::new([5; 32]));
    let id = waiting.endpoint.connect(NOW, waiting.tuple, Arc::new(Config::default())).unwrap();
    let syn = sent(&mut waiting.endpoint, NOW).pop().unwrap();
    assert!(crate::seq::later(syn.seq, waiting.last));
    let reset = Header { flags: Flags::RST | Flags::ACK, ack: syn.seq.wrapping_add(1), ..Header::default() };
    deliver(&mut waiting.endpoint, NOW, waiting.tuple, &reset, &[]);
    waiting.endpoint.release(NOW, id);
    sent(&mut waiting.endpoint, NOW);
    assert!(waiting.endpoint.is_empty() && waiting.remains());
}

/// A SYN cookie would not have an initial sequence number beyond that of the previous connection.
#[test]
fn a_reused_pair_is_opened_without_a_cookie() {
    let mut waiting = Waiting::new(EndpointConfig { always_cookies: true, ..EndpointConfig::new([5; 32]) });
    let cookies = waiting.endpoint.stats().cookies_sent;
    let answer = waiting.reuse().pop().unwrap();
    assert!(crate::seq::later(answer.seq, waiting.last));
    assert_eq!((waiting.endpoint.len(), waiting.endpoint.stats().cookies_sent), (1, cookies));
    let mut ack = Header { flags: Flags::ACK, seq: 5001, ack: answer.seq.wrapping_add(1), ..waiting.fin.clone() };
    ack.options.timestamps = answer.options.timestamps.map(|t| Timestamps { value: 1001, echo: t.value });
    deliver(&mut waiting.endpoint, NOW, waiting.tuple, &ack, &[]);
    assert!(waiting.endpoint.accept().is_some());
    assert_eq!(waiting.endpoint.time_wait_len(), 0, "the new connection replaces the old one");
}

/// Whatever the peer repeats, a record has one place in the order of expiry; and it ends after the last FIN.
#[test]
fn repeated_fins_and_reuse_take_no_memory() {
    let mut waiting = Waiting::new(EndpointConfig::new([5; 32]));
    for i in 0..10_000 {
        let now = NOW + Span::from_millis(i);
        deliver(&mut waiting.endpoint, now, waiting.tuple, &waiting.fin, &[]);
        assert_eq!(sent(&mut waiting.endpoint, now).len(), 1);
        assert_eq!((waiting.endpoint.time_wait.records.len(), waiting.endpoint.time_wait.order.len()), (1, 1));
    }
    let ends = NOW + Span::from_millis(9_999) + Span::from_secs(60);
    assert_eq!(waiting.endpoint.poll_timeout(), Some(ends));
    waiting.reuse();
    let record = waiting.endpoint.time_wait.get(&waiting.tuple).unwrap();
    for _ in 0..100 {
        waiting.endpoint.time_wait.remove(&waiting.tuple);
        waiting.endpoint.time_wait.insert(waiting.tuple, record);
        waiting.endpoint.time_wait.insert(waiting.tuple, record);
        assert_eq!((waiting.endpoint.time_wait.records.len(), waiting.endpoint.time_wait.order.len()), (1, 1));
    }
    waiting.endpoint.handle_timeout(ends);
    assert_eq!((waiting.endpoint.time_wait.records.len(), waiting.endpoint.time_wait.order.len()), (0, 0));
}

/// RFC 9293, section 3.10.7.4, first step: an unacceptable ACK is answered, at most twice per second.
#[test]
fn a_record_answers_an_ack_outside_the_window() {
    let mut waiting = Waiting::new(EndpointConfig::new([5; 32]));
    let next = waiting.fin.seq.wrapping_add(1);
    let answers = |waiting: &mut Waiting, millis, distance: u32| {
        let now = NOW + Span::from_millis(millis);
        let ack = Header { flags: Flags::ACK, seq: next.wrapping_add(distance), ..waiting.fin.clone() };
        deliver(&mut waiting.endpoint, now, waiting.tuple, &ack, &[]);
        sent(&mut waiting.endpoint, now)
    };
    for (millis, distance, count) in [
        (1_000, 0, 0),
        (1_000, 65_534, 0),
        (1_000, u32::MAX, 1),
        (1_499, 1 << 20, 0),
        (1_500, 1 << 20, 1),
        (2_000, 1 << 31, 1),
    ] {
        let found = answers(&mut waiting, millis, distance);
        assert_eq!(found.len(), count, "{distance}");
        assert!(found.iter().all(|ack| ack.flags == Flags::ACK && (ack.seq, ack.ack) == (waiting.last, next)));
    }
}
