//! Verifies the groups of a part that were already present, while the rest arrives.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blake3::hazmat::ChainingValue;
use longhaul_tls::Fingerprint;
use tokio::task::JoinSet;

use super::body::{Body, Peer, evicted};
use super::error::Fault;
use crate::files::hashing::Stop;
use crate::files::{Staging, TempFile};
use crate::groups::chaining_values;
use crate::sync::{blocking, completed};

/// The groups at the beginning of a part, which are read on a thread when it is the sender's turn. The thread stops when
/// this is dropped.
pub(super) struct Check {
    groups: u64,
    /// Contains the only task, which returns the number of groups before the first changed one.
    task: JoinSet<u64>,
    failed: Arc<AtomicBool>,
}

impl Check {
    /// Starts to read the groups of `temp`, which had these chaining values.
    pub(super) fn start(
        staging: &Arc<Staging>,
        key: Option<Fingerprint>,
        temp: &TempFile,
        wanted: Vec<ChainingValue>,
    ) -> io::Result<Self> {
        let (file, staging, groups) = (temp.beside()?, Arc::clone(staging), wanted.len() as u64);
        let failed = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&failed);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let stop = Stop::default();
            let _guard = stop.on_drop();
            let turn = staging.hashing.turn(key).await;
            let read = move || {
                let found = chaining_values(stop.reader(file), groups, |at, group| wanted.get(at) == Some(group));
                drop(turn);
                // Unreadable data also has to be sent again.
                found.map_or(0, |found| found.len() as u64)
            };
            let right = blocking(read).await;
            tells.store(right < groups, Ordering::Relaxed);
            right
        });
        Ok(Self { groups, task, failed })
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Body {
    /// Waits until the groups that were present before have been read.
    /// Fails if one of them has changed since it was received.
    pub(super) async fn checked(&mut self, peer: &mut Peer<'_>) -> Result<(), Fault> {
        let Some(check) = &mut self.check else { return Ok(()) };
        let read = completed(async { check.task.join_next().await.unwrap_or(Ok(0)) });
        let right = tokio::select! {
            right = peer.beside(read) => right?,
            () = evicted(self.lease.as_deref()) => return Err(Fault::Superseded),
        };
        if right < check.groups { Err(Fault::Damaged(right)) } else { Ok(()) }
    }
}
