//! Standard output and standard error that end before the program does, or that cannot be written.
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::Stdio;

use crate::forward::{close, echo, exchange, is_reset, listen};
use crate::machine::{Machine, failed, first_word, json_lines};
use crate::process::Watchdog;

/// The reader of standard error, to which the library also logs, has exited.
#[test]
fn a_receiver_whose_messages_nobody_reads_confirms_files() {
    let (there, here) = (Machine::new(), Machine::new());
    let mut receiver = there.receive(&["--allow", &here.key(), "-vv"]);
    receiver.stop_reading();
    for name in ["one", "two"] {
        let sent = here.send(&receiver, &[&here.file(name, 100_000), "--json"]);
        assert!(sent.status.success(), "{sent:?}");
        assert_eq!(json_lines(&sent.stdout).len(), 2, "the file and the sum");
    }
    assert_eq!(there.names(), ["one", "two"]);
    // Reloading the list causes a message.
    #[cfg(unix)]
    receiver.signal("-HUP");
    assert!(here.send(&receiver, &[&here.file("three", 1000)]).status.success());
}

/// Each refused connection causes messages, which can no longer be written.
#[test]
fn a_forwarder_whose_messages_nobody_reads_goes_on() {
    let (listener, target) = listen();
    let (other, refusing) = listen();
    echo(listener);
    let _holder = close(other);
    let (there, here) = (Machine::new(), Machine::new());
    let mut gateway = there.gateway(&["--allow", &here.key(), "--permit", "127.0.0.0/8:any"]);
    let ports = ["-L", &format!("0:{refusing}"), "-L", &format!("0:{target}")];
    let mut forward = here.forward(&gateway.address, &ports);
    let works = first_word(&forward.wait_for(" leads to "));
    gateway.stop_reading();
    forward.stop_reading();
    for _ in 0..70 {
        assert!(is_reset(&mut TcpStream::connect(&forward.address).unwrap()));
    }
    assert_eq!(exchange(TcpStream::connect(works).unwrap(), b"still there"), b"still there");
}

#[test]
fn a_reader_that_has_enough_ends_a_program_quietly() {
    let machine = Machine::new();
    for arguments in [
        &["--help"][..],
        &["send", "-C", "list"],
        &["identity"],
        &["completions", "bash"],
        &["man", "send"],
        &["doctor"],
    ] {
        let mut command = machine.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() || arguments == ["doctor"], "{arguments:?}: {output:?}");
    }
}

/// A test of one hour ends when the reader of its intervals exits.
#[test]
fn a_measurement_ends_with_its_reader() {
    let machine = Machine::new();
    let mut server = machine.command(&["perf", "-s", "-p", "0", "-1", "-B", "127.0.0.1"]);
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("Server listening on ") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0);
    }
    let port = line.split_whitespace().nth(3).unwrap();
    // The reader of the server's report has exited, too.
    drop(said);
    let mut client = machine.command(&["perf", "-c", "127.0.0.1", "-p", port, "-t", "3600", "-i", "0.1", "-b", "1M"]);
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _watchdogs = [Watchdog::over(&client), Watchdog::over(&server)];
    drop(client.stdout.take());
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(server.wait().unwrap().success());
}

/// It is a failure if a report cannot be written to the disk, but the files are transferred.
#[cfg(target_os = "linux")]
#[test]
fn reports_to_a_full_disk_are_failures() {
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let (there, here) = (Machine::new(), Machine::new());
    let receiver = there.receive(&["--allow", &here.key()]);
    let file = here.file("file", 1000);
    let mut send = here.command(&["send", "--accept-new", &receiver.address, &file, "--json"]);
    let said = failed(&send.stdout(full()).output().unwrap(), 1);
    assert!(said.contains("cannot write to standard output: No space left"), "{said}");
    assert_eq!(there.names(), ["file"]);
    for arguments in [&["identity"][..], &["send", "-C", "list"], &["doctor"], &["man"]] {
        let said = failed(&here.command(arguments).stdout(full()).output().unwrap(), 1);
        assert!(said.contains("cannot write to standard output: No space left"), "{arguments:?}: {said}");
    }
}

/// Nobody reads the reports for now, and the pipe is full.
#[test]
fn files_arrive_while_their_reports_wait() {
    let (there, here) = (Machine::new(), Machine::new());
    let receiver = there.receive(&["--allow", &here.key(), "--once", "--json"]);
    let _watchdog = Watchdog::over(&receiver.child);
    let files: Vec<_> = (0..800).map(|number| here.file(&number.to_string(), number)).collect();
    let files: Vec<_> = files.iter().map(String::as_str).collect();
    assert!(here.send(&receiver, &files).status.success());
    let (code, _, stdout) = receiver.end();
    assert_eq!((code, json_lines(&stdout).len()), (Some(0), 801));
}
