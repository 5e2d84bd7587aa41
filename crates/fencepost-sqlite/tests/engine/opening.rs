//! Opening: what is a store, what becomes one, and what is refused and left as it was, byte for byte.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use fencepost_core::{
    AcquireLease, Acquired, BatchSize, ClaimSlot, Error, HolderName, Kind, LeaseName, Leases, Queues, Release, Renewal,
    SlotToken, Slots, Store, WorkerName,
};
use fencepost_sqlite::rusqlite::{Connection, TransactionBehavior};
use fencepost_sqlite::{SqliteOptions, SqliteStore};
use sha2::{Digest, Sha256};

use crate::place::{
    Place, billing, bytes, claim, copy, index, orders, refused, rows, run, stage, status, text, texts, ttl,
};
use crate::puppet::{Puppet, await_word, play, say};

async fn failure(file: &Path, create: bool) -> Error {
    let opened = SqliteStore::open(file, SqliteOptions::default().create(create)).await;
    let error = opened.expect_err("it is no store");
    assert_eq!(error.operation(), Some("open"), "{error:?}");
    assert!(error.hint().is_some(), "{error:?}");
    error
}

/// Opening `file` fails so, with and without `create`, and leaves its bytes alone.
async fn fails(file: &Path, kind: Kind, code: &str) {
    let before = bytes(file);
    for create in [false, true] {
        let error = failure(file, create).await;
        assert_eq!((error.kind(), error.code()), (kind, code), "{error:?}");
    }
    assert!(bytes(file) == before, "`{}` was changed", file.display());
}

/// A part: waits for the word and makes the store.
fn open_at_once(file: &Path) {
    say("ready");
    await_word();
    run(async {
        let store = SqliteStore::open(file, SqliteOptions::default().create(true)).await.unwrap();
        stage(&store).await;
        store.send(&orders(), text("from a process")).await.unwrap();
        store.close().await;
    });
    say("done");
}

/// B28: threads and processes.
#[test]
fn forty_first_opens_at_once_all_succeed() {
    play(open_at_once);
    let place = Place::new();
    let mut processes: Vec<Puppet> =
        (0..4).map(|_| Puppet::start(forty_first_opens_at_once_all_succeed, &place.file())).collect();
    processes.iter().for_each(|process| assert_eq!(process.hear(), "ready"));
    processes.iter_mut().for_each(Puppet::tell);
    run(async {
        let opening: Vec<_> = (0..36)
            .map(|_| {
                let file = place.file();
                tokio::spawn(async move {
                    let store = SqliteStore::open(file, SqliteOptions::default().create(true)).await?;
                    stage(&store).await;
                    store.send(&orders(), text("from a thread")).await?;
                    Ok::<_, Error>(store)
                })
            })
            .collect();
        let mut stores = Vec::new();
        for opened in opening {
            stores.push(opened.await.unwrap().unwrap());
        }
        for process in processes {
            assert_eq!(process.hear(), "done");
            process.end();
        }
        assert_eq!(texts(&stores[0]).await.len(), 40);
        let count = |table: &str| -> i64 {
            place.connect().query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
        };
        let migrations = i64::from(stores[0].info().schema_version);
        assert_eq!(
            (count("fencepost_installation"), count("fencepost_store")),
            (migrations, 1),
            "a row a migration, one store"
        );
    });
}

#[test]
fn opening_a_current_schema_writes_nothing() {
    run(async {
        let place = Place::new();
        place.stage().await.close().await;
        let witness = place.connect();
        let version = || -> i64 { witness.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap() };
        let (seen, before) = (version(), bytes(&place.file()));
        for create in [false, true] {
            let store = SqliteStore::open(place.file(), place.options().create(create)).await.unwrap();
            assert_eq!(store.queue_status().await.unwrap().len(), 1);
            store.close().await;
        }
        assert_eq!(version(), seen);
        assert!(bytes(&place.file()) == before);
    });
}

