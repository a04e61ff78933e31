//! Event logs of a simulation, compared with the counters of its connections.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_link::{Limit, LinkConfig, Loss, Reordering};
use longhaul_sim::{Close, Packet, Plan, Qlog, SessionId, Setup, Sighting, Sim, Tap};
use longhaul_tcp::Info;
use longhaul_units::{Rate, Span, Time};
use serde_json::Value;

const BYTES: u64 = 400_000;
const TICK: Span = Span::from_millis(1);

fn lossy(seed: u64) -> Setup {
    let mut link = LinkConfig::new(Rate::from_bits_per_sec(10_000_000), Span::from_millis(30))
        .queue(Limit::Packets(30))
        .loss(Loss::Uniform(0.02));
    link.reordering = Some(Reordering::Places { share: 0.01, places: 3, patience: Span::from_millis(20) });
    Setup::symmetric(seed, link)
}

/// A plan that writes `bytes` and never releases the connection.
fn open_ended(bytes: u64) -> Plan {
    let mut plan = Plan::bulk(bytes);
    plan.close = Close::Never;
    plan
}

/// Parses the records of a log (RFC 7464, section 2.2).
fn records(log: Vec<u8>) -> Vec<Value> {
    let text = String::from_utf8(log).unwrap();
    assert!(text.starts_with('\x1e') && text.ends_with('\n'));
    let texts = text.split_terminator('\n').map(|line| line.strip_prefix('\x1e').unwrap());
    texts.map(|text| serde_json::from_str(text).unwrap()).collect()
}

fn named<'a>(records: &'a [Value], name: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["name"] == format!("tcp:{name}")).map(|record| &record["data"]).collect()
}

fn sum(events: &[&Value], field: impl Fn(&Value) -> &Value) -> u64 {
    events.iter().map(|event| field(event).as_u64().unwrap()).sum()
}

fn payload(segment: &Value) -> &Value {
    &segment["header"]["payload_length"]
}

fn flags(segment: &Value) -> &Value {
    &segment["header"]["flags"]
}

/// Returns the state of a connection, as long as it exists.
fn info(sim: &Sim, id: SessionId) -> Option<Info> {
    let host = sim.host(id.host);
    host.endpoint.connection(sim.find(id)?.id).map(|connection| connection.info(host.clock(sim.now())))
}

/// Returns the state of both ends of an unreleased connection after everything is done.
fn infos(sim: &mut Sim, ids: [SessionId; 2], bytes: u64) -> [Info; 2] {
    let done = |sim: &Sim| ids.iter().map(|id| sim.find(*id).map_or(0, |s| s.read)).sum::<u64>() == bytes;
    assert!(sim.run(Span::from_secs(600), done));
    // Wait for the last acknowledgments.
    sim.run_for(Span::from_secs(1));
    ids.map(|id| info(sim, id).expect("nobody let go"))
}

struct Run {
    logs: [Vec<u8>; 2],
    trace: u64,
}

/// Runs a connection from the first SYN to the last acknowledgment, with or without logs.
fn run(seed: u64, logs: bool) -> Run {
    let mut sim = Sim::new(lossy(seed));
    let (client, server) = sim.open_at(Time::ZERO + TICK, 0, 1, Plan::bulk(BYTES), Plan::sink());
    let handles = [client, server].map(|id| logs.then(|| sim.qlog(id, Vec::new())));
    assert!(sim.run(Span::from_secs(600), Sim::is_quiet));
    assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
    let logs = handles.map(|handle| handle.map_or(Vec::new(), |handle: Qlog<_>| handle.finish().unwrap()));
    Run { logs, trace: sim.trace() }
}

