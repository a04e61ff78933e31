//! Complete transfers.
use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::machine::{Machine, failed, json_lines};

#[cfg(target_os = "linux")]
#[test]
fn contents_are_compressed_where_that_saves_bytes() {
    let (there, here) = (Machine::new(), Machine::new());
    let receiver = there.receive(&["--allow", &here.key(), "--overwrite"]);
    let send = |file: &str, option: &[&str]| {
        let (output, bytes) = crate::disk::send_over_a_link(&here, &receiver, &[&[file], option].concat());
        assert!(output.status.success(), "{output:?}");
        let name = std::path::Path::new(file).file_name().unwrap();
        assert!(fs::read(there.path("out").join(name)).unwrap() == fs::read(file).unwrap());
        bytes
    };
    let text = here.path("text").into_os_string().into_string().unwrap();
    fs::write(&text, "a long way, in private\n".repeat(200_000)).unwrap();
    let noise = here.path("noise").into_os_string().into_string().unwrap();
    let mut random = vec![0; 4 << 20];
    getrandom::fill(&mut random).unwrap();
    fs::write(&noise, random).unwrap();
    assert!(send(&text, &["--compress"]) < 200_000);
    assert!(send(&text, &[]) > 4_600_000);
    // The rest of the bytes are headers and retransmissions.
    let (plain, packed) = (send(&noise, &[]), send(&noise, &["--compress"]));
    assert!(packed > 4 << 20 && packed < plain + plain / 2, "{packed} and {plain}");
}

/// A busy machine can only make the transfer slower.
#[test]
fn a_limit_on_the_rate_is_kept() {
    let (there, here) = (Machine::new(), Machine::new());
    let receiver = there.receive(&["--allow", &here.key(), "--overwrite"]);
    let file = here.file("file", 1_000_000);
    for congestion in ["cubic", "bbr", "new-reno"] {
        let sent = here.send(&receiver, &[&file, "--limit", "8M", "-C", congestion, "--json"]);
        let seconds = json_lines(&sent.stdout)[0]["seconds"].as_f64().unwrap();
        // The first packets leave in one burst.
        assert!(seconds > 0.8, "{congestion}: {seconds} s");
    }
    assert!(failed(&here.send(&receiver, &[&file, "--limit", "0"]), 2).contains("is not a rate in bits per second"));
}

#[test]
fn files_of_all_sizes_travel_encrypted_and_both_ends_report_them() {
    let (there, here) = (Machine::new(), Machine::new());
    let capture = here.path("capture.pcap");
    let files = [("empty", 0), ("byte", 1), ("a-large-file", 20_000_000)].map(|(name, len)| here.file(name, len));
    let receiver = there.receive(&["--allow", &here.key(), "--once", "--json"]);
    let paths = files.each_ref().map(String::as_str);
    let pcap = ["--json", "--pcap", capture.to_str().unwrap()];
    let sent = here.send(&receiver, &[&paths[..], &pcap].concat());
    let (code, stderr, received) = receiver.end();
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(code, Some(0), "{stderr}");
    let (sent, received) = (json_lines(&sent.stdout), json_lines(&received));
    assert_eq!((sent.len(), received.len()), (4, 4), "the files and the sum");
    assert_eq!((&sent[3]["files"], &received[3]["bytes"]), (&3.into(), &20_000_001.into()));
    for ((file, sent), received) in files.iter().zip(&sent).zip(&received) {
        let contents = fs::read(file).unwrap();
        let name = std::path::Path::new(file).file_name().unwrap();
        assert!(fs::read(there.path("out").join(name)).unwrap() == contents);
        let hash = blake3::hash(&contents).to_hex();
        assert_eq!((sent["blake3"].as_str(), received["blake3"].as_str()), (Some(&*hash), Some(&*hash)));
        assert_eq!(sent["file"], file.as_str());
        assert_eq!(received["file"], name.to_str().unwrap());
        assert_eq!(sent["bytes"], contents.len());
        assert_eq!(received["bytes"], contents.len());
    }
    // The capture contains neither contents nor names in plain text.
    let capture = fs::read(capture).unwrap();
    let contents = fs::read(&files[2]).unwrap();
    assert!(capture.len() > contents.len());
    for secret in [&contents[1_000_000..1_000_032], b"a-large-file"] {
        assert!(!capture.windows(secret.len()).any(|window| window == secret));
    }
    assert_eq!(there.names(), ["a-large-file", "byte", "empty"]);
}

#[test]
fn standard_input_and_output_are_files_too() {
    let (there, here) = (Machine::new(), Machine::new());
    let receiver = there.receive(&["--allow", &here.key(), "--out", "-"]);
    let mut sender = here.command(&["send", "--accept-new", "--to", &receiver.address, "-", "-q"]);
    let mut sender = sender.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let contents: Vec<u8> = (0..1_000_000_u32).map(|i| (i ^ i >> 9) as u8).collect();
    let mut stdin = sender.stdin.take().unwrap();
    let fed = contents.clone();
    let feeding = std::thread::spawn(move || stdin.write_all(&fed).unwrap());
    let (code, stderr, stdout) = receiver.end();
    feeding.join().unwrap();
    let sent = sender.wait_with_output().unwrap();
    assert!(sent.status.success() && sent.stderr.is_empty(), "{sent:?}");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout == contents);
    assert!(!there.path("out").exists());
}

