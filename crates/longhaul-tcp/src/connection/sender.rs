//! The send side's variables (RFC 9293, section 3.3.1) and what of them needs no other part.

use super::persist::Persist;
use super::tail_loop::TailLoop;
use crate::config::Config;
use crate::scoreboard::Scoreboard;
use crate::send_buffer::SendBuffer;

/// The least MSS taken from a peer: below it, metadata outweighs data (CVE-2019-11479).
pub(super) const MIN_PEER_MSS: u16 = 128;

/// How far a writer may be ahead of what the congestion window and the pacer let go: enough to bridge the time until it
/// is woken. More costs memory, and goes cold in the processor's caches before it leaves: with 4 MiB a gigabyte took a
/// fifth more of the processor's time on a busy machine, though no more on an idle one.
const AHEAD: u64 = 256 << 10;
/// The same ahead of a window that the peer keeps closed.
const BEFORE_WINDOW: u64 = 4 << 20;

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) buffer: SendBuffer,
    pub(super) board: Scoreboard,
    /// SND.UNA and SND.NXT as stream offsets.
    pub(super) una: u64,
    pub(super) nxt: u64,
    /// SND.WND in bytes, the largest ever, and the segment (sequence, acknowledgment) it came with.
    pub(super) window: u64,
    pub(super) max_window: u64,
    pub(super) wl1: u64,
    pub(super) wl2: u64,
    /// What the peer's SYN allows, options not deducted.
    pub(super) peer_mss: u16,
    /// The application shut its side down: a FIN follows the last byte.
    pub(super) fin_queued: bool,
    pub(super) fin_sent: bool,
    pub(super) nodelay: bool,
    /// Unsent bytes from which on writers wait; `None` is [`AHEAD`].
    pub(super) lowat: Option<u64>,
    /// The silly-window override fired: what fits may leave, however little (RFC 9293, section 3.8.6.2.1).
    pub(super) override_sws: bool,
    /// A writer found the buffer full and waits.
    pub(super) writer_waits: bool,
    /// The next new data segment carries CWR (RFC 3168, section 6.1.2).
    pub(super) cwr_due: bool,
    /// ECE is not answered again until this offset is acknowledged.
    pub(super) ece_answered_until: u64,
    pub(super) persist: Persist,
    /// When anything was sent last; the restart after idleness counts from here.
    pub(super) last_sent: Option<longhaul_units::Time>,
    /// Since when the window has had room and the application nothing to send, until new data leave.
    pub(super) starved_since: Option<longhaul_units::Time>,
    /// What left beyond SND.NXT, if the controller ever had that done.
    pub(super) tail: Option<Box<TailLoop>>,
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
            writer_waits: false,
            cwr_due: false,
            ece_answered_until: 0,
            persist: Persist::default(),
            last_sent: None,
            starved_since: None,
            tail: None,
        }
    }

    /// Bytes that a writer may add now.
    pub(super) fn room(&self) -> usize {
        let below = self.lowat().saturating_sub(self.unsent());
        self.buffer.free().min(usize::try_from(below).unwrap_or(usize::MAX))
    }

    /// More may wait for the peer's window: it is the peer that is behind, and a writer that is about to read, which is
    /// what the peer may be waiting for, is let go on to that.
    fn lowat(&self) -> u64 {
        let waits_for_window = self.window_edge().saturating_sub(self.nxt) < u64::from(self.peer_mss);
        self.lowat.unwrap_or(match (self.has_open_tail(), waits_for_window) {
            // What waits does not wait long.
            (true, _) => u64::MAX,
            (false, true) => BEFORE_WINDOW,
            (false, false) => AHEAD,
        })
    }

    /// Whether a waiting writer is to be woken: for a fair piece, not for every segment.
    pub(super) fn has_room_again(&self) -> bool {
        self.buffer.free() >= self.buffer.capacity() / 4 && self.unsent() <= self.lowat() / 2
    }

    /// Bytes queued that were never sent, FIN not counted.
    pub(super) fn unsent(&self) -> u64 {
        self.buffer.end().saturating_sub(self.nxt.max(1))
    }

    /// Whether a FIN is queued and was never sent.
    pub(super) fn fin_waits(&self) -> bool {
        self.fin_queued && !self.fin_sent
    }

    /// The right edge of the peer's window.
    pub(super) fn window_edge(&self) -> u64 {
        self.una.saturating_add(self.window)
    }

    /// FlightSize (RFC 5681, section 2), without what the peer had before the window came to it.
    pub(super) fn flight_size(&self) -> u64 {
        (self.nxt - self.una).saturating_sub(self.board.passed_bytes())
    }

    /// Whether everything the application wrote, and its FIN, is acknowledged.
    pub(super) fn fin_acknowledged(&self) -> bool {
        self.fin_sent && self.una == self.nxt
    }
}

pub(super) fn lowat(config: &Config) -> Option<u64> {
    config.notsent_lowat.map(|bytes| bytes.max(1) as u64)
}
