//! Tests of two endpoints connected by a queue of datagrams in virtual time.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use longhaul_cc::{BuildParams, Controller, ControllerFactory, SendLimit};
use longhaul_units::{Span, Time};

use crate::{
    Batch, Config, ConnId, DatagramMeta, Ecn, Endpoint, EndpointConfig, Event, Info, NegotiatedOptions, RecoveryState,
    State, Tuple,
};

mod ack_frequency;
mod calls;
mod early_answer;
mod ecn_check;
mod ecn_path;
mod icmp_errors;
mod idleness;
mod listed;
mod long_round_trips;
mod metrics_cache;
mod moderation;
mod observers;
mod outage;
mod pacing;
mod pairs;
mod pmtu;
mod probes;
mod rc3;
mod reordering;
mod reuse;
mod spurious;
mod tail_probes;
mod two_way;
mod unread;
mod user_timeout;

const A: ([u8; 4], u16) = ([10, 0, 0, 1], 1000);
const B: ([u8; 4], u16) = ([10, 0, 0, 2], 2000);

/// Factory of copies of a controller.
#[derive(Debug)]
struct Copies<C>(C);

impl<C: Controller + Clone + Sync + 'static> ControllerFactory for Copies<C> {
    fn build(&self, _: &BuildParams) -> Box<dyn Controller> {
        Box::new(self.0.clone())
    }
    fn name(&self) -> String {
        self.0.name()
    }
}

/// Decides whether a datagram is lost, by the packet number, the sending end and the contents.
type Lose = dyn FnMut(u64, usize, &[u8]) -> bool;

/// Processes a datagram by the sending end, its ECN field and the contents; returns the new ECN field, or `None` if
/// it is lost.
type Tamper = dyn FnMut(usize, Ecn, &mut [u8]) -> Option<Ecn>;

/// Link with a fixed delay and unlimited rate that drops the datagrams selected by `lose`.
struct Net {
    now: Time,
    delay: Span,
    ends: [Endpoint; 2],
    flying: VecDeque<(Time, usize, Ecn, Vec<u8>)>,
    sent: u64,
    lose: Box<Lose>,
    tamper: Box<Tamper>,
    /// By how much CE-marked datagrams overtake the others.
    lead: Span,
    /// Extra delay of low-priority datagrams.
    lag: Span,
    /// DSCP of the datagram passed to `tamper` and `lose`.
    dscp: Rc<Cell<u8>>,
    /// When that is sent.
    sent_at: Rc<Cell<Time>>,
}

impl Net {
    fn new(delay: Span) -> Self {
        let end = |seed| Endpoint::new(EndpointConfig::new([seed; 32]), Time::ZERO);
        let ends = [end(1), end(2)];
        let (lose, tamper) =
            (Box::new(|_: u64, _: usize, _: &[u8]| false), Box::new(|_: usize, ecn, _: &mut [u8]| Some(ecn)));
        let (flying, dscp, sent_at) = (VecDeque::new(), Rc::default(), Rc::new(Cell::new(Time::ZERO)));
        let (lead, lag) = (Span::ZERO, Span::ZERO);
        Self { now: Time::ZERO, delay, ends, flying, sent: 0, lose, tamper, lead, lag, dscp, sent_at }
    }

    fn tuple(to: usize) -> Tuple {
        let remote = SocketAddr::from(if to == 0 { A } else { B });
        Tuple { remote, local: IpAddr::from([0, 0, 0, 0]) }
    }

    fn pump(&mut self) {
        let mut batch = Batch::default();
        self.sent_at.set(self.now);
        for from in 0..2 {
            while let Some(to) = self.ends[from].poll_transmit(self.now, &mut batch, 64) {
                for (segment, header) in batch.parts() {
                    let mut datagram = header.to_vec();
                    if let Some(id) = to.connection {
                        self.ends[from].payload(id, segment, |part| datagram.extend_from_slice(part));
                    }
                    self.sent += 1;
                    self.dscp.set(batch.dscp);
                    let ecn = (self.tamper)(from, batch.ecn, &mut datagram);
                    if let Some(ecn) = ecn.filter(|_| !(self.lose)(self.sent, from, &datagram)) {
                        let lead = if ecn == Ecn::Ce { self.lead } else { Span::ZERO };
                        let lag = if batch.dscp == 1 { self.lag } else { Span::ZERO };
                        let at = self.now + (self.delay - lead) + lag;
                        let place = self.flying.partition_point(|flying| flying.0 <= at);
                        self.flying.insert(place, (at, 1 - from, ecn, datagram));
                    }
                }
            }
        }
    }

