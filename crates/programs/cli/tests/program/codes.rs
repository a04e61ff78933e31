//! Transfers between machines that do not know each other's keys, by a one-time code.
use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use crate::machine::{Machine, Receiver, failed, first_word};

pub(crate) fn code(receiver: &mut Receiver) -> String {
    let line = receiver.wait_for("code ");
    let words = line.split("--code ").nth(1).or(line.strip_prefix("The code is ")).unwrap();
    let code = words.split([',', ' ', '\n']).next().unwrap().to_owned();
    assert_eq!(code.split('-').count(), 3, "{line}");
    code
}

#[test]
fn a_code_serves_for_one_transfer_and_leaves_no_trace() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 1_000_000);
    let mut receiver = there.receive(&["--code"]);
    let code = code(&mut receiver);
    let sent = here.run(&["send", "--code", &code.to_uppercase(), &receiver.address, &file]);
    assert!(sent.status.success(), "{sent:?}");
    let address = receiver.address.clone();
    assert_eq!(receiver.end().0, Some(0));
    assert!(fs::read(there.path("out/file")).unwrap() == fs::read(&file).unwrap());
    assert!(!here.data("known-peers").exists() && !there.data("allowed-peers").exists());
    // The receiver has ended, and the code is no longer valid.
    failed(&here.run(&["send", "--code", &code, &address, &file]), 1);
}

/// A second connection, such as one that only learns the key, would have another port.
#[test]
fn a_new_receiver_takes_one_connection() {
    for by_code in [true, false] {
        let (there, here) = (Machine::new(), Machine::new());
        let file = here.file("file", 1000);
        let key = here.key();
        let mut receiver =
            if by_code { there.receive(&["--code"]) } else { there.receive(&["--once", "--allow", &key]) };
        let relay = crate::relay::relay("--rate 100mbit --rtt 1ms --queue 100p", receiver.address.parse().unwrap());
        let option = if by_code { format!("--code={}", code(&mut receiver)) } else { "--accept-new".to_owned() };
        let sent = here.run(&["send", "--retry", "0", &option, &relay.local_addr().to_string(), &file]);
        assert!(sent.status.success(), "{sent:?}");
        assert_eq!(receiver.end().0, Some(0));
        assert_eq!(relay.stop().unwrap().1.clients, 1);
    }
}

/// Other users can see the command line, but not standard input.
#[test]
fn a_code_is_read_from_standard_input() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 1000);
    let mut receiver = there.receive(&["--code"]);
    let code = code(&mut receiver);
    for arguments in
        [&["send", &receiver.address, &file, "--code"][..], &["send", "--code", "-", &receiver.address, &file]]
    {
        let mut command = here.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let text = if arguments.ends_with(&["--code"]) { "4821-harbor\n".to_owned() } else { format!("{code}\n") };
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let sent = child.wait_with_output().unwrap();
        let said = failed(&sent, i32::from(arguments.ends_with(&["--code"])));
        assert_eq!(said.contains("a code has four digits and two words"), !sent.status.success(), "{said}");
    }
    assert_eq!(receiver.end().0, Some(0));
    let both = failed(&here.run(&["send", "192.0.2.1", "-", "--code"]), 2);
    assert!(both.contains("both read standard input"), "{both}");
}

#[test]
fn remembered_keys_are_used_without_a_code() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 1000);
    let mut receiver = there.receive(&["--code", "--remember"]);
    let code = code(&mut receiver);
    let sent = here.run(&["send", "--code", &code, "--remember", &receiver.address, &file]);
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(receiver.end().0, Some(0));
    let allowed = fs::read_to_string(there.data("allowed-peers")).unwrap();
    assert_eq!(allowed, format!("{} 127.0.0.1 send\n", here.key()));
    assert!(fs::read_to_string(here.data("known-peers")).unwrap().contains(&there.key()));
    let receiver = there.receive(&["--overwrite"]);
    assert!(here.send(&receiver, &[&file]).status.success());
}

#[test]
fn three_wrong_codes_end_the_receiver() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 1000);
    let mut receiver = there.receive(&["--code"]);
    let code = code(&mut receiver);
    let digit = if code.starts_with('0') { "1" } else { "0" };
    let wrong = format!("{digit}{}", &code[1..]);
    // A connection of a sender without a code does not count as an attempt.
    failed(&here.send(&receiver, &[&file]), 1);
    for _ in 0..3 {
        let said = failed(&here.run(&["send", "--code", &wrong, &receiver.address, &file]), 1);
        assert!(said.contains("the code is wrong, or somebody intercepts the connection"), "{said}");
    }
    let (exit, said, _) = receiver.end();
    assert_eq!(exit, Some(1));
    assert!(said.contains("too many attempts with a wrong code"), "{said}");
    assert!(there.names().is_empty());
}

