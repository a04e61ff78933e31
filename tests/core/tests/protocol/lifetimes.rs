//! Connections with long idle periods, vanished peers and clock jumps.

use std::sync::Arc;

use longhaul_link::{Discipline, Limit, LinkConfig, Mtu, Outage, OutageKind, QueueConfig};
use longhaul_sim::{Close, Pattern, Plan, Setup, Sim};
use longhaul_tcp::{Config, ConnectionError, Endpoint, EndpointConfig, State};
use longhaul_tests_core::victim::plain_config;
use longhaul_tests_core::{Victim, Watch};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::Flags;

const MIN_RTO: Span = Span::from_millis(200);

fn setup(link: LinkConfig, change: impl Fn(&mut Config)) -> Setup {
    let mut setup = Setup::symmetric(1, link);
    for host in &mut setup.hosts {
        change(Arc::make_mut(&mut host.config));
    }
    setup
}

fn delay(millis: u64) -> LinkConfig {
    LinkConfig::delay(Span::from_millis(millis))
}

fn at(span: Span) -> Time {
    Time::ZERO + span
}

/// Returns an outage in which all packets are lost.
fn outage(from: Time, until: Time) -> Outage {
    Outage { from, until, kind: OutageKind::Lose }
}

/// Length in bytes of the headers before a segment.
const IPV4_AND_UDP: u32 = 28;

/// RFC 7323, section 5.5: an outdated timestamp must not be used for PAWS. The sign bit of microsecond ticks changes
/// after 36 minutes, that of millisecond ticks after 25 days.
#[test]
fn timestamps_survive_long_silences() {
    for (extensions, silence) in [(true, 40 * 60), (true, 25 * 86_400), (false, 40 * 60), (false, 25 * 86_400)] {
        let silence = Span::from_secs(silence);
        let mut sim = Sim::new(setup(delay(10), |config| config.extensions = extensions));
        let mut watch = Watch::new(&mut sim, MIN_RTO);
        let mut talk = Plan::bulk(4 * 4_096);
        talk.write_pause = silence;
        let (client, server) = sim.open(talk, talk);
        let mut dropped = 0;
        watch
            .run(&mut sim, silence * 3 + Span::from_secs(1), |sim| {
                for host in [sim.host(0), sim.host(1)] {
                    for session in &host.sessions {
                        let info = host.endpoint.connection(session.id).map(|c| c.info(sim.now()));
                        dropped = dropped.max(info.map_or(0, |i| i.paws_dropped + i.timeouts));
                    }
                }
                sim.all_done()
            })
            .unwrap();
        assert_eq!(dropped, 0);
        assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
    }
}

/// RFC 9293, section 3.8.6.1: the window is closed for an hour, and its update is lost. A window probe finds that the
/// window is open.
#[test]
fn a_lost_window_update_is_found_by_a_probe() {
    let hour = Span::from_secs(3_600);
    let mut setup = setup(delay(10), |config| {
        (config.recv_buffer, config.recv_buffer_max) = (20_000, 20_000);
    });
    setup.link_mut(1).outages = vec![outage(at(hour), at(hour + Span::from_secs(5)))];
    let mut sim = Sim::new(setup);
    let mut watch = Watch::new(&mut sim, MIN_RTO);
    let mut late = Plan::sink();
    late.read_from = at(hour);
    let (_, server) = sim.open(Plan::bulk(200_000), late);
    watch.run(&mut sim, hour, |sim| sim.now() >= at(hour)).ok();
    // Window probes are at most two minutes apart.
    watch.run(&mut sim, Span::from_secs(130), Sim::all_done).unwrap();
    assert_eq!(sim.session(server).read, 200_000);
}

