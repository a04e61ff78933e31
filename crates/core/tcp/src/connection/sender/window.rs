//! The peer's window (RFC 9293, sections 3.3.1 and 3.10.7.4).

use crate::connection::Sender;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WindowUpdate {
    /// Whether the window changed, or its right edge moved while SND.UNA did not.
    pub(crate) changed: bool,
    /// Whether the right edge moved left by more than the rounding of window scaling (RFC 7323, section 2.4).
    pub(crate) shrank: bool,
    pub(crate) opened: bool,
}

#[expect(clippy::multiple_inherent_impl, reason = "window, data sent ahead and form at rest have their files")]
impl Sender {
    /// Updates SND.WND if the segment is the newest (RFC 9293, section 3.10.7.4), to `window` bytes in units of `1 << shift`.
    /// Must be called before SND.UNA is advanced.
    ///
    /// A segment that advances SND.UNA always counts as the newest, although after reordering its sequence number may
    /// be lower than SND.WL1. Otherwise the old window, relative to the new SND.UNA, would exceed the advertised
    /// right edge.
    pub(crate) fn update_window(&mut self, seq: u64, ack: u64, window: u64, shift: u8) -> WindowUpdate {
        let newer = ack > self.una || self.wl1 < seq || (self.wl1 == seq && self.wl2 <= ack);
        if ack < self.una || !newer {
            return WindowUpdate::default();
        }
        let (old_edge, edge) = (self.window_edge(), ack.saturating_add(window));
        (self.wl1, self.wl2) = (seq, ack);
        let changed = window != self.window || edge != old_edge && ack == self.una && window != 0;
        let opened = self.window == 0 && window > 0;
        self.set_window(window);
        WindowUpdate { changed, shrank: old_edge.saturating_sub(edge) >= 1 << shift, opened }
    }

    /// Returns whether the segment at `seq`, which acknowledges no more than SND.UNA, leaves the window unchanged.
    pub(crate) fn keeps_window(&self, seq: u64, ack: u64, window: u64) -> bool {
        ack < self.una || seq < self.wl1 || window == self.window
    }

    /// Records a segment that [keeps the window](Self::keeps_window).
    pub(crate) fn repeat_window(&mut self, seq: u64, ack: u64) {
        if ack == self.una && self.wl1 <= seq {
            (self.wl1, self.wl2) = (seq, ack);
        }
    }

    pub(crate) fn window_edge(&self) -> u64 {
        self.una.saturating_add(self.window)
    }

    /// Returns the usable window: the number of bytes that the peer's window admits beyond SND.NXT.
    pub(crate) fn usable_window(&self) -> u64 {
        self.window_edge().saturating_sub(self.nxt)
    }

    /// Returns the highest offset up to the end of the data sent at which the peer accepts a segment without text: at
    /// most the right edge of its window. Otherwise, it would drop our ACKs, and the windows in them, as long as its
    /// window is closed or has shrunk below what was sent (RFC 9293, section 3.10.7.4, first step, and appendix A.2;
    /// Linux has the same rule). An open window whose edge is less than a unit of `1 << shift` lower was rounded down.
    pub(crate) fn acceptable_to_peer(&self, shift: u8) -> u64 {
        let (end, edge) = (self.sent_to(), self.una.max(1).saturating_add(self.window));
        let unit = if self.window == 0 { 1 } else { 1 << shift };
        if end < edge.saturating_add(unit) { end } else { edge }
    }
}
