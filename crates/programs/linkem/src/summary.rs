//! Reports at the start and at the end of a run.

use std::fmt::Write;

use longhaul_link::spec::{Direction, Path};
use longhaul_link::{Cause, LinkConfig, LinkRate, Payload, RouterStats};
use longhaul_units::Span;

use crate::engine::{DIRECTIONS, Engine, readable};
use crate::relay::Counts;

/// If the 99th percentile of the lateness exceeds this, the machine was too slow for the link.
const TOO_LATE: Span = Span::from_millis(1);

/// Describes each direction with its rate and its delay; `up` and `down` are descriptions of the directions.
pub(crate) fn ways(path: &Path, up: &str, down: &str) -> String {
    let way = |name: &str, from: &str, link: &LinkConfig| {
        let rate = match &link.rate {
            LinkRate::Unlimited => "unlimited rate".to_owned(),
            LinkRate::Constant(rate) => rate_in_words(rate.as_bits_per_sec()),
            LinkRate::Trace(_) => "the rate of a trace".to_owned(),
        };
        let first = if link.steps.is_empty() { "" } else { " at first" };
        let delay = readable(link.delay);
        format!("{name}, {from}: {rate}, {delay} one way{first}\n")
    };
    way("up", up, &path.link.there) + &way("down", down, &path.link.back)
}

fn rate_in_words(bits: u64) -> String {
    let (value, unit) = match bits {
        0..=999_999 => (bits as f64 / 1e3, "kb/s"),
        1_000_000..=999_999_999 => (bits as f64 / 1e6, "Mb/s"),
        _ => (bits as f64 / 1e9, "Gb/s"),
    };
    // Up to three decimals, without trailing zeros.
    let text = format!("{value:.3}");
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats the counters of packets, bytes, drops and queues, and the emulator's lateness.
pub(crate) fn summary<T: Payload>(engine: &Engine<T>, counts: &Counts) -> String {
    let mut text = String::new();
    for direction in DIRECTIONS {
        // Writing to a string cannot fail.
        let _ = one_way(&mut text, engine, direction);
    }
    let _ = clock(&mut text, engine, counts);
    text
}

fn one_way<T: Payload>(text: &mut String, engine: &Engine<T>, direction: Direction) -> std::fmt::Result {
    let (stats, all) = (engine.stats(direction), engine.stats(direction).all());
    let name = if direction == Direction::Up { "up" } else { "down" };
    writeln!(
        text,
        "{name}: {} packets, {} bytes in; {} packets, {} bytes out; {} inside",
        all.offered,
        all.offered_bytes,
        stats.delivered,
        stats.delivered_bytes,
        engine.inside(direction),
    )?;
    let causes = Cause::ALL.into_iter().filter(|cause| all.dropped(*cause) > 0);
    let causes: Vec<_> = causes.map(|cause| format!("{} {}", cause.name(), all.dropped(cause))).collect();
    let causes = if causes.is_empty() { String::new() } else { format!(": {}", causes.join(", ")) };
    writeln!(text, "  dropped {}{causes}", all.dropped_total())?;
    let others = [("marked", all.marked), ("duplicated", stats.duplicated), ("reordered", stats.reordered)];
    for (what, count) in others.into_iter().filter(|(_, count)| *count > 0) {
        writeln!(text, "  {what} {count}")?;
    }
    if let Some(router) = engine.router_stats(direction) {
        let RouterStats { answered, lowered, denied, passed } = router;
        writeln!(text, "  router answered {answered}, lowered {lowered}, denied {denied}, passed {passed}")?;
    }
    let [p50, p99] = [0.5, 0.99].map(|q| readable(all.sojourn.quantile(q)));
    let max = readable(all.sojourn.max());
    let (packets, bytes) = (stats.max_packets, stats.max_bytes);
    writeln!(text, "  queue p50 {p50}, p99 {p99}, max {max}; at most {packets} packets, {bytes} bytes")
}

fn clock<T: Payload>(text: &mut String, engine: &Engine<T>, counts: &Counts) -> std::fmt::Result {
    if counts.clients > 0 {
        writeln!(text, "clients: {}", counts.clients)?;
    }
    let losses = [
        (counts.refused, "refused: too many clients"),
        (counts.missed, "lost before the link: the emulator did not read fast enough"),
        (counts.unsent, "lost after the link: the system did not accept them"),
    ];
    for (count, what) in losses.into_iter().filter(|(count, _)| *count > 0) {
        writeln!(text, "{count} packets {what}")?;
    }
    let late = engine.lateness();
    let [p50, p99] = [0.5, 0.99].map(|q| readable(late.quantile(q)));
    writeln!(text, "lateness p50 {p50}, p99 {p99}, max {}", readable(late.max()))?;
    if late.quantile(0.99) > TOO_LATE {
        writeln!(text, "the emulator could not keep up: do not trust measurements over this link")?;
    }
    Ok(())
}
