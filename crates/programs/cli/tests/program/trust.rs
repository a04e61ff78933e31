//! Keys that are known, unknown, changed, or not allowed.
use std::fs;
use std::process::{Command, Stdio};

use longhaul_tls::Identity;

use crate::machine::{Machine, failed};

#[test]
fn a_receiver_is_asked_about_once_and_remembered() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 1000);
    let receiver = there.receive(&["--allow", &here.key(), "--overwrite"]);
    let known = here.data("known-peers");
    let send = |options: &[&str]| here.run(&[&["send", &receiver.address, &file], options].concat());

    let unknown = failed(&send(&[]), 1);
    let reason = format!("is not known, and there is no terminal to ask: it is {}", there.key());
    assert!(unknown.contains(&reason) && unknown.contains("use --accept-new"), "{unknown}");
    assert!(there.names().is_empty() && !known.exists());

    assert!(send(&["--accept-new"]).status.success());
    assert_eq!(fs::read_to_string(&known).unwrap(), format!("{} {}\n", receiver.address, there.key()));
    assert!(send(&[]).status.success());
    assert_eq!(there.names(), ["file"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(known.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_changed_key_fails_and_says_what_to_do() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 1000);
    let receiver = there.receive(&["--allow", &here.key()]);
    let other = Identity::generate().unwrap().fingerprint();
    let known = here.data("known-peers");
    fs::write(&known, format!("# receivers\n{} {other}\n", receiver.address)).unwrap();
    for options in [&[][..], &["--accept-new"]] {
        let changed = failed(&here.run(&[&["send", &receiver.address, &file], options].concat()), 1);
        for part in [
            format!("the key of {} has changed: it is {}", receiver.address, there.key()),
            format!("known-peers, line 2, has {other}"),
            "if it is the new key, remove line 2 and try again".to_owned(),
        ] {
            assert!(changed.contains(&part), "{changed}");
        }
    }
    assert!(there.names().is_empty());
    fs::write(&known, "").unwrap();
    assert!(here.send(&receiver, &[&file]).status.success());
}

#[test]
fn only_allowed_senders_are_accepted() {
    let (there, here, stranger) = (Machine::new(), Machine::new(), Machine::new());
    let file = stranger.file("file", 3_000_000);
    there.key();
    fs::write(there.data("allowed-peers"), format!("# ships\n{} ship send\n", here.key())).unwrap();
    let mut receiver = there.receive(&["--once"]);
    let refused = failed(&stranger.send(&receiver, &[&file]), 1);
    let reason = format!("does not allow this machine to send; its key is {}", stranger.key());
    assert!(refused.contains(&reason), "{refused}");
    let logged = receiver.wait_for("is refused");
    assert!(logged.contains(&format!("the key {} is not allowed", stranger.key())), "{logged}");
    assert!(logged.contains("127.0.0.1:"), "{logged}");
    // The refused connection does not count: the receiver still waits, despite `--once`.
    let sent = here.send(&receiver, &[&here.file("file", 10)]);
    assert!(sent.status.success(), "{sent:?}");
    let (code, said, _) = receiver.end();
    assert!(code == Some(0) && said.contains(" (ship) in "), "{said}");
    assert_eq!(fs::read(there.path("out/file")).unwrap().len(), 10);
}

#[test]
fn a_receiver_that_allows_nobody_does_not_start() {
    let there = Machine::new();
    let none = failed(&there.run(&["receive", "--listen", "127.0.0.1:0"]), 1);
    assert!(none.contains("nobody may send: ") && none.contains("allowed-peers"), "{none}");
    fs::write(there.data("allowed-peers"), "\nSHA256:x ship send\n").unwrap();
    let fault = failed(&there.run(&["receive", "--listen", "127.0.0.1:0"]), 1);
    assert!(fault.contains("allowed-peers, line 2: a fingerprint is "), "{fault}");
}

/// `script` runs a command on its own terminal.
#[test]
#[cfg(target_os = "linux")]
fn a_person_at_a_terminal_is_asked() {
    use std::io::Write;
    if !needs::program("script") {
        return;
    }
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 1000);
    let receiver = there.receive(&["--allow", &here.key(), "--overwrite"]);
    let ask = |answer: &str| {
        let send = format!("'{}' send {} '{file}'", env!("CARGO_BIN_EXE_longhaul"), receiver.address);
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &send, "/dev/null"]);
        script.env("XDG_DATA_HOME", here.path("data")).env("NO_COLOR", "1").env("SHELL", "/bin/sh");
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(answer.as_bytes()).unwrap();
        // The end of the input would end the terminal before the answer is read.
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = ask("no\n");
    assert!(code == Some(1) && said.contains(&there.key()) && said.contains("is not accepted"), "{said}");
    assert!(!here.data("known-peers").exists());
    let (code, said) = ask("yes\n");
    assert!(code == Some(0) && said.contains("remembered the key"), "{said}");
    assert_eq!(there.names(), ["file"]);
}
