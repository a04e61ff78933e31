//! Options of connections, and ends of connections, with plain transfers.
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::machine::{Machine, Receiver};
use crate::process::complaint;
use crate::relay::relay as link_to;
use crate::terminal::Terminal;

fn receive(there: &Machine, options: &[&str]) -> Receiver {
    there.receive(&[&["--plaintext", "--once"], options].concat())
}

fn send(here: &Machine, address: &str, options: &[&str]) -> Command {
    here.command(&[&["send", "--plaintext", "--retry", "0", address], options].concat())
}

fn sent(command: &mut Command, receiver: Receiver) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(receiver.end().0, Some(0));
}

/// The command line has precedence over the environment, and a single file over a directory.
#[test]
fn logs_go_where_the_environment_says() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 100_000);
    let (one, dir, told) = (here.path("one.sqlog"), here.path("dir"), here.path("told"));
    let run = |options: &[&str], environment: &[(&str, &Path)]| {
        let receiver = receive(&there, &["--overwrite"]);
        let mut sender = send(&here, &receiver.address, &[&[file.as_str()], options].concat());
        sent(sender.envs(environment.iter().copied()), receiver);
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
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 3_000_000);
    let memory = here.path("paths");
    let memory = memory.to_str().unwrap();
    let run = || {
        let receiver = receive(&there, &["--overwrite"]);
        let options = [&file, "--congestion", "careful-resume+cubic", "--path-cache", memory];
        sent(&mut send(&here, &receiver.address, &options), receiver);
        fs::read_to_string(memory).unwrap()
    };
    for text in [run(), run()] {
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[1].starts_with("127.0.0.1 careful-resume"), "{text}");
    }
    fs::write(memory, run().replacen("127.0.0.1", "nobody", 1)).unwrap();
    let damaged = send(&here, "127.0.0.1:9", &[&file, "--path-cache", memory]).output().unwrap();
    assert_eq!(damaged.status.code(), Some(2));
    let damaged = String::from_utf8(damaged.stderr).unwrap();
    assert!(damaged.contains("line 2: the first word is not an IP address"), "{damaged}");
}

/// A transfer in progress that takes longer than the end of a process.
struct Running {
    receiver: Receiver,
    sender: Child,
}

/// Starts to send a file to `through(address)`, where `address` is that of the receiver.
fn start(there: &Machine, here: &Machine, patience: &str, through: impl FnOnce(&str) -> String) -> Running {
    let file = here.file("file", 0);
    // Space is allocated, so that the file has no holes to be skipped, although nothing is written to it.
    let contents = fs::File::options().write(true).open(&file).unwrap();
    rustix::fs::fallocate(&contents, rustix::fs::FallocateFlags::empty(), 0, 1 << 30).unwrap();
    let receiver = receive(there, &["--timeout", patience]);
    let address = through(&receiver.address);
    let mut command = send(here, &address, &[&file, "--timeout", patience]);
    let sender = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while crate::resume::unfinished(there) == 0 {
        sleep(Duration::from_millis(2));
    }
    Running { receiver, sender }
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

fn said(output: Output) -> String {
    String::from_utf8(output.stderr).unwrap()
}

/// An interrupted program resets its connection over a link that has not delivered all queued data. The peer notices at
/// once, without waiting for its timeout.
#[test]
fn an_interrupted_program_tells_its_peer() {
    // Repeated, because the outcome depends on what the sender is doing at that moment.
    for sender_ends in [true, true, true, true, true, false] {
        let (there, here) = (Machine::new(), Machine::new());
        let mut relay = None;
        let running = start(&there, &here, "600", |address| {
            // The queue is never full: a reset is sent only once, and if it is lost, the peer waits for its timeout.
            let link = relay.insert(link_to("--rate 100mbit --rtt 10ms --queue 1000000p", address.parse().unwrap()));
            link.local_addr().to_string()
        });
        let Running { receiver, sender } = running;
        let ended = if sender_ends { sender.id() } else { receiver.child.id() };
        assert!(Command::new("kill").args(["-INT", &ended.to_string()]).status().unwrap().success());
        let sent = sender.wait_with_output().unwrap();
        let sent_code = sent.status.code();
        let sent = said(sent);
        let (received_code, received, _) = receiver.end();
        let sides = [(sent_code, last_line(&sent)), (received_code, last_line(&received))];
        let [ended, peer] = if sender_ends { sides } else { [sides[1], sides[0]] };
        assert!(ended.0 == Some(130) && ended.1.ends_with(": interrupted"), "{ended:?}");
        assert!(peer.0 == Some(1) && peer.1.ends_with("connection reset by peer"), "{peer:?}");
        assert!(there.names().is_empty());
        relay.unwrap().stop().unwrap();
    }
}

/// Until the other end answers, a terminal shows whom the program waits for, and an interruption ends the wait.
#[test]
fn a_wait_for_an_answer_is_shown_and_can_be_interrupted() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let (machine, port) = (Machine::new(), address.port().to_string());
    let file = machine.file("file", 1);
    let address = address.to_string();
    let waits = format!("Connecting to {address}");
    let perf = ["perf", "-c", "127.0.0.1", "-p", &port];
    let code = ["send", "--code", "4821-harbor-violet", "--meet", &address, &file];
    for (command, shown) in [
        (&["send", &address, &file][..], waits.as_str()),
        (&code, &waits),
        (&["probe", &address], &waits),
        (&["doctor", &address], &address),
        (&perf, "Connecting to host 127.0.0.1"),
    ] {
        let mut terminal = Terminal::start(&mut machine.command(command), 80);
        terminal.until(shown);
        let signalled = Command::new("kill").args(["-INT", &terminal.child.id().to_string()]).status().unwrap();
        assert!(signalled.success());
        // A wait would end by itself after 15 s, with another message.
        let shown = terminal.end();
        assert!(!shown.contains("timed out") && !shown.contains("does not answer"), "{shown}");
    }
}

/// A killed process sends nothing to its peer, because its TCP stack ends with it.
#[test]
fn a_killed_sender_is_noticed() {
    let (there, here) = (Machine::new(), Machine::new());
    let Running { receiver, mut sender } = start(&there, &here, "2", str::to_owned);
    sender.kill().unwrap();
    sender.wait().unwrap();
    let (code, stderr, _) = receiver.end();
    assert_eq!(code, Some(1));
    assert!(stderr.contains("receiving file failed after "), "{stderr}");
    assert!(stderr.trim_end().ends_with("connection timed out"), "{stderr}");
    assert!(there.names().is_empty());
}

/// A killed receiver sends nothing either, but its kernel rejects the datagrams of the sender.
#[test]
fn a_killed_receiver_is_noticed() {
    let (there, here) = (Machine::new(), Machine::new());
    let Running { mut receiver, sender } = start(&there, &here, "2", str::to_owned);
    receiver.child.kill().unwrap();
    receiver.child.wait().unwrap();
    let complaint = complaint(&sender.wait_with_output().unwrap());
    assert!(complaint.contains("sending file failed after "), "{complaint}");
    assert!(complaint.ends_with("the peer's host reports that the port is closed"), "{complaint}");
    assert!(there.names().is_empty());
}