/// B28: opening waits for nobody who writes, and keeps nobody from writing.
#[test]
fn opening_needs_no_write_lock() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let mut own = place.connect();
        let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        store.join(&tx).unwrap().send_in(&orders(), text("long")).unwrap();
        let bound = place.options().busy_timeout(Duration::ZERO);
        let second = place.open_with(bound).await;
        tx.commit().unwrap();
        assert_eq!(texts(&second).await, ["long"]);
    });
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    run(async {
        let place = Place::new();
        place.stage().await.close().await;
        let later = "CREATE TEMP TABLE later AS SELECT * FROM fencepost_installation WHERE number = 1;
            UPDATE later SET number = 99; INSERT INTO fencepost_installation SELECT * FROM later";
        place.connect().execute_batch(later).unwrap();
        fails(&place.file(), Kind::Schema, "schema_newer").await;
        assert_eq!(failure(&place.file(), true).await.fact("version"), Some("99"));
    });
}

/// Every migration that a program from before the ledger has installed.
const MIGRATIONS: [&str; 5] = [
    include_str!("../../sql/migrations/0001_initial.sql"),
    include_str!("../../sql/migrations/0002_operators.sql"),
    include_str!("../../sql/migrations/0003_failures.sql"),
    include_str!("../../sql/migrations/0004_notice.sql"),
    include_str!("../../sql/migrations/0005_schedules.sql"),
];

