//! The examples of the README and the guide. A test compares them with the functions here, which run all but the README's.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::soon;

const DOCUMENTS: [(&str, &str); 2] = [
    ("README.md", include_str!("../../../../../README.md")),
    ("docs/guide.md", include_str!("../../../../../docs/guide.md")),
];

/// Connects to an address that is reserved for documentation, and is therefore not run.
async fn readme() -> Result<(), Box<dyn Error>> {
    let mut stream = longhaul::TcpStream::connect("192.0.2.7:7000").await?;
    stream.write_all(b"a long way").await?;
    stream.close().await?; // waits until the peer has acknowledged everything, and up to 500 ms for its end
    Ok(())
}

mod program {
    use longhaul::{TcpListener, TcpStream}; // instead of tokio::net
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::main]
    pub(super) async fn main() -> std::io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            stream.write_all(text.to_uppercase().as_bytes()).await?;
            stream.close().await // waits until the client has it all
        });

        let mut stream = TcpStream::connect(addr).await?;
        stream.write_all(b"a long way").await?;
        stream.shutdown().await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        println!("{answer}");
        stream.close().await?;
        server.await?
    }
}

/// The settings of the guide, for a client of `addr` and listeners at `local`.
async fn settings(addr: SocketAddr, local: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut config = longhaul::Config::default();
    config.congestion(longhaul::Congestion::bbr()).recv_buffer_max(256 << 20);
    let stream = longhaul::TcpStream::connect_with(addr, &config).await?;
    let listener = longhaul::TcpListener::bind_with(local, &config).await?;
    drop((stream, listener));

    let mut config = longhaul::Config::default();
    let [idle, interval, timeout] = [20, 5, 60].map(Duration::from_secs);
    let keep_alive = longhaul::KeepAlive::default().with_idle(idle).with_interval(interval).with_probes(4);
    config.keep_alive(Some(keep_alive)).user_timeout(Some(timeout));
    let stream = longhaul::TcpStream::connect_with(addr, &config).await?;
    stream.close().await?; // waits until the peer has acknowledged everything, and up to 500 ms for its end
    Ok(())
}

async fn sockets(addr: SocketAddr, local: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut socket = longhaul::TcpSocket::new_v4()?;
    socket.config().congestion("slow-start(iw=4)+new-reno".parse()?);
    socket.bind(local)?;
    let stream = socket.connect(addr).await?;
    drop(stream);

    let peer = addr;
    let connector = longhaul::TcpConnector::bind("0.0.0.0:0").await?;
    let stream = connector.connect(peer).await?;
    drop(stream);
    Ok(())
}

#[cfg(target_os = "linux")]
async fn listeners(local: SocketAddr) -> Result<(), Box<dyn Error>> {
    let cores = std::thread::available_parallelism()?.get();
    let listener = longhaul::TcpListener::bind_sharded(local, cores).await?;
    println!("{:?}", listener.info()); // connections of each shard, memory, refused SYNs and other counters
    drop(listener);

    let socket = longhaul::TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind(local)?;
    let listener = socket.listen(1024)?; // in each runtime
    drop(listener);
    Ok(())
}

#[test]
fn the_complete_program_runs() {
    program::main().unwrap();
}

#[tokio::test]
async fn the_examples_of_the_guide_run() {
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = longhaul::TcpListener::bind(local).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move { stream.read(&mut [0]).await });
        }
    });
    soon(async {
        settings(addr, local).await.unwrap();
        sockets(addr, local).await.unwrap();
        #[cfg(target_os = "linux")]
        listeners(local).await.unwrap();
    })
    .await;
    server.abort();
    // The type of an example that is only compiled.
    let _ = readme;
}

/// Removes what differs between an example and a function here: the indentation, and the visibility of `main`.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.trim().trim_start_matches("pub(super) ")).filter(|line| !line.is_empty()).collect()
}

#[test]
fn all_examples_of_the_documents_are_here() {
    let here = lines(include_str!("documents.rs"));
    for (name, text) in DOCUMENTS {
        let examples: Vec<_> =
            text.split("\n```rust").skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect();
        assert!(!examples.is_empty(), "{name}");
        for example in examples {
            let example = lines(example.split_once('\n').unwrap().1);
            assert!(here.windows(example.len()).any(|window| window == example), "{name}: {example:#?}");
        }
    }
}
