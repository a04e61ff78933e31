//! Pathload's rules: which delays of a stream count, whether they rise, and what a fleet of streams says of its rate.

use longhaul_units::Span;

use crate::Arrived;
use crate::statistics::median;

/// A value over `high` says that delays rise, one under `low` that they do not; those between and the two ends say nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The lower end: 0 to `high`.
    pub low: f64,
    /// The upper end: 0 to 1.
    pub high: f64,
}

/// The constants of [`stream_trend`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamRule {
    /// The grey band of [`pct`]: 0.55 with a tenth to both sides, 0.495 to 0.605.
    pub pct: Band,
    /// The grey band of [`pdt`]: 0.40 likewise, 0.36 to 0.44.
    pub pdt: Band,
    /// Whether PCT is the part of all points (as the tool does) and not of the steps between them (as published, and the
    /// default).
    pub pct_over_points: bool,
    /// Whether the medians of groups are the points (as published, and the default), and not the delays themselves.
    pub medians: bool,
    /// Of fewer points nothing is said: 2 to 100, 5.
    pub least_points: u32,
    /// The sender was interrupted where a gap is longer than so many planned gaps: 1 to 1000, 2 ...
    pub split_gaps: f64,
    /// ... and also longer than the planned gap and so much: 0 to 1 s, 1 ms.
    pub split_more: Span,
    /// The receiver was interrupted where packets arrive closer together, or by a quarter of their gap where that is less; the
    /// last of them counts: 0 to 10 ms, 7 us (the tool's).
    pub least_arrival: Span,
    /// With a larger part of the arrivals within a quarter of the gap, interrupts are coalesced, and all packets so close are
    /// a burst: 0 to 1, 0.6 (the tool's).
    pub coalesced: f64,
    /// The least rise, as a part of the stream's length: 0 to 0.01, 1e-3. Less is the drift of clocks, or a slow beat with
    /// periodic traffic; a rate that is too high by the resolution makes more.
    pub slope: f64,
    /// A smaller rise (or fall) may be what hosts do, which are late by tens of microseconds, and not at random: the first
    /// packets of a stream find a processor that sleeps or one that waits for them. Nothing is said then: 0 to 10 ms, 100 us,
    /// what a stream of 100 packets, one each 100 us, builds up at 1 % too much.
    pub least_rise: Span,
}

impl Default for StreamRule {
    fn default() -> Self {
        Self {
            pct: Band { low: 0.495, high: 0.605 },
            pdt: Band { low: 0.36, high: 0.44 },
            pct_over_points: false,
            medians: true,
            least_points: 5,
            split_gaps: 2.0,
            split_more: Span::from_millis(1),
            least_arrival: Span::from_micros(7),
            coalesced: 0.6,
            slope: 1e-3,
            least_rise: Span::from_micros(100),
        }
    }
}

/// What the delays of a stream do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trend {
    /// They rise.
    Increasing,
    /// They do not.
    NonIncreasing,
    /// They fall as clearly as others rise. No queue that a stream builds does that: others do, or the hosts.
    Decreasing,
    /// The two measures disagree, or neither says anything.
    Ambiguous,
    /// There are too few of them.
    Discarded,
}

/// The longest piece of a stream during which the sender was not interrupted, without what was lost.
#[must_use]
pub(super) fn longest_piece(packets: &[Option<Arrived>], gap: Span, rule: &StreamRule) -> Vec<Arrived> {
    let longest_gap = gap.mul_f64(rule.split_gaps).max(gap + rule.split_more);
    let (mut best, mut piece): (Vec<Arrived>, Vec<Arrived>) = (Vec::new(), Vec::new());
    // How many packets were planned since the last that arrived: a lost one widens the gap and does not split.
    let mut steps = 0_u64;
    for packet in packets {
        steps += 1;
        let Some(packet) = packet else { continue };
        let allowed = longest_gap + gap * (steps - 1);
        let splits = piece.last().is_some_and(|last| packet.sent_at.since(last.sent_at) > allowed);
        if splits {
            best = longer(best, std::mem::take(&mut piece));
        }
        piece.push(*packet);
        steps = 0;
    }
    longer(best, piece)
}

/// The longer of two; of equals the first.
fn longer(one: Vec<Arrived>, other: Vec<Arrived>) -> Vec<Arrived> {
    if other.len() > one.len() { other } else { one }
}

