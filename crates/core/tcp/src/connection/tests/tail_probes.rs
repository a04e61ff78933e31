//! Messages of one segment under loss: tail loss probes instead of timeouts (RFC 8985, section 7).

use super::*;

/// Connection over which one message after the other is sent.
struct Messages {
    net: Net,
    ids: (ConnId, ConnId),
    /// Data segments of end 0 that will be lost.
    doomed: Rc<Cell<u32>>,
}

impl Messages {
    fn new(config: Config) -> Self {
        let mut net = Net::new(Span::from_millis(50));
        let ids = net.connect(Config { ..config });
        let doomed = Rc::new(Cell::new(0u32));
        let left = Rc::clone(&doomed);
        net.lose = Box::new(move |_, from, datagram| {
            let is_doomed = from == 0 && datagram.len() > 200 && left.get() > 0;
            left.set(left.get() - u32::from(is_doomed));
            is_doomed
        });
        let mut messages = Self { net, ids, doomed };
        // RTTVAR decays, so that the RTO is SRTT + 200 ms and the PTO 2 SRTT + 200 ms.
        for _ in 0..40 {
            messages.send(0);
        }
        messages
    }

    fn info(&self) -> Info {
        self.net.ends[0].connection(self.ids.0).unwrap().info(self.net.now)
    }

    /// Sends a message of one full-sized segment, the first `lost` transmissions of which are lost, and waits until it is
    /// acknowledged. Returns the time until it arrives.
    fn send(&mut self, lost: u32) -> Span {
        let (a, b) = self.ids;
        self.doomed.set(lost);
        let begun = self.net.now;
        let mss = self.info().mss as usize;
        assert_eq!(self.net.ends[0].drive(begun, a, |c| c.write(&vec![7; mss]).unwrap()), Some(mss));
        let mut arrived = None;
        self.net.run_until(Span::from_secs(60), |net| {
            let now = net.now;
            if net.ends[1].drive(now, b, |c| c.read(1 << 20).is_ok()).unwrap() {
                arrived.get_or_insert(now);
            }
            net.pump();
            arrived.is_some() && net.ends[0].connection(a).unwrap().info(now).in_flight.0 == 0
        });
        arrived.unwrap() - begun
    }
}

/// With the PTO later than the RTO, the probe is sent when the timer would expire (RFC 8985, section 7.2), and the timer is
/// armed anew (section 7.3).
#[test]
fn a_probe_takes_the_place_of_the_timeout() {
    for timestamps in [true, false] {
        let mut messages = Messages::new(Config { timestamps, ..Config::default() });
        let before = messages.info();
        let rto = before.rto;
        assert!(rto < before.srtt.unwrap() * 2 + Span::from_millis(200), "{rto}");
        assert_eq!(messages.send(1), rto + Span::from_millis(50));
        let info = messages.info();
        assert_eq!((info.tail_probes, info.timeouts, info.backoff), (1, 0, 0));
        assert_eq!(info.recovery, RecoveryState::Open);
        assert_eq!(info.cwnd, before.cwnd, "the ACK does not show a loss");
        // The next ACK does (section 7.4.2), and the response is that to a fast recovery.
        messages.send(0);
        let info = messages.info();
        assert_eq!((info.timeouts, info.recoveries), (0, 1));
        assert!(info.cwnd < before.cwnd && info.cwnd.0 >= 2 * u64::from(info.mss), "{} of {}", info.cwnd, before.cwnd);
    }
}

/// The timeout remains the last resort: it follows one RTO after the probe.
#[test]
fn a_lost_probe_is_followed_by_the_timeout() {
    let mut messages = Messages::new(Config::default());
    let rto = messages.info().rto;
    assert_eq!(messages.send(2), rto * 2 + Span::from_millis(50));
    let info = messages.info();
    assert_eq!((info.tail_probes, info.timeouts), (1, 1));
}

/// RFC 5681, section 3.1: the window of one segment after a timeout grows with each ACK while it is full.
#[test]
fn the_window_grows_after_a_timeout_although_each_message_is_one_segment() {
    for name in ["cubic", "new-reno", "copa-cubic", "bbr"] {
        let congestion = name.parse().unwrap();
        let mut messages = Messages::new(Config { congestion, ..Config::default() });
        messages.send(2);
        assert_eq!(messages.info().timeouts, 1, "{name}");
        messages.send(0);
        messages.send(0);
        let info = messages.info();
        assert!(info.cwnd.0 >= 2 * u64::from(info.mss), "{name}: {}", info.cwnd);
    }
}
