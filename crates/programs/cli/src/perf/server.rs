//! Server, which runs the tests of its clients one after another.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result, bail};
use futures_util::future::try_join_all;
use longhaul::{TcpListener, TcpStream};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::greeting::{self, Arrival, Door};
use super::options::Options;
use super::protocol::{self, Direction, Hello, Message, Params, Protocol};
use super::reporter::Reporter;
use super::results::Results;
use super::runner::{Channel, Stream};
use super::session;
use super::timing::Timing;
use super::{tcp, udp};
use crate::output;
use crate::transport;

/// Ports of the streams, the separate listener for TCP, which closes when dropped, and the sockets for UDP.
type Prepared = (Vec<u16>, Option<Door>, Vec<UdpSocket>);

/// Maximum number of waiting connections that have sent a hello: more than the number of streams of any test.
const WAITING: usize = 512;
/// Maximum number of control connections of completed tests that the clients have not closed yet.
const MAX_ENDING: usize = 32;
/// Message of iperf3's server to a client during another client's test.
const BUSY: &str = "the server is busy running a test. try again later";

type Arrivals = mpsc::Receiver<io::Result<Arrival>>;

/// Serves clients forever, or only one with `--one-off`. Returns an error if the socket fails, or if the only test
/// failed.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let listener = listen(options).context("unable to start listener for connections")?;
    let address = listener.local_addr()?;
    let (sender, mut arrivals) = mpsc::channel(WAITING);
    let door = greeting::open(listener, sender.clone());
    // Control connections of completed and refused tests that the clients have not closed yet.
    let (mut ending, mut refused) = (JoinSet::new(), JoinSet::new());
    for number in 1_u64.. {
        let mut report = Reporter::new(options, false)?;
        report.listening(address.port(), number);
        let (control, params) = next_client(&mut arrivals).await?;
        let (to_test, streams) = mpsc::channel(WAITING);
        let (hello, control) = (control.hello, control.stream);
        let mut test = Test { options, address, hello, control, streams, wants_output: false, refusal: None };
        let outcome = test.run(params, (&sender, &mut arrivals), to_test, &mut report).await;
        report.end(&outcome);
        let written = report.check();
        let (control, patience) = (test.control, options.transport.patience());
        if outcome.is_ok() {
            let output = test.wants_output.then(|| report.written());
            ending.spawn(async move {
                // Both ends have all results; a failed close has no consequence.
                let _ = timeout(patience, finish(control, output)).await;
            });
        } else if let Some(reason) = test.refusal.filter(|_| refused.len() < greeting::REFUSALS) {
            refused.spawn(greeting::refuse(control, reason, patience));
        } else {
            control.abort();
        }
        if options.one_off {
            // Other clients are notified at once that the server has ended.
            drop((door, arrivals));
            while ending.join_next().await.is_some() || refused.join_next().await.is_some() {}
            return outcome.and(written);
        }
        if let Err(error) = written {
            output::say(&format!("longhaul perf: error - {error:#}"));
        }
        while ending.try_join_next().is_some() || refused.try_join_next().is_some() {}
        if ending.len() > MAX_ENDING {
            ending.abort_all();
        }
    }
    Ok(())
}

async fn finish(mut control: TcpStream, output: Option<String>) -> io::Result<()> {
    if let Some(output) = output {
        protocol::write(&mut control, &Message::Output(output)).await?;
    }
    transport::close(control).await
}

/// Listens on the given address. By default, listens on all addresses of both families, or of the only available one.
fn listen(options: &Options) -> Result<TcpListener> {
    let at = |ip: IpAddr| options.transport.listen(SocketAddr::new(ip, options.port));
    match options.bind {
        Some(mut local) => {
            local.set_port(options.port);
            options.transport.listen(local)
        }
        None if options.version4 => at(Ipv4Addr::UNSPECIFIED.into()),
        None if options.version6 => at(Ipv6Addr::UNSPECIFIED.into()),
        None => at(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| at(Ipv4Addr::UNSPECIFIED.into())),
    }
}

