//! Tests of reordering detection (RFC 8985, section 6.2, step 3).

use super::*;

/// Sends 8 segments, of which the second and the fourth are lost; returns the time until both have been
/// retransmitted.
fn time_to_retransmit(first_ack_is_lost: bool) -> Span {
    let mut net = Net::new(Span::from_millis(50));
    let (a, _) = net.connect(Config { max_plpmtu: 1232, ..Config::default() });
    let mut sent = [0, 0];
    net.lose = Box::new(move |_, from, _| {
        sent[from] += 1;
        if from == 0 { sent[0] == 2 || sent[0] == 4 } else { sent[1] == 1 && first_ack_is_lost }
    });
    let begun = net.now;
    net.ends[0].drive(begun, a, |c| c.write(&[7; 8 * 1208]).unwrap());
    let retransmitted = |net: &Net| net.ends[0].connection(a).unwrap().info(net.now).segments_retransmitted;
    net.run_until(Span::from_secs(1), |net| retransmitted(net) == 2);
    net.now - begun
}

/// The first block of a SACK option is the newest (RFC 2018, section 4). If an ACK is the first to report two blocks,
/// for example because an ACK was lost, their order of arrival is unknown. Lost segments are then retransmitted at
/// once, without a reordering window of a quarter of a round trip.
#[test]
fn two_new_blocks_in_one_ack_are_no_reordering() {
    assert_eq!(time_to_retransmit(true), time_to_retransmit(false));
}
