//! The table of algorithms.

use core::fmt;

use super::spec::{Part, Spec};
use crate::describe::{Entry, Profile, Safety, Slot};
use crate::{bbr, classify, copa, growth, launch, ledbat, rcp, recovery, steady, udt, xcp};

/// The algorithms of this crate, one line each.
pub(super) static BUILT_IN: Registry = Registry {
    entries: &[
        &launch::none::ENTRY,
        &launch::swift_start::ENTRY,
        &launch::swift_start::hardened::ENTRY,
        &launch::swift_start::bbn::ENTRY,
        &launch::pacing_only::ENTRY,
        &launch::probing_start::SUDDEN_START,
        &launch::probing_start::PEACH_JUMP_START,
        &launch::probing_start::SPEEDY_START,
        &launch::quick_start::ENTRY,
        &launch::jump_start::ENTRY,
        &launch::halfback::ENTRY,
        &launch::rc3::ENTRY,
        &launch::paced_start::ENTRY,
        &launch::initial_burst::ENTRY,
        &launch::careful_resume::ENTRY,
        &launch::cached_start::ENTRY,
        &growth::hystart_pp::ENTRY,
        &growth::slow_start::ENTRY,
        &growth::limited_slow_start::ENTRY,
        &growth::hybla_start::ENTRY,
        &growth::vegas_start::ENTRY,
        &growth::fast_start::ENTRY,
        &growth::astart::ENTRY,
        &growth::astart::AGILE,
        &growth::hystart::ENTRY,
        &growth::suss::ENTRY,
        &growth::search::ENTRY,
        &growth::rapid_start::ENTRY,
        &ledbat::START,
        &steady::cubic::ENTRY,
        &steady::new_reno::ENTRY,
        &steady::hstcp::ENTRY,
        &steady::scalable::ENTRY,
        &steady::bic::ENTRY,
        &steady::westwood::ENTRY,
        &steady::westwood::RE,
        &steady::westwood::CRB,
        &steady::westwood::PLUS,
        &steady::abse::ENTRY,
        &steady::westwood_bbe::ENTRY,
        &steady::log_westwood_plus::ENTRY,
        &steady::adaptive_reno::ENTRY,
        &steady::h_tcp::ENTRY,
        &steady::hybla::ENTRY,
        &steady::veno::ENTRY,
        &steady::vegas::ENTRY,
        &steady::illinois::ENTRY,
        &steady::yeah::ENTRY,
        &steady::fast::ENTRY,
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
        &udt::ENTRY,
        &rcp::ENTRY,
        &xcp::ENTRY,
    ],
    profiles: &[
        Profile {
            name: "cubic",
            spec: "growth=hystart-pp,steady=cubic,recovery=prr",
            summary: "the default, and the Internet's",
            reference: "RFC 9438, RFC 9406, RFC 9937",
        },
        Profile {
            name: "new-reno",
            spec: "growth=slow-start,steady=new-reno,recovery=prr",
            summary: "the standard's baseline with today's recovery",
            reference: "RFC 5681, RFC 9937",
        },
        Profile {
            name: "reno-classic",
            spec: "growth=slow-start(iw=3,l=1),steady=new-reno,recovery=new-reno",
            summary: "TCP without SACK, as papers of the early 2000s compare with",
            reference: "RFC 5681, RFC 3390, RFC 6582",
        },
        Profile {
            name: "hstcp",
            spec: "growth=limited-slow-start,steady=hstcp,recovery=prr",
            summary: "HighSpeed TCP with the start-up that its RFC asks for",
            reference: "RFC 3649, RFC 3742",
        },
        Profile {
            name: "bic",
            spec: "growth=slow-start,steady=bic,recovery=prr",
            summary: "CUBIC's predecessor, Linux's default from 2.6.8 to 2.6.18",
            reference: "Xu, Harfoush, Rhee, Infocom 2004",
        },
        Profile {
            name: "westwood",
            spec: "growth=slow-start,steady=westwood,recovery=prr",
            summary: "Westwood with the bandwidth filter it was published with",
            reference: "MobiCom 2001",
        },
        Profile {
            name: "westwood-re",
            spec: "growth=slow-start,steady=westwood-re,recovery=prr",
            summary: "Westwood with the achieved rate",
            reference: "ISCC 2002",
        },
        Profile {
            name: "westwood-crb",
            spec: "growth=slow-start,steady=westwood-crb,recovery=prr",
            summary: "Westwood with the rate that fits",
            reference: "ISCC 2002",
        },
        Profile {
            name: "westwood-plus",
            spec: "growth=slow-start,steady=westwood-plus,recovery=prr",
            summary: "Westwood as Linux has it",
            reference: "CCR 34(2), 2004",
        },
        Profile {
            name: "abse",
            spec: "growth=astart,steady=abse,recovery=prr",
            summary: "Westwood with adaptive estimate and start",
            reference: "Globecom 2002, Infocom 2004",
        },
        Profile {
            name: "tcpw-a",
            spec: "growth=agile-probing,steady=abse(pncd=on),recovery=prr",
            summary: "Westwood that starts anew when there has been no congestion for long",
            reference: "JSAC 23(2), 2005",
        },
        Profile {
            name: "westwood-bbe",
            spec: "growth=astart,steady=westwood-bbe,recovery=prr",
            summary: "Westwood that tells chance from congestion by the bottleneck's buffer",
            reference: "PFLDnet 2006",
        },
        Profile {
            name: "log-westwood-plus",
            spec: "growth=slow-start,steady=log-westwood-plus,recovery=prr",
            summary: "Westwood+ with a quick return to its last maximum",
            reference: "Kliazovich, Granelli, Miorandi, 2008",
        },
        Profile {
            name: "adaptive-reno",
            spec: "growth=slow-start,steady=adaptive-reno,recovery=prr",
            summary: "NewReno that probes and falls by the congestion level",
            reference: "Shimonishi, Murase, Globecom 2005",
        },
        Profile {
            name: "h-tcp",
            spec: "growth=slow-start,steady=h-tcp,recovery=prr",
            summary: "an increase by the time since the last congestion",
            reference: "Leith, Shorten, PFLDnet 2004",
        },
        Profile {
            name: "scalable",
            spec: "growth=slow-start,steady=scalable,recovery=prr",
            summary: "a hundredth of what is acknowledged up, an eighth down",
            reference: "Kelly, CCR 33(2), 2003",
        },
        Profile {
            name: "hybla",
            spec: "growth=hybla-start,steady=hybla,recovery=prr",
            summary: "the rate of a flow with a short round trip",
            reference: "Caini, Firrincieli, IJSC 22(5), 2004",
        },
        Profile {
            name: "veno",
            spec: "growth=slow-start,steady=veno,loss=veno,recovery=prr",
            summary: "NewReno that tells chance from congestion by the backlog",
            reference: "Fu, Liew, JSAC 21(2), 2003",
        },
        Profile {
            name: "vegas",
            spec: "growth=vegas-start,steady=vegas,recovery=prr",
            summary: "the first law that watches the delay",
            reference: "Brakmo, Peterson, JSAC 13(8), 1995",
        },
        Profile {
            name: "illinois",
            spec: "growth=slow-start,steady=illinois,recovery=prr",
            summary: "loss says when, delay how much",
            reference: "Liu, Basar, Srikant, Valuetools 2006",
        },
        Profile {
            name: "yeah",
            spec: "growth=slow-start,steady=yeah,recovery=prr",
            summary: "Scalable with a short queue",
            reference: "Baiocchi, Castellani, Vacirca, PFLDnet 2007",
        },
        Profile {
            name: "fast",
            spec: "growth=fast-start,steady=fast,recovery=prr",
            summary: "a constant number of segments in the queue",
            reference: "Jin, Wei, Low, Infocom 2004",
        },
        Profile {
            name: "tcp-peach",
            spec: "launch=sudden-start,growth=slow-start,steady=new-reno,recovery=rapid-recovery",
            summary: "for satellites: dummy segments tell chance from congestion",
            reference: "Akyildiz, Morabito, Palazzo, ToN 9(3), 2001",
        },
        Profile {
            name: "tcp-peach-plus",
            spec: "launch=peach-jump-start,growth=slow-start,steady=new-reno,recovery=quick-recovery",
            summary: "TCP-Peach with probes that may repair",
            reference: "Akyildiz, Zhang, Fang, IEEE Comm. Letters 6(7), 2002",
        },
        Profile {
            name: "tcp-swift",
            spec: "launch=speedy-start,growth=slow-start,steady=new-reno,recovery=speedy-recovery",
            summary: "TCP-Peach+ with a window that returns faster where probes show chance",
            reference: "Leung, Yeung, ISCC 2004",
        },
        Profile {
            name: "bbr",
            spec: "whole=bbr",
            summary: "a model of the path in place of a window law, bounded by the loss it causes",
            reference: "draft-ietf-ccwg-bbr",
        },
        Profile {
            name: "bbr1",
            spec: "whole=bbr1",
            summary: "BBR as Linux has it, deaf to losses",
            reference: "draft-cardwell-iccrg-bbr-congestion-control-00",
        },
        Profile {
            name: "ledbat-plus-plus",
            spec: "growth=ledbat-start,steady=ledbat-plus-plus,recovery=prr",
            summary: "for background transfers: yields to all others",
            reference: "draft-irtf-iccrg-ledbat-plus-plus-06, RFC 6817",
        },
        Profile {
            name: "copa",
            spec: "whole=copa",
            summary: "a short queue, and its share beside those who fill it",
            reference: "Arun, Balakrishnan, NSDI 2018",
        },
        Profile {
            name: "udt",
            spec: "whole=udt",
            summary: "UDT's rate control, for networks of one's own",
            reference: "draft-gg-udt-03",
        },
        Profile {
            name: "quick-start",
            spec: "launch=quick-start,growth=limited-slow-start,steady=new-reno,recovery=prr",
            summary: "a first flight that routers approve, then NewReno",
            reference: "RFC 4782, RFC 3742",
        },
    ],
};

/// A set of algorithms and profiles.
#[derive(Debug)]
pub struct Registry {
    /// All algorithms. The first of each slot is that slot's default.
    pub entries: &'static [&'static Entry],
    /// All profiles.
    pub profiles: &'static [Profile],
}

impl Registry {
    /// Returns the algorithms of `slot`, its default first.
    pub fn of_slot(&self, slot: Slot) -> impl Iterator<Item = &'static Entry> {
        self.entries.iter().copied().filter(move |entry| entry.slot == slot)
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
        for slot in Slot::COMPOSED.into_iter().chain([Slot::Whole]) {
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
    if entry.safety == Safety::Private {
        writeln!(f, "  {:<14} not for shared networks", "")?;
    }
    Ok(())
}
