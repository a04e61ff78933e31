//! State of one end of a connection, derived from its packets.

use longhaul_sim::Pattern;
use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header};

use crate::intervals::Intervals;

/// One end of a connection. Offsets are relative to the initial sequence number: 0 is the SYN, 1 the first byte.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// Content of the stream that this end sends.
    pub(crate) pattern: Pattern,
    isn: Option<u32>,
    /// Header of the SYN that this end sent.
    pub(crate) offered: Header,
    /// One past the highest offset sent.
    pub(crate) sent: u64,
    /// First segment of a flipped pair whose second segment has been sent: its first offset and its end.
    flipped: Option<(u64, u64)>,
    fin: Option<u64>,
    /// Offsets of the peer's stream that arrived at least once; `twice` has those that arrived more than once.
    arrived: Intervals,
    twice: Intervals,
    newest: Option<(u64, u64)>,
    /// Newest timestamp that arrived.
    stamp: u32,
    /// Highest acknowledgment sent. `edge` is the highest right window edge sent, and `allowed` the highest that
    /// arrived.
    acked: u64,
    edge: u64,
    allowed: u64,
    /// Right window edge in the newest segment that arrived.
    told: u64,
    /// Sequence and acknowledgment number of the last window update by the rule of RFC 9293, section 3.10.7.4, and its
    /// right edge: after reordering, not that of the newest segment.
    updated: (u64, u64),
    ruled: u64,
    /// Highest acknowledgment that arrived.
    heard: u64,
    shift: Option<u8>,
    /// Arrival time of the oldest in-order data that has not been acknowledged.
    owes_ack_since: Option<Time>,
    /// Arrival time of a RST, if no other segment arrived after it.
    reset_arrived: Option<Time>,
    /// Whether this end has sent a RST, and whether it has answered a SYN after that.
    has_reset: bool,
    has_answered_again: bool,
}

/// Returns the offset of the sequence number `seq` that is nearest to `near`.
fn offset(isn: u32, seq: u32, near: u64) -> i64 {
    let distance = seq.wrapping_sub(isn.wrapping_add(near as u32)).cast_signed();
    near.cast_signed() + i64::from(distance)
}

/// Returns an error from the function unless a protocol rule holds.
macro_rules! rule {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}

impl Side {
    /// Excludes `span`, in which the host was suspended, from the delay of the next acknowledgment.
    pub(crate) fn sleep(&mut self, span: Span) {
        self.owes_ack_since = self.owes_ack_since.map(|since| since + span);
    }

    pub(crate) fn new(pattern: Pattern) -> Self {
        Self {
            pattern,
            isn: None,
            offered: Header::default(),
            sent: 0,
            flipped: None,
            fin: None,
            arrived: Intervals::default(),
            twice: Intervals::default(),
            newest: None,
            stamp: 0,
            acked: 0,
            edge: 0,
            allowed: 0,
            told: u64::MAX,
            updated: (0, 0),
            ruled: u64::MAX,
            heard: 0,
            shift: None,
            owes_ack_since: None,
            reset_arrived: None,
            has_reset: false,
            has_answered_again: false,
        }
    }

    /// Checks a segment that this end sends to `peer`.
    pub(crate) fn on_sent(&mut self, now: Time, peer: &Self, header: &Header, payload: &[u8]) -> Result<(), String> {
        let has = |flag| header.flags.contains(flag);
        if has(Flags::RST) {
            rule!(self.reset_arrived != Some(now), "a RST answers a RST");
            self.has_reset = true;
            return Ok(());
        }
        if payload.is_empty() && !has(Flags::SYN) && !has(Flags::FIN) {
            // The arrived RST was answered by a challenge ACK. A RST that is sent later is caused by a timer.
            self.reset_arrived = None;
        }
        // A duplicate SYN that arrives after a RST begins another connection, whose segments are not checked.
        self.has_answered_again |= self.has_reset && has(Flags::SYN) && has(Flags::ACK);
        if self.has_answered_again {
            return Ok(());
        }
        if has(Flags::SYN) {
            rule!(self.isn.is_none_or(|isn| isn == header.seq), "the initial sequence number changed");
            rule!(payload.is_empty(), "data in a SYN");
            self.isn = Some(header.seq);
            self.offered = header.clone();
            self.sent = self.sent.max(1);
            self.edge = self.edge.max(1 + u64::from(header.window));
            return Ok(());
        }
        let isn = self.isn.ok_or("data before the SYN")?;
        let start = offset(isn, header.seq, self.sent);
        if payload.is_empty() && !has(Flags::FIN) {
            // A bare ACK is sent at SND.NXT, or at the edge of the peer's window if that is lower. A keep-alive is sent
            // one below.
            let edges = [self.sent.min(self.told), self.sent.min(self.ruled)].map(|edge| edge as i64);
            let at_next = edges.contains(&start) || [self.sent as i64, self.sent as i64 - 1].contains(&start);
            rule!(at_next, "a bare ACK at {start}, not at SND.NXT {} or the edges {edges:?}", self.sent);
        } else {
            self.on_data_sent(peer, start, has(Flags::FIN), header, payload)?;
        }
        rule!(has(Flags::ACK), "a segment without ACK");
        self.on_ack_sent(peer, header)
    }

