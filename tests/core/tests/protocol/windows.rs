//! Closed windows: probes, their intervals, and the data that a closed window accepts.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use longhaul_link::{LinkConfig, Outage, OutageKind};
use longhaul_sim::{Packet, Plan, SessionId, Setup, Sighting, Sim, Tap};
use longhaul_tcp::{Config, ConnectionError, Info, State};
use longhaul_tests_core::victim::{BUFFER, Reply, plain_config};
use longhaul_tests_core::{Victim, Watch};
use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Flags, Segment};

const MIN_RTO: Span = Span::from_millis(200);
/// Maximum interval of window probes.
const CEILING: Span = Span::from_secs(60);
const STALL: Span = Span::from_secs(600);
const BYTES: u64 = 400_000;

/// Data segments sent by host 0: time and bytes.
struct DataSent(Rc<RefCell<Vec<(Time, usize)>>>);

impl Tap for DataSent {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        let Ok(segment) = Segment::parse::<CheshireCodec>(&packet.payload) else { return };
        if matches!(sighting, Sighting::Sent(0)) && !segment.payload.is_empty() {
            self.0.borrow_mut().push((now, segment.payload.len()));
        }
    }
}

struct Stall {
    sim: Sim,
    watch: Watch,
    sent: Rc<RefCell<Vec<(Time, usize)>>>,
    client: SessionId,
    server: SessionId,
}

/// Starts a bulk transfer to an application that reads nothing for ten minutes; the RTT is 20 ms.
fn stall(change: impl Fn(&mut Config), outage: Option<Span>) -> Stall {
    let mut setup = Setup::symmetric(1, LinkConfig::delay(Span::from_millis(10)));
    for host in &mut setup.hosts {
        change(Arc::make_mut(&mut host.config));
    }
    let until = Time::ZERO + STALL;
    let outages = outage.map(|span| Outage { from: until, until: until + span, kind: OutageKind::Lose });
    setup.link_mut(1).outages = outages.into_iter().collect();
    let mut sim = Sim::new(setup);
    let watch = Watch::new(&mut sim, MIN_RTO);
    let sent = Rc::default();
    sim.add_tap(DataSent(Rc::clone(&sent)));
    let mut late = Plan::sink();
    late.read_from = until;
    let (client, server) = sim.open(Plan::bulk(BYTES), late);
    Stall { sim, watch, sent, client, server }
}

fn client_info(sim: &Sim, client: SessionId) -> Option<Info> {
    Some(sim.host(0).endpoint.connection(sim.session(client).id)?.info(sim.now()))
}

fn read_so_far(sim: &Sim) -> u64 {
    sim.host(1).sessions.first().map_or(0, |session| session.read)
}

/// Returns the times at which host 0 sent single bytes, which are window probes.
fn probes(sent: &[(Time, usize)]) -> Vec<Time> {
    sent.iter().filter(|(_, len)| *len == 1).map(|(at, _)| *at).collect()
}

fn gaps(times: &[Time]) -> Vec<Span> {
    times.windows(2).map(|w| w[1] - w[0]).collect()
}

/// RFC 9293, section 3.8.6.1, MUST-36, SHLD-29 and SHLD-30: intervals of probes start at the RTO and double. Their
/// maximum is longhaul's choice.
fn assert_doubling(gaps: &[Span]) {
    for pair in gaps.windows(2) {
        // If a probe's byte is accepted, its ACK gives an RTT sample, which changes the RTO.
        let ratio = pair[1].as_secs_f64() / (pair[0] * 2).min(CEILING).as_secs_f64();
        assert!((0.9..1.1).contains(&ratio) && pair[1] <= CEILING, "{gaps:?}");
    }
}

fn small(config: &mut Config) {
    (config.recv_buffer, config.recv_buffer_max) = (20_000, 20_000);
}

fn scaled(config: &mut Config) {
    (config.recv_buffer, config.recv_buffer_max) = (100_000, 64 << 20);
}

fn without_sack(config: &mut Config) {
    small(config);
    (config.sack, config.timestamps) = (false, false);
}

