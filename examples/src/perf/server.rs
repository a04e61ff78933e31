//! The server: it does what a client says, one test after the other.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result, bail};
use longhaul::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::greeting::{self, Arrival, Door};
use super::options::Options;
use super::protocol::{self, Direction, Hello, Message, Params, Protocol};
use super::results::Results;
use super::runner::{Channel, Stream};
use super::session;
use super::text::Reporter;
use super::udp;
use crate::transport::Choice;

/// Connections that have said hello and wait to be served: more than the streams of any test.
const WAITING: usize = 512;
/// What iperf3 says.
const BUSY: &str = "the server is busy running a test. try again later";

type Arrivals = mpsc::Receiver<io::Result<Arrival>>;

/// Serves clients, for ever or one only.
///
/// # Errors
/// When the socket fails; when serving one only, why the test failed.
pub async fn run(options: &Options) -> Result<()> {
    let listener = listen(options).context("unable to start listener for connections")?;
    let address = listener.local_addr()?;
    let (sender, mut arrivals) = mpsc::channel(WAITING);
    let _door = Door::open(listener, sender.clone());
    for number in 1_u64.. {
        let mut report = Reporter::new(options, false);
        report.listening(address.port(), number);
        let control = next_client(&mut arrivals).await?;
        let (to_test, streams) = mpsc::channel(WAITING);
        let mut test = Test { options, address, hello: control.hello, control: control.stream, to_test, streams };
        let outcome = test.run(&mut arrivals, &mut report).await;
        report.end(&outcome);
        if outcome.is_ok() {
            // Both have everything: what may still go wrong concerns nobody.
            let _ = timeout(options.transport.patience(), test.control.close()).await;
        } else {
            test.control.abort();
        }
        if options.one_off {
            return outcome.map(|_| ());
        }
    }
    Ok(())
}

/// Listens where the options say; if they don't, on all addresses of both families, or the one that there is.
fn listen(options: &Options) -> Result<TcpListener> {
    let at = |ip: IpAddr| options.transport.listen(SocketAddr::new(ip, options.port));
    match options.bind {
        Some(ip) => at(ip),
        None if options.version4 => at(Ipv4Addr::UNSPECIFIED.into()),
        None if options.version6 => at(Ipv6Addr::UNSPECIFIED.into()),
        None => at(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| at(Ipv4Addr::UNSPECIFIED.into())),
    }
}

/// The next control connection. Streams of tests that have ended are given up.
async fn next_client(arrivals: &mut Arrivals) -> Result<Arrival> {
    loop {
        let arrival = arrivals.recv().await.context("the listener has ended")?.context("the listener failed")?;
        if arrival.hello.stream.is_none() {
            return Ok(arrival);
        }
        arrival.stream.abort();
    }
}

struct Test<'a> {
    options: &'a Options,
    /// Where the server listens.
    address: SocketAddr,
    hello: Hello,
    control: TcpStream,
    to_test: mpsc::Sender<io::Result<Arrival>>,
    streams: Arrivals,
}

