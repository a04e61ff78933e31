//! Operators and formatting shared by the quantity types.

/// Implements addition, subtraction, multiplication and division that saturate at zero and at the maximum. `$new`
/// creates the quantity from a `u64`, and `$get` converts it back.
macro_rules! saturating_operators {
    ($quantity:ty, $new:expr, $get:expr) => {
        impl core::ops::Add for $quantity {
            type Output = Self;
            fn add(self, rhs: Self) -> Self {
                $new(($get)(self).saturating_add(($get)(rhs)))
            }
        }

        impl core::ops::AddAssign for $quantity {
            fn add_assign(&mut self, rhs: Self) {
                *self = *self + rhs;
            }
        }

        impl core::ops::Sub for $quantity {
            type Output = Self;
            fn sub(self, rhs: Self) -> Self {
                $new(($get)(self).saturating_sub(($get)(rhs)))
            }
        }

        impl core::ops::SubAssign for $quantity {
            fn sub_assign(&mut self, rhs: Self) {
                *self = *self - rhs;
            }
        }

        impl core::ops::Mul<u64> for $quantity {
            type Output = Self;
            fn mul(self, rhs: u64) -> Self {
                $new(($get)(self).saturating_mul(rhs))
            }
        }

        /// Division by zero gives the maximum.
        impl core::ops::Div<u64> for $quantity {
            type Output = Self;
            fn div(self, rhs: u64) -> Self {
                ($get)(self).checked_div(rhs).map_or(Self::MAX, $new)
            }
        }
    };
}

/// Implements `Display` by `Debug`, which prints the unit.
macro_rules! display_as_debug {
    ($quantity:ty) => {
        impl core::fmt::Display for $quantity {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Debug::fmt(self, f)
            }
        }
    };
}

pub(crate) use {display_as_debug, saturating_operators};
