//! Signals to programs that run until they are ended.

use std::time::Duration;

use anyhow::Result;
use tokio::time::timeout;

use super::Screen;
use crate::transport::Interrupted;

/// Maximum time for connections to end after the signal to terminate.
const DRAIN: Duration = Duration::from_secs(60);

/// Waits for the signal to terminate. On systems without it, never completes.
pub(super) async fn terminated() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            terminate.recv().await;
            return;
        }
    }
    std::future::pending().await
}

/// Waits until a person interrupts the program.
pub(super) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // No signal handler could be installed.
        std::future::pending::<()>().await;
    }
}

/// Waits until `work` has ended after the signal to terminate, but at most [`DRAIN`]. A second signal interrupts it.
pub(super) async fn drain(work: impl Future<Output = ()>, screen: &Screen) -> Result<()> {
    tokio::select! {
        ended = timeout(DRAIN, work) => {
            if ended.is_err() {
                screen.warn("connections in progress are reset");
            }
            Ok(())
        }
        () = terminated() => Err(Interrupted.into()),
    }
}
