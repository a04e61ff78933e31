//! Peers that are not `longhaul send`, and senders that are hostile.
use std::fs;
use std::sync::Arc;

use longhaul::TcpStream;
use longhaul_cli::protocol::{self, FileHeader, Kind, Reply, Target, Timestamp};
use longhaul_tls::{Fingerprint, SecureConnector, SecureStream};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::machine::{Machine, Receiver};

/// Connects from the loopback address `source`.
#[cfg(target_os = "linux")]
async fn connect_from(source: &str, receiver: &Receiver) -> TcpStream {
    let socket = longhaul::TcpSocket::new_v4().unwrap();
    socket.bind(format!("{source}:0").parse().unwrap()).unwrap();
    socket.connect(receiver.address.parse().unwrap()).await.unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn strangers_are_refused_with_a_reason_and_keep_nobody_out() {
    let (there, here) = (Machine::new(), Machine::new());
    let mut receiver = there.receive(&["--allow", &here.key()]);

    let mut garbage = connect_from("127.0.0.2", &receiver).await;
    garbage.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let line = receiver.wait_for("is refused");
    assert!(line.starts_with("127.0.0.2:") && line.contains("the peer does not use TLS"), "{line}");
    // The answer is an alert.
    let mut answer = Vec::new();
    let _ = garbage.read_to_end(&mut answer).await;
    assert_eq!(answer.first(), Some(&21), "{answer:?}");

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS12]).unwrap();
    let config = builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    // There is one report per second.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let old = connect_from("127.0.0.3", &receiver).await;
    let refused = connector.connect(ServerName::try_from("localhost").unwrap(), old).await.unwrap_err();
    assert!(refused.to_string().contains("ProtocolVersion"), "{refused}");
    let line = receiver.wait_for("is refused");
    assert!(line.starts_with("127.0.0.3:") && line.contains("does not support TLS 1.3"), "{line}");

    // There are more silent peers than places for their address.
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(connect_from("127.0.0.1", &receiver).await);
    }
    let sent = here.send(&receiver, &[&here.file("file", 1000)]);
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(there.names(), ["file"]);
}

async fn connect(here: &Machine, there: &Machine, receiver: &Receiver) -> SecureStream {
    let key: Fingerprint = there.key().parse().unwrap();
    let connector = SecureConnector::new(&here.identity(), Some(key)).unwrap();
    connector.connect(TcpStream::connect(&receiver.address).await.unwrap()).await.unwrap()
}

/// Sends `bytes` after the magic bytes; returns the receiver's reason for the refusal.
async fn refusal(here: &Machine, there: &Machine, receiver: &Receiver, bytes: &[u8]) -> String {
    let mut stream = connect(here, there, receiver).await;
    stream.write_all(&protocol::MAGIC).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.flush().await.unwrap();
    match reply(&mut stream).await {
        Reply::Refused(reason) | Reply::Declined(reason) => reason,
        other => panic!("{other:?}"),
    }
}

async fn reply(stream: &mut SecureStream) -> Reply {
    let mut bytes = Vec::new();
    loop {
        if let Some((_, reply)) = protocol::take_reply(&mut bytes).unwrap() {
            return reply;
        }
        bytes.push(stream.read_u8().await.unwrap());
    }
}

fn header(name: &str, size: Option<u64>) -> Vec<u8> {
    let modified = Timestamp::default();
    let header = FileHeader {
        kind: Kind::File,
        name: name.into(),
        size,
        modified,
        mode: 0o644,
        keeps: false,
        asks: false,
        data: None,
        target: Target::Any,
    };
    protocol::encode_header(&header).unwrap()
}

