//! Scenarios of paths that change, drawn from the second distribution that `docs/lab.md` describes.

use longhaul_link::Random;

use super::VERSION;
use super::draw::{Aqm, Competition, Draw, Loss, PACKET_BITS, Scenario, Step, three};

/// Duration of a run in seconds.
const DURATION: u64 = 60;

/// A kind of path. Ranges are drawn from log-uniform distributions, unless the field says otherwise.
struct Kind {
    /// Seconds between handovers, uniform.
    slot: (u64, u64),
    /// Rate after a handover in kb/s, and the range of all rates.
    rate: (f64, f64),
    /// Largest factor by which the rate increases or decreases within a second.
    factor: f64,
    /// Base RTT after a handover in microseconds, uniform.
    rtt: (u64, u64),
    /// Maximum of the jitter in tenths of a millisecond, uniformly distributed from 0.
    jitter: u64,
    /// Duration of the queue at the first rate in milliseconds.
    queue: (f64, f64),
    /// Maximum of the silence at handovers in milliseconds, uniformly distributed from 0.
    silence: u64,
    /// Probability of losses.
    losses: f64,
    /// Ratio of the rate to that of the return path.
    back: (f64, f64),
}

const LOW_ORBIT: Kind = Kind {
    slot: (15, 15),
    rate: (10_000.0, 200_000.0),
    factor: 1.25,
    rtt: (20_000, 80_000),
    jitter: 70,
    queue: (30.0, 300.0),
    silence: 140,
    losses: 1.0,
    back: (5.0, 20.0),
};

const CELLULAR: Kind = Kind {
    slot: (15, 40),
    rate: (2_000.0, 50_000.0),
    factor: 2.5,
    rtt: (30_000, 100_000),
    jitter: 100,
    queue: (200.0, 3_000.0),
    silence: 300,
    losses: 0.5,
    back: (2.0, 10.0),
};

/// A property of a scenario, with its own sequence of random numbers as in the first distribution. The numbers must not
/// change.
#[derive(Clone, Copy, Debug)]
enum Property {
    Kind = 101,
    Slots = 102,
    Rate = 103,
    Rtt = 104,
    Queue = 105,
    Loss = 106,
    Jitter = 107,
    Competition = 108,
    Back = 109,
}

impl Scenario {
    pub(super) fn draw_changing(seed: u64) -> Self {
        let draw = |property: Property| Draw(Random::new(seed, (u64::from(VERSION) << 32) | property as u64));
        let kind = if draw(Property::Kind).chance(0.5) { LOW_ORBIT } else { CELLULAR };
        // Times of handovers: the first handover is at a random time within an interval.
        let mut slots = draw(Property::Slots);
        let (slot, silence) = (slots.whole(kind.slot.0, kind.slot.1), slots.whole(0, kind.silence));
        let handovers: Vec<u64> = (slots.whole(1, slot)..DURATION).step_by(slot as usize).collect();
        // Rate and RTT of each second.
        let (mut rates, mut rtts) = (draw(Property::Rate), draw(Property::Rtt));
        let (mut rate, mut rtt) = (0.0, 0);
        let mut seconds = Vec::new();
        for second in 0..DURATION {
            if second == 0 || handovers.contains(&second) {
                rate = rates.log_real(kind.rate.0, kind.rate.1);
                rtt = three(rtts.whole(kind.rtt.0, kind.rtt.1) as f64);
            } else {
                let factor = rates.log_real(1.0 / kind.factor, kind.factor);
                rate = (rate * factor).clamp(kind.rate.0, kind.rate.1);
            }
            seconds.push(Step { at: second * 1000, rate: three(rate), rtt });
        }
        let mean = seconds.iter().map(|step| step.rate).sum::<u64>() as f64 / DURATION as f64;
        let first = seconds.remove(0);
        let queue = three(first.rate as f64 * draw(Property::Queue).log_real(kind.queue.0, kind.queue.1) / 8.0);
        let queue_permille = (queue * 8_000_000 / (first.rate * first.rtt)).max(1);
        let mut losses = draw(Property::Loss);
        let (has_losses, ppm) = (losses.chance(kind.losses), losses.log_real(5_000.0, 60_000.0));
        let window = (mean * 1e3 / PACKET_BITS) as u64;
        let mut company = draw(Property::Competition);
        let (is_alone, own) = (company.chance(0.8), company.whole(2, 4));
        Self {
            seed,
            rate: first.rate,
            rtt: first.rtt,
            queue: queue.max(6_000),
            queue_permille,
            loss: has_losses.then(|| Loss::in_windows(three(ppm), window)),
            jitter: draw(Property::Jitter).whole(0, kind.jitter) * 100,
            reordering: None,
            aqm: Aqm::DropTail,
            ecn: false,
            policer: None,
            steps: seconds,
            handovers: handovers.into_iter().filter(|_| silence > 0).map(|second| (second * 1000, silence)).collect(),
            outage: None,
            competition: if is_alone { Competition::Alone } else { Competition::Own(own) },
            back: three(mean / draw(Property::Back).log_real(kind.back.0, kind.back.1)),
            burst_interval: 0,
            duration: DURATION,
        }
    }
}
