//! Data flows in one direction even if nobody reads in the other direction.

use super::*;

const BYTES: usize = 8_000_000;
const DELAY: Span = Span::from_millis(10);
/// Receive buffers of both ends, with and without room for rounding by the window scale.
const WINDOWS: [usize; 8] = [64_000, 65_536, 100_000, 131_072, 262_144, 1_000_000, 1 << 20, 4 << 20];

/// A transfer from one end to the other, and data in the other direction that its receiver does not read.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    window: usize,
    /// The end that sends the data, and reads nothing.
    sender: usize,
    /// Bytes that the other end writes, more than the window and the send buffer hold, or none.
    unread: usize,
    /// When the sender begins, after the other direction.
    begins: Span,
    /// Whether the other end ends its stream after what it writes.
    shuts: bool,
}

impl Transfer {
    /// Returns the time from the first of the data to the last that is read.
    fn time(self) -> Span {
        let Self { window, sender, unread, begins, shuts } = self;
        let mut net = Net::new(DELAY);
        let (a, b) = net.connect(Config { recv_buffer: window, recv_buffer_max: window, ..Config::default() });
        let (ids, reader, begin) = ([a, b], 1 - sender, net.now + begins);
        let (mut sent, mut read, mut ahead) = (0, 0, 0);
        let block = vec![7; 1 << 20];
        let mut apps = |net: &mut Net| {
            net.ends[reader].drive(net.now, ids[reader], |c| {
                while let Ok(n @ 1..) = c.write(&block[..block.len().min(unread - ahead)]) {
                    ahead += n;
                }
                if shuts && ahead == unread {
                    c.shutdown();
                }
                while let Ok(part @ 1..) = c.reader().read_into(&mut [0; 1 << 16]) {
                    read += part;
                }
            });
            if net.now >= begin {
                net.ends[sender].drive(net.now, ids[sender], |c| {
                    while let Ok(n @ 1..) = c.write(&block[..block.len().min(BYTES - sent)]) {
                        sent += n;
                    }
                });
            }
            net.pump();
            read == BYTES
        };
        apps(&mut net);
        while net.next().is_some_and(|at| at < begin) {
            net.step();
            apps(&mut net);
        }
        net.now = begin;
        net.run_until(Span::from_secs(100), apps);
        net.now - begin
    }
}

/// The transfer takes as long as without data that is not read, whether it begins with that or long after the other window
/// has closed. The difference is due to ACKs that travel with data.
#[test]
fn what_flows_one_way_does_not_depend_on_the_other() {
    for window in WINDOWS {
        let alone = Transfer { window, sender: 0, unread: 0, begins: Span::ZERO, shuts: false };
        let least = alone.time();
        for sender in [0, 1] {
            for (unread, shuts, begins) in [(16 << 20, false, 0), (16 << 20, false, 100), (window, true, 100)] {
                let other = Transfer { sender, unread, begins: Span::from_secs(begins), shuts, ..alone };
                let taken = other.time();
                assert!(taken < least + DELAY * 2, "{other:?}: {taken}, {least} alone");
            }
        }
    }
}
