//! The command line of `probe`.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use longhaul::cc::estimate::active::path_chirp::{PathChirp, PathChirpConfig};
use longhaul::cc::estimate::active::pathload::{Pathload, PathloadConfig};
use longhaul::cc::estimate::active::pathrate::{Pathrate, PathrateConfig};
use longhaul::cc::estimate::active::{CapProbeMethod, CapProbeOptions, Method};
use longhaul::units::{Bytes, Span};

/// Seconds that a method may take, if nothing is said.
const USUAL_SECS: u32 = 60;
/// The same of Pathrate, whose trains of a loaded path alone take more than four minutes.
const PATHRATE_SECS: u32 = 300;

/// What `--help` ends with.
const MORE: &str = "\
tcpprobe needs a plain `receive` there, the other methods one with --reflect; `all` makes do with what there is. tcpprobe
sends a file that it breaks off: the receiver keeps nothing of it, and says that it was interrupted.

--json: \"address\"; \"largest_packet\" in bytes (null if tcpprobe was the only method); \"direction\" (\"there\": whose rates these
are); \"doubts\" (sentences: what speaks against the findings); what all packets together say of
the path; \"methods\", each with \"method\", \"capacity_bps\" and \"available_bps\" (\"low\", \"value\", \"high\"),
\"delivery_bps\" and \"arrival_times\" (tcpprobe's: what it delivered, and whether the peer told when), \"converged\",
\"converged_after_s\", \"seconds\", \"confidence\" (0 to 1), and what its own packets say of the path; \"hops\" with
--hops: \"queue_at\" (the TTL, null if nowhere), \"loaded\", \"hops\", each with \"ttl\", \"address\", \"sent\",
\"answered\", \"base_rtt_us\", \"queueing_us\". The path is \"base_rtt_us\", \"queueing_us\", \"buffer_delay_us\",
\"buffer_bytes\", \"random_loss\" (0 to 1), \"lost\", \"packets\", \"bytes\". null is unknown.

The exit code is 0 if a method found a rate or --hops a hop.";

/// Measures a path to `receive`: capacity, available bandwidth, round trip, buffer and loss.
///
/// Rates count IP packets, and are those of the way to the receiver. Progress goes to standard error. A method has converged
/// if its own criterion is met and its confidence is a half or more. Where findings exclude each other, or this machine was
/// too busy to send in time, the report says so and the confidence is less than that.
#[derive(Clone, Debug, Parser)]
#[command(name = "probe", version, after_help = MORE)]
pub struct Options {
    /// The receiver: HOST:PORT
    #[arg(value_name = "ADDR")]
    pub address: String,
    /// How to measure
    #[arg(long, value_enum, value_name = "METHOD", default_value_t = Choice::CapProbe)]
    pub method: Choice,
    /// Look for the hop where packets queue, by packets of rising TTL: during tcpprobe's transfer, else for 15 s after the
    /// other methods, while something else loads the path (Linux)
    #[arg(long)]
    pub hops: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Seconds that a method may take; what it knows by then is reported. tcpprobe takes 10 at most [default: 60, pathrate 300]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub time: Option<u32>,
}

/// What `--method` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// Capacity, from pairs of packets that waited for nothing
    #[value(name = "capprobe")]
    CapProbe,
    /// Capacity, from the modes of the dispersion of pairs and trains
    #[value(name = "pathrate")]
    Pathrate,
    /// Available bandwidth, from rates at which delay begins to grow
    #[value(name = "pathload")]
    Pathload,
    /// Available bandwidth, from trains whose rate rises
    #[value(name = "pathchirp")]
    PathChirp,
    /// Capacity, from pairs of segments of a transfer of a few seconds
    #[value(name = "tcpprobe")]
    TcpProbe,
    /// One after the other
    All,
}

impl Choice {
    /// Whether `one` is to be done.
    #[must_use]
    pub fn includes(self, one: Self) -> bool {
        self == one || self == Self::All
    }
}

impl Options {
    /// The first address that the name has.
    ///
    /// # Errors
    /// If it is no address or has none.
    pub fn resolve(&self) -> Result<SocketAddr> {
        let address = &self.address;
        let mut addresses =
            address.to_socket_addrs().with_context(|| format!("{address:?} is not an address (HOST:PORT)"))?;
        addresses.next().with_context(|| format!("{address} has no address"))
    }

    /// How long the method of that name may take.
    #[must_use]
    pub fn time(&self, method: &str) -> Span {
        let usual = if method == "pathrate" { PATHRATE_SECS } else { USUAL_SECS };
        Span::from_secs(self.time.unwrap_or(usual).into())
    }

    /// The methods that need a reflector, with packets of `largest` bytes (IP) at most.
    ///
    /// # Errors
    /// If a method cannot work with such packets.
    pub fn methods(&self, largest: u32) -> Result<Vec<Box<dyn Method>>> {
        let mut methods: Vec<Box<dyn Method>> = Vec::new();
        if self.method.includes(Choice::CapProbe) {
            methods.push(Box::new(CapProbeMethod::new(cap_probe(largest))?));
        }
        if self.method.includes(Choice::Pathrate) {
            methods.push(Box::new(Pathrate::new(pathrate(largest))?));
        }
        if self.method.includes(Choice::Pathload) {
            methods.push(Box::new(Pathload::new(pathload(largest))?));
        }
        if self.method.includes(Choice::PathChirp) {
            methods.push(Box::new(PathChirp::new(path_chirp(largest))?));
        }
        Ok(methods)
    }
}

/// The default sizes where the path takes them, else smaller ones in the same proportion.
fn cap_probe(largest: u32) -> CapProbeOptions {
    let usual = CapProbeOptions::default();
    let (first, second) = usual.sizes;
    let second = second.min(largest);
    CapProbeOptions {
        sizes: (first * second / usual.sizes.1, second),
        largest: usual.largest.min(largest),
        ..CapProbeOptions::default()
    }
}

fn pathrate(largest: u32) -> PathrateConfig {
    let usual = PathrateConfig::default();
    let bytes = Bytes(largest.into());
    // From a third of the largest on, as it is by default.
    PathrateConfig {
        smallest: usual.smallest.min(bytes.mul_f64(0.37).max(Bytes(60))),
        largest: usual.largest.min(bytes),
        ..usual
    }
}

fn pathload(largest: u32) -> PathloadConfig {
    let usual = PathloadConfig::default();
    let bytes = Bytes(largest.into());
    PathloadConfig { smallest: usual.smallest.min(bytes), largest: usual.largest.min(bytes), ..usual }
}

fn path_chirp(largest: u32) -> PathChirpConfig {
    let usual = PathChirpConfig::default();
    PathChirpConfig { size: usual.size.min(Bytes(largest.into())), ..usual }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_takes_every_size_of_the_ladder() {
        for largest in [1500, 1280, 576, 128] {
            let options =
                Options { address: String::new(), method: Choice::All, hops: false, json: false, time: Some(1) };
            let methods = options.methods(largest).unwrap();
            let names: Vec<_> = methods.iter().map(|method| method.name()).collect();
            assert_eq!(names, ["capprobe", "pathrate", "pathload", "pathchirp"]);
        }
        assert_eq!(cap_probe(1500), CapProbeOptions::default());
        assert_eq!(cap_probe(576).sizes, (448, 576));
    }
}
