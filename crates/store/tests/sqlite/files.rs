//! The file: what it is, who may read it, who may open it, and which ones are refused untouched.

use crate::{beside, drive::*, open, refused};
use reveille_store::{SqliteStore, Store, StoreError};
use rusqlite::{Connection, OpenFlags};
use std::{fs, path::Path};

/// Refused, and afterwards as it was: not a byte changed, nothing of SQLite's left beside it.
fn refused_untouched(path: &Path) -> StoreError {
    let before = fs::read(path).unwrap();
    let error = refused(path);
    assert!(fs::read(path).unwrap() == before, "{error:?} and yet {} was changed", path.display());
    for suffix in ["-wal", "-shm", "-journal"] {
        assert!(!beside(path, suffix).exists(), "{suffix} was left behind");
    }
    // Refusing must not keep anything locked either.
    assert_eq!(refused(path).code(), error.code());
    error
}

fn not_ours(path: &Path) {
    let error = refused_untouched(path);
    assert!(matches!(&error, StoreError::NotOurs { path: named } if named == path), "{error:?}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn the_log_is_write_ahead_and_the_file_is_marked_as_ours() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let store = open(&path);
    run(&store, "a", wait("timer_1", "x", 600), at(0)).await;
    let reader = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let pragma = |name: &str| reader.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    let mode: String = reader.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    assert_eq!((pragma("application_id"), pragma("user_version")), (0x5256_4c45, 2));
    // Other programs may read while the store runs, and see what was answered.
    let count: i64 = reader.query_row("SELECT count(*) FROM items", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let mode = |suffix: &str| fs::metadata(beside(&path, suffix)).unwrap().permissions().mode() & 0o777;
    let store = open(&path);
    run(&store, "a", wait("timer_1", "秘密", 600), at(0)).await;
    for suffix in ["", "-wal", "-shm"] {
        assert_eq!(mode(suffix), 0o600, "reveille.db{suffix}");
    }
    store.close().await;
    drop(store);
    // Also one that somebody had opened up.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let store = open(&path);
    assert_eq!(mode(""), 0o600);
    store.close().await;
}

#[tokio::test]
async fn a_missing_directory_is_made_and_odd_names_are_just_names() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a/b/c", "空 格", "quote'\"", "percent%20?mode=ro&x#y", ":memory:"] {
        let path = directory.path().join(name).join("reveille.db");
        let store = open(&path);
        run(&store, "a", wait("timer_1", "x", 600), at(0)).await;
        store.close().await;
        assert!(fs::metadata(&path).unwrap().len() > 0, "{}", path.display());
        assert_eq!(found_ids(&open(&path), every_item()).await, ["timer_1"]);
    }
}

#[tokio::test]
async fn a_second_store_on_the_same_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    let store = open(&path);
    run(&store, "a", wait("timer_1", "x", 600), at(0)).await;
    let error = refused(&path);
    assert!(matches!(&error, StoreError::InUse { pid, .. } if *pid == Some(std::process::id())), "{error:?}");
    let words = error.to_string();
    assert!(words.contains(path.to_str().unwrap()), "{words}");
    assert!(words.contains(&format!("process {}", std::process::id())), "{words}");
    assert_eq!(SqliteStore::open(&path, Some("srv_other"), "").err().unwrap().code(), "storage_in_use");
    // The first one has not noticed.
    run(&store, "a", wait("timer_2", "x", 600), at(1)).await;
    store.close().await;
    assert_eq!(found_ids(&open(&path), every_item()).await, ["timer_2", "timer_1"]);
}

#[test]
fn a_file_that_is_no_database_is_refused_untouched() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    let noise: Vec<u8> = (0..20_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for content in
        [b"S".to_vec(), b"hello".to_vec(), "会议记录\n".repeat(3000).into_bytes(), noise, b"SQLite format 3\0".to_vec()]
    {
        fs::write(&path, content).unwrap();
        not_ours(&path);
    }
}

