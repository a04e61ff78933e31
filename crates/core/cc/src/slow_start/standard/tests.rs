use longhaul_units::{Bytes, Time};

use super::*;
use crate::Episode;
use crate::tests::{MSS, segments};

#[test]
fn it_ends_exactly_at_the_threshold() {
    let mut slow_start = StandardSlowStart::new(10, 0);
    let mut window = Window { cwnd: 5000.0, ssthresh: 7000.0 };
    let ack = Ack::new(Time::ZERO);
    let path = Path::new(MSS);
    assert_eq!(slow_start.on_ack(&ack, Bytes(1999), &path, &mut window), Step::Stay);
    assert_eq!(slow_start.on_ack(&ack, Bytes(1460), &path, &mut window), Step::Done);
    assert_eq!(window.cwnd, 7000.0);
}

/// RFC 3465, sections 2.2 and 2.3.
#[test]
fn one_ack_counts_for_two_segments_unpaced_and_for_one_after_a_timeout_without_sack() {
    let mut path = Path::new(MSS);
    let raise = |slow_start: &mut StandardSlowStart, episode, path: Path| {
        let mut window = Window::new(0.0);
        let mut ack = Ack::new(Time::ZERO);
        ack.episode = episode;
        slow_start.on_ack(&ack, segments(44), &path, &mut window);
        Bytes::from_f64(window.cwnd)
    };
    let mut slow_start = StandardSlowStart::new(10, 0);
    assert_eq!(raise(&mut slow_start, Episode::None, path), segments(44));
    path.paced = false;
    assert_eq!(raise(&mut slow_start, Episode::None, path), segments(2));
    let without_sack = Path { sack: false, ..path };
    assert_eq!(raise(&mut slow_start, Episode::Rto, without_sack), segments(1));
    assert_eq!(raise(&mut StandardSlowStart::new(10, 5), Episode::Rto, path), segments(5));
}
