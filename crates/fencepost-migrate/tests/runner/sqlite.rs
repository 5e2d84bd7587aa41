//! C22: the same on a file of SQLite.

use std::time::Duration;

use fencepost_core::Kind;
use fencepost_migrate::rusqlite::{self, Connection};
use fencepost_migrate::sql::Dialect;
use fencepost_migrate::{
    Event, LedgerName, Migrations, Migrator, Readiness, Repair, RunOptions, Source, SqliteMigrator, State,
};
use tempfile::TempDir;

use crate::support::{failure, reason};

const NO: &str = "-- fencepost: no-transaction\n";

fn migrator<const N: usize>(files: [(&str, &str); N]) -> Migrator {
    Migrator::new(Migrations::of(files, Dialect::Sqlite).unwrap())
}

struct File {
    folder: TempDir,
    connection: Connection,
    heard: Vec<Event>,
}

impl File {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let connection = Connection::open(folder.path().join("a.db")).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        Self { folder, connection, heard: Vec::new() }
    }

    fn other(&self) -> Connection {
        Connection::open(self.folder.path().join("a.db")).unwrap()
    }

    fn up(&mut self, migrator: &Migrator) -> fencepost_core::Result<Vec<u64>> {
        let heard = &mut self.heard;
        let mut listener = |event| heard.push(event);
        migrator.on_sqlite(&mut self.connection, &mut listener).up(None).map(|done| done.numbers)
    }

    fn value<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        self.connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn stand(&self, migrator: &Migrator, number: u64) -> Option<(State, usize, Option<usize>)> {
        let entries = migrator.status_in(&self.connection).unwrap().entries;
        let entry = entries.into_iter().find(|entry| entry.number == number)?;
        Some((entry.state, entry.done, entry.failed.map(|failed| failed.statement)))
    }
}

#[test]
fn c22_a_file_that_fails_leaves_nothing_and_the_ledger_says_where() {
    let mut file = File::new();
    let bad = migrator([
        ("1_a.sql", "create table a (id);"),
        ("2_b.sql", "create table b (id);\ninsert into missing values (1);"),
    ]);
    let error = file.up(&bad).unwrap_err();
    assert_eq!((error.kind(), error.code(), error.fact("statement")), (Kind::Schema, "migration_failed", Some("2")));
    assert_eq!(file.value::<i64>("select count(*) from sqlite_schema where name = 'b'"), 0);
    assert_eq!(file.stand(&bad, 1), Some((State::Applied, 1, None)));
    assert_eq!(file.stand(&bad, 2), Some((State::Failed, 0, Some(2))));
    let good = migrator([("1_a.sql", "create table a (id);"), ("2_b.sql", "create table b (id);")]);
    assert_eq!(file.up(&good).unwrap(), [2]);
    assert_eq!(file.up(&good).unwrap(), Vec::<u64>::new());
    let edited = migrator([("1_a.sql", "create table a (x);"), ("2_b.sql", "create table b (id);")]);
    assert_eq!(file.up(&edited).unwrap_err().code(), "migration_edited");
    assert_eq!(file.up(&migrator([("1_a.sql", "create table a (id);")])).unwrap_err().code(), "ahead");
    let entry = good.status_in(&file.connection).unwrap().entries.remove(1);
    assert!(entry.finished_at.unwrap() >= entry.started_at && entry.runner.contains('@') && !entry.role.is_empty());
}

