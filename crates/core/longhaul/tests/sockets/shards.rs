//! Listeners and connectors with several shards.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::SocketAddr;

use crate::common::{pattern, soon};
use longhaul::{TcpConnector, TcpListener, TcpSocket, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Pair = (TcpStream, TcpStream);

async fn connect(listener: &TcpListener) -> Pair {
    let to = listener.local_addr().unwrap();
    let (client, server) = soon(async { tokio::join!(TcpStream::connect(to), listener.accept()) }).await;
    let (server, from) = server.unwrap();
    let client = client.unwrap();
    assert_eq!(client.local_addr().unwrap(), from, "one client connects at a time");
    (client, server)
}

async fn connect_many(listener: &TcpListener, count: usize) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push(connect(listener).await);
    }
    pairs
}

/// Sends `len` bytes each way and compares them.
async fn exchange((client, server): &mut Pair, len: usize) {
    transfer(client, server, len).await;
    transfer(server, client, len).await;
}

async fn transfer(from: &mut TcpStream, to: &mut TcpStream, len: usize) {
    let (data, mut got) = (pattern(len), vec![0; len]);
    let (wrote, read) = soon(async { tokio::join!(from.write_all(&data), to.read_exact(&mut got)) }).await;
    wrote.unwrap();
    read.unwrap();
    assert!(got == data);
}

/// Ends a connection, the client first, so that the server has no TIME-WAIT.
async fn end((client, mut server): Pair) {
    let client = tokio::spawn(client.close());
    assert_eq!(soon(server.read(&mut [0])).await.unwrap(), 0);
    soon(server.close()).await.unwrap();
    soon(client).await.unwrap().unwrap();
}

fn socket(shards: usize) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_shards(shards).unwrap();
    socket
}

fn listen(socket: TcpSocket) -> TcpListener {
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.listen(64).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_spread_over_the_shards_and_all_are_served() {
    for cookies in [false, true] {
        let socket = socket(2);
        socket.set_always_cookies(cookies);
        let listener = listen(socket);
        assert_eq!(listener.shards(), 2);
        let pairs = connect_many(&listener, 40).await;
        let info = listener.info();
        assert_eq!(info.connections.iter().sum::<usize>(), 40);
        // All 40 are on one shard once in 2^39 runs.
        assert!(info.connections.iter().all(|count| *count > 0), "{info:?}");
        assert_eq!(info.cookies_accepted, if cookies { 40 } else { 0 });
        let tasks = pairs.into_iter().map(|mut pair| {
            tokio::spawn(async move {
                exchange(&mut pair, 200_000).await;
                end(pair).await;
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            soon(task).await.unwrap();
        }
        let info = listener.info();
        assert_eq!((info.forwarded_datagrams, info.resets_sent), (0, 0), "the kernel's choice is constant");
        soon(listener.close()).await.unwrap();
    }
}

/// Clients on two processors at once, while the server has a thread for each shard.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pinned_clients_are_served_by_both_shards_at_once() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    const STREAMS: usize = 20;
    let listener = listen(socket(2));
    let to = listener.local_addr().unwrap();
    let allowed = sched_getaffinity(None).unwrap();
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).take(2).collect();
    let clients = [0, 1].map(|number| {
        // With one processor, both clients share it.
        let core = cores[number % cores.len()];
        std::thread::spawn(move || {
            let mut only = CpuSet::new();
            only.set(core);
            sched_setaffinity(None, &only).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let streams = (0..STREAMS).map(|_| tokio::spawn(echoed(to)));
                for stream in streams.collect::<Vec<_>>() {
                    soon(stream).await.unwrap();
                }
            });
        })
    });
    let mut accepted = Vec::new();
    for _ in 0..2 * STREAMS {
        accepted.push(soon(listener.accept()).await.unwrap().0);
    }
    let info = listener.info();
    assert_eq!(info.connections.len(), 2);
    // All of them are on one shard once in 2^39 runs.
    assert!(info.connections.iter().all(|count| *count > 0), "{info:?}");
    let servers = accepted.into_iter().map(|mut server| {
        tokio::spawn(async move {
            let (mut read, mut write) = server.split();
            tokio::io::copy(&mut read, &mut write).await.unwrap();
            server.close().await.unwrap();
        })
    });
    for server in servers.collect::<Vec<_>>() {
        soon(server).await.unwrap();
    }
    for client in clients {
        tokio::task::spawn_blocking(move || client.join().unwrap()).await.unwrap();
    }
    let info = listener.info();
    assert_eq!((info.forwarded_datagrams, info.resets_sent), (0, 0), "the kernel's choice is constant");
}

