use std::fs;

use tempfile::TempDir;

use super::*;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_appears_whole_or_not_at_all_and_nothing_else_stays() {
    let parent = TempDir::new().unwrap();
    let out = parent.path().join("made/by/us");
    let target = out.join("target");
    let staging = Staging::open(&out).unwrap();
    let mut file = staging.create().unwrap();
    file.write_all(b"half").unwrap();
    assert!(!target.exists());
    drop(file);

    let mut file = staging.create().unwrap();
    file.write_all(b"whole").unwrap();
    file.persist(&"target".into(), false, &Owner::default(), &mut Latest::default()).unwrap();
    drop(staging);
    assert_eq!(names(&out), ["target"]);
    assert_eq!(fs::read(&target).unwrap(), b"whole");
}

#[test]
fn a_taken_name_is_kept_unless_told_otherwise() {
    let out = TempDir::new().unwrap();
    let target = out.path().join("target");
    fs::write(&target, "old").unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let error = staging
        .create()
        .unwrap()
        .persist(&"target".into(), false, &Owner::default(), &mut Latest::default())
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&target).unwrap(), b"old");
    staging.create().unwrap().persist(&"target".into(), true, &Owner::default(), &mut Latest::default()).unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"");
    drop(staging);
    assert_eq!(names(out.path()), ["target"]);
}

#[test]
fn a_taken_name_gets_a_number() {
    let out = TempDir::new().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let placed: Vec<_> = (0..3)
        .map(|_| {
            staging
                .create()
                .unwrap()
                .persist_beside(&"a.tar.gz".into(), &Owner::default(), &mut Latest::default())
                .unwrap()
                .text()
        })
        .collect();
    assert_eq!(placed, ["a.tar.gz", "a.tar (1).gz", "a.tar (2).gz"]);
    drop(staging);
    assert_eq!(names(out.path()), ["a.tar (1).gz", "a.tar (2).gz", "a.tar.gz"]);
    assert_eq!(numbered(&".bashrc".into(), 1), ".bashrc (1)".into());
    assert_eq!(numbered(&"a.b/file".into(), 12), "a.b/file (12)".into());
    for long in ["x".repeat(255), format!("{}.iso", "\u{e4}".repeat(125)), format!("x.{}", "y".repeat(253))] {
        let copy = numbered(&long.as_str().into(), 10_000).text();
        assert!(copy.len() <= MAX_NAME && copy.contains(" (10000)"), "{copy}");
    }
    let long = format!("{}.iso", "\u{e4}".repeat(125));
    let copy = numbered(&long.as_str().into(), 1).text();
    assert!(copy.ends_with("\u{e4} (1).iso"), "{copy}");
}

/// The names are unpredictable, and only the owner may write to the directory.
#[test]
fn files_under_way_are_private_and_their_names_random() {
    use std::os::unix::fs::PermissionsExt;
    let out = TempDir::new().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let (one, two) = (staging.create().unwrap(), staging.create().unwrap());
    let random = |path: &Path| path.file_name().unwrap().to_str().unwrap().rsplit('-').next().unwrap().to_owned();
    assert_ne!(random(one.path()), random(two.path()));
    assert!(random(one.path()).len() >= 12 && random(one.path().parent().unwrap()).len() >= 12);
    let mode = one.path().parent().unwrap().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(one.path().parent().unwrap().parent().unwrap(), out.path());
}

/// Anybody with write access to the target directory may rename its entries and put another file in place of one of
/// them.
#[test]
fn only_the_file_that_was_written_is_confirmed() {
    for overwrite in [false, true] {
        let out = TempDir::new().unwrap();
        let staging = Staging::open(out.path()).unwrap();
        let mut file = staging.create().unwrap();
        file.write_all(b"ours").unwrap();
        let (part, private) = (file.path().to_owned(), file.path().parent().unwrap().to_owned());
        fs::rename(&private, out.path().join("elsewhere")).unwrap();
        fs::create_dir(&private).unwrap();
        fs::write(&part, "theirs").unwrap();
        file.persist(&"target".into(), overwrite, &Owner::default(), &mut Latest::default()).unwrap();
        assert_eq!(fs::read(out.path().join("target")).unwrap(), b"ours");

        // In the private directory only the owner can replace a file; the check would notice that, too.
        let staging = Staging::open(out.path()).unwrap();
        let mut file = staging.create().unwrap();
        file.write_all(b"ours").unwrap();
        fs::remove_file(file.path()).unwrap();
        fs::write(file.path(), "theirs").unwrap();
        let error = file.persist(&"other".into(), overwrite, &Owner::default(), &mut Latest::default()).unwrap_err();
        assert_eq!(error.to_string(), "another file was put in its place");
    }
}

