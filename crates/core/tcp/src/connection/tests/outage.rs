//! Time until a transfer resumes after an outage.

use super::*;

const DELAY: Span = Span::from_millis(50);

fn controller(net: &Net, id: ConnId) -> Info {
    net.ends[0].connection(id).unwrap().info(net.now)
}

/// Runs a transfer over a path with an outage in one direction or both. Returns the time from the end of the outage
/// until data arrives again, and the number of segments sent during it.
fn outage(lasts: Span, ways: [bool; 2], reply: bool) -> (Span, u64) {
    outage_over(DELAY, lasts, ways, reply)
}

fn outage_over(delay: Span, lasts: Span, ways: [bool; 2], reply: bool) -> (Span, u64) {
    let mut net = Net::new(delay);
    let (a, b) = net.connect(Config { max_cwnd: 100_000, ..Config::default() });
    let pour = |net: &mut Net, until: Time, wanted: u64| {
        let read = Rc::new(Cell::new(0u64));
        let count = Rc::clone(&read);
        net.run_until(Span::from_secs(4000), move |net| {
            let now = net.now;
            while net.ends[0].drive(now, a, |c| c.write(&[7; 65_536]).is_ok()).unwrap() {}
            while let Ok(part) = net.ends[1].drive(now, b, |c| c.read(1 << 20)).unwrap() {
                count.set(count.get() + part.len() as u64);
            }
            net.pump();
            now >= until || count.get() >= wanted
        });
        read.get()
    };
    let begun = net.now + Span::from_secs(2);
    pour(&mut net, begun, u64::MAX);
    let before = controller(&net, a);
    assert_eq!((before.timeouts, before.recoveries), (0, 0));
    net.lose = Box::new(move |_, from, _| ways[from]);
    let end = begun + lasts;
    pour(&mut net, end, u64::MAX);
    let sent = controller(&net, a).segments_retransmitted;
    net.lose = Box::new(|_, _, _| false);
    if reply {
        net.ends[1].drive(net.now, b, |c| c.write(b"here I am")).unwrap().unwrap();
        net.pump();
    }
    let now = net.now;
    pour(&mut net, now + Span::from_secs(600), 1);
    (net.now - now, sent)
}

/// Within the first minute, the path is found within 2 s of its return. New data follow one round trip later, because
/// the first segment in flight may have arrived before the outage, so that only its ACK was lost.
#[test]
fn a_path_that_comes_back_is_found_within_two_seconds() {
    for seconds in [3, 7, 15, 20, 31, 45, 58] {
        let (found, sent) = outage(Span::from_secs(seconds), [true, true], false);
        assert!(found <= Span::from_secs(2) + DELAY * 3, "{found} after {seconds} s");
        assert!(sent <= 10 + seconds / 2 + 7, "{sent} segments in {seconds} s");
    }
}

/// If the round-trip time is longer than half a second, probes are four of them apart: 2.8 s here.
#[test]
fn probes_of_a_long_path_are_four_round_trips_apart() {
    let delay = Span::from_millis(350);
    for seconds in [20, 31, 45, 58] {
        let (found, sent) = outage_over(delay, Span::from_secs(seconds), [true, true], false);
        assert!(found <= delay * 8 + delay * 3, "{found} after {seconds} s");
        assert!(sent <= 10 + seconds * 10 / 28, "{sent} segments in {seconds} s");
    }
}

/// After one minute, only the retransmission timer probes the path, with exponential back-off (RFC 6298, section
/// 5.5).
#[test]
fn after_a_minute_the_timer_doubles() {
    let (found, sent) = outage(Span::from_secs(240), [true, true], false);
    assert!(found > Span::from_secs(2) && found <= Span::from_secs(120) + DELAY * 3, "{found}");
    assert!(sent <= 60, "{sent}");
}

/// Any segment of the peer triggers a retransmission at once.
#[test]
fn any_segment_of_the_peer_ends_the_back_off() {
    for seconds in [5, 40, 100, 240] {
        // If ACKs were lost as well, the peer's segment may acknowledge new data; otherwise it cannot.
        for ways in [[true, true], [true, false]] {
            let (found, _) = outage(Span::from_secs(seconds), ways, true);
            assert!(found <= DELAY * 3, "{found} after {seconds} s, {ways:?}");
        }
    }
}

/// If segments were lost before the outage, only the retransmission timer probes the path, because the silence may be
/// congestion.
#[test]
fn a_path_with_losses_before_the_outage_is_not_probed() {
    let mut net = Net::new(DELAY);
    let (a, b) = net.connect(Config { max_cwnd: 100_000, ..Config::default() });
    let mut data = 0;
    net.lose = Box::new(move |_, from, datagram| {
        data += u64::from(from == 0 && datagram.len() > 1000);
        // Every second segment of one flight is lost, and then all segments.
        from == 0 && data > 100 && (data % 2 == 0 || data > 150)
    });
    let mut late = None;
    let began = net.now;
    net.run_until(Span::from_secs(400), |net| {
        let now = net.now;
        while net.ends[0].drive(now, a, |c| c.write(&[7; 65_536]).is_ok()).unwrap() {}
        while net.ends[1].drive(now, b, |c| c.read(1 << 20).is_ok()).unwrap() {}
        net.pump();
        if now - began >= Span::from_secs(10) {
            late.get_or_insert(net.sent);
        }
        now - began >= Span::from_secs(60)
    });
    let alone = net.sent - late.unwrap();
    assert!((1..=3).contains(&alone), "{alone} segments between 10 and 60 s");
}
