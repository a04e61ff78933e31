//! Any two compositions at the two ends of a connection, also published ones, with data in both directions, over links
//! that lose, duplicate and reorder packets, and with a middlebox that rewrites headers. Every transfer ends within a
//! bound of virtual time, acknowledged data is never lost, and no controller or extension stalls a connection.

use longhaul_tests_papers::any_pair::{Case, Hostility, starts_and_recoveries, try_all, try_starts_and_recoveries};
use longhaul_tests_papers::registry;

/// Without a middlebox, all data arrives with any compositions at both ends.
#[test]
fn every_pair_delivers_over_a_rough_path() {
    // RC3 at both ends sent ACKs below the peer's window when data was sent in both directions.
    registry();
    try_all(Case::new, Hostility::None, &[2339]);
}

/// Every start-up scheme with every recovery algorithm delivers all data, with the same composition at both ends. Such
/// a case revealed a stall of RC3.
#[test]
fn every_start_with_every_recovery_delivers_both_ways() {
    registry();
    let all = starts_and_recoveries().len();
    assert!(all > 200, "{all}");
    try_starts_and_recoveries();
}

/// False windows, old acknowledgment numbers, false SACK blocks, CE marks and reports may delay data, but do not lose
/// data. An attacker who can forge them cannot end the connection.
#[test]
fn every_pair_delivers_in_spite_of_lies_about_its_progress() {
    registry();
    try_all(Case::new, Hostility::Lies, &[2011]);
}

/// If any header field of any segment may be rewritten, the peers may become inconsistent for good. Both ends then
/// report an error.
#[test]
fn every_pair_ends_when_any_field_is_rewritten() {
    registry();
    try_all(Case::new, Hostility::Anything, &[]);
}

/// All data of one end arrives if the other end reads late or slowly. If the other end does not read at all, windows
/// close, FINs wait for them, and data still flows in the other direction.
#[test]
fn every_pair_delivers_what_is_read() {
    registry();
    try_all(Case::unread, Hostility::None, &[]);
}

/// The same holds with false reports of progress.
#[test]
fn every_pair_delivers_what_is_read_in_spite_of_lies() {
    registry();
    try_all(Case::unread, Hostility::Lies, &[]);
}

/// The same holds with many false windows and SACK blocks, some of which report the octet of a window probe as
/// received.
#[test]
fn every_pair_delivers_what_is_read_in_spite_of_lies_about_windows() {
    // In these cases, both ends had sent more than the other end accepts, and neither processed the other's
    // acknowledgments.
    registry();
    try_all(Case::unread, Hostility::WindowLies, &[1243, 2417]);
}

/// All data arrives although the addresses of both ends change, also those that a NAT gives to the client.
#[test]
fn every_pair_delivers_while_addresses_change() {
    // A client with a closed window did not accept challenges. The pacer waited for longer than a NAT kept the binding.
    registry();
    try_all(Case::roaming, Hostility::None, &[1317, 65119]);
}
