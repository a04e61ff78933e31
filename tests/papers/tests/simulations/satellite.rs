//! Schemes for satellite links (TCP-Peach, TCP-Peach+, TCP-Swift) in virtual time: the claims of Leung and Yeung,
//! "TCP-Swift: An End-Host Enhancement Scheme for TCP over Satellite IP Networks" (ISCC 2004), packet by packet, and
//! the effect of probes on other data. The paper's figures are experiments of the laboratory (`tcp-swift-*`). `cargo
//! test -p longhaul-tests-papers --test simulations satellite:: -- --nocapture` prints the measurements.

mod goodput;
mod packets;
mod world;
