//! Captures, checked with tshark and tcptrace.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use longhaul::{TcpListener, TcpSocket, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A file for this process under the target directory. It is removed when dropped, unless the test has failed.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(dir).unwrap();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(dir.join(format!("{}-{number}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Returns the output of `program`, or `None` if it is not installed.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    if !needs::program(program) {
        return None;
    }
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Transfers `bytes` in each direction. Returns the captures of both sides, which are complete when the runtime has ended, and
/// the number of retransmitted bytes.
async fn transfer(address: &str, bytes: usize) -> ([Scratch; 2], u64) {
    let address = address.to_owned();
    let run = move || tokio::runtime::Runtime::new().unwrap().block_on(transfer_within(&address, bytes));
    tokio::task::spawn_blocking(run).await.unwrap()
}

async fn transfer_within(address: &str, bytes: usize) -> ([Scratch; 2], u64) {
    let files = [Scratch::new("client.pcap"), Scratch::new("server.pcap")];
    let address = address.parse().unwrap();
    let socket =
        || if matches!(address, std::net::SocketAddr::V4(_)) { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let server = socket().unwrap();
    server.set_pcap(&files[1].0).unwrap();
    server.bind(address).unwrap();
    let listener: TcpListener = server.listen(16).unwrap();
    let client = socket().unwrap();
    client.set_pcap(&files[0].0).unwrap();
    let to = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(client.connect(to), listener.accept());
    let (client, (server, _)) = (client.unwrap(), server.unwrap());
    let both = tokio::join!(tokio::spawn(exchange(client, bytes)), tokio::spawn(exchange(server, bytes)));
    drop(listener);
    (files, both.0.unwrap() + both.1.unwrap())
}

/// Returns the number of retransmitted bytes.
async fn exchange(stream: TcpStream, bytes: usize) -> u64 {
    let (mut reader, mut writer) = stream.into_split();
    let send = async move {
        writer.write_all(&vec![0x5a; bytes]).await.unwrap();
        writer.shutdown().await.unwrap();
        writer
    };
    let receive = async move {
        let mut got = Vec::new();
        reader.read_to_end(&mut got).await.unwrap();
        assert_eq!(got.len(), bytes);
        reader
    };
    let (writer, reader) = tokio::join!(send, receive);
    let stream = writer.reunite(reader).unwrap();
    // The FIN may be retransmitted, too.
    stream.closed().await.unwrap();
    stream.info().unwrap().bytes_retrans
}

/// Returns the frames in which tshark finds faults, one per line. Effects of a full receive buffer are not faults.
fn complaints(file: &Path) -> Option<String> {
    const FAULTS: [&str; 7] = [
        "retransmission",
        "fast_retransmission",
        "spurious_retransmission",
        "out_of_order",
        "lost_segment",
        "ack_lost_segment",
        "duplicate_ack",
    ];
    let mut filter = "tcp.checksum.status == 0 || ip.checksum.status == 0 || _ws.malformed".to_owned();
    FAULTS.iter().for_each(|fault| filter += &format!(" || tcp.analysis.{fault}"));
    let file = file.to_str().unwrap();
    let found = output_of(
        "tshark",
        &["-n", "-r", file, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y", &filter],
    )?;
    let requests = output_of("tshark", &["-n", "-r", file, "-Y", "tcp.flags.ack == 1 && tcp.len == 0"])?;
    let requests: Vec<_> = requests.lines().filter(|line| requests_frequency(line)).filter_map(frame).collect();
    Some(found.lines().filter(|line| !belongs_to_request(line, &requests)).collect())
}

/// Returns whether a line of tshark is an ACK that requests an ACK frequency (TARR).
fn requests_frequency(line: &str) -> bool {
    line.contains(" TARR=")
}

fn frame(line: &str) -> Option<u32> {
    line.split_whitespace().next()?.parse().ok()
}

/// Returns whether what looks like a duplicate ACK is there because of a request for an ACK frequency
/// (`docs/wire.md`, "ACK rate"). A request acknowledges what has arrived. It repeats the last ACK, or one ACK that was due
/// when the request was sent follows it and repeats it: only that one has room for arrival times.
fn belongs_to_request(line: &str, requests: &[u32]) -> bool {
    let Some((_, original)) = line.split_once("[TCP Dup ACK ") else { return false };
    let follows_request = || {
        let repeated = original.split_once("#1]").and_then(|(number, _)| number.parse().ok());
        repeated.is_some_and(|number| requests.contains(&number))
    };
    requests_frequency(line) || follows_request()
}

async fn reads_clean(address: &str) {
    let (files, retransmitted) = transfer(address, 2 << 20).await;
    // On a busy machine, acknowledgments may come so late that a sender rightly probes.
    if !needs::quiet_machine(retransmitted == 0) {
        return;
    }
    let found: Vec<String> = files.iter().filter_map(|file| complaints(&file.0)).collect();
    assert!(found.iter().all(String::is_empty), "{found:?} in {files:?}");
    files.iter().for_each(|file| is_one_whole_connection(&file.0));
}

fn is_one_whole_connection(file: &Path) {
    let path = file.to_str().unwrap();
    if let Some(ends) = output_of("tshark", &["-n", "-r", path, "-Y", "tcp.flags.syn == 1 || tcp.flags.fin == 1"]) {
        assert_eq!(ends.lines().count(), 4, "two SYNs and two FINs:\n{ends}");
    }
    let Some(report) = output_of("tcptrace", &["-n", "-l", path]) else { return };
    assert!(report.contains("1 TCP connection traced"), "{report}");
    assert!(report.contains("complete conn: yes"), "{report}");
    let numbers = |what: &str| -> Vec<u64> {
        let line = report.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what} in {report}"));
        line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    for fault in ["rexmt data pkts:", "outoforder pkts:"] {
        assert_eq!(numbers(fault), [0, 0], "{fault} {report}");
    }
    assert_eq!(numbers("actual data bytes:"), [2 << 20, 2 << 20]);
    // tcptrace counts a segment sent just when the window closes as a window probe, and so its data as missing.
    assert_eq!(numbers("missed data:"), numbers("zwnd probe bytes:"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tshark_and_tcptrace_find_no_faults() {
    reads_clean("127.0.0.1:0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tshark_and_tcptrace_find_no_faults_over_ipv6() {
    reads_clean("[::1]:0").await;
}

/// `/dev/full` fails every write.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_stops_the_capture_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    assert!(socket.set_pcap("/dev/full").is_err(), "an unwritable file is reported at once");
    assert!(socket.set_pcap("/nonexistent/file").is_err());
    let (client, server) = tokio::join!(socket.connect(listener.local_addr().unwrap()), listener.accept());
    let (mut client, mut server) = (client.unwrap(), server.unwrap().0);
    client.write_all(b"still here").await.unwrap();
    client.shutdown().await.unwrap();
    let mut text = String::new();
    server.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "still here");
}
