//! How much unsent data a writer may queue.

use crate::Config;

/// Enough to cover the time until the writer is woken. More costs memory, and the data leaves the processor's caches before it
/// is sent: with 4 MiB, sending a gigabyte took a fifth more processor time on a busy machine, but not on an idle one.
const ALONE: u64 = 256 << 10;
/// The least that is left of it beside other connections: about as much as one send call takes. The writer is woken while
/// the others send.
const LEAST: u64 = 64 << 10;
/// The limit while the peer's window is closed.
const WINDOW_CLOSED: u64 = 4 << 20;

/// Limit of unsent data, at which writers block.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::connection) struct UnsentLimit {
    configured: Option<u32>,
    /// Number of other connections of the endpoint that waited for their turn to send when this one had its last.
    pub(in crate::connection) others: u16,
}

impl UnsentLimit {
    pub(super) fn new(config: &Config) -> Self {
        let mut limit = Self::default();
        limit.configure(config);
        limit
    }

    pub(super) fn configure(&mut self, config: &Config) {
        self.configured = config.notsent_lowat.map(|bytes| u32::try_from(bytes.max(1)).unwrap_or(u32::MAX));
    }

    /// Returns the limit in bytes. It is higher while the peer's `window_is_closed`: the peer may be waiting for this
    /// application to read, which it may do only after its write has succeeded. There is none if data is
    /// `sent_ahead`, since it is sent soon.
    pub(super) fn bytes(self, sent_ahead: bool, window_is_closed: bool) -> u64 {
        self.configured.map_or_else(
            || match (sent_ahead, window_is_closed) {
                (true, _) => u64::MAX,
                (false, true) => WINDOW_CLOSED,
                (false, false) => (ALONE / (1 + u64::from(self.others))).max(LEAST),
            },
            u64::from,
        )
    }
}