#[test]
fn existing_files_are_refused_replaced_renamed_or_skipped() {
    let (there, here) = (Machine::new(), Machine::new());
    let (file, key) = (here.file("file.txt", 3_000_000), here.key());
    fs::create_dir(there.path("out")).unwrap();
    let old = there.path("out/file.txt");
    for (option, code, names) in [
        (None, 1, &["file.txt"][..]),
        (Some("--skip"), 0, &["file.txt"]),
        (Some("--rename"), 0, &["file (1).txt", "file.txt"]),
        (Some("--overwrite"), 0, &["file (1).txt", "file.txt"]),
    ] {
        fs::write(&old, "old").unwrap();
        let options = ["--allow", &key, "--once"].into_iter().chain(option);
        let receiver = there.receive(&options.collect::<Vec<_>>());
        let sent = here.send(&receiver, &[&file]);
        assert_eq!(receiver.end().0, Some(code), "{option:?}");
        let said = failed(&sent, code);
        match option {
            None => assert!(said.contains("file.txt  the receiver has another file of this name"), "{said}"),
            Some("--skip") => assert!(said.contains("skipped, because the receiver has a file"), "{said}"),
            Some(_) => assert!(said.contains(" has checked and stored it."), "{said}"),
        }
        assert_eq!(there.names(), names);
        assert_eq!(fs::read(&old).unwrap() == b"old", option != Some("--overwrite"));
    }
    let contents = fs::read(&file).unwrap();
    assert!(fs::read(&old).unwrap() == contents && fs::read(there.path("out/file (1).txt")).unwrap() == contents);
}

#[test]
fn plaintext_is_said_and_stays_on_loopback_unless_confirmed() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 100_000);
    let mut receiver = there.receive(&["--plaintext", "--once"]);
    receiver.wait_for("warning: --plaintext: nothing is encrypted, and anyone");
    let sent = here.run(&["send", &receiver.address, &file, "--plaintext"]);
    assert!(sent.status.success(), "{sent:?}");
    assert!(String::from_utf8_lossy(&sent.stderr).contains("warning: --plaintext: nothing is encrypted"), "{sent:?}");
    assert_eq!(receiver.end().0, Some(0));
    assert_eq!(there.names(), ["file"]);
    // Neither end needs a key.
    assert!(!there.data("identity").exists() && !here.data("identity").exists());

    let refused = there.run(&["receive", "--plaintext", "--listen", "0.0.0.0:0"]);
    assert!(failed(&refused, 2).contains("use --plaintext=yes-on-this-network"), "{refused:?}");
    let mut receiver = there.command(&["receive", "--plaintext=yes-on-this-network", "--listen", "0.0.0.0:0", "-q"]);
    let mut receiver = receiver.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(receiver.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert!(line.starts_with("Ready on UDP 0.0.0.0:"), "{line}");
    receiver.kill().unwrap();
    receiver.wait().unwrap();
}

/// Each end reports which of both does not encrypt.
#[test]
fn a_plain_end_and_an_encrypting_one_do_not_meet() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 1);
    let mut receiver = there.receive(&["--allow", &here.key()]);
    let plain = failed(&here.run(&["send", &receiver.address, &file, "--plaintext"]), 1);
    assert!(plain.contains("the peer encrypts (leave out --plaintext)"), "{plain}");
    receiver.wait_for("is refused: the peer does not use TLS");
    drop(receiver);
    let mut receiver = there.receive(&["--plaintext"]);
    let refused = failed(&here.run(&["send", &receiver.address, &file]), 1);
    assert!(refused.contains("no encrypted connection to 127.0.0.1:"), "{refused}");
    receiver.wait_for("the peer encrypts (leave out --plaintext)");
    assert!(there.names().is_empty());
}

/// Contents chosen by a sender could control the terminal.
#[cfg(target_os = "linux")]
#[test]
fn contents_are_not_written_to_a_terminal() {
    if !needs::program("script") {
        return;
    }
    let (there, here) = (Machine::new(), Machine::new());
    let program = there.command(&["receive", "--listen", "127.0.0.1:0", "--allow", &here.key(), "--out", "-"]);
    let words: Vec<_> = program.get_args().map(|word| word.to_str().unwrap().to_owned()).collect();
    let line = format!("{} {}", program.get_program().to_str().unwrap(), words.join(" "));
    let mut script = std::process::Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).stdin(Stdio::null());
    script.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = script.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("--out - would write what a sender chooses to the terminal"), "{output:?}");
    assert_eq!(output.status.code(), Some(2), "{said}");
}

/// A sender with a key may pause for a day, unless the option sets a shorter time.
#[test]
fn a_sender_that_pauses_longer_than_the_option_says_is_ended() {
    let (there, here) = (Machine::new(), Machine::new());
    let mut receiver = there.receive(&["--allow", &here.key(), "--idle", "1s"]);
    let mut sender = here.command(&["send", "--accept-new", "--to", &receiver.address, "-"]);
    let mut sender = sender.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    sender.stdin.as_mut().unwrap().write_all(b"first").unwrap();
    receiver.wait_for(": nothing came in 1 s");
    drop(sender.stdin.take());
    failed(&sender.wait_with_output().unwrap(), 1);
    assert!(failed(&here.run(&["receive", "--idle", "10ms"]), 2).contains("less than 1s"));
}

#[test]
fn a_connection_may_do_without_ecn() {
    let (there, here) = (Machine::new(), Machine::new());
    let (file, capture) = (here.file("file", 1), here.path("capture.pcap"));
    let receiver = there.receive(&["--allow", &here.key(), "--overwrite"]);
    for (option, flags) in [(&[][..], 0xc2), (&["--no-ecn"], 0x02)] {
        let pcap = [&file, "--pcap", capture.to_str().unwrap()];
        assert!(here.send(&receiver, &[&pcap[..], option].concat()).status.success());
        // The offset of the flags of the SYN, after the headers of the file, the packet and IP.
        assert_eq!(fs::read(&capture).unwrap()[24 + 16 + 20 + 13], flags, "SYN, with ECE and CWR or without");
    }
}
