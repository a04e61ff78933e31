//! Transfer between two sans-IO endpoints that are connected by a queue.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use longhaul_tcp::{Batch, Config, ConnId, DatagramMeta, Endpoint, EndpointConfig, Tuple};
use longhaul_units::{Span, Time};

const DELAY: Span = Span::from_micros(100);
/// Number of segments per batch, as with segmentation offload.
const SEGMENTS: usize = 64;
static CHUNK: [u8; 64 << 10] = [0x5a; 64 << 10];

/// Two endpoints, and the datagrams in transit with their arrival times.
#[derive(Debug)]
struct Pair {
    now: Time,
    ends: [Endpoint; 2],
    queue: VecDeque<(Time, usize, Vec<u8>)>,
    /// Buffers of delivered datagrams for reuse, so that the allocator's work is not counted.
    spare: Vec<Vec<u8>>,
    batch: Batch,
}

fn tuple(to: usize) -> Tuple {
    let remote = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1 + to as u8), 4000));
    Tuple { remote, local: IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
}

impl Pair {
    fn new() -> Self {
        let ends = [1, 2].map(|seed| Endpoint::new(EndpointConfig::new([seed; 32]), Time::ZERO));
        Self { now: Time::ZERO, ends, queue: VecDeque::new(), spare: Vec::new(), batch: Batch::default() }
    }

    /// Moves everything that the endpoints may send into the queue.
    fn transmit(&mut self) {
        for from in 0..2 {
            while let Some(to) = self.ends[from].poll_transmit(self.now, &mut self.batch, SEGMENTS) {
                for (segment, header) in self.batch.parts() {
                    let mut datagram = self.spare.pop().unwrap_or_default();
                    datagram.clear();
                    datagram.extend_from_slice(header);
                    if let Some(id) = to.connection {
                        self.ends[from].payload(id, segment, |part| datagram.extend_from_slice(part));
                    }
                    self.queue.push_back((self.now + DELAY, 1 - from, datagram));
                }
            }
        }
    }

    /// Advances the time to the next arrival or timeout.
    ///
    /// # Panics
    /// Panics if there is neither.
    fn step(&mut self) {
        self.transmit();
        let timers = self.ends.iter_mut().filter_map(Endpoint::poll_timeout);
        let next = timers.chain(self.queue.front().map(|datagram| datagram.0)).min();
        self.now = self.now.max(next.expect("the transfer is over before it stalls"));
        while self.queue.front().is_some_and(|datagram| datagram.0 <= self.now)
            && let Some((_, to, datagram)) = self.queue.pop_front()
        {
            let mut meta = DatagramMeta::new(tuple(1 - to).remote, datagram.len());
            meta.tuple = tuple(1 - to);
            self.ends[to].handle_datagram(self.now, &meta, &datagram, None);
            self.spare.push(datagram);
        }
        for end in &mut self.ends {
            end.handle_timeout(self.now);
        }
    }

    fn connect(&mut self) -> [ConnId; 2] {
        let config = Arc::new(Config::default());
        self.ends[1].listen(Arc::clone(&config));
        let client = self.ends[0].connect(self.now, tuple(1), config).expect("the endpoint is empty");
        loop {
            self.step();
            if let Some(server) = self.ends[1].accept() {
                return [client, server];
            }
        }
    }
}

/// Connects, sends `bytes` bytes from the client to the server and waits until they have been read.
///
/// # Panics
/// Panics if the transfer stalls.
pub fn run(bytes: u64) {
    let mut pair = Pair::new();
    let [client, server] = pair.connect();
    let (mut left, mut received) = (bytes, 0);
    while received < bytes {
        pair.ends[0].drive(pair.now, client, |connection| {
            while left > 0
                && let Ok(written) = connection.write(&CHUNK[..CHUNK.len().min(left as usize)])
            {
                left -= written as u64;
            }
        });
        pair.ends[1].drive(pair.now, server, |connection| {
            while let Ok(data) = connection.read(1 << 20) {
                received += data.len() as u64;
            }
        });
        pair.step();
    }
}
