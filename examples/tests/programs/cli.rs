//! `send` and `receive` as users run them, in two processes; and `quickstart`, which contains both.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use longhaul_cli::files::TempDir;
use serde_json::Value;

use crate::child::{Process, complaint, listening};
use crate::common::receive;

struct Receiver {
    process: Process,
    address: String,
}

impl Receiver {
    fn start(out: &Path, options: &[&str]) -> Self {
        let mut command = receive("127.0.0.1:0", out, options);
        let (process, address) = listening(command.arg("--once").stdout(Stdio::piped()).spawn().unwrap());
        Self { process, address }
    }

    /// Waits for the receiver to end; returns its exit code, standard output, and standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.process.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.process.said.read_to_string(&mut err).unwrap();
        (self.process.child.wait().unwrap().code(), out, err)
    }
}

fn send(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_send")).args(arguments).output().unwrap()
}

struct Scene {
    directory: TempDir,
    out: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let directory = TempDir::create().unwrap();
        let out = directory.path().join("out");
        fs::create_dir(&out).unwrap();
        Self { directory, out }
    }

    fn file(&self, name: &str, len: usize) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, (0..len).map(|i| ((i * i) >> 7) as u8).collect::<Vec<_>>()).unwrap();
        path.into_os_string().into_string().unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.out).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Creates a sparse file that takes longer to send than it takes to end a process.
    fn large_file(&self) -> String {
        let file = self.file("file", 0);
        fs::File::options().write(true).open(&file).unwrap().set_len(1 << 30).unwrap();
        file
    }

    /// Waits until part of a file has been written to the directory for unfinished files.
    fn wait_for_a_part(&self) {
        let read = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_part = |path: PathBuf| path.metadata().is_ok_and(|data| data.is_file() && data.len() > 0);
        while !read(&self.out).flat_map(|path| read(&path)).any(is_part) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn files_travel_and_both_ends_report_them() {
    let scene = Scene::new();
    let files = [scene.file("one", 3_000_000), scene.file("none", 0)];
    let capture = scene.directory.path().join("capture.pcap");
    let receiver = Receiver::start(&scene.out, &["--json"]);
    let pcap = capture.to_str().unwrap();
    let sent = send(&[&receiver.address, &files[0], &files[1], "--json", "--pcap", pcap, "--congestion", "new-reno"]);
    let (code, received, stderr) = receiver.end();
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(code, Some(0), "{stderr}");

    let stdout = String::from_utf8(sent.stdout).unwrap();
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    for (line, file) in lines.iter().zip(&files) {
        let contents = fs::read(file).unwrap();
        assert_eq!(line["file"], **file);
        assert_eq!(line["bytes"], contents.len());
        assert_eq!(line["blake3"], blake3::hash(&contents).to_hex().as_str());
        assert_eq!(line["congestion"], "new-reno");
        assert!(line["seconds"].as_f64().unwrap() > 0.0);
        assert!(line["goodput_bps"].is_f64() && line["retransmitted_bytes"].is_u64() && line["rtt_min_us"].is_u64());
        for limit in ["app", "cwnd", "pacing", "peer_window", "send_buffer", "cpu"] {
            assert!(line["limited_by"][limit].as_f64().unwrap() >= 0.0, "{line}");
        }
        let name = Path::new(file).file_name().unwrap();
        assert!(fs::read(scene.out.join(name)).unwrap() == contents);
    }
    let received: Vec<Value> = received.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(received[0]["file"], "one");
    assert_eq!(received[0]["blake3"], lines[0]["blake3"]);
    assert_eq!(scene.names().len(), 2);
    // The magic number of classic pcap with nanosecond timestamps.
    assert!(fs::read(&capture).unwrap().starts_with(&0xa1b2_3c4d_u32.to_ne_bytes()));
}

/// The command line has precedence over the environment, and a single file over a directory.
#[test]
fn logs_go_where_the_environment_says() {
    let scene = Scene::new();
    let file = scene.file("file", 100_000);
    let place = |name: &str| scene.directory.path().join(name);
    let (one, dir, told) = (place("one.sqlog"), place("dir"), place("told"));
    let run = |options: &[&str], environment: &[(&str, &Path)]| {
        let receiver = Receiver::start(&scene.out, &["--overwrite"]);
        let mut sender = Command::new(env!("CARGO_BIN_EXE_send"));
        sender.args([&receiver.address, &file]).args(options).envs(environment.iter().copied());
        assert!(sender.output().unwrap().status.success());
        assert_eq!(receiver.end().0, Some(0));
    };
    let logs = |dir: &Path| fs::read_dir(dir).map_or(0, |entries| entries.count());
    run(&[], &[("QLOGFILE", &one), ("QLOGDIR", &dir)]);
    // The log is complete, although the process ended at once.
    let log = fs::read_to_string(&one).unwrap();
    assert!(log.starts_with('\x1e') && log.ends_with('\n') && log.contains("tcp:connection_closed"), "{log}");
    assert_eq!(logs(&dir), 0);
    run(&[], &[("QLOGDIR", &dir)]);
    assert_eq!(logs(&dir), 1);
    run(&["--qlog", told.to_str().unwrap()], &[("QLOGFILE", &one), ("QLOGDIR", &dir)]);
    assert_eq!((logs(&told), logs(&dir)), (1, 1));
    assert_eq!(fs::read_to_string(&one).unwrap(), log);
}

/// A run uses what an earlier one learnt about a path.
#[test]
fn paths_are_remembered() {
    let scene = Scene::new();
    let file = scene.file("file", 3_000_000);
    let memory = scene.directory.path().join("paths");
    let text = || fs::read_to_string(&memory).unwrap();
    let run = || {
        let receiver = Receiver::start(&scene.out, &["--overwrite"]);
        let options = ["--congestion", "careful-resume+cubic", "--path-cache", memory.to_str().unwrap()];
        assert!(send(&[&[receiver.address.as_str(), &file], options.as_slice()].concat()).status.success());
        assert_eq!(receiver.end().0, Some(0));
        text()
    };
    for text in [run(), run()] {
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[1].starts_with("127.0.0.1 careful-resume"), "{text}");
    }
    fs::write(&memory, text().replacen("127.0.0.1", "nobody", 1)).unwrap();
    let damaged = send(&["127.0.0.1:9", &file, "--path-cache", memory.to_str().unwrap()]);
    assert_eq!(damaged.status.code(), Some(2));
    let damaged = String::from_utf8(damaged.stderr).unwrap();
    assert!(damaged.contains("line 2: the first word is not an IP address"), "{damaged}");
}

