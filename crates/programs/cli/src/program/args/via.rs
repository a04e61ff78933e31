//! Options that name local paths.

use clap::Args;
use longhaul::LocalPath;

use crate::program::WrongUse;

/// The local addresses and interfaces of connections.
#[derive(Clone, Debug, Args)]
pub(in crate::program) struct ViaArgs {
    /// Send from this address or network interface of this machine; may be given several times
    ///
    /// Encrypted connections move to the next one if their path ends or has been silent for three round trips, and
    /// `forward` also distributes its connections among all of them. An address needs routing rules for its interface;
    /// naming the interface does not.
    #[arg(long, value_name = "ADDR|IFACE", value_delimiter = ',', value_parser = parse)]
    via: Vec<LocalPath>,
    /// Keep the next --via open by an empty packet every 20 s: 4,320 a day for each connection, which may cost money
    #[arg(long, requires = "via")]
    pub(in crate::program) warm: bool,
}

impl ViaArgs {
    /// Returns the paths. Plain connections can use only one.
    pub(in crate::program) fn paths(&self, is_plain: bool) -> Result<&[LocalPath], WrongUse> {
        if is_plain && self.via.len() > 1 {
            let why = "--via can be given only once with --plaintext: only the keys of an encrypted connection prove that \
                       another address has the same sender";
            return Err(WrongUse(why.to_owned()));
        }
        if self.warm && self.via.len() < 2 {
            return Err(WrongUse("--warm keeps a second --via open, but there is only one".to_owned()));
        }
        Ok(&self.via)
    }
}

/// Parses an address or interface of this machine.
fn parse(text: &str) -> Result<LocalPath, String> {
    let path = match text.parse() {
        Ok(ip) => LocalPath::Address(ip),
        Err(_) => LocalPath::Interface(text.to_owned()),
    };
    path.check().map(|()| path.clone()).map_err(|error| match (&path, error.kind()) {
        (LocalPath::Address(ip), std::io::ErrorKind::AddrNotAvailable) => {
            format!("{ip} is not an address of this machine")
        }
        (LocalPath::Interface(name), _) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
            format!("this machine has no network interface {name}")
        }
        _ => error.to_string(),
    })
}
