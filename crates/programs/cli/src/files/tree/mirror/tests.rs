use std::fs;

use tempfile::TempDir;

use super::*;
use crate::mirror::Writer;
use crate::protocol::{self, Target};

fn header(kind: Kind, name: &str, size: u64) -> Vec<u8> {
    let (name, modified) = (name.into(), Timestamp::default());
    let (mode, keeps, asks, data, target) = (0, false, false, None, Target::Any);
    protocol::encode_header(&FileHeader { kind, name, size: Some(size), modified, mode, keeps, asks, data, target })
        .unwrap()
}

fn file(name: &str, size: u64) -> Vec<u8> {
    header(Kind::File, name, size)
}

fn directory(name: &str) -> Vec<u8> {
    header(Kind::Directory, name, 0)
}

fn states(comparison: &mut Comparison, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = Writer::default();
    entries.iter().for_each(|entry| assert!(writer.push(entry).is_none()));
    let (frame, count) = writer.take();
    let answer = comparison.frame(&frame, &Stop::default()).unwrap();
    mirror::states(&answer, count).unwrap().into_iter().map(|(state, _)| state as u8).collect()
}

fn names(list: &mut SurplusList) -> Vec<String> {
    list.begin().unwrap();
    let (mut names, mut all) = (Vec::new(), Vec::new());
    loop {
        match list.next().unwrap() {
            frame if frame.is_empty() => break,
            frame => all.extend(frame),
        }
    }
    let mut rest = &*all;
    while let Some(entry) = Surplus::take(&mut rest) {
        names.push(entry.name.to_string());
    }
    names
}

fn scene(files: &[&str]) -> (TempDir, Arc<Staging>) {
    let out = TempDir::new().unwrap();
    for name in files {
        fs::create_dir_all(out.path().join(name).parent().unwrap()).unwrap();
        fs::write(out.path().join(name), name).unwrap();
    }
    let staging = Staging::open(out.path()).unwrap();
    (out, staging)
}

const SURPLUS: Request = Request { surplus: true, checksum: false };

/// A second name of the same file, which is not in the list of names, is what a file system that ignores case shows.
#[test]
fn spellings_of_one_name_are_known() {
    for listed_first in [true, false] {
        let (out, staging) = scene(&["d/A", "d/B", "d/other"]);
        let mut comparison = Comparison::new(&staging, SURPLUS, false);
        comparison.descend(b"d");
        fs::hard_link(out.path().join("d/A"), out.path().join("d/a")).unwrap();
        let mut spellings = [file("d/A", 3), file("d/a", 3)];
        if !listed_first {
            spellings.reverse();
        }
        let states = states(&mut comparison, &spellings);
        assert_eq!(states, [State::Changed as u8, State::Clash as u8]);
        assert_eq!(self::states(&mut comparison, &[directory("d")]), [State::Changed as u8]);
        assert_eq!(names(&mut comparison.finish()), ["d/B", "d/other"]);
    }
    // The file under another spelling is not deleted.
    let (out, staging) = scene(&["d/A", "d/B"]);
    let mut comparison = Comparison::new(&staging, SURPLUS, false);
    comparison.descend(b"d");
    fs::hard_link(out.path().join("d/A"), out.path().join("d/a")).unwrap();
    assert_eq!(states(&mut comparison, &[file("d/a", 3), directory("d")]).len(), 2);
    assert_eq!(names(&mut comparison.finish()), ["d/B"]);
}

/// A file that is not in the list of names and has an inode of its own is what a file system shows that ignores case and
/// numbers paths.
#[test]
fn nothing_is_surplus_where_spellings_have_other_inodes() {
    let (out, staging) = scene(&["d/A", "d/B", "e/x"]);
    let mut comparison = Comparison::new(&staging, SURPLUS, false);
    comparison.descend(b"d");
    fs::write(out.path().join("d/a"), "d/A").unwrap();
    states(&mut comparison, &[file("d/a", 3), directory("d"), directory("e")]);
    assert_eq!(names(&mut comparison.finish()), ["e/x"]);
}

/// Directories with two spellings, of which the file system shows one. Each has the other's files.
#[test]
fn nothing_is_surplus_in_directories_that_are_one() {
    for (below, surplus) in [(&["d/A/x", "d/a/y"][..], &[][..]), (&["d/A/x"], &["d/A/y"])] {
        let (out, staging) = scene(&["d/A/x", "d/A/y"]);
        let mut comparison = Comparison::new(&staging, SURPLUS, false);
        comparison.descend(b"d");
        if below.len() > 1 {
            // Another directory with an inode of its own, as above.
            fs::create_dir(out.path().join("d/a")).unwrap();
            fs::write(out.path().join("d/a/y"), "y").unwrap();
        }
        for name in below {
            states(&mut comparison, &[file(name, 5), directory(name.rsplit_once('/').unwrap().0)]);
        }
        states(&mut comparison, &[directory("d")]);
        assert_eq!(names(&mut comparison.finish()), surplus);
    }
}

