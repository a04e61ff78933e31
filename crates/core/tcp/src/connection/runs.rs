//! Runs of full-sized segments of new data, which cost less than segments chosen one by one.

use longhaul_cc::Sent;
use longhaul_units::Bytes;

use super::Connection;
use super::output::Fill;

impl Connection {
    /// Sends more segments like the last one of the batch, which was a plain one of new data, as far as nothing else
    /// can be due before them. Returns their payload bytes.
    ///
    /// What decides on a segment changes only with its number while no ACK is processed: less data, less room in both
    /// windows, a smaller budget of the pacer. The last segment of the queued data is not part of a run, since it may
    /// be short, or carry PSH and FIN.
    pub(super) fn transmit_run(&mut self, fill: &mut Fill<'_>) -> u64 {
        let (len, pipe) = (self.mss(), self.pipe());
        let is_plain = fill.is_plain_run(len, self.ecn())
            && self.ext.pairs.is_none()
            && !self.ext.ecn_check.is_due()
            && !self.loss.in_episode()
            && self.loss.allowance(len) == 0
            && self.snd.admits_run()
            && self.quick_start_due(fill.now).is_none();
        if !is_plain || len == 0 {
            return 0;
        }
        let size = u64::from(len);
        let room = self.cc.control.cwnd.0.saturating_sub(pipe);
        let most = self.snd.unsent().saturating_sub(1).min(self.snd.usable_window()).min(room) / size;
        let count = most.min(fill.budget.div_ceil(size)).min(fill.room_for(len));
        let (tx, start) = self.snd.send_run(len, count as u32);
        fill.batch.push_like_last(self.numbers.sequence(start), start, len, count as usize);
        let path = self.path();
        let mut event = Sent::new(fill.now, tx, Bytes(size));
        event.in_flight_before = Bytes(pipe);
        event.tag = self.cc.control.tag;
        self.cc.controller.on_sent_run(&event, count, &path);
        self.stats.bytes_sent += count * size;
        count * size
    }
}
