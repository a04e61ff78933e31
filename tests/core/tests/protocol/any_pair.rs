//! Any two compositions of the core's algorithms at the two ends of a connection. Every transfer ends within a bound of
//! virtual time, acknowledged data is never lost, and no controller or extension stalls a connection.

use longhaul_tests_core::any_pair::{Case, Hostility, try_all, try_starts_and_recoveries};

/// Without a middlebox, all data arrives with any compositions at both ends.
#[test]
fn every_pair_delivers_over_a_rough_path() {
    try_all(Case::new, Hostility::None, &[]);
}

/// Every start-up scheme with every recovery algorithm delivers all data.
#[test]
fn every_start_with_every_recovery_delivers_both_ways() {
    try_starts_and_recoveries();
}

/// False windows, old acknowledgment numbers, false SACK blocks, CE marks and reports may delay data, but do not lose
/// data. An attacker who can forge them cannot end the connection.
#[test]
fn every_pair_delivers_in_spite_of_lies_about_its_progress() {
    try_all(Case::new, Hostility::Lies, &[]);
}

/// If any header field of any segment may be rewritten, the peers may become inconsistent for good. Both ends then
/// report an error.
#[test]
fn every_pair_ends_when_any_field_is_rewritten() {
    try_all(Case::new, Hostility::Anything, &[]);
}

/// All data of one end arrives if the other end reads late or slowly. If the other end does not read at all, windows
/// close, FINs wait for them, and data still flows in the other direction.
#[test]
fn every_pair_delivers_what_is_read() {
    try_all(Case::unread, Hostility::None, &[]);
}

/// The same holds with false reports of progress.
#[test]
fn every_pair_delivers_what_is_read_in_spite_of_lies() {
    try_all(Case::unread, Hostility::Lies, &[]);
}

/// The same holds with many false windows and SACK blocks, some of which report the octet of a window probe as
/// received.
#[test]
fn every_pair_delivers_what_is_read_in_spite_of_lies_about_windows() {
    try_all(Case::unread, Hostility::WindowLies, &[]);
}

/// Every transfer arrives although the addresses of both ends change again and again: that of the client by itself and
/// by a NAT whose bindings expire, and that of the server by the client's choice.
#[test]
fn every_pair_delivers_while_addresses_change() {
    try_all(Case::roaming, Hostility::None, &[]);
}
