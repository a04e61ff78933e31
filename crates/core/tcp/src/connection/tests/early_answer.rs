//! A server that answers before it has read the request, and drops the connection.

use super::*;
use crate::{Blocked, Connection, ConnectionError};

const ANSWER: usize = 250_000;

/// How the server ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Drop,
    ShutDownAndDrop,
    CloseRead,
    Abort,
}

/// Opens a connection on which end 0 has sent data that end 1 does not read, while end 1 has an answer queued.
fn uploading(net: &mut Net, config: Config) -> (ConnId, ConnId) {
    let (a, b) = net.connect(config);
    let unread = |net: &Net| net.ends[1].connection(b).unwrap().info(net.now).unread.0;
    net.run_until(Span::from_secs(60), |net| {
        let now = net.now;
        net.ends[0].drive(now, a, |c| while c.write(&[1; 10_000]).is_ok() {});
        net.pump();
        unread(net) > 30_000
    });
    net.ends[1].drive(net.now, b, |c| assert_eq!(c.write(&[7; ANSWER]), Ok(ANSWER))).unwrap();
    (a, b)
}

fn end(net: &mut Net, b: ConnId, how: End) {
    let now = net.now;
    match how {
        End::Drop => {}
        End::ShutDownAndDrop => net.ends[1].drive(now, b, Connection::shutdown).unwrap(),
        End::CloseRead => return net.ends[1].drive(now, b, Connection::close_read).unwrap(),
        End::Abort => net.ends[1].drive(now, b, Connection::abort).unwrap(),
    }
    net.ends[1].release(now, b);
}

/// Goes on uploading from end 0, which reads if `reads`, until its connection has ended; returns the number of bytes read,
/// whether the end of the stream was seen, and when the connection ended.
fn outcome(net: &mut Net, a: ConnId, reads: bool) -> (usize, bool, Span) {
    let (begun, mut got, mut ended) = (net.now, 0, false);
    net.run_until(Span::from_secs(300), |net| {
        let now = net.now;
        net.ends[0].drive(now, a, |c| while c.write(&[1; 10_000]).is_ok() {});
        if reads {
            net.ends[0].drive(now, a, |c| {
                while let Ok(part) = c.read(1 << 20) {
                    assert!(part.iter().all(|byte| *byte == 7));
                    got += part.len();
                    if part.is_empty() {
                        ended = true;
                        break;
                    }
                }
            });
        }
        net.pump();
        net.ends[0].connection(a).unwrap().state() == State::Closed
    });
    let connection = net.ends[0].connection(a).unwrap();
    assert_eq!(connection.status().error(), Some(ConnectionError::Reset));
    (got, ended, net.now - begun)
}

/// RFC 9293, section 3.6.1: the RST for unread data comes after what was queued, on any path, and it ends the connection
/// with nothing kept.
#[test]
fn an_early_answer_arrives_before_the_reset() {
    for loss in [0, 10] {
        for seed in 1..=4_u64 {
            for how in [End::Drop, End::ShutDownAndDrop, End::CloseRead] {
                let mut net = Net::new(Span::from_millis(20));
                let mut random = seed;
                net.lose = Box::new(move |_, _, _| {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (random >> 33) % 100 < loss
                });
                let (a, b) = uploading(&mut net, Config::default());
                end(&mut net, b, how);
                let (got, ended, _) = outcome(&mut net, a, true);
                assert_eq!((got, ended), (ANSWER, how == End::ShutDownAndDrop), "{how:?} {loss} {seed}");
                if how == End::CloseRead {
                    net.ends[1].release(net.now, b);
                }
                net.pump();
                assert_eq!((net.ends[1].len(), net.ends[1].memory()), (0, 0), "{how:?} {loss} {seed}");
            }
        }
    }
}

/// Data that arrives after the drop does not cut the answer short either.
#[test]
fn data_after_the_drop_waits_for_the_answer_too() {
    let mut net = Net::new(Span::from_millis(20));
    let (a, b) = net.connect(Config::default());
    net.ends[1].drive(net.now, b, |c| assert_eq!(c.write(&[7; ANSWER]), Ok(ANSWER))).unwrap();
    end(&mut net, b, End::Drop);
    let (got, ended, _) = outcome(&mut net, a, true);
    assert_eq!((got, ended), (ANSWER, true));
}

#[test]
fn an_abort_waits_for_nothing() {
    let mut net = Net::new(Span::from_millis(20));
    let (a, b) = uploading(&mut net, Config::default());
    end(&mut net, b, End::Abort);
    let (_, ended, after) = outcome(&mut net, a, true);
    assert!(!ended && after <= Span::from_millis(20), "{after}");
}

/// A peer that does not read, or acknowledges nothing, gets the RST after a limited time, and unread data takes no memory
/// meanwhile. The writer that remains after `close_read` is told at once.
#[test]
fn the_wait_for_an_acknowledgment_is_limited() {
    let mut net = Net::new(Span::from_millis(20));
    let (a, b) = uploading(&mut net, Config { recv_buffer: 60_000, recv_buffer_max: 60_000, ..Config::default() });
    end(&mut net, b, End::CloseRead);
    net.ends[1].drive(net.now, b, |c| assert_eq!(c.write(b"x"), Err(Blocked::ShutDown)));
    let (_, _, after) = outcome(&mut net, a, false);
    assert!((Span::from_secs(60)..Span::from_secs(62)).contains(&after), "{after}");

    let mut net = Net::new(Span::from_millis(20));
    let (_, b) = uploading(&mut net, Config::default());
    end(&mut net, b, End::Drop);
    net.pump();
    assert!(net.ends[1].memory() < ANSWER + 100_000, "{}", net.ends[1].memory());
    net.lose = Box::new(|_, _, _| true);
    let begun = net.now;
    net.run_until(Span::from_secs(300), |net| net.ends[1].is_empty());
    assert!((Span::from_secs(60)..Span::from_secs(62)).contains(&(net.now - begun)), "{}", net.now - begun);
}

/// Segments that arrive between the first timeouts of an outage do not show that the peer discards the answer.
#[test]
fn an_outage_does_not_end_the_wait_for_an_acknowledgment() {
    let mut net = Net::new(Span::from_millis(20));
    let (_, b) = uploading(&mut net, Config::default());
    end(&mut net, b, End::Drop);
    net.pump();
    let (begun, now) = (net.now, Rc::clone(&net.sent_at));
    let silent = begun + Span::from_secs(3);
    net.lose = Box::new(move |_, from, _| from == 1 || now.get() > silent);
    net.run_until(Span::from_secs(300), |net| net.ends[1].is_empty());
    assert!((Span::from_secs(60)..Span::from_secs(66)).contains(&(net.now - begun)), "{}", net.now - begun);
}

/// Both ends discard, so that neither acknowledges what the other has queued.
#[test]
fn two_ends_that_discard_do_not_wait_for_each_other() {
    let mut net = Net::new(Span::from_millis(20));
    let (a, b) = uploading(&mut net, Config::default());
    let begun = net.now;
    net.ends[0].release(begun, a);
    end(&mut net, b, End::Drop);
    net.run_until(Span::from_secs(300), |net| net.ends.iter().all(|end| end.is_empty()));
    assert!(net.now - begun < Span::from_secs(30), "{}", net.now - begun);
}
