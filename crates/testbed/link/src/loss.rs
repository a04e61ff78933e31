//! Loss models of a link.

use crate::config::{GilbertElliott, Loss};
use crate::random::Random;

#[derive(Debug)]
pub(crate) enum LossState {
    None,
    Uniform {
        p: f64,
        random: Random,
    },
    GilbertElliott {
        config: GilbertElliott,
        is_bad: bool,
        random: Random,
    },
    /// Independent bit errors; `until_next` counts the bits before the next error.
    BitErrors {
        rate: f64,
        until_next: u64,
        random: Random,
    },
    /// Packet numbers to lose, the next one last, and the packets counted so far.
    List {
        numbers: Vec<u64>,
        packets: u64,
    },
}

impl LossState {
    pub(crate) fn new(config: &Loss, mut random: Random) -> Self {
        match config {
            Loss::None => Self::None,
            Loss::Uniform(p) => Self::Uniform { p: *p, random },
            Loss::GilbertElliott(config) => Self::GilbertElliott { config: *config, is_bad: false, random },
            Loss::BitErrors(rate) if *rate <= 0.0 => Self::None,
            Loss::BitErrors(rate) => {
                let until_next = random.geometric(*rate);
                Self::BitErrors { rate: *rate, until_next, random }
            }
            Loss::List(numbers) => Self::List { numbers: numbers.iter().rev().copied().collect(), packets: 0 },
        }
    }

    pub(crate) fn loses(&mut self, bytes: u64) -> bool {
        match self {
            Self::None => false,
            Self::Uniform { p, random } => random.chance(*p),
            Self::GilbertElliott { config, is_bad, random } => {
                let change = if *is_bad { config.r } else { config.p };
                *is_bad ^= random.chance(change);
                random.chance(if *is_bad { config.loss_bad } else { config.loss_good })
            }
            Self::BitErrors { rate, until_next, random } => {
                let bits = bytes * 8;
                let is_hit = *until_next < bits;
                // Gaps between errors are memoryless, so a fresh gap after a hit packet has the same distribution as
                // the rest of the old gap.
                *until_next = if is_hit { random.geometric(*rate) } else { *until_next - bits };
                is_hit
            }
            Self::List { numbers, packets } => {
                *packets += 1;
                numbers.pop_if(|number| *number <= *packets).is_some()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 400_000;

    fn losses(loss: &Loss, bytes: u64) -> Vec<bool> {
        let mut state = LossState::new(loss, Random::new(11, 0));
        (0..N).map(|_| state.loses(bytes)).collect()
    }

    fn share(losses: &[bool]) -> f64 {
        losses.iter().filter(|lost| **lost).count() as f64 / losses.len() as f64
    }

    fn mean_burst(losses: &[bool]) -> f64 {
        let bursts: Vec<_> = losses.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len).collect();
        bursts.iter().sum::<usize>() as f64 / bursts.len() as f64
    }

    #[test]
    fn uniform_losses_are_independent() {
        let lost = losses(&Loss::Uniform(0.02), 1500);
        // Tolerance: six standard errors of the binomial distribution. Bursts have a mean length of 1 / (1 - p).
        assert!((share(&lost) - 0.02).abs() < 6.0 * (0.02f64 * 0.98 / N as f64).sqrt());
        assert!((mean_burst(&lost) - 1.0 / 0.98).abs() < 0.01);
    }

    #[test]
    fn gilberts_mean_loss_and_burst_length() {
        for (p, r) in [(0.001, 0.1), (0.01, 0.5), (0.002, 0.02)] {
            let lost = losses(&Loss::GilbertElliott(GilbertElliott::simple(p, r)), 1500);
            // There are about N p r / (p + r) bursts of geometric length. Tolerance: five standard errors.
            let bursts = N as f64 * p * r / (p + r);
            let error = 5.0 * (2.0 / bursts).sqrt();
            let (mean, burst) = (p / (p + r), 1.0 / r);
            assert!((share(&lost) / mean - 1.0).abs() < error, "{p} {r}: {}", share(&lost));
            assert!((mean_burst(&lost) / burst - 1.0).abs() < error, "{p} {r}: {}", mean_burst(&lost));
        }
    }

    #[test]
    fn elliotts_states_lose_in_their_own_shares() {
        let config = GilbertElliott { p: 0.05, r: 0.2, loss_good: 0.01, loss_bad: 0.4 };
        let lost = losses(&Loss::GilbertElliott(config), 1500);
        let mean = (0.2 * 0.01 + 0.05 * 0.4) / 0.25;
        assert!((share(&lost) / mean - 1.0).abs() < 0.04, "{}", share(&lost));
    }

    #[test]
    fn bit_errors_lose_long_packets_more_often() {
        for bytes in [40, 1500] {
            let lost = share(&losses(&Loss::BitErrors(1e-5), bytes));
            let expected = 1.0 - (1.0f64 - 1e-5).powi(bytes as i32 * 8);
            assert!((lost - expected).abs() < 6.0 * (expected / N as f64).sqrt(), "{bytes}: {lost}");
        }
    }

    #[test]
    fn a_list_names_packets_from_one() {
        let lost = losses(&Loss::List(vec![1, 3, 4, 100]), 1500);
        let numbers: Vec<usize> = (1..=N).filter(|number| lost[number - 1]).collect();
        assert_eq!(numbers, [1, 3, 4, 100]);
    }
}
