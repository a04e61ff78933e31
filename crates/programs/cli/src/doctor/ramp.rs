//! Ramp of sending rates that looks for a limit on UDP.
//!
//! A queue in front of the bottleneck delays packets before it drops them. A policer, or a provider that limits UDP,
//! drops them without delaying others.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use longhaul_link::text;
use longhaul_probe::sockets::{Echo, Pinger};

use super::Finding;

/// Rate of the first step in bit/s. The rate doubles from step to step.
const FIRST: u64 = 1_000_000;
/// Duration of a step. The whole ramp sends at most twice the bytes of its last step.
const STEP: Duration = Duration::from_millis(200);
/// Interval between bursts within a step.
const TICK: Duration = Duration::from_millis(2);
/// Fraction of lost packets above which the losses are not random.
const LOST: f64 = 0.1;
/// Queueing delay above which losses are attributed to a full queue.
const QUEUE: Duration = Duration::from_millis(5);
/// Number of times that a step is repeated before it counts as lossy: this machine may have been busy.
const REPEATS: u32 = 2;

#[derive(Clone, Copy, Debug)]
struct Step {
    /// Rate at which packets were sent, in bit/s.
    rate: u64,
    lost: f64,
    /// 75th percentile of the queueing delay.
    queueing: Duration,
}

/// Raises the rate of packets of `size` bytes up to `max_rate` bit/s until packets are lost. Returns the highest rate that
/// the path carried.
pub(super) fn check(pinger: &mut Pinger, rtt: Duration, size: u32, max_rate: u64) -> Result<(Option<u64>, Finding)> {
    const CHECK: &str = "udp-rate";
    let (mut carried, mut rate) = (None, FIRST.min(max_rate));
    loop {
        let mut step = run(pinger, rtt, size, rate)?;
        for _ in 0..REPEATS {
            if step.lost > LOST {
                let again = run(pinger, rtt, size, rate)?;
                step = if again.lost < step.lost { again } else { step };
            }
        }
        if step.lost > LOST {
            return Ok((carried, judge(CHECK, carried, &step)));
        }
        carried = Some(rate);
        if rate >= max_rate {
            let rate = text::rate(rate as f64);
            return Ok((
                carried,
                Finding::ok(CHECK, format!("the path carries {rate} of UDP, and more was not tried")),
            ));
        }
        rate = (rate * 2).min(max_rate);
    }
}

fn judge(check: &'static str, carried: Option<u64>, step: &Step) -> Finding {
    let at = text::rate(step.rate as f64);
    let carries = carried.map_or_else(String::new, |rate| format!("the path carries {}; ", text::rate(rate as f64)));
    let percent = step.lost * 100.0;
    if step.queueing >= QUEUE {
        let delay = crate::report::time(Some(step.queueing));
        return Finding::note(
            check,
            format!("{carries}at {at}, {percent:.0} % is lost after a queueing delay of {delay}, as at a full link"),
        );
    }
    let finding = Finding::wrong(
        check,
        format!(
            "{carries}at {at}, {percent:.0} % is lost without a queueing delay: UDP is limited on the way, or the path \
             loses packets at random"
        ),
    );
    match carried {
        Some(rate) => finding.mend(format!("longhaul send --limit {}K ...", rate / 1000)),
        None => finding,
    }
}

fn run(pinger: &mut Pinger, rtt: Duration, size: u32, rate: u64) -> Result<Step> {
    pinger.forget();
    let bits = u64::from(size) * 8;
    let count = u32::try_from((rate as f64 * STEP.as_secs_f64() / bits as f64).ceil() as u64).unwrap_or(u32::MAX);
    let begun = pinger.now();
    let mut sent = 0;
    let mut answers = Vec::new();
    while sent < count {
        let elapsed = pinger.now().saturating_sub(begun);
        let due = 1 + (elapsed.as_secs_f64() * rate as f64 / bits as f64) as u64;
        while sent < count && u64::from(sent) < due {
            pinger.send(size)?;
            sent += 1;
        }
        let until = pinger.now() + TICK;
        while answers.len() < count as usize * 2
            && let Some(echo) = pinger.receive(until)?
        {
            answers.push(echo);
        }
    }
    // A queue may hold packets for up to a second.
    let until = pinger.now() + rtt * 2 + Duration::from_secs(1);
    while answers.len() < count as usize
        && let Some(echo) = pinger.receive(until)?
    {
        answers.push(echo);
    }
    // Lets the queue drain before the next step.
    sleep(rtt.min(STEP));
    Ok(summary(&answers, count, rate, rtt))
}

fn summary(answers: &[Echo], count: u32, rate: u64, rtt: Duration) -> Step {
    let mut indices: Vec<_> = answers.iter().map(|echo| echo.answer.probe.train).collect();
    indices.sort_unstable();
    indices.dedup();
    let lost = 1.0 - indices.len() as f64 / f64::from(count.max(1));
    // A busy machine delays a few answers; a full queue delays most of them.
    let mut delays: Vec<_> = answers.iter().map(|echo| echo.rtt.saturating_sub(rtt)).collect();
    delays.sort_unstable();
    let queueing = delays.get(delays.len() * 3 / 4).copied().unwrap_or_default();
    Step { rate, lost, queueing }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn answer(train: u32, rtt_millis: u64) -> Echo {
        let mut echo = Echo::default();
        (echo.answer.probe.train, echo.rtt) = (train, Duration::from_millis(rtt_millis));
        echo
    }

    #[test]
    fn losses_without_a_queue_are_a_limit() {
        let rtt = Duration::from_millis(40);
        let policed: Vec<_> = (0..60).map(|index| answer(index, 40)).collect();
        let step = summary(&policed, 100, 8_000_000, rtt);
        assert!((step.lost - 0.4).abs() < 1e-9);
        let finding = judge("udp-rate", Some(4_000_000), &step);
        assert_eq!(finding.verdict, Verdict::Wrong);
        assert_eq!(finding.command.as_deref(), Some("longhaul send --limit 4000K ..."));
        let queued: Vec<_> = (0..60).map(|index| answer(index, 40 + u64::from(index) * 2)).collect();
        let finding = judge("udp-rate", Some(4_000_000), &summary(&queued, 100, 8_000_000, rtt));
        assert_eq!((finding.verdict, finding.command.is_none()), (Verdict::Note, true), "{finding:?}");
    }

    #[test]
    fn duplicates_replace_no_lost_packet() {
        let twice = [answer(0, 40), answer(0, 40), answer(1, 40)];
        assert_eq!(summary(&twice, 4, 1, Duration::from_millis(40)).lost, 0.5);
        assert_eq!(summary(&[], 0, 1, Duration::ZERO).queueing, Duration::ZERO);
    }
}
