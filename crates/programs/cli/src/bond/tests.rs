//! Bonds over loopback connections.

use longhaul::TcpListener;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Returns both ends of `count` connections, those of the client first.
async fn connections(count: usize) -> (Vec<TcpStream>, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for _ in 0..count {
        near.push(TcpStream::connect(address).await.unwrap());
        far.push(listener.accept().await.unwrap().0);
    }
    (near, far)
}

/// Bonds connections; returns the bond and what it says of those that are lost.
async fn begin_all(near: Vec<TcpStream>) -> (Bond<TcpStream>, mpsc::UnboundedReceiver<Lost<TcpStream>>) {
    let (notices, lost) = mpsc::unbounded_channel();
    (begin(near.into_iter().map(Some).collect(), notices).await.unwrap(), lost)
}

/// Joins connections as a receiver does.
async fn joined(far: Vec<TcpStream>) -> Bond<TcpStream> {
    join(&Bonds::default(), far).await.unwrap()
}

async fn join(bonds: &Bonds<TcpStream>, far: Vec<TcpStream>) -> Option<Bond<TcpStream>> {
    let mut bond = None;
    for mut stream in far {
        let mut magic = [0; 8];
        stream.read_exact(&mut magic).await.unwrap();
        assert_eq!(magic, MAGIC);
        let first = bonds.join(stream).await.unwrap();
        assert!(first.is_none() || bond.is_none(), "only the first connection begins a bond");
        bond = bond.or(first);
    }
    bond
}

fn contents(len: u32) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect()
}

/// Sends data there and an answer back. `lost` connections are aborted in the middle, at this or the other end.
async fn exchange(lost: &[(usize, bool)]) {
    let (near, far) = connections(3).await;
    let mut here = begin_all(near).await.0;
    let mut there = joined(far).await;
    let (data, answer) = (contents(8_000_000), contents(700_000));
    let (first, second) = data.split_at(data.len() / 2);
    let receiving = async {
        let mut received = vec![0; first.len()];
        there.read_exact(&mut received).await.unwrap();
        for (index, _) in lost.iter().filter(|(_, is_here)| !is_here) {
            there.paths[*index].stream.abort();
        }
        there.read_to_end(&mut received).await.unwrap();
        assert!(received == data);
        there.write_all(&answer).await.unwrap();
        there.shutdown().await.unwrap();
        there
    };
    let sending = async {
        here.write_all(first).await.unwrap();
        for (index, _) in lost.iter().filter(|(_, is_here)| *is_here) {
            here.paths[*index].stream.abort();
        }
        here.write_all(second).await.unwrap();
        here.shutdown().await.unwrap();
        let mut received = Vec::new();
        here.read_to_end(&mut received).await.unwrap();
        assert!(received == answer);
        here
    };
    let (there, here) = tokio::join!(receiving, sending);
    let (there, here) = tokio::join!(there.close(), here.close());
    there.unwrap();
    here.unwrap();
}

#[tokio::test]
async fn a_stream_passes_over_several_connections() {
    exchange(&[]).await;
}

#[tokio::test]
async fn the_others_carry_what_lost_connections_had_taken() {
    exchange(&[(0, true)]).await;
    exchange(&[(1, false), (2, true)]).await;
}

/// A path that works again carries the stream after the others have failed. One that has no connection at first is asked for.
#[tokio::test]
async fn lost_connections_are_replaced() {
    let (mut near, mut far) = connections(3).await;
    let (notices, mut lost) = mpsc::unbounded_channel();
    let bonds = Bonds::default();
    let mut here = begin(vec![Some(near.remove(0)), None], notices).await.unwrap();
    let mut there = join(&bonds, vec![far.remove(0)]).await.unwrap();
    for route in [1, 0] {
        let replaced: Lost<_> = lost.recv().await.unwrap();
        assert_eq!((replaced.route, replaced.is_over()), (route, false));
        replaced.replace(near.remove(0)).await.unwrap();
        assert!(join(&bonds, vec![far.remove(0)]).await.is_none());
        // The other end learns of the new connection first.
        there.write_all(b"joined").await.unwrap();
        there.flush().await.unwrap();
        let mut words = [0; 6];
        here.read_exact(&mut words).await.unwrap();
        let open: Vec<_> = here.paths.iter().filter(|path| !path.is_lost).map(|path| path.route).collect();
        assert_eq!((&words, open), (b"joined", if route == 1 { vec![0, 1] } else { vec![1, 0] }));
        here.write_all(b"through").await.unwrap();
        here.flush().await.unwrap();
        here.paths[usize::from(route == 0)].stream.abort();
        here.write_all(b" again").await.unwrap();
        here.flush().await.unwrap();
        let mut words = [0; 13];
        there.read_exact(&mut words).await.unwrap();
        assert_eq!(&words, b"through again");
    }
    drop(here);
    assert_eq!(lost.recv().await.unwrap().route, 1);
    assert!(lost.recv().await.is_none());
}

#[tokio::test]
async fn a_bond_fails_with_its_last_connection() {
    let (near, far) = connections(2).await;
    let mut here = begin_all(near).await.0;
    drop(joined(far).await);
    assert!(here.read(&mut [0]).await.is_err());
}

/// The peer does not read, and the blocks are as small as the writes.
#[tokio::test]
async fn a_bond_of_small_blocks_waits_for_its_reader() {
    let (near, far) = connections(2).await;
    let mut here = begin_all(near).await.0;
    let mut there = joined(far).await;
    let data = contents(3 * BLOCKS as u32);
    let writing = async {
        for byte in &data {
            here.write_all(&[*byte]).await.unwrap();
            here.flush().await.unwrap();
        }
        here.shutdown().await.unwrap();
    };
    let reading = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut received = Vec::new();
        there.read_to_end(&mut received).await.unwrap();
        received
    };
    let ((), received) = tokio::join!(writing, reading);
    assert!(received == data);
}

/// Blocks of all lengths at positions that overlap would need memory for each, and so would many small ones.
#[tokio::test]
async fn frames_of_hostile_peers_are_refused() {
    let overlapping: Vec<_> = (1..200).map(|position| frame(DATA, position, &[0; BLOCK])).collect();
    let small: Vec<_> = (1..=BLOCKS as u64 + 1).map(|position| frame(DATA, 2 * position, b"x")).collect();
    let bad: [Vec<u8>; 6] = [
        frame(3, 0, &[]).to_vec(),
        frame(DATA, 0, &[0; BLOCK + 1]).to_vec(),
        frame(DATA, WINDOW + 1, b"x").to_vec(),
        frame(READ, 1, &[]).to_vec(),
        overlapping.concat(),
        small.concat(),
    ];
    for frames in bad {
        let (mut near, far) = connections(1).await;
        near[0].write_all(&[&MAGIC[..], &[7; 16]].concat()).await.unwrap();
        let mut there = joined(far).await;
        let mut stream = near.remove(0);
        let writing = tokio::spawn(async move { stream.write_all(&frames).await });
        assert_eq!(there.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(there.held <= WINDOW + 2 * BLOCK as u64);
        writing.abort();
    }
}
