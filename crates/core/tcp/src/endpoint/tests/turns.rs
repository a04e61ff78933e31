//! Turns of connections and of answers that belong to none, and what depends on the number of connections.

use super::*;

/// Under a flood of SYNs that is answered with cookies, data is sent as often as cookies are.
#[test]
fn a_flood_of_answers_does_not_delay_data() {
    let mut endpoint = Endpoint::new(EndpointConfig { backlog: 1, ..EndpointConfig::new([5; 32]) }, NOW);
    endpoint.listen(Arc::new(Config { nagle: false, ..Config::default() }));
    let (id, _) = connect(&mut endpoint, from([192, 0, 2, 1], 1), &syn());
    deliver(&mut endpoint, NOW, from([192, 0, 2, 1], 2), &syn(), &[]);
    sent(&mut endpoint, NOW);
    let (mut batch, mut data, mut answers, mut now, mut port) = (Batch::default(), 0, 0, NOW, 1);
    for _ in 0..50 {
        now += Span::from_millis(1);
        // One receive call brings more than one turn sends.
        for _ in 0..64 {
            port += 1;
            deliver(&mut endpoint, now, from([198, 51, 100, 1], port), &syn(), &[]);
        }
        endpoint.drive(now, id, |c| c.write(&[7; 10]).unwrap());
        for _ in 0..16 {
            match endpoint.poll_transmit(now, &mut batch, 64) {
                Some(Destination { connection: Some(_), .. }) => data += 1,
                Some(_) => answers += 1,
                None => {}
            }
        }
    }
    assert!(endpoint.stats().cookies_sent > 3_000);
    assert!(data >= 10 && answers >= 400, "{data} batches of data, {answers} answers");
}

/// The number of connections that there have been once does not matter.
#[test]
fn a_stream_may_wait_again_after_many_connections_have_ended() {
    let config = Config { moderation: true, ..Config::default() };
    let mut endpoint = listening(config);
    let (id, mut ack) = connect_in(&mut endpoint, from([192, 0, 2, 1], 1), &syn(), Span::from_millis(64));
    let mut patience = |endpoint: &mut Endpoint, start: u64| {
        let mut least = Span::ZERO;
        for i in 0..200 {
            let now = NOW + Span::from_millis(start + i * 20);
            deliver(endpoint, now, from([192, 0, 2, 1], 1), &ack, &[7; 1_000]);
            ack.seq = ack.seq.wrapping_add(1_000);
            endpoint.drive(now, id, |c| c.read(1_000).unwrap());
            sent(endpoint, now);
            least = endpoint.take_read_patience();
        }
        least
    };
    assert!(!patience(&mut endpoint, 1_000).is_zero());
    let many: Vec<_> = (2..=300).map(|port| connect(&mut endpoint, from([192, 0, 2, 1], port), &syn()).0).collect();
    assert!(patience(&mut endpoint, 6_000).is_zero(), "too many to ask");
    for (ended, id) in many.iter().enumerate() {
        endpoint.drive(NOW, *id, Connection::abort);
        endpoint.release(NOW, *id);
        sent(&mut endpoint, NOW);
        assert_eq!(endpoint.len(), 299 - ended);
        assert!(endpoint.slots.are_in_their_places());
    }
    assert!(!patience(&mut endpoint, 11_000).is_zero(), "as before");
}