/// Puts a store of an older version into the place of a current one: the same file, so that its identity stays.
fn make_older(place: &Place, version: usize) {
    let file = place.connect();
    let identity: (String, i64, i64) = file
        .query_row("SELECT incarnation, device, inode FROM fencepost_store", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    file.pragma_update(None, "foreign_keys", false).unwrap();
    let mut tables =
        file.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'fencepost%'").unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    tables.iter().for_each(|table| file.execute_batch(&format!("DROP TABLE {table}")).unwrap());
    for (index, sql) in MIGRATIONS.iter().enumerate().take(version) {
        file.execute_batch(sql).unwrap();
        let checksum: String = Sha256::digest(sql).iter().map(|byte| format!("{byte:02x}")).collect();
        file.execute("INSERT INTO fencepost_schema VALUES (?1, 'then', ?2, 0)", (index + 1, checksum)).unwrap();
    }
    let (incarnation, device, inode) = identity;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as i64;
    file.execute(
        "INSERT INTO fencepost_store VALUES (1, ?1, ?2, ?3, ?4, 3, ?4, 0, 0)",
        (incarnation, device, inode, now),
    )
    .unwrap();
    // A queue of two messages, the first of which is in an open batch of a live owner.
    let insert = format!(
        "INSERT INTO fencepost_queue (id, name, partitions) VALUES (1, 'orders', 1);
         INSERT INTO fencepost_consumer (id, queue_id, name, slots) VALUES (1, 1, 'billing', 1);
         INSERT INTO fencepost_message (position, queue_id, partition, kind, payload, created_at)
         VALUES (2, 1, 0, 'default', CAST('first' AS BLOB), {now}), (3, 1, 0, 'default', CAST('second' AS BLOB), {now});
         INSERT INTO fencepost_slot (consumer_id, slot, cursor, epoch, worker, ttl, expires_at, batch, batch_through,
                                     batch_size, deliveries, crashes)
         VALUES (1, 0, 0, {now}, 'w1', 60000000, {now} + 60000000, 1, 2, 1, 1, 0);"
    );
    file.execute_batch(&insert).unwrap();
    if version >= 3 {
        // What the third one makes of a batch that was open before it.
        file.execute_batch("UPDATE fencepost_slot SET plain = 1, alone = 0").unwrap();
    }
}

/// A store of every earlier version is upgraded with its data: owners go on where they were.
#[test]
fn an_older_store_is_upgraded_with_its_data_only_when_asked() {
    run(async {
        for version in 1..=MIGRATIONS.len() {
            let place = Place::new();
            place.stage().await.close().await;
            make_older(&place, version);

            let before = bytes(&place.file());
            let error = failure(&place.file(), false).await;
            let found = version.to_string();
            assert_eq!((error.kind(), error.code()), (Kind::Schema, "schema_older"));
            assert_eq!(error.fact("version"), Some(found.as_str()));
            assert!(bytes(&place.file()) == before);

            let store = place.open().await;
            let status = store.slot_status(None).await.unwrap().remove(0);
            let token = SlotToken { path: status.path, slot: status.slot, epoch: status.state.epoch.unwrap() };
            let mut received = Vec::new();
            for batch in [1, 2] {
                let Some(open) = store.receive(&token, BatchSize::ONE).await.unwrap() else { break };
                assert_eq!((open.id.get(), open.messages.len()), (batch, 1), "version {version}: the open batch stays");
                received.extend(open.messages.into_iter().map(|message| message.payload));
                assert_eq!(store.ack(&token, open.id).await.unwrap(), 1);
            }
            assert_eq!(received, [b"first".to_vec(), b"second".to_vec()], "version {version}");
            store.drop_queue(&token.path.queue, true).await.unwrap();

            let states =
                "SELECT group_concat(state, ' ') FROM (SELECT state FROM fencepost_installation ORDER BY number)";
            let states: String = place.connect().query_row(states, [], |row| row.get(0)).unwrap();
            let current = store.info().schema_version as usize;
            let expected: Vec<_> =
                (1..=current).map(|number| if number <= version { "baselined" } else { "applied" }).collect();
            assert_eq!(states, expected.join(" "));
        }
    });
}

#[test]
fn an_older_store_that_is_not_ours_is_not_upgraded() {
    run(async {
        let place = Place::new();
        place.stage().await.close().await;
        make_older(&place, 2);
        place.connect().execute("UPDATE fencepost_schema SET checksum = 'other' WHERE version = 2", []).unwrap();
        let before = bytes(&place.file());
        let error = failure(&place.file(), true).await;
        assert_eq!((error.kind(), error.code()), (Kind::Schema, "schema_damaged"));
        assert!(bytes(&place.file()) == before);
    });
}

#[test]
fn a_store_is_installed_beside_an_applications_tables_only_when_asked() {
    run(async {
        let place = Place::new();
        place.connect().execute_batch("CREATE TABLE effect (id INTEGER); INSERT INTO effect VALUES (7)").unwrap();
        let before = bytes(&place.file());
        let error = failure(&place.file(), false).await;
        assert_eq!((error.kind(), error.code()), (Kind::NotFound, "no_store"));
        assert!(bytes(&place.file()) == before);

        let store = place.stage().await;
        store.send(&orders(), text("x")).await.unwrap();
        assert_eq!(rows(&place.connect(), "effect"), [7]);
        assert_eq!(texts(&store).await, ["x"]);
    });
}

#[test]
fn tables_of_somebody_elses_that_have_our_names_are_refused() {
    run(async {
        for sql in [
            "CREATE TABLE fencepost_queue (height INTEGER); INSERT INTO fencepost_queue VALUES (2)",
            "CREATE TABLE fencepost_schema (colour TEXT)",
            "CREATE TABLE fencepost_schema (version TEXT); INSERT INTO fencepost_schema VALUES ('blue')",
            "CREATE TABLE fencepost_schema (version INTEGER)",
            "CREATE TABLE fencepost_schema (version INTEGER); INSERT INTO fencepost_schema VALUES (0)",
            "CREATE TABLE fencepost_installation (colour TEXT)",
        ] {
            let place = Place::new();
            place.connect().execute_batch(sql).unwrap();
            fails(&place.file(), Kind::Schema, "schema_foreign").await;
        }
    });
}

#[test]
fn a_store_that_lacks_something_is_refused() {
    run(async {
        for sql in [
            "DROP TABLE fencepost_member",
            "UPDATE fencepost_installation SET text_hash = 'other', layout_hash = 'other', token_hash = 'other'",
            "DELETE FROM fencepost_store",
            "PRAGMA foreign_keys = OFF; DROP TABLE fencepost_slot; CREATE VIEW fencepost_slot AS SELECT 1",
        ] {
            let place = Place::new();
            place.stage().await.close().await;
            place.connect().execute_batch(sql).unwrap();
            fails(&place.file(), Kind::Schema, "schema_damaged").await;
        }
    });
}

#[test]
fn what_is_no_database_is_refused() {
    run(async {
        let place = Place::new();
        std::fs::write(place.path("notes.txt"), "SQLite is a library, and this is a text.\n".repeat(200)).unwrap();
        fails(&place.path("notes.txt"), Kind::Corrupt, "not_a_database").await;
        std::fs::write(place.path("short.txt"), "xy").unwrap();
        fails(&place.path("short.txt"), Kind::Corrupt, "not_a_database").await;
        assert!(!place.path("notes.txt-wal").exists());

        std::fs::create_dir(place.path("folder")).unwrap();
        let missing = place.path("missing/app.db");
        for (file, create, kind, code) in [
            (place.path("folder"), false, Kind::InvalidInput, "invalid_input"),
            (place.path("folder"), true, Kind::InvalidInput, "invalid_input"),
            (missing.clone(), true, Kind::InvalidInput, "invalid_input"),
            (missing, false, Kind::NotFound, "no_store"),
            (place.file(), false, Kind::NotFound, "no_store"),
            ("/dev/null".into(), true, Kind::InvalidInput, "invalid_input"),
        ] {
            let error = failure(&file, create).await;
            assert_eq!((error.kind(), error.code()), (kind, code), "{error:?}");
        }
        assert!(!place.path("missing").exists());
        assert!(!place.file().exists(), "nothing is made without `create`");
    });
}

#[test]
fn an_empty_file_becomes_a_store_only_when_asked() {
    run(async {
        let place = Place::new();
        std::fs::write(place.file(), "").unwrap();
        let error = failure(&place.file(), false).await;
        assert_eq!((error.kind(), error.code()), (Kind::NotFound, "no_store"));
        assert_eq!(bytes(&place.file()), b"");
        let store = place.stage().await;
        store.send(&orders(), text("x")).await.unwrap();
        assert_eq!(texts(&store).await, ["x"]);
    });
}

/// Bytes flipped anywhere and files cut anywhere: an error that says so, or the answer; never a panic, a hang or a bug's code.
#[test]
fn a_damaged_store_is_corrupt_and_never_a_panic() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let messages = (0..600).map(|n| text(n.to_string().repeat(20))).collect();
        store.send_batch(&orders(), messages).await.unwrap();
        claim(&store, "w1", 0, Duration::from_secs(60)).await;
        store.close().await;
        let whole = bytes(&place.file());

        let (mut refused_at_open, mut refused_later) = (0, 0);
        for round in 0..120_usize {
            let mut damaged = whole.clone();
            if round % 10 == 9 {
                damaged.truncate(whole.len() * (round / 10 + 1) / 14);
            } else {
                // A stretch of 64 bytes, moving through the whole file; the header's first 100 bytes have tests of their own.
                let from = 100 + round * 7919 % (whole.len() - 200);
                damaged[from..from + 64].iter_mut().for_each(|byte| *byte ^= 0xA5);
            }
            // Written over the same file: another file would be adopted first, which writes.
            std::fs::write(place.file(), &damaged).unwrap();
            match SqliteStore::open(place.file(), place.options().create(false)).await {
                Ok(store) => {
                    for error in use_everything(&store).await {
                        // A flipped length may ask for more memory than there is: SQLite then says so.
                        let known = error.kind() == Kind::Corrupt || error.code() == "out_of_memory";
                        assert!(known, "round {round}: {error:?}");
                        refused_later += 1;
                    }
                    store.close().await;
                }
                Err(error) => {
                    let known = matches!(error.kind(), Kind::Corrupt | Kind::Schema) || error.code() == "no_store";
                    assert!(known, "round {round}: {error:?}");
                    assert!(bytes(&place.file()) == damaged, "round {round}");
                    refused_at_open += 1;
                }
            }
        }
        assert!(refused_at_open > 10 && refused_later > 10, "{refused_at_open} {refused_later}");
    });
}

