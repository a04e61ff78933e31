//! Calls of the application some time after the last event.

use longhaul_wire::{CheshireCodec, Codec, Flags};

use super::*;
use crate::{Connection, KeepAlive};

/// Opens a connection, and lets its ends rest for `span`.
fn quiet(span: Span) -> (Net, ConnId, ConnId) {
    let mut net = Net::new(Span::from_millis(10));
    let (a, b) = net.connect(Config::default());
    net.now += span;
    (net, a, b)
}

/// The time in FIN-WAIT-2 counts from the call that closes the connection, not from the last segment.
#[test]
fn fin_wait_2_counts_from_the_close() {
    let (mut net, a, b) = quiet(Span::ZERO);
    net.ends[0].drive(net.now, a, Connection::shutdown);
    net.run_until(Span::from_secs(1), |net| net.ends[0].connection(a).unwrap().state() == State::FinWait2);
    net.run_until(Span::from_secs(1), |net| net.ends[1].connection(b).unwrap().state() == State::CloseWait);
    net.now += Span::from_secs(300);
    net.ends[0].release(net.now, a);
    net.pump();
    net.now += Span::from_secs(59);
    net.ends[0].handle_timeout(net.now);
    net.pump();
    assert_eq!(net.ends[0].len(), 1, "the peer's FIN is awaited");
    net.ends[1].drive(net.now, b, Connection::shutdown);
    net.run_until(Span::from_secs(1), |net| net.ends[1].connection(b).unwrap().state() == State::Closed);
    assert_eq!(net.ends[1].connection(b).unwrap().status().error(), None);
    assert_eq!(net.ends[0].time_wait_len(), 1);
}

/// RFC 7323, section 3.2: a RST carries the current value of the timestamp clock.
#[test]
fn the_timestamp_of_a_reset_is_current() {
    for how in [Connection::abort, Connection::close_read] {
        let (mut net, a, b) = quiet(Span::ZERO);
        net.ends[1].drive(net.now, b, |c| c.write(b"unread").unwrap());
        net.run_until(Span::from_secs(1), |net| net.ends[0].connection(a).unwrap().status().is_readable());
        net.pump();
        let seen = Rc::new(Cell::new((0, 0)));
        let last = Rc::clone(&seen);
        net.tamper = Box::new(move |from, ecn, datagram| {
            let (header, _) = CheshireCodec::parse(datagram).unwrap();
            if let (0, Some(stamp)) = (from, header.options.timestamps) {
                let (ack, reset) = last.get();
                let is_reset = header.flags.contains(Flags::RST);
                last.set(if is_reset { (ack, stamp.value) } else { (stamp.value, reset) });
            }
            Some(ecn)
        });
        net.ends[0].drive(net.now, a, |c| c.write(b"x").unwrap());
        net.run_until(Span::from_secs(1), |net| net.ends[1].connection(b).unwrap().status().is_readable());
        net.run_until(Span::from_secs(1), |net| net.ends[0].connection(a).unwrap().info(net.now).bytes_acked == 1);
        net.now += Span::from_secs(10);
        net.ends[0].drive(net.now, a, how);
        net.pump();
        let (ack, reset) = seen.get();
        let micros = reset.wrapping_sub(ack);
        assert!((9_900_000..10_200_000).contains(&micros), "{micros}");
    }
}

/// Settings changed after a long silence count from the change.
#[test]
fn keep_alive_counts_from_the_change() {
    let (mut net, a, _) = quiet(Span::from_secs(500));
    let keep_alive = KeepAlive { idle: Span::from_secs(100), ..KeepAlive::default() };
    net.ends[0].drive(net.now, a, |c| c.update_config(|config| config.keep_alive = Some(keep_alive)));
    let (begun, before) = (net.now, net.sent);
    net.run_until(Span::from_secs(200), |net| net.sent > before);
    assert_eq!(net.now - begun, keep_alive.idle);
}
