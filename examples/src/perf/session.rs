//! What both ends do between the start and the end of a test.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use longhaul::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::protocol::{self, Message, Params};
use super::results::{Interval, Results};
use super::runner::{self, Channel, Stream};
use super::tcp::IDLE;
use super::timing::Timing;

/// What a report says first.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The client's name for the server, or where the server saw the client.
    pub peer: (String, u16),
    /// The test's cookie.
    pub cookie: String,
    /// Of each stream, this end's and the other's address.
    pub connected: Vec<(Option<SocketAddr>, Option<SocketAddr>)>,
    /// Payload of a full segment.
    pub mss: u32,
    /// Bytes of the UDP sockets' buffers for sending and receiving, under TCP or by itself.
    pub buffers: (u64, u64),
}

impl Start {
    /// Takes note of the streams.
    pub fn streams_are(&mut self, streams: &[Stream]) {
        let addresses = |stream: &Stream| match &stream.channel {
            Channel::Tcp(tcp) => (tcp.local_addr().ok(), tcp.peer_addr().ok()),
            Channel::Udp(udp) => (udp.local_addr().ok(), udp.peer_addr().ok()),
        };
        self.connected = streams.iter().map(addresses).collect();
        match streams.first().map(|stream| &stream.channel) {
            Some(Channel::Tcp(tcp)) => {
                if let Ok(info) = tcp.info() {
                    self.mss = info.snd_mss;
                    self.buffers = (info.socket.send_buffer, info.socket.recv_buffer);
                }
            }
            Some(Channel::Udp(udp)) => {
                let options = socket2::SockRef::from(udp);
                let size = |size: std::io::Result<usize>| size.unwrap_or_default() as u64;
                self.buffers = (size(options.send_buffer_size()), size(options.recv_buffer_size()));
            }
            None => {}
        }
    }
}

/// Runs `streams` from now on and exchanges results: ours, which are without intervals, for `observe` is told of each,
/// and the other end's.
///
/// # Errors
/// Why the test failed here or there.
pub async fn conduct(
    control: &mut TcpStream,
    params: &Params,
    streams: Vec<Stream>,
    patience: Duration,
    observe: &mut impl FnMut(&Interval),
) -> Result<(Results, Results)> {
    let timing = Timing::start(params, patience);
    let limit = timing.end().map_or(Duration::MAX, |end| Duration::from_secs_f64(end) + IDLE);
    let outcome = timeout(limit, exchange(control, (params, timing), streams, observe)).await;
    outcome.unwrap_or_else(|_| Err(anyhow!("the test does not end")))
}

async fn exchange(
    control: &mut TcpStream,
    (params, timing): (&Params, Timing),
    streams: Vec<Stream>,
    observe: &mut impl FnMut(&Interval),
) -> Result<(Results, Results)> {
    let we_send: Vec<_> = streams.iter().map(|stream| stream.sends).collect();
    let they_send: Vec<_> = we_send.iter().map(|sends| !sends).collect();
    let incoming = they_send.iter().filter(|sends| **sends).count();
    let (mut reader, mut writer) = control.split();
    let (done, watch_done) = watch::channel(None);
    let mut intervals = Vec::new();
    let ours = async {
        let mut observe = |interval: &Interval| {
            observe(interval);
            intervals.push(interval.clone());
        };
        let results = runner::run((params, timing), streams, watch_done, &mut writer, &mut observe).await;
        match results {
            Ok(mut results) => {
                results.intervals = std::mem::take(&mut intervals);
                protocol::write(&mut writer, &Message::Results(Box::new(results.for_message()))).await?;
                Ok(results)
            }
            Err(error) => {
                // The other end notices in any case, when the connection ends.
                let _ = protocol::write(&mut writer, &Message::Failed(format!("{error:#}"))).await;
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
                Message::Results(results) if results.fits(&they_send) => return Ok(*results),
                Message::Failed(reason) => bail!("the other end failed: {reason}"),
                _ => bail!("the other end sent what does not belong here"),
            }
        }
    };
    let (mut ours, mut theirs) = (pin!(ours), pin!(theirs));
    let (mut first, mut second) = (None, None);
    while first.is_none() {
        tokio::select! {
            results = &mut ours => first = Some(results?),
            results = &mut theirs, if second.is_none() => second = Some(results?),
        }
    }
    let second = match second {
        Some(results) => results,
        None => timeout(IDLE, theirs).await.context("the other end sends no results")??,
    };
    Ok((first.unwrap_or_default(), second))
}
