//! HTTP server for the metrics and the status page: HTTP/1.1 without keep-alive, for GET only.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::{Monitor, Phase, metrics, status};

/// Maximum number of simultaneous clients. Further clients wait.
const CLIENTS: usize = 256;
/// Maximum time for the head of a request.
const HEAD: Duration = Duration::from_secs(1);
/// Maximum time for a request and its answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Maximum size of a request's head in bytes, and maximum number of its headers.
const MAX_HEAD: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
/// Pause after a failed accept, for example because too many files are open.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    Metrics,
    /// The page at `/`, and its data at `/status.json`.
    Status,
}

pub(crate) struct Server {
    listener: TcpListener,
    service: Service,
}

#[derive(Clone)]
struct Service {
    site: Site,
    monitor: Arc<Monitor>,
    /// Whether requests for names other than `localhost` are refused. Otherwise, a web page could make its own name
    /// resolve to this server and read the answers (DNS rebinding).
    checks_host: bool,
}

impl Server {
    pub(crate) async fn listen(site: Site, address: SocketAddr, monitor: Arc<Monitor>) -> io::Result<Self> {
        // Metrics may be collected by name, but only from other machines.
        let checks_host = site == Site::Status || address.ip().to_canonical().is_loopback();
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener, service: Service { site, monitor, checks_host } })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests. Does not return.
    pub(crate) async fn run(self) {
        let clients = Arc::new(Semaphore::new(CLIENTS));
        loop {
            let Ok(place) = Arc::clone(&clients).acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((client, _)) => {
                    let service = self.service.clone();
                    tokio::spawn(async move {
                        // A client may disconnect at any time.
                        let _ = timeout(ANSWER, service.serve(client)).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(target: "longhaul::status", "cannot accept a connection: {error}");
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

impl Service {
    async fn serve(self, client: TcpStream) -> hyper::Result<()> {
        let service = service_fn(|request: Request<hyper::body::Incoming>| {
            let answer = self.answer(&request);
            async { Ok::<_, Infallible>(answer) }
        });
        let mut connection = http1::Builder::new();
        connection.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false);
        connection.max_buf_size(MAX_HEAD).max_headers(MAX_HEADERS);
        connection.serve_connection(TokioIo::new(client), service).await
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<String> {
        if request.method() != Method::GET {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            return answer;
        }
        if self.checks_host && !is_for_us(request) {
            return text(StatusCode::FORBIDDEN, "use the address of this server, or localhost, instead of a name\n");
        }
        match (self.site, request.uri().path()) {
            (Site::Metrics, "/metrics") => answer(StatusCode::OK, metrics::CONTENT_TYPE, self.monitor.metrics()),
            (Site::Metrics, "/healthz") => match self.monitor.phase() {
                Phase::Ready => text(StatusCode::OK, "ready\n"),
                Phase::Draining => text(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
                Phase::Starting => text(StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
            },
            (Site::Status, "/status.json") => answer(StatusCode::OK, "application/json", self.monitor.status()),
            (Site::Status, "/") => page(),
            (Site::Metrics, _) => text(StatusCode::NOT_FOUND, "the metrics are at /metrics, the state at /healthz\n"),
            (Site::Status, _) => text(StatusCode::NOT_FOUND, "the page is at /, its data at /status.json\n"),
        }
    }
}

/// Returns whether a request names its server by an address or as `localhost`. A page from another site can only send
/// requests with that site's name.
fn is_for_us<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None, None) = (hosts.next(), hosts.next(), request.uri().authority()) else { return false };
    let Some(host) = host.to_str().ok().and_then(|host| host.parse::<hyper::http::uri::Authority>().ok()) else {
        return false;
    };
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    !host.as_str().contains('@') && (name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok())
}

fn page() -> Response<String> {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "there is no randomness\n");
    }
    let nonce: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut page = answer(StatusCode::OK, "text/html; charset=utf-8", status::page(&nonce));
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    );
    if let Ok(policy) = policy.try_into() {
        page.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    page
}

fn text(code: StatusCode, body: &'static str) -> Response<String> {
    answer(code, "text/plain; charset=utf-8", body.to_owned())
}

fn answer(code: StatusCode, kind: &'static str, body: String) -> Response<String> {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    let headers: [(HeaderName, &'static str); 4] = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests;
