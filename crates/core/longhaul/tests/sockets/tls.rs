//! TLS over a stream, which needs only the traits of `tokio::io`.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::common::{pair, pattern, soon};
use longhaul::TcpStream;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

async fn tls_pair() -> (client::TlsStream<TcpStream>, server::TlsStream<TcpStream>) {
    let own = rcgen::generate_simple_self_signed(vec!["longhaul.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    let server = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![own.cert.into()], key).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let (a, b) = pair().await;
    let name = ServerName::try_from("longhaul.test").unwrap();
    let (a, b) = soon(async {
        tokio::join!(
            TlsConnector::from(Arc::new(client)).connect(name, a),
            TlsAcceptor::from(Arc::new(server)).accept(b)
        )
    })
    .await;
    (a.unwrap(), b.unwrap())
}

#[tokio::test]
async fn an_echo_of_sixteen_mebibytes() {
    let (a, b) = tls_pair().await;
    let echo = tokio::spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(b);
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
        writer.shutdown().await.unwrap();
        reader.unsplit(writer)
    });
    let data = pattern(16 << 20);
    let copy = data.clone();
    let (mut reader, mut writer) = tokio::io::split(a);
    let sender = tokio::spawn(async move {
        writer.write_all(&copy).await.unwrap();
        writer.shutdown().await.unwrap();
        writer
    });
    let mut got = Vec::new();
    soon(reader.read_to_end(&mut got)).await.unwrap();
    assert!(got == data);
    drop((soon(sender).await.unwrap(), soon(echo).await.unwrap()));
}

#[tokio::test]
async fn a_close_without_close_notify_is_a_truncation() {
    let (mut a, b) = tls_pair().await;
    let (stream, _) = b.into_inner();
    // An orderly close for TCP, but a truncation for TLS.
    soon(stream.close()).await.unwrap();
    assert_eq!(soon(a.read(&mut [0])).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_peer_dropped_without_close_notify_is_an_error() {
    let (mut a, b) = tls_pair().await;
    drop(b);
    let mut all = Vec::new();
    let error = soon(a.read_to_end(&mut all)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{error}");
}

#[tokio::test]
async fn a_close_notify_ends_the_stream() {
    let (mut a, mut b) = tls_pair().await;
    b.write_all(b"last words").await.unwrap();
    b.shutdown().await.unwrap();
    let mut all = String::new();
    soon(a.read_to_string(&mut all)).await.unwrap();
    assert_eq!(all, "last words");
}