#[test]
fn c22_statements_that_commit_by_themselves_go_on_where_they_failed() {
    let mut file = File::new();
    let text = |bad: &str| {
        format!(
            "{NO}pragma foreign_keys = on;\ncreate table a (id primary key, up references a);\ninsert into a values (1, 1);\nvacuum;\n{bad};\ninsert into a values (3, 1);"
        )
    };
    file.connection.pragma_update(None, "foreign_keys", false).unwrap();
    let bad = migrator([("1_a.sql", &text("insert into a values (2, 9)"))]);
    for _ in 0..2 {
        assert_eq!(file.up(&bad).unwrap_err().fact("statement"), Some("5"));
        // What was set is set again when it goes on, and given back when it ends.
        assert_eq!(file.stand(&bad, 1), Some((State::Failed, 4, Some(5))));
        assert_eq!(file.value::<i64>("pragma foreign_keys"), 0);
        file.connection = file.other();
        file.connection.pragma_update(None, "foreign_keys", false).unwrap();
    }
    let good = migrator([("1_a.sql", &text("insert into a values (2, 1)"))]);
    assert_eq!(file.up(&good).unwrap(), [1]);
    assert_eq!(file.value::<String>("select group_concat(id, ',') from a"), "1,2,3");
    assert_eq!(file.stand(&good, 1), Some((State::Applied, 6, None)));
}

#[test]
fn c22_an_error_has_its_place() {
    let mut file = File::new();
    let text = "create table a (id unique);\n\ninsert /* über */ into a\n  select 'ä', missing from a;\n";
    let error = file.up(&migrator([("1_a.sql", text)])).unwrap_err();
    assert_eq!((error.fact("line"), error.fact("column")), (Some("4"), Some("15")));
    let shown = failure(&error).render(false);
    for wanted in ["1_a.sql:4:15", "^^^^^^^", "statement: 2 of 2", "help: "] {
        assert!(shown.contains(wanted), "{wanted} is not in\n{shown}");
    }
    let text = "create table a (id unique);\ninsert into a values (1), (1);\n";
    let error = file.up(&migrator([("1_a.sql", text)])).unwrap_err();
    assert_eq!((error.fact("line"), error.fact("sqlstate")), (Some("2"), Some("2067")));
    // What only the commit finds.
    let text =
        "create table b (id primary key, up references b deferrable initially deferred);\ninsert into b values (1, 2);";
    file.connection.pragma_update(None, "foreign_keys", true).unwrap();
    let error = file.up(&migrator([("1_a.sql", text)])).unwrap_err();
    assert_eq!((error.code(), error.fact("sqlstate")), ("migration_failed", Some("787")));
    assert_eq!(file.value::<i64>("select count(*) from sqlite_schema where name = 'b'"), 0);
}

#[test]
fn c22_somebody_who_writes_is_waited_for_and_then_is_a_failure() {
    let mut file = File::new();
    file.up(&migrator([])).unwrap();
    let other = file.other();
    other.execute_batch("begin immediate").unwrap();
    let options = RunOptions { lock_timeout: Duration::from_millis(20), attempts: 2, ..RunOptions::default() };
    let files = migrator([("1_a.sql", "create table a (id)")]).options(options);
    let error = file.up(&files).unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Busy, "lock_timeout"));
    let mut other = Some(other);
    let mut retried = 0;
    let mut listener = |event| {
        if let Event::Retried { .. } = event {
            retried += 1;
            other.take().unwrap().execute_batch("commit").unwrap();
        }
    };
    assert_eq!(files.on_sqlite(&mut file.connection, &mut listener).up(None).unwrap().numbers, [1]);
    assert_eq!((retried, file.value::<i64>("pragma busy_timeout")), (1, 5_000));
}

