//! Transfer with longhaul's TCP over the relay.

use std::time::Duration;

use longhaul::{TcpListener, TcpStream};
use longhaul_link::spec::Direction::{Down, Up};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const LEN: usize = 3_000_000;

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_arrives_whole_over_a_link_that_loses_and_reorders() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = "--rate 50mbit --rtt 40ms --queue 1bdp --loss 0.5% --reorder 0.5%,3 --seed 5";
    let relay = crate::common::relay(options, listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        stream.write_all(&received[..100_000]).await.unwrap();
        stream.shutdown().await.unwrap();
        received
    });
    let sent = pattern(LEN);
    let mut client = TcpStream::connect(relay.local_addr()).await.unwrap();
    let transfer = async {
        client.write_all(&sent).await.unwrap();
        client.shutdown().await.unwrap();
        let mut echo = Vec::new();
        client.read_to_end(&mut echo).await.unwrap();
        (server.await.unwrap(), echo)
    };
    let (received, echo) = timeout(Duration::from_secs(120), transfer).await.unwrap();
    assert!(received == sent, "{} bytes of {LEN} arrived, or others", received.len());
    assert!(echo == sent[..100_000]);
    let (engine, counts) = relay.stop().unwrap();
    let (up, down) = (engine.stats(Up), engine.stats(Down));
    assert!(up.all().offered_bytes > LEN as u64 && up.all().dropped_total() > 0 && up.reordered > 0);
    assert!(down.delivered > 0);
    assert_eq!((counts.missed, counts.unsent), (0, 0));
}