/// A stalled receiver is probed after the RTO, twice the RTO, and so on, up to once per minute. Probes do not count as
/// losses. Data follows within a round trip of the window update.
#[test]
fn a_stalled_reader_is_probed_less_and_less_often() {
    for change in [small as fn(&mut Config), scaled, without_sack] {
        let mut it = stall(change, None);
        let (until, client) = (Time::ZERO + STALL, it.client);
        let mut cwnd = 0;
        let watched = it.watch.run(&mut it.sim, STALL, |sim| {
            if let Some(info) = client_info(sim, client) {
                let quiet = (info.timeouts, info.recoveries, info.bytes_lost, info.tail_probes);
                assert_eq!(quiet, (0, 0, 0, 0));
                // In the first seconds, path MTU discovery is active, and the last bytes below the window's right edge
                // are sent after an RTO.
                if sim.now() > Time::ZERO + Span::from_secs(5) {
                    assert!(info.cwnd.0 >= cwnd, "{} after {cwnd}", info.cwnd.0);
                    cwnd = info.cwnd.0;
                }
            }
            read_so_far(sim) > 0 || sim.now() >= until
        });
        watched.unwrap();
        let sent = it.sent.borrow().clone();
        let times = probes(&sent);
        let gaps = gaps(&times);
        // Nine intervals lead from the RTO to one minute, and one probe per minute follows.
        assert!((16..=20).contains(&times.len()), "{gaps:?}");
        assert_doubling(&gaps);
        assert!(gaps[0] >= MIN_RTO && gaps[0] <= MIN_RTO * 3, "{gaps:?}");
        it.sent.borrow_mut().clear();
        it.watch.run(&mut it.sim, Span::from_secs(5), Sim::all_done).unwrap();
        let first = it.sent.borrow()[0].0;
        assert!(first - until <= Span::from_millis(21), "{:?}", first - until);
        assert!(it.sim.session(it.client).ended_well() && it.sim.session(it.server).ended_well());
    }
}

/// If the window update is lost, the next probe finds the window open.
#[test]
fn a_lost_update_is_found_within_a_minute() {
    for change in [small as fn(&mut Config), scaled, without_sack] {
        let mut it = stall(change, Some(Span::from_millis(100)));
        let until = Time::ZERO + STALL;
        it.watch.run(&mut it.sim, STALL, |sim| read_so_far(sim) > 0).unwrap();
        it.sent.borrow_mut().clear();
        it.watch.run(&mut it.sim, CEILING + Span::from_secs(2), Sim::all_done).unwrap();
        let sent = it.sent.borrow();
        assert!(sent[0].1 == 1 && sent[0].0 - until <= CEILING, "{:?}", sent[0]);
        // Further data is sent when the probe is acknowledged, which takes 20 ms and a delayed ACK.
        assert!(sent[1].0 - sent[0].0 <= Span::from_millis(65), "{:?}", sent[1].0 - sent[0].0);
        assert!(it.sim.session(it.client).ended_well() && it.sim.session(it.server).ended_well());
    }
}

/// Returns a victim all of whose data is acknowledged, that has more data to send, and whose peer has closed its
/// window. Its congestion window has grown beyond the initial one.
fn closed_in_the_face(change: impl FnOnce(&mut Config)) -> Victim {
    let mut config = plain_config();
    config.nagle = false;
    change(&mut config);
    let mut victim = Victim::with_config(State::Established, 1, u32::MAX - 1_000, config);
    let initial = victim.info().map(|info| info.cwnd);
    answer(&mut victim, 60_000);
    assert_eq!(victim.act(|c| c.write(&[7; 30 * 536])).0, Ok(30 * 536));
    for (segments, window) in [(10, 60_000), (20, 0)] {
        victim.wait(Span::from_millis(10));
        victim.acked = victim.acked.wrapping_add(segments * 536);
        answer(&mut victim, window);
    }
    assert!(victim.info().map(|info| info.cwnd) > initial);
    assert_eq!(victim.act(|c| c.write(&[7; 4_000])).0, Ok(4_000));
    victim
}

fn answer(victim: &mut Victim, window: u16) -> Vec<Reply> {
    let mut ack = victim.header(Flags::ACK);
    ack.window = window;
    victim.inject(&ack, &[])
}

/// Lets `span` pass and answers window probes with a closed window, accepting the byte if `takes`. Returns the times of
/// the probes.
fn answer_probes(victim: &mut Victim, span: Span, takes: bool) -> Vec<Time> {
    let (end, mut times) = (victim.now + span, Vec::new());
    while let Some(at) = victim.endpoint.poll_timeout().filter(|at| *at <= end) {
        for (at, reply) in victim.wait(at - victim.now) {
            assert_eq!((reply.payload.len(), reply.header.seq), (1, victim.acked));
            times.push(at);
            victim.acked = victim.acked.wrapping_add(u32::from(takes));
            let back = answer(victim, 0);
            assert!(back.is_empty(), "{back:?}");
        }
    }
    victim.now = end;
    times
}