    fn on_data_sent(
        &mut self,
        peer: &Self,
        start: i64,
        fin: bool,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), String> {
        rule!(start >= 1, "data at {start}");
        let start = start as u64;
        let end = start + payload.len() as u64;
        self.fill_or_leave(start, end)?;
        rule!(self.pattern.matches(start - 1, payload), "bytes at {start} are not those written there");
        let mss = usize::from(peer.offered.options.mss.unwrap_or(536));
        let taken = CheshireCodec::header_len(&header.options) - CheshireCodec::HEADER_LEN;
        rule!(payload.len() + taken <= mss, "{} bytes and {taken} of options exceed MSS {mss}", payload.len());
        let probe = payload.len() == 1;
        rule!(
            end <= self.allowed + u64::from(probe) || end <= self.sent,
            "data to {end} beyond the window's edge {}",
            self.allowed
        );
        rule!(!fin || payload.is_empty() || end < self.allowed || end < self.sent, "a FIN at {end} beyond the edge");
        if let Some(at) = self.fin {
            rule!(end <= at && (!fin || end == at), "data to {end} after the FIN at {at}, or another FIN");
        } else if fin {
            rule!(end >= self.sent, "a FIN at {end} below SND.NXT {}", self.sent);
            self.fin = Some(end);
        }
        self.sent = self.sent.max(end + u64::from(fin));
        Ok(())
    }

    /// Checks that data is sent without gaps. The first segment of a flipped pair may be left out, but must be sent
    /// next.
    fn fill_or_leave(&mut self, start: u64, end: u64) -> Result<(), String> {
        if let Some((from, to)) = self.flipped.take() {
            rule!((start, end) == (from, to), "sent {start}..{end} while {from}..{to} of a pair was due");
        } else if start > self.sent {
            let (behind, len) = (start - self.sent, end - start);
            rule!(behind == len + 1, "a gap: sent up to {}, now {start}..{end}", self.sent);
            self.flipped = Some((self.sent, start));
        }
        Ok(())
    }

    fn on_ack_sent(&mut self, peer: &Self, header: &Header) -> Result<(), String> {
        let Some(isn) = peer.isn else { return Err("an ACK before the peer's SYN".into()) };
        let ack = offset(isn, header.ack, self.acked.max(1));
        rule!(ack >= self.acked as i64, "acknowledgment went back from {} to {ack}", self.acked);
        let ack = ack as u64;
        let reach = self.arrived.reach(0);
        rule!(ack <= reach, "acknowledges {ack}, but only {reach} arrived");
        self.acked = ack;
        self.owes_ack_since = None;
        let shift = self.shift(peer);
        let edge = ack + (u64::from(header.window) << shift);
        // A scaled window cannot represent every edge, so the edge may be less than one unit too low (RFC 7323, section
        // 2.4).
        rule!(edge + (1 << shift) > self.edge, "the window's right edge moved left from {} to {edge}", self.edge);
        self.edge = self.edge.max(edge);
        self.check_sack(isn, ack, header)
    }

