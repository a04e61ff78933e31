//! Pathrate: the capacity of a path from the modes of packet pairs, told apart by the rate of long trains.

mod config;
mod procedure;
pub(crate) mod rules;

pub use config::PathrateConfig;
use procedure::Procedure;
pub use rules::{BinRule, ModeRule};

use crate::turns::{Turns, method_of_turns};

/// Measures capacity as Pathrate 2.4.1 does (C. Dovrolis, P. Ramanathan, D. Moore, Packet-dispersion techniques and a
/// capacity-estimation methodology, IEEE/ACM Transactions on Networking 12(6), 2004; constants as in the tool's receiver).
///
/// Cross traffic spreads the rates that packet pairs show over several modes, of which one is the capacity and often not
/// the highest. Long trains have one mode, the asymptotic dispersion rate, which lies between what is available and the
/// capacity: so the capacity is the best mode of the pairs above it. Where preliminary trains of all lengths agree, the
/// path is idle and their mean is the answer at once.
///
/// An idle path takes 90 trains with 726 packets and 1.1 MB. One with cross traffic takes 1500 trains more: 2 MB in Phase I
/// and 36 MB in Phase II. All together they load the path by at most a tenth of the rate found so far
/// ([`PathrateConfig::load`]). It has converged if each phase got all the samples that it wants and a mode was found. The
/// estimate's confidence is one less the variation of the preliminary trains, or the part of Phase I's samples in the chosen
/// bin.
#[derive(Clone, Debug)]
pub struct Pathrate(Turns<Procedure>);

method_of_turns!(Pathrate, PathrateConfig);
