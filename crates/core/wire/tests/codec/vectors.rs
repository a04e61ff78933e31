//! Test vectors of `docs/wire.md`, which are its fenced blocks marked `vector`, `packet` or `probe`.

use std::collections::BTreeMap;
use std::fmt::Write;

use longhaul_wire::network::{Feedback, Forward, Request};
use longhaul_wire::probe::{Answer, PROBE_LEN, Probe};
use longhaul_wire::shim::{self, IpFields};
use longhaul_wire::{CheshireCodec, Codec, NetworkOption, Options, Segment};

const PAGE: &str = include_str!("../../../../../docs/wire.md");

type Fields<'a> = BTreeMap<&'a str, &'a str>;

fn blocks(kind: &str) -> Vec<Fields<'static>> {
    let opening = format!("```{kind}\n");
    let bodies = PAGE.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let field = |line: &'static str| line.split_once(':').map(|(name, value)| (name, value.trim()));
    bodies
        .map(|body| body.lines().map(|line| field(line).unwrap_or_else(|| panic!("no field: {line}"))).collect())
        .collect()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter(|c| *c != ' ').map(|c| c.to_digit(16).expect("a hex digit")).collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    assert!(rest.is_empty(), "half a byte in {text}");
    pairs.iter().map(|[high, low]| u8::try_from(high << 4 | low).expect("a byte")).collect()
}

fn describe_options(options: &Options) -> String {
    let mut words = Vec::new();
    words.extend(options.mss.map(|mss| format!("mss={mss}")));
    words.extend(options.sack_permitted.then(|| "sack-permitted".to_owned()));
    words.extend(options.timestamps.map(|timestamps| format!("timestamps={}/{}", timestamps.value, timestamps.echo)));
    words.extend(options.window_scale.map(|shift| format!("window-scale={shift}")));
    let sack: Vec<_> = options.sack.iter().map(|block| format!("{}..{}", block.left, block.right)).collect();
    words.extend((!sack.is_empty()).then(|| format!("sack={}", sack.join(","))));
    words.extend(options.probe_echo.map(|echo| format!("probe-echo={}", echo.value)));
    words.extend(options.network.map(|network| format!("network={}", describe_network(network))));
    let arrivals: Vec<_> = options
        .arrivals
        .iter()
        .map(|arrival| format!("{}@{}{}", arrival.seq, arrival.ticks, if arrival.coalesced { "c" } else { "" }))
        .collect();
    words.extend((!arrivals.is_empty()).then(|| format!("arrivals={}", arrivals.join(","))));
    words.extend(options.user_timeout.map(|timeout| format!("user-timeout={}s", timeout.span().as_millis() / 1000)));
    for (is, word) in [
        (options.scaled_window, "scaled-window"),
        (options.microsecond_timestamps, "microsecond-timestamps"),
        (options.arrival_permitted, "arrivals-permitted"),
        (options.probe_permitted, "probes-permitted"),
        (options.network_permitted, "network-permitted"),
        (options.ack_rate_permitted, "ack-rate-permitted"),
    ] {
        words.extend(is.then(|| word.to_owned()));
    }
    words.extend(options.ack_rate.map(|rate| format!("ack-rate={}", rate.segments())));
    words.extend(options.moving.map(|moving| {
        let [value, tag] = [moving.value, moving.tag].map(u64::from_be_bytes);
        format!("{:?}={value}/{}/{tag}", moving.step, moving.counter).to_lowercase()
    }));
    words.join(" ")
}

