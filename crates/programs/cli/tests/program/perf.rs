//! `perf` as its users run it: a server and its clients, over loopback.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::process::{Process, complaint, program};

/// A running server, killed when dropped.
pub(crate) struct Server {
    process: Process,
    pub(crate) port: String,
}

pub(crate) fn perf(arguments: &[&str]) -> Command {
    let mut command = program("perf");
    command.args(arguments).env_remove("QLOGFILE").env_remove("QLOGDIR");
    command
}

impl Server {
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut command = perf(&["-s", "-p", "0"]);
        let mut child = command.args(options).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut process = Process::new(child, stdout);
        let port = process.wait_for("Server listening on ").split_whitespace().next().unwrap().to_owned();
        Self { process, port }
    }

    fn client(&self, options: &str) -> Command {
        let mut command = perf(&["-c", "127.0.0.1", "-p", &self.port]);
        command.args(options.split_whitespace());
        command
    }

    /// Waits for the server to end; returns its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.process.child.wait().unwrap().code()
    }
}

/// Runs tests concurrently, each with its own server; returns the outputs of the clients.
fn run<const N: usize>(tests: [&str; N]) -> [Output; N] {
    let running = tests.map(|options| {
        let server = Server::start(&["-1"]);
        let client = server.client(options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        (server, client)
    });
    running.map(|(server, client)| {
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(server.end(), Some(0));
        output
    })
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the value at a path such as `end.streams.0.sender`.
fn at<'a>(report: &'a Value, path: &str) -> &'a Value {
    let pointer = format!("/{}", path.replace('.', "/"));
    report.pointer(&pointer).unwrap_or_else(|| panic!("no {path} in {report:#}"))
}

fn number(report: &Value, path: &str) -> f64 {
    at(report, path).as_f64().unwrap_or_else(|| panic!("{path} is no number"))
}

/// Asserts that each word of `fields` exists under `path`.
fn assert_fields(report: &Value, path: &str, fields: &str) {
    for field in fields.split_whitespace() {
        assert!(!at(report, &format!("{path}.{field}")).is_null(), "{path}.{field}");
    }
}

const FIGURES: &str = "start end seconds bytes bits_per_second sender";

/// Asserts that a report has the fields that every report of iperf 3.12 has.
fn assert_common_fields(report: &Value) {
    assert_fields(report, "start", "connected version system_info cookie target_bitrate sock_bufsize");
    assert_fields(
        report,
        "start",
        "sndbuf_actual rcvbuf_actual timestamp.time timestamp.timesecs timestamp.timemillisecs fq_rate",
    );
    assert_fields(report, "start.connecting_to", "host port");
    assert_fields(report, "start.connected.0", "socket local_host local_port remote_host remote_port");
    let test_start = "protocol num_streams blksize omit duration bytes blocks reverse tos target_bitrate";
    assert_fields(report, "start.test_start", test_start);
    assert_fields(report, "intervals.0.streams.0", &format!("socket omitted {FIGURES}"));
    assert_fields(report, "intervals.0.sum", &format!("omitted {FIGURES}"));
    assert_fields(report, "end.sum_sent", FIGURES);
    assert_fields(report, "end.sum_received", FIGURES);
    let cpu = "host_total host_user host_system remote_total remote_user remote_system";
    assert_fields(report, "end.cpu_utilization_percent", cpu);
    // Fields that only longhaul has.
    assert_fields(report, "intervals.0.longhaul", "cpu_percent rss");
    assert_fields(report, "end.longhaul.remote.intervals.0.sum", FIGURES);
    assert_fields(report, "end.longhaul.remote.intervals.0.longhaul", "cpu_percent rss");
}