impl Test<'_> {
    /// Serves this client while others are told to wait.
    async fn run(&mut self, arrivals: &mut Arrivals, report: &mut Reporter) -> Result<(Results, Results)> {
        let patience = self.options.transport.patience();
        let to_test = self.to_test.clone();
        let cookie = self.hello.cookie.clone();
        let serve = self.serve(report);
        tokio::pin!(serve);
        loop {
            tokio::select! {
                outcome = &mut serve => return outcome,
                Some(arrival) = arrivals.recv() => {
                    let arrival = arrival.context("the listener failed")?;
                    if arrival.hello.stream.is_none() {
                        tokio::spawn(greeting::refuse(arrival.stream, BUSY.to_owned(), patience));
                    } else if arrival.hello.cookie == cookie && let Err(full) = to_test.try_send(Ok(arrival)) {
                        drop(full);
                    }
                }
            }
        }
    }

    async fn serve(&mut self, report: &mut Reporter) -> Result<(Results, Results)> {
        let patience = self.options.transport.patience();
        let asked = timeout(patience, protocol::read_small(&mut self.control)).await;
        let Message::Params(mut params) = asked.context("the client asks for nothing")?? else {
            bail!("the client sent what does not belong here");
        };
        report.start.cookie.clone_from(&self.hello.cookie);
        let peer = self.control.peer_addr()?;
        report.accepted(peer);
        params.interval = self.options.interval.unwrap_or(params.interval);
        let preparation = params.check().map_err(anyhow::Error::msg).and_then(|()| self.prepare(&params));
        let (ports, prepared) = match preparation {
            Ok(prepared) => prepared,
            Err(error) => {
                let said = greeting::say_no(&mut self.control, format!("{error:#}"));
                let _ = timeout(patience, said).await;
                return Err(error.context("refused a test"));
            }
        };
        protocol::write(&mut self.control, &Message::Accepted(ports)).await?;
        let streams = timeout(patience, self.gather(&params, &prepared)).await;
        let sockets = streams.context("the client does not open its streams")??;
        let channels = match prepared {
            Prepared::Tcp(_) => sockets.into_iter().map(Channel::Tcp).collect(),
            Prepared::Udp(sockets) => sockets.into_iter().map(Channel::Udp).collect::<Vec<_>>(),
        };
        let sends = params.client_sends().into_iter().map(|client| !client);
        let streams: Vec<_> =
            channels.into_iter().zip(sends).map(|(channel, sends)| Stream { sends, channel }).collect();
        report.params = params.clone();
        report.start.streams_are(&streams);
        report.begin();
        protocol::write(&mut self.control, &Message::Start).await?;
        let mut observe = |interval: &_| report.interval(interval);
        session::conduct(&mut self.control, &params, streams, patience, &mut observe).await
    }

    /// Opens what the streams need: their ports, as the client is told them.
    fn prepare(&self, params: &Params) -> Result<(Vec<u16>, Prepared)> {
        let first = self.options.data_port.unwrap_or(0);
        let at = |port| SocketAddr::new(self.address.ip(), port);
        match params.protocol {
            Protocol::Tcp if self.suits(params) => Ok((Vec::new(), Prepared::Tcp(None))),
            Protocol::Tcp => {
                let socket = self.options.transport.for_connection(1).socket(at(first))?;
                if let Some(congestion) = &params.congestion {
                    socket.set_congestion(congestion.as_str())?;
                }
                if let Some(window) = params.window {
                    socket.set_send_buffer_size(window)?;
                    socket.set_recv_buffer_size(window)?;
                }
                let listener =
                    socket.bind(at(first)).and_then(|()| socket.listen(params.client_sends().len() as u32))?;
                let port = listener.local_addr()?.port();
                Ok((vec![port], Prepared::Tcp(Some(Door::open(listener, self.to_test.clone())))))
            }
            Protocol::Udp => {
                let numbers = 0..params.client_sends().len() as u16;
                let port = |number: u16| if first == 0 { 0 } else { first.saturating_add(number) };
                let sockets = numbers.map(|number| udp::socket(at(port(number)), params.window));
                let sockets = sockets.collect::<io::Result<Vec<_>>>().context("the server has no UDP socket")?;
                let ports = sockets.iter().map(|socket| Ok(socket.local_addr()?.port()));
                Ok((ports.collect::<io::Result<_>>()?, Prepared::Udp(sockets)))
            }
        }
    }

    /// Whether the listener's own settings do: they are for all its connections.
    fn suits(&self, params: &Params) -> bool {
        let own = match &self.options.transport.congestion {
            Some(Choice::Use(congestion)) => Some(congestion.to_string()),
            _ => None,
        };
        let sends = params.direction != Direction::Forward;
        params.window.is_none() && (!sends || params.congestion.is_none() || params.congestion == own)
    }

    /// Waits for the client's streams: those of TCP in their order, or until the sockets of UDP are connected.
    async fn gather(&mut self, params: &Params, prepared: &Prepared) -> Result<Vec<TcpStream>> {
        let count = params.client_sends().len();
        if let Prepared::Udp(sockets) = prepared {
            for (number, socket) in sockets.iter().enumerate() {
                udp::answer(socket, &Hello::new(&self.hello.cookie, Some(number as u16))).await?;
            }
            return Ok(Vec::new());
        }
        let mut streams: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
        while streams.iter().any(Option::is_none) {
            let arrival =
                self.streams.recv().await.context("the listener has ended")?.context("the listener failed")?;
            let number = arrival.hello.stream.map(usize::from).filter(|_| arrival.hello.cookie == self.hello.cookie);
            match number.and_then(|number| streams.get_mut(number)) {
                Some(place) if place.is_none() => *place = Some(arrival.stream),
                _ => arrival.stream.abort(),
            }
        }
        Ok(streams.into_iter().flatten().collect())
    }
}

/// What streams come through.
enum Prepared {
    /// A listener of their own, or the server's.
    Tcp(#[expect(dead_code, reason = "it is open as long as it exists")] Option<Door>),
    /// A socket each.
    Udp(Vec<tokio::net::UdpSocket>),
}