/// A connection whose peer vanishes ends after R2, which is at least 100 s (RFC 9293, section 3.8.3), or after the user
/// timeout (RFC 5482).
#[test]
fn a_peer_that_vanishes_is_given_up() {
    for (timeout, least, most) in [(None, 100, 1_200), (Some(10), 9, 12)] {
        let gone = at(Span::from_secs(1));
        let mut setup = setup(delay(10), |config| config.user_timeout = timeout.map(Span::from_secs));
        for link in 0..2 {
            setup.link_mut(link).outages = vec![outage(gone, Time::MAX)];
        }
        let mut sim = Sim::new(setup);
        let mut talk = Plan::bulk(100_000);
        talk.write_pause = Span::from_millis(100);
        let (client, _) = sim.open(talk, Plan::sink());
        assert!(sim.run(Span::from_secs(3_000), |sim| sim.session(client).error.is_some()));
        assert_eq!(sim.session(client).error, Some(ConnectionError::TimedOut));
        let taken = (sim.now() - gone).as_secs_f64() as u64;
        assert!((least..=most).contains(&taken), "{timeout:?}: {taken}");
    }
}

/// No closing state lasts forever if the peer has vanished (FreeBSD leaked connections in LAST-ACK, 2015).
#[test]
fn closing_states_end_without_the_peer() {
    use State::{CloseWait, Closing, FinWait1, FinWait2, LastAck, TimeWait};
    for state in [CloseWait, Closing, FinWait1, FinWait2, LastAck, TimeWait, State::SynReceived] {
        let mut victim = Victim::in_state(state, 1, u32::MAX);
        if let Some(id) = victim.id {
            victim.endpoint.release(victim.now, id);
            victim.flush();
        }
        victim.wait(Span::from_secs(1_200));
        assert!(victim.endpoint.is_idle(), "{state}");
        assert_eq!((victim.endpoint.memory(), victim.endpoint.poll_timeout()), (0, None), "{state}");
    }
}

/// RFC 9293, section 3.6: TIME-WAIT ends 2 MSL after the last FIN, exact to the nanosecond. A repeated FIN restarts it,
/// other segments do not.
#[test]
fn time_wait_lasts_twice_the_segment_lifetime() {
    for released in [false, true] {
        let mut victim = Victim::in_state(State::TimeWait, 1, 1);
        if released {
            victim.endpoint.release(victim.now, victim.id.unwrap());
            victim.flush();
        }
        victim.wait(Span::from_secs(40));
        let mut fin = victim.header(Flags::FIN | Flags::ACK);
        let mut stray = fin.clone();
        stray.seq = fin.seq.wrapping_add(1_000);
        fin.seq = fin.seq.wrapping_sub(1);
        let begun = victim.now;
        assert_eq!(victim.inject(&fin, &[]).len(), 1);
        victim.wait(Span::from_secs(30));
        victim.inject(&stray, &[]);
        assert_eq!(victim.endpoint.poll_timeout(), Some(begun + Span::from_secs(60)), "released: {released}");
        victim.wait(Span::from_secs(30) - Span::from_nanos(1));
        assert!(released != (victim.state() == State::TimeWait) && !victim.endpoint.is_idle());
        victim.wait(Span::from_nanos(1));
        assert!(victim.state() == State::Closed || victim.endpoint.is_idle());
    }
}

/// RFC 9293, section 3.5.1: a peer that has lost its state can connect again after its first SYN was answered by a
/// challenge ACK.
#[test]
fn a_restarted_peer_connects_again() {
    let mut sim = Sim::new(setup(delay(10), |_| {}));
    sim.listen(0);
    let mut idle = Plan::sink();
    idle.close = Close::Never;
    let (client, _) = sim.open(idle, idle);
    sim.run_for(Span::from_secs(5));
    let clock = sim.now();
    let host = sim.host_mut(1);
    host.endpoint = Endpoint::new(EndpointConfig::new([99; 32]), clock);
    host.sessions.clear();
    sim.expect(0, Plan::bulk(1_000), Pattern::new(8), Pattern::new(9));
    let again = sim.open_from(1, 0, Plan::bulk(500), Pattern::new(9), Pattern::new(8)).unwrap();
    // The second SYN is sent 1 s after the first one.
    assert!(sim.run(Span::from_millis(1_200), |sim| sim.session(again).released));
    assert!(sim.session(again).ended_well());
    assert_eq!(sim.session(client).error, Some(ConnectionError::Reset));
}