#[test]
fn c22_readiness_is_told_while_somebody_writes() {
    let mut file = File::new();
    let (one, two) = (
        migrator([("1_a.sql", "create table a (id)")]),
        migrator([("1_a.sql", "create table a (id)"), ("2_b.sql", "create table b (id)")]),
    );
    assert_eq!(one.ready_in(&file.connection).unwrap(), Readiness::Never);
    assert_eq!(one.verify_in(&file.connection).unwrap_err().code(), "never_applied");
    assert_eq!(file.value::<i64>("select count(*) from sqlite_schema"), 0);
    file.up(&one).unwrap();
    let other = file.other();
    other.execute_batch("begin immediate; create table c (id)").unwrap();
    assert_eq!(one.wait_in(&file.connection, Duration::ZERO).unwrap(), Readiness::Ready { latest: Some(1) });
    assert_eq!(
        two.wait_in(&file.connection, Duration::from_millis(60)).unwrap(),
        Readiness::Behind { pending: 1, next: 2, running: None }
    );
    other.execute_batch("rollback").unwrap();
    file.up(&two).unwrap();
    assert_eq!(one.ready_in(&file.connection).unwrap(), Readiness::Ahead { number: 2 });
    let bad = migrator([("1_a.sql", "create table a (id)"), ("2_b.sql", "create table b (id)"), ("3_c.sql", "selec")]);
    file.up(&bad).unwrap_err();
    assert_eq!(bad.ready_in(&file.connection).unwrap().as_str(), "failed");
}

#[test]
fn c22_what_is_no_ledger_of_ours_is_refused() {
    let mut file = File::new();
    let files = migrator([("1_a.sql", "create table a (id)")]);
    let nowhere = files.clone().ledger(LedgerName::default().within("missing").unwrap());
    assert_eq!(file.up(&nowhere).unwrap_err().code(), "no_schema");
    file.up(&files.clone().ledger(LedgerName::new("a \"b\" 'c'").unwrap())).unwrap();
    file.connection.execute_batch("drop table a").unwrap();
    file.up(&files).unwrap();
    let later = "insert into fencepost_migrations_history (format, action, role, runner, at, tool) values (2, '', '', '', 1, '')";
    file.connection.execute_batch(later).unwrap();
    assert_eq!(file.up(&files).unwrap_err().code(), "ledger_newer");
    file.connection.execute_batch("drop table fencepost_migrations_history").unwrap();
    assert_eq!(files.ready_in(&file.connection).unwrap_err().code(), "ledger_damaged");
}

#[test]
fn c22_what_is_changed_by_hand_is_written_down() {
    let mut file = File::new();
    let files = migrator([
        ("1_a.sql", "create table a (id)"),
        ("2_b.sql", "create table b (id)"),
        ("2_b.down.sql", "drop table b"),
        ("3_c.sql", &format!("{NO}create table c (id);\nselec")),
    ]);
    file.connection.execute_batch("create table a (id)").unwrap();
    let mut listener = |_| {};
    let mut session = files.on_sqlite(&mut file.connection, &mut listener);
    assert_eq!(session.baseline(1, &reason()).unwrap(), [1]);
    assert_eq!(session.up(None).unwrap_err().fact("statement"), Some("2"));
    assert_eq!(session.down(1).unwrap_err().kind(), Kind::Conflict);
    session.repair(Repair::Forget { number: 3 }, &reason()).unwrap();
    assert_eq!(session.down(1).unwrap().numbers, [2]);
    session.repair(Repair::MarkDone { number: 3 }, &reason()).unwrap();
    assert_eq!(session.up(None).unwrap_err().code(), "out_of_order");
    let history = file.value::<String>("select group_concat(action || coalesce(number, '') || coalesce(json_extract(before, '$.state'), ''), ' ') from fencepost_migrations_history");
    assert_eq!(history, "created baselined1 forgotten3failed undone2applied marked3");
}

