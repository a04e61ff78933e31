//! The part of a test that is common to both ends, from start to end.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use longhaul::TcpStream;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::protocol::{self, Message, Params};
use super::reporter::Reporter;
use super::results::Results;
use super::runner::{self, Channel, Stream};
use super::tcp::IDLE;
use super::timing::Timing;

/// Properties of a stream at its start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    pub(super) addresses: (Option<SocketAddr>, Option<SocketAddr>),
    /// Payload of a full segment in bytes, for TCP.
    pub(super) mss: u32,
    /// Sizes in bytes of the UDP socket's send and receive buffers.
    pub(super) buffers: (u64, u64),
}

impl Facts {
    pub(crate) fn new(channel: &Channel) -> Self {
        match channel {
            Channel::Expected => Self::default(),
            Channel::Tcp(tcp, _) => {
                let addresses = (tcp.local_addr().ok(), tcp.peer_addr().ok());
                let info = tcp.info().ok();
                let buffers = info.as_ref().map(|info| (info.socket.send_buffer_bytes, info.socket.recv_buffer_bytes));
                let mss = info.map(|info| info.snd_mss_bytes);
                Self { addresses, mss: mss.unwrap_or_default(), buffers: buffers.unwrap_or_default() }
            }
            Channel::Udp(udp) => {
                let options = socket2::SockRef::from(udp);
                let size = |size: std::io::Result<usize>| size.unwrap_or_default() as u64;
                let buffers = (size(options.send_buffer_size()), size(options.recv_buffer_size()));
                Self { addresses: (udp.local_addr().ok(), udp.peer_addr().ok()), mss: 0, buffers }
            }
        }
    }
}

/// Runs `streams` and exchanges the results; returns this end's and the other end's. [Expected](Channel::Expected)
/// streams come from `arrivals`, with their numbers. `stop` becomes true when the user stops the test.
pub(crate) async fn conduct(
    control: &mut TcpStream,
    (params, timing): (&Params, Timing),
    streams: Vec<Stream>,
    arrivals: &mut mpsc::Receiver<(usize, TcpStream)>,
    stop: watch::Receiver<bool>,
    report: &mut Reporter,
) -> Result<(Results, Results)> {
    let own = timing.end().map(Duration::from_secs_f64);
    let end = own.into_iter().chain(timing.limit).min().map_or(Duration::MAX, |end| end + IDLE);
    let outcome = timeout(end, exchange(control, (params, timing), streams, arrivals, stop, report)).await;
    outcome.unwrap_or_else(|_| Err(anyhow!("the test did not end")))
}

async fn exchange(
    control: &mut TcpStream,
    (params, timing): (&Params, Timing),
    streams: Vec<Stream>,
    arrivals: &mut mpsc::Receiver<(usize, TcpStream)>,
    mut stop: watch::Receiver<bool>,
    report: &mut Reporter,
) -> Result<(Results, Results)> {
    let we_send: Vec<_> = streams.iter().map(|stream| stream.sends).collect();
    let they_send: Vec<_> = we_send.iter().map(|sends| !sends).collect();
    let incoming = they_send.iter().filter(|sends| **sends).count();
    let (mut reader, writer) = control.split();
    let writer = Mutex::new(writer);
    let (done, watch_done) = watch::channel(None);
    let timing_here = timing.clone();
    let ours = async {
        match runner::run((params, timing), streams, arrivals, watch_done, &writer, report).await {
            Ok(results) => {
                protocol::write(&mut *writer.lock().await, &Message::Results(Box::new(results.clone()))).await?;
                Ok(results)
            }
            Err(error) => {
                // If this fails, the other end still notices that the connection ends.
                let _ = protocol::write(&mut *writer.lock().await, &Message::Failed(format!("{error:#}"))).await;
                Err(error)
            }
        }
    };
    let theirs = async {
        loop {
            match protocol::read(&mut reader).await.context("the control connection has ended")? {
                Message::Done(sent) if sent.len() == incoming => {
                    done.send_replace(Some(sent));
                }
                Message::Stop => timing_here.stop(),
                Message::Results(results) if results.fits(&they_send) => return Ok(*results),
                Message::Failed(reason) => bail!("the other end failed: {reason}"),
                _ => bail!("the other end sent an unexpected message"),
            }
        }
    };
    // The user or the limit stops a test that would continue.
    let stopping = async {
        let limit = sleep(timing_here.limit.unwrap_or(Duration::MAX));
        tokio::select! {
            stop = stop.wait_for(|stop| *stop) => if stop.is_err() { std::future::pending::<()>().await },
            () = limit => {}
        }
        timing_here.stop();
        protocol::write(&mut *writer.lock().await, &Message::Stop).await?;
        std::future::pending::<Result<()>>().await
    };
    let (mut ours, mut theirs, mut stopping) = (pin!(ours), pin!(theirs), pin!(stopping));
    let (mut first, mut second) = (None, None);
    while first.is_none() {
        tokio::select! {
            results = &mut ours => first = Some(results?),
            results = &mut theirs, if second.is_none() => second = Some(results?),
            failed = &mut stopping => failed?,
        }
    }
    let second = match second {
        Some(results) => results,
        None => timeout(IDLE, theirs).await.context("the other end did not send its results")??,
    };
    Ok((first.unwrap_or_default(), second))
}