    /// Returns the time of the next event.
    fn next(&mut self) -> Option<Time> {
        let timers = [self.ends[0].poll_timeout(), self.ends[1].poll_timeout()];
        timers.into_iter().flatten().chain(self.flying.front().map(|f| f.0)).min()
    }

    /// Advances to the next event; returns `false` if there is none.
    fn step(&mut self) -> bool {
        self.pump();
        let Some(next) = self.next() else { return false };
        self.now = self.now.max(next);
        while self.flying.front().is_some_and(|f| f.0 <= self.now) {
            let (_, to, ecn, datagram) = self.flying.pop_front().unwrap();
            let mut meta = DatagramMeta::new(Self::tuple(1 - to).remote, datagram.len());
            meta.tuple = Self::tuple(1 - to);
            meta.segment.ecn = ecn;
            self.ends[to].handle_datagram(self.now, &meta, &datagram, None);
        }
        for end in &mut self.ends {
            end.handle_timeout(self.now);
        }
        self.pump();
        true
    }

    fn run_until(&mut self, limit: Span, mut done: impl FnMut(&mut Self) -> bool) {
        let end = self.now + limit;
        self.pump();
        while !done(self) {
            assert!(self.step(), "no event left at {}", self.now);
            assert!(self.now <= end, "not done after {limit}");
        }
    }

    fn connect(&mut self, config: Config) -> (ConnId, ConnId) {
        let config = Arc::new(config);
        self.ends[1].listen(Arc::clone(&config));
        let a = self.ends[0].connect(self.now, Self::tuple(1), config).unwrap();
        let mut b = None;
        self.run_until(Span::from_secs(100), |net| {
            b = b.or_else(|| net.ends[1].accept());
            b.is_some() && net.ends[0].connection(a).unwrap().state() == State::Established
        });
        (a, b.unwrap())
    }

    /// Transfers `bytes` from end 0 to end 1 and closes both directions.
    fn transfer(&mut self, (a, b): (ConnId, ConnId), bytes: usize, limit: Span) -> Info {
        let data: Vec<u8> = (0..bytes).map(|i| (i * 31 + i / 251) as u8).collect();
        let (mut written, mut got, mut shut) = (0, Vec::new(), false);
        let mut info = None;
        self.run_until(limit, |net| {
            let now = net.now;
            net.ends[0].drive(now, a, |c| {
                while let Ok(n @ 1..) = c.write(&data[written..]) {
                    written += n;
                }
                if written == data.len() && !shut {
                    c.shutdown();
                    shut = true;
                }
                if c.state() != State::Closed {
                    info = Some(c.info(now));
                }
            });
            net.ends[1].drive(now, b, |c| {
                while let Ok(part) = c.read(1 << 20) {
                    if part.is_empty() {
                        c.shutdown();
                        break;
                    }
                    got.extend_from_slice(&part);
                }
            });
            net.pump();
            let over = |net: &Net, end: usize, id| {
                net.ends[end].connection(id).is_none_or(|c| matches!(c.state(), State::Closed | State::TimeWait))
            };
            over(net, 0, a) && over(net, 1, b)
        });
        assert!(got == data, "{} of {} bytes arrived", got.len(), data.len());
        info.unwrap()
    }
}

#[test]
fn a_clean_transfer_retransmits_nothing() {
    let mut net = Net::new(Span::from_millis(50));
    let ids = net.connect(Config::default());
    let info = net.transfer(ids, 3_000_000, Span::from_secs(30));
    assert_eq!((info.bytes_retransmitted, info.timeouts, info.recoveries), (0, 0, 0));
    assert_eq!(info.min_rtt, Some(Span::from_millis(100)));
    let all = NegotiatedOptions { sack: true, timestamps: true, wscale: true, ecn: true, microseconds: true };
    assert_eq!(info.options, all);
    assert_eq!(info.plpmtu, 1472);
}

/// Most connections are idle, lose little and have no extensions: state for these takes no memory.
#[test]
fn a_plain_connection_has_no_state_for_losses_and_extensions() {
    let mut net = Net::new(Span::from_millis(10));
    let ids = net.connect(Config { congestion: "cubic".parse().unwrap(), ..Config::default() });
    net.transfer(ids, 100_000, Span::from_secs(10));
    for (end, id) in [(0, ids.0), (1, ids.1)] {
        let connection = net.ends[end].connection(id).unwrap();
        assert!(connection.ext.list.is_empty(), "{end}");
        assert!(connection.stats.incidents.is_none(), "{end}: {:?}", connection.stats.incidents());
    }
}

