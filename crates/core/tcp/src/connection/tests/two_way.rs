//! Simultaneous data in both directions: the sequence numbers of one end must not make the other end's
//! acknowledgments unacceptable.

use super::*;

fn with_startup(text: &str) -> Config {
    longhaul_zoo::register().unwrap();
    Config { nagle: false, recv_buffer: 4 << 20, congestion: text.parse().unwrap(), ..Config::default() }
}

/// Transfers data in both directions; returns the time from before the handshake until both ends have received all of
/// it.
pub(super) fn exchange(configs: [Config; 2], bytes: [usize; 2], delay: Span, lose: Box<Lose>) -> Span {
    let mut net = Net::new(delay);
    let [ours, theirs] = configs.map(Arc::new);
    net.ends[1].listen(theirs);
    let a = net.ends[0].connect(net.now, Net::tuple(1), ours).unwrap();
    let (mut b, mut written, mut read) = (None, [0; 2], [0; 2]);
    net.lose = lose;
    let begun = net.now;
    net.run_until(Span::from_secs(400), |net| {
        b = b.or_else(|| net.ends[1].accept());
        for (end, id) in [(0, Some(a)), (1, b)] {
            let Some(id) = id else { continue };
            net.ends[end].drive(net.now, id, |c| {
                while let Ok(n @ 1..) = c.write(&vec![7; bytes[end] - written[end]]) {
                    written[end] += n;
                }
                while let Ok(part) = c.read(1 << 20) {
                    read[1 - end] += part.len();
                }
            });
        }
        net.pump();
        read == bytes
            && (0..2).all(|end| {
                net.ends[end].connection([a, b.unwrap_or(a)][end]).unwrap().info(net.now).bytes_acked
                    >= bytes[end] as u64
            })
    });
    net.now - begun
}

/// RC3 advances the peer's RCV.NXT beyond SND.NXT, where ACKs sent with SND.NXT would not be acceptable.
#[test]
fn rc3_at_both_ends_with_data_both_ways_arrives() {
    let rc3 = ["rc3+slow-start+new-reno", "rc3(pace=line)+slow-start+new-reno", "rc3+cubic"];
    for ours in rc3 {
        for theirs in rc3.into_iter().chain(["cubic"]) {
            for (up, down) in [(20_000, 20_000), (100_000, 30_000), (40_000, 400_000), (1_000_000, 1_000_000)] {
                for delay in [5, 50] {
                    let taken = exchange(
                        [ours, theirs].map(with_startup),
                        [up, down],
                        Span::from_millis(delay),
                        Box::new(|_, _, _| false),
                    );
                    assert!(
                        taken <= Span::from_millis(delay) * 40,
                        "{ours} {theirs} {up} {down}: {taken} at {delay} ms"
                    );
                }
            }
        }
    }
}

/// Both ends fill the other's window and lose the first segment, so ACKs are sent from the right edge of the window.
#[test]
fn acks_sent_at_the_right_edge_of_the_window_are_accepted() {
    let mut net = Net::new(Span::from_millis(50));
    let config = Config { recv_buffer: 8 << 10, recv_buffer_max: 8 << 10, nagle: false, ..Config::default() };
    let (a, b) = net.connect(config);
    let mut data = [0; 2];
    net.lose = Box::new(move |_, from, datagram| {
        data[from] += u64::from(datagram.len() > 1000);
        datagram.len() > 1000 && data[from] == 1
    });
    let begun = net.now;
    let mut read = [0; 2];
    net.ends[0].drive(net.now, a, |c| c.write(&[7; 8 << 10])).unwrap().unwrap();
    net.ends[1].drive(net.now, b, |c| c.write(&[7; 8 << 10])).unwrap().unwrap();
    net.run_until(Span::from_secs(20), |net| {
        for (end, id) in [(0, a), (1, b)] {
            while let Ok(part) = net.ends[end].drive(net.now, id, |c| c.read(1 << 20)).unwrap() {
                read[end] += part.len();
            }
        }
        read == [8 << 10; 2]
    });
    assert_eq!(net.ends[0].connection(a).unwrap().info(net.now).timeouts, 0);
    assert!(net.now - begun < Span::from_millis(250), "{}", net.now - begun);
}

/// A duplicate ACK with nothing but SACK blocks does not change cwnd (RFC 5681, section 3.1). The first two permit
/// one new segment each (RFC 3042).
#[test]
fn sack_blocks_alone_do_not_open_the_window() {
    let mut net = Net::new(Span::from_millis(50));
    let (a, b) = net.connect(Config { nagle: false, ..Config::default() });
    let mut data = 0;
    net.lose = Box::new(move |_, from, datagram| {
        data += u64::from(from == 0 && datagram.len() > 1000);
        from == 0 && data == 1 && datagram.len() > 1000
    });
    net.ends[0].drive(net.now, a, |c| c.write(&[7; 200_000])).unwrap().unwrap();
    let initial = net.ends[0].connection(a).unwrap().info(net.now).cwnd;
    let mut windows = Vec::new();
    net.run_until(Span::from_secs(2), |net| {
        while net.ends[1].drive(net.now, b, |c| c.read(1 << 20).is_ok()).unwrap() {}
        let info = net.ends[0].connection(a).unwrap().info(net.now);
        if info.bytes_acked == 0 && info.recoveries == 0 {
            windows.push(info.cwnd);
        }
        info.bytes_acked > 0
    });
    assert!(windows.len() > 2 && windows.iter().all(|cwnd| *cwnd == initial), "{initial:?}: {windows:?}");
}

/// A RST below the peer's RCV.NXT would be dropped silently (RFC 5961, section 3.2).
#[test]
fn a_reset_is_sent_with_the_peers_rcv_nxt() {
    let mut net = Net::new(Span::from_millis(50));
    let mut config = Config { nagle: false, recv_buffer: 4 << 20, ..Config::default() };
    longhaul_zoo::register().unwrap();
    config.congestion = "rc3(pace=line)+slow-start+new-reno".parse().unwrap();
    let (a, b) = net.connect(config);
    net.ends[0].drive(net.now, a, |c| c.write(&[7; 60_000])).unwrap().unwrap();
    let mut read = 0;
    net.run_until(Span::from_secs(5), |net| {
        while let Ok(part) = net.ends[1].drive(net.now, b, |c| c.read(1 << 20)).unwrap() {
            read += part.len();
        }
        read == 60_000
    });
    assert!(net.ends[0].connection(a).unwrap().info(net.now).bytes_acked < 60_000);
    net.ends[0].drive(net.now, a, |c| c.abort());
    net.pump();
    let until = net.now + Span::from_millis(60);
    while net.now < until && net.step() {}
    assert_eq!(net.ends[1].connection(b).unwrap().status().error(), Some(crate::ConnectionError::Reset));
}