#[test]
fn another_programs_database_is_refused_untouched() {
    let directory = tempfile::tempdir().unwrap();
    for (name, sql) in [
        ("tables", "CREATE TABLE notes (text); INSERT INTO notes VALUES ('x')"),
        ("our_names", "CREATE TABLE items (seq); CREATE TABLE sessions (num)"),
        ("application", "PRAGMA application_id = 1196444487; CREATE TABLE notes (text)"),
        ("application_empty", "PRAGMA application_id = 1196444487"),
        ("version_only", "PRAGMA user_version = 7"),
        ("version_one", "PRAGMA user_version = 1; CREATE TABLE items (seq)"),
    ] {
        let path = directory.path().join(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        not_ours(&path);
    }
}

#[tokio::test]
async fn a_newer_format_is_refused_untouched() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("reveille.db"));
    run(&store, "a", wait("timer_1", "x", 600), at(0)).await;
    store.close().await;
    for mode in ["wal", "delete"] {
        // A copy, because the store's own readers are not gone yet.
        let path = directory.path().join(mode);
        fs::copy(directory.path().join("reveille.db"), &path).unwrap();
        let set_version = |version: i64| {
            let connection = Connection::open(&path).unwrap();
            connection
                .execute_batch(&format!("PRAGMA journal_mode = {mode}; PRAGMA user_version = {version}"))
                .unwrap();
        };
        set_version(99);
        let error = refused_untouched(&path);
        assert!(
            matches!(&error, StoreError::Newer { path: named, found: 99, known: 2 } if *named == path),
            "{error:?}"
        );
        set_version(2);
        assert_eq!(found_ids(&open(&path), every_item()).await, ["timer_1"], "nothing was lost by trying");
    }
}

/// Forms between two releases have the number of a released one, and would be taken for it.
#[tokio::test]
async fn a_form_that_was_never_released_is_refused_untouched() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("reveille.db"));
    run(&store, "a", wait("timer_1", "x", 600), at(0)).await;
    store.close().await;
    for (name, sql, said) in [
        (
            "early",
            "DROP TABLE hours; ALTER TABLE sessions DROP COLUMN agent",
            "no table hours, no column sessions.agent",
        ),
        ("first_with_more", "PRAGMA user_version = 1", "a column items.awaits, a column sessions.quiet"),
        ("second_with_less", "ALTER TABLE sessions DROP COLUMN quiet", "no column sessions.quiet"),
    ] {
        let path = directory.path().join(name);
        fs::copy(directory.path().join("reveille.db"), &path).unwrap();
        Connection::open(&path).unwrap().execute_batch(&format!("PRAGMA journal_mode = delete; {sql}")).unwrap();
        let error = refused_untouched(&path);
        assert_eq!(error.code(), "storage_unreleased");
        assert!(error.to_string().contains(said) && error.to_string().contains(path.to_str().unwrap()), "{error}");
        let inspected = reveille_store::sqlite::inspect(&path, std::time::Duration::from_secs(5));
        assert!(matches!(&inspected, Err(StoreError::Unreleased { .. })), "{inspected:?}");
    }
    // What somebody else keeps beside ours is theirs.
    let path = directory.path().join("beside");
    fs::copy(directory.path().join("reveille.db"), &path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE notes (text); ANALYZE").unwrap();
    assert_eq!(found_ids(&open(&path), every_item()).await, ["timer_1"]);
}

#[tokio::test]
async fn an_empty_file_is_a_new_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("reveille.db");
    fs::write(&path, b"").unwrap();
    let store = open(&path);
    run(&store, "a", wait("timer_1", "x", 600), at(0)).await;
    store.close().await;
    assert_eq!(found_ids(&open(&path), every_item()).await, ["timer_1"]);
}

/// By things in the way, since tests may run as root, whom no permission stops.
#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let unwritable = |path: &Path| {
        let error = refused(path);
        assert!(matches!(&error, StoreError::Unwritable(_)), "{}: {error:?}", path.display());
        error.to_string()
    };
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(unwritable(&file.join("reveille.db")).contains(file.to_str().unwrap()), "the parent is a file");

    let taken = directory.path().join("taken.db");
    fs::create_dir(&taken).unwrap();
    unwritable(&taken);

    let path = directory.path().join("reveille.db");
    let store = open(&path);
    run(&store, "a", wait("timer_1", "x", 600), at(0)).await;
    store.close().await;
    drop(store);
    let copy = directory.path().join("copy.db");
    fs::copy(&path, &copy).unwrap();
    fs::create_dir(beside(&copy, "-wal")).unwrap(); // its log has no place
    unwritable(&copy);
    fs::remove_dir(beside(&copy, "-wal")).unwrap();
    assert_eq!(found_ids(&open(&copy), every_item()).await, ["timer_1"], "nothing was lost by trying");
}
