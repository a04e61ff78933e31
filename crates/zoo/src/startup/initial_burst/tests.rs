use longhaul_cc::{Pacer, TxId};
use longhaul_units::{Rate, Span};

use super::*;

const MSS: Bytes = Bytes(1000);

fn begun() -> (InitialBurst, Window) {
    let (mut startup, mut window) = (InitialBurst::default(), Window::new(10_000.0));
    let step = startup.begin(Opening::Connection, Time::ZERO, &Path::new(MSS), &mut window);
    assert_eq!(step, Step::Stay);
    (startup, window)
}

fn send(startup: &mut InitialBurst, segments: u64) {
    for k in 0..segments {
        startup.on_sent(&Sent::new(Time::ZERO, TxId(k), MSS), &Path::new(MSS));
    }
}

/// Returns how many of a hundred segments the pacer releases at the instant at which the handshake ends.
fn at_once(startup: &InitialBurst) -> u64 {
    let now = Time::ZERO + Span::from_millis(100);
    let mut pacer = Pacer::new(Time::ZERO);
    // The transport's default pace is two windows per round trip.
    let usual = longhaul_cc::Pace::new(Rate::from_bytes_per_sec(200_000));
    pacer.set(now, Some(startup.overlay().pace.unwrap_or(usual)), MSS);
    let mut left = 0;
    while left < 100 && pacer.ready(now, MSS).is_ok() {
        pacer.sent(now, MSS);
        left += 1;
    }
    left
}

/// The whole window is sent at once. From its last segment on, the transport's own pace applies again, before any ACK.
#[test]
fn the_window_leaves_at_once_and_nothing_after_it() {
    let (mut startup, mut window) = begun();
    assert!(at_once(&startup) >= 10, "a window of ten");
    send(&mut startup, 9);
    assert_eq!(startup.next_tick(), None);
    send(&mut startup, 1);
    assert_eq!(startup.next_tick(), Some(Time::ZERO));
    assert_eq!(startup.on_tick(Time::ZERO, &Path::new(MSS), &mut window), Step::Done);
    assert_eq!((window, startup.next_tick(), at_once(&startup)), (Window::new(10_000.0), None, 2));
}

/// If there was less data to send, the first ACK ends the burst.
#[test]
fn an_ack_ends_it() {
    let (mut startup, mut window) = begun();
    send(&mut startup, 4);
    let mut ack = Ack::new(Time::ZERO);
    assert_eq!(startup.on_ack(&ack, &Path::new(MSS), &mut window), Step::Stay);
    ack.delivered = MSS;
    assert_eq!(startup.on_ack(&ack, &Path::new(MSS), &mut window), Step::Done);
    assert_eq!((window.cwnd, startup.overlay()), (10_000.0, Overlay::default()));
}

/// Restarts after idle periods and timeouts are paced as usual.
#[test]
fn only_a_connection_begins_with_it() {
    for opening in [Opening::Idle, Opening::Timeout] {
        let (mut startup, mut window) = begun();
        assert_eq!(startup.begin(opening, Time::ZERO, &Path::new(MSS), &mut window), Step::Done);
        assert_eq!(startup.overlay(), Overlay::default());
    }
}
