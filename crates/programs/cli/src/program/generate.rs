//! Shell completions and man pages.

use std::path::Path;

use anyhow::{Context, Result};
use clap_complete::Shell;

use super::{WrongUse, help};
use crate::output::print;

pub(super) fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut help::command(true), "longhaul", &mut text);
    print(&String::from_utf8(text).context("the completions are not text")?)
}

/// Prints the man page of a sub-command or of the program, or writes all pages into the directory `out`.
pub(super) fn man(command: Option<&str>, out: Option<&Path>) -> Result<()> {
    let mut program = help::command(true);
    if let Some(out) = out {
        return clap_mangen::generate_to(program, out).with_context(|| format!("cannot write into {}", out.display()));
    }
    program.build();
    let page = match command {
        None => program,
        Some(name) => {
            let found = program.find_subcommand(name).cloned();
            found.ok_or_else(|| WrongUse(format!("there is no sub-command {name:?}")))?
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text).context("cannot write the page")?;
    print(&String::from_utf8(text).context("the page is not text")?)
}