/// Of packets that arrive closer together than `least` (or at the same time) the last. The very last is the last of those
/// that come together only if nothing after it does, which nobody knows: with `whole` it counts all the same.
#[must_use]
pub(super) fn last_of_bursts(piece: &[Arrived], least: Span, whole: bool) -> Vec<Arrived> {
    let nexts = piece.iter().skip(1).map(Some).chain([None]);
    let apart = |packet: &Arrived, next: Option<&Arrived>| {
        next.map_or(whole, |next| {
            let gap = next.arrived_at.since(packet.arrived_at);
            !gap.is_zero() && gap >= least
        })
    };
    piece.iter().zip(nexts).filter(|(packet, next)| apart(packet, *next)).map(|(packet, _)| *packet).collect()
}

/// Whether interrupts are coalesced: most packets arrive within a quarter of the gap after the one before, which is what
/// Pathrate holds for back to back.
fn is_coalesced(piece: &[Arrived], gap: Span, rule: &StreamRule) -> bool {
    let close = piece
        .windows(2)
        .filter(|pair| matches!(pair, [before, packet] if packet.arrived_at.since(before.arrived_at) < gap / 4));
    close.count() as f64 > rule.coalesced * piece.len().saturating_sub(1) as f64
}

/// One-way delays in seconds, less that of the first packet, and less what a packet that is larger takes longer for at
/// `per_byte` seconds a byte: a prober may make each packet larger than the one before, lest the receiver merges them.
#[must_use]
pub(super) fn relative_delays(piece: &[Arrived], per_byte: f64) -> Vec<f64> {
    let delay = |packet: &Arrived| i128::from(packet.arrived_at.as_nanos()) - i128::from(packet.sent_at.as_nanos());
    let Some(first) = piece.first() else { return Vec::new() };
    let origin = delay(first);
    let larger = |packet: &Arrived| packet.size.as_f64() - first.size.as_f64();
    piece.iter().map(|packet| (delay(packet) - origin) as f64 * 1e-9 - larger(packet) * per_byte).collect()
}

/// The medians of as many groups as they have members: what is left over goes to the last. The delays themselves where
/// there would be fewer than `least` groups.
#[must_use]
pub(super) fn group_medians(delays: &[f64], least: usize) -> Vec<f64> {
    let groups = delays.len().isqrt();
    if groups < least.max(1) {
        return delays.to_vec();
    }
    let size = delays.len() / groups;
    let group = |n: usize| {
        let end = if n + 1 == groups { delays.len() } else { (n + 1) * size };
        delays.get(n * size..end).and_then(median)
    };
    (0..groups).filter_map(group).collect()
}

/// Pairwise comparison: the part of the steps (or of the points, with `over_points`) that go up; 0 to 1.
#[must_use]
pub(super) fn pct(points: &[f64], over_points: bool) -> f64 {
    let up = points.windows(2).filter(|pair| matches!(pair, [before, after] if after > before)).count();
    let all = if over_points { points.len() } else { points.len().saturating_sub(1) };
    if all == 0 { 0.0 } else { up as f64 / all as f64 }
}

/// Pairwise difference: the way from the first point to the last over the way that the points take; -1 to 1, and 0 where
/// they stand still.
#[must_use]
pub(super) fn pdt(points: &[f64]) -> f64 {
    let way: f64 =
        points.windows(2).map(|pair| if let [before, after] = pair { (after - before).abs() } else { 0.0 }).sum();
    match (points.first(), points.last()) {
        (Some(first), Some(last)) if way > 0.0 => (last - first) / way,
        _ => 0.0,
    }
}

/// What PCT and PDT say together: what one says unless the other contradicts it.
#[must_use]
pub(super) fn judge(pct: f64, pdt: f64, rule: &StreamRule) -> Trend {
    let side = |value: f64, band: Band| i8::from(value > band.high) - i8::from(value < band.low);
    match side(pct, rule.pct) + side(pdt, rule.pdt) {
        1.. => Trend::Increasing,
        ..=-1 => Trend::NonIncreasing,
        0 => Trend::Ambiguous,
    }
}

/// The trend of a stream whose packets were planned `gap` apart, over a path that takes `per_byte` seconds for each byte of
/// one.
#[must_use]
pub(super) fn stream_trend(packets: &[Option<Arrived>], (gap, per_byte): (Span, f64), rule: &StreamRule) -> Trend {
    let piece = longest_piece(packets, gap, rule);
    // The last of a burst has waited for up to a gap, and for how long changes slowly: a beat of two periods.
    let (piece, unclear) = if is_coalesced(&piece, gap, rule) {
        (last_of_bursts(&piece, gap / 4, false), rule.least_rise + gap)
    } else {
        (last_of_bursts(&piece, rule.least_arrival.min(gap / 4), true), rule.least_rise)
    };
    let delays = relative_delays(&piece, per_byte);
    let least = rule.least_points as usize;
    if delays.len() < least {
        return Trend::Discarded;
    }
    let points = if rule.medians { group_medians(&delays, least) } else { delays };
    let rise = points.last().zip(points.first()).map_or(0.0, |(last, first)| last - first);
    let lasted = piece.last().zip(piece.first()).map_or(Span::ZERO, |(last, first)| last.sent_at.since(first.sent_at));
    if rise > 0.0 && rise < rule.slope * lasted.as_secs_f64() {
        return Trend::NonIncreasing;
    }
    let clear = rise.abs() >= unclear.as_secs_f64();
    match judge(pct(&points, rule.pct_over_points), pdt(&points), rule) {
        Trend::Increasing if !clear => Trend::Ambiguous,
        Trend::NonIncreasing if clear && falls(&points, rule) => Trend::Decreasing,
        trend => trend,
    }
}