#[test]
fn survives_loss_in_every_mode() {
    for (sack, timestamps, controller) in
        [(true, true, "cubic"), (true, false, "cubic"), (false, true, "cubic"), (false, false, "new-reno")]
    {
        for seed in 0..8u64 {
            let mut net = Net::new(Span::from_millis(10));
            let mut random = seed * 7919 + 1;
            net.lose = Box::new(move |_, _, _| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (random >> 33) % 100 < 5
            });
            let mut config = Config { sack, timestamps, ..Config::default() };
            config.congestion = controller.parse().unwrap();
            let ids = net.connect(config);
            net.transfer(ids, 1_000_000, Span::from_secs(600));
        }
    }
}

#[test]
fn events_and_idle_state_over_the_life_of_a_connection() {
    let mut net = Net::new(Span::from_millis(1));
    let (a, b) = net.connect(Config::default());
    let mut seen = Vec::new();
    while let Some(event) = net.ends[0].poll_event() {
        seen.push(event);
    }
    assert_eq!(seen, [Event::Connected, Event::Writable].map(|event| crate::EndpointEvent::Connection(a, event)));
    net.transfer((a, b), 10, Span::from_secs(5));
    let (now, ends) = (net.now, &mut net.ends);
    ends[0].release(now, a);
    ends[1].release(now, b);
    net.run_until(Span::from_secs(5), |net| net.ends[1].is_idle());
    assert_eq!((net.ends[0].len(), net.ends[0].time_wait_len()), (0, 1));
    net.run_until(Span::from_secs(61), |net| net.ends[0].is_idle());
    assert_eq!((net.ends[0].memory(), net.ends[1].memory()), (0, 0));
}

#[test]
fn a_sender_that_is_not_polled_is_limited_by_the_cpu() {
    let mut net = Net::new(Span::from_millis(1));
    let (a, _) = net.connect(Config::default());
    let seconds = |net: &Net| net.ends[0].connection(a).unwrap().info(net.now).limited[SendLimit::Cpu as usize];
    net.ends[0].drive(net.now, a, |c| c.write(&[7; 14_000]));
    // Send two of the ten segments that the initial window permits, and do not poll for 7 ms.
    assert!(net.ends[0].poll_transmit(net.now, &mut Batch::default(), 2).is_some());
    net.now += Span::from_millis(7);
    net.pump();
    assert_eq!(seconds(&net), Span::from_millis(7));
    // From now on, the application is the limit.
    net.now += Span::from_millis(5);
    assert_eq!(seconds(&net), Span::from_millis(7));
}

/// A queue overflow in slow start drops every second segment of a window. Recovery takes several round trips, and all
/// losses are genuine.
#[test]
fn a_long_recovery_is_not_taken_for_spurious() {
    let mut net = Net::new(Span::from_millis(50));
    let ids = net.connect(Config::default());
    let mut data = 0;
    net.lose = Box::new(move |_, from, datagram| {
        data += u64::from(from == 0 && datagram.len() > 1000);
        from == 0 && (1000..2000).contains(&data) && data % 2 == 0
    });
    let info = net.transfer(ids, 6_000_000, Span::from_secs(30));
    assert!(info.bytes_lost >= 400 * 1448, "{}", info.bytes_lost);
    assert_eq!((info.spurious_recoveries, info.timeouts), (0, 0));
    assert!(info.recoveries <= 2, "{}", info.recoveries);
}

/// In recovery, the pacing rate follows ssthresh, not the current window.
#[test]
fn recovery_is_paced_by_ssthresh() {
    let mut net = Net::new(Span::from_millis(50));
    let (a, b) = net.connect(Config::default());
    let mut seen = std::collections::HashSet::new();
    net.lose = Box::new(move |_, from, datagram| {
        let is_new = from == 0 && datagram.len() > 1000 && seen.insert(datagram[4..8].to_vec());
        is_new && (600..1200).contains(&seen.len()) && seen.len() % 8 != 0
    });
    let info = |net: &Net| net.ends[0].connection(a).unwrap().info(net.now);
    net.run_until(Span::from_secs(10), |net| {
        net.ends[0].drive(net.now, a, |c| while c.write(&[7; 64 << 10]).is_ok() {});
        net.ends[1].drive(net.now, b, |c| while c.read(1 << 20).is_ok() {});
        net.pump();
        let info = info(net);
        info.recovery == RecoveryState::Recovery
            && info.ssthresh.is_some_and(|ssthresh| info.cwnd.0 * 13 / 10 < ssthresh.0)
    });
    let info = info(&net);
    let least = info.ssthresh.unwrap().as_f64() / info.srtt.unwrap().as_secs_f64();
    let rate = info.pacing_rate.unwrap().as_bytes_per_sec() as f64;
    assert!(rate >= least, "{rate} of {least} bytes per second");
}