#[tokio::test]
async fn a_hostile_sender_writes_nothing_outside_and_nothing_to_the_terminal() {
    let (there, here) = (Machine::new(), Machine::new());
    let mut receiver = there.receive(&["--allow", &here.key(), "--overwrite"]);
    let long = "x".repeat(4096);
    let absolute = there.path("escaped").into_os_string().into_string().unwrap();
    for (name, reason) in [
        ("../escaped", "is not a plain file name"),
        (absolute.as_str(), "is not a plain file name"),
        ("..", "is not a plain file name"),
        ("sub/../../escaped", "is not a plain file name"),
        ("sub//escaped", "the file name is empty"),
        ("sub/a\nb", "contains a control character"),
        ("a\0b", "is not a plain file name"),
        ("a\nb", "contains a control character"),
        ("\x1b[2Jescaped", "contains a control character"),
        ("", "the file name is empty"),
        (long.as_str(), "a path of 4096 bytes is too long (at most 4095)"),
        (".bashrc", "begins with a dot or a dash"),
    ] {
        let mut header = header("x", Some(1));
        header.truncate(header.len() - 3);
        header.extend((name.len() as u16).to_be_bytes());
        header.extend(name.as_bytes());
        let told = refusal(&here, &there, &receiver, &header).await;
        assert!(told.contains(reason), "{name:?}: {told}");
        let line = receiver.wait_for(reason);
        assert!(!line.trim_end().contains(|c: char| c.is_control()), "{line:?}");
    }
    // A wrong hash, and announced sizes that are too small or too large.
    let header = header("lie", Some(3));
    for (body, reason) in [
        (&b"\x04\0\0\0\x03abc\x05________________________________"[..], "damaged on the way"),
        (b"\x04\0\0\0\x02ab\x05", "not as announced"),
        (b"\x04\0\0\0\x04abcd", "not as announced"),
        (b"\x04\xff\xff\xff\xfe", "not as announced"),
    ] {
        let told = refusal(&here, &there, &receiver, &[&header, body].concat()).await;
        assert!(told.contains(reason), "{told}");
    }
    assert!(there.names().is_empty() && !there.path("escaped").exists());
    let private: Vec<_> = fs::read_dir(there.path("out")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(private.len(), 1);
    assert_eq!(fs::read_dir(&private[0]).unwrap().count(), 0, "an unfinished file is left");
}

/// Sends a link, and then a file through it. A directory of the receiver is a link, too.
#[cfg(unix)]
#[tokio::test]
async fn no_symbolic_link_on_the_way_is_followed() {
    let (there, here) = (Machine::new(), Machine::new());
    let outside = there.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(there.path("out")).unwrap();
    std::os::unix::fs::symlink(&outside, there.path("out/trap")).unwrap();
    let receiver = there.receive(&["--allow", &here.key(), "--overwrite"]);
    let entry = |kind: Kind, name: &str| {
        let modified = Timestamp::default();
        let header = FileHeader {
            kind,
            name: name.into(),
            size: Some(0),
            modified,
            mode: 0o777,
            keeps: true,
            asks: false,
            data: None,
            target: Target::Any,
        };
        protocol::encode_header(&header).unwrap()
    };
    let empty = [&[5][..], blake3::hash(b"").as_bytes()].concat();
    let told = refusal(&here, &there, &receiver, &[entry(Kind::File, "trap/file"), empty.clone()].concat()).await;
    assert!(told.contains("cannot write it"), "{told}");
    let mut stream = connect(&here, &there, &receiver).await;
    let link = entry(Kind::Link("e".into()), "d/l");
    let all =
        [&protocol::MAGIC[..], &entry(Kind::Directory, "trap/sub"), &link, &entry(Kind::Directory, "d/l/sub")].concat();
    stream.write_all(&all).await.unwrap();
    stream.flush().await.unwrap();
    assert!(matches!(reply(&mut stream).await, Reply::Declined(_)));
    assert_eq!(reply(&mut stream).await, Reply::Confirmed);
    assert!(matches!(reply(&mut stream).await, Reply::Declined(_)));
    // Links that lead outside cannot be encoded; sent as raw bytes, they are refused.
    let mut hostile = entry(Kind::Link("e".into()), "d/l");
    hostile.truncate(hostile.len() - 3);
    for target in ["..", "../../x", "/etc", "a/../../.."] {
        let target = [&(target.len() as u16).to_be_bytes()[..], target.as_bytes()].concat();
        let told = refusal(&here, &there, &receiver, &[hostile.clone(), target].concat()).await;
        assert!(told.contains("may lead outside"), "{told}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

/// The stream ends without `close_notify`, as if an attacker on the path had ended it.
#[tokio::test]
async fn a_transfer_that_is_cut_leaves_no_file() {
    let (there, here) = (Machine::new(), Machine::new());
    let receiver = there.receive(&["--allow", &here.key(), "--once"]);
    let mut stream = connect(&here, &there, &receiver).await;
    let hash = blake3::hash(b"abc");
    let whole = [&header("whole", None), &b"\x04\0\0\0\x03abc\x05"[..], hash.as_bytes()].concat();
    stream.write_all(&[&protocol::MAGIC[..], &whole].concat()).await.unwrap();
    stream.flush().await.unwrap();
    assert_eq!(reply(&mut stream).await, Reply::Confirmed);
    stream.write_all(&[&header("cut", None), &b"\x04\0\0\0\x03abc"[..]].concat()).await.unwrap();
    stream.flush().await.unwrap();
    stream.abort();
    let (code, said, _) = receiver.end();
    assert_eq!(code, Some(1));
    assert!(said.contains(": connection reset by peer"), "{said}");
    assert_eq!(there.names(), ["whole"]);
}

/// The receiver sends replies of nine bytes as fast as possible.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_receiver_that_replies_without_end_is_left() {
    let here = Machine::new();
    let file = here.file("file", 20_000_000);
    let listener = longhaul::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut command = here.command(&["send", "--plaintext", "--retry", "0", &address, &file]);
    let sender = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.read_exact(&mut [0; 9]).await.unwrap();
    let mut replies = Vec::new();
    (0..10_000).for_each(|_| protocol::encode_reply(&mut replies, 0, &Reply::Go));
    let mut peak = 0;
    while stream.write_all(&replies).await.is_ok() {
        let status = fs::read_to_string(format!("/proc/{}/status", sender.id())).unwrap_or_default();
        let shown =
            status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak = peak.max(shown.unwrap_or(0));
    }
    let said = crate::machine::failed(&sender.wait_with_output().unwrap(), 1);
    assert!(said.contains("the peer's reply is not valid"), "{said}");
    eprintln!("the sender had {peak} kB at most");
    assert!(peak < 64 << 10, "{peak} kB");
}