#[test]
fn failures_are_reported() {
    let scene = Scene::new();
    let file = scene.file("file", 1);
    let missing = complaint(&send(&["127.0.0.1:7000", "/nonexistent/file"]));
    assert!(missing.starts_with("send: cannot open /nonexistent/file: "), "{missing}");
    let address = complaint(&send(&["nowhere", &file]));
    assert!(address.starts_with("send: \"nowhere\" is not an address (HOST:PORT): "), "{address}");
    // The discard port, which is closed.
    let refused = complaint(&send(&["127.0.0.1:9", &file]));
    assert_eq!(refused, "send: cannot connect to 127.0.0.1:9: connection refused");
    let directory = complaint(&send(&["127.0.0.1:9", scene.out.to_str().unwrap()]));
    assert!(directory.ends_with("is not a regular file"), "{directory}");
    let unknown = send(&["127.0.0.1:9", &file, "--congestion", "warp"]);
    assert_eq!(unknown.status.code(), Some(2));
    let unknown = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(unknown.contains("`warp`") && unknown.contains("there are cubic, "), "{unknown}");
    assert_eq!(send(&[]).status.code(), Some(2));
}

/// An interrupted program resets its connection, over a link that has not delivered all queued data. The peer notices
/// at once instead of waiting for its timeout.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupted_program_says_so_to_its_peer() {
    use longhaul_link::spec::LinkOptions;
    use longhaul_linkem::relay::{Options, Running};
    let mut link = LinkOptions::new();
    link.read(&["--rate", "20mbit", "--rtt", "100ms", "--queue", "1000p"]).unwrap();
    let link = link.build(|file| Err(file.to_owned())).unwrap();
    // Repeated, because the outcome depends on what the sender is doing at that moment.
    for sender_ends in [true, true, true, true, true, false] {
        let scene = Scene::new();
        let patience = ["--timeout", "600"];
        let receiver = Receiver::start(&scene.out, &patience);
        let options = Options::new("127.0.0.1:0".parse().unwrap(), receiver.address.parse().unwrap());
        let relay = Running::start(&options, &link, longhaul_linkem::log::Logs::default()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_send"));
        let command = command.args([&relay.local_addr().to_string(), &scene.large_file()]).args(patience);
        let sender = command.stderr(Stdio::piped()).spawn().unwrap();
        scene.wait_for_a_part();
        let ended = if sender_ends { sender.id() } else { receiver.process.child.id() };
        assert!(Command::new("kill").args(["-INT", &ended.to_string()]).status().unwrap().success());
        let sent = complaint(&sender.wait_with_output().unwrap());
        let (code, _, received) = receiver.end();
        assert_eq!(code, Some(1));
        let (ended, peer) =
            if sender_ends { (sent.as_str(), received.as_str()) } else { (received.as_str(), sent.as_str()) };
        assert!(ended.trim_end().ends_with(": interrupted"), "{ended}");
        assert!(peer.trim_end().ends_with("connection reset by peer"), "{peer}");
        assert!(scene.names().is_empty());
        relay.stop().unwrap();
    }
}

