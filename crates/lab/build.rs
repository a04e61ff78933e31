//! Passes the commit and the compiler of the build to the program.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let target = env::var("TARGET").unwrap_or_default();
    let compiler = output(&env::var("RUSTC").unwrap_or_else(|_| "rustc".into()), &["--version"]).unwrap_or_default();
    println!("cargo:rustc-env=LONGHAUL_LAB_TARGET={target}");
    println!("cargo:rustc-env=LONGHAUL_LAB_COMPILER={compiler}");

    let (mut commit, mut is_modified) = (String::new(), false);
    let git = |arguments: &[&str]| output("git", &[&["-C", &here], arguments].concat());
    // A copy of the package may be in a directory of another repository.
    let top = git(&["rev-parse", "--show-toplevel"]).unwrap_or_default();
    let is_own = fs::canonicalize(Path::new(&top).join("crates/lab")).ok() == fs::canonicalize(&here).ok();
    if is_own && !top.is_empty() {
        commit = git(&["rev-parse", "HEAD"]).unwrap_or_default();
        is_modified = git(&["status", "--porcelain", "--", ":/crates", ":/Cargo.toml", ":/Cargo.lock"])
            .is_none_or(|changes| !changes.is_empty());
        for path in ["crates", "Cargo.toml", "Cargo.lock"] {
            println!("cargo:rerun-if-changed={top}/{path}");
        }
        if let Some(git) = git(&["rev-parse", "--absolute-git-dir"]) {
            println!("cargo:rerun-if-changed={git}/HEAD");
            println!("cargo:rerun-if-changed={git}/index");
        }
    } else {
        println!("cargo:rerun-if-changed=build.rs");
    }
    println!("cargo:rustc-env=LONGHAUL_LAB_COMMIT={commit}");
    println!("cargo:rustc-env=LONGHAUL_LAB_MODIFIED={is_modified}");
}

/// Returns what a program prints, without the line end, or `None` if it fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
