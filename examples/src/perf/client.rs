//! The client: it says what is measured.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, anyhow, bail};
use longhaul::{TcpSocket, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::options::Options;
use super::protocol::{self, Hello, Message, Params, Protocol};
use super::results::Results;
use super::runner::{Channel, Stream};
use super::session;
use super::text::Reporter;
use super::udp;
use crate::transport::TransportArgs;

/// Runs a test with the server at `host`; `report` is told of everything. The results: ours and the server's.
///
/// # Errors
/// Why there are none.
pub async fn run(options: &Options, host: &str, params: &Params, report: &mut Reporter) -> Result<(Results, Results)> {
    let addresses = resolve(options, host).await?;
    report.connecting(host, options.port);
    let control = connect_control(options, &addresses).await.context("unable to connect to server")?;
    let cookie = protocol::new_cookie().context("no randomness")?;
    report.start.cookie.clone_from(&cookie);
    let mut test = Test { options, params, cookie, control };
    let outcome = test.run(report).await;
    if outcome.is_ok() {
        // Both have everything: what may still go wrong concerns nobody.
        let _ = timeout(options.transport.patience(), finish(test.control)).await;
    } else {
        test.control.abort();
    }
    outcome
}

async fn finish(mut control: TcpStream) -> std::io::Result<()> {
    control.shutdown().await?;
    let mut rest = [0; 64];
    while control.read(&mut rest).await? > 0 {}
    control.close().await
}

/// The addresses of `host` of the family that is wanted.
async fn resolve(options: &Options, host: &str) -> Result<Vec<SocketAddr>> {
    let found = tokio::net::lookup_host((host, options.port)).await;
    let found = found.with_context(|| format!("unable to resolve {host:?}"))?;
    let bound_to = |address: &SocketAddr| options.bind.is_none_or(|bind| bind.is_ipv4() == address.is_ipv4());
    let wanted = |address: &SocketAddr| if address.is_ipv4() { !options.version6 } else { !options.version4 };
    let fitting: Vec<_> = found.filter(wanted).filter(bound_to).collect();
    if fitting.is_empty() {
        bail!("{host:?} has no address of the family that is wanted");
    }
    Ok(fitting)
}

async fn connect_control(options: &Options, addresses: &[SocketAddr]) -> Result<TcpStream> {
    let transport = options.transport.unlogged();
    let mut error = anyhow!("no address");
    for &address in addresses {
        match socket(&transport, options.bind, address)?.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(failed) => error = failed.into(),
        }
    }
    Err(error)
}

/// A socket to connect to `address`.
fn socket(transport: &TransportArgs, bind: Option<IpAddr>, address: SocketAddr) -> Result<TcpSocket> {
    let socket = transport.socket(address)?;
    if let Some(ip) = bind {
        socket.bind(SocketAddr::new(ip, 0)).with_context(|| format!("cannot bind to {ip}"))?;
    }
    Ok(socket)
}

struct Test<'a> {
    options: &'a Options,
    params: &'a Params,
    cookie: String,
    control: TcpStream,
}

impl Test<'_> {
    async fn run(&mut self, report: &mut Reporter) -> Result<(Results, Results)> {
        let patience = self.options.transport.patience();
        let ports = timeout(patience, self.ask()).await.context("the server does not answer")??;
        let streams = match self.params.protocol {
            Protocol::Tcp => {
                let streams = self.connect_tcp(&ports).await?;
                let start = timeout(patience, protocol::read(&mut self.control)).await;
                expect_start(start.context("the server does not start")??)?;
                streams
            }
            Protocol::Udp => timeout(patience, self.connect_udp(&ports)).await.context("no answer to UDP")??,
        };
        report.start.streams_are(&streams);
        report.begin();
        let mut observe = |interval: &_| report.interval(interval);
        session::conduct(&mut self.control, self.params, streams, patience, &mut observe).await
    }

    /// Says what is wanted; the ports for streams.
    async fn ask(&mut self) -> Result<Vec<u16>> {
        let control = &mut self.control;
        protocol::write(control, &Hello::new(&self.cookie, None)).await?;
        protocol::write(control, &Message::Params(self.params.clone())).await?;
        match protocol::read(control).await? {
            Message::Accepted(ports) => Ok(ports),
            Message::Refused(reason) => Err(anyhow!(reason)),
            _ => bail!("the server sent what does not belong here"),
        }
    }

    fn stream_numbers(&self) -> impl Iterator<Item = (usize, bool, Hello)> {
        let sends = self.params.client_sends().into_iter().enumerate();
        sends.map(|(number, sends)| (number, sends, Hello::new(&self.cookie, Some(number as u16))))
    }

    async fn connect_tcp(&self, ports: &[u16]) -> Result<Vec<Stream>> {
        let mut server = self.control.peer_addr()?;
        server.set_port(ports.first().copied().unwrap_or(server.port()));
        let mut connecting = JoinSet::new();
        for (number, sends, hello) in self.stream_numbers() {
            let socket = socket(&self.options.transport.for_connection(number), self.options.bind, server)?;
            if let Some(window) = self.params.window {
                socket.set_send_buffer_size(window)?;
                socket.set_recv_buffer_size(window)?;
            }
            connecting.spawn(async move {
                let mut stream = socket.connect(server).await.context("unable to connect stream")?;
                protocol::write(&mut stream, &hello).await?;
                Ok::<_, anyhow::Error>((number, Stream { sends, channel: Channel::Tcp(stream) }))
            });
        }
        let mut streams = Vec::new();
        while let Some(stream) = connecting.join_next().await {
            streams.push(stream??);
        }
        streams.sort_unstable_by_key(|(number, _)| *number);
        Ok(streams.into_iter().map(|(_, stream)| stream).collect())
    }

    /// Opens the sockets and shows them to the server until it starts.
    async fn connect_udp(&mut self, ports: &[u16]) -> Result<Vec<Stream>> {
        let (server, local) = (self.control.peer_addr()?, self.control.local_addr()?);
        let mut sockets = Vec::new();
        for ((_, _, hello), &port) in self.stream_numbers().zip(ports) {
            let socket = udp::socket(SocketAddr::new(local.ip(), 0), self.params.window).context("no UDP socket")?;
            socket.connect(SocketAddr::new(server.ip(), port)).await.context("no UDP socket")?;
            sockets.push((socket, hello));
        }
        let sends = self.params.client_sends();
        if sockets.len() < sends.len() {
            bail!("the server names too few ports");
        }
        tokio::select! {
            start = protocol::read(&mut self.control) => expect_start(start?)?,
            refused = udp::knock(&sockets) => refused.context("unable to connect stream")?,
        }
        let sockets = sockets.into_iter().zip(sends);
        Ok(sockets.map(|((socket, _), sends)| Stream { sends, channel: Channel::Udp(socket) }).collect())
    }
}

fn expect_start(message: Message) -> Result<()> {
    match message {
        Message::Start => Ok(()),
        Message::Failed(reason) | Message::Refused(reason) => Err(anyhow!(reason)),
        _ => bail!("the server sent what does not belong here"),
    }
}
