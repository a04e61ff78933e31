//! Receivers with more connections than places.
use std::fs;
use std::time::Duration;

use longhaul::{TcpListener, TcpStream};
use longhaul_cli::protocol::{self, Reply};
use longhaul_tls::{Identity, SecureConnector, SecureListener};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::machine::Machine;

/// Two connections are reset: one before the handshake, the other between the handshake and the first reply.
#[tokio::test]
async fn a_connection_that_is_reset_before_the_first_reply_is_opened_again() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 1000);
    let hash = blake3::hash(&fs::read(&file).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    here.key();
    fs::write(here.data("known-peers"), format!("{address} {}\n", there.key())).unwrap();
    let send = |options: &[&str]| {
        let mut command = here.command(&[&["send", &address, &file], options].concat());
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let sending = send(&["--retry", "0"]);
    listener.accept().await.unwrap().0.abort();
    let refused = sending.await.unwrap();
    assert!(!refused.status.success(), "{refused:?}");

    let sending = send(&[]);
    let serving = serve(listener, there.identity(), hash);
    let sent = tokio::select! {
        sent = sending => sent.unwrap(),
        () = serving => unreachable!("the receiver waits for the end of the sender"),
    };
    assert!(sent.status.success(), "{sent:?}");
}

/// Resets two connections, and confirms the file with this hash on the third.
async fn serve(listener: TcpListener, identity: Identity, hash: blake3::Hash) {
    listener.accept().await.unwrap().0.abort();
    let mut listener = SecureListener::new(listener, &identity, |_| true).unwrap();
    listener.accept().await.unwrap().0.abort();
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut received = Vec::new();
    while !received.ends_with(hash.as_bytes()) {
        received.push(stream.read_u8().await.unwrap());
    }
    let mut reply = Vec::new();
    protocol::encode_reply(&mut reply, 0, &Reply::Confirmed);
    stream.write_all(&reply).await.unwrap();
    stream.flush().await.unwrap();
    let _ = stream.read_to_end(&mut received).await;
    stream.shutdown().await.unwrap();
    std::future::pending::<()>().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_key_cannot_take_all_places_of_a_receiver() {
    take_places(|_| protocol::MAGIC.to_vec()).await;
}

/// Each connection of a bond has a place. The first ones begin with a block for the protocol of files.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_key_cannot_take_all_places_of_a_receiver_with_bonds() {
    let block = [&[0; 12][..], &[protocol::MAGIC.len() as u8], &protocol::MAGIC].concat();
    let beginning = |number| [b"longbnd\x01", &[number / 16; 16][..]].concat();
    take_places(|number| [beginning(number), if number % 16 == 0 { block.clone() } else { Vec::new() }].concat()).await;
}

/// A key uses all its places from several addresses. Each connection begins with what `greeting` returns.
#[cfg(target_os = "linux")]
async fn take_places(greeting: impl Fn(u8) -> Vec<u8>) {
    let (there, here, other) = (Machine::new(), Machine::new(), Machine::new());
    let mut receiver = there.receive(&["--allow", &here.key(), "--allow", &other.key()]);
    let connector = SecureConnector::new(&other.identity(), Some(there.key().parse().unwrap())).unwrap();
    let mut held = Vec::new();
    for number in 0..33 {
        let socket = longhaul::TcpSocket::new_v4().unwrap();
        socket.bind(format!("127.0.0.{}:0", 2 + number % 3).parse().unwrap()).unwrap();
        let stream: TcpStream = socket.connect(receiver.address.parse().unwrap()).await.unwrap();
        let mut stream = connector.connect(stream).await.unwrap();
        stream.write_all(&greeting(number)).await.unwrap();
        stream.flush().await.unwrap();
        held.push(stream);
    }
    receiver.wait_for("refused: too many connections");
    let mut last = held.pop().unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), last.read(&mut [0])).await;
    assert!(matches!(ended, Ok(Err(_))), "{ended:?}");
    let sent = here.send(&receiver, &[&here.file("file", 1000)]);
    assert!(sent.status.success(), "{sent:?}");
    drop(held);
}
