//! Smallest program: tokio's traits on longhaul's types. One side sends a message, the other echoes it.

use longhaul::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move {
        let (mut stream, peer) = listener.accept().await?;
        println!("{peer} connected");
        let mut message = Vec::new();
        stream.read_to_end(&mut message).await?;
        stream.write_all(&message).await?;
        stream.close().await
    });

    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"hello from afar").await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    println!("{answer}");
    // The TCP stack is part of this process, which must not end before both sides have closed.
    stream.close().await?;
    server.await?
}