fn assert_tcp_fields(report: &Value) {
    assert_common_fields(report);
    assert_fields(report, "start", "tcp_mss_default");
    let sender = "retransmits max_snd_cwnd max_snd_wnd max_rtt min_rtt mean_rtt";
    assert_fields(report, "end.streams.0.sender", &format!("socket {sender} {FIGURES}"));
    assert_fields(report, "end.streams.0.receiver", &format!("socket {FIGURES}"));
    assert_fields(report, "end.sum_sent", "retransmits");
    assert_fields(report, "end", "sender_tcp_congestion receiver_tcp_congestion");
    assert_fields(report, "end.streams.0.sender.longhaul", "confirmed congestion rtt.p50 rtt.p99 limited_by.cwnd");
}

/// Asserts that all sent bytes have arrived, and that the intervals add up to the totals.
fn assert_adds_up(report: &Value) {
    for stream in at(report, "end.streams").as_array().unwrap() {
        assert_eq!(at(stream, "sender.bytes"), at(stream, "receiver.bytes"));
    }
    // If a number of bytes is given, one stream may send all of them before the next one runs.
    assert!(number(report, "end.sum_sent.bytes") > 0.0);
    for (interval, total) in [("sum", ""), ("sum_bidir_reverse", "_bidir_reverse")] {
        let Some(sent) = report.pointer(&format!("/end/sum_sent{total}")) else { continue };
        assert_eq!(at(sent, "bytes"), at(report, &format!("end.sum_received{total}.bytes")));
        let intervals = at(report, "intervals").as_array().unwrap().iter();
        let counted = intervals.filter(|interval| !at(interval, "sum.omitted").as_bool().unwrap());
        let sum: f64 = counted.map(|at_time| number(at_time, &format!("{interval}.bytes"))).sum();
        assert_eq!(sum, number(sent, "bytes"));
    }
}

#[test]
fn tcp_in_every_direction() {
    let tests = ["-t 1 -i 0.5 -J", "-t 1 -b 100M -R -C new-reno -J", "-t 1 -b 100M -P 2 --bidir -w 1M -J"];
    let [forward, reverse, both] = run(tests).each_ref().map(json);
    for report in [&forward, &reverse, &both] {
        assert_tcp_fields(report);
        assert_adds_up(report);
        assert!(report.get("error").is_none());
        assert_eq!(at(report, "start.test_start.protocol"), "TCP");
    }
    assert_fields(&forward, "intervals.1.streams.0", "retransmits snd_cwnd snd_wnd rtt rttvar pmtu");
    assert_fields(&forward, "intervals.1.sum", "retransmits");
    assert_fields(&forward, "intervals.1.streams.0.longhaul", "bytes_acked delivery_rate phase limited_by");
    assert_eq!(at(&forward, "end.sender_tcp_congestion"), "copa-cubic");
    assert_eq!(at(&forward, "end.sum_sent.sender"), true);

    assert_eq!(at(&reverse, "end.sum_sent.sender"), false);
    assert_eq!(at(&reverse, "start.test_start.reverse"), 1);
    assert_eq!(at(&reverse, "end.sender_tcp_congestion"), "new-reno");
    // The requested rate is exceeded by at most one block in progress.
    let most = 12.5e6 * number(&reverse, "end.sum_sent.seconds") + 131_072.0;
    assert!(number(&reverse, "end.sum_sent.bytes") <= most);

    assert_fields(&both, "intervals.0.sum_bidir_reverse", FIGURES);
    assert_fields(&both, "end.sum_received_bidir_reverse", FIGURES);
    assert_eq!(at(&both, "end.streams").as_array().unwrap().len(), 4);
    assert_eq!(at(&both, "start.sock_bufsize"), 1 << 20);
    assert!(number(&both, "end.streams.0.sender.max_snd_wnd") <= f64::from(1 << 20));
}

