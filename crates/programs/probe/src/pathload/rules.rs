//! Rules of Pathload: the usable delays of a stream, their trend, and the verdict of a fleet.

use longhaul_link::statistics::median;
use longhaul_units::Span;

use crate::Arrived;
use crate::options::options;

/// Grey band of a trend metric: delays rise if the metric is above `high`, and do not rise if it is below `low`.
/// Between the two, ends included, it is undecided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Band {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

options! {
    /// Constants of the trend of a stream.
    pub(crate) struct StreamRule {
        /// Grey band of PCT, the pairwise comparison test: 0.55 plus and minus 10 %.
        pct: Band = Band { low: 0.495, high: 0.605 };
        /// Grey band of PDT, the pairwise difference test: 0.40 plus and minus 10 %.
        pdt: Band = Band { low: 0.36, high: 0.44 };
        /// Minimum number of points for a trend.
        least_points: u32 = 5;
        /// Minimum gap of an interrupted sender, in planned gaps. It must also exceed the planned gap by `split_more`.
        split_gaps: f64 = 2.0;
        /// Minimum excess over the planned gap of an interrupted sender.
        split_more: Span = Span::from_millis(1);
        /// Time between arrivals below which the receiver was interrupted, as in the tool, but at most a quarter of the
        /// gap. Only the last of such packets counts.
        least_arrival: Span = Span::from_micros(7);
        /// Fraction of arrivals within a quarter of the gap above which interrupts are coalesced, and such packets form
        /// bursts, as in the tool.
        coalesced: f64 = 0.6;
        /// Smallest rise of the delay relative to the duration of the stream. A smaller rise is clock drift or a slow
        /// beat with periodic traffic. A rate that is too high by the resolution causes a larger rise.
        slope: f64 = 1e-3;
        /// Smallest rise or fall of the delay that cannot be caused by the hosts. A stream with a smaller change is
        /// undecided. Hosts are late by tens of microseconds, and not at random, because the processor may sleep or
        /// wait at the first packets of a stream. A stream of 100 packets every 100 us builds up 100 us if its rate is
        /// 1 % too high.
        least_rise: Span = Span::from_micros(100);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trend {
    Increasing,
    NonIncreasing,
    /// Delays fall as clearly as they rise in an increasing stream. The cause is cross traffic or the hosts, because
    /// the stream's own queue cannot cause this.
    Decreasing,
    /// PCT and PDT disagree, or both are undecided.
    Ambiguous,
    /// Too few delays are usable.
    Discarded,
}

/// Returns the longest piece of a stream without an interruption of the sender. Lost packets are skipped.
pub(super) fn longest_piece(packets: &[Option<Arrived>], gap: Span, rule: &StreamRule) -> Vec<Arrived> {
    let longest_gap = gap.mul_f64(rule.split_gaps).max(gap + rule.split_more);
    let (mut best, mut piece): (Vec<Arrived>, Vec<Arrived>) = (Vec::new(), Vec::new());
    // Number of planned packets since the last one that arrived: a lost packet widens the gap and does not split the
    // stream.
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

fn longer(one: Vec<Arrived>, other: Vec<Arrived>) -> Vec<Arrived> {
    if other.len() > one.len() { other } else { one }
}

/// Returns the last packet of each burst, in which packets arrive within less than `least` or at the same time. Whether
/// the last packet of the piece ends its burst is unknown; it is included if `whole` is true.
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

/// Returns whether interrupts are coalesced: most packets arrive within a quarter of the gap after the previous packet,
/// which Pathrate counts as back to back.
fn is_coalesced(piece: &[Arrived], gap: Span, rule: &StreamRule) -> bool {
    let close = piece
        .windows(2)
        .filter(|pair| matches!(pair, [before, packet] if packet.arrived_at.since(before.arrived_at) < gap / 4));
    close.count() as f64 > rule.coalesced * piece.len().saturating_sub(1) as f64
}

/// Returns one-way delays in seconds relative to that of the first packet, without the additional transmission time of
/// larger packets at `per_byte` seconds per byte. Drivers make each packet larger than the previous one, so that the
/// receiver does not merge them.
pub(super) fn relative_delays(piece: &[Arrived], per_byte: f64) -> Vec<f64> {
    let delay = |packet: &Arrived| i128::from(packet.arrived_at.as_nanos()) - i128::from(packet.sent_at.as_nanos());
    let Some(first) = piece.first() else { return Vec::new() };
    let origin = delay(first);
    let larger = |packet: &Arrived| packet.size.as_f64() - first.size.as_f64();
    piece.iter().map(|packet| (delay(packet) - origin) as f64 * 1e-9 - larger(packet) * per_byte).collect()
}

/// Returns the medians of groups of delays, where the number of groups is the square root of the number of delays. The
/// last group includes the remainder. With fewer than `least` groups, the delays themselves are returned.
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

/// Pairwise comparison test (PCT): fraction of the steps between points that are upward, 0 to 1, as published. The tool
/// divides by the number of points.
pub(super) fn pct(points: &[f64]) -> f64 {
    let up = points.windows(2).filter(|pair| matches!(pair, [before, after] if after > before)).count();
    let all = points.len().saturating_sub(1);
    if all == 0 { 0.0 } else { up as f64 / all as f64 }
}

/// Pairwise difference test (PDT): difference between the last and the first point, relative to the sum of all absolute
/// differences; -1 to 1, and 0 for equal points.
pub(super) fn pdt(points: &[f64]) -> f64 {
    let way: f64 =
        points.windows(2).map(|pair| if let [before, after] = pair { (after - before).abs() } else { 0.0 }).sum();
    match (points.first(), points.last()) {
        (Some(first), Some(last)) if way > 0.0 => (last - first) / way,
        _ => 0.0,
    }
}

/// Combines PCT and PDT: the trend is that of either test unless the other contradicts it.
pub(super) fn judge(pct: f64, pdt: f64, rule: &StreamRule) -> Trend {
    let side = |value: f64, band: Band| i8::from(value > band.high) - i8::from(value < band.low);
    match side(pct, rule.pct) + side(pdt, rule.pdt) {
        1.. => Trend::Increasing,
        ..=-1 => Trend::NonIncreasing,
        0 => Trend::Ambiguous,
    }
}

/// Returns the trend of a stream whose packets were planned `gap` apart, over a path that takes `per_byte` seconds to
/// transmit a byte.
pub(super) fn stream_trend(packets: &[Option<Arrived>], (gap, per_byte): (Span, f64), rule: &StreamRule) -> Trend {
    let piece = longest_piece(packets, gap, rule);
    // The last packet of a burst waits for up to one gap. This wait changes slowly, like a beat between two periods.
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
    let points = group_medians(&delays, least);
    let rise = points.last().zip(points.first()).map_or(0.0, |(last, first)| last - first);
    let lasted = piece.last().zip(piece.first()).map_or(Span::ZERO, |(last, first)| last.sent_at.since(first.sent_at));
    if rise > 0.0 && rise < rule.slope * lasted.as_secs_f64() {
        return Trend::NonIncreasing;
    }
    let clear = rise.abs() >= unclear.as_secs_f64();
    match judge(pct(&points), pdt(&points), rule) {
        Trend::Increasing if !clear => Trend::Ambiguous,
        Trend::NonIncreasing if clear && falls(&points, rule) => Trend::Decreasing,
        trend => trend,
    }
}

/// Returns whether the mirrored points have the trend [`Trend::Increasing`].
fn falls(points: &[f64], rule: &StreamRule) -> bool {
    let mirrored: Vec<f64> = points.iter().map(|point| -point).collect();
    judge(pct(&mirrored), pdt(&mirrored), rule) == Trend::Increasing
}

options! {
    /// Constants of the verdict of a fleet.
    pub(crate) struct FleetRule {
        /// Fraction of the usable streams that decides, as in the tool; 0.7 was published. For the verdict "above", it
        /// is the excess of increasing over decreasing streams.
        agree: f64 = 0.6;
        /// Minimum fraction of all streams that must be usable.
        usable: f64 = 0.5;
        /// Loss rate above which the loss of a stream is high. One such stream decides, unless its delays show that no
        /// queue grows.
        high_loss: f64 = 0.15;
        /// Loss rate above which the loss of a stream is medium.
        medium_loss: f64 = 0.03;
        /// Number of streams with high loss that decides in other cases. In the tool, one such stream decides,
        /// regardless of its delays.
        high_streams: u32 = 3;
        /// Number of streams with medium loss that decides, unless delays do not rise in more streams than they rise.
        /// It is more than half of a fleet. In the tool, half of a fleet decides, regardless of the delays; but on a
        /// path with 4 % random loss, most streams have medium loss at every rate.
        medium_streams: u32 = 7;
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stream {
    pub(super) trend: Trend,
    /// Fraction of its packets that were lost, 0 to 1. It is 0 for a stream of which no packet arrived, because the
    /// cause is unknown.
    pub(super) loss: f64,
}

/// Position of a fleet's rate relative to the available bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Above,
    Below,
    /// Sometimes above, sometimes below.
    Grey,
    /// Unknown, because too few streams were usable.
    Again,
}

/// Returns whether the losses of the streams so far decide, so that the rest of the fleet is not needed.
pub(super) fn aborts(streams: &[Stream], rule: &FleetRule) -> bool {
    let lossy = streams.iter().filter(|stream| stream.loss > rule.high_loss);
    let grows = |stream: &Stream| !matches!(stream.trend, Trend::NonIncreasing | Trend::Decreasing);
    lossy.clone().any(grows) || lossy.count() >= rule.high_streams as usize
}

/// Returns the verdict of a fleet, and the fraction of its streams, 0 to 1, that support it.
pub(super) fn fleet_verdict(streams: &[Stream], rule: &FleetRule) -> (Verdict, f64) {
    let with = |trend: Trend| streams.iter().filter(|stream| stream.trend == trend).count() as f64;
    let all = streams.len() as f64;
    let (up, down) = (with(Trend::Increasing), with(Trend::Decreasing));
    let level = with(Trend::NonIncreasing) + down;
    let usable = all - with(Trend::Discarded);
    let losing = |more: f64| streams.iter().filter(|stream| stream.loss > more).count();
    let lossy = losing(rule.medium_loss);
    // A queue grows before it overflows. If most streams encounter no growing queue, losses are random.
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
