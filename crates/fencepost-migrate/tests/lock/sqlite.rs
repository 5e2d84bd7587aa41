//! C22: the lock beside a SQLite database, between values and between processes, also ones that are killed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::Kind;
use fencepost_migrate::SqliteMigrationLock;
use tokio::time::timeout;

use crate::database::SOON;
use crate::process::Other;

fn lock(database: &Path) -> SqliteMigrationLock {
    SqliteMigrationLock::new(database, "shop").unwrap()
}

/// C22 of C02, C04, C07, C08, C10
#[tokio::test]
async fn c22_values_of_one_process_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("shop.db");
    let (first, second) = (lock(&database), lock(&database));
    assert!(first.try_acquire().await.unwrap() && first.try_acquire().await.unwrap());
    assert!(!second.try_acquire().await.unwrap());
    assert!(!second.acquire_within(Duration::from_millis(50)).await.unwrap());
    assert!(SqliteMigrationLock::new(&database, "another").unwrap().try_acquire().await.unwrap());
    let holder = second.holder().unwrap().unwrap();
    assert_eq!(holder.pid, std::process::id());
    assert!(first.release().await.unwrap() && !first.release().await.unwrap());
    assert_eq!(second.holder().unwrap(), None);
    second.acquire().await.unwrap();
    assert!(second.is_held() && !first.is_held());
    drop(second);
    assert!(first.try_acquire().await.unwrap(), "a value that is dropped frees its lock");
}

/// C22 of C03, C05
#[tokio::test(flavor = "multi_thread")]
async fn c22_the_lock_of_a_process_that_is_killed_goes_to_who_waits() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("shop.db");
    let lock = Arc::new(lock(&database));
    for _ in 0..3 {
        let other = Other::that_holds(database.to_str().unwrap());
        assert!(!lock.try_acquire().await.unwrap());
        assert_eq!(lock.holder().unwrap().unwrap().pid, other.id());
        let waiter = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await }
        });
        let early = timeout(Duration::from_millis(100), async {
            while !waiter.is_finished() {
                tokio::task::yield_now().await
            }
        });
        assert!(early.await.is_err(), "it waits for as long as the other one lives"); // TIME: a wait that is too short shows in some runs
        drop(other);
        timeout(SOON, waiter).await.unwrap().unwrap().unwrap();
        assert_eq!(lock.holder().unwrap().unwrap().pid, std::process::id());
        assert!(lock.release().await.unwrap());
    }
}

/// C22 of C09
#[tokio::test]
async fn c22_a_wait_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("shop.db");
    let (first, second) = (lock(&database), lock(&database));
    first.acquire().await.unwrap();
    assert!(timeout(Duration::from_millis(60), second.acquire()).await.is_err());
    assert!(first.release().await.unwrap());
    assert!(!second.is_held() && first.try_acquire().await.unwrap());
}

/// A lock whose file was removed is another one's to take, so it is not held any more.
#[tokio::test]
async fn a_lock_whose_file_was_removed_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("shop.db");
    let (first, second) = (lock(&database), lock(&database));
    first.acquire().await.unwrap();
    std::fs::remove_file(first.path()).unwrap();
    assert!(!first.is_held());
    assert!(second.try_acquire().await.unwrap());
    assert!(!first.release().await.unwrap() && !first.try_acquire().await.unwrap());
    assert!(second.is_held());
}

#[cfg(unix)]
#[tokio::test]
async fn a_database_has_one_lock_by_whatever_name() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("shop.db");
    std::fs::write(&database, "").unwrap();
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&database, &link).unwrap();
    lock(&database).acquire().await.unwrap();
    assert_eq!(lock(&link).path(), lock(&database).path());
    for bad in [":memory:", "/"] {
        assert_eq!(SqliteMigrationLock::new(bad, "shop").unwrap_err().kind(), Kind::Unsupported);
    }
    assert_eq!(SqliteMigrationLock::new("/not/there/shop.db", "shop").unwrap_err().code(), "io_error");
}