#[test]
fn a_log_has_every_segment_and_every_loss_of_a_connection() {
    for seed in 1..=5 {
        let mut sim = Sim::new(lossy(seed));
        let plans = [open_ended(BYTES), open_ended(300_000)];
        let (client, server) = sim.open_at(Time::ZERO + TICK, 0, 1, plans[0], plans[1]);
        let logs = [client, server].map(|id| sim.qlog(id, Vec::new()));
        let infos = infos(&mut sim, [client, server], BYTES + 300_000);
        // The SYN that opens a connection is counted by the listener, not by the connection.
        for ((log, info), uncounted) in logs.into_iter().zip(infos).zip([0, 1]) {
            let log = records(log.finish().unwrap());
            let started = named(&log, "connection_started")[0];
            assert_eq!(started["segments_before"]["sent"], 0);
            assert_eq!(started["segments_before"]["received"], 0);
            let (sent, received) = (named(&log, "segment_sent"), named(&log, "segment_received"));
            assert_eq!((sent.len() as u64, received.len() as u64), (info.segments_out, info.segments_in + uncounted));
            assert_eq!(sum(&sent, payload), info.bytes_sent);
            let counted = info.bytes_received + info.duplicate_bytes_in;
            // A segment dropped by PAWS is not counted as a duplicate and not accepted, so the log may have more bytes
            // than the counters.
            assert!(sum(&received, payload) == counted || info.paws_dropped > 0 && sum(&received, payload) > counted);
            let repeated: Vec<_> = sent.iter().copied().filter(|segment| segment["retransmission"] == true).collect();
            assert_eq!(sum(&repeated, payload), info.bytes_retransmitted);
            assert_eq!(sum(&named(&log, "segment_lost"), |loss| &loss["lost_bytes"]), info.bytes_lost);
            let spurious = named(&log, "spurious_loss_detected");
            assert_eq!(sum(&spurious, |event| &event["episodes"]), info.spurious_recoveries);
            let metrics = named(&log, "recovery_metrics_updated");
            let newest = |field: &str| metrics.iter().rev().find_map(|m| m[field].as_u64());
            assert_eq!(newest("congestion_window"), Some(info.cwnd.0));
            assert_eq!(newest("retransmitted_bytes"), Some(info.bytes_retransmitted));
            assert!(info.bytes_lost > 0, "nothing is shown without a loss");
        }
    }
}

#[test]
fn one_seed_gives_one_log_and_a_log_changes_nothing() {
    let first = run(7, true);
    assert!(first.logs == run(7, true).logs);
    assert!(first.logs != run(8, true).logs);
    assert_eq!(first.trace, run(7, false).trace);
}