#[test]
fn what_a_killed_process_left_is_removed_and_nothing_else() {
    let out = TempDir::new().unwrap();
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

#[test]
fn paths_at_which_no_file_can_be_created_are_known_before() {
    let out = TempDir::new().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    fs::create_dir(out.path().join("sub")).unwrap();
    fs::write(out.path().join("file"), "x").unwrap();
    std::os::unix::fs::symlink("sub", out.path().join("link")).unwrap();
    for (path, exists) in [("file", true), ("link", true), ("sub", true), ("sub/new", false), ("a/b/c", false)] {
        assert_eq!(staging.exists(&path.into(), &mut Latest::default()).unwrap(), exists, "{path}");
        staging.check(&path.into()).unwrap();
    }
    let long = "x".repeat(256);
    for (path, kind) in [
        ("file/below", io::ErrorKind::NotADirectory),
        ("link/below", io::ErrorKind::NotADirectory),
        (long.as_str(), io::ErrorKind::InvalidFilename),
        (&format!("a/{long}"), io::ErrorKind::InvalidFilename),
        (&format!("a/{long}/b"), io::ErrorKind::InvalidFilename),
    ] {
        assert_eq!(staging.check(&path.into()).unwrap_err().kind(), kind, "{path}");
    }
}

/// A directory gets attributes only if it was created for the same sender, and only once.
#[test]
fn directories_that_were_there_keep_their_attributes() {
    use std::os::unix::fs::PermissionsExt;
    let out = TempDir::new().unwrap();
    fs::create_dir(out.path().join("theirs")).unwrap();
    fs::set_permissions(out.path().join("theirs"), fs::Permissions::from_mode(0o700)).unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let mode = |path: &str| out.path().join(path).metadata().unwrap().permissions().mode() & 0o777;
    let set = |path: &str, mode, overwrite| {
        let attributes = Attributes { mode, modified: Timestamp::default() };
        staging.directory(&path.into(), Some(attributes), overwrite, &Owner::default()).unwrap();
    };
    set("theirs", 0o777, false);
    assert_eq!(mode("theirs"), 0o700);
    set("ours/below", 0o777, false);
    assert_eq!(mode("ours/below"), 0o777 & !staging.umask);
    set("ours", 0o750, false);
    assert_eq!(mode("ours"), 0o750 & !staging.umask);
    set("ours", 0o700, false);
    assert_eq!(mode("ours"), 0o750 & !staging.umask);
    set("theirs", 0o705, true);
    assert_eq!(mode("theirs"), 0o705 & !staging.umask);
}

#[cfg(target_os = "linux")]
#[test]
fn zeros_of_a_file_with_holes_become_holes() {
    use std::os::unix::fs::MetadataExt;
    let out = TempDir::new().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let mut contents = vec![0; 1_000_003];
    contents[300_000..300_100].fill(7);
    contents.extend(vec![0; 50_000]);
    for (sparse, most) in [(true, 16), (false, 4096)] {
        let mut file = staging.create().unwrap();
        file.reserve(0, contents.len() as u64, sparse.then_some(1)).unwrap();
        file.keep_holes(sparse);
        for part in contents.chunks(70_001) {
            file.write_all(part).unwrap();
            assert_eq!(file.path().metadata().unwrap().len(), file.file.as_file_mut().stream_position().unwrap());
        }
        file.persist(&"file".into(), true, &Owner::default(), &mut Latest::default()).unwrap();
        assert!(fs::read(out.path().join("file")).unwrap() == contents);
        let blocks = out.path().join("file").metadata().unwrap().blocks();
        assert!(blocks <= most, "{blocks} blocks of 512 bytes");
    }
    // 2^62 bytes are more than any disk has.
    let mut file = staging.create().unwrap();
    file.reserve(0, 1 << 62, Some(1 << 20)).unwrap();
    assert!(file.reserve(0, 1 << 62, Some(1 << 60)).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn reserved_space_is_not_part_of_the_file() {
    use std::os::unix::fs::MetadataExt;
    let out = TempDir::new().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let mut file = staging.create().unwrap();
    file.reserve(0, 4 << 20, None).unwrap();
    let metadata = file.path().metadata().unwrap();
    assert_eq!(metadata.len(), 0);
    if metadata.blocks() == 0 {
        eprintln!("this file system reserves no space");
    }
    let error = file.reserve(0, u64::MAX >> 2, None).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    file.write_all(b"contents").unwrap();
    file.persist(&"file".into(), false, &Owner::default(), &mut Latest::default()).unwrap();
    assert_eq!(fs::read(out.path().join("file")).unwrap(), b"contents");
}

/// If a symbolic link would exceed the limits of its owner, the entry that it would replace stays.
#[test]
fn a_link_beyond_the_limits_replaces_nothing() {
    let out = TempDir::new().unwrap();
    fs::write(out.path().join("x"), "old").unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let owner = crate::receiver::Budget::new(Some(0)).owner(None);
    let error = staging.link(&"x".into(), &"target".into(), true, &owner).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
    assert_eq!(fs::read(out.path().join("x")).unwrap(), b"old");
}

/// A batch of files goes on in a directory that is moved meanwhile, and the next batch does not.
#[test]
fn the_latest_directory_serves_only_files_in_it() {
    let out = TempDir::new().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let place = |path: &str, latest: &mut Latest| {
        assert!(!staging.prepare(&path.into(), latest).unwrap());
        staging.create().unwrap().persist(&path.into(), false, &Owner::default(), latest).unwrap();
    };
    let mut latest = Latest::default();
    for path in ["a/x", "a/y", "b", "a/b/x", "ab/x", "a/z"] {
        place(path, &mut latest);
        assert!(out.path().join(path).exists(), "{path}");
        assert!(staging.prepare(&path.into(), &mut latest).unwrap(), "{path}");
    }
    fs::rename(out.path().join("a"), out.path().join("moved")).unwrap();
    place("a/1", &mut latest);
    place("a/2", &mut Latest::default());
    assert_eq!(names(&out.path().join("moved")), ["1", "b", "x", "y", "z"]);
    assert_eq!(names(&out.path().join("a")), ["2"]);
}

/// File systems without such files have nothing to show.
#[test]
fn a_file_without_a_name_gets_its_final_one_at_once() {
    let out = TempDir::new().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let attributes = Attributes { mode: 0o4741, modified: Timestamp { seconds: 1_000_000_000, nanos: 0 } };
    let create = |path: &str, contents: &str| {
        let latest = &mut Latest::default();
        staging.create_at_once(&path.into(), contents.as_bytes(), Some(attributes), &Owner::default(), latest)
    };
    let Some(kept) = create("new/x", "contents").unwrap() else { return };
    kept.unwrap();
    let placed = out.path().join("new/x");
    assert_eq!(fs::read(&placed).unwrap(), b"contents");
    let metadata = placed.metadata().unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o741 & !staging.umask);
    assert_eq!(metadata.modified().unwrap(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    std::os::unix::fs::symlink("nowhere", out.path().join("new/link")).unwrap();
    for taken in ["new/x", "new/link"] {
        assert_eq!(create(taken, "other").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
    // A directory that cannot be created is the same error as for other files.
    assert!(create("new/x/y", "other").is_err());
    assert_eq!(fs::read(&placed).unwrap(), b"contents");
    drop(staging);
    assert_eq!(names(out.path()), ["new"]);
}

/// On file systems that cannot rename without replacing.
#[test]
fn a_link_does_not_replace_either() {
    let out = TempDir::new().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let file = staging.create().unwrap();
    let part = file.path().file_name().unwrap().to_owned();
    let target = File::open(out.path()).unwrap();
    assert!(!staging.link_part(&part, &target, b"x").unwrap());
    let error = staging.link_part(&part, &target, b"x").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
}