#[test]
fn senders_learn_nothing_about_names_that_are_not_accepted() {
    for (hidden, surplus, state) in [(false, &[][..], State::New), (true, &[".h/sub/x", ".h/sub"], State::Same)] {
        let (out, staging) = scene(&[".h/y", ".h/sub/x"]);
        let mut comparison = Comparison::new(&staging, SURPLUS, hidden);
        let time = rustix::fs::stat(out.path().join(".h/y")).unwrap();
        let mut y = file(".h/y", 4);
        y[10..22].copy_from_slice(&stamp(&time)[8..]);
        assert_eq!(states(&mut comparison, &[y, directory(".h")])[0], state as u8);
        assert_eq!(names(&mut comparison.finish()), surplus);
    }
}

/// A sender that does not close a directory may have more entries of it.
#[test]
fn directories_that_are_not_closed_have_no_surplus() {
    let (_out, staging) = scene(&["d/e/x", "d/f/y", "d/z"]);
    let mut comparison = Comparison::new(&staging, SURPLUS, false);
    assert_eq!(states(&mut comparison, &[file("d/e/new", 1), file("d/f/y", 5), directory("d/f")]), [1, 2, 2]);
    assert!(names(&mut comparison.finish()).is_empty());
    // Nor have those above.
    let mut comparison = Comparison::new(&staging, SURPLUS, false);
    states(&mut comparison, &[file("d/e/new", 1), directory("d/e")]);
    assert_eq!(names(&mut comparison.finish()), ["d/e/x"]);
}

#[test]
fn what_has_changed_since_the_list_stays() {
    let (out, staging) = scene(&["d/a", "d/b", "d/e/c", "d/keep"]);
    let mut comparison = Comparison::new(&staging, SURPLUS, false);
    states(&mut comparison, &[file("d/keep", 6), directory("d")]);
    let mut list = comparison.finish();
    assert_eq!(names(&mut list), ["d/a", "d/b", "d/e/c", "d/e"]);
    fs::remove_file(out.path().join("d/a")).unwrap();
    fs::write(out.path().join("d/new"), "").unwrap();
    fs::rename(out.path().join("d/new"), out.path().join("d/a")).unwrap();
    fs::write(out.path().join("d/e/later"), "").unwrap();
    let mut failed = Vec::new();
    let deleted = list.delete(&staging, &Stop::default(), |entry, _| failed.push(entry.name.to_string())).unwrap();
    assert_eq!((deleted, failed), (2, vec!["d/a".to_owned(), "d/e".to_owned()]));
    let there = |name: &str| out.path().join(name).exists();
    assert!(there("d/a") && there("d/e/later") && there("d/keep") && !there("d/b") && !there("d/e/c"));
    // A directory that has become a link leads nowhere.
    let (out, staging) = scene(&["d/e/x", "d/keep", "target/x"]);
    let mut comparison = Comparison::new(&staging, SURPLUS, false);
    states(&mut comparison, &[directory("d")]);
    let mut list = comparison.finish();
    assert_eq!(names(&mut list), ["d/e/x", "d/e", "d/keep"]);
    fs::rename(out.path().join("d/e"), out.path().join("moved")).unwrap();
    std::os::unix::fs::symlink("../target", out.path().join("d/e")).unwrap();
    list.delete(&staging, &Stop::default(), |_, _| {}).unwrap();
    assert!(out.path().join("target/x").exists() && out.path().join("moved/x").exists());
}

/// A list that is too long for the memory comes back from its file.
#[test]
fn long_lists_are_stored() {
    let (out, staging) = scene(&[]);
    fs::create_dir(out.path().join("d")).unwrap();
    let count = 20_000;
    (0..count).for_each(|i| fs::write(out.path().join(format!("d/{i:06}{}", "x".repeat(60))), "").unwrap());
    let mut comparison = Comparison::new(&staging, SURPLUS, false);
    states(&mut comparison, &[directory("d")]);
    let mut list = comparison.finish();
    assert_eq!(names(&mut list).len(), count);
    assert!(list.spool.is_rolled());
    let deleted = list.delete(&staging, &Stop::default(), |_, _| {}).unwrap();
    assert_eq!((deleted, fs::read_dir(out.path().join("d")).unwrap().count()), (count as u64, 0));
}
