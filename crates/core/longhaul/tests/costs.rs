//! Memory and descriptors that idle connections use.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test may fail by panicking, and shares its helpers")]

#[path = "sockets/common.rs"]
mod common;

use std::net::SocketAddr;
use std::time::Duration;

use allocation_counter::measure;
use common::{pattern, soon};
use longhaul::{Config, TcpConnector, TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Sends `bytes` in each direction.
async fn exchange(a: &mut TcpStream, b: &mut TcpStream, bytes: usize) {
    let data = pattern(bytes);
    b.set_nodelay(true).unwrap();
    let mut got = vec![0; data.len()];
    let (wrote, read) = soon(async { tokio::join!(a.write_all(&data), b.read_exact(&mut got)) }).await;
    wrote.unwrap();
    read.unwrap();
    assert!(got == data);
    let (wrote, read) = soon(async { tokio::join!(b.write_all(&data), a.read_exact(&mut got)) }).await;
    wrote.unwrap();
    read.unwrap();
    assert!(got == data);
}

/// Opens connections one after the other, each from a socket of its own or all from one socket, and sends `bytes` in each
/// direction.
async fn connections(count: usize, one_socket: bool, bytes: usize) -> Vec<(TcpStream, TcpStream)> {
    let connector = TcpConnector::bind("0.0.0.0:0").await.unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut pairs = Vec::new();
    for i in 0..count {
        // A connector can have only one connection to each address.
        let to = SocketAddr::from(([127, 0, 1, (i % 250) as u8 + 1], port));
        let client = async {
            let mut config = Config::default();
            config.nodelay(true);
            if one_socket {
                connector.connect_with(to, &config).await
            } else {
                TcpStream::connect_with(to, &config).await
            }
        };
        let (client, server) = soon(async { tokio::join!(client, listener.accept()) }).await;
        let (mut client, mut server) = (client.unwrap(), server.unwrap().0);
        exchange(&mut client, &mut server, bytes).await;
        pairs.push((client, server));
    }
    pairs
}

/// Aborts connections and waits until their sockets are closed.
async fn end(pairs: Vec<(TcpStream, TcpStream)>, open: usize) {
    for (client, server) in pairs {
        server.abort();
        client.abort();
    }
    soon(async {
        while descriptors() > open {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// One test covers both cases, because two tests in this process would count each other's descriptors.
#[test]
fn a_connection_at_rest_costs_little_memory_and_at_most_one_descriptor() {
    if !common::needs_system_sockets() {
        return;
    }
    const CONNECTIONS: usize = 200;
    // Everything runs in this thread, whose allocations are counted.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Create the resources that the process and the runtime need only once, such as the timer.
    let open = runtime.block_on(async {
        drop(TcpConnector::bind("0.0.0.0:0").await.unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
        let open = descriptors();
        for one_socket in [false, true] {
            end(connections(20, one_socket, 20_000).await, open).await;
        }
        open
    });
    // After 20 kB, the controller's state is kept for a minute.
    for (one_socket, exchanged, bytes, more_descriptors) in
        [(false, 20_000, 19_000, CONNECTIONS), (true, 20_000, 14_000, 0), (true, 100, 4700, 0)]
    {
        let mut pairs = Vec::new();
        let held = measure(|| {
            runtime.block_on(async {
                pairs = connections(CONNECTIONS, one_socket, exchanged).await;
                // More than a retransmission timeout, after which a connection is at rest.
                tokio::time::sleep(Duration::from_millis(500)).await;
            });
        })
        .bytes_current;
        let each = held / CONNECTIONS as i64;
        let opened = descriptors() - open;
        eprintln!("{each} bytes for both ends of a connection, {opened} descriptors for {CONNECTIONS}");
        assert!(each <= bytes, "{each} bytes for both ends");
        // The listener and the connector use one descriptor each.
        assert!(opened <= more_descriptors + 2, "{opened} descriptors");
        let freed = measure(|| runtime.block_on(end(pairs, open))).bytes_current;
        let left = (held + freed) / CONNECTIONS as i64;
        assert!(left <= 500, "{left} bytes of each are left");
    }
}