#[test]
fn codes_have_a_form_and_a_receiver_that_expects_them() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 1000);
    for wrong in [
        &["send", "--code", "4821-harbor", "192.0.2.1", &file][..],
        &["send", "--code", "4821-harbor-violet", "--plaintext", "192.0.2.1", &file],
        // The word after the option is the code.
        &["send", "--code", "192.0.2.1", &file],
        &["send", "--remember", "192.0.2.1", &file],
        &["receive", "--remember"],
        &["receive", "--code", "--plaintext"],
    ] {
        assert!(!failed(&here.run(wrong), 2).is_empty(), "{wrong:?}");
    }
    let receiver = there.receive(&["--allow", &here.key()]);
    let said = failed(&here.run(&["send", "--code", "4821-harbor-violet", &receiver.address, &file]), 1);
    assert!(said.contains("the receiver does not expect a code"), "{said}");
}

/// A forwarder that knows the code may open further tunnels. If the keys are remembered, it connects later without the
/// code.
#[test]
fn a_code_admits_a_forwarder() {
    let (listener, target) = crate::forward::listen();
    crate::forward::echo(listener);
    let (target, local) = (target.to_string(), format!("0:{target}"));
    for remember in [false, true] {
        let (there, here, other) = (Machine::new(), Machine::new(), Machine::new());
        let option = if remember { &["--remember"][..] } else { &[] };
        let mut gateway = there.gateway(&[&["--permit", &target, "--code"], option].concat());
        let code = code(&mut gateway);
        let wrong = format!("{}{}", if code.starts_with('0') { "1" } else { "0" }, &code[1..]);
        let said = failed(&other.run(&["forward", "-L", &local, "--code", &wrong, &gateway.address]), 1);
        assert!(said.contains("the code is wrong"), "{said}");
        let ports = ["forward", "-L", &local, "-L", "0:127.0.0.1:9"];
        let start = [&ports[..], &["--code", &code, &gateway.address], option].concat();
        let mut forward = here.start(&start).listening();
        let forbidden = first_word(&forward.wait_for(" leads to "));
        let opened: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect(&forward.address).unwrap()).collect();
        for stream in opened {
            assert_eq!(crate::forward::exchange(stream, b"through"), b"through");
        }
        let _refused = std::net::TcpStream::connect(forbidden).unwrap();
        let line = gateway.wait_for("127.0.0.1:9: ");
        assert!(line.contains(" (--code): 127.0.0.1:9: "), "{line}");
        // The code is used up, and strangers are refused again.
        let said = failed(&other.run(&["forward", "-L", &local, "--code", &code, &gateway.address]), 1);
        assert!(!said.contains("the code is wrong"), "{said}");
        let allowed = fs::read_to_string(there.data("allowed-peers")).unwrap_or_default();
        assert_eq!(allowed.contains(&here.key()), remember);
        assert_eq!(here.data("known-peers").exists(), remember);
        if remember {
            drop((forward, gateway));
            let gateway = there.gateway(&["--permit", &target]);
            fs::write(here.data("known-peers"), format!("{} {}\n", gateway.address, there.key())).unwrap();
            forward = here.start(&["forward", "-L", &local, &gateway.address]).listening();
            let stream = std::net::TcpStream::connect(&forward.address).unwrap();
            assert_eq!(crate::forward::exchange(stream, b"again"), b"again");
        }
    }
}

#[test]
fn three_wrong_codes_end_a_gateway_that_allows_nobody() {
    let (there, here) = (Machine::new(), Machine::new());
    let mut gateway = there.gateway(&["--permit", "any", "--code"]);
    let code = code(&mut gateway);
    let wrong = format!("{}{}", if code.starts_with('0') { "1" } else { "0" }, &code[1..]);
    for _ in 0..3 {
        failed(&here.run(&["forward", "-L", "0:h:80", "--code", &wrong, &gateway.address]), 1);
    }
    let (exit, said, _) = gateway.end();
    assert!(exit == Some(1) && said.contains("too many attempts with a wrong code"), "{said}");
}
