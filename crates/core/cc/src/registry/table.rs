//! The table of algorithms.

use core::fmt;

use super::spec::{Part, Spec};
use crate::describe::{Entry, Profile, Safety, Slot};
use crate::{avoidance, bbr, classify, copa, copa_cubic, ledbat, rcp, recovery, slow_start, startup, udt, xcp};

/// The algorithms of this crate, one line each.
pub(super) static BUILT_IN: Registry = Registry {
    entries: &[
        &startup::none::ENTRY,
        &startup::swift_start::ENTRY,
        &startup::swift_start::hardened::ENTRY,
        &startup::swift_start::bbn::ENTRY,
        &startup::pacing_only::ENTRY,
        &startup::probing_start::SUDDEN_START,
        &startup::probing_start::PEACH_JUMP_START,
        &startup::probing_start::SPEEDY_START,
        &startup::quick_start::ENTRY,
        &startup::jump_start::ENTRY,
        &startup::halfback::ENTRY,
        &startup::rc3::ENTRY,
        &startup::paced_start::ENTRY,
        &startup::initial_burst::ENTRY,
        &startup::careful_resume::ENTRY,
        &startup::cached_start::ENTRY,
        &slow_start::hystart_pp::ENTRY,
        &slow_start::standard::ENTRY,
        &slow_start::limited_slow_start::ENTRY,
        &slow_start::hybla_start::ENTRY,
        &slow_start::vegas_start::ENTRY,
        &slow_start::fast_start::ENTRY,
        &slow_start::astart::ENTRY,
        &slow_start::astart::AGILE,
        &slow_start::hystart::ENTRY,
        &slow_start::suss::ENTRY,
        &slow_start::search::ENTRY,
        &slow_start::rapid_start::ENTRY,
        &ledbat::START,
        &avoidance::cubic::ENTRY,
        &avoidance::new_reno::ENTRY,
        &avoidance::hstcp::ENTRY,
        &avoidance::scalable::ENTRY,
        &avoidance::bic::ENTRY,
        &avoidance::westwood::ENTRY,
        &avoidance::westwood::RE,
        &avoidance::westwood::CRB,
        &avoidance::westwood::PLUS,
        &avoidance::abse::ENTRY,
        &avoidance::westwood_bbe::ENTRY,
        &avoidance::log_westwood_plus::ENTRY,
        &avoidance::adaptive_reno::ENTRY,
        &avoidance::h_tcp::ENTRY,
        &avoidance::hybla::ENTRY,
        &avoidance::veno::ENTRY,
        &avoidance::vegas::ENTRY,
        &avoidance::illinois::ENTRY,
        &avoidance::yeah::ENTRY,
        &avoidance::fast::ENTRY,
        &ledbat::ENTRY,
        &classify::none::ENTRY,
        &classify::veno::ENTRY,
        &classify::bbe::ENTRY,
        &recovery::prr::ENTRY,
        &recovery::rfc6675::ENTRY,
        &recovery::probing::RAPID,
        &recovery::probing::QUICK,
        &recovery::probing::SPEEDY,
        &recovery::probing::SPEEDY_PAPER,
        &recovery::new_reno::ENTRY,
        &recovery::rapid_start_recovery::ENTRY,
        &bbr::v3::ENTRY,
        &bbr::v1::ENTRY,
        &copa::ENTRY,
        &copa_cubic::ENTRY,
        &udt::ENTRY,
        &rcp::ENTRY,
        &xcp::ENTRY,
    ],
    profiles: &[
        Profile {
            name: "cubic",
            spec: "slow-start=hystart-pp,avoidance=cubic,recovery=prr",
            summary: "the Internet's most common controller",
            reference: "RFC 9438, RFC 9406, RFC 9937",
        },
        Profile {
            name: "new-reno",
            spec: "slow-start=slow-start,avoidance=new-reno,recovery=prr",
            summary: "the baseline of the standards, with current recovery",
            reference: "RFC 5681, RFC 9937",
        },
        Profile {
            name: "reno-classic",
            spec: "slow-start=slow-start(iw=3,l=1),avoidance=new-reno,recovery=new-reno",
            summary: "TCP without SACK: the baseline of papers from the early 2000s",
            reference: "RFC 5681, RFC 3390, RFC 6582",
        },
        Profile {
            name: "hstcp",
            spec: "slow-start=limited-slow-start,avoidance=hstcp,recovery=prr",
            summary: "HighSpeed TCP with Limited Slow-Start, as its RFC recommends",
            reference: "RFC 3649, RFC 3742",
        },
        Profile {
            name: "bic",
            spec: "slow-start=slow-start,avoidance=bic,recovery=prr",
            summary: "CUBIC's predecessor, Linux's default from 2.6.8 to 2.6.18",
            reference: "Xu, Harfoush, Rhee, Infocom 2004",
        },
        Profile {
            name: "westwood",
            spec: "slow-start=slow-start,avoidance=westwood,recovery=prr",
            summary: "Westwood with its original bandwidth filter",
            reference: "MobiCom 2001",
        },
        Profile {
            name: "westwood-re",
            spec: "slow-start=slow-start,avoidance=westwood-re,recovery=prr",
            summary: "Westwood with the rate estimate (RE)",
            reference: "ISCC 2002",
        },
        Profile {
            name: "westwood-crb",
            spec: "slow-start=slow-start,avoidance=westwood-crb,recovery=prr",
            summary: "Westwood with the combined rate and bandwidth estimates (CRB)",
            reference: "ISCC 2002",
        },
        Profile {
            name: "westwood-plus",
            spec: "slow-start=slow-start,avoidance=westwood-plus,recovery=prr",
            summary: "Westwood+ as in Linux",
            reference: "CCR 34(2), 2004",
        },
        Profile {
            name: "abse",
            spec: "slow-start=astart,avoidance=abse,recovery=prr",
            summary: "Westwood with adaptive bandwidth share estimation and Adaptive Start",
            reference: "Globecom 2002, Infocom 2004",
        },
        Profile {
            name: "tcpw-a",
            spec: "slow-start=agile-probing,avoidance=abse(pncd=on),recovery=prr",
            summary: "Westwood with agile probing when there has been no congestion for long",
            reference: "JSAC 23(2), 2005",
        },
        Profile {
            name: "westwood-bbe",
            spec: "slow-start=astart,avoidance=westwood-bbe,recovery=prr",
            summary: "Westwood that distinguishes random from congestive loss by how full the buffer is",
            reference: "PFLDnet 2006",
        },
        Profile {
            name: "log-westwood-plus",
            spec: "slow-start=slow-start,avoidance=log-westwood-plus,recovery=prr",
            summary: "Westwood+ with a quick return to its last maximum",
            reference: "Kliazovich, Granelli, Miorandi, 2008",
        },
        Profile {
            name: "adaptive-reno",
            spec: "slow-start=slow-start,avoidance=adaptive-reno,recovery=prr",
            summary: "NewReno whose probing and decrease depend on the congestion level",
            reference: "Shimonishi, Murase, Globecom 2005",
        },
        Profile {
            name: "h-tcp",
            spec: "slow-start=slow-start,avoidance=h-tcp,recovery=prr",
            summary: "H-TCP: an increase by the time since the last congestion event",
            reference: "Leith, Shorten, PFLDnet 2004",
        },
        Profile {
            name: "scalable",
            spec: "slow-start=slow-start,avoidance=scalable,recovery=prr",
            summary: "increases by a hundredth of the bytes acknowledged; decreases by an eighth",
            reference: "Kelly, CCR 33(2), 2003",
        },
        Profile {
            name: "hybla",
            spec: "slow-start=hybla-start,avoidance=hybla,recovery=prr",
            summary: "NewReno with the increase of a flow with a short RTT",
            reference: "Caini, Firrincieli, IJSC 22(5), 2004",
        },
        Profile {
            name: "veno",
            spec: "slow-start=slow-start,avoidance=veno,loss=veno,recovery=prr",
            summary: "NewReno that distinguishes random from congestive loss by its backlog",
            reference: "Fu, Liew, JSAC 21(2), 2003",
        },
        Profile {
            name: "vegas",
            spec: "slow-start=vegas-start,avoidance=vegas,recovery=prr",
            summary: "the first delay-based congestion avoidance",
            reference: "Brakmo, Peterson, JSAC 13(8), 1995",
        },
        Profile {
            name: "illinois",
            spec: "slow-start=slow-start,avoidance=illinois,recovery=prr",
            summary: "losses decide when to decrease, delay decides by how much",
            reference: "Liu, Basar, Srikant, Valuetools 2006",
        },
        Profile {
            name: "yeah",
            spec: "slow-start=slow-start,avoidance=yeah,recovery=prr",
            summary: "Scalable that keeps the queue short",
            reference: "Baiocchi, Castellani, Vacirca, PFLDnet 2007",
        },
        Profile {
            name: "fast",
            spec: "slow-start=fast-start,avoidance=fast,recovery=prr",
            summary: "keeps a constant number of segments in the queue",
            reference: "Jin, Wei, Low, Infocom 2004",
        },
        Profile {
            name: "tcp-peach",
            spec: "startup=sudden-start,slow-start=slow-start,avoidance=new-reno,recovery=rapid-recovery",
            summary: "for satellites: dummy segments distinguish random from congestive loss",
            reference: "Akyildiz, Morabito, Palazzo, ToN 9(3), 2001",
        },
        Profile {
            name: "tcp-peach-plus",
            spec: "startup=peach-jump-start,slow-start=slow-start,avoidance=new-reno,recovery=quick-recovery",
            summary: "TCP-Peach with probes that can fill holes",
            reference: "Akyildiz, Zhang, Fang, IEEE Comm. Letters 6(7), 2002",
        },
        Profile {
            name: "tcp-swift",
            spec: "startup=speedy-start,slow-start=slow-start,avoidance=new-reno,recovery=speedy-recovery",
            summary: "TCP-Peach+ with a faster return of the window after random loss",
            reference: "Leung, Yeung, ISCC 2004",
        },
        Profile {
            name: "bbr",
            spec: "monolithic=bbr",
            summary: "model-based congestion control, bounded by the loss that it causes",
            reference: "draft-ietf-ccwg-bbr",
        },
        Profile {
            name: "bbr1",
            spec: "monolithic=bbr1",
            summary: "BBR as in Linux, which ignores losses",
            reference: "draft-cardwell-iccrg-bbr-congestion-control-00",
        },
        Profile {
            name: "ledbat-plus-plus",
            spec: "slow-start=ledbat-start,avoidance=ledbat-plus-plus,recovery=prr",
            summary: "for background transfers: yields to all other flows",
            reference: "draft-irtf-iccrg-ledbat-plus-plus-06, RFC 6817",
        },
        Profile {
            name: "copa",
            spec: "monolithic=copa",
            summary: "keeps the queue short, and its share beside buffer-filling flows",
            reference: "Arun, Balakrishnan, NSDI 2018",
        },
        Profile {
            name: "copa-cubic",
            spec: "monolithic=copa-cubic",
            summary: "the default: fast, with a short queue; ignores random losses; CUBIC where others fill the queue",
            reference: "Arun, Balakrishnan, NSDI 2018; RFC 9438",
        },
        Profile {
            name: "udt",
            spec: "monolithic=udt",
            summary: "UDT's rate control, for controlled environments only",
            reference: "draft-gg-udt-03",
        },
        Profile {
            name: "quick-start",
            spec: "startup=quick-start,slow-start=limited-slow-start,avoidance=new-reno,recovery=prr",
            summary: "a first flight that the routers approve, then NewReno",
            reference: "RFC 4782, RFC 3742",
        },
    ],
};

