//! Reasons why files were not received.

use std::io::{self, ErrorKind};

use super::body::Pace;
use super::budget::{EXCEEDED, Exceeded};
use crate::groups::GROUP;
use crate::names::{Name, NameError};
use crate::protocol::ProtocolError;
use crate::report;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    #[error(transparent)]
    Peer(#[from] ProtocolError),
    #[error("the peer sent nothing")]
    Silent,
    #[error("the peer was idle for too long")]
    Idle,
    /// A file was not received. `came` is the amount that had arrived, such as `3 of 10 bytes`.
    #[error("{}", fault.text(&name.to_string(), came))]
    File { name: Name, came: String, fault: Fault },
    /// A mirror is refused.
    #[error("{0}")]
    Mirror(&'static str),
    #[error("{} not received", report::plural(*.0 as u64, "file was", "files were"))]
    LeftOut(usize),
}

/// Reason sent to a sender if the name of a file is taken, by other contents.
pub(crate) const EXISTS: &str = "it exists already";
/// Reason sent to a sender after it has abandoned a file.
pub(crate) const GIVEN_UP: &str = "the sender gave it up";
const WRONG: &str = "it was damaged on the way";
const DAMAGED: &str = "its part was damaged on the receiver's disk";

/// Returns whether a receiver that continued a part has declined the file for a [reason](Fault::may_be_repeated) that
/// permits sending it again.
pub(crate) fn may_be_repeated(reason: &str) -> bool {
    [GIVEN_UP, WRONG, DAMAGED].contains(&reason)
}

/// Reason why one file was not received.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The name begins with a dot or a dash.
    Hidden(NameError),
    TooLarge(Exceeded),
    Exists,
    Disk(io::Error),
    /// A directory or a link cannot be created.
    Entry(io::Error),
    /// The file has its final name, but its attributes cannot be set.
    Attributes(io::Error),
    WrongHash,
    /// After this number of groups, the part has changed since it was received.
    Damaged(u64),
    /// The connection failed, or the sender abandoned the file.
    Peer(ProtocolError),
    Slow(Pace),
    /// Another connection of the same sender continues the file.
    Superseded,
}

impl From<ProtocolError> for Fault {
    fn from(error: ProtocolError) -> Self {
        Self::Peer(error)
    }
}

impl Fault {
    /// Returns whether only one file is affected, so that later files can be received.
    pub(super) fn is_of_one_file(&self) -> bool {
        match self {
            Self::Peer(error) => matches!(error, ProtocolError::Abandoned),
            fault => !matches!(fault, Self::Slow(_) | Self::Superseded),
        }
    }

    /// Returns whether the sender may send the rest of a part again, because a group differs from the data that it had
    /// sent.
    pub(super) fn may_be_repeated(&self) -> bool {
        matches!(self, Self::WrongHash | Self::Damaged(_) | Self::Peer(ProtocolError::Abandoned))
    }

    /// Describes the fault of the file `name`.
    fn text(&self, name: &str, came: &str) -> String {
        match self {
            Self::Hidden(error) => {
                format!("{name} is not wanted: {error} (receive with --allow-hidden to accept such names)")
            }
            Self::TooLarge(limit) => format!("{name} would exceed {limit}"),
            Self::Exists => format!("{name} exists already (receive with --overwrite to replace it)"),
            Self::Disk(error) => format!("cannot write {name}: {}", sentence(error)),
            Self::Entry(error) => format!("cannot create {name}: {}", sentence(error)),
            Self::Attributes(error) => {
                format!("{name} is in place, but its permissions or its time cannot be set: {}", sentence(error))
            }
            Self::WrongHash => format!("{name} was damaged on the way: its hash is not the sender's"),
            Self::Damaged(groups) => {
                let whole = report::size(groups * GROUP);
                format!("{name} has changed on this disk since it was received, after the first {whole}")
            }
            Self::Peer(ProtocolError::Abandoned) => format!("the sender gave {name} up"),
            Self::Peer(error) => format!("receiving {name} failed after {came}: {error}"),
            Self::Slow(Pace { least, time }) => {
                let few = if *least > 1 { format!("less than {least} bytes") } else { "nothing".to_owned() };
                format!("receiving {name} ended after {came}: {few} came in {} s", time.as_secs())
            }
            Self::Superseded => format!("receiving {name} ended: another connection of the same sender continues it"),
        }
    }

    /// Returns the message for the sender, or `None` if the sender cannot be reached.
    fn reason(&self) -> Option<String> {
        let told = match self {
            Self::Hidden(error) => return Some(error.to_string()),
            Self::Disk(_) | Self::Entry(_) | Self::Attributes(_) => {
                return Some(self.text("it", ""));
            }
            Self::TooLarge(_) => EXCEEDED,
            Self::Exists => EXISTS,
            Self::Peer(ProtocolError::Abandoned) => GIVEN_UP,
            Self::WrongHash => WRONG,
            Self::Damaged(_) => DAMAGED,
            Self::Slow(_) => "it arrives too slowly",
            Self::Superseded => "another connection continues it",
            Self::Peer(ProtocolError::WrongSize(_) | ProtocolError::ChunkTooLong(_) | ProtocolError::BadPacking(_)) => {
                "its contents are not as announced"
            }
            Self::Peer(_) => return None,
        };
        Some(told.to_owned())
    }
}

impl ReceiveError {
    /// Returns the message for the sender, or `None` if the sender cannot be reached.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Peer(ProtocolError::Name(_) | ProtocolError::BadTime(_)) => Some(self.to_string()),
            Self::File { fault, .. } => fault.reason(),
            Self::Mirror(reason) => Some((*reason).to_owned()),
            Self::Peer(_) | Self::Silent | Self::Idle | Self::LeftOut(_) => None,
        }
    }
}

/// Returns what the peer may know about an error: neither paths of this machine nor numbers of the system's errors.
pub(super) fn sentence(error: &io::Error) -> String {
    let text = error.to_string();
    // The error of a temporary file ends with its path.
    let (text, is_of_system) = match text.split_once(" at path \"") {
        Some((text, _)) => (text, true),
        None => (text.as_str(), error.get_ref().is_none()),
    };
    let known = match error.kind() {
        _ if !is_of_system => text,
        ErrorKind::StorageFull => "there is no space for it",
        ErrorKind::QuotaExceeded => "the disk quota is exceeded",
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only",
        ErrorKind::PermissionDenied => "the receiver has no permission to write there",
        ErrorKind::InvalidFilename => "its name is too long for the file system",
        ErrorKind::CrossesDevices => "its directory is on another file system than --out",
        ErrorKind::NotADirectory => "a part of its path is not a directory",
        ErrorKind::IsADirectory => "a directory has its name",
        ErrorKind::DirectoryNotEmpty => "it is not empty",
        ErrorKind::ResourceBusy => "it is in use, as a mounted directory is",
        _ => text.split(" (os error ").next().unwrap_or_default(),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_peer_learns_neither_paths_nor_numbers() {
        let directory = tempfile::tempdir().unwrap();
        let error = tempfile::NamedTempFile::new_in(directory.path().join("gone")).unwrap_err();
        assert!(error.to_string().contains("gone"));
        assert_eq!(sentence(&error), "No such file or directory");
        for (error, said) in [
            (Errno::NOTEMPTY, "it is not empty"),
            (Errno::MFILE, "Too many open files"),
            (Errno::NOSPC, "there is no space for it"),
        ] {
            assert_eq!(sentence(&error.into()), said);
        }
        assert_eq!(sentence(&io::Error::other("it needs 1 TB")), "it needs 1 TB");
    }
}
