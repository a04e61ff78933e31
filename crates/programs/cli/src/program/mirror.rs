//! `longhaul send --mirror`.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::json;

use super::args::MirrorArgs;
use super::{Screen, WrongUse};
use crate::mirror::{Request, Surplus};
use crate::output;
use crate::progress::Total;
use crate::report::{self, count, plural};
use crate::sender::{Listed, Plan, SendError, Sender};
use crate::transport::Transport;

/// Directories whose copies at the receiver are to be made equal.
pub(super) struct Mirror {
    request: Request,
    asks: bool,
    json: bool,
    pub(super) found: Found,
}

/// Results of the comparison and of the deletion.
#[derive(Default)]
pub(super) struct Found {
    pub(super) dry_run: bool,
    /// Number of files that are equal.
    pub(super) unchanged: u64,
    /// Amount of data to be sent.
    pub(super) total: Total,
    /// Number of entries that only the receiver has, and number of deleted ones.
    pub(super) surplus: u64,
    pub(super) deleted: u64,
    /// Entries that could not be deleted, with the reasons.
    pub(super) kept: Vec<(String, String)>,
}

impl Mirror {
    /// Returns an error if confirmation is required and there is no terminal.
    pub(super) fn new(args: &MirrorArgs, json: bool, plan: &Plan, screen: &Screen) -> Result<Option<Self>, WrongUse> {
        if !args.mirror {
            return Ok(None);
        }
        let asks = args.delete && !args.yes && !args.dry_run;
        if asks && !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            let what = "--delete asks before it deletes, and there is no terminal; --dry-run shows what would be \
                        deleted, and --yes deletes it";
            return Err(WrongUse(what.to_owned()));
        }
        let is_partial = args.delete && plan.lacks_entries();
        if is_partial {
            screen.warn(
                "nothing is deleted at the receiver, because some entries cannot be sent, which are listed below",
            );
        }
        let request = Request { surplus: args.delete && !is_partial, checksum: args.checksum };
        let found = Found { dry_run: args.dry_run, ..Found::default() };
        Ok(Some(Self { request, asks, json, found }))
    }

    /// Removes the entries that the receiver has from `plan`, and makes the receiver delete those that only it has.
    pub(super) async fn compare<T: Transport>(
        &mut self,
        sender: &mut Sender<T>,
        plan: &mut Plan,
        screen: &Screen,
    ) -> Result<(), SendError> {
        self.found.unchanged += sender.compare(plan, self.request).await?;
        self.found.total = plan.total();
        if self.request.surplus {
            self.delete(sender, screen).await?;
            // A later connection does not ask again.
            self.request.surplus = false;
        }
        if self.found.dry_run {
            if screen.shows(crate::progress::Detail::Files) {
                plan.unsettled().for_each(|source| screen.say(&source.name().to_string()));
            }
            plan.send_nothing();
        }
        Ok(())
    }

    async fn delete<T: Transport>(&mut self, sender: &mut Sender<T>, screen: &Screen) -> Result<(), SendError> {
        let mut is_first = true;
        let listed = sender.surplus(|entry| {
            if std::mem::take(&mut is_first) && !self.json {
                screen.warn("Only the receiver has:");
            }
            self.show(entry, screen);
        });
        let listed = listed.await?;
        self.found.surplus = listed.files.saturating_add(listed.directories);
        let may = self.found.surplus > 0 && !self.found.dry_run && (!self.asks || confirm(&listed).await);
        let (deleted, kept) = sender.delete(Some(&listed).filter(|_| may)).await?;
        self.found.deleted = deleted;
        self.found.kept =
            kept.into_iter().map(|(name, reason)| (name.to_string(), format!("not deleted: {reason}"))).collect();
        Ok(())
    }

    fn show(&self, entry: &Surplus, screen: &Screen) {
        if self.json {
            screen.print(&report::json_line(&json!({ "file": entry.name.text(), "surplus": true })));
        } else {
            screen.warn(&format!("  {}{}", entry.name, if entry.is_directory { "/" } else { "" }));
        }
    }
}

impl Found {
    /// Returns a further sentence about equal files, or nothing.
    pub(super) fn same(&self) -> String {
        match self.unchanged {
            0 => String::new(),
            files => format!(" {}", plural(files, "file is unchanged.", "files are unchanged.")),
        }
    }

    /// Returns a further sentence about entries that only the receiver has, or nothing.
    pub(super) fn only_there(&self) -> String {
        match (self.deleted, self.surplus) {
            (0, 0) => String::new(),
            (0, listed) if self.dry_run => format!(" {} would be deleted.", plural(listed, "entry", "entries")),
            (0, listed) => format!(" Nothing was deleted of {}.", plural(listed, "entry", "entries")),
            (deleted, _) => format!(" {} deleted.", plural(deleted, "entry", "entries")),
        }
    }
}

/// Asks whether the listed entries are to be deleted.
async fn confirm(listed: &Listed) -> bool {
    let all = [
        (listed.files, count(listed.files, "file")),
        (listed.directories, plural(listed.directories, "directory", "directories")),
    ];
    let all: Vec<_> = all.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
    if write!(io::stderr(), "Delete {} at the receiver (yes/no)? ", all.join(" and ")).is_err() {
        return false;
    }
    output::read_line().await.is_ok_and(|line| line == "yes")
}
