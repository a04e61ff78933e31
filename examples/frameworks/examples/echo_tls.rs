//! TLS over longhaul: `tokio-rustls` accepts a longhaul stream as it accepts tokio's. Server and client run in one
//! process, with a certificate generated at start.
//!
//! `cargo run -p longhaul-frameworks --example echo_tls`

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use longhaul::{TcpListener, TcpStream};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Host name in the certificate.
const NAME: &str = "localhost";

#[tokio::main]
#[allow(dead_code, reason = "the test of this package calls `run`")]
async fn main() -> Result<()> {
    println!("{}", run("hello from afar, in private").await?);
    Ok(())
}

/// Sends `message` to an echo server over TLS and returns its answer.
pub(crate) async fn run(message: &str) -> Result<String> {
    let generated = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let certificate = generated.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(generated.signing_key.serialize_der()).into();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = serve(listener, acceptor(certificate.clone(), key)?);
    tokio::select! {
        answer = echo(address, connector(certificate)?, message) => answer,
        served = server => served.and_then(|()| Err(anyhow::anyhow!("the server has stopped"))),
    }
}

fn acceptor(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Result<TlsAcceptor> {
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn connector(trusted: CertificateDer<'static>) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted)?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Echoes the data of each client in a task of its own, until the listener fails.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor) -> Result<()> {
    loop {
        let (stream, peer) = listener.accept().await?;
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(stream, acceptor).await {
                eprintln!("{peer}: {error:#}");
            }
        });
    }
}

async fn answer(stream: TcpStream, acceptor: TlsAcceptor) -> Result<()> {
    let mut stream = acceptor.accept(stream).await.context("TLS handshake")?;
    let (mut from, mut to) = tokio::io::split(&mut stream);
    tokio::io::copy(&mut from, &mut to).await?;
    stream.shutdown().await?;
    stream.into_inner().0.close().await?;
    Ok(())
}

async fn echo(address: SocketAddr, connector: TlsConnector, message: &str) -> Result<String> {
    let stream = TcpStream::connect(address).await?;
    let mut stream = connector.connect(ServerName::try_from(NAME)?, stream).await.context("TLS handshake")?;
    stream.write_all(message.as_bytes()).await?;
    // This ends the client's direction of both TLS and TCP; the answer can still arrive.
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    stream.into_inner().0.close().await?;
    Ok(answer)
}
