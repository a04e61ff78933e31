//! Range checks of the methods' options.

/// Error of an option that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{part}: {option} is {value}, but must be from {low} to {high}")]
#[non_exhaustive]
pub struct InvalidOption {
    /// Name of the method.
    pub part: &'static str,
    /// Name of the option.
    pub option: &'static str,
    /// The rejected value: rates in bytes per second, times in seconds.
    pub value: f64,
    /// The lowest permitted value.
    pub low: f64,
    /// The highest permitted value.
    pub high: f64,
}

/// Range checks for the options of the named method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checks(pub(crate) &'static str);

impl Checks {
    /// Checks that `value` is a number from `low` to `high`.
    pub(crate) fn within(self, option: &'static str, value: f64, (low, high): (f64, f64)) -> Result<(), InvalidOption> {
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
