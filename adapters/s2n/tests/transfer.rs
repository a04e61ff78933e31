//! Transfers of s2n-quic over loopback under longhaul's controllers.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::net::{Ipv4Addr, SocketAddr};

use s2n_quic::client::Connect;
use s2n_quic::{Client, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SIZE: usize = 20_000_000;

async fn transfer(name: &str) -> usize {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let (certificate, secret) = (params.self_signed(&key).unwrap().pem(), key.serialize_pem());
    let congestion = || longhaul_s2n::congestion(name).unwrap();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::builder().with_tls((certificate.as_str(), secret.as_str())).unwrap();
    let mut server = server.with_io(any).unwrap().with_congestion_controller(congestion()).unwrap().start().unwrap();
    let address = server.local_addr().unwrap();
    let received = tokio::spawn(async move {
        let mut connection = server.accept().await.unwrap();
        let mut stream = connection.accept_receive_stream().await.unwrap().unwrap();
        let mut data = Vec::new();
        stream.read_to_end(&mut data).await.unwrap();
        data.len()
    });
    let client = Client::builder().with_tls(certificate.as_str()).unwrap().with_io(any).unwrap();
    let client = client.with_congestion_controller(congestion()).unwrap().start().unwrap();
    let mut connection = client.connect(Connect::new(address).with_server_name("localhost")).await.unwrap();
    let mut stream = connection.open_send_stream().await.unwrap();
    stream.write_all(&vec![7; SIZE]).await.unwrap();
    // The server may have closed the connection before it acknowledges the end.
    let _ = stream.shutdown().await;
    received.await.unwrap()
}

#[tokio::test]
async fn data_arrives_under_each_controller() {
    for name in ["cubic", "bbr", "copa", "copa-cubic"] {
        assert_eq!(transfer(name).await, SIZE, "{name}");
    }
}

#[test]
fn what_cannot_run_is_refused_when_the_endpoint_is_configured() {
    let told = |name| longhaul_s2n::congestion(name).unwrap_err().to_string();
    assert!(told("cubik").contains("unknown congestion control `cubik`"));
    assert!(told("slow-start(iw=0)+cubic").contains("iw"));
    assert!(told("copa(delta=1000)").contains("delta"), "{}", told("copa(delta=1000)"));
}