/// Calls that read every table. Returns what they failed with.
async fn use_everything(store: &SqliteStore) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut note = |error: Option<Error>| errors.extend(error);
    note(store.queue_status().await.err());
    note(store.slot_status(None).await.err());
    note(store.lease_status().await.err());
    note(fencepost_core::Consumers::consumer_status(store, None).await.err());
    let request = ClaimSlot::new(billing(), WorkerName::new("w2").unwrap());
    match store.claim_slot(&request, index(1)).await {
        Ok(Some(grant)) => note(store.receive(&grant.token, Default::default()).await.err()),
        Ok(None) => {}
        Err(error) if error.kind() == Kind::NotFound => {}
        Err(error) => note(Some(error)),
    }
    errors
}

#[test]
fn a_file_that_may_not_be_written_is_refused() {
    run(async {
        let place = Place::new();
        place.stage().await.close().await;
        std::fs::set_permissions(place.file(), std::fs::Permissions::from_mode(0o444)).unwrap();
        if std::fs::File::options().append(true).open(place.file()).is_ok() {
            // For root no file is read-only; for root the store opens.
            assert!(SqliteStore::open(place.file(), place.options()).await.is_ok());
            return;
        }
        let error = failure(&place.file(), false).await;
        assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "read_only"));
    });
}

