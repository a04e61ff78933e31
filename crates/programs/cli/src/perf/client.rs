//! Client of a test, which determines the parameters.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use futures_util::future::try_join_all;
use longhaul::{TcpSocket, TcpStream};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::options::Options;
use super::protocol::{self, Hello, Message, Params, Protocol};
use super::reporter::Reporter;
use super::results::Results;
use super::runner::{Channel, Stream};
use super::session;
use super::timing::Timing;
use super::{tcp, udp};
use crate::address;
use crate::transport::{self, Interrupted, TransportArgs};

const TCP_PATIENCE: Duration = Duration::from_secs(1);

/// Runs a test with the server at `host` and reports its events to `report`. Returns the client's and the server's
/// results.
pub(crate) async fn run(
    options: &Options,
    host: &str,
    params: &Params,
    stop: watch::Receiver<bool>,
    report: &mut Reporter,
) -> Result<(Results, Results)> {
    let addresses = resolve(options, host).await?;
    report.connecting(host, options.port);
    // If the reader of the report has exited, the test is still begun, and ends in order.
    let is_unread = *stop.borrow();
    let connected = tokio::select! {
        biased;
        () = stopped(stop.clone()), if !is_unread => return Err(Interrupted.into()),
        connected = connect_control(options, &addresses) => connected,
    };
    let control = match connected {
        Ok(control) => control,
        Err(error) => {
            let error = error.context("unable to connect to server");
            return Err(if takes_tcp(&addresses).await {
                anyhow!("{error:#}; {}", other_program(host))
            } else {
                error
            });
        }
    };
    let cookie = protocol::new_cookie().context("the system provides no random numbers")?;
    report.report.cookie.clone_from(&cookie);
    let mut test = Test { options, params, cookie, control };
    let outcome = test.run(stop, report).await;
    let outcome = match outcome {
        Ok(results) if params.server_output => test.read_output(report).await.map(|()| results),
        outcome => outcome,
    };
    if outcome.is_ok() {
        // Both ends have all results; a failed close has no consequence.
        let _ = timeout(options.transport.patience(), finish(test.control)).await;
    } else {
        test.control.abort();
    }
    outcome
}

/// Waits until the test is to stop.
async fn stopped(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|stops| *stops).await.is_err() {
        std::future::pending().await
    }
}

async fn finish(mut control: TcpStream) -> std::io::Result<()> {
    transport::drain(&mut control).await?;
    transport::close(control).await
}

/// Returns whether a TCP listener of the system answers at one of `addresses`.
async fn takes_tcp(addresses: &[SocketAddr]) -> bool {
    let connecting = longhaul::race(addresses.iter().copied(), tokio::net::TcpStream::connect::<SocketAddr>);
    matches!(timeout(TCP_PATIENCE, connecting).await, Ok(Ok(_)))
}

fn other_program(host: &str) -> String {
    format!(
        "but a program accepts TCP of the system there, as iperf3 does: perf needs `perf -s` on {host}, because it \
         sends TCP inside UDP, and its protocol is not that of iperf3"
    )
}

/// Resolves `host` to addresses of the selected family.
async fn resolve(options: &Options, host: &str) -> Result<Vec<SocketAddr>> {
    let found = address::lookup(host, options.port).await;
    let found = found.with_context(|| format!("unable to resolve {host:?}"))?;
    let bound_to = |address: &SocketAddr| options.bind.is_none_or(|bind| bind.is_ipv4() == address.is_ipv4());
    let wanted = |address: &SocketAddr| if address.is_ipv4() { !options.version6 } else { !options.version4 };
    let fitting: Vec<_> = found.into_iter().filter(wanted).filter(bound_to).collect();
    if fitting.is_empty() {
        bail!("{host:?} has no address of the selected family");
    }
    Ok(fitting)
}

async fn connect_control(options: &Options, addresses: &[SocketAddr]) -> Result<TcpStream> {
    let transport = options.transport.unlogged();
    let transport = &transport;
    let attempt = |address| async move {
        let socket = socket(transport, options.bind, address)?;
        Ok(connect(options, socket, address).await?)
    };
    longhaul::race(addresses.iter().copied(), attempt).await
}

/// Connects; fails after `--connect-timeout`, if given.
async fn connect(options: &Options, socket: TcpSocket, address: SocketAddr) -> io::Result<TcpStream> {
    let limit = options.connect_timeout.map_or(Duration::MAX, Duration::from_millis);
    let connected = timeout(limit, socket.connect(address)).await;
    connected.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within --connect-timeout")))
}

