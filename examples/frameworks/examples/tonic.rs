//! gRPC over longhaul: tonic's health service and its client.
//!
//! `cargo run -p longhaul-frameworks --example tonic`

use anyhow::Result;
use futures_util::stream;
use hyper_util::rt::TokioIo;
use longhaul::{TcpListener, TcpStream};
use tonic::transport::{Endpoint, Server};
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Asks a server for its health status and returns the answer.
///
/// # Errors
/// Returns the errors of the network and of gRPC.
pub(crate) async fn run() -> Result<i32> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let incoming = stream::poll_fn(move |cx| listener.poll_accept(cx).map_ok(|(stream, _)| stream).map(Some));
    let (reporter, service) = tonic_health::server::health_reporter();
    reporter.set_service_status("", ServingStatus::Serving).await;
    let server = tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));

    let connector = tower::service_fn(move |_| async move { TcpStream::connect(address).await.map(TokioIo::new) });
    let channel = Endpoint::try_from(format!("http://{address}"))?.connect_with_connector(connector).await?;
    let answer = HealthClient::new(channel).check(HealthCheckRequest { service: String::new() }).await?;
    server.abort();
    Ok(answer.into_inner().status)
}

#[tokio::main]
#[allow(dead_code, reason = "the tests call `run`")]
async fn main() -> Result<()> {
    println!("status {}", run().await?);
    Ok(())
}