    fn check_sack(&self, isn: u32, ack: u64, header: &Header) -> Result<(), String> {
        let blocks: Vec<(u64, u64)> = header
            .options
            .sack
            .iter()
            .map(|b| (offset(isn, b.left, ack).max(0) as u64, offset(isn, b.right, ack).max(0) as u64))
            .collect();
        rule!(blocks.iter().all(|(l, r)| l < r), "an empty block in {blocks:?}");
        let limit = if header.options.timestamps.is_some() { 3 } else { 4 };
        rule!(blocks.len() <= limit, "{} SACK blocks", blocks.len());
        let dsack = usize::from(header.options.sack.has_dsack(header.ack));
        for (l, r) in blocks.iter().take(dsack) {
            rule!(self.twice.contains(*l..*r), "a D-SACK of {l}..{r}, which did not arrive twice");
        }
        let rest = blocks.get(dsack..).unwrap_or_default();
        for (l, r) in rest {
            rule!(*l > ack && *r <= self.edge, "block {l}..{r} outside {ack}..{}", self.edge);
            rule!(self.arrived.contains(*l..*r), "block {l}..{r} did not arrive");
        }
        let mut sorted = rest.to_vec();
        sorted.sort_unstable();
        rule!(sorted.windows(2).all(|w| matches!(w, [a, b] if a.1 < b.0)), "blocks overlap: {blocks:?}");
        if let (Some((start, end)), Some((l, r))) = (self.newest, rest.first()) {
            rule!(
                start <= ack || (*l <= start && end <= *r),
                "the first block {l}..{r} lacks the newest arrival {start}..{end}"
            );
        }
        Ok(())
    }

    fn shift(&mut self, peer: &Self) -> u8 {
        let (ours, theirs) = (self.offered.options.window_scale, peer.offered.options.window_scale);
        *self.shift.get_or_insert(ours.filter(|_| theirs.is_some()).unwrap_or(0))
    }

    /// Records a segment of `peer` that arrives at this side.
    pub(crate) fn on_arrival(&mut self, now: Time, peer: &mut Self, header: &Header, payload: &[u8]) {
        self.reset_arrived = header.flags.contains(Flags::RST).then_some(now);
        let Some(isn) = peer.isn.filter(|_| self.reset_arrived.is_none()) else { return };
        let start = offset(isn, header.seq, self.arrived.reach(0).max(1)).max(0) as u64;
        let len = header.sequence_len(payload.len() as u32);
        let before = self.arrived.reach(0);
        let end = start + u64::from(len);
        if len > 0 {
            for overlap in self.arrived.overlaps(start..end) {
                self.twice.add(overlap);
            }
            self.arrived.add(start..end);
            // PAWS (RFC 7323, section 5.3) or the limit on old acknowledgments (RFC 5961, section 5.2) may discard an
            // overtaken segment, so no reaction is expected.
            let old_ack = self.isn.is_some_and(|ours| offset(ours, header.ack, self.heard) < self.heard as i64);
            let overtaken =
                old_ack || header.options.timestamps.is_some_and(|t| (t.value.wrapping_sub(self.stamp) as i32) < 0);
            self.newest = (!payload.is_empty() && !overtaken).then_some((start, start + payload.len() as u64));
        }
        if let Some(stamp) = header.options.timestamps {
            self.stamp =
                if (stamp.value.wrapping_sub(self.stamp) as i32) > 0 || before == 0 { stamp.value } else { self.stamp };
        }
        if self.arrived.reach(0) > before && before > 0 && !payload.is_empty() && self.newest.is_some() {
            self.owes_ack_since.get_or_insert(now);
        }
        if header.flags.contains(Flags::ACK) {
            let (Some(ours), syn) = (self.isn, header.flags.contains(Flags::SYN)) else { return };
            // The window of a SYN is not scaled, unless a SYN-ACK announces that it is.
            let shift = if syn && !header.options.scaled_window { 0 } else { peer.shift(self) };
            let ack = offset(ours, header.ack, self.sent).max(0) as u64;
            let edge = ack + (u64::from(header.window) << shift);
            self.told = if ack >= self.heard { edge } else { self.told };
            if ack >= self.heard && (start, ack) >= self.updated {
                (self.updated, self.ruled) = ((start, ack), edge);
            }
            self.allowed = self.allowed.max(edge);
            self.heard = self.heard.max(ack);
        } else if header.flags.contains(Flags::SYN) {
            self.allowed = self.allowed.max(1 + u64::from(header.window));
        }
    }

    /// Checks the rules that must hold between events.
    pub(crate) fn check_time(&self, now: Time, alive: bool) -> Result<(), String> {
        let late = self.owes_ack_since.filter(|_| alive).map(|at| now - at);
        // RFC 9293, section 3.8.6.3: an ACK is delayed by less than 0.5 s.
        rule!(late.is_none_or(|late| late <= Span::from_millis(500)), "an ACK is owed for {late:?}");
        Ok(())
    }

    pub(crate) fn syn_seen(&self) -> bool {
        self.isn.is_some()
    }

    /// Returns the initial sequence number, if the SYN was sent.
    pub(crate) fn isn(&self) -> Option<u32> {
        self.isn
    }
}