/// The answer to a probe either refuses the byte, and looks like a duplicate ACK, or accepts it. Both only show that
/// the peer is alive (RFC 9293, MUST-37), with any user timeout, and do not change the intervals of the probes.
#[test]
fn probes_slow_down_whether_the_octet_is_taken_or_not() {
    for takes in [false, true] {
        for timeout in [None, Some(Span::from_secs(90))] {
            let mut victim = closed_in_the_face(|config| config.user_timeout = timeout);
            let cwnd = victim.info().unwrap().cwnd;
            let times = answer_probes(&mut victim, Span::from_secs(3_600), takes);
            let gaps = gaps(&times);
            // RTTs are at most 10 ms, so that the margin of the RTO is minimal.
            assert!((MIN_RTO * 2..=(MIN_RTO + Span::from_millis(10)) * 2).contains(&gaps[0]), "{gaps:?}");
            assert_doubling(&gaps);
            assert!((60..80).contains(&times.len()), "{}", times.len());
            let info = victim.info().unwrap();
            assert_eq!((info.state, info.cwnd), (State::Established, cwnd));
            assert_eq!((info.timeouts, info.recoveries, info.bytes_lost), (0, 0, 0));
            // When the window opens, all data is sent at once, including the probe's byte if it was refused.
            let more = answer(&mut victim, 5_000);
            let expected = if takes { 4_000 - times.len() } else { 4_000 };
            assert_eq!(more[0].header.seq, victim.acked);
            assert_eq!(more.iter().map(|r| r.payload.len()).sum::<usize>(), expected);
            // If the window closes again, the intervals restart.
            victim.acked = victim.acked.wrapping_add(expected as u32);
            answer(&mut victim, 0);
            assert_eq!(victim.act(|c| c.write(&[7; 4_000])).0, Ok(4_000));
            let since = victim.now;
            let times = answer_probes(&mut victim, Span::from_secs(1), takes);
            // The pacer may have delayed the first probe.
            let wait = times[0] - since;
            assert!(wait >= MIN_RTO && wait < MIN_RTO + Span::from_millis(11), "{wait:?}");
        }
    }
}

/// Without answers, the user timeout or R2 ends the connection.
#[test]
fn unanswered_probes_end_the_connection() {
    for (timeout, least, most) in [(Some(30), 30u64, 31), (Some(200), 200, 201), (None, 600, 700)] {
        let mut victim = closed_in_the_face(|config| config.user_timeout = timeout.map(Span::from_secs));
        answer_probes(&mut victim, Span::from_secs(120), false);
        let begun = victim.now;
        let mut last = begun;
        while victim.state() == State::Established && last - begun < Span::from_secs(2_000) {
            last = victim.endpoint.poll_timeout().expect("a timer");
            victim.wait(last - victim.now);
        }
        let error = victim.endpoint.connection(victim.id.unwrap()).and_then(|c| c.status().error());
        assert_eq!(error, Some(ConnectionError::TimedOut));
        // The peer's last answer was received up to a minute before.
        let taken = (last - begun).as_secs_f64() as u64;
        assert!((least.saturating_sub(60)..=most).contains(&taken), "{timeout:?}: {taken}");
    }
}

/// RFC 9293, section 3.8.6.1: the receiver accepts no byte beyond a closed window, and acknowledges a probe at once.
#[test]
fn a_closed_window_takes_no_octet() {
    let mut victim = Victim::in_state(State::Established, u32::MAX - 5_000, 3);
    for _ in 0..BUFFER / 1_000 {
        victim.send(Flags::ACK, &[1; 1_000]);
    }
    for len in [1, 1, 500] {
        let probe = victim.header(Flags::ACK);
        let replies = victim.inject(&probe, &vec![2; len]);
        assert!(
            matches!(replies.as_slice(), [one] if one.header.ack == victim.next && one.header.window == 0),
            "{replies:?}"
        );
        assert_eq!(victim.info().unwrap().unread.0, u64::from(BUFFER));
    }
    let mut read = vec![0; 2 * BUFFER as usize];
    let (len, update) = victim.act(|c| c.reader().read_into(&mut read));
    assert!(len == Ok(BUFFER as usize) && read[..BUFFER as usize].iter().all(|b| *b == 1));
    assert!(update.iter().any(|r| r.header.window > 0), "{update:?}");
    let probe = victim.header(Flags::ACK);
    victim.inject(&probe, &[2]);
    assert_eq!(victim.info().unwrap().bytes_received, u64::from(BUFFER) + 1);
}

/// A buffer smaller than the unit of the window scale does not stall the connection.
#[test]
fn a_buffer_below_the_scale_unit_does_not_deadlock() {
    for buffer in [1, 100, 1_000, 2_047, 3_000] {
        let mut setup = Setup::symmetric(1, LinkConfig::delay(Span::from_millis(1)));
        Arc::make_mut(&mut setup.hosts[1].config).recv_buffer = buffer;
        let mut sim = Sim::new(setup);
        let mut watch = Watch::new(&mut sim, MIN_RTO);
        let (client, server) = sim.open(Plan::bulk(30_000), Plan::sink());
        watch.run(&mut sim, Span::from_secs(60), Sim::all_done).unwrap();
        assert!(sim.session(client).ended_well() && sim.session(server).ended_well(), "{buffer}");
    }
}
