//! Ledgers of other tools, in the form in which those tools make them.

use fencepost_migrate::{Source, State};

use crate::support::{Database, migrator};

const FILES: [(&str, &str); 3] = [
    ("1_first_one.sql", "create table a ()"),
    ("2_second.sql", "create table b ()"),
    ("3_third.sql", "create table c ()"),
];

async fn imported(database: &mut Database, source: Source) -> fencepost_core::Result<fencepost_migrate::Imported> {
    migrator(FILES).on_postgres(&mut database.client, &mut |_| {}).import(source).await
}

#[tokio::test]
async fn sqlx_is_taken_over_without_running_anything() {
    let Some(mut database) = Database::new().await else { return };
    assert_eq!(imported(&mut database, Source::Sqlx).await.unwrap_err().code(), "ledger_absent");
    database
        .run(
            "create table _sqlx_migrations (version bigint primary key, description text not null, installed_on timestamptz
                not null default now(), success boolean not null, checksum bytea not null, execution_time bigint not null);
            insert into _sqlx_migrations values (1, 'first one', now(), true, sha384('create table a ()'), 1),
                (2, 'second', now(), false, sha384('create table bb ()'), 1)",
        )
        .await;
    assert_eq!(imported(&mut database, Source::Sqlx).await.unwrap_err().code(), "ledger_dirty");
    // Refused before anything of ours was made.
    assert_eq!(database.value("select to_regclass('fencepost_migrations')").await, "null");
    database.run("update _sqlx_migrations set success = true").await;
    let taken = imported(&mut database, Source::Sqlx).await.unwrap();
    assert_eq!((taken.numbers, taken.different), (vec![1, 2], vec![2]));
    assert_eq!(database.stand(&migrator(FILES), 2).await, Some((State::Imported, 1, None)));
    assert_eq!(imported(&mut database, Source::Sqlx).await.unwrap_err().code(), "ledger_not_empty");
    assert_eq!(database.up(&migrator(FILES)).await.unwrap().numbers, [3]);
    assert_eq!(database.value("select to_regclass('a') is null and to_regclass('c') is not null").await, "t");
}

#[tokio::test]
async fn refinery_is_taken_over_by_number_and_name() {
    let Some(mut database) = Database::new().await else { return };
    database
        .run(
            "create table refinery_schema_history (version int4 primary key, name varchar(255), applied_on varchar(255),
                checksum varchar(255));
            insert into refinery_schema_history values (1, 'first_one', '2026-01-01T00:00:00Z', '1'), (2, 'other', '', '2')",
        )
        .await;
    let taken = imported(&mut database, Source::Refinery).await.unwrap();
    assert_eq!((taken.numbers, taken.different), (vec![1, 2], vec![2]));
}

#[tokio::test]
async fn golang_migrate_is_taken_over_up_to_its_number() {
    let Some(mut database) = Database::new().await else { return };
    database
        .run(
            "create table schema_migrations (version bigint not null primary key, dirty boolean not null);
            insert into schema_migrations values (4, false)",
        )
        .await;
    assert_eq!(imported(&mut database, Source::GolangMigrate).await.unwrap_err().code(), "file_missing");
    database.run("update schema_migrations set version = 2, dirty = true").await;
    assert_eq!(imported(&mut database, Source::GolangMigrate).await.unwrap_err().code(), "ledger_dirty");
    database.run("update schema_migrations set dirty = false").await;
    let taken = imported(&mut database, Source::GolangMigrate).await.unwrap();
    assert_eq!((taken.numbers, taken.different), (vec![1, 2], vec![]));
    assert_eq!(database.up(&migrator(FILES)).await.unwrap().numbers, [3]);
}
