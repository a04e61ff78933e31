//! Options of the methods, and their ranges.

/// An option of a method that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{part}: {option} is {value}, but must be from {low} to {high}")]
pub struct InvalidOption {
    /// The method.
    pub part: &'static str,
    /// The option's name.
    pub option: &'static str,
    /// What it was set to: rates in bytes a second, times in seconds.
    pub value: f64,
    /// The least that it may be.
    pub low: f64,
    /// The most that it may be.
    pub high: f64,
}

/// Checks the options of one method.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checks(pub(super) &'static str);

impl Checks {
    /// That `value` is a number from `low` to `high`.
    pub(super) fn within(self, option: &'static str, value: f64, (low, high): (f64, f64)) -> Result<(), InvalidOption> {
        if value >= low && value <= high {
            return Ok(());
        }
        Err(InvalidOption { part: self.0, option, value, low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_part_option_and_range() {
        let checks = Checks("pathload");
        assert_eq!(checks.within("streams", 1.0, (1.0, 100.0)), Ok(()));
        let error = checks.within("streams", 0.0, (1.0, 100.0)).expect_err("too few");
        assert_eq!(error.to_string(), "pathload: streams is 0, but must be from 1 to 100");
        assert!(checks.within("share", f64::NAN, (0.0, 1.0)).is_err());
    }
}