#[test]
fn simultaneous_open_and_close() {
    for millis in [0, 1, 50] {
        for scaling in [false, true] {
            let mut sim = Sim::new(setup(delay(millis), |config| config.window_scaling = scaling));
            sim.listen(0);
            let mut watch = Watch::new(&mut sim, MIN_RTO);
            let (a, b) = (Pattern::new(0), Pattern::new(1));
            // Each SYN is sent before the other SYN arrives.
            let first = sim.open_from(0, 1, Plan::bulk(200_000), a, b).unwrap();
            let second = sim.open_from(1, 0, Plan::bulk(200_000), b, a).unwrap();
            watch.run(&mut sim, Span::from_secs(60), Sim::all_done).unwrap();
            assert!(sim.session(first).ended_well() && sim.session(second).ended_well());
            // Each end sends a FIN before it receives the other's, so both enter TIME-WAIT.
            sim.run_for(Span::from_secs(1));
            if millis > 0 {
                assert_eq!([0, 1].map(|h| sim.host(h).endpoint.time_wait_len()), [1, 1]);
            }
            watch.run(&mut sim, Span::from_secs(61), Sim::is_quiet).unwrap();
        }
    }
}

/// Both hosts are suspended, and their clocks jump. Neither end gives up before it has contacted the peer.
#[test]
fn clocks_may_jump() {
    let day = 86_400_000;
    for jump in [1, 3_600_000, 30 * day, 4_294_967_296, 60 * day] {
        for (timestamps, keep_alive) in [(true, false), (false, true), (true, true)] {
            let mut link = delay(20);
            link.rate = Rate::from_bits_per_sec(10_000_000).into();
            let mut sim = Sim::new(setup(link, |config| {
                config.timestamps = timestamps;
                config.user_timeout = Some(Span::from_secs(30));
                config.keep_alive = keep_alive.then(|| {
                    let mut keep = longhaul_tcp::KeepAlive::default();
                    (keep.idle, keep.interval, keep.probes) = (Span::from_secs(10), Span::from_secs(1), 3);
                    keep
                });
            }));
            let mut watch = Watch::new(&mut sim, MIN_RTO);
            let (client, server) = sim.open(Plan::bulk(2_000_000), Plan::bulk(300_000));
            for _ in 0..3 {
                let until = sim.now() + Span::from_millis(400);
                watch.run(&mut sim, Span::from_secs(10), |sim| sim.now() >= until).unwrap();
                watch.jump(&mut sim, Span::from_millis(jump));
            }
            watch.run(&mut sim, Span::from_secs(60), Sim::all_done).unwrap();
            let ends = [sim.session(client), sim.session(server)];
            let well = ends.iter().all(|s| s.ended_well());
            assert!(well, "{jump} {timestamps} {keep_alive}: {}", watch.fail::<()>(&sim, "cut short").unwrap_err());
        }
    }
}

/// The sending host is suspended for an hour with unacknowledged data. It retransmits once before it gives up.
#[test]
fn the_user_timeout_leaves_a_peer_time_to_answer_after_sleep() {
    for answers in [true, false] {
        let mut config = plain_config();
        config.user_timeout = Some(Span::from_secs(30));
        let mut victim = Victim::with_config(State::Established, 1, 1, config);
        assert_eq!(victim.act(|c| c.write(b"hello")).1.len(), 1);
        victim.now += Span::from_secs(3_600);
        let now = victim.now;
        victim.endpoint.handle_timeout(now);
        assert_eq!(victim.flush().len(), 1);
        assert_eq!(victim.state(), State::Established);
        if answers {
            victim.acked += 5;
            victim.send(Flags::ACK, &[]);
        }
        victim.wait(Span::from_secs(60));
        assert_eq!(victim.state() == State::Established, answers);
    }
}

