//! Catalogue of the methods: the name of each, what it measures, and its construction.

use std::str::FromStr;

use longhaul_units::{Bytes, Span, named};

use crate::Method;
use crate::cap_probe::{CapProbeMethod, CapProbeOptions};
use crate::path_chirp::{self, PathChirpConfig};
use crate::pathload::{self, PathloadConfig};
use crate::pathrate::{self, PathrateConfig};
use crate::turns::Turns;

named! {
    /// A method of this crate, by name, in the order of a full measurement.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum MethodKind, ALL {
        /// CapProbe (Kapoor et al., 2004), `capprobe`.
        CapProbe = "capprobe",
        /// Pathrate (Dovrolis et al., 2004), `pathrate`.
        Pathrate = "pathrate",
        /// Pathload (Jain and Dovrolis, 2003), `pathload`.
        Pathload = "pathload",
        /// pathChirp (Ribeiro et al., 2003), `pathchirp`.
        PathChirp = "pathchirp",
    }
}

impl MethodKind {
    /// One line for help texts: the quantity and the way in which it is measured.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::CapProbe => "Capacity, from pairs of packets that waited for nothing",
            Self::Pathrate => "Capacity, from the modes of the dispersion of pairs and trains",
            Self::Pathload => "Available bandwidth, from rates at which delay begins to grow",
            Self::PathChirp => "Available bandwidth, from trains whose rate rises",
        }
    }

    /// Time limit that suffices on most paths: 60 s. Pathrate has 300 s, because the trains of Phase I and II over a
    /// loaded path take more than 4 minutes.
    pub const fn usual_time(self) -> Span {
        match self {
            Self::Pathrate => Span::from_secs(300),
            Self::CapProbe | Self::Pathload | Self::PathChirp => Span::from_secs(60),
        }
    }

    /// Creates a session with packets of up to 1500 bytes (IP).
    pub fn create(self) -> Box<dyn Method> {
        self.create_for(Bytes(u64::MAX))
    }

    /// Creates a session whose packets have at most `largest` bytes (IP), which is at least 128.
    pub fn create_for(self, largest: Bytes) -> Box<dyn Method> {
        let largest = largest.max(Bytes(128));
        match self {
            Self::CapProbe => Box::new(CapProbeMethod::new(CapProbeOptions::default().up_to(largest))),
            Self::Pathrate => Box::new(Turns::of(pathrate::Procedure::new(PathrateConfig::default().up_to(largest)))),
            Self::Pathload => Box::new(Turns::of(pathload::Procedure::new(PathloadConfig::default().up_to(largest)))),
            Self::PathChirp => {
                Box::new(Turns::of(path_chirp::Procedure::new(PathChirpConfig::default().up_to(largest))))
            }
        }
    }
}

impl FromStr for MethodKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == text);
        known.ok_or_else(|| format!("{text:?} is not a method; there are: {}", Self::ALL.map(Self::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_the_session_and_parses() {
        for kind in MethodKind::ALL {
            assert_eq!(kind.create().name(), kind.name());
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "pingpong".parse::<MethodKind>().expect_err("no such method");
        assert_eq!(error, "\"pingpong\" is not a method; there are: capprobe, pathrate, pathload, pathchirp");
    }

    #[test]
    fn every_method_works_with_the_packets_of_every_common_mtu() {
        for kind in MethodKind::ALL {
            for largest in [1500, 1280, 576, 128] {
                assert_eq!(kind.create_for(Bytes(largest)).name(), kind.name(), "{largest}");
            }
        }
    }
}