#[test]
fn access_is_reported_and_can_be_limited() {
    let scene = Scene::new();
    let warns = |options: &[&str]| {
        let mut command = receive("0.0.0.0:0", &scene.out, options);
        let (mut process, address) = listening(command.arg("--once").spawn().unwrap());
        let port = address.rsplit(':').next().unwrap();
        let sent = send(&[&format!("127.0.0.1:{port}"), &scene.file("file", 1)]);
        assert!(sent.status.success(), "{sent:?}");
        let mut said = String::new();
        process.said.read_to_string(&mut said).unwrap();
        said.contains("warning: whoever reaches this port can write files to")
    };
    assert!(warns(&["--overwrite"]));
    assert!(!warns(&["--overwrite", "--allow", "127.0.0.0/8"]));
    assert_eq!(scene.names(), ["file"]);

    let mut receiver = Receiver::start(&scene.out, &["--allow", "192.0.2.0/24", "--allow", "::1"]);
    let refused = complaint(&send(&[&receiver.address, &scene.file("other", 1)]));
    assert!(refused.ends_with("connection reset by peer"), "{refused}");
    // The refused connection does not count: with `--once` the receiver still waits.
    assert_eq!(receiver.process.child.try_wait().unwrap(), None);
    assert!(!scene.out.join("other").exists());
}

#[tokio::test]
async fn connections_of_an_address_are_limited_and_strangers_make_room() {
    let scene = Scene::new();
    let mut command = receive("127.0.0.1:0", &scene.out, &["--max-per-address", "2", "--timeout", "600"]);
    let (_process, address) = listening(command.spawn().unwrap());
    let address: std::net::SocketAddr = address.parse().unwrap();
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(longhaul::TcpStream::connect(address).await.unwrap());
    }
    let file = scene.file("file", 100_000);
    let sent = send(&[&address.to_string(), &file]);
    assert!(sent.status.success(), "{sent:?}");
    // Connections that have sent the magic bytes keep their places.
    let mut senders = Vec::new();
    for _ in 0..2 {
        let mut stream = longhaul::TcpStream::connect(address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, &longhaul_cli::protocol::MAGIC).await.unwrap();
        senders.push(stream);
    }
    // The greeting of the second connection may not have arrived yet.
    loop {
        let refused = send(&[&address.to_string(), &file]);
        let refused = complaint(&refused);
        if refused.ends_with("connection reset by peer") {
            break;
        }
        assert!(refused.ends_with("it exists already"), "{refused}");
    }
    drop(silent);
}

