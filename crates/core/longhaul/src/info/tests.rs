//! Checks that every field of a snapshot has the value of the engine's field, in the documented unit.

use longhaul_tcp::{
    AckRateInfo, Config, Endpoint, EndpointConfig, NetworkInfo, PairInfo, ProbeInfo, RecoveryState, SavedPathInfo,
    State, Tuple,
};
use longhaul_units::{Bytes, Rate, Time};
use serde_json::{Value, json};

use super::*;

/// Returns a snapshot of a connection that has only sent its SYN.
fn blank() -> Info {
    let (remote, local) = ("192.0.2.1:7000".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let mut endpoint = Endpoint::new(EndpointConfig::new([1; 32]), Time::ZERO);
    let id = endpoint.connect(Time::ZERO, Tuple { remote, local }, Config::default().into()).unwrap();
    endpoint.connection(id).unwrap().info(Time::ZERO)
}

fn parts(info: &mut Info) {
    let mut pairs = PairInfo::default();
    (pairs.capacity, pairs.converged) = (Some(Rate::from_bytes_per_sec(101)), true);
    (pairs.measured, pairs.coalesced, pairs.dropped) = (102, 103, 104);
    let mut probes = ProbeInfo::default();
    (probes.sent, probes.bytes_sent, probes.acked) = (111, 112, 113);
    (probes.lost, probes.refused, probes.carried_bytes) = (114, 115, 116);
    let mut network = NetworkInfo::default();
    (network.requests, network.granted, network.denied, network.refused) = (121, 122, 123, 124);
    let mut saved = SavedPathInfo::default();
    (saved.used, saved.too_old, saved.other_path, saved.damaged) = (131, 132, 133, 134);
    let mut ack_rate = AckRateInfo::default();
    (ack_rate.ratio, ack_rate.requests, ack_rate.heeded, ack_rate.refused) = (141, 142, 143, 144);
    (info.pairs, info.probes, info.network) = (Some(pairs), Some(probes), Some(network));
    (info.saved_path, info.ack_rate) = (Some(saved), Some(ack_rate));
}

fn expected_parts() -> Value {
    json!({
        "pairs": { "capacity_bytes_per_second": 101, "converged": true, "measured": 102, "coalesced": 103, "dropped": 104 },
        "probes": { "sent": 111, "bytes_sent": 112, "acked": 113, "lost": 114, "refused": 115, "carried_bytes": 116 },
        "network": { "requests": 121, "granted": 122, "denied": 123, "refused": 124 },
        "saved_path": { "used": 131, "too_old": 132, "other_path": 133, "damaged": 134 },
        "ack_rate": { "ratio": 141, "requests": 142, "heeded": 143, "refused": 144 },
    })
}

fn numbers(info: &mut Info) {
    let seconds = |count| Span::from_secs(count);
    (info.state, info.recovery, info.congestion, info.phase) =
        (State::Established, RecoveryState::Recovery, "cubic".to_owned(), "slow-start");
    (info.backoff, info.mss, info.plpmtu, info.unacked_segments) = (1, 1000, 1472, 2);
    (info.rto, info.srtt, info.rttvar) = (seconds(3), Some(seconds(4)), seconds(5));
    (info.latest_rtt, info.min_rtt) = (Some(seconds(6)), Some(seconds(7)));
    (info.cwnd, info.ssthresh, info.in_flight) = (Bytes(8000), Some(Bytes(9000)), Bytes(10));
    (info.peer_window, info.recv_buffer, info.unread, info.unsent) = (Bytes(11), Bytes(12), Bytes(13), Bytes(14));
    info.delivery_rate = Some(Rate::from_bytes_per_sec(15));
    info.pacing_rate = Some(Rate::from_bytes_per_sec(16));
    info.bandwidth = Some(Rate::from_bytes_per_sec(51));
    (info.options.sack, info.options.ecn, info.options.microseconds) = (true, true, true);
    (info.options.timestamps, info.options.wscale) = (false, false);
    (info.bytes_acked, info.bytes_sent, info.bytes_retransmitted, info.bytes_received) = (17, 18, 19, 20);
    (info.bytes_lost, info.duplicate_bytes_in, info.bytes_refused) = (21, 22, 23);
    (info.segments_in, info.segments_out, info.data_segments_out, info.segments_retransmitted) = (24, 25, 26, 27);
    (info.timeouts, info.tail_probes, info.recoveries, info.spurious_recoveries) = (28, 29, 30, 31);
    (info.dsacks, info.challenge_acks, info.paws_dropped, info.windows_shrunk) = (32, 33, 34, 35);
    (info.ce_in, info.echoes_asked, info.echoes_missing) = (36, 37, 38);
    (info.host_error, info.host_errors, info.r1_reached) = (Some(HostError::NetworkDown), 39, true);
    (info.user_timeout, info.peer_user_timeout) = (Some(seconds(40)), Some(seconds(41)));
    info.startup = longhaul_cc::StartupOutcome::GivenUp("it was late");
    (info.arrival_times, info.delivered, info.memory) = (true, 42, 43);
    // In the order of `LimitedBy`: app, cwnd, pacing, peer window, send buffer, cpu.
    info.limited = [1, 2, 4, 8, 16, 32].map(Span::from_secs);
    info.age = Span::from_secs(63);
}

/// Given as text, because it is too long for the `json!` macro.
const EXPECTED_NUMBERS: &str = r#"{
    "state": "ESTABLISHED", "ca_state": "recovery", "congestion": "cubic", "phase": "slow-start",
    "startup": "given-up", "startup_given_up": "it was late",
    "backoff": 1, "snd_mss_bytes": 1000, "pmtu_bytes": 1472, "unacked_segments": 2,
    "rto": 3.0, "rtt": 4.0, "rttvar": 5.0, "latest_rtt": 6.0, "min_rtt": 7.0,
    "snd_cwnd_segments": 8, "snd_cwnd_bytes": 8000, "snd_ssthresh_segments": 9, "snd_ssthresh_bytes": 9000, "in_flight_bytes": 10,
    "snd_wnd_bytes": 11, "rcv_space_bytes": 12, "unread_bytes": 13, "notsent_bytes": 14,
    "bandwidth_bytes_per_second": 51, "delivery_bytes_per_second": 15, "pacing_bytes_per_second": 16, "max_pacing_bytes_per_second": 44,
    "options": { "sack": true, "timestamps": false, "wscale": false, "ecn": true, "microseconds": true },
    "bytes_acked": 17, "bytes_sent": 18, "bytes_retrans": 19, "bytes_received": 20,
    "lost_bytes": 21, "rcv_duplicate_bytes": 22, "rcv_refused_bytes": 23,
    "segs_in": 24, "segs_out": 25, "data_segs_out": 26, "total_retrans": 27,
    "timeouts": 28, "tail_probes": 29, "recoveries": 30, "spurious_recoveries": 31,
    "dsack_dups": 32, "challenge_acks": 33, "paws_dropped": 34, "windows_shrunk": 35,
    "received_ce": 36, "echoes_asked": 37, "echoes_missing": 38,
    "host_error": "network-down", "host_errors": 39, "r1_reached": true,
    "user_timeout": 40.0, "peer_user_timeout": 41.0, "arrival_times": true, "delivered_bytes": 42, "memory_bytes": 43,
    "busy_time": 62.0, "rwnd_limited": 8.0, "sndbuf_limited": 16.0, "age": 63.0,
    "limited_by": {
        "app": 1.0, "cwnd": 2.0, "pacing": 4.0, "peer_window": 8.0, "send_buffer": 16.0, "cpu": 32.0
    },
    "socket": {
        "kernel_drops": 45, "send_faults": 46, "too_long": 47, "read_pauses": 48, "send_buffer_bytes": 49,
        "recv_buffer_bytes": 50
    }
}"#;

