//! Options for metrics and the status page.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use tokio::task::JoinSet;

use super::{Screen, WrongUse};
use crate::address;
use crate::monitor::Monitor;
use crate::monitor::http::{Server, Site};

#[derive(Clone, Debug, Args)]
pub(super) struct MonitorArgs {
    /// Serve metrics in the text format of Prometheus at http://ADDR/metrics, and at /healthz whether this program is ready
    #[arg(long, value_name = "ADDR", value_parser = address::parse)]
    metrics: Option<SocketAddr>,
    /// Serve a page for browsers at http://ADDR/ with the connections
    ///
    /// It shows peer, target, rate, round trip, and what limits each connection.
    #[arg(long, value_name = "ADDR", value_parser = address::parse)]
    status: Option<SocketAddr>,
    /// Serve the page to any host that can reach the address of --status, which need not be loopback
    #[arg(long, requires = "status")]
    status_anyone: bool,
}

impl MonitorArgs {
    /// Starts the requested servers and the line on the terminal, which end when the result is dropped.
    pub(super) async fn start(&self, monitor: &Arc<Monitor>, screen: &Screen) -> Result<JoinSet<()>> {
        if let Some(address) = self.status.filter(|address| !address.ip().to_canonical().is_loopback())
            && !self.status_anyone
        {
            let what = format!(
                "--status {address} shows all connections to anyone who reaches it; use --status-anyone if you want that, or \
                 --status 127.0.0.1:{}",
                address.port()
            );
            return Err(WrongUse(what).into());
        }
        let mut tasks = JoinSet::new();
        for (site, address) in [(Site::Metrics, self.metrics), (Site::Status, self.status)] {
            let Some(address) = address else { continue };
            let server = Server::listen(site, address, Arc::clone(monitor)).await;
            let server = server.with_context(|| format!("cannot listen on {address}"))?;
            let address = server.address()?;
            match site {
                Site::Metrics => screen.warn(&format!("metrics at http://{address}/metrics")),
                _ => screen.warn(&format!("status at http://{address}/")),
            }
            tasks.spawn(server.run());
        }
        if !tasks.is_empty() || screen.is_live {
            let (monitor, line) = (Arc::clone(monitor), screen.line());
            tasks.spawn(async move { monitor.run(line).await });
        }
        Ok(tasks)
    }
}
