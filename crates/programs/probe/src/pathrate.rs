//! Pathrate: capacity from the modes of packet pairs, one of which the rate of long trains selects.

mod config;
mod procedure;
pub(crate) mod rules;

pub use config::PathrateConfig;
use procedure::Procedure;
pub use rules::{BinRule, ModeRule};

use crate::turns::{Turns, method_of_turns};

/// Measures capacity as Pathrate 2.4.1 does (C. Dovrolis, P. Ramanathan, D. Moore, Packet-dispersion techniques and a
/// capacity-estimation methodology, IEEE/ACM Transactions on Networking 12(6), 2004; constants as in the tool's
/// receiver).
///
/// Cross traffic spreads the rates of packet pairs over several modes. One of them is the capacity, and often not the
/// highest one. Long trains have a single mode, the asymptotic dispersion rate (ADR), which lies between the available
/// bandwidth and the capacity. The capacity is therefore the best mode of the pairs above the ADR. If preliminary
/// trains of all lengths agree, the path is idle, and their mean is the result.
///
/// An idle path takes 90 trains with 726 packets and 1.1 MB. A path with cross traffic takes 1500 more trains: 2 MB in
/// Phase I and 36 MB in Phase II. The load of all trains together is at most a tenth of the rate found so far
/// ([`PathrateConfig::load`]). The session converges if each phase gets all its samples and a mode is found. The
/// confidence is 1 minus the coefficient of variation of the preliminary trains or, after Phase II, the fraction of
/// Phase I's samples in the chosen bin.
#[derive(Clone, Debug)]
pub struct Pathrate(Turns<Procedure>);

method_of_turns!(Pathrate, PathrateConfig);