#[test]
fn c22_ledgers_of_other_tools_are_taken_over() {
    let mut file = File::new();
    let files = migrator([("1_a_b.sql", "create table a (id)"), ("2_c.sql", "create table c (id)")]);
    let mut listener = |_| {};
    let absent = files.on_sqlite(&mut file.connection, &mut listener).import(Source::Sqlx).unwrap_err();
    assert_eq!(absent.code(), "ledger_absent");
    file.connection
        .execute_batch(
            "create table _sqlx_migrations (version bigint primary key, description text not null,
                installed_on timestamp not null default current_timestamp, success boolean not null, checksum blob not null,
                execution_time bigint not null);
            insert into _sqlx_migrations (version, description, success, checksum, execution_time) values (1, 'a b', true, x'00', 1);
            create table refinery_schema_history (version int4 primary key, name varchar(255), applied_on varchar(255),
                checksum varchar(255));
            insert into refinery_schema_history values (1, 'a_b', '', '');
            create table schema_migrations (version uint64, dirty bool);
            insert into schema_migrations values (1, true)",
        )
        .unwrap();
    for (ledger, source, different) in [("x", Source::Sqlx, vec![1]), ("y", Source::Refinery, vec![])] {
        let files = files.clone().ledger(LedgerName::new(ledger).unwrap());
        let taken = files.on_sqlite(&mut file.connection, &mut |_| {}).import(source).unwrap();
        assert_eq!((taken.numbers, taken.different), (vec![1], different));
    }
    let dirty = files.on_sqlite(&mut file.connection, &mut |_| {}).import(Source::GolangMigrate).unwrap_err();
    assert_eq!(dirty.code(), "ledger_dirty");
    file.connection.execute_batch("update schema_migrations set dirty = false").unwrap();
    assert_eq!(files.on_sqlite(&mut file.connection, &mut |_| {}).import(Source::GolangMigrate).unwrap().numbers, [1]);
    assert_eq!(file.up(&files).unwrap(), [2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c22_runners_at_once_apply_each_file_once() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.db");
    let runner = |path: &std::path::Path| {
        let files = (1..=10).map(|n| (format!("{n}_t.sql"), format!("create table t{n} (id)")));
        SqliteMigrator::at(path, Migrator::new(Migrations::of(files, Dialect::Sqlite).unwrap())).unwrap()
    };
    // Asking makes no file.
    assert_eq!((runner(&path).ready().unwrap(), path.exists()), (Readiness::Never, false));
    let runners: Vec<_> = (0..8)
        .map(|_| {
            let runner = runner(&path);
            tokio::spawn(async move { runner.up(None, &mut |_| {}).await.map(|done| done.numbers.len()) })
        })
        .collect();
    let mut run = 0;
    for runner in runners {
        run += runner.await.unwrap().unwrap();
    }
    assert_eq!((run, runner(&path).ready().unwrap()), (10, Readiness::Ready { latest: Some(10) }));
    let holder = fencepost_migrate::SqliteMigrationLock::new(&path, "fencepost_migrations").unwrap();
    holder.acquire().await.unwrap();
    let impatient = runner(&path).wait_for_lock(Duration::from_millis(40));
    let mut heard = Vec::new();
    let error = impatient.up(None, &mut |event| heard.push(event)).await.unwrap_err();
    assert_eq!(heard, [Event::Waiting { holder: format!("process {}", std::process::id()) }]);
    assert_eq!((error.code(), error.fact("pids")), ("locked", Some(std::process::id().to_string().as_str())));
}

/// A runner whose row another one has taken moves it on no more, and what is done is not written over.
#[test]
fn c22_a_row_that_another_runner_has_taken_is_not_moved_on() {
    for (take, state) in [("set runner = 'another'", State::Running), ("set state = 'applied'", State::Applied)] {
        let mut file = File::new();
        let text = format!("{NO}create table a (id);\nvacuum;\ncreate table b (id);");
        let files = migrator([("1_a.sql", &text)]);
        let path = file.folder.path().join("a.db");
        // What runs in no transaction keeps nobody out.
        let mut listener = |event| {
            if let Event::StatementStarted { statement: 2, .. } = event {
                let other = Connection::open(&path).unwrap();
                other.execute_batch(&format!("update fencepost_migrations {take}")).unwrap();
            }
        };
        let error = files.on_sqlite(&mut file.connection, &mut listener).up(None).unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Fenced, "ledger_changed"), "{take}");
        assert_eq!(file.stand(&files, 1), Some((state, 1, None)), "{take}");
        assert_eq!(file.value::<i64>("select count(*) from sqlite_schema where name = 'b'"), 0, "{take}");
    }
}