/// A copy may live on beside the original: tokens of the one mean nothing in the other.
#[test]
fn a_copied_file_is_another_store() {
    run(async {
        const TTL: Duration = Duration::from_secs(10);
        let (place, restored) = (Place::new(), Place::new());
        let store = place.stage().await;
        store.send_batch(&orders(), (0..4).map(|n| text(n.to_string())).collect()).await.unwrap();
        let grant = claim(&store, "w1", 0, TTL).await;
        let batch = store.receive(&grant.token, Default::default()).await.unwrap().unwrap();
        let lease = AcquireLease::new(LeaseName::new("lease").unwrap(), HolderName::new("h").unwrap()).ttl(ttl(TTL));
        let Acquired::Granted { token: held, .. } = store.acquire_lease(&lease).await.unwrap() else { panic!() };
        store.close().await;
        copy(&[place.file()], &restored.file());
        assert_ne!(std::fs::metadata(place.file()).unwrap().ino(), std::fs::metadata(restored.file()).unwrap().ino());

        let options = SqliteOptions::default().clock(place.clock.clone());
        let copied = SqliteStore::open(restored.file(), options.clone()).await.unwrap();
        assert_eq!(copied.renew_slot(&grant.token).await.unwrap(), Renewal::Lost);
        refused(copied.ack(&grant.token, batch.id).await, Kind::Fenced, "fenced");
        refused(copied.receive(&grant.token, Default::default()).await, Kind::Fenced, "fenced");
        assert_eq!(copied.release_slot(&grant.token).await.unwrap(), Release::NotHeld);
        assert_eq!(copied.renew_lease(&held, None).await.unwrap(), Renewal::Lost);
        assert_eq!(copied.release_lease(&held).await.unwrap(), Release::NotHeld);

        // Its owner may still be at work on the original, so nobody is granted what it held before that has ended.
        let request = ClaimSlot::new(billing(), WorkerName::new("w2").unwrap()).ttl(ttl(TTL));
        for _ in 0..2 {
            assert_eq!(copied.claim_slot(&request, index(0)).await.unwrap(), None);
            assert!(matches!(copied.acquire_lease(&lease).await.unwrap(), Acquired::Held { .. }));
            place.clock.advance(TTL / 2);
        }
        // Opened again it is the same store: nothing is voided twice.
        copied.close().await;
        let copied = SqliteStore::open(restored.file(), options).await.unwrap();
        place.clock.advance(TTL / 10);
        let heir = copied.claim_slot(&request, index(0)).await.unwrap().expect("one TTL and its margin have passed");
        assert!(heir.token.epoch > grant.token.epoch);
        let again = copied.receive(&heir.token, Default::default()).await.unwrap().unwrap();
        assert_eq!((again.id, again.messages.len()), (batch.id, batch.messages.len()));
        let Acquired::Granted { token, .. } = copied.acquire_lease(&lease).await.unwrap() else { panic!() };
        assert!(token.epoch > held.epoch);

        // The original does not know of it.
        let original = place.open().await;
        assert_eq!(original.renew_slot(&grant.token).await.unwrap(), Renewal::Held);
        assert_eq!(status(&original, 0).await.state.epoch, Some(grant.token.epoch));
    });
}

