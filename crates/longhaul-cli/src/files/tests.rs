use std::fs;

use super::*;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_appears_whole_or_not_at_all_and_nothing_else_stays() {
    let parent = TempDir::create().unwrap();
    let out = parent.path().join("made/by/us");
    let target = out.join("target");
    let staging = Staging::open(&out).unwrap();
    let mut file = staging.create().unwrap();
    file.write_all(b"half").unwrap();
    assert!(!target.exists());
    drop(file);

    let mut file = staging.create().unwrap();
    file.write_all(b"whole").unwrap();
    file.persist("target", false).unwrap();
    drop(staging);
    assert_eq!(names(&out), ["target"]);
    assert_eq!(fs::read(&target).unwrap(), b"whole");
}

#[test]
fn a_taken_name_is_kept_unless_told_otherwise() {
    let out = TempDir::create().unwrap();
    let target = out.path().join("target");
    fs::write(&target, "old").unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let error = staging.create().unwrap().persist("target", false).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&target).unwrap(), b"old");
    staging.create().unwrap().persist("target", true).unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"");
    drop(staging);
    assert_eq!(names(out.path()), ["target"]);
}

#[test]
fn a_taken_name_gets_a_number() {
    let out = TempDir::create().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let placed: Vec<_> = (0..3).map(|_| staging.create().unwrap().persist_beside("a.tar.gz").unwrap()).collect();
    assert_eq!(placed, ["a.tar.gz", "a.tar (1).gz", "a.tar (2).gz"]);
    drop(staging);
    assert_eq!(names(out.path()), ["a.tar (1).gz", "a.tar (2).gz", "a.tar.gz"]);
    assert_eq!(numbered(".bashrc", 1), ".bashrc (1)");
    assert_eq!(numbered("file", 12), "file (12)");
    for long in ["x".repeat(255), format!("{}.iso", "\u{e4}".repeat(125)), format!("x.{}", "y".repeat(253))] {
        let copy = numbered(&long, 10_000);
        assert!(copy.len() <= MAX_NAME && copy.contains(" (10000)"), "{copy}");
    }
    assert!(numbered(&format!("{}.iso", "\u{e4}".repeat(125)), 1).ends_with(" (1).iso"));
}

/// The names are unpredictable, and only the owner may write to the directory.
#[cfg(unix)]
#[test]
fn files_under_way_are_private_and_their_names_random() {
    use std::os::unix::fs::PermissionsExt;
    let out = TempDir::create().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let (one, two) = (staging.create().unwrap(), staging.create().unwrap());
    let random = |path: &Path| path.file_name().unwrap().to_str().unwrap().rsplit('-').next().unwrap().to_owned();
    assert_ne!(random(one.path()), random(two.path()));
    assert!(random(one.path()).len() >= 12 && random(one.path().parent().unwrap()).len() >= 12);
    let mode = one.path().parent().unwrap().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(one.path().parent().unwrap().parent().unwrap(), out.path());
}

/// Whoever may write to the target directory may rename its entries and put another file in place of one of them.
#[cfg(unix)]
#[test]
fn only_the_file_that_was_written_is_confirmed() {
    for overwrite in [false, true] {
        let out = TempDir::create().unwrap();
        let staging = Staging::open(out.path()).unwrap();
        let mut file = staging.create().unwrap();
        file.write_all(b"ours").unwrap();
        let (part, private) = (file.path().to_owned(), file.path().parent().unwrap().to_owned());
        fs::rename(&private, out.path().join("elsewhere")).unwrap();
        fs::create_dir(&private).unwrap();
        fs::write(&part, "theirs").unwrap();
        file.persist("target", overwrite).unwrap();
        assert_eq!(fs::read(out.path().join("target")).unwrap(), b"ours");

        // In the private directory only the owner can do that; the check would notice it there too.
        let staging = Staging::open(out.path()).unwrap();
        let mut file = staging.create().unwrap();
        file.write_all(b"ours").unwrap();
        fs::remove_file(file.path()).unwrap();
        fs::write(file.path(), "theirs").unwrap();
        let error = file.persist("other", overwrite).unwrap_err();
        assert_eq!(error.to_string(), "another file was put in its place");
    }
}

#[cfg(unix)]
#[test]
fn what_a_killed_process_left_is_removed_and_nothing_else() {
    let out = TempDir::create().unwrap();
    let make = |directory: &str, file: &str| {
        fs::create_dir_all(out.path().join(directory)).unwrap();
        fs::write(out.path().join(directory).join(file), "x").unwrap();
    };
    make(".longhaul-incoming-dead", "part-abc");
    make(".longhaul-incoming-mine", "letter");
    make(".longhaul-config", "part-x");
    make("dir", "part-x");
    let living = Staging::open(out.path()).unwrap();
    let under_way = living.create().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    assert!(under_way.path().exists());
    drop((staging, under_way, living));
    assert_eq!(names(out.path()), [".longhaul-config", ".longhaul-incoming-mine", "dir"]);
    assert_eq!(names(&out.path().join(".longhaul-incoming-mine")), ["letter"]);
}

#[cfg(unix)]
#[test]
fn paths_at_which_no_file_can_be_created_are_known_before() {
    let out = TempDir::create().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    fs::create_dir(out.path().join("sub")).unwrap();
    fs::write(out.path().join("file"), "x").unwrap();
    std::os::unix::fs::symlink("sub", out.path().join("link")).unwrap();
    for (path, exists) in [("file", true), ("link", true), ("sub", true), ("sub/new", false), ("a/b/c", false)] {
        assert_eq!(staging.check(path).unwrap(), exists, "{path}");
    }
    let long = "x".repeat(256);
    for (path, kind) in [
        ("file/below", io::ErrorKind::NotADirectory),
        ("link/below", io::ErrorKind::NotADirectory),
        (long.as_str(), io::ErrorKind::InvalidFilename),
        (&format!("a/{long}"), io::ErrorKind::InvalidFilename),
        (&format!("a/{long}/b"), io::ErrorKind::InvalidFilename),
    ] {
        assert_eq!(staging.check(path).unwrap_err().kind(), kind, "{path}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn reserved_space_is_not_part_of_the_file() {
    use std::os::unix::fs::MetadataExt;
    let out = TempDir::create().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let mut file = staging.create().unwrap();
    file.reserve(0, 4 << 20).unwrap();
    let metadata = file.path().metadata().unwrap();
    assert_eq!(metadata.len(), 0);
    if metadata.blocks() == 0 {
        eprintln!("this file system reserves no space");
    }
    let error = file.reserve(0, u64::MAX >> 2).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    file.write_all(b"contents").unwrap();
    file.persist("file", false).unwrap();
    assert_eq!(fs::read(out.path().join("file")).unwrap(), b"contents");
}
