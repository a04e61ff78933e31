//! Summary of the sent files, in one sentence.

use anyhow::Result;

use super::mirror::Found;
use super::{Reported, Screen};
use crate::names;
use crate::progress::Total;
use crate::report::{self, Stopwatch, count};
use crate::sender::Plan;
use crate::session::Outcome;

/// Maximum number of skipped files that are listed. `--json` lists all of them.
const MOST_LISTED: usize = 100;
/// Maximum width of the column of names in the list of files.
const NAMES: usize = 40;

/// Counts the outcomes of files.
pub(super) struct Tally {
    /// Name or address of the receiver.
    to: String,
    pub(super) total: Total,
    /// Name of the only file or directory that is sent, if there is only one.
    name: Option<String>,
    /// Measures the time from the beginning of the transfer.
    pub(super) watch: Stopwatch,
    files: u64,
    bytes: u64,
    /// Number of bytes that were transferred, not already present.
    moved: u64,
    skipped: u64,
    /// Files that the receiver does not have, with the reasons.
    left_out: Vec<(String, String)>,
    mirror: Option<Found>,
}

impl Tally {
    pub(super) fn new(to: String, plan: &Plan) -> Self {
        Self {
            to,
            total: plan.total(),
            name: plan.name(),
            watch: Stopwatch::start(),
            files: 0,
            bytes: 0,
            moved: 0,
            skipped: 0,
            left_out: Vec::new(),
            mirror: None,
        }
    }

    /// Takes over the results of a mirror's comparison so far.
    pub(super) fn compared(&mut self, found: &mut Found) {
        self.left_out.append(&mut found.kept);
        self.total = found.total;
        let Found { dry_run, unchanged, total, surplus, deleted, .. } = *found;
        self.mirror = Some(Found { dry_run, unchanged, total, surplus, deleted, kept: Vec::new() });
    }

