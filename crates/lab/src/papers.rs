//! The five papers whose results the laboratory repeats row by row.

/// A paper, and how experiments refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// The `source` of its experiments, without table, figure or section.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its authors.
    pub authors: &'static str,
    /// The year of its publication.
    pub year: u16,
}

/// The papers, in the order of publication.
pub const PAPERS: [Paper; 5] = [
    Paper {
        name: "NASA/TM-2004-212938",
        title: "Evaluation of Swift Start TCP in Long-Delay Environment",
        authors: "Frances J. Lawas-Grodek, Diepchi T. Tran",
        year: 2004,
    },
    Paper {
        name: "Leung, Yeung, ISCC 2004",
        title: "TCP-Swift: An End-Host Enhancement Scheme for TCP over Satellite IP Networks",
        authors: "Kui-Fai Leung, Kwan L. Yeung",
        year: 2004,
    },
    Paper {
        name: "TCP Westwood on large bandwidth-delay products",
        title: "TCP Westwood Experiments over Large Bandwidth-Delay Product Networks",
        authors: "Anders Persson, Cesar A. C. Marcondes, M. Y. Sanadidi, Mario Gerla",
        year: 2005,
    },
    Paper {
        name: "Inline path characteristic estimation (PFLDnet 2006)",
        title: "Inline Path Characteristic Estimation to Improve TCP Performance in High Bandwidth-Delay Networks",
        authors: "Cesar Marcondes, Anders Persson, M. Y. Sanadidi, Mario Gerla, Hideyuki Shimonishi, Takayuki Hama, Tutomu Murase",
        year: 2006,
    },
    Paper {
        name: "M. Scharf, Performance and Fairness Evaluation of IW10 and Other Fast Startup Schemes (IETF 80, ICCRG)",
        title: "Performance and Fairness Evaluation of IW10 and Other Fast Startup Schemes",
        authors: "Michael Scharf",
        year: 2011,
    },
];