#[test]
fn a_number_of_bytes_is_sent_to_the_byte_and_what_is_omitted_does_not_count() {
    let [bytes, omitted] = run(["-n 3000001 -P 2 -J", "-t 1 -O 1 -b 20M -i 0.5 -J"]).each_ref().map(json);
    assert_adds_up(&bytes);
    assert_eq!(at(&bytes, "end.sum_sent.bytes"), 3_000_001);
    assert_eq!(at(&bytes, "end.sum_received.bytes"), 3_000_001);
    assert_eq!(at(&bytes, "start.test_start.bytes"), 3_000_001);

    assert_eq!(at(&omitted, "intervals.0.sum.omitted"), true);
    let intervals = at(&omitted, "intervals").as_array().unwrap().iter();
    let counted: Vec<_> = intervals.filter(|interval| at(interval, "sum.omitted") == false).collect();
    assert_eq!(at(counted[0], "sum.start"), 0.0);
    let sum: f64 = counted.iter().map(|interval| number(interval, "sum.bytes")).sum();
    assert_eq!(number(&omitted, "end.sum_sent.bytes"), sum);
    // About as many bytes again were sent in the omitted time.
    assert!(sum < 2.5e6 * number(&omitted, "end.sum_sent.seconds") + 1e6, "{sum}");
}

#[test]
fn udp_loses_nothing_on_loopback() {
    let tests = ["-u -b 10M -t 1 -J", "-u -b 10M --poisson --seed 3 -t 1 -R -J", "-u -n 100000 -b 5M -P 2 --bidir -J"];
    let [constant, poisson, both] = run(tests).each_ref().map(json);
    for report in [&constant, &poisson, &both] {
        assert_common_fields(report);
        let udp = "jitter_ms lost_packets packets lost_percent";
        assert_fields(report, "end.streams.0.udp", &format!("socket out_of_order {udp} {FIGURES}"));
        for sum in ["sum", "sum_sent", "sum_received"] {
            assert_fields(report, &format!("end.{sum}"), &format!("{udp} {FIGURES}"));
        }
        assert_eq!(at(report, "end.sum.lost_packets"), 0);
        assert_eq!(at(report, "end.sum_sent.bytes"), at(report, "end.sum_received.bytes"));
        assert_eq!(at(report, "end.sum_sent.packets"), at(report, "end.sum_received.packets"));
        assert_eq!(at(report, "start.test_start.protocol"), "UDP");
    }
    assert_fields(&constant, "intervals.0.streams.0", "packets");
    assert_fields(&poisson, "intervals.0.streams.0", "packets jitter_ms lost_packets lost_percent");
    // With equal intervals, 1400-byte datagrams at 10 Mbit/s have 893 departures per second.
    assert!(number(&constant, "end.sum_sent.packets") <= 893.0);
    // The bound is five standard deviations above the mean.
    let departures = number(&poisson, "end.sum_sent.packets");
    assert!(departures < 893.0 + 5.0 * 893_f64.sqrt(), "{departures}");
    for sum in ["sum_sent", "sum_received", "sum_sent_bidir_reverse", "sum_received_bidir_reverse"] {
        assert_eq!(number(&both, &format!("end.{sum}.bytes")), 100_000.0);
    }
}

