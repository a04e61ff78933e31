//! Comparison of a sender's directories with those of the receiver, and deletion of entries that the sender does not
//! have.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncReadExt as _;
use tokio::time;

use super::body::{Pace, Peer};
use super::error::{Fault, sentence};
use super::{Existing, Output, ReceiveError, Receiver};
use crate::files::hashing::Stop;
use crate::files::{Comparison, Staging, SurplusList};
use crate::mirror::{self, Request};
use crate::protocol::{self, HASH_LEN, ProtocolError};
use crate::report::plural;
use crate::sync::blocking;

impl Receiver {
    /// Tells the sender of a mirror which entries it need not send, and deletes entries that only this end has, if that
    /// is requested and allowed.
    pub(super) async fn mirror(&self, peer: &mut Peer<'_>, request: Request, pace: Pace) -> Result<(), ReceiveError> {
        let staging = self.may_mirror(request)?;
        let mut comparison = Comparison::new(staging, request, self.hidden);
        loop {
            let frame = time::timeout(pace.time, frame(peer)).await.map_err(|_| ReceiveError::Idle)??;
            if frame.is_empty() {
                break;
            }
            let stop = Stop::default();
            let _guard = stop.on_drop();
            let compare = move |stop: &Stop| (comparison.frame(&frame, stop), comparison);
            let (states, compared) = if request.checksum {
                // Hashing waits for the sender's turn.
                peer.hash(staging, compare).await.map_err(|fault| match fault {
                    Fault::Peer(error) => error.into(),
                    _ => ReceiveError::Idle,
                })?
            } else {
                blocking(move || compare(&stop)).await
            };
            comparison = compared;
            let states = states?;
            tell(peer, &states).await?;
        }
        if !request.surplus {
            return Ok(());
        }
        let mut list = comparison.finish();
        list.begin().map_err(ProtocolError::from)?;
        loop {
            let next = blocking(move || (list.next(), list)).await;
            list = next.1;
            let frame = next.0.map_err(ProtocolError::from)?;
            tell(peer, &frame).await?;
            if frame.is_empty() {
                break;
            }
        }
        let answer = async {
            if peer.read_u8().await? == 0 {
                return Ok(None);
            }
            let mut digest = [0; HASH_LEN];
            peer.read_exact(&mut digest).await?;
            io::Result::Ok(Some(digest))
        };
        match time::timeout(pace.time, answer).await.map_err(|_| ReceiveError::Idle)?.map_err(ProtocolError::from)? {
            None => Ok(()),
            Some(digest) if list.digest() == digest => self.delete(peer, list, staging).await,
            Some(_) => Err(ReceiveError::Mirror("what is to be deleted is not what was listed")),
        }
    }

    fn may_mirror(&self, request: Request) -> Result<&Arc<Staging>, ReceiveError> {
        match &self.out {
            Output::Stdout => Err(ReceiveError::Mirror("a mirror needs a directory, not --out -")),
            Output::Directory(_) if self.existing != Existing::Overwrite => {
                Err(ReceiveError::Mirror("a mirror replaces files, for which `receive` needs --overwrite"))
            }
            Output::Directory(_) if request.surplus && !self.deletes => {
                Err(ReceiveError::Mirror("nothing may be deleted, for which `receive` needs --allow-delete"))
            }
            Output::Directory(staging) => Ok(staging),
        }
    }

    async fn delete(
        &self,
        peer: &mut Peer<'_>,
        mut list: SurplusList,
        staging: &Arc<Staging>,
    ) -> Result<(), ReceiveError> {
        let (staging, stop) = (Arc::clone(staging), Stop::default());
        let _guard = stop.on_drop();
        let deleting = blocking(move || {
            let (mut frames, mut frame) = (Vec::new(), Vec::new());
            let deleted = list.delete(&staging, &stop, |entry, error| {
                entry.push(&mut frame);
                protocol::push_text(&mut frame, sentence(error).as_bytes());
                if !mirror::has_room(&frame) {
                    frames.push(std::mem::take(&mut frame));
                }
            });
            frames.extend([frame].into_iter().filter(|frame| !frame.is_empty()));
            (deleted, frames)
        });
        let (deleted, frames) = deleting.await;
        let deleted = deleted.map_err(ProtocolError::from)?;
        if deleted > 0 {
            let by = peer.transport.peer_key().map(|key| format!(" with the key {key}")).unwrap_or_default();
            self.screen.say(&format!("Deleted {}, as the sender{by} asked.", plural(deleted, "entry", "entries")));
        }
        tell(peer, &deleted.to_be_bytes()).await?;
        for frame in frames {
            tell(peer, &frame).await?;
        }
        tell(peer, &[]).await
    }
}

async fn frame(peer: &mut Peer<'_>) -> Result<Vec<u8>, ProtocolError> {
    let first = peer.read_u8().await?;
    mirror::read_frame(first, peer).await
}

async fn tell(peer: &mut Peer<'_>, contents: &[u8]) -> Result<(), ReceiveError> {
    peer.queue(&mirror::frame(contents).map_err(ProtocolError::from)?);
    Ok(peer.flush().await.map_err(ProtocolError::from)?)
}