fn describe_network(network: NetworkOption) -> String {
    let parts = [network.forward.map(describe_forward), network.feedback.map(describe_feedback)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("+")
}

fn describe_forward(forward: Forward) -> String {
    let (name, fields) = match forward.request {
        Request::QuickStart { rate, nonce } => {
            ("quick-start-request", format!("rate={},nonce={}", rate.code(), nonce.get()))
        }
        Request::QuickStartReport { rate, nonce } => {
            ("quick-start-report", format!("rate={},nonce={}", rate.code(), nonce.get()))
        }
        Request::Rcp { rate, rtt_micros } => {
            ("rcp-request", format!("rate={},rtt={rtt_micros}", rate.rate().as_bytes_per_sec()))
        }
        Request::Xcp { throughput, rtt_micros, delta } => {
            let throughput = throughput.rate().as_bytes_per_sec();
            let delta = delta.bytes_per_sec();
            ("xcp-request", format!("throughput={throughput},rtt={rtt_micros},delta={delta}"))
        }
    };
    format!("{name}(ttl={},stamps={},{fields})", forward.ttl, forward.stamps)
}

fn describe_feedback(feedback: Feedback) -> String {
    match feedback {
        Feedback::Denied => "denied".to_owned(),
        Feedback::QuickStart { rate, nonce } => {
            format!("quick-start(rate={},nonce={})", rate.code(), nonce.get())
        }
        Feedback::Rcp { rate } => format!("rcp(rate={})", rate.rate().as_bytes_per_sec()),
        Feedback::Xcp { delta } => format!("xcp(delta={})", delta.bytes_per_sec()),
    }
}

#[test]
fn vectors() {
    let vectors = blocks("vector");
    assert!(vectors.len() > 30, "only {} vectors found", vectors.len());
    for vector in vectors {
        let name = vector["name"];
        let bytes = hex(vector["bytes"]);
        let segment = match Segment::parse::<CheshireCodec>(&bytes) {
            Ok(segment) => segment,
            Err(error) => {
                assert_eq!(Some(error.to_string().as_str()), vector.get("error").copied(), "{name}");
                continue;
            }
        };
        let header = &segment.header;
        let reads = format!(
            "{:?} window={} seq={} ack={} data={}",
            header.flags,
            header.window,
            header.seq,
            header.ack,
            segment.payload.len()
        );
        assert_eq!(Some(reads.as_str()), vector.get("reads").copied(), "{name}");
        assert_eq!(describe_options(&header.options), vector["options"], "{name}");

        let mut out = [0; 52];
        let len = CheshireCodec::emit(header, &mut out).expect("what was read fits");
        let same = &bytes[..bytes.len() - segment.payload.len()];
        let expected = if vector["writes"] == "same" { same.to_vec() } else { hex(vector["writes"]) };
        assert_eq!(to_hex(&out[..len]), to_hex(&expected), "{name}");
    }
}

#[test]
fn packets() {
    let packets = blocks("packet");
    assert!(packets.len() >= 2, "only {} packets found", packets.len());
    for packet in packets {
        let name = packet["name"];
        let bytes = hex(packet["bytes"]);
        let (source, destination) = (packet["from"].parse().expect("from"), packet["to"].parse().expect("to"));
        let ip = IpFields { ttl: packet["ttl"].parse().expect("ttl"), tos: hex(packet["tos"])[0], identification: 0 };
        let mut out = vec![0; bytes.len() + shim::MAX_GROWTH];
        let len = shim::tcp_from_udp(&bytes, source, destination, ip, &mut out).expect(name);
        assert_eq!(to_hex(&out[..len]), to_hex(&hex(packet["packet"])), "{name}");

        let mut back = vec![0; bytes.len()];
        let converted = shim::udp_from_tcp(&out[..len], &mut back).expect(name);
        assert_eq!(converted, shim::FromTcp { source, destination, ip, len: bytes.len() }, "{name}");
        assert_eq!(back, bytes, "{name}");
    }
}

/// Returns the description of a probe or answer, and the bytes that the parsed probe or answer is emitted as.
fn describe_probe(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let fields = |name: &str, probe: &Probe| {
        let Probe { nonce, train, index, sent } = probe;
        format!("{name} nonce={nonce} train={train} index={index} sent={sent}")
    };
    if let Some(probe) = Probe::parse(bytes) {
        let mut out = bytes.to_vec();
        probe.emit(&mut out).expect("as long as what was read");
        return Some((fields("probe", &probe), out));
    }
    let answer = Answer::parse(bytes)?;
    let Answer { probe, arrived, received, ttl, tos, coalesced } = answer;
    let tos = tos.map_or_else(String::new, |tos| format!(" tos={tos}"));
    let coalesced = if coalesced { " coalesced" } else { "" };
    let text = fields("answer", &probe);
    Some((
        format!("{text} arrived={arrived} received={received} ttl={ttl}{tos}{coalesced}"),
        answer.to_bytes().to_vec(),
    ))
}

#[test]
fn probes() {
    let probes = blocks("probe");
    assert!(probes.len() >= 6, "only {} probes found", probes.len());
    for vector in probes {
        let (name, bytes) = (vector["name"], hex(vector["bytes"]));
        let Some((reads, writes)) = describe_probe(&bytes) else {
            assert_eq!(vector["reads"], "nothing", "{name}");
            continue;
        };
        assert_eq!(reads, vector["reads"], "{name}");
        if vector["writes"] == "same" {
            assert_eq!(to_hex(&writes), to_hex(&bytes), "{name}");
        } else {
            assert_eq!(to_hex(&writes[..PROBE_LEN]), to_hex(&hex(vector["writes"])), "{name}");
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().enumerate().fold(String::new(), |mut text, (at, byte)| {
        let space = if at > 0 && at % 4 == 0 { " " } else { "" };
        write!(text, "{space}{byte:02x}").expect("a string grows");
        text
    })
}