/// Tests that need a second port of the server pass a relay with a second listener.
#[test]
#[cfg(target_os = "linux")]
fn second_ports_pass_a_relay() {
    use longhaul_link::spec::Direction;
    use longhaul_linkem::relay::Options;
    use std::net::{SocketAddr, UdpSocket};
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let data = free.local_addr().unwrap().port();
    drop(free);
    let server = Server::start(&["-B", "127.0.0.1", "--data-port", &data.to_string()]);
    // The client learns only the port, and assumes the server's address: the relay listens on a port with the same
    // number.
    let pair = |port: u16| [2, 1].map(|host| SocketAddr::from(([127, 0, 0, host], port)));
    let ([listen, to], [data_listen, data_to]) = (pair(server.port.parse().unwrap()), pair(data));
    let options = Options::new(listen, to).and(data_listen, data_to);
    let relay = crate::relay::start("--rate 100mbit --rtt 20ms --queue 1000p", &options);
    let run = |options: &str| {
        let mut client = perf(&["-c", "127.0.0.2", "-p", &server.port, "-J"]);
        let output = client.args(options.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        json(&output)
    };
    let udp = run("-u -b 10M -n 140K -l 1400");
    assert_eq!(number(&udp, "end.sum.lost_packets"), 0.0);
    let tcp = run("-R -n 1M -C new-reno");
    assert_eq!(number(&tcp, "end.sum_received.bytes"), f64::from(1 << 20));
    let (engine, counts) = relay.stop().unwrap();
    // Each test has a control connection and a stream.
    assert_eq!((counts.clients, counts.missed, counts.unsent), (4, 0, 0));
    assert!(engine.stats(Direction::Up).delivered_bytes > 140 << 10);
    assert!(engine.stats(Direction::Down).delivered_bytes > 1 << 20);
}

/// Returns the lines of a report with `#` instead of numbers, and without spaces, brackets and unit prefixes.
fn shape(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let word = |word: &str| match word {
        number if number.starts_with(|c: char| c.is_ascii_digit()) => "#".to_owned(),
        word => word.trim_start_matches(['K', 'M', 'G']).to_owned(),
    };
    let words =
        |line: &str| line.replace(['[', ']', '(', ')', '%'], " ").split_whitespace().map(word).collect::<Vec<_>>();
    text.lines().map(|line| words(line).join(" ")).collect()
}

#[test]
fn text_has_iperf3s_lines() {
    let [tcp, udp] = run(["-t 1 -b 100M -P 2 --bidir", "-u -b 1M -t 1 -R"]);
    let text = String::from_utf8_lossy(&tcp.stdout).into_owned();
    assert!(text.contains("\n[ ID][Role] Interval           Transfer     Bitrate         Retr  Cwnd\n"), "{text}");
    assert!(text.contains("\n[  5][TX-C]   0.00-"), "{text}");
    let [tcp, udp] = [&tcp, &udp].map(shape);
    for line in [
        "ID Role Interval Transfer Bitrate Retr Cwnd",
        "# TX-C # sec # Bytes # bits/sec # # Bytes",
        "# RX-C # sec # Bytes # bits/sec",
        "SUM TX-C # sec # Bytes # bits/sec #",
        "- - - - - - - - - - - - - - - - - - - - - - - - -",
        "ID Role Interval Transfer Bitrate Retr",
        "# TX-C # sec # Bytes # bits/sec # sender",
        "# TX-C # sec # Bytes # bits/sec receiver",
        "SUM RX-C # sec # Bytes # bits/sec receiver",
        "iperf Done.",
    ] {
        assert!(tcp.iter().any(|have| have == line), "{line}\nis not in\n{}", tcp.join("\n"));
    }
    for line in [
        "Reverse mode, remote host # is sending",
        "# local # port # connected to # port #",
        "ID Interval Transfer Bitrate Jitter Lost/Total Datagrams",
        "# # sec # Bytes # bits/sec # ms # #",
        "# # sec # Bytes # bits/sec # ms # # receiver",
    ] {
        assert!(udp.iter().any(|have| have == line), "{line}\nis not in\n{}", udp.join("\n"));
    }
}

#[test]
fn failures_say_why() {
    // This port was free a moment ago.
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let refused = perf(&["-c", "127.0.0.1", "-p", &free]).output().unwrap();
    assert_eq!(complaint(&refused), "longhaul perf: error - unable to connect to server: connection refused");
    let refused = perf(&["-c", "127.0.0.1", "-p", &free, "-J"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(at(&json(&refused), "error"), "unable to connect to server: connection refused");
    assert!(at(&json(&refused), "intervals").as_array().unwrap().is_empty());
    assert!(at(&json(&refused), "end").as_object().unwrap().is_empty());
    let unknown = perf(&["-c", "no.such.host.invalid"]).output().unwrap();
    assert!(complaint(&unknown).contains("unable to resolve \"no.such.host.invalid\""));
    let family = perf(&["-c", "127.0.0.1", "-6"]).output().unwrap();
    assert!(complaint(&family).contains("no address of the selected family"));
    let controller = perf(&["-c", "127.0.0.1", "-C", "nonsense"]).output().unwrap();
    assert_eq!(controller.status.code(), Some(2));
    let said = String::from_utf8_lossy(&controller.stderr).into_owned();
    assert!(said.contains("unknown congestion control `nonsense`; there are cubic"), "{said}");
    for contradiction in
        [&["-s", "-c", "x"][..], &["-c", "x", "-t", "1", "-n", "1"], &["-c", "x", "-R", "--bidir"], &[]]
    {
        assert_eq!(perf(contradiction).output().unwrap().status.code(), Some(2), "{contradiction:?}");
    }
    let list = perf(&["-C", "help"]).output().unwrap();
    assert!(list.status.success() && String::from_utf8_lossy(&list.stdout).contains("cubic"));
}

/// The options of the server determine which congestion control is allowed on it.
#[test]
fn a_server_refuses_what_is_not_safe_unless_told_otherwise() {
    let client = "-R -n 100K -C scalable --allow-unsafe-congestion";
    let server = Server::start(&["-1"]);
    let refused = server.client(client).output().unwrap();
    assert!(complaint(&refused).contains("`scalable` is not safe on a network shared with others"), "{refused:?}");
    assert_eq!(server.end(), Some(1));
    let server = Server::start(&["-1", "--allow-unsafe-congestion"]);
    let output = server.client(client).args(["-J"]).output().unwrap();
    assert_eq!(at(&json(&output), "end.sender_tcp_congestion"), "scalable");
    assert_eq!(server.end(), Some(0));
}

/// Start-up schemes, and their measurement, need a first flight that consists of data only, from either sender. The
/// round-trip time of the link is long compared with the time that a busy machine takes to send the flight.
#[test]
#[cfg(target_os = "linux")]
fn start_up_schemes_use_the_first_flight_or_report_why_not() {
    let server = Server::start(&["-B", "127.0.0.1", "-C", "jump-start+cubic"]);
    let to = format!("127.0.0.1:{}", server.port).parse().unwrap();
    let relay = crate::relay::relay("--rate 100mbit --rtt 400ms --queue 1000p", to);
    let port = relay.local_addr().port().to_string();
    let run = |options: &str| {
        let mut client = perf(&["-c", "127.0.0.1", "-p", &port]);
        let output = client.args(options.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output
    };
    for options in [
        "-n 500K -C jump-start+cubic -J",
        "-n 500K -C jump-start+cubic -R -J",
        "-n 500K -C swift-start-hardened+cubic -J",
        "-n 500K -J",
    ] {
        let report = json(&run(options));
        assert_eq!(at(&report, "end.streams.0.sender.longhaul.startup"), "used", "{options}: {report}");
    }
    let given_up = |options: &str| {
        let text = String::from_utf8(run(options).stdout).unwrap();
        text.contains("start-up scheme given up: the first acknowledgement came before")
    };
    assert!(given_up("-n 1K -C jump-start+cubic -V") && !given_up("-n 1K -C jump-start+cubic"));
    relay.stop().unwrap();
}

#[test]
fn each_stream_has_a_capture() {
    let directory = tempfile::TempDir::new().unwrap();
    let [first, second] = ["x.pcap", "x-2.pcap"].map(|name| directory.path().join(name));
    let server = Server::start(&["-1"]);
    let output = server.client("-n 200K -P 2 --pcap").arg(&first).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for file in [first, second] {
        // The magic number of classic pcap with nanosecond timestamps.
        assert!(std::fs::read(&file).unwrap().starts_with(&0xa1b2_3c4d_u32.to_ne_bytes()), "{}", file.display());
    }
}

#[test]
fn one_test_at_a_time() {
    let mut server = Server::start(&[]);
    let mut first = server.client("-t 60 -b 1M").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    server.process.wait_for("Accepted connection");
    let second = server.client("-t 1").output().unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(complaint(&second), "longhaul perf: error - the server is busy running a test. try again later");
}

/// Writes `bytes` to a server and reads until the server has ended. Returns the answer and the connection, which is not
/// closed yet.
async fn intrude(port: u16, bytes: Vec<u8>) -> (Vec<u8>, longhaul::TcpStream) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = longhaul::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    let mut said = Vec::new();
    // A reset is an acceptable end.
    let _ = stream.read_to_end(&mut said).await;
    (said, stream)
}

fn message(json: &str) -> Vec<u8> {
    [&(json.len() as u32).to_be_bytes()[..], json.as_bytes()].concat()
}

/// Returns the hello of a control connection, or of a stream.
fn hello(stream: &str) -> Vec<u8> {
    message(&format!(r#"{{"name":"longhaul-perf-2","cookie":"{}","stream":{stream}}}"#, "a".repeat(36)))
}

/// Returns a control connection's hello and its request for a test.
fn request(streams: u32) -> Vec<u8> {
    let what = r#""direction":"Forward","seconds":1,"bytes":null,"omit":0,"length":1000,"rate":0,"burst":1"#;
    let rest = r#""poisson":false,"seed":1,"interval":1.0,"congestion":null,"window":null,"mss":null,"tos":0"#;
    let rest = format!(r#"{rest},"server_output":false"#);
    let params = message(&format!(r#"{{"Params":{{"protocol":"Tcp","streams":{streams},{what},{rest}}}}}"#));
    [hello("null"), params].concat()
}

#[tokio::test]
async fn a_server_survives_its_clients() {
    let server = Server::start(&["--timeout", "1"]);
    let port = server.port.parse().unwrap();
    // Peers that are not clients: another protocol, a message that is too long, a message that is not a hello, and a
    // stream of no test.
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![255; 2000], message("{}"), hello("7")] {
        assert!(intrude(port, bytes).await.0.is_empty());
    }
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[0; 100], ("127.0.0.1", port)).unwrap();
    // Faulty clients: an invalid message after the hello, an impossible test, and streams that never connect.
    assert!(intrude(port, [hello("null"), message("[]")].concat()).await.0.is_empty());
    // The refused client does not close its connection; the next one is served nevertheless.
    let (said, _refused) = intrude(port, request(1000)).await;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("Refused") && said.contains("streams"), "{said}");
    let (said, _) = intrude(port, request(1)).await;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("Accepted"), "{said}");
    let output = server.client("-n 100K").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A server for one test ends even if a refused client does not close its connection.
#[tokio::test]
async fn a_refused_client_does_not_keep_a_server_for_one_test() {
    let server = Server::start(&["-1", "--timeout", "1"]);
    let port = server.port.parse().unwrap();
    let (said, _refused) = intrude(port, request(1000)).await;
    assert!(String::from_utf8_lossy(&said).contains("Refused"));
    assert_eq!(server.end(), Some(1));
    let again = longhaul::TcpStream::connect(("127.0.0.1", port)).await;
    assert_eq!(again.map(drop).map_err(|error| error.kind()), Err(std::io::ErrorKind::ConnectionRefused));
}

/// During a test, 32 clients that do not close are told that the server is busy. Further clients are reset until one of
/// these has closed.
#[tokio::test]
async fn a_server_tells_32_clients_at_a_time_that_it_is_busy() {
    let mut server = Server::start(&[]);
    let port = server.port.parse().unwrap();
    let mut first = server.client("-t 60 -b 1M").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    server.process.wait_for("Accepted connection");
    let is_told = async || {
        let (said, stream) = intrude(port, request(1)).await;
        (String::from_utf8_lossy(&said).contains("the server is busy"), stream)
    };
    let mut held = Vec::new();
    for number in 1..=32 {
        let (told, stream) = is_told().await;
        assert!(told, "{number}");
        held.push(stream);
    }
    assert!(!is_told().await.0);
    held.clear();
    while !is_told().await.0 {}
    first.kill().unwrap();
    first.wait().unwrap();
}

/// Reflection attack: a control connection requests datagrams, and `Knock` messages with a forged source address direct
/// them there.
#[tokio::test]
async fn a_server_sends_datagrams_only_to_addresses_that_answer() {
    use longhaul_cli::perf::protocol::{self, Challenge, Direction, Hello, Knock, Message, Params, Protocol};
    use std::net::{SocketAddr, UdpSocket};
    let server = Server::start(&[]);
    let address: SocketAddr = format!("127.0.0.1:{}", server.port).parse().unwrap();
    let mut control = longhaul::TcpStream::connect(address).await.unwrap();
    let cookie = protocol::new_cookie().unwrap();
    let (protocol, direction) = (Protocol::Udp, Direction::Reverse);
    let params = Params { protocol, direction, seconds: 60.0, length: 1400, rate: 10_000_000, ..Params::default() };
    protocol::write(&mut control, &Hello::new(&cookie, None)).await.unwrap();
    protocol::write(&mut control, &Message::Params(params)).await.unwrap();
    let Message::Accepted(ports) = protocol::read(&mut control).await.unwrap() else { panic!("it was refused") };
    let door = SocketAddr::new(address.ip(), ports[0]);
    let open = |address: &str| {
        let socket = UdpSocket::bind(address).unwrap();
        socket.connect(door).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let (victim, silent, client) = (open("127.0.0.2:0"), open("127.0.0.1:0"), open("127.0.0.1:0"));
    let hello = Hello::new(&cookie, Some(0));
    let knock = |nonce: Option<String>| serde_json::to_vec(&Knock { hello: hello.clone(), nonce }).unwrap();
    let mut buffer = [0; 2000];
    let mut nonce = None;
    // The server has processed all of these messages once it has answered the last one.
    for _ in 0..10 {
        let known = std::mem::take(&mut nonce);
        for socket in [&victim, &silent] {
            socket.send(&knock(known.clone())).unwrap();
        }
        client.send(&knock(None)).unwrap();
        let length = loop {
            match client.recv(&mut buffer) {
                Ok(length) => break length,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(1)).await,
            }
        };
        assert!(length <= knock(None).len(), "{length}");
        nonce = Some(serde_json::from_slice::<Challenge>(&buffer[..length]).unwrap().nonce);
    }
    // Nothing is sent to the address of another host. Another port of this host receives no more than it sent.
    assert!(victim.recv(&mut buffer).is_err());
    let drawn: usize = std::iter::from_fn(|| silent.recv(&mut buffer).ok()).sum();
    assert!(drawn <= 10 * knock(None).len(), "{drawn}");
    client.send(&knock(nonce)).unwrap();
    assert_eq!(protocol::read(&mut control).await.unwrap(), Message::Start);
    let datagram = loop {
        match client.recv(&mut buffer) {
            Ok(length) => break length,
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(1)).await,
        }
    };
    assert_eq!(datagram, 1400);
    assert!(victim.recv(&mut buffer).is_err() && silent.recv(&mut buffer).is_err());
}

/// Silent connections would be evicted only after 30 s, but the client waits for a shorter time.
#[tokio::test]
async fn silent_connections_do_not_delay_clients() {
    use longhaul_cli::perf::protocol;
    let server = Server::start(&[]);
    let port = server.port.parse().unwrap();
    let mut strangers = Vec::new();
    for number in 0..300 {
        let mut stranger = longhaul::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        if number % 3 == 0 {
            // A client that requests no test does not occupy the server.
            let hello = protocol::Hello::new(&protocol::new_cookie().unwrap(), None);
            protocol::write(&mut stranger, &hello).await.unwrap();
        }
        strangers.push(stranger);
    }
    let output = server.client("-n 100K --timeout 5").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_server_has_limits() {
    let server = Server::start(&[]);
    for (options, limit) in [
        ("-u -b 0 -t 1", "the server allows 100 Mbits/sec in all: -b (--max-rate)"),
        ("-t 3601", "the server allows 3600 s (--max-time)"),
        ("-P 65 --bidir -t 1", "the server allows 128 streams (--max-streams)"),
    ] {
        let refused = server.client(options).output().unwrap();
        assert_eq!(complaint(&refused), format!("longhaul perf: error - {limit}"));
    }
    // The server's limit ends a test without a duration.
    let server = Server::start(&["--max-time", "1"]);
    let output = server.client("-t 0 -b 1M -J").output().unwrap();
    assert_adds_up(&json(&output));
}

#[test]
#[cfg(unix)]
fn a_client_without_a_duration_ends_in_order_when_interrupted() {
    for options in ["-t 0 -b 10M --bidir", "-t 0 -u -R", "-n 1G -b 1M"] {
        let server = Server::start(&["-1"]);
        let mut client = server.client(options).arg("--json-stream").stdout(Stdio::piped()).spawn().unwrap();
        let pid = client.id().to_string();
        let stdout = client.stdout.take().unwrap();
        let mut client = Process::new(client, stdout);
        client.wait_for(r#"{"event":"interval","#);
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        client.wait_for(r#"{"event":"end","#);
        assert_eq!(client.child.wait().unwrap().code(), Some(0));
        assert_eq!(server.end(), Some(0));
    }
}

#[test]
fn reports_go_where_they_are_wanted() {
    let directory = tempfile::TempDir::new().unwrap();
    let log = directory.path().join("log");
    let [stream, text] = run(["-t 0.3 -i 0.1 --json-stream", "-n 1M -P 2 --get-server-output -N -Z -S 0x20 -M 600"]);
    let events: Vec<Value> =
        String::from_utf8(stream.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(at(&events[0], "event"), "start");
    assert_fields(&events[0], "data", "connected version test_start.num_streams");
    assert_eq!(number(&events[0], "data.test_start.duration"), 0.3);
    assert_fields(&events[1], "data.sum", FIGURES);
    assert_eq!(at(events.last().unwrap(), "event"), "end");
    assert_fields(events.last().unwrap(), "data.sum_received", FIGURES);
    assert!(events.len() >= 4);
    let text = String::from_utf8(text.stdout).unwrap();
    let (_, server) = text.split_once("\nServer output:\n").unwrap();
    assert!(server.contains("Accepted connection from 127.0.0.1") && server.contains("receiver"), "{text}");

    let server = Server::start(&["-1"]);
    let output = server.client("-n 1M -J --get-server-output --logfile").arg(&log).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let report: Value = serde_json::from_slice(&std::fs::read(&log).unwrap()).unwrap();
    assert!(at(&report, "server_output_text").as_str().unwrap().contains("Accepted connection"));
    assert_tcp_fields(&report);
}

/// Returns whether the process that was started with this port leads its session (proc_pid_stat(5), field 6).
#[cfg(target_os = "linux")]
fn leads_a_session(port: &str) -> bool {
    std::thread::sleep(std::time::Duration::from_millis(10));
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let read = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        let session = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(3));
        read("cmdline").split('\0').any(|word| word == port) && session == entry.file_name().to_str()
    })
}

#[test]
fn a_server_may_be_in_the_background() {
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    assert!(perf(&["-s", "-D", "-1", "-p", &port]).output().unwrap().status.success());
    #[cfg(target_os = "linux")]
    assert!((0..200).any(|_| leads_a_session(&port)), "it would end with the terminal");
    // The server may take a moment until it listens.
    let served =
        (0..200).any(|_| perf(&["-c", "127.0.0.1", "-p", &port, "-n", "1"]).output().unwrap().status.success());
    assert!(served);
}

/// iperf3 listens on the same port number, over the system's TCP.
#[test]
fn another_program_at_the_other_end_is_recognised() {
    let iperf3 = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = iperf3.local_addr().unwrap().port().to_string();
    let refused = complaint(&perf(&["-c", "127.0.0.1", "-p", &port]).output().unwrap());
    assert!(refused.contains("as iperf3 does: perf needs `perf -s` on 127.0.0.1"), "{refused}");
}