#[test]
fn logs_tell_the_connections_story_in_virtual_time() {
    let [client, server] = run(1, true).logs.map(records);
    for (log, role) in [(&client, "client"), (&server, "server")] {
        let trace = &log[0]["trace"];
        // draft-ietf-quic-qlog-main-schema: the epoch of a monotonic clock is unknown.
        let reference = &trace["common_fields"]["reference_time"];
        assert_eq!((&reference["clock_type"], &reference["epoch"]), (&"monotonic".into(), &"unknown".into()));
        assert_eq!(trace["vantage_point"]["type"], role);
        assert_eq!(trace["common_fields"]["group_id"], client[0]["trace"]["common_fields"]["group_id"]);
        let times: Vec<f64> = log[1..].iter().map(|record| record["time"].as_f64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] == 1.0, "{times:?}");
        assert_eq!(named(log, "connection_state_updated")[0]["new"], "established");
        assert_eq!(log.last().unwrap()["name"], "tcp:connection_closed");
        let closed = named(log, "connection_closed");
        assert_eq!((closed.len(), &closed[0]["trigger"]), (1, &"clean".into()));
    }
    let states = |log: &[Value]| -> Vec<_> {
        let events = named(log, "connection_state_updated");
        events.iter().map(|event| event["new"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(states(&client), ["established", "fin-wait-1", "fin-wait-2", "time-wait"]);
    assert_eq!(states(&server), ["established", "close-wait", "last-ack", "closed"]);
    let ends = |log: &[Value]| named(log, "connection_started")[0].clone();
    assert_eq!(ends(&client)["local"], ends(&server)["remote"]);
    assert_eq!(ends(&client)["remote"], ends(&server)["local"]);
    assert_eq!(flags(named(&client, "segment_sent")[0])[0], "syn");
    assert_eq!(flags(named(&server, "segment_received")[0])[0], "syn");
}

/// Records when each host sent something, and the sizes.
#[derive(Default)]
struct Watch([Vec<(f64, u64)>; 2]);

impl Tap for Watch {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        if let Sighting::Sent(host) = sighting {
            self.0[host].push((now.as_nanos() as f64 / 1e6, packet.payload_len() as u64));
        }
    }
}

/// Times are relative to the host's clock, which has an offset, and sizes are right even for a stream of zeros that is
/// not stored.
#[test]
fn times_and_sizes_are_those_of_the_network() {
    let mut setup = lossy(3);
    setup.hosts[0].clock_ahead = Span::from_secs(1_000_000);
    let mut sim = Sim::new(setup);
    let watch = Rc::new(RefCell::new(Watch::default()));
    sim.add_tap(Rc::clone(&watch));
    let (client, server) = sim.open_at(Time::ZERO + TICK, 0, 1, open_ended(BYTES).zeros(), open_ended(0).zeros());
    let logs = [client, server].map(|id| sim.qlog(id, Vec::new()));
    infos(&mut sim, [client, server], BYTES);
    for (log, seen) in logs.into_iter().zip(&watch.borrow().0) {
        let log = records(log.finish().unwrap());
        let sent = log.iter().filter(|record| record["name"] == "tcp:segment_sent");
        let told = sent.map(|record| {
            let header = &record["data"]["header"];
            // The header length is that of TCP, which is 8 bytes longer than the datagram's.
            let len = header["header_length"].as_u64().unwrap() - 8 + header["payload_length"].as_u64().unwrap();
            (record["time"].as_f64().unwrap(), len)
        });
        assert_eq!(told.collect::<Vec<_>>(), *seen);
    }
}

#[test]
fn a_connection_under_way_is_logged_from_then_on() {
    let mut sim = Sim::new(lossy(1));
    let (client, server) = sim.open(open_ended(BYTES), open_ended(0));
    let later = sim.qlog(server, Vec::new());
    assert!(!sim.run(Span::from_millis(200), Sim::all_done));
    let before = info(&sim, client).unwrap();
    assert!(before.segments_out > 1);
    let log = sim.qlog(client, Vec::new());
    let [after, _] = infos(&mut sim, [client, server], BYTES);
    let log = records(log.finish().unwrap());
    let started = named(&log, "connection_started")[0];
    assert_eq!(started["segments_before"]["sent"], before.segments_out);
    assert_eq!(started["segments_before"]["received"], before.segments_in);
    assert_eq!(named(&log, "segment_sent").len() as u64, after.segments_out - before.segments_out);
    assert_eq!(log[0]["trace"]["vantage_point"]["type"], "client");
    assert!(log[1]["time"].as_f64().unwrap() >= 200.0);
    let later = records(later.finish().unwrap());
    assert_eq!(flags(named(&later, "segment_received")[0])[0], "syn");
}

#[test]
fn a_connection_that_nobody_answers_leaves_a_log_that_says_so() {
    let silent = LinkConfig::new(Rate::from_bits_per_sec(10_000_000), Span::from_millis(20)).loss(Loss::Uniform(1.0));
    let mut sim = Sim::new(Setup::symmetric(1, silent));
    let (client, server) = sim.open(Plan::bulk(1), Plan::sink());
    let logs = [client, server].map(|id| sim.qlog(id, Vec::new()));
    sim.run_for(Span::from_secs(3600));
    let error = sim.session(client).error.expect("nobody answered");
    let [client, server] = logs.map(|log| log.finish().unwrap());
    let client = records(client);
    assert_eq!(named(&client, "connection_closed")[0]["trigger"], error.to_string());
    assert!(server.is_empty(), "it had no connection");
}

/// Many concurrent connections, some from one host: each log has only the segments of its own connection.
#[test]
fn each_connection_has_its_own_log() {
    let mut sim = Sim::new(lossy(5));
    let pairs: Vec<_> = (1..=8).map(|n| sim.open(Plan::bulk(n * 10_000), Plan::sink())).collect();
    let logs: Vec<_> = pairs.iter().map(|(_, server)| sim.qlog(*server, Vec::new())).collect();
    assert!(sim.run(Span::from_secs(600), Sim::is_quiet));
    for (n, log) in (1..).zip(logs) {
        let log = records(log.finish().unwrap());
        let received = named(&log, "segment_received");
        assert!(sum(&received, payload) >= n * 10_000);
        let first = received[0]["header"]["sequence_number"].as_u64().unwrap() as u32;
        let end = |s: &&Value| s["header"]["sequence_number"].as_u64().unwrap() + payload(s).as_u64().unwrap();
        // The sequence space consists of the SYN, the stream and the FIN.
        assert!(received.iter().all(|s| (end(s) as u32).wrapping_sub(first) as u64 <= n * 10_000 + 2));
    }
}