/// Sends 200 kB over a new connection and compares what comes back.
#[cfg(target_os = "linux")]
async fn echoed(to: SocketAddr) {
    let (mut read, mut write) = TcpStream::connect(to).await.unwrap().into_split();
    let (data, mut got) = (pattern(200_000), Vec::new());
    let writes = async {
        write.write_all(&data).await?;
        write.shutdown().await
    };
    let (wrote, length) = tokio::join!(writes, read.read_to_end(&mut got));
    wrote.unwrap();
    assert_eq!(length.unwrap(), data.len());
    assert!(got == data);
}

/// Connections that came before and after the division are accepted, each by the listener of its shard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_shard_can_have_an_accept_queue_of_its_own() {
    let listener = listen(socket(2));
    let to = listener.local_addr().unwrap();
    let connected = |count| async move {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(soon(TcpStream::connect(to)).await.unwrap());
        }
        clients
    };
    let mut clients = connected(20).await;
    let shards = listener.into_shards();
    assert_eq!(shards.len(), 2);
    clients.extend(connected(20).await);
    let mut accepted = Vec::new();
    for shard in &shards {
        let count = shard.info().connections;
        assert_eq!(count.len(), 1, "one shard each");
        // All 40 are on one shard once in 2^39 runs.
        assert!((1..40).contains(&count[0]), "{count:?}");
        for _ in 0..count[0] {
            accepted.push(soon(shard.accept()).await.unwrap());
        }
    }
    assert_eq!(accepted.len(), 40);
    for client in clients {
        let at = client.local_addr().unwrap();
        let place = accepted.iter().position(|(_, from)| *from == at).unwrap();
        exchange(&mut (client, accepted.swap_remove(place).0), 1000).await;
    }
    for shard in shards {
        soon(shard.close()).await.unwrap();
    }
    // All sockets have been closed, a moment later.
    soon(async {
        while TcpListener::bind(to).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Its socket remains as long as it has a connection, and gets its part of the new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_whose_listener_is_gone_refuses_new_connections() {
    let listener = listen(socket(2));
    let to = listener.local_addr().unwrap();
    let mut clients = Vec::new();
    // All 40 are on one shard once in 2^39 runs.
    for _ in 0..40 {
        clients.push(soon(TcpStream::connect(to)).await.unwrap());
    }
    let mut shards = listener.into_shards();
    let (last, gone) = (shards.pop().unwrap(), shards.pop().unwrap());
    let (server, from) = soon(gone.accept()).await.unwrap();
    let place = clients.iter().position(|client| client.local_addr().unwrap() == from).unwrap();
    let mut pair = (clients.swap_remove(place), server);
    drop(gone);
    let (mut refused, mut connected) = (0, 0);
    for _ in 0..40 {
        match soon(TcpStream::connect(to)).await {
            Ok(_) => connected += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && connected > 0, "{refused} refused, {connected} connected");
    for _ in 0..connected {
        soon(last.accept()).await.unwrap();
    }
    exchange(&mut pair, 1000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_families_reach_all_shards_of_a_dual_stack_socket() {
    let socket = TcpSocket::new_v6().unwrap();
    socket.set_shards(2).unwrap();
    socket.bind("[::]:0".parse().unwrap()).unwrap();
    let listener = socket.listen(64).unwrap();
    let port = listener.local_addr().unwrap().port();
    for at in ["127.0.0.1", "::1"] {
        let (to, mut pairs) = (SocketAddr::new(at.parse().unwrap(), port), Vec::new());
        for _ in 0..20 {
            let (client, server) = soon(async { tokio::join!(TcpStream::connect(to), listener.accept()) }).await;
            let mut pair = (client.unwrap(), server.unwrap().0);
            exchange(&mut pair, 3000).await;
            pairs.push(pair);
        }
        let info = listener.info();
        assert!(info.connections.iter().all(|count| *count > 0), "{at}: {info:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_for_all_shards_together() {
    let socket = socket(2);
    socket.set_max_connections(Some(12));
    let listener = listen(socket);
    let mut pairs = connect_many(&listener, 12).await;
    let to = listener.local_addr().unwrap();
    let mut late = tokio::spawn(TcpStream::connect(to));
    soon(async {
        while listener.info().refused == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!late.is_finished());
    assert_eq!(listener.info().connections.iter().sum::<usize>(), 12);
    // The client retransmits its SYN, and finds room when another one has ended.
    end(pairs.pop().unwrap()).await;
    let (client, server) = soon(async { tokio::join!(&mut late, listener.accept()) }).await;
    exchange(&mut (client.unwrap().unwrap(), server.unwrap().0), 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_survive_the_end_of_other_shards() {
    let listener = listen(socket(4));
    let mut pairs = connect_many(&listener, 32).await;
    // From now on, a shard closes its socket when its last connection has ended. The kernel then delivers datagrams of
    // the remaining connections to other sockets than before.
    drop(listener);
    while let Some(pair) = pairs.pop() {
        end(pair).await;
        for pair in &mut pairs {
            exchange(pair, 100).await;
        }
        if let Some(pair) = pairs.last_mut() {
            exchange(pair, 300_000).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_in_use_is_refused_and_free_afterwards() {
    let listener = listen(socket(3));
    let at = listener.local_addr().unwrap();
    for shards in [1, 3] {
        let error = TcpListener::bind_sharded(at, shards).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }
    let pairs = connect_many(&listener, 12).await;
    let closing = tokio::spawn(listener.close());
    assert!(!closing.is_finished());
    for pair in pairs {
        end(pair).await;
    }
    soon(closing).await.unwrap().unwrap();
    // The sockets are closed by the drivers, a moment later.
    let lone = soon(async {
        loop {
            match TcpListener::bind(at).await {
                Ok(listener) if listener.shards() == 1 => break listener,
                Ok(listener) => drop(listener),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    let error = TcpListener::bind_sharded(at, 2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    drop(lone);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_listener_takes_over_all_shards() {
    let listener = listen(socket(2));
    let at = listener.local_addr().unwrap();
    let mut pairs = connect_many(&listener, 20).await;
    drop(listener);
    let listener = TcpListener::bind_sharded(at, 2).await.unwrap();
    assert_eq!(listener.shards(), 2);
    pairs.extend(connect_many(&listener, 20).await);
    assert_eq!(listener.info().connections.iter().sum::<usize>(), 40);
    for pair in &mut pairs {
        exchange(pair, 1000).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_listener_resets_what_no_shard_has_accepted() {
    let listener = listen(socket(2));
    let to = listener.local_addr().unwrap();
    let mut clients = Vec::new();
    for _ in 0..16 {
        clients.push(soon(TcpStream::connect(to)).await.unwrap());
    }
    drop(listener);
    for mut client in clients {
        let error = soon(client.read(&mut [0])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}

/// The runtime that drives the shards ends while a task of another one waits.
#[test]
fn accept_fails_when_the_runtime_of_the_shards_ends() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for divided in [false, true] {
        let (first, second) = (runtime(), runtime());
        let listener = first.block_on(async { listen(socket(2)) });
        let mut listeners = if divided { listener.into_shards() } else { vec![listener] };
        let last = listeners.pop().unwrap();
        let accepting = second.spawn(async move { last.accept().await.map(drop) });
        first.shutdown_background();
        let error = second.block_on(soon(accepting)).unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConnected);
        // A listener that is divided later fails as well.
        for shard in listeners.into_iter().flat_map(TcpListener::into_shards) {
            let error = second.block_on(soon(shard.accept())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotConnected);
        }
    }
}

#[test]
fn a_capture_has_the_packets_of_all_shards() {
    let path = std::env::temp_dir().join(format!("longhaul-shards-{}.pcap", std::process::id()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ports = runtime.block_on(async {
        let socket = socket(2);
        socket.set_pcap(&path).unwrap();
        let listener = listen(socket);
        let mut ports = HashSet::new();
        for mut pair in connect_many(&listener, 20).await {
            ports.insert(pair.0.local_addr().unwrap().port());
            exchange(&mut pair, 3000).await;
            end(pair).await;
        }
        soon(listener.close()).await.unwrap();
        ports
    });
    // The end of the sockets waits until the file is complete.
    drop(runtime);
    let file = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // Records of 16 bytes and a packet follow the header of 24 bytes; the ports are behind 20 bytes of IPv4.
    let (mut rest, mut seen) = (&file[24..], HashSet::new());
    while let Some((record, packets)) = rest.split_at_checked(16) {
        let len = u32::from_le_bytes(record[8..12].try_into().unwrap()) as usize;
        let (packet, next) = packets.split_at(len);
        seen.insert(u16::from_be_bytes([packet[20], packet[21]]));
        rest = next;
    }
    assert!(ports.is_subset(&seen), "{ports:?} {seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connector_uses_its_shards_in_turn() {
    let connector = TcpConnector::bind_sharded("127.0.0.1:0", 2).await.unwrap();
    assert_eq!(connector.shards(), 2);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let mut pairs = Vec::new();
    for _ in 0..2 {
        let (client, server) = soon(async { tokio::join!(connector.connect(to), listener.accept()) }).await;
        pairs.push((client.unwrap(), server.unwrap().0));
    }
    let locals: HashSet<SocketAddr> = pairs.iter().map(|pair| pair.0.local_addr().unwrap()).collect();
    assert_eq!(locals.len(), 2);
    assert!(locals.contains(&connector.local_addr().unwrap()));
    assert!(pairs.iter().all(|(client, server)| client.local_addr().unwrap() == server.peer_addr().unwrap()));
    assert_eq!(soon(connector.connect(to)).await.unwrap_err().kind(), ErrorKind::AddrInUse);
    for pair in &mut pairs {
        exchange(pair, 100_000).await;
    }
    // The shard whose connection has ended is found, whichever is next.
    for _ in 0..3 {
        let (client, server) = pairs.remove(0);
        let server = tokio::spawn(server.close());
        soon(client.close()).await.unwrap();
        soon(server).await.unwrap().unwrap();
        let (client, server) = soon(async { tokio::join!(connector.connect(to), listener.accept()) }).await;
        pairs.push((client.unwrap(), server.unwrap().0));
    }
    drop(connector);
    for pair in &mut pairs {
        exchange(pair, 1000).await;
    }
}

#[tokio::test]
async fn limits_of_a_connector_hold_for_all_shards_together() {
    let socket = socket(4);
    socket.set_max_connections(Some(3));
    let connector = socket.connector().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(soon(connector.connect(to)).await.unwrap());
    }
    let error = soon(connector.connect(to)).await.unwrap_err();
    assert!(error.to_string().contains("limit of connections"), "{error}");
}

#[test]
fn a_number_of_shards_out_of_range_is_refused() {
    let socket = TcpSocket::new_v4().unwrap();
    for shards in [0, 257] {
        let error = socket.set_shards(shards).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&shards.to_string()), "{error}");
    }
}

/// The guide's way to a runtime per core.
#[test]
fn runtimes_with_sockets_of_their_own_share_a_port() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (bound, is_bound) = std::sync::mpsc::channel();
    let (_ends, ended) = tokio::sync::watch::channel(());
    let mut address = SocketAddr::from(([127, 0, 0, 1], 0));
    for _ in 0..3 {
        let (bound, mut ended) = (bound.clone(), ended.clone());
        std::thread::spawn(move || {
            runtime().block_on(async {
                let socket = TcpSocket::new_v4().unwrap();
                socket.set_reuseport(true).unwrap();
                socket.bind(address).unwrap();
                let listener = socket.listen(64).unwrap();
                bound.send(listener.local_addr().unwrap()).unwrap();
                let accepting = async {
                    loop {
                        drop(listener.accept().await.unwrap());
                    }
                };
                tokio::select! {
                    () = accepting => {}
                    _ = ended.changed() => {}
                }
            });
        });
        address = is_bound.recv().unwrap();
    }
    runtime().block_on(async {
        for _ in 0..30 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        }
    });
}
