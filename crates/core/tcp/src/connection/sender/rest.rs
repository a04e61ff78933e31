//! What remains of the send side while nothing is queued, outstanding or due.

use longhaul_units::Time;

use super::UnsentLimit;
use crate::Scoreboard;
use crate::connection::persist::Persist;
use crate::connection::{Flow, Sender};
use crate::scoreboard::RestingBoard;
use crate::send_buffer::{RestingBuffer, SendBuffer};

/// The fields of a [`Sender`] at rest that have other values than those of a new one.
#[derive(Debug)]
pub(crate) struct RestingSender {
    buffer: RestingBuffer,
    board: RestingBoard,
    /// SND.UNA and SND.NXT.
    una: u64,
    window: u64,
    max_window: u64,
    wl1: u64,
    wl2: u64,
    short_end: u64,
    ece_answered_until: u64,
    last_sent: Option<Time>,
    outflow: Flow,
    app_limited_since: Option<Time>,
    unsent_limit: UnsentLimit,
    peer_mss: u16,
    nodelay: bool,
}

#[expect(clippy::multiple_inherent_impl, reason = "window, data sent ahead and form at rest have their files")]
impl Sender {
    /// Returns what is to be kept, if the sender is at rest.
    pub(crate) fn rest(&self) -> Option<RestingSender> {
        let Self { una, nxt, window, max_window, wl1, wl2, short_end, ece_answered_until, .. } = *self;
        let Self { last_sent, outflow, app_limited_since, unsent_limit, peer_mss, nodelay, .. } = *self;
        let Self { fin_queued, fin_sent, override_sws, writer_blocked, cwr_due, .. } = *self;
        let is_busy = una != nxt || fin_queued || fin_sent || override_sws || writer_blocked || cwr_due;
        if is_busy || self.persist != Persist::default() || self.ahead.is_some() {
            return None;
        }
        Some(RestingSender {
            buffer: self.buffer.resting()?,
            board: self.board.resting()?,
            una,
            window,
            max_window,
            wl1,
            wl2,
            short_end,
            ece_answered_until,
            last_sent,
            outflow,
            app_limited_since,
            unsent_limit,
            peer_mss,
            nodelay,
        })
    }
}

impl RestingSender {
    pub(crate) fn wake(self) -> Sender {
        let Self { una, window, max_window, wl1, wl2, short_end, ece_answered_until, .. } = self;
        let Self { last_sent, outflow, app_limited_since, unsent_limit, peer_mss, nodelay, .. } = self;
        Sender {
            buffer: SendBuffer::wake(self.buffer),
            board: Scoreboard::wake(self.board),
            persist: Persist::default(),
            una,
            nxt: una,
            window,
            max_window,
            wl1,
            wl2,
            peer_mss,
            fin_queued: false,
            fin_sent: false,
            nodelay,
            short_end,
            unsent_limit,
            override_sws: false,
            writer_blocked: false,
            cwr_due: false,
            ece_answered_until,
            last_sent,
            outflow,
            app_limited_since,
            ahead: None,
        }
    }
}