/// As with `send --congestion list
/// head -1`.
#[test]
fn a_list_closed_early_is_not_a_failure() {
    for (program, options) in [
        (env!("CARGO_BIN_EXE_send"), ["--congestion", "list"]),
        (env!("CARGO_BIN_EXE_receive"), ["--congestion", "list"]),
        (env!("CARGO_BIN_EXE_quickstart"), ["-C", "list"]),
        (env!("CARGO_BIN_EXE_quickstart"), ["--link", "list"]),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(program).args(options).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
            (Some(0), ""),
            "{program}"
        );
    }
}

#[test]
fn the_registry_is_listed() {
    let list = send(&["--congestion", "list"]);
    assert!(list.status.success());
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains("cubic") && list.contains("RFC 9438"), "{list}");
}

#[test]
fn an_existing_file_is_refused_on_both_ends_unless_told_otherwise() {
    let scene = Scene::new();
    let file = scene.file("file", 1_000_000);
    fs::write(scene.out.join("file"), "old").unwrap();
    let receiver = Receiver::start(&scene.out, &[]);
    let refused = complaint(&send(&[&receiver.address, &file]));
    assert_eq!(refused, "send: the receiver refused file: it exists already");
    let (code, _, stderr) = receiver.end();
    assert_eq!(code, Some(1));
    assert!(stderr.contains("file exists already (receive with --overwrite to replace it)"), "{stderr}");
    assert_eq!(fs::read(scene.out.join("file")).unwrap(), b"old");

    let receiver = Receiver::start(&scene.out, &["--overwrite"]);
    assert!(send(&[&receiver.address, &file]).status.success());
    assert_eq!(receiver.end().0, Some(0));
    assert_eq!(fs::read(scene.out.join("file")).unwrap(), fs::read(&file).unwrap());
}