/// A set of algorithms and profiles.
#[non_exhaustive]
pub struct Registry {
    /// All algorithms. The first of each slot is that slot's default.
    pub entries: &'static [&'static Entry],
    /// All profiles.
    pub profiles: &'static [Profile],
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

impl Registry {
    /// A registry of these algorithms and profiles.
    #[must_use]
    pub const fn new(entries: &'static [&'static Entry], profiles: &'static [Profile]) -> Self {
        Self { entries, profiles }
    }

    /// Returns the algorithms of `slot`, its default first.
    pub fn of_slot(&self, slot: Slot) -> impl Iterator<Item = &'static Entry> {
        self.entries.iter().copied().filter(move |entry| entry.slot() == slot)
    }

    /// Returns the composition of the first algorithm of every slot.
    pub(super) fn default_spec(&self) -> Spec {
        let first = |slot| self.of_slot(slot).next().map(Part::new);
        Spec { parts: Slot::COMPOSED.into_iter().filter_map(first).collect() }
    }
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "profiles")?;
        for profile in self.profiles {
            writeln!(f, "  {:<14} {}  [{}]", profile.name, profile.summary, profile.reference)?;
            writeln!(f, "  {:<14} = {}", "", profile.spec)?;
        }
        for slot in Slot::COMPOSED.into_iter().chain([Slot::Monolithic]) {
            if self.of_slot(slot).next().is_some() {
                writeln!(f, "{slot}")?;
            }
            for entry in self.of_slot(slot) {
                write_entry(f, entry)?;
            }
        }
        Ok(())
    }
}

fn write_entry(f: &mut fmt::Formatter<'_>, entry: &Entry) -> fmt::Result {
    writeln!(f, "  {:<14} {}  [{}]", entry.name, entry.summary, entry.reference)?;
    for option in entry.options {
        let default = option.default_value();
        let rules: String = option.rules.iter().map(|rule| format!("; {rule}")).collect();
        writeln!(f, "  {:<14} ({}={default}: {}; {}{rules})", "", option.name, option.what, option.range())?;
    }
    if !entry.tested.is_empty() {
        writeln!(f, "  {:<14} tested: {}", "", entry.tested.join(", "))?;
    }
    if entry.safety == Safety::Controlled {
        writeln!(f, "  {:<14} not for shared networks", "")?;
    }
    Ok(())
}
