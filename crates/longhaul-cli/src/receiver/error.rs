//! Reasons why files were not received.

use std::io::{self, ErrorKind};

use super::budget::Exceeded;
use super::{LEAST_PROGRESS, PROGRESS_TIME};
use crate::names;
use crate::protocol::ProtocolError;

/// Reason why files were not received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The peer's message was not valid, or the connection failed between two files.
    #[error(transparent)]
    Peer(#[from] ProtocolError),
    /// The peer connected and sent nothing.
    #[error("the peer sent nothing")]
    Silent,
    /// The name begins with a dot or a dash, which the options do not allow.
    #[error("{0} (receive with --allow-hidden to accept such names)")]
    Hidden(names::NameError),
    /// The peer named no further file in time, or did not read its reply.
    #[error("the peer was idle for too long")]
    Idle,
    /// The file exceeds the budget.
    #[error("{name} would exceed {limit}")]
    TooLarge {
        /// The file's name.
        name: String,
        /// The limit.
        limit: Exceeded,
    },
    /// The file arrives too slowly.
    #[error("receiving {name} ended after {}: less than {LEAST_PROGRESS} bytes came in {} s", of(*received, *size), PROGRESS_TIME.as_secs())]
    Stalled {
        /// The file's name.
        name: String,
        /// Bytes received.
        received: u64,
        /// The file's size, if it was announced.
        size: Option<u64>,
    },
    /// A file of this name exists.
    #[error("{0} exists already (receive with --overwrite to replace it)")]
    Exists(String),
    /// The file cannot be written.
    #[error("cannot write {name}: {}", sentence(error))]
    Disk {
        /// The file's name.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// Another connection of the same sender continues the file.
    #[error("receiving {0} ended: another connection of the same sender continues it")]
    Superseded(String),
    /// The contents differ from the sender's.
    #[error("{0} was damaged on the way: its hash is not the sender's")]
    WrongHash(String),
    /// The connection ended in the middle of a file.
    #[error("receiving {name} failed after {}: {error}", of(*received, *size))]
    Interrupted {
        /// The file's name.
        name: String,
        /// Bytes received.
        received: u64,
        /// The file's size, if it was announced.
        size: Option<u64>,
        /// The connection's error.
        error: ProtocolError,
    },
}

impl ReceiveError {
    /// Returns what to tell the sender; `None` if the sender cannot be reached.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Peer(ProtocolError::Name(_) | ProtocolError::NotText | ProtocolError::BadTime(_)) => {
                Some(self.to_string())
            }
            Self::Hidden(error) => Some(error.to_string()),
            Self::TooLarge { .. } => Some("it exceeds what the receiver accepts".to_owned()),
            Self::Stalled { .. } => Some("it arrives too slowly".to_owned()),
            Self::Exists(_) => Some("it exists already".to_owned()),
            Self::Disk { error, .. } => Some(format!("cannot write it: {}", sentence(error))),
            Self::Superseded(_) => Some("another connection continues it".to_owned()),
            Self::WrongHash(_) => Some("it was damaged on the way".to_owned()),
            Self::Interrupted {
                error: ProtocolError::WrongSize(_) | ProtocolError::ChunkTooLong(_) | ProtocolError::BadPacking(_),
                ..
            } => Some("its contents are not as announced".to_owned()),
            Self::Peer(_) | Self::Silent | Self::Idle | Self::Interrupted { .. } => None,
        }
    }
}

/// Formats how much of a file has been received.
fn of(received: u64, size: Option<u64>) -> String {
    match size {
        Some(size) => format!("{received} of {size} bytes"),
        None => format!("{received} bytes"),
    }
}

/// Says why a file cannot be written.
pub(super) fn sentence(error: &io::Error) -> String {
    let known = match error.kind() {
        // The system's errors have no text of their own.
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
