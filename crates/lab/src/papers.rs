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

/// A main claim of a paper, with the few rows that decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MainClaim {
    /// One sentence.
    pub text: &'static str,
    /// Number of its first parts without any of which it does not hold; 0: all.
    pub point: usize,
    /// Its parts.
    pub parts: &'static [Part],
}

/// A part of a main claim: an experiment, the row that decides it, in which a `*` stands for any text, and a name, after
/// which a colon may say what the numbers are. Only claims among the rows count; a part without any is shown beside them.
pub(crate) type Part = (&'static str, &'static str, &'static str);

const fn claim(text: &'static str, parts: &'static [Part]) -> MainClaim {
    MainClaim { text, point: 0, parts }
}

/// Returns whether the row is one that a part names.
pub(crate) fn names(pattern: &str, row: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => row.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        None => row == pattern,
    }
}

/// Returns the place of a paper among the five, or their number for any other source.
pub(crate) fn place(name: &str) -> usize {
    PAPERS.iter().position(|paper| paper.name == name).unwrap_or(PAPERS.len())
}

/// The papers, as they are numbered.
pub const PAPERS: [Paper; 5] = [
    Paper {
        name: "NASA/TM-2004-212938",
        title: "Evaluation of Swift Start TCP in Long-Delay Environment",
        authors: "Frances J. Lawas-Grodek, Diepchi T. Tran",
        year: 2004,
        claims: &[
            claim(
                "Over an idle path, most packet-pair estimates of the capacity are acceptable, within the ticks of a 1 ms clock.",
                &[
                    (
                        "swift-start-table-3",
                        "SS-EST*, gap of 5 ms",
                        "runs that measure the gap of 5 Mb/s, with 100 and 500 ms",
                    ),
                    (
                        "swift-start-table-3",
                        "SS-EST order, 500 ms",
                        "more accurate over slower links: errors at 20, 5, 0.5 Mb/s, 500 ms",
                    ),
                ],
            ),
            claim(
                "Swift Start sends far more than slow start in the first seconds, if the estimate exceeds the initial window.",
                &[
                    (
                        "swift-start-table-4",
                        "SS-T4-a gamma 1",
                        "gamma 1 in 2 s at 20 Mb/s, 500 ms, where slow start has 28 kB",
                    ),
                    ("swift-start-table-4", "SS-T4-b gamma 1", "in 4 s at 5 Mb/s, 500 ms, where it has 194 kB"),
                    ("swift-start-table-4", "SS-T4-d gamma 1", "in 0.9 s at 20 Mb/s, 100 ms, where it has 262 kB"),
                ],
            ),
            claim(
                "It speeds up transfers of 1 MB over paths with a large product of rate and delay.",
                &[
                    (
                        "swift-start-figure-6",
                        "SS-F6-1 20 Mb/s, 500 ms, gamma 1",
                        "gamma 1, slow start at 20 Mb/s, 500 ms",
                    ),
                    ("swift-start-figure-6", "SS-F6-1 5 Mb/s, 500 ms, gamma 1", "at 5 Mb/s, 500 ms"),
                    (
                        "swift-start-figure-6",
                        "SS-F6-3 0.5 Mb/s, 500 ms",
                        "none at 0.5 Mb/s, 500 ms: slow start, gamma 1, 4, 8",
                    ),
                ],
            ),
            claim(
                "It has no significant advantage in long transfers that overflow the queue.",
                &[
                    ("swift-start-figure-5", "SS-F5-5 20 Mb/s, 500 ms", "slow start, gamma 1, 4, 8 at 20 Mb/s, 500 ms"),
                    ("swift-start-figure-5", "SS-F5-5 5 Mb/s, 500 ms", "at 5 Mb/s, 500 ms"),
                    ("swift-start-figure-5", "SS-F5-5 20 Mb/s, 100 ms", "at 20 Mb/s, 100 ms"),
                    ("swift-start-figure-5", "SS-F5-5 5 Mb/s, 100 ms", "at 5 Mb/s, 100 ms"),
                ],
            ),
            claim(
                "With competing traffic, it estimates the link's capacity instead of the free bandwidth.",
                &[
                    ("swift-start-figures-8-13", "SS-MF-1 figure 8, over", "above the 3 Mb/s that UDP leaves"),
                    (
                        "swift-start-figures-8-13",
                        "SS-MF-1 figure 9, majority",
                        "of 3.8 to 4.6 Mb/s, where UDP leaves 1 Mb/s of 5",
                    ),
                ],
            ),
            claim(
                "With competing traffic, neither Swift Start nor pacing alone has an advantage, and pacing retransmits more.",
                &[
                    ("swift-start-figures-14-15", "SS-MF-8*", "Swift Start beside UDP"),
                    (
                        "swift-start-two-flows",
                        "SS-MF0-1 advantage*",
                        "Swift Start beside a TCP flow: gamma 1, 4, 8 relative to slow start",
                    ),
                    ("swift-start-figure-16", "SS-MF-7*, throughput", "pacing alone beside UDP"),
                    (
                        "swift-start-figure-16",
                        "SS-MF-7*50p, again",
                        "retransmissions: with pacing, without, beside 2 and 4 Mb/s of UDP",
                    ),
                ],
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
                &[
                    ("westwood-figure-4", "S1-UA-1 TCPW in a couple of seconds", "TCPW in a couple of seconds"),
                    ("westwood-figure-4", "S1-UA-1 FAST in a couple of seconds", "FAST in a couple of seconds"),
                    ("westwood-figure-4", "S1-UA-1 NewReno after TCPW", "NewReno later: its time, TCPW's"),
                    ("westwood-figure-4", "S1-UA-1*oscillates more than TCPW", "oscillation: HSTCP, TCPW, NewReno"),
                ],
            ),
            claim(
                "With random losses, TCPW has a higher throughput than FAST and HSTCP.",
                &[
                    ("westwood-table-5", "S1-UA-4a", "TCPW, FAST, HSTCP at 0.1 %"),
                    ("westwood-table-5", "S1-UA-4b", "at 0.25 %"),
                    ("westwood-table-5", "S1-UA-4c TCPW", "TCPW at 0.5 %"),
                    ("westwood-table-5", "S1-UA-4c FAST", "FAST at 0.5 %"),
                ],
            ),
            claim(
                "All protocols are fair to themselves.",
                &[
                    ("westwood-table-4", "S1-UA-2a*", "two flows over 65 ms: Jain's index of TCPW, FAST, HSTCP"),
                    ("westwood-table-4", "S1-UA-2b*", "ten flows over 65 ms"),
                    ("westwood-table-6", "S1-CT-2a*", "two flows over 4 ms"),
                    ("westwood-table-6", "S1-CT-2b*", "ten flows over 4 ms, where FAST is the least fair"),
                ],
            ),
            MainClaim {
                text: "TCPW and NewReno come to equal shares; FAST and NewReno do not.",
                point: 3,
                parts: &[
                    ("westwood-figure-5", "S1-UA-3b TCPW comes to an equal share", "TCPW's share over 65 ms"),
                    (
                        "westwood-figure-8",
                        "S1-CT-3 TCPW has an equal share after 15 s",
                        "over 4 ms, also in the run with the least share of TCPW",
                    ),
                    (
                        "westwood-figure-8",
                        "S1-CT-3 TCPW converges after 10 to 12 s",
                        "after 10 to 12 s in all runs over 4 ms",
                    ),
                    ("westwood-figure-8", "S1-CT-3 FAST does not converge", "FAST over 4 ms: runs that converge"),
                ],
            },
            claim(
                "Over a short path, all perform equally well, TCPW after one or two seconds more.",
                &[
                    ("westwood-figure-7", "S1-CT-1 all perform equally well", "equal throughputs"),
                    (
                        "westwood-figure-7",
                        "S1-CT-1 TCPW takes 1 to 2 s longer",
                        "one or two seconds more: TCPW's time, HSTCP's",
                    ),
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
            claim(
                "Speedy Start opens the window in two round trips.",
                &[("tcp-swift-speedy-start", "SW-3 TCP-Swift", "window after two round trips")],
            ),
            claim(
                "Speedy Recovery repairs losses with outstanding segments.",
                &[(
                    "tcp-swift-two-losses",
                    "SW-7 outstanding segments repair losses",
                    "retransmissions with dummies, with outstanding segments",
                )],
            ),
            claim(
                "TCP-Swift has the highest goodput over a lossy satellite link with priority queues.",
                &[
                    (
                        "tcp-swift-figure-5",
                        "SW-1 0.001%, over*",
                        "at 0.001 % of losses: TCP-Swift, TCP-Peach, TCP-Peach+, SACK",
                    ),
                    ("tcp-swift-figure-5", "SW-1 0.01%, over*", "at 0.01 %"),
                    ("tcp-swift-figure-5", "SW-1 0.1%, over*", "at 0.1 %"),
                    ("tcp-swift-figure-5", "SW-1 1%, over*", "at 1 %"),
                    (
                        "tcp-swift-figure-5",
                        "SW-1*%, drop-tail, over sack",
                        "over drop-tail queues, as in the paper: above SACK",
                    ),
                ],
            ),
            claim(
                "TCP-Swift has the fairest share beside NewReno over a terrestrial link, with priority queues.",
                &[
                    ("tcp-swift-figure-7", "SW-2 1e-6", "at a loss probability of 1e-6: TCP-Swift, TCP-Peach, NewReno"),
                    ("tcp-swift-figure-7", "SW-2 1e-4", "at 1e-4"),
                    ("tcp-swift-figure-7", "SW-2 1e-2", "at 1e-2"),
                ],
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
                &[
                    ("scharf-speedup", "SC-1 mid-sized transfers are sooner", "10 to 100 kB: slow start, IW10"),
                    ("scharf-speedup", "SC-6 larger transfers benefit", "more than 10 kB"),
                    ("scharf-speedup", "SC-2 up to 10 kB nothing is gained", "no gain up to 10 kB"),
                    ("scharf-speedup", "SC-1 the benefit in all is small", "a small benefit in all"),
                ],
            ),
            claim(
                "IW10 increases the loss rate by half a point.",
                &[("scharf-load", "SC-3 IS adds half a point of loss", "IW10, slow start")],
            ),
            claim(
                "Other schemes are not faster than IW10 and lose more.",
                &[
                    ("scharf-load", "SC-3 RCP is not faster than IS", "RCP no faster: its time, IW10's"),
                    ("scharf-load", "SC-3*loses more than IS", "larger losses: Jump-Start, IW10, Quick-Start, RCP"),
                ],
            ),
            claim(
                "Only small buffers are a problem.",
                &[
                    (
                        "scharf-buffer",
                        "SC-4 SS loses more in small buffers",
                        "larger losses in small buffers: slow start with 10, 20, 50 packets",
                    ),
                    (
                        "scharf-buffer",
                        "SC-4*adds little loss, 50",
                        "a little more, and no less, with 50 packets: IW10, slow start, Jump-Start, Quick-Start, RCP",
                    ),
                    ("scharf-buffer", "SC-4*adds little loss, 100", "a little more, and no less, with 100 packets"),
                ],
            ),
            claim(
                "IW10 is fair to unchanged stacks.",
                &[("scharf-fairness", "SC-5 others hardly notice IS", "time of others beside IW10, beside slow start")],
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
                "CapProbe, TCPProbe and Pathrate find the capacity, in this order, in 6, 12 and 70 s.",
                &[
                    ("bbe-figure-2", "S2-CAP-1 order of times", "this order in all runs: their share"),
                    ("bbe-figure-2", "S2-CAP-1*'s time", "these times: Pathrate, CapProbe, TCPProbe"),
                ],
            ),
            claim(
                "The RTT before losses reveals the buffer, and tells losses by congestion from others.",
                &[
                    ("bbe-figure-3", "S2-LOSS-1 losses near 148 ms", "ten flows: losses at the RTT of a full buffer"),
                    ("bbe-figures-6-7", "S2-BBE-1 heavy", "heavy load: overlap of RTTs before losses with others"),
                ],
            ),
            claim(
                "The path loses packets without congestion.",
                &[
                    ("bbe-figure-4", "S2-LOSS-2 losses by chance", "rate of losses by chance"),
                    ("bbe-figure-4", "S2-LOSS-2 throughput", "throughput of one flow"),
                ],
            ),
            MainClaim {
                text: "Alone, BBE improves the throughput by nearly 70 %.",
                point: 1,
                parts: &[
                    ("bbe-figure-8", "S2-BBE-3 advantage", "nearly 70 %: BBE relative to NewReno"),
                    ("bbe-figure-8", "S2-BBE-3", "BBE, NewReno"),
                ],
            },
            claim(
                "BBE is friendly to NewReno, whatever the buffer.",
                &[
                    ("bbe-figure-9", "S2-BBE-4 ratio, poisson", "BBE relative to NewReno in 20 minutes"),
                    ("bbe-buffers", "S2-BUF ratio, 20kB", "with 20 kB"),
                    ("bbe-buffers", "S2-BUF ratio, 150kB", "with 150 kB"),
                    ("bbe-buffers", "S2-BUF ratio, 2bdp", "with a buffer of 2 BDP"),
                ],
            ),
        ],
    },
];
