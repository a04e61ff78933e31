//! Lists of keys that are reloaded on SIGHUP.
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::forward::{echo, exchange, is_reset, listen};
use crate::machine::{Machine, Receiver, failed};

/// Replaces the list of a machine, and sends SIGHUP to its program.
fn replace(machine: &Machine, program: &mut Receiver, list: &str) {
    fs::write(machine.data("allowed-peers"), list).unwrap();
    program.signal("-HUP");
}

/// Waits until the list has been reloaded and a connection has ended because of that. Different tasks report the two
/// events, in either order. Returns the line about the list.
fn wait_for_reading_and_reset(program: &mut Receiver) -> String {
    let (mut read, mut reset) = (None, false);
    loop {
        let line = program.wait_for("");
        reset |= line.contains("the key is not allowed any more");
        if line.contains("read anew") {
            read = Some(line);
        }
        if let Some(line) = read.take_if(|_| reset) {
            return line;
        }
    }
}

#[test]
fn a_forwarder_that_is_removed_loses_its_tunnels_and_one_that_is_added_may_connect() {
    let (listener, target) = listen();
    echo(listener);
    let target = target.to_string();
    let (there, here, other) = (Machine::new(), Machine::new(), Machine::new());
    let [one, two] = [&here, &other].map(|machine| format!("{} machine forward\n", machine.key()));
    there.key();
    fs::write(there.data("allowed-peers"), &one).unwrap();
    let mut gateway = there.gateway(&["--permit", &target]);
    let local = format!("0:{target}");
    let forward = here.forward(&gateway.address, &["-L", &local]);
    let mut client = TcpStream::connect(&forward.address).unwrap();
    let mut passes = || {
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
    };
    passes();
    let refused = || failed(&other.run(&["forward", "--accept-new", "-L", &local, &gateway.address]), 1);
    assert!(refused().contains("does not allow this machine to forward"));
    // Both keys are listed.
    replace(&there, &mut gateway, &format!("{one}{two}"));
    assert!(gateway.wait_for("read anew").contains("2 keys may forward"));
    passes();
    let second = other.forward(&gateway.address, &["-L", &local]);
    // An invalid list changes nothing.
    replace(&there, &mut gateway, "nonsense\n");
    gateway.wait_for("the list that was read before stays in force");
    passes();
    // One key has lost the permission.
    replace(&there, &mut gateway, &format!("{two}{}", one.replace(" forward", " send")));
    assert!(wait_for_reading_and_reset(&mut gateway).contains("1 key may forward"));
    assert!(is_reset(&mut client));
    assert_eq!(exchange(TcpStream::connect(&second.address).unwrap(), b"stays"), b"stays");
}

/// The sender waits for standard input when its key is removed.
#[test]
fn a_sender_that_is_removed_loses_its_connection() {
    let (there, here) = (Machine::new(), Machine::new());
    there.key();
    fs::write(there.data("allowed-peers"), format!("{} ship send\n", here.key())).unwrap();
    let mut receiver = there.receive(&[]);
    let mut command = here.command(&["send", "--accept-new", "--retry", "0", &receiver.address, "-"]);
    command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut sender = command.spawn().unwrap();
    let mut input = sender.stdin.take().unwrap();
    input.write_all(&[7; 1 << 20]).unwrap();
    // The connection has been accepted once the file exists.
    while !fs::read_dir(there.path("out")).unwrap().any(|_| true) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    replace(&there, &mut receiver, "# nobody\n");
    wait_for_reading_and_reset(&mut receiver);
    let _ = input.write_all(&[7; 1 << 20]);
    drop(input);
    assert!(!sender.wait_with_output().unwrap().status.success());
}