/// Whether points fall as they would have to rise for [`Trend::Increasing`].
fn falls(points: &[f64], rule: &StreamRule) -> bool {
    let mirrored: Vec<f64> = points.iter().map(|point| -point).collect();
    judge(pct(&mirrored, rule.pct_over_points), pdt(&mirrored), rule) == Trend::Increasing
}

/// The constants of [`fleet_verdict`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FleetRule {
    /// The part of the usable streams that decides: 0.5 to 1, 0.6 (the tool's; 0.7 was published). For a rate to be above,
    /// it is what those that rise are more than those that fall.
    pub agree: f64,
    /// The least part of all streams that must be usable: 0 to 1, 0.5.
    pub usable: f64,
    /// A loss over this is medium: 0 to `high_loss`, 0.03.
    pub medium_loss: f64,
    /// A loss over this is high, and one such stream decides, if its delays do not deny that a queue grows: 0 to 1, 0.15 ...
    pub high_loss: f64,
    /// ... else so many: 1 to 100, 3 (one by the tool, whatever the delays are).
    pub high_streams: u32,
    /// So many streams with a medium loss decide, unless more do not rise than do: 1 to 100, 7, more than half of a fleet (half
    /// by the tool, whatever the delays are). Of streams over a path that loses four packets in a hundred at random, most have
    /// a medium loss, at every rate.
    pub medium_streams: u32,
}

impl Default for FleetRule {
    fn default() -> Self {
        Self { agree: 0.6, usable: 0.5, medium_loss: 0.03, high_loss: 0.15, high_streams: 3, medium_streams: 7 }
    }
}

/// What a stream tells its fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stream {
    /// Its delays.
    pub(super) trend: Trend,
    /// The part of its packets that was lost, 0 to 1. A stream of which nothing arrived has lost 0: who knows why.
    pub(super) loss: f64,
}

/// Where the rate of a fleet lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Above what is available.
    Above,
    /// Below.
    Below,
    /// At times above, at times below.
    Grey,
    /// Too few streams were usable.
    Again,
}

/// Whether streams have lost so much that the fleet need not go on.
#[must_use]
pub(super) fn aborts(streams: &[Stream], rule: &FleetRule) -> bool {
    let lossy = streams.iter().filter(|stream| stream.loss > rule.high_loss);
    let grows = |stream: &Stream| !matches!(stream.trend, Trend::NonIncreasing | Trend::Decreasing);
    lossy.clone().any(grows) || lossy.count() >= rule.high_streams as usize
}

/// What a whole fleet says, and which part of its streams, 0 to 1, said so.
#[must_use]
pub(super) fn fleet_verdict(streams: &[Stream], rule: &FleetRule) -> (Verdict, f64) {
    let with = |trend: Trend| streams.iter().filter(|stream| stream.trend == trend).count() as f64;
    let all = streams.len() as f64;
    let (up, down) = (with(Trend::Increasing), with(Trend::Decreasing));
    let level = with(Trend::NonIncreasing) + down;
    let usable = all - with(Trend::Discarded);
    let losing = |more: f64| streams.iter().filter(|stream| stream.loss > more).count();
    let lossy = losing(rule.medium_loss);
    // A queue that overflows has grown before. Where most streams find none that grows, packets are lost by chance.
    let overflows = lossy >= rule.medium_streams as usize && level <= up;
    if overflows {
        (Verdict::Above, lossy as f64 / all)
    } else if aborts(streams, rule) {
        (Verdict::Above, (losing(rule.high_loss) as f64).max(up) / all)
    } else if usable < rule.usable * all || usable == 0.0 {
        (Verdict::Again, 0.0)
    } else if up - down >= rule.agree * usable {
        (Verdict::Above, (up - down) / all)
    } else if level >= rule.agree * usable {
        (Verdict::Below, level / all)
    } else {
        (Verdict::Grey, 1.0 - up.max(level) / all)
    }
}
