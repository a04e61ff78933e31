//! Bonds over loopback connections.

use longhaul::TcpListener;
use longhaul_tls::{Identity, SecureConnector, SecureListener};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::sync::soon;

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
    let (notices, mut lost) = mpsc::unbounded_channel();
    let (routes, mut near) = (near.len(), near.into_iter());
    let bond = begin((0, near.next().unwrap()), routes, notices).await.unwrap();
    for stream in near {
        let path: Lost<_> = lost.recv().await.unwrap();
        assert!(path.is_new);
        path.replace(stream).await.unwrap();
    }
    (bond, lost)
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
        let first = bonds.join(stream, Arc::new(())).await.unwrap();
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
    let (there, here) = soon(async { tokio::join!(receiving, sending) }).await;
    let (there, here) = soon(async { tokio::join!(there.close(), here.close()) }).await;
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
    let mut here = begin((0, near.remove(0)), 2, notices).await.unwrap();
    let mut there = join(&bonds, vec![far.remove(0)]).await.unwrap();
    for route in [1, 0] {
        let replaced: Lost<_> = soon(lost.recv()).await.unwrap();
        assert_eq!((replaced.route, replaced.is_new, replaced.is_over()), (route, route == 1, false));
        replaced.replace(near.remove(0)).await.unwrap();
        assert!(join(&bonds, vec![far.remove(0)]).await.is_none());
        // The other end learns of the new connection first.
        there.write_all(b"joined").await.unwrap();
        there.flush().await.unwrap();
        let mut words = [0; 6];
        soon(here.read_exact(&mut words)).await.unwrap();
        let open: Vec<_> = here.paths.iter().filter(|path| !path.is_lost).map(|path| path.route).collect();
        assert_eq!((&words, open), (b"joined", if route == 1 { vec![0, 1] } else { vec![1, 0] }));
        here.write_all(b"through").await.unwrap();
        here.flush().await.unwrap();
        here.paths[usize::from(route == 0)].stream.abort();
        here.write_all(b" again").await.unwrap();
        here.flush().await.unwrap();
        let mut words = [0; 13];
        soon(there.read_exact(&mut words)).await.unwrap();
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
    assert!(soon(here.read(&mut [0])).await.is_err());
    // Also after the end of the stream, if the peer has not read everything.
    let (near, far) = connections(2).await;
    let mut here = begin_all(near).await.0;
    let mut there = joined(far).await;
    there.shutdown().await.unwrap();
    assert_eq!(soon(here.read(&mut [0])).await.unwrap(), 0);
    here.write_all(b"unread").await.unwrap();
    here.flush().await.unwrap();
    drop(there);
    let failing = async {
        while here.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon(failing).await;
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
    let ((), received) = soon(async { tokio::join!(writing, reading) }).await;
    assert!(received == data);
}

/// The peer learns of what has been read on each path, and on those that are opened later.
#[tokio::test]
async fn what_has_been_read_is_told_on_all_paths() {
    let (mut near, mut far) = connections(3).await;
    let bonds = Bonds::default();
    for stream in &mut near {
        stream.write_all(&[&MAGIC[..], &[7; 16]].concat()).await.unwrap();
    }
    let late = far.split_off(2);
    let mut there = join(&bonds, far).await.unwrap();
    near[1].write_all(&frame(DATA, 0, b"word")).await.unwrap();
    there.read_exact(&mut [0; 4]).await.unwrap();
    assert!(join(&bonds, late).await.is_none());
    there.shutdown().await.unwrap();
    for stream in &mut near {
        for expected in [frame(READ, 4, &[]), frame(END, 0, &[])] {
            let mut frame = [0; HEADER];
            soon(stream.read_exact(&mut frame)).await.unwrap();
            assert_eq!(frame[..], expected);
        }
    }
    // The sender of a block that has been read does not know so.
    near[0].write_all(&frame(DATA, 0, b"word")).await.unwrap();
    let (mut more, mut told) = ([0], [0; HEADER]);
    tokio::select! {
        _ = there.read(&mut more) => panic!("that has been read"),
        read = soon(near[2].read_exact(&mut told)) => assert_eq!(read.unwrap(), HEADER),
    }
    assert_eq!((&told[..], there.arrived.len()), (&frame(READ, 4, &[])[..], 0));
}

/// A path that fails again and again has no more connections than a receiver accepts.
#[tokio::test]
async fn lost_connections_are_replaced_some_times_only() {
    let (mut near, mut far) = connections(PATHS).await;
    let (mut here, mut lost) = begin_all(near.split_off(PATHS - 2)).await;
    let bonds = Bonds::default();
    let mut there = join(&bonds, far.split_off(PATHS - 2)).await.unwrap();
    for (stream, other) in near.into_iter().zip(far) {
        here.paths.last().unwrap().stream.abort();
        here.write_all(b"x").await.unwrap();
        here.flush().await.unwrap();
        soon(lost.recv()).await.unwrap().replace(stream).await.unwrap();
        here.flush().await.unwrap();
        assert!(join(&bonds, vec![other]).await.is_none());
        soon(there.read_exact(&mut [0])).await.unwrap();
    }
    assert_eq!(here.paths.len(), PATHS);
    here.paths.last().unwrap().stream.abort();
    here.write_all(b"x").await.unwrap();
    here.flush().await.unwrap();
    soon(there.read_exact(&mut [0])).await.unwrap();
    assert!(here.paths.last().unwrap().is_lost && lost.try_recv().is_err());
}

/// Connections count as long as the bond has them.
#[tokio::test]
async fn a_connection_keeps_its_place_until_it_is_lost() {
    let (mut near, far) = connections(3).await;
    let (bonds, place): (_, Held) = (Bonds::default(), Arc::new(()));
    let mut bond = None;
    for (nth, stream) in far.into_iter().enumerate() {
        near[nth].write_all(&[7; 16]).await.unwrap();
        if nth == 2 {
            near[2].write_all(&frame(DATA, 0, b"word")).await.unwrap();
        }
        bond = bonds.join(stream, Arc::clone(&place)).await.unwrap().or(bond);
    }
    let mut bond = bond.unwrap();
    assert_eq!(Arc::strong_count(&place), 4);
    bond.read_exact(&mut [0; 4]).await.unwrap();
    near.remove(1).abort();
    for _ in 0..2_000 {
        std::future::poll_fn(|cx| Poll::Ready(bond.drive(cx))).await.unwrap();
        if Arc::strong_count(&place) < 4 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(Arc::strong_count(&place), 3);
    drop(bond);
    assert_eq!(Arc::strong_count(&place), 1);
}

/// Returns the outcome of a connection that joins the bond with this number.
async fn join_number(bonds: &Bonds<TcpStream>, number: u8) -> (TcpStream, io::Result<Option<Bond<TcpStream>>>) {
    let (mut near, mut far) = connections(1).await;
    near[0].write_all(&[number; 16]).await.unwrap();
    let joined = bonds.join(far.remove(0), Arc::new(())).await;
    (near.remove(0), joined)
}

#[tokio::test]
async fn connections_that_join_after_the_end_are_closed() {
    let bonds = Bonds::default();
    for number in 0..join::KNOWN as u8 + 2 {
        drop(join_number(&bonds, number).await.1.unwrap().unwrap());
    }
    let (mut near, late) = join_number(&bonds, 2).await;
    assert!(late.unwrap().is_none());
    assert!(!near.read(&mut [0]).await.is_ok_and(|len| len > 0));
    // The oldest ones are forgotten.
    assert!(join_number(&bonds, 0).await.1.unwrap().is_some());
    assert_eq!(bonds.len(), join::KNOWN);
}

#[tokio::test]
async fn a_sender_has_a_limited_number_of_bonds() {
    let bonds = Bonds::default();
    let mut open = Vec::new();
    for number in 0..join::PER_KEY as u8 {
        open.push(join_number(&bonds, number).await.1.unwrap().unwrap());
    }
    assert!(join_number(&bonds, 99).await.1.is_err());
    open.pop();
    assert!(join_number(&bonds, 99).await.1.unwrap().is_some());
    for _ in 1..PATHS {
        assert!(join_number(&bonds, 0).await.1.unwrap().is_none());
    }
    assert!(join_number(&bonds, 0).await.1.is_err(), "a bond has a limited number of connections");
}

/// What one sender does leaves the bonds of others alone, even if they have the same numbers.
#[tokio::test]
async fn bonds_belong_to_the_keys_of_their_senders() {
    let server = Identity::generate().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut listener = SecureListener::new(listener, &server, |_| true).unwrap();
    let key = Some(server.fingerprint());
    let senders = [(); 2].map(|()| SecureConnector::new(&Identity::generate().unwrap(), key).unwrap());
    let (bonds, mut open) = (Bonds::default(), Vec::new());
    for nth in 0..=join::PER_KEY {
        let stream = TcpStream::connect(address).await.unwrap();
        let (near, far) = tokio::join!(senders[nth / join::PER_KEY].connect(stream), listener.accept());
        let mut near = near.unwrap();
        near.write_all(&[(nth % join::PER_KEY) as u8; 16]).await.unwrap();
        near.flush().await.unwrap();
        let bond = bonds.join(far.unwrap().0, Arc::new(())).await.unwrap();
        open.push((near, bond.expect("a bond of its own")));
    }
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
        assert_eq!(soon(there.read(&mut [0])).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(there.held <= WINDOW + 2 * BLOCK as u64);
        writing.abort();
    }
}
