//! The five papers whose results the laboratory repeats row by row.

/// A paper, and its name in experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// The `source` of its experiments, without table, figure or section.
    pub name: &'static str,
    /// Title of the paper.
    pub title: &'static str,
    /// Authors of the paper.
    pub authors: &'static str,
    /// Year of publication.
    pub year: u16,
    /// Main claims of the paper.
    pub claims: &'static [MainClaim],
}

/// A main claim of a paper: several rows with one conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MainClaim {
    /// One sentence.
    pub text: &'static str,
    /// The rows that decide it: an experiment, and the start of the rows' names. Only claims among them count.
    pub rows: &'static [(&'static str, &'static str)],
}

const fn claim(text: &'static str, rows: &'static [(&'static str, &'static str)]) -> MainClaim {
    MainClaim { text, rows }
}

/// The papers, in the order of publication.
pub const PAPERS: [Paper; 5] = [
    Paper {
        name: "NASA/TM-2004-212938",
        title: "Evaluation of Swift Start TCP in Long-Delay Environment",
        authors: "Frances J. Lawas-Grodek, Diepchi T. Tran",
        year: 2004,
        claims: &[
            claim(
                "Over an idle path, most packet-pair estimates of the capacity are acceptable, within the ticks of a 1 ms clock.",
                &[("swift-start-table-3", "SS-EST")],
            ),
            claim(
                "Swift Start sends far more than slow start in the first seconds, if the estimate exceeds the initial window.",
                &[("swift-start-table-4", "SS-T4")],
            ),
            claim(
                "It speeds up transfers of 1 MB over paths with a large product of rate and delay.",
                &[("swift-start-figure-6", "SS-F6")],
            ),
            claim(
                "It has no significant advantage in long transfers that overflow the queue.",
                &[("swift-start-figure-5", "SS-F5")],
            ),
            claim(
                "With competing traffic, it estimates the link's capacity instead of the free bandwidth.",
                &[("swift-start-figures-8-13", "SS-MF"), ("swift-start-deep-queue", "SS-MF0-2")],
            ),
            claim(
                "With competing traffic, neither Swift Start nor pacing alone has an advantage, and pacing retransmits more.",
                &[
                    ("swift-start-figures-14-15", "SS-MF"),
                    ("swift-start-figure-16", "SS-MF"),
                    ("swift-start-two-flows", "SS-MF"),
                ],
            ),
        ],
    },
    Paper {
        name: "Leung, Yeung, ISCC 2004",
        title: "TCP-Swift: An End-Host Enhancement Scheme for TCP over Satellite IP Networks",
        authors: "Kui-Fai Leung, Kwan L. Yeung",
        year: 2004,
        claims: &[
            claim("Speedy Start opens the window in two round trips.", &[("tcp-swift-speedy-start", "SW-3")]),
            claim(
                "Speedy Recovery probes with outstanding segments and expands the window for a round trip.",
                &[("tcp-swift-recovery", "SW-"), ("tcp-swift-two-losses", "SW-7")],
            ),
            claim("TCP-Swift has the highest goodput over a lossy satellite link.", &[("tcp-swift-figure-5", "SW-1")]),
            claim(
                "TCP-Swift has the fairest share beside NewReno over a terrestrial link.",
                &[("tcp-swift-figure-7", "SW-2")],
            ),
        ],
    },
    Paper {
        name: "TCP Westwood on large bandwidth-delay products",
        title: "TCP Westwood Experiments over Large Bandwidth-Delay Product Networks",
        authors: "Anders Persson, Cesar A. C. Marcondes, M. Y. Sanadidi, Mario Gerla",
        year: 2005,
        claims: &[
            claim(
                "TCPW uses a long path as quickly and stably as FAST; NewReno and HSTCP need longer and oscillate.",
                &[("westwood-figure-4", "S1-")],
            ),
            claim(
                "With random losses, TCPW has a higher throughput than FAST and HSTCP.",
                &[("westwood-table-5", "S1-UA-4")],
            ),
            claim(
                "All protocols are fair to themselves.",
                &[("westwood-table-4", "S1-UA-2"), ("westwood-table-6", "S1-CT-2")],
            ),
            claim(
                "TCPW and NewReno come to equal shares; FAST and NewReno do not.",
                &[("westwood-figure-5", "S1-UA-3"), ("westwood-figure-8", "S1-CT-3")],
            ),
            claim(
                "Over a short path, all perform equally well, TCPW after one or two seconds more.",
                &[("westwood-figure-7", "S1-CT-1")],
            ),
        ],
    },
    Paper {
        name: "Inline path characteristic estimation (PFLDnet 2006)",
        title: "Inline Path Characteristic Estimation to Improve TCP Performance in High Bandwidth-Delay Networks",
        authors: "Cesar Marcondes, Anders Persson, M. Y. Sanadidi, Mario Gerla, Hideyuki Shimonishi, Takayuki Hama, Tutomu Murase",
        year: 2006,
        claims: &[
            claim(
                "Pathrate, CapProbe and TCPProbe find the capacity, in this order of time.",
                &[("bbe-figure-2", "S2-CAP"), ("bbe-figure-5", "S2-EST-1 TCPProbe")],
            ),
            claim(
                "The RTT before losses reveals the buffer, and tells losses by congestion from others.",
                &[("bbe-figure-3", "S2-LOSS"), ("bbe-figure-4", "S2-LOSS"), ("bbe-figures-6-7", "S2-BBE")],
            ),
            claim(
                "The path loses packets without congestion.",
                &[("bbe-figure-4", "S2-LOSS-2 losses"), ("bbe-figure-4", "S2-LOSS-2 throughput")],
            ),
            claim("Alone, BBE improves the throughput by nearly 70 %.", &[("bbe-figure-8", "S2-BBE-3")]),
            claim(
                "BBE is friendly to NewReno, whatever the buffer.",
                &[("bbe-figure-9", "S2-BBE-4 ratio"), ("bbe-buffers", "S2-BUF")],
            ),
        ],
    },
    Paper {
        name: "M. Scharf, Performance and Fairness Evaluation of IW10 and Other Fast Startup Schemes (IETF 80, ICCRG)",
        title: "Performance and Fairness Evaluation of IW10 and Other Fast Startup Schemes",
        authors: "Michael Scharf",
        year: 2011,
        claims: &[
            claim(
                "Fast start-up schemes are of moderate benefit, and for larger transfers only.",
                &[("scharf-speedup", "SC-1"), ("scharf-speedup", "SC-2")],
            ),
            claim("IW10 increases the loss rate by half a point.", &[("scharf-load", "SC-3 IS")]),
            claim(
                "Other schemes are not faster than IW10 and lose more.",
                &[
                    ("scharf-load", "SC-3 JS"),
                    ("scharf-load", "SC-3 QS"),
                    ("scharf-load", "SC-3 RCP"),
                    ("scharf-speedup", "SC-6 JS is"),
                    ("scharf-speedup", "SC-6 QS"),
                    ("scharf-speedup", "SC-6 RCP"),
                ],
            ),
            claim("Only small buffers are a problem.", &[("scharf-buffer", "SC-4")]),
            claim("IW10 is fair to unchanged stacks.", &[("scharf-fairness", "SC-5")]),
        ],
    },
];
