//! Sends 4 MB over the loopback interface with a congestion-avoidance algorithm from another crate.
//!
//! `cargo run -p longhaul-controller -- "slow-start+gaimd(keep=0.9)"`

use anyhow::Result;
use longhaul::{Config, TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SIZE: usize = 4_000_000;

#[tokio::main]
async fn main() -> Result<()> {
    longhaul_controller::register()?;
    let spec = std::env::args().nth(1).unwrap_or_else(|| "slow-start+gaimd".to_owned());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await?;
        stream.close().await?;
        std::io::Result::Ok(received.len())
    });

    let mut stream = TcpStream::connect_with(address, Config::default().congestion(spec.parse()?)).await?;
    stream.write_all(&vec![7; SIZE]).await?;
    let info = stream.info()?;
    stream.close().await?;
    println!(
        "{} bytes arrived, sent by {} with a window of {} bytes",
        server.await??,
        info.congestion,
        info.snd_cwnd_bytes
    );
    Ok(())
}
