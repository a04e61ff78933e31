//! Runs the examples and checks what they return.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[path = "../examples/tonic.rs"]
mod grpc;
#[path = "../examples/http.rs"]
mod http;
#[path = "../examples/echo_tls.rs"]
mod tls;

#[tokio::test]
async fn axum_serves_what_hyper_fetches() {
    assert_eq!(http::run().await.unwrap(), "hello, 127.0.0.1");
}

#[tokio::test]
async fn tonic_answers() {
    assert_eq!(grpc::run().await.unwrap(), 1, "SERVING of grpc.health.v1");
}

#[tokio::test]
async fn tls_echoes() {
    assert_eq!(tls::run("hello").await.unwrap(), "hello");
}
