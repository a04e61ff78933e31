//! Transfer with one congestion controller.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use longhaul::TcpListener;
use longhaul_cli::files::Staging;
use longhaul_cli::progress::Screen;
use longhaul_cli::receiver::{self, Budget, Existing, Output, Receiver};
use longhaul_cli::report::{Sent, Stopwatch};
use longhaul_cli::sender::Source;
use longhaul_cli::session;
use longhaul_cli::transport::{Snapshot, TransportArgs};

use super::link::Emulated;
use super::running::{Running, Seen};

/// A transfer of a file from this process to itself.
#[derive(Clone, Debug)]
pub struct Racer {
    /// The sender's options.
    pub transport: TransportArgs,
    /// The file.
    pub path: PathBuf,
    /// Directory for the received file.
    pub out: PathBuf,
    /// Emulated link between the ends; `None` is the loopback interface alone.
    pub link: Option<Emulated>,
    /// Destination of the progress display.
    pub screen: Screen,
}

/// Result of a transfer.
#[derive(Clone, Debug)]
pub struct Finish {
    /// The sender's report.
    pub sent: Sent,
    /// State of the sender's connection at the end.
    pub connection: Snapshot,
    /// The received file.
    pub received: receiver::File,
    /// Time from the first packet until the receiver had the file.
    pub took: Duration,
    /// Measurements of the link.
    pub seen: Option<Seen>,
}

impl Finish {
    /// Returns whether the received file equals the sent one.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.sent.blake3 == self.received.hash.to_hex().as_str()
    }
}

impl Racer {
    /// Sends and receives the file.
    ///
    /// # Errors
    /// Returns why the file was not delivered.
    pub async fn run(self) -> Result<Finish> {
        let source = Source::open(&self.path)?;
        std::fs::create_dir(&self.out).with_context(|| format!("cannot create {}", self.out.display()))?;
        let receiving = self.transport.for_other_end();
        let listener = receiving.listen((Ipv4Addr::LOCALHOST, 0).into())?;
        let server = listener.local_addr()?;
        let link = self.link.as_ref().map(|link| Running::start(link, server)).transpose()?;
        let address = link.as_ref().map_or(server, Running::addr);
        let watch = Stopwatch::start();
        let mut outcome = None;
        let receiver = tokio::spawn(receive(receiving, listener, self.out, watch));
        session::send(&self.transport, &[address], vec![source], &self.screen, |done, connection| {
            if let session::Outcome::Sent(sent) = done {
                outcome = Some((sent, connection.clone()));
            }
        })
        .await?;
        let (received, took) = receiver.await.context("the receiver failed")??;
        let (sent, connection) = outcome.context("nothing was sent")?;
        let seen = link.map(Running::stop).transpose()?;
        Ok(Finish { sent, connection, received, took, seen })
    }
}

/// Accepts one connection and receives a file over it; returns the file and the time at which it was complete.
async fn receive(
    args: TransportArgs,
    listener: TcpListener,
    out: PathBuf,
    watch: Stopwatch,
) -> Result<(receiver::File, Duration)> {
    let (stream, _) = listener.accept().await?;
    let receiver = Receiver {
        out: Output::Directory(Staging::open(&out).with_context(|| format!("cannot write to {}", out.display()))?),
        existing: Existing::Refuse,
        hidden: true,
        budget: Budget::default(),
        patience: args.patience(),
        screen: Screen::hidden(),
    };
    let mut file = None;
    session::receive(&receiver, stream, || {}, |received| file = Some((received, watch.elapsed()))).await?;
    file.context("nothing was received")
}