fn socket(transport: &TransportArgs, bind: Option<SocketAddr>, address: SocketAddr) -> Result<TcpSocket> {
    let socket = transport.socket(address)?;
    if let Some(local) = bind {
        socket.bind(local).with_context(|| format!("cannot bind to {}", local.ip()))?;
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
    async fn run(&mut self, stop: watch::Receiver<bool>, report: &mut Reporter) -> Result<(Results, Results)> {
        let patience = self.options.transport.patience();
        let ports = timeout(patience, self.ask()).await.context("the server did not reply")??;
        let streams = match self.params.protocol {
            Protocol::Tcp => {
                let streams = self.connect_tcp(&ports).await?;
                protocol::write(&mut self.control, &Message::Ready).await?;
                let start = timeout(patience, protocol::read(&mut self.control)).await;
                expect_start(start.context("the server did not start the test")??)?;
                streams
            }
            Protocol::Udp => timeout(patience, self.connect_udp(&ports)).await.context("no reply over UDP")??,
        };
        // All streams are connected already.
        let (_, mut arrivals) = mpsc::channel(1);
        let timing = Timing::start(self.params, (patience, self.options.idle()), None);
        session::conduct(&mut self.control, (self.params, timing), streams, &mut arrivals, stop, report).await
    }

    async fn read_output(&mut self, report: &mut Reporter) -> Result<()> {
        let output = timeout(self.options.transport.patience(), protocol::read(&mut self.control)).await;
        match output.context("the server did not send its report")?? {
            Message::Output(text) => report.report.server_output = Some(text),
            _ => bail!("the server sent an unexpected message"),
        }
        Ok(())
    }

    async fn ask(&mut self) -> Result<Vec<u16>> {
        let control = &mut self.control;
        protocol::write(control, &Hello::new(&self.cookie, None)).await?;
        protocol::write(control, &Message::Params(self.params.clone())).await?;
        match protocol::read(control).await? {
            Message::Accepted(ports) => Ok(ports),
            Message::Refused(reason) => Err(anyhow!(reason)),
            _ => bail!("the server sent an unexpected message"),
        }
    }

    fn stream_numbers(&self) -> impl Iterator<Item = (usize, bool, Hello)> {
        let sends = self.params.client_sends().into_iter().enumerate();
        sends.map(|(number, sends)| (number, sends, Hello::new(&self.cookie, Some(number as u16))))
    }

    /// Connects the streams. The client sends the numbers of the streams on which the server sends at once. On the
    /// other streams, the number precedes the first data in the same write, so that nothing is sent before the data.
    async fn connect_tcp(&self, ports: &[u16]) -> Result<Vec<Stream>> {
        let mut server = self.control.peer_addr()?;
        server.set_port(ports.first().copied().unwrap_or(server.port()));
        let mut connecting = Vec::new();
        for (number, sends, hello) in self.stream_numbers() {
            let mut socket = socket(&self.options.transport.for_connection(number), self.options.bind, server)?;
            tcp::set_up(&mut socket, self.params)?;
            let opening = protocol::encode(&hello)?;
            connecting.push(async move {
                let connected = connect(self.options, socket, server).await;
                let mut stream = connected.context("unable to connect stream")?;
                if !sends {
                    stream.write_all(&opening).await?;
                }
                Ok::<_, anyhow::Error>(Stream { sends, channel: Channel::Tcp(stream, opening) })
            });
        }
        try_join_all(connecting).await
    }

    /// Opens the UDP sockets, and announces them to the server until it starts the test.
    async fn connect_udp(&mut self, ports: &[u16]) -> Result<Vec<Stream>> {
        let (mut server, mut local) = (self.control.peer_addr()?, self.control.local_addr()?);
        local.set_port(0);
        let mut sockets = Vec::new();
        for ((_, _, hello), &port) in self.stream_numbers().zip(ports) {
            let socket = udp::socket(local, self.params).context("cannot open a UDP socket")?;
            server.set_port(port);
            socket.connect(server).await.context("cannot open a UDP socket")?;
            sockets.push((socket, hello));
        }
        let sends = self.params.client_sends();
        if sockets.len() < sends.len() {
            bail!("the server announced too few ports");
        }
        tokio::select! {
            start = protocol::read(&mut self.control) => expect_start(start?)?,
            refused = udp::knock(&sockets) => refused.context("unable to connect stream")?,
        }
        let streams = sockets.into_iter().zip(sends);
        Ok(streams.map(|((socket, _), sends)| Stream { sends, channel: Channel::Udp(socket) }).collect())
    }
}

fn expect_start(message: Message) -> Result<()> {
    match message {
        Message::Start => Ok(()),
        Message::Failed(reason) | Message::Refused(reason) => Err(anyhow!(reason)),
        _ => bail!("the server sent an unexpected message"),
    }
}
