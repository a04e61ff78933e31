use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use tempfile::TempDir;

use super::*;

fn file(directory: &Path, name: &str, size: u64) -> File {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(directory.join(name)).unwrap();
    file.set_len(size).unwrap();
    file
}

#[test]
fn values_are_kept_for_one_version_of_a_file_and_for_its_user_only() {
    let directory = TempDir::new().unwrap();
    let cache = directory.path().join("cache/longhaul");
    let small = file(directory.path(), "small", LEAST - 1);
    assert!(Place::of(&cache, &small).is_none());
    let big = file(directory.path(), "big", LEAST);
    let place = Place::of(&cache, &big).unwrap();
    assert!(place.open().is_err());
    place.create().unwrap().append(&[7; 32]).unwrap();
    assert_eq!(Place::of(&cache, &big).unwrap().open().unwrap().1, [[7; 32]]);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&cache), mode(&place.path)), (0o700, 0o600));
    // Only the time of the last change of attributes is another one.
    std::thread::sleep(Duration::from_millis(20));
    big.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    big.set_permissions(fs::Permissions::from_mode(0o644)).unwrap();
    assert!(Place::of(&cache, &big).unwrap().open().unwrap().1.is_empty());
    // A directory that cannot be written.
    let closed = directory.path().join("big/cache");
    assert!(Place::of(&closed, &big).unwrap().create().is_err());
}

#[test]
fn the_oldest_files_make_room() {
    let directory = TempDir::new().unwrap();
    let names = |left: &Path| {
        let mut names: Vec<_> = fs::read_dir(left).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    for (number, name) in (0..).zip(["c.groups", "a.groups", "b.groups", "other"]) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(number);
        file(directory.path(), name, 100).set_modified(time).unwrap();
    }
    make_room(directory.path(), 301, 4).unwrap();
    assert_eq!(names(directory.path()).len(), 4);
    make_room(directory.path(), 300, 4).unwrap();
    assert_eq!(names(directory.path()), ["a.groups", "b.groups", "other"]);
    make_room(directory.path(), 1000, 2).unwrap();
    assert_eq!(names(directory.path()), ["b.groups", "other"]);
    make_room(directory.path(), 0, 0).unwrap();
    assert_eq!(names(directory.path()), ["other"]);
}
