//! TLS over longhaul: `tokio-rustls` accepts longhaul's stream as it does tokio's. The certificate is generated at
//! the start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use longhaul::{TcpListener, TcpStream};
use longhaul_examples::transport;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Host name in the certificate.
const NAME: &str = "localhost";

/// Echo server and its client over TLS; both run in this process unless told otherwise
#[derive(Debug, Parser)]
#[command(name = "echo_tls", version)]
struct Args {
    /// Only serve, on this address, and write the certificate to --cert
    #[arg(long, value_name = "ADDR", requires = "cert", conflicts_with = "connect")]
    listen: Option<SocketAddr>,
    /// Only connect to this address, and trust the certificate in --cert
    #[arg(long, value_name = "ADDR", requires = "cert")]
    connect: Option<SocketAddr>,
    /// The certificate's file (PEM)
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Message that the client sends
    #[arg(long, default_value = "hello from afar, in private")]
    message: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    transport::outcome("echo_tls", run(Args::parse()).await)
}

async fn run(args: Args) -> Result<()> {
    let cert = args.cert.unwrap_or_default();
    match (args.listen, args.connect) {
        (Some(address), _) => {
            let (identity, pem) = Identity::generate()?;
            std::fs::write(&cert, pem).with_context(|| format!("cannot write {}", cert.display()))?;
            let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
            eprintln!("listening on {}, certificate in {}", listener.local_addr()?, cert.display());
            serve(listener, identity.acceptor()?).await
        }
        (None, Some(address)) => echo(address, connector(load(&cert)?)?, &args.message).await,
        (None, None) => {
            let (identity, _) = Identity::generate()?;
            let connector = connector(identity.certificate.clone())?;
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            let server = tokio::spawn(serve(listener, identity.acceptor()?));
            tokio::select! {
                result = echo(address, connector, &args.message) => result,
                served = server => served?,
            }
        }
    }
}

/// A certificate and its private key.
struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Generates a self-signed certificate; also returns it as PEM.
    fn generate() -> Result<(Self, String)> {
        let generated = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(generated.signing_key.serialize_der()).into();
        Ok((Self { certificate: generated.cert.der().clone(), key }, generated.cert.pem()))
    }

    fn acceptor(self) -> Result<TlsAcceptor> {
        let config =
            ServerConfig::builder().with_no_client_auth().with_single_cert(vec![self.certificate], self.key)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn load(path: &Path) -> Result<CertificateDer<'static>> {
    CertificateDer::from_pem_file(path).with_context(|| format!("cannot read a certificate from {}", path.display()))
}

fn connector(trusted: CertificateDer<'static>) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted)?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Serves connections concurrently until the listener fails.
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

async fn echo(address: SocketAddr, connector: TlsConnector, message: &str) -> Result<()> {
    let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
    let mut stream = connector.connect(ServerName::try_from(NAME)?, stream).await.context("TLS handshake")?;
    stream.write_all(message.as_bytes()).await?;
    // Ends the sending direction of TLS and of TCP; the reply can still be received.
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (stream, session) = stream.into_inner();
    println!("{answer}");
    println!("over {:?}, {:?}", session.protocol_version(), session.negotiated_cipher_suite().map(|s| s.suite()));
    stream.close().await?;
    ensure!(answer == message, "the answer is not what was said");
    Ok(())
}
