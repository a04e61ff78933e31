//! HTTP over longhaul: an axum server, and hyper-util's client.
//!
//! `cargo run -p longhaul-frameworks --example http`

use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use axum::extract::ConnectInfo;
use axum::extract::connect_info::Connected;
use axum::routing::get;
use axum::serve::IncomingStream;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use longhaul::{TcpListener, TcpStream};

/// Address of the client. axum implements `Connected` for tokio's listener only.
#[derive(Clone, Debug)]
struct Peer(SocketAddr);

impl Connected<IncomingStream<'_, TcpListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// Serves one page, fetches it and returns its text.
///
/// # Errors
/// Returns the errors of the network and of HTTP.
pub(crate) async fn run() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router =
        Router::new().route("/", get(async |ConnectInfo(peer): ConnectInfo<Peer>| format!("hello, {}", peer.0.ip())));
    let server =
        tokio::spawn(axum::serve(listener, router.into_make_service_with_connect_info::<Peer>()).into_future());

    // A real client would look up the name of the URI.
    let connector =
        tower::service_fn(move |_| Box::pin(async move { TcpStream::connect(address).await.map(TokioIo::new) }));
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let answer = client.get(format!("http://{address}/").parse()?).await?;
    let page = answer.into_body().collect().await?.to_bytes();
    server.abort();
    Ok(String::from_utf8(page.to_vec())?)
}

#[tokio::main]
#[allow(dead_code, reason = "the tests call `run`")]
async fn main() -> Result<()> {
    println!("{}", run().await?);
    Ok(())
}
