use longhaul_wire::Flags;

use super::*;

#[test]
fn retransmissions_are_detected_across_the_wrap() {
    let (now, detail, last) = (Time::ZERO, Detail::Changes, Reported::default());
    let mut sent = Observation { observers: Vec::new(), now, detail, sent_to: None, lost: Vec::new(), last };
    let header = |seq: u32, flags| Header { seq, flags, ..Header::default() };
    assert!(!sent.repeats(&header(u32::MAX - 10, Flags::SYN), 0));
    assert!(sent.repeats(&header(u32::MAX - 10, Flags::SYN), 0));
    assert!(!sent.repeats(&header(u32::MAX - 9, Flags::ACK), 100));
    assert!(!sent.repeats(&header(90, Flags::ACK), 0), "a pure ACK is never a retransmission");
    assert!(sent.repeats(&header(u32::MAX - 9, Flags::ACK), 50));
    assert!(!sent.repeats(&header(u32::MAX - 9, Flags::ACK), 101), "some of it is new");
    assert!(!sent.repeats(&header(91, Flags::FIN | Flags::ACK), 0));
    assert!(sent.repeats(&header(91, Flags::FIN | Flags::ACK), 0));
}