/// Returns the next control connection and the requested test. Resets late streams of completed tests.
async fn next_client(arrivals: &mut Arrivals) -> Result<(Arrival, Params)> {
    loop {
        let mut arrival = arrivals.recv().await.context("the listener has ended")?.context("the listener failed")?;
        match arrival.params.take() {
            Some(params) => return Ok((arrival, params)),
            None => arrival.stream.abort(),
        }
    }
}

struct Test<'a> {
    options: &'a Options,
    address: SocketAddr,
    hello: Hello,
    control: TcpStream,
    /// TCP streams as they arrive, with their numbers.
    streams: mpsc::Receiver<(usize, TcpStream)>,
    wants_output: bool,
    /// Reason why the test was refused, until the client has been notified.
    refusal: Option<String>,
}

impl Test<'_> {
    /// Runs the test of this client, and refuses other clients in the meantime. Streams of the test are passed on to
    /// `to_test`.
    async fn run(
        &mut self,
        params: Params,
        (doors, arrivals): (&mpsc::Sender<io::Result<Arrival>>, &mut Arrivals),
        to_test: mpsc::Sender<(usize, TcpStream)>,
        report: &mut Reporter,
    ) -> Result<(Results, Results)> {
        let patience = self.options.transport.patience();
        let cookie = self.hello.cookie.clone();
        let client = self.control.peer_addr()?.ip();
        let mut expected = vec![true; params.client_sends().len()];
        let mut refusals = JoinSet::new();
        let serve = self.serve(params, doors, report);
        tokio::pin!(serve);
        loop {
            tokio::select! {
                outcome = &mut serve => {
                    // Refusals continue in the background.
                    refusals.detach_all();
                    return outcome;
                }
                Some(arrival) = arrivals.recv() => {
                    let arrival = arrival.context("the listener failed")?;
                    let is_of_test = arrival.hello.cookie == cookie && arrival.is_from(client);
                    match arrival.hello.stream.map(usize::from) {
                        // Each stream arrives once, so that the channel has room for all of them.
                        Some(number) if is_of_test && expected.get_mut(number).is_some_and(std::mem::take) => {
                            let _ = to_test.try_send((number, arrival.stream));
                        }
                        None if refusals.len() < greeting::REFUSALS => {
                            refusals.spawn(greeting::refuse(arrival.stream, BUSY.to_owned(), patience));
                        }
                        _ => arrival.stream.abort(),
                    }
                }
                Some(_) = refusals.join_next() => {}
            }
        }
    }

    async fn serve(
        &mut self,
        mut params: Params,
        doors: &mpsc::Sender<io::Result<Arrival>>,
        report: &mut Reporter,
    ) -> Result<(Results, Results)> {
        let patience = self.options.transport.patience();
        report.report.cookie.clone_from(&self.hello.cookie);
        let peer = self.control.peer_addr()?;
        report.accepted(peer);
        params.interval = self.options.interval.unwrap_or(params.interval);
        self.wants_output = params.server_output;
        let limits = self.options.limits;
        let checked = params.check().and_then(|()| limits.check(&params)).map_err(anyhow::Error::msg);
        let mut local = self.control.local_addr()?;
        if let (SocketAddr::V6(local), SocketAddr::V6(peer)) = (&mut local, peer) {
            // Both addresses of a link-local connection are on the same link, but only the peer's address names it.
            local.set_scope_id(peer.scope_id());
        }
        let (ports, _door, sockets) = match checked.and_then(|()| self.prepare(&params, local, doors)) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.refusal = Some(format!("{error:#}"));
                return Err(error.context("refused a test"));
            }
        };
        protocol::write(&mut self.control, &Message::Accepted(ports)).await?;
        let streams = timeout(patience, self.gather(&params, sockets, peer.ip())).await;
        let streams = streams.context("the client did not open its streams")??;
        report.report.params = params.clone();
        protocol::write(&mut self.control, &Message::Start).await?;
        // On the server, only the limit ends a test early.
        let (_stop, never) = watch::channel(false);
        let timing = Timing::start(&params, (patience, self.options.idle()), limits.time());
        session::conduct(&mut self.control, (&params, timing), streams, &mut self.streams, never, report).await
    }

    /// Opens the listener or the sockets for the streams; returns their ports. `local` is the address at which the
    /// client has reached the server. UDP sockets are bound to it, because their replies have to come from there.
    fn prepare(
        &self,
        params: &Params,
        mut local: SocketAddr,
        doors: &mpsc::Sender<io::Result<Arrival>>,
    ) -> Result<Prepared> {
        let first = self.options.data_port.unwrap_or(0);
        let at = |port| {
            let mut address = self.address;
            address.set_port(port);
            address
        };
        match params.protocol {
            Protocol::Tcp if self.suits(params) => Ok((Vec::new(), None, Vec::new())),
            Protocol::Tcp => {
                let mut socket = self.options.transport.for_connection(1).socket(at(first))?;
                if let Some(congestion) = &params.congestion {
                    socket.config().congestion(congestion.parse()?);
                }
                tcp::set_up(&mut socket, params)?;
                let listener =
                    socket.bind(at(first)).and_then(|()| socket.listen(params.client_sends().len() as u32))?;
                let port = listener.local_addr()?.port();
                Ok((vec![port], Some(greeting::open(listener, doors.clone())), Vec::new()))
            }
            Protocol::Udp => {
                let numbers = 0..params.client_sends().len() as u16;
                let port = |number: u16| if first == 0 { 0 } else { first.saturating_add(number) };
                let sockets = numbers.map(|number| {
                    local.set_port(port(number));
                    udp::socket(local, params)
                });
                let sockets = sockets.collect::<io::Result<Vec<_>>>().context("the server cannot open a UDP socket")?;
                let ports = sockets.iter().map(|socket| Ok(socket.local_addr()?.port()));
                Ok((ports.collect::<io::Result<_>>()?, None, sockets))
            }
        }
    }

    /// Returns whether the listener's settings, which apply to all its connections, suit the test.
    fn suits(&self, params: &Params) -> bool {
        let own = self.options.transport.congestion_name();
        let sends = params.direction != Direction::Forward;
        let plain = params.window.is_none() && (!sends || params.mss.is_none() && params.tos == 0);
        plain && (!sends || params.congestion.is_none() || params.congestion == own)
    }

    /// Waits until the client is ready: for TCP, until the streams on which the server sends have arrived and the
    /// client has connected the others; for UDP, until the `sockets` are connected.
    async fn gather(&mut self, params: &Params, sockets: Vec<UdpSocket>, client: IpAddr) -> Result<Vec<Stream>> {
        let sends: Vec<_> = params.client_sends().into_iter().map(|client| !client).collect();
        let stream = |sends, channel| Stream { sends, channel };
        if !sockets.is_empty() {
            let answering = sockets.into_iter().enumerate().map(|(number, socket)| {
                let hello = Hello::new(&self.hello.cookie, Some(number as u16));
                async move { udp::answer(socket, &hello, client).await }
            });
            let streams = try_join_all(answering).await?.into_iter().zip(sends);
            return Ok(streams.map(|(socket, sends)| stream(sends, Channel::Udp(socket))).collect());
        }
        let mut streams: Vec<_> = sends.iter().map(|&sends| stream(sends, Channel::Expected)).collect();
        let waiting = |stream: &Stream| stream.sends && matches!(stream.channel, Channel::Expected);
        let mut ready = false;
        while !ready || streams.iter().any(waiting) {
            tokio::select! {
                message = protocol::read_small(&mut self.control), if !ready => match message? {
                    Message::Ready => ready = true,
                    _ => bail!("the client sent an unexpected message"),
                },
                Some((number, tcp)) = self.streams.recv() => {
                    if let Some(stream) = streams.get_mut(number) {
                        stream.channel = Channel::Tcp(tcp, Vec::new());
                    }
                }
            }
        }
        Ok(streams)
    }
}
