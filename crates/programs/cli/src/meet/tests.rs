use std::sync::Arc;

use longhaul::TcpListener;
use tokio::io::AsyncReadExt;

use super::*;

const WAITING_TIME: Duration = Duration::from_millis(300);

/// An end with a socket of its own that names itself at the rendezvous.
async fn end(rendezvous: SocketAddr, role: Role) -> (TcpListener, Meeting) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let meeting = Meeting::open(&listener.connector(), &[rendezvous], role, "4821").await.unwrap();
    (listener, meeting)
}

async fn rendezvous() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let terms = Terms { relays: 1, relay_time: Duration::from_secs(60), waiting_time: WAITING_TIME };
    tokio::spawn(Arc::new(Rendezvous::new(terms)).serve(listener));
    address
}

#[tokio::test]
async fn relays_last_longer_than_receivers_wait() {
    let address = rendezvous().await;
    let (_receiver, receiver) = end(address, Role::Receive).await;
    let ((_sender, mut sender), receiver) = loop {
        // The rendezvous may not know the receiver yet.
        let (socket, sender) = end(address, Role::Send).await;
        if let Ok((News::Peer(_), Some(sender))) = sender.news().await {
            break ((socket, sender), receiver);
        }
        sleep(Duration::from_millis(10)).await;
    };
    let (News::Peer(_), Some(receiver)) = receiver.news().await.unwrap() else { panic!("no sender is named") };
    sender.ask_for_relay().await.unwrap();
    let (News::Relayed(mut sender), _) = sender.news().await.unwrap() else { panic!("not relayed") };
    let (News::Relayed(mut receiver), _) = receiver.news().await.unwrap() else { panic!("not relayed") };
    sleep(2 * WAITING_TIME).await;
    sender.write_all(b"late").await.unwrap();
    let mut bytes = [0; 4];
    receiver.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"late");
}

#[tokio::test]
async fn receivers_do_not_wait_for_ever() {
    let (_socket, receiver) = end(rendezvous().await, Role::Receive).await;
    assert!(matches!(receiver.news().await, Err(MeetError::Connection(_))));
}
