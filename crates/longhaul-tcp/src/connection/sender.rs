//! Send sequence variables (RFC 9293, section 3.3.1) and the functions that depend on them alone.

use super::persist::Persist;
use super::rc3::Rc3Loop;
use crate::config::Config;
use crate::scoreboard::Scoreboard;
use crate::send_buffer::SendBuffer;

/// The smallest MSS accepted from a peer: with a smaller one, metadata outweighs data (CVE-2019-11479).
pub(super) const MIN_PEER_MSS: u16 = 128;

/// Unsent bytes up to which a writer may fill the send buffer: enough to cover the time until the writer is woken.
/// More costs memory, and the data leaves the processor's caches before it is sent: with 4 MiB, sending a gigabyte
/// took a fifth more processor time on a busy machine, but not on an idle one.
const DEFAULT_NOTSENT_LOWAT: u64 = 256 << 10;
/// The same bound while the peer's window is closed.
const CLOSED_WINDOW_LOWAT: u64 = 4 << 20;

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) buffer: SendBuffer,
    pub(super) board: Scoreboard,
    /// SND.UNA and SND.NXT as stream offsets.
    pub(super) una: u64,
    pub(super) nxt: u64,
    /// SND.WND in bytes, the largest window ever, SND.WL1 and SND.WL2.
    pub(super) window: u64,
    pub(super) max_window: u64,
    pub(super) wl1: u64,
    pub(super) wl2: u64,
    /// The MSS from the peer's SYN, without deducting options.
    pub(super) peer_mss: u16,
    /// The application shut down its side: a FIN follows the last byte.
    pub(super) fin_queued: bool,
    pub(super) fin_sent: bool,
    pub(super) nodelay: bool,
    /// Unsent bytes at which writers block; `None` selects [`DEFAULT_NOTSENT_LOWAT`].
    pub(super) lowat: Option<u64>,
    /// The override timeout of silly-window avoidance fired: a segment of any size may be sent (RFC 9293, section
    /// 3.8.6.2.1).
    pub(super) override_sws: bool,
    /// A writer found the buffer full and waits for [`Event::Writable`](super::Event::Writable).
    pub(super) writer_blocked: bool,
    /// The next new data segment carries CWR (RFC 3168, section 6.1.2).
    pub(super) cwr_due: bool,
    /// ECE triggers no further reduction until this offset is acknowledged.
    pub(super) ece_answered_until: u64,
    pub(super) persist: Persist,
    /// The time of the last transmission; idle time before a restart counts from here.
    pub(super) last_sent: Option<longhaul_units::Time>,
    /// The time since which the window has had room but the application has had no data to send; cleared when new
    /// data is sent.
    pub(super) app_limited_since: Option<longhaul_units::Time>,
    /// Data sent beyond SND.NXT by the RC3 loop, if the controller ever started it.
    pub(super) rc3: Option<Box<Rc3Loop>>,
}

impl Sender {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            buffer: SendBuffer::new(config.send_buffer),
            board: Scoreboard::new(),
            una: 0,
            nxt: 0,
            window: 0,
            max_window: 0,
            wl1: 0,
            wl2: 0,
            peer_mss: 536,
            fin_queued: false,
            fin_sent: false,
            nodelay: !config.nagle,
            lowat: lowat(config),
            override_sws: false,
            writer_blocked: false,
            cwr_due: false,
            ece_answered_until: 0,
            persist: Persist::default(),
            last_sent: None,
            app_limited_since: None,
            rc3: None,
        }
    }

    /// Returns the number of bytes that a writer may add.
    pub(super) fn room(&self) -> usize {
        let below = self.lowat().saturating_sub(self.unsent());
        self.buffer.free().min(usize::try_from(below).unwrap_or(usize::MAX))
    }

    /// Returns the number of unsent bytes at which writers block. It is higher while the peer's window is closed: the
    /// peer may be waiting for this application to read, which it may do only after its write has succeeded.
    fn lowat(&self) -> u64 {
        let waits_for_window = self.window_edge().saturating_sub(self.nxt) < u64::from(self.peer_mss);
        self.lowat.unwrap_or(match (self.has_open_rc3_plan(), waits_for_window) {
            // The RC3 loop sends the data soon.
            (true, _) => u64::MAX,
            (false, true) => CLOSED_WINDOW_LOWAT,
            (false, false) => DEFAULT_NOTSENT_LOWAT,
        })
    }

    /// Returns whether to wake a waiting writer. Room for a single segment is not enough, so wake-ups are rare.
    pub(super) fn should_wake_writer(&self) -> bool {
        self.buffer.free() >= self.buffer.capacity() / 4 && self.unsent() <= self.lowat() / 2
    }

    /// Returns the number of queued bytes that were never sent, without the FIN.
    pub(super) fn unsent(&self) -> u64 {
        self.buffer.end().saturating_sub(self.nxt.max(1))
    }

    /// Returns whether a FIN is queued and was never sent.
    pub(super) fn has_unsent_fin(&self) -> bool {
        self.fin_queued && !self.fin_sent
    }

    /// Returns the right edge of the peer's window.
    pub(super) fn window_edge(&self) -> u64 {
        self.una.saturating_add(self.window)
    }

    /// Returns FlightSize (RFC 5681, section 2), without data that the peer had received before SND.NXT reached it.
    pub(super) fn flight_size(&self) -> u64 {
        (self.nxt - self.una).saturating_sub(self.board.passed_bytes())
    }

    /// Returns whether all data and the FIN are acknowledged.
    pub(super) fn fin_acknowledged(&self) -> bool {
        self.fin_sent && self.una == self.nxt
    }
}

pub(super) fn lowat(config: &Config) -> Option<u64> {
    config.notsent_lowat.map(|bytes| bytes.max(1) as u64)
}
