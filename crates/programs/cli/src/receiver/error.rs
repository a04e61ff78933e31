//! Reasons why files were not received.

use std::io::{self, ErrorKind};
use std::time::Duration;

use super::budget::{EXCEEDED, Exceeded};
use crate::names::{Name, NameError};
use crate::protocol::ProtocolError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    #[error(transparent)]
    Peer(#[from] ProtocolError),
    #[error("the peer sent nothing")]
    Silent,
    #[error("{name} is not wanted: {error} (receive with --allow-hidden to accept such names)")]
    Hidden { name: Name, error: NameError },
    #[error("cannot write {name}: {error}")]
    NotHere { name: Name, error: NameError },
    #[error("the peer was idle for too long")]
    Idle,
    #[error("{name} would exceed {limit}")]
    TooLarge { name: Name, limit: Exceeded },
    #[error("receiving {name} ended after {}: {} came in {} s", of(*received, *size), few(*least), time.as_secs())]
    Stalled {
        name: Name,
        received: u64,
        size: Option<u64>,
        /// Number of bytes that have to arrive within `time`.
        least: u64,
        /// Time in which `least` bytes have to arrive.
        time: Duration,
    },
    #[error("{0} exists already (receive with --overwrite to replace it)")]
    Exists(Name),
    #[error("cannot write {name}: {}", sentence(error))]
    Disk { name: Name, error: io::Error },
    #[error("receiving {0} ended: another connection of the same sender continues it")]
    Superseded(Name),
    #[error("{0} was damaged on the way: its hash is not the sender's")]
    WrongHash(Name),
    #[error("the sender gave {0} up")]
    Abandoned(Name),
    #[error("cannot create {name}: {}", sentence(error))]
    Entry { name: Name, error: io::Error },
    #[error("{name} is in place, but its permissions or its time cannot be set: {}", sentence(error))]
    Attributes { name: Name, error: io::Error },
    #[error("{}", left_out(.0))]
    LeftOut(usize),
    #[error("receiving {name} failed after {}: {error}", of(*received, *size))]
    Interrupted { name: Name, received: u64, size: Option<u64>, error: ProtocolError },
}

impl ReceiveError {
    /// Returns whether only one file is affected, so that later files can be received.
    pub(super) fn is_of_one_file(&self) -> bool {
        match self {
            Self::Hidden { .. }
            | Self::NotHere { .. }
            | Self::TooLarge { .. }
            | Self::Exists(_)
            | Self::Disk { .. }
            | Self::WrongHash(_)
            | Self::Abandoned(_)
            | Self::Entry { .. }
            | Self::Attributes { .. } => true,
            Self::Peer(_)
            | Self::Silent
            | Self::Idle
            | Self::Stalled { .. }
            | Self::Superseded(_)
            | Self::Interrupted { .. }
            | Self::LeftOut(_) => false,
        }
    }

    /// Returns the message for the sender, or `None` if the sender cannot be reached.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Peer(ProtocolError::Name(_) | ProtocolError::BadTime(_)) => Some(self.to_string()),
            Self::Hidden { error, .. } | Self::NotHere { error, .. } => Some(error.to_string()),
            Self::TooLarge { .. } => Some(EXCEEDED.to_owned()),
            Self::Abandoned(_) => Some("the sender gave it up".to_owned()),
            Self::Entry { error, .. } => Some(format!("cannot create it: {}", sentence(error))),
            Self::Attributes { error, .. } => {
                Some(format!("it is in place, but its permissions or its time cannot be set: {}", sentence(error)))
            }
            Self::Stalled { .. } => Some("it arrives too slowly".to_owned()),
            Self::Exists(_) => Some("it exists already".to_owned()),
            Self::Disk { error, .. } => Some(format!("cannot write it: {}", sentence(error))),
            Self::Superseded(_) => Some("another connection continues it".to_owned()),
            Self::WrongHash(_) => Some("it was damaged on the way".to_owned()),
            Self::Interrupted {
                error: ProtocolError::WrongSize(_) | ProtocolError::ChunkTooLong(_) | ProtocolError::BadPacking(_),
                ..
            } => Some("its contents are not as announced".to_owned()),
            Self::Peer(_) | Self::Silent | Self::Idle | Self::Interrupted { .. } | Self::LeftOut(_) => None,
        }
    }
}

fn left_out(files: &usize) -> String {
    format!("{files} {} not received", if *files == 1 { "file was" } else { "files were" })
}

fn few(least: u64) -> String {
    if least > 1 { format!("less than {least} bytes") } else { "nothing".to_owned() }
}

fn of(received: u64, size: Option<u64>) -> String {
    match size {
        Some(size) => format!("{received} of {size} bytes"),
        None => format!("{received} bytes"),
    }
}

pub(super) fn sentence(error: &io::Error) -> String {
    let known = match error.kind() {
        // An error with a text of its own does not come from the system.
        _ if error.get_ref().is_some() => return error.to_string(),
        ErrorKind::StorageFull => "there is no space for it",
        ErrorKind::QuotaExceeded => "the disk quota is exceeded",
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only",
        ErrorKind::PermissionDenied => "the receiver has no permission to write there",
        ErrorKind::InvalidFilename => "its name is too long for the file system",
        ErrorKind::CrossesDevices => "its directory is on another file system than --out",
        ErrorKind::NotADirectory => "a part of its path is not a directory",
        _ => return error.to_string(),
    };
    known.to_owned()
}