fn quickstart(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quickstart"));
    let output = command.args(arguments).env_remove("QLOGFILE").env_remove("QLOGDIR").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
#[cfg(target_os = "linux")]
fn two_controllers_stand_side_by_side() {
    let scene = Scene::new();
    let file = scene.file("file", 1_000_000);
    let capture = scene.directory.path().join("capture.pcap");
    let pcap = ["--pcap", capture.to_str().unwrap()];
    let link = "--rate-down 100mbit --rate-up 1mbit --rtt 20ms --queue 1000p --loss-list-down 20";
    // Controllers that are not safe on shared networks are allowed here.
    let controllers = "new-reno,hybla";
    let (code, out, err) = quickstart(&[&["--link", link, "-C", controllers, &file][..], &pcap].concat());
    assert_eq!(code, Some(0), "{err}");
    let cells = |name: &str| -> Vec<String> {
        let line = out.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {out}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(cells("     ").len(), 3, "{out}");
    assert_eq!(cells("     ")[0], "new-reno");
    assert_eq!(cells("hashes"), ["match", "match"]);
    assert_eq!(cells("packets lost"), ["1", "1"]);
    // 690 full packets of 1500 bytes and one of 932 take 82.9 ms at 100 Mbit/s in the forward direction; the
    // handshake and the one-way delay take 30 ms.
    assert_eq!(cells("time")[2], "0.11 s");
    let times: Vec<f64> = cells("time").iter().map(|time| time.trim_end_matches(" s").parse().unwrap()).collect();
    assert!(times[0] > times[2] && times[1] > times[2], "{out}");
    assert!(capture.exists() && scene.directory.path().join("capture-2.pcap").exists());
}

#[test]
fn quickstart_does_without_a_link() {
    let scene = Scene::new();
    let file = scene.file("file", 1_000_000);
    let (code, out, err) = quickstart(&["--link", "none", &file]);
    assert_eq!(code, Some(0), "{err}");
    assert!(
        out.contains("bytes       1000000") && out.contains("(cubic)") && out.contains("the hashes match"),
        "{out}"
    );
    let (code, out, _) = quickstart(&["--link", "list"]);
    assert!(code == Some(0) && out.lines().any(|line| line.starts_with("geo ")), "{out}");
    let (code, out, _) = quickstart(&["-C", "list"]);
    assert!(code == Some(0) && out.contains("RFC 9438"), "{out}");
}

#[test]
fn quickstart_reports_failures() {
    let faults: [(&[&str], i32, &str); 7] = [
        (&["--link", "moon"], 2, "there is no scenario \"moon\"; the scenarios are nasa-20mbit-500ms"),
        (&["--link", "geo --rate 0mbit"], 2, "the rate is 0"),
        (&["--link", "geo --speed 1"], 2, "there is no option --speed"),
        (&["--link", "--rate 1mbit --trace x"], 2, "exclude each other"),
        (&["-C", "cubic,warp"], 2, "`warp`"),
        (&["--speed"], 2, "unexpected argument"),
        (&["/nonexistent/file"], 1, "quickstart: cannot open /nonexistent/file: "),
    ];
    for (arguments, code, told) in faults {
        let (ended, out, err) = quickstart(arguments);
        assert_eq!((ended, out.as_str()), (Some(code), ""), "{arguments:?}: {err}");
        assert!(err.contains(told), "{arguments:?}: {err}");
    }
    // Without an emulated link the network counts as shared.
    let (code, _, err) = quickstart(&["--link", "none", "-C", "hybla", "/etc/passwd"]);
    assert!(code == Some(1) && err.contains("hybla"), "{err}");
}

/// A killed process sends nothing to its peer, because its TCP stack ends with it.
fn kill_one(victim_sends: bool) {
    let scene = Scene::new();
    let file = scene.large_file();
    let patience = ["--timeout", "2"];
    let mut receiver = Receiver::start(&scene.out, &patience);
    let mut command = Command::new(env!("CARGO_BIN_EXE_send"));
    let mut sender = command.args([&receiver.address, &file]).args(patience).stderr(Stdio::piped()).spawn().unwrap();
    scene.wait_for_a_part();
    if victim_sends {
        sender.kill().unwrap();
        let (code, _, stderr) = receiver.end();
        assert_eq!(code, Some(1));
        assert!(stderr.contains("receiving file failed after "), "{stderr}");
        assert!(stderr.trim_end().ends_with("connection timed out"), "{stderr}");
        assert!(scene.names().is_empty());
        sender.wait().unwrap();
    } else {
        receiver.process.child.kill().unwrap();
        let complaint = complaint(&sender.wait_with_output().unwrap());
        assert!(complaint.starts_with("send: sending file failed after "), "{complaint}");
        assert!(complaint.ends_with("the peer's host reports that the port is closed"), "{complaint}");
        assert!(!scene.out.join("file").exists());
        receiver.end();
        // The next receiver removes the killed one's leftovers.
        assert_eq!(scene.names().len(), 1);
        drop(Receiver::start(&scene.out, &[]));
        let receiver = Receiver::start(&scene.out, &[]);
        assert!(send(&[&receiver.address, &scene.file("small", 1)]).status.success());
        assert_eq!(receiver.end().0, Some(0));
        assert_eq!(scene.names(), ["small"]);
    }
}

#[test]
fn a_killed_sender_is_noticed() {
    kill_one(true);
}

#[test]
fn a_killed_receiver_is_noticed() {
    kill_one(false);
}
