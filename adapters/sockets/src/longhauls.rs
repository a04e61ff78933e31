//! Transfers over longhaul's own transport, without arrival times, which QUIC lacks.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use longhaul::{Config, TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{ROOM, WRITE};

fn config(controller: &str) -> Result<Config> {
    let mut config = longhaul_tcp::Config::default();
    config.congestion = controller.parse()?;
    config.extensions = false;
    (config.send_buffer, config.recv_buffer_max) = (ROOM as usize, ROOM as usize);
    Ok(Config::from_engine(config))
}

pub(crate) async fn listen(read: &Arc<AtomicU64>) -> Result<SocketAddr> {
    let listener = TcpListener::bind_with((Ipv4Addr::LOCALHOST, 0), &config("cubic")?).await?;
    let (address, read) = (listener.local_addr()?, Arc::clone(read));
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut buffer = vec![0; WRITE];
        loop {
            let bytes = stream.read(&mut buffer).await?;
            if bytes == 0 {
                return anyhow::Ok(());
            }
            read.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    });
    Ok(address)
}

pub(crate) async fn send(to: SocketAddr, controller: &str) -> Result<()> {
    let mut stream = TcpStream::connect_with(to, &config(controller)?).await?;
    let data = vec![7; WRITE];
    loop {
        stream.write_all(&data).await?;
    }
}