/// A backup that takes the place of the file gets its inode's number on some file systems, and is another file all the same.
#[test]
fn a_restored_backup_is_another_store() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let grant = claim(&store, "w1", 0, Duration::from_secs(10)).await;
        store.close().await;
        copy(&[place.file()], &place.path("backup.db"));
        std::fs::remove_file(place.file()).unwrap();
        copy(&[place.path("backup.db")], &place.file());
        let restored = place.open().await;
        assert_eq!(restored.renew_slot(&grant.token).await.unwrap(), Renewal::Lost);
    });
}

/// A file that is deleted, moved or replaced while it is open takes no more writes: they would be answered and lost.
#[test]
fn a_file_that_went_away_underneath_takes_no_writes() {
    run(async {
        for replace in [false, true] {
            let place = Place::new();
            let store = place.stage().await;
            store.send(&orders(), text("kept")).await.unwrap();
            std::fs::rename(place.file(), place.path("moved.db")).unwrap();
            if replace {
                std::fs::write(place.file(), "another").unwrap();
            }
            refused(store.send(&orders(), text("lost")).await, Kind::Unavailable, "store_gone");
            refused(store.pause_queue(&orders()).await, Kind::Unavailable, "store_gone");
            // Back in its place it goes on, with what was answered and nothing else.
            std::fs::rename(place.path("moved.db"), place.file()).unwrap();
            store.send(&orders(), text("after")).await.unwrap();
            assert_eq!(texts(&store).await, ["kept", "after"]);
        }
    });
}

/// A rename is no copy: the file is the same, and so is everybody's token.
#[test]
fn a_renamed_file_is_the_same_store() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let grant = claim(&store, "w1", 0, Duration::from_secs(10)).await;
        store.close().await;
        std::fs::rename(place.file(), place.path("moved.db")).unwrap();
        let moved = SqliteStore::open(place.path("moved.db"), place.options()).await.unwrap();
        assert_eq!(moved.renew_slot(&grant.token).await.unwrap(), Renewal::Held);
    });
}

/// What the journal mode was before does not matter, and a file that is only looked at keeps its own.
#[test]
fn a_refused_database_keeps_its_journal_mode() {
    run(async {
        let place = Place::new();
        place.connect().execute_batch("PRAGMA journal_mode = DELETE; CREATE TABLE effect (id INTEGER)").unwrap();
        failure(&place.file(), false).await;
        let mode: String = place.connect().query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "delete");
        place.stage().await.close().await;
        let mode: String = place.connect().query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    });
}

/// What `sqlite3` and backup tools see is an ordinary database.
#[test]
fn a_closed_store_is_one_whole_file() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        store.send(&orders(), text("x")).await.unwrap();
        assert_eq!(store.info().location, place.file().display().to_string());
        store.close().await;
        let left = Command::new("ls").arg(place.path("")).output().unwrap().stdout;
        assert_eq!(String::from_utf8_lossy(&left), "app.db\n");
        let verdict: String =
            Connection::open(place.file()).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok");
    });
}
