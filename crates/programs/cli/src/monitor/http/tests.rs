use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::monitor::Role;

async fn server(site: Site) -> SocketAddr {
    let monitor = Monitor::new(Role::Gateway);
    let server = Server::listen(site, ([127, 0, 0, 1], 0).into(), monitor).await.unwrap();
    let address = server.address().unwrap();
    tokio::spawn(server.run());
    address
}

/// Returns the whole answer of the server to `request`.
async fn answer(address: SocketAddr, request: &[u8]) -> String {
    let mut client = TcpStream::connect(address).await.unwrap();
    // The server may close the connection before it has read everything.
    let _ = client.write_all(request).await;
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

fn get(path: &str, host: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
}

fn code(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[tokio::test]
async fn only_names_of_this_machine_are_answered() {
    for (site, path) in [(Site::Status, "/"), (Site::Status, "/status.json"), (Site::Metrics, "/metrics")] {
        let address = server(site).await;
        let port = address.port();
        for host in ["127.0.0.1", "localhost", "LocalHost:80", &format!("127.0.0.1:{port}"), "[::1]:9", "192.0.2.1"] {
            assert_eq!(code(&answer(address, &get(path, host)).await), "200", "{path} {host}");
        }
        for host in
            ["attacker.example", "localhost.attacker.example", "127.0.0.1.attacker.example:80", "", "a@localhost"]
        {
            assert_eq!(code(&answer(address, &get(path, host)).await), "403", "{path} {host}");
        }
        for request in [
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n"),
            format!("GET http://attacker.example{path} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            format!("GET {path} HTTP/1.0\r\n\r\n"),
        ] {
            assert_eq!(code(&answer(address, request.as_bytes()).await), "403", "{request}");
        }
    }
}

/// Collectors on other machines address the server by name.
#[tokio::test]
async fn metrics_for_other_machines_are_answered_for_any_name() {
    let monitor = Monitor::new(Role::Gateway);
    let server = Server::listen(Site::Metrics, ([0, 0, 0, 0], 0).into(), monitor.clone()).await.unwrap();
    assert!(!server.service.checks_host);
    let status = Server::listen(Site::Status, ([0, 0, 0, 0], 0).into(), monitor).await.unwrap();
    assert!(status.service.checks_host);
}

#[tokio::test]
async fn only_get_and_only_known_paths_are_answered() {
    let (status, metrics) = (server(Site::Status).await, server(Site::Metrics).await);
    for method in ["POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let request = format!("{method} / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        let answer = answer(status, request.as_bytes()).await;
        assert!(code(&answer) == "405" && answer.to_lowercase().contains("allow: get"), "{method}: {answer}");
    }
    for (address, path, expected) in [
        (status, "/", "200"),
        (status, "/metrics", "404"),
        (status, "/../etc/passwd", "404"),
        (metrics, "/", "404"),
        (metrics, "/status.json", "404"),
        (metrics, "/metrics?x=1", "200"),
    ] {
        assert_eq!(code(&answer(address, &get(path, "localhost")).await), expected, "{path}");
    }
}

/// A load balancer and Kubernetes send new connections only while the answer is 200.
#[tokio::test]
async fn health_is_ready_between_the_start_and_the_end() {
    let monitor = Monitor::new(Role::Gateway);
    let server = Server::listen(Site::Metrics, ([127, 0, 0, 1], 0).into(), Arc::clone(&monitor)).await.unwrap();
    let address = server.address().unwrap();
    tokio::spawn(server.run());
    for (phase, expected) in [(Phase::Starting, "503"), (Phase::Ready, "200"), (Phase::Draining, "503")] {
        monitor.set_phase(phase);
        let answer = answer(address, &get("/healthz", "10.0.0.1")).await;
        assert!(code(&answer) == expected && answer.ends_with(&format!("{phase}\n")), "{answer}");
    }
}

#[tokio::test]
async fn answers_have_the_headers_that_protect_them() {
    let address = server(Site::Status).await;
    let (one, other) = (answer(address, &get("/", "localhost")).await, answer(address, &get("/", "localhost")).await);
    let nonce = |page: &str| page.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    assert_ne!(nonce(&one), nonce(&other));
    assert!(one.contains(&format!("<script nonce=\"{}\">", nonce(&one))) && !one.contains("{{"));
    assert!(
        !one.contains("innerHTML") && !one.contains("src=") && !one.contains("http://") || one.contains("www.w3.org")
    );
    for header in
        ["default-src 'none'", "frame-ancestors 'none'", "x-content-type-options: nosniff", "cache-control: no-store"]
    {
        assert!(one.to_lowercase().contains(header), "{header}: {one}");
    }
}

#[tokio::test]
async fn requests_are_bounded() {
    let address = server(Site::Status).await;
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(2 * MAX_HEAD));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(MAX_HEADERS + 1));
    for request in [long, many] {
        assert_eq!(code(&answer(address, request.as_bytes()).await), "431");
    }
    assert_eq!(code(&answer(address, b"\x16\x03\x01\x02\x00").await), "400");
}

/// Clients that send nothing are dropped, so that they do not keep others out.
#[tokio::test(start_paused = true)]
async fn silent_clients_keep_nobody_out() {
    let address = server(Site::Status).await;
    let mut silent = Vec::new();
    for _ in 0..2 * CLIENTS {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    assert_eq!(code(&answer(address, &get("/", "localhost")).await), "200");
}