    pub(super) fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Sent(sent) => {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(sent.bytes);
                self.moved = self.moved.saturating_add(sent.bytes.saturating_sub(sent.resumed_bytes));
            }
            Outcome::Skipped(_) => self.skipped += 1,
            Outcome::Failed(file, reason) => self.left_out.push((names::escaped(&file), reason)),
            Outcome::Created => {}
        }
    }

    /// Returns a line about the data to be sent or, first, compared.
    pub(super) fn beginning(&self, compares: bool) -> String {
        let Total { files, bytes } = self.total;
        let (files, size) = (count(files, "file"), bytes.map(report::size));
        let what = match (&self.name, self.total.files) {
            (Some(name), 1) => size.map_or_else(|| name.clone(), |size| format!("{name} ({size})")),
            (Some(name), _) => {
                format!("{name} ({})", [Some(files), size].into_iter().flatten().collect::<Vec<_>>().join(", "))
            }
            (None, _) => size.map_or_else(|| files.clone(), |size| format!("{files} ({size})")),
        };
        if compares {
            format!("Comparing {what} with the copy at {}", self.to)
        } else {
            format!("Sending {what} to {}", self.to)
        }
    }

    /// Reports which files were sent and which were not. Returns an error if the receiver lacks a file.
    pub(super) fn end(&self, json: bool, screen: &Screen) -> Result<()> {
        if json {
            screen.print(&report::json_line(&self.summary()));
        }
        if self.left_out.is_empty() {
            screen.say(&self.sentence());
            return Ok(());
        }
        screen.warn(&self.sentence());
        self.list(screen);
        screen.say("Once the reasons are gone, the same command sends only what is missing.");
        Err(Reported.into())
    }

    /// Reports which files were sent and which were not before the connection failed.
    pub(super) fn break_off(&self, screen: &Screen) {
        if self.files > 0 || !self.left_out.is_empty() {
            let all = count(self.total.files, "file");
            screen.warn(&format!("Sent {} of {all}, {}, until then.", self.files, report::size(self.bytes)));
            self.list(screen);
        }
    }

    fn list(&self, screen: &Screen) {
        let width = self.left_out.iter().take(MOST_LISTED).map(|(file, _)| file.chars().count()).max();
        let width = width.unwrap_or(0).min(NAMES);
        for (file, reason) in self.left_out.iter().take(MOST_LISTED) {
            screen.warn(&format!("  {file:width$}  {reason}"));
        }
        let more = self.left_out.len().saturating_sub(MOST_LISTED);
        if more > 0 {
            screen.warn(&format!("  and {more} more, which --json lists"));
        }
    }

    fn sentence(&self) -> String {
        let took = self.watch.elapsed();
        let all = self.total.files;
        let (same, unchanged, only_there) = match &self.mirror {
            Some(found) => (found.same(), found.unchanged, found.only_there()),
            None => Default::default(),
        };
        let end = if self.left_out.is_empty() { "" } else { " Left out:" };
        if let Some(Found { dry_run: true, total: Total { files, bytes }, .. }) = self.mirror {
            let size = report::size(bytes.unwrap_or_default());
            return format!("Would send {}, at most {size}.{same}{only_there}{end}", count(files, "file"));
        }
        if self.moved == 0 && self.files == all && (self.bytes > 0 || all == 0 && unchanged > 0) {
            let text = match all + unchanged {
                1 => "Nothing to send: the file is there and the same.".to_owned(),
                all => format!("Nothing to send: all {all} files are there and the same."),
            };
            return text + &only_there + end;
        }
        let what = match &self.name {
            Some(name) if all == 1 && self.files == 1 && self.mirror.is_none() => name.clone(),
            _ if self.files == all => count(all, "file"),
            _ => format!("{} of {}", self.files, count(all, "file")),
        };
        let time = report::duration(took.as_secs_f64());
        let rate = report::rate(report::bits_per_second(self.moved, took));
        let mut text = match self.files {
            0 => "Nothing was sent.".to_owned(),
            _ if self.mirror.is_some() && self.moved < self.bytes => {
                let (moved, bytes) = (report::size(self.moved), report::size(self.bytes));
                format!("Sent {what}, {moved} of {bytes}, in {time} ({rate}).")
            }
            _ => format!("Sent {what}, {}, in {time} ({rate}).", report::size(self.bytes)),
        };
        if self.skipped > 0 {
            let (is, has) = match self.skipped {
                1 => ("was", "a file of this name"),
                _ => ("were", "files of these names"),
            };
            text += &format!(" {} {is} skipped, because the receiver has {has}.", count(self.skipped, "file"));
        }
        text += &same;
        text += &only_there;
        match (self.left_out.len(), self.files) {
            (0, 0) => {}
            (0, 1) => text += " The receiver has checked and stored it.",
            (0, _) => text += " The receiver has checked and stored all of them.",
            _ => text += " Left out:",
        }
        text
    }

    fn summary(&self) -> serde_json::Value {
        let seconds = self.watch.elapsed();
        let mut sum = serde_json::json!({
            "files": self.files,
            "bytes": self.bytes,
            "moved_bytes": self.moved,
            "seconds": seconds.as_secs_f64(),
            "goodput_bps": report::bits_per_second(self.moved, seconds),
            "skipped_files": self.skipped,
            "left_out_files": self.left_out.len(),
        });
        if let Some(found) = &self.mirror {
            sum["unchanged_files"] = found.unchanged.into();
            sum["surplus_entries"] = found.surplus.into();
            sum["deleted_entries"] = found.deleted.into();
            if found.dry_run {
                sum["dry_run"] = true.into();
                sum["files"] = found.total.files.into();
                sum["bytes"] = found.total.bytes.into();
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(files: u64, bytes: u64) -> Tally {
        let total = Total { files, bytes: Some(bytes) };
        Tally { total, ..Tally::new("192.0.2.7".to_owned(), &Plan::new(Vec::new())) }
    }

    #[test]
    fn one_sentence_says_what_was_sent() {
        let begins = |tally: &Tally, beginning: &str, end: &str| {
            let text = tally.sentence();
            assert!(text.starts_with(beginning) && text.ends_with(end), "{text}");
        };
        let mut all = tally(302, 8_600_000_000);
        assert_eq!(all.beginning(false), "Sending 302 files (8.6 GB) to 192.0.2.7");
        all.name = Some("photos".to_owned());
        assert_eq!(all.beginning(false), "Sending photos (302 files, 8.6 GB) to 192.0.2.7");
        (all.files, all.bytes, all.moved) = (302, 8_600_000_000, 8_600_000_000);
        begins(&all, "Sent 302 files, 8.6 GB, in ", " The receiver has checked and stored all of them.");
        all.moved = 0;
        begins(&all, "Nothing to send: all 302 files are there and the same.", "");
        let mut some = tally(302, 8_600_000_000);
        (some.files, some.bytes, some.moved) = (299, 8_500_000_000, 8_500_000_000);
        some.left_out = vec![("photos/new".to_owned(), "permission denied".to_owned()); 3];
        begins(&some, "Sent 299 of 302 files, 8.5 GB, in ", " Left out:");
        let mut one = tally(1, 1000);
        (one.name, one.files, one.bytes, one.moved) = (Some("a.iso".to_owned()), 1, 1000, 1000);
        assert_eq!(one.beginning(false), "Sending a.iso (1.0 kB) to 192.0.2.7");
        begins(&one, "Sent a.iso, 1.0 kB, in ", " The receiver has checked and stored it.");
        let found = Found { unchanged: 9900, surplus: 3, deleted: 2, ..Found::default() };
        let mut mirror = Tally { mirror: Some(found), ..tally(100, 1_500_000) };
        (mirror.files, mirror.bytes, mirror.moved) = (100, 1_500_000, 300_000);
        let end = " 9900 files are unchanged. 2 entries deleted. The receiver has checked and stored all of them.";
        begins(&mirror, "Sent 100 files, 300 kB of 1.5 MB, in ", end);
        mirror.moved = 0;
        begins(&mirror, "Nothing to send: all 10000 files are there and the same. 2 entries deleted.", "");
        mirror.total.files = 0;
        mirror.files = 0;
        begins(&mirror, "Nothing to send: all 9900 files are there and the same. 2 entries deleted.", "");
        mirror.mirror = Some(Found { dry_run: true, unchanged: 1, surplus: 1, ..Found::default() });
        begins(&mirror, "Would send 0 files, at most 0 B. 1 file is unchanged. 1 entry would be deleted.", "");
        let skipped = Tally { skipped: 2, ..tally(2, 10) };
        begins(&skipped, "Nothing was sent. 2 files were skipped, because the receiver has files of these names.", "");
    }
}