#[test]
fn time_that_goes_back_stands_still() {
    let mut victim = Victim::in_state(State::Established, 1, 1);
    victim.wait(Span::from_secs(10));
    let now = victim.now;
    victim.endpoint.handle_timeout(now);
    victim.now = Time::ZERO;
    assert_eq!(victim.act(|c| c.write(b"abc")).1.len(), 1);
    victim.endpoint.handle_timeout(Time::ZERO);
    assert!(victim.endpoint.poll_timeout().is_some_and(|at| at > now));
    victim.now = now;
    assert_eq!(victim.state(), State::Established);
}

/// RFC 8899, section 4.3: at some time, the path begins to drop all but small packets, and the connection returns to
/// the base size.
#[test]
fn a_path_mtu_black_hole_is_crossed_at_the_base_size() {
    for (from, size) in [(0, 1_300), (0, 1_232), (2, 1_300), (2, 1_240)] {
        let mut link = delay(10);
        link.rate = Rate::from_bits_per_sec(5_000_000).into();
        let mut link = link.queue(Limit::Bytes(50_000));
        link.mtu = Some(Mtu { from: at(Span::from_secs(from)), size: size + IPV4_AND_UDP });
        let mut sim = Sim::new(setup(link, |_| {}));
        let mut watch = Watch::new(&mut sim, MIN_RTO);
        let (client, server) = sim.open(Plan::bulk(4_000_000), Plan::sink());
        // The transfer takes 6.7 s at the full rate, plus some timeouts.
        watch.run(&mut sim, Span::from_secs(10), Sim::all_done).unwrap();
        assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
    }
}

/// Path MTU discovery finds a larger path MTU, and approaches a smaller one from below, without timeouts.
#[test]
fn the_path_mtu_is_found() {
    for (size, found) in [(9_000, 1_472..=1_472), (1_400, 1_380..=1_400), (1_300, 1_280..=1_300)] {
        let mut link = delay(10);
        link.mtu = Some(Mtu { from: Time::ZERO, size: size + IPV4_AND_UDP });
        link.rate = Rate::from_bits_per_sec(30_000_000).into();
        link.queue = Limit::Packets(99).into();
        let mut sim = Sim::new(setup(link, |_| {}));
        let (client, _) = sim.open(Plan::bulk(8_000_000), Plan::sink());
        let mut best = (0, 0);
        assert!(sim.run(Span::from_secs(60), |sim| {
            let session = sim.session(client);
            if let Some(connection) = sim.host(0).endpoint.connection(session.id) {
                let info = connection.info(sim.now());
                best = (best.0.max(info.plpmtu), info.timeouts);
            }
            sim.all_done()
        }));
        assert!(found.contains(&best.0) && best.1 == 0, "{size}: {best:?}");
    }
}

/// RFC 3168: CE marks alone limit the window, so that the queue does not overflow.
#[test]
fn congestion_marks_keep_the_queue_from_overflowing() {
    let queue = QueueConfig::from(Discipline::DropTail { mark_above: Some(30_000) }).limit(Limit::Packets(399));
    let link = LinkConfig::new(Rate::from_bits_per_sec(10_000_000), Span::from_millis(20)).queue(queue);
    let mut sim = Sim::new(setup(link, |_| {}));
    let mut watch = Watch::new(&mut sim, MIN_RTO);
    let (_, server) = sim.open(Plan::bulk(10_000_000), Plan::sink());
    watch.run(&mut sim, Span::from_secs(20), Sim::all_done).unwrap();
    assert_eq!(sim.session(server).read, 10_000_000);
    let stats = sim.link(0).stats().all();
    assert!(stats.marked > 0 && stats.dropped_total() == 0, "{stats:?}");
}
