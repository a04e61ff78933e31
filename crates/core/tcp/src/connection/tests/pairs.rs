//! Tests of flipped pairs of segments (TCPProbe).

use super::*;

fn config(pairs: bool) -> Config {
    Config { probe_pairs: pairs, max_plpmtu: 1232, ..Config::default() }
}

/// Returns the relative sequence numbers of the data segments in the order of sending.
fn order(config: Config, segments: usize) -> (Vec<u64>, Net, ConnId) {
    let mut net = Net::new(Span::from_millis(50));
    let (a, _) = net.connect(config);
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let log = seen.clone();
    net.lose = Box::new(move |_, from, datagram| {
        if from == 0 && datagram.len() > 100 {
            log.borrow_mut().push((u32::from_be_bytes(datagram[4..8].try_into().unwrap()), datagram.len()));
        }
        false
    });
    let now = net.now;
    net.ends[0].drive(now, a, |c| c.write(&vec![7; segments * 1208]).unwrap());
    net.run_until(Span::from_secs(2), |net| net.ends[0].connection(a).unwrap().info(net.now).unacked_segments == 0);
    let seen = seen.borrow();
    let lowest = seen.iter().map(|(seq, _)| *seq).min().unwrap();
    (seen.iter().map(|(seq, _)| u64::from(seq - lowest)).collect(), net, a)
}

/// Pairs are sent one at a time, with the second segment first. Each segment of the pair is longer than the one sent
/// before it, so that receive offload cannot merge them, and shorter than the one sent after it. Nothing is
/// retransmitted or marked lost.
#[test]
fn the_second_segment_is_sent_first_and_lengths_increase() {
    let (order, net, a) = order(config(true), 8);
    assert_eq!(order[..5], [0, 1205 + 1207, 1205, 1205 + 1207 + 1206, 1205 + 1207 + 1206 + 1208]);
    let info = net.ends[0].connection(a).unwrap().info(net.now);
    let pairs = info.pairs.unwrap();
    assert_eq!((info.segments_retransmitted, info.recoveries, pairs.measured + pairs.dropped), (0, 0, 1));
    assert!(info.arrival_times);
}

#[test]
fn no_pairs_without_a_request_or_without_sack() {
    for config in [config(false), Config { sack: false, ..config(true) }] {
        let (order, net, a) = order(config, 8);
        assert!(order.is_sorted());
        assert_eq!(net.ends[0].connection(a).unwrap().info(net.now).pairs, None);
    }
}
