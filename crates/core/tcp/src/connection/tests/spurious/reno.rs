//! The end of fast recovery without SACK: NewReno's and Reno's.

use super::*;

/// Segments 1 and 4 of a window are lost. NewReno retransmits the second one at the partial ACK (RFC 6582, section 3.2,
/// step 3). Reno leaves recovery with that ACK (RFC 5681, section 3.2, step 6), and needs three more duplicate ACKs.
#[test]
fn reno_leaves_recovery_with_the_first_new_ack() {
    let cases = [
        (Detection::DuplicateAcks, &[][..], &[][..], [(103, 1), (205, 4)]),
        (Detection::Reno, &[Exit], &[Enter], [(103, 1), (208, 4)]),
    ];
    for (detection, at_partial, at_duplicate, again) in cases {
        let mut script = Script::new(Setting { detection: Some(detection), ..WITHOUT_SACK });
        assert_eq!((script.ack(101, 1, 0, &[]), script.ack(102, 1, 0, &[])), (vec![], vec![]));
        assert_eq!(script.ack(103, 1, 0, &[]), [Enter]);
        assert_eq!(script.ack(205, 4, 0, &[]), at_partial, "{detection:?}");
        assert_eq!((script.ack(206, 4, 0, &[]), script.ack(207, 4, 0, &[])), (vec![], vec![]));
        assert_eq!(script.ack(208, 4, 0, &[]), at_duplicate, "{detection:?}");
        assert_eq!(script.sent_again(), again, "{detection:?}");
    }
}

/// The peer is not asked for anything: Reno is also run where SACK was negotiated.
#[test]
fn reno_does_not_depend_on_the_peer() {
    let script = Script::new(Setting { detection: Some(Detection::Reno), ..PLAIN });
    assert_eq!(script.connection().loss.detection, Detection::Reno);
}
