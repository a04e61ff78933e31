//! Handling of SIGINT (Ctrl-C) and of SIGTERM, which job schedulers send.

use std::sync::mpsc::Sender;
use std::thread;

use tokio::runtime::Builder;

use super::{Event, RunError};

/// Reports the first interruption. If no signal handler can be installed, the signals terminate the program as usual.
pub(super) fn watch(sender: Sender<Event>) {
    thread::spawn(move || {
        let Ok(runtime) = Builder::new_current_thread().enable_io().build() else { return };
        if runtime.block_on(interrupted()) {
            let _ = sender.send(Event::Failed(RunError::Interrupted));
        }
    });
}

#[cfg(unix)]
async fn interrupted() -> bool {
    use tokio::signal::unix::{SignalKind, signal};

    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return false };
    tokio::select! {
        heard = tokio::signal::ctrl_c() => heard.is_ok(),
        heard = terminate.recv() => heard.is_some(),
    }
}

#[cfg(not(unix))]
async fn interrupted() -> bool {
    tokio::signal::ctrl_c().await.is_ok()
}
