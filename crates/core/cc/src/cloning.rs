//! Clones of boxed trait objects.

use crate::Controller;
use crate::compose::{CongestionAvoidance, LossClassifier, Recovery, SlowStart, Startup};

/// Declares a supertrait for each of these traits. Every `Clone` type implements it, and it makes boxes of the trait
/// `Clone`.
macro_rules! cloned {
    ($($of:ident: $by:ident),+) => {$(
        pub trait $by {
            fn clone_box(&self) -> Box<dyn $of>;
        }

        impl<T: $of + Clone + 'static> $by for T {
            fn clone_box(&self) -> Box<dyn $of> {
                Box::new(self.clone())
            }
        }

        impl Clone for Box<dyn $of> {
            fn clone(&self) -> Self {
                (**self).clone_box()
            }
        }
    )+};
}

cloned!(
    Controller: CloneController, Startup: CloneStartup, SlowStart: CloneSlowStart, CongestionAvoidance: CloneAvoidance,
    LossClassifier: CloneClassifier, Recovery: CloneRecovery
);