#[test]
fn each_field_has_the_value_of_its_source() {
    let mut info = blank();
    numbers(&mut info);
    parts(&mut info);
    let socket = SocketInfo {
        kernel_drops: 45,
        send_faults: 46,
        too_long: 47,
        read_pauses: 48,
        send_buffer_bytes: 49,
        recv_buffer_bytes: 50,
    };
    let public = serde_json::to_value(TcpInfo::new(&info, socket, Some(Rate::from_bytes_per_sec(44)))).unwrap();
    let numbers: Value = serde_json::from_str(EXPECTED_NUMBERS).unwrap();
    let (mut seen, parts) = (public, expected_parts());
    let seen = seen.as_object_mut().unwrap();
    for (name, value) in numbers.as_object().unwrap().iter().chain(parts.as_object().unwrap()) {
        assert_eq!(seen.remove(name).as_ref(), Some(value), "{name}");
    }
    assert!(seen.is_empty(), "unchecked fields: {seen:?}");
}

/// Features that are not in use are absent instead of zero.
#[test]
fn unused_features_are_absent() {
    let public = TcpInfo::new(&blank(), SocketInfo::default(), None);
    let &TcpExperiments { pairs, probes, network, saved_path, ack_rate, .. } = public.experiments();
    assert_eq!((pairs, probes, network, saved_path, ack_rate), (None, None, None, None, None));
    assert_eq!((public.snd_ssthresh_bytes, public.host_error, public.user_timeout), (None, None, None));
}

#[test]
fn the_longest_limit_is_the_one_of_its_field() {
    let second = Duration::from_secs(1);
    for (limit, change) in [
        (SendLimit::App, (|limits| &mut limits.app) as fn(&mut LimitedBy) -> &mut Duration),
        (SendLimit::Cwnd, |limits| &mut limits.cwnd),
        (SendLimit::Pacing, |limits| &mut limits.pacing),
        (SendLimit::PeerWindow, |limits| &mut limits.peer_window),
        (SendLimit::SendBuffer, |limits| &mut limits.send_buffer),
        (SendLimit::Cpu, |limits| &mut limits.cpu),
    ] {
        let mut limits = LimitedBy::default();
        assert_eq!(limits.most(), None);
        *change(&mut limits) = second;
        assert_eq!(limits.most(), Some(limit));
        assert_eq!(serde_json::to_value(limits).unwrap()[limit.name()], 1.0);
    }
}
