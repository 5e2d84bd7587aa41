//! What a session was before, during and after: timeouts, search path, role.

use fencepost_migrate::{Event, LedgerName, LockMode, Notice, PostgresMigrator, State};
use tokio_postgres::{AsyncMessage, NoTls};

use crate::support::{Database, migrator};

#[tokio::test]
async fn timeouts_that_are_set_for_the_application_end_no_migration_and_are_there_again_afterwards() {
    let Some(mut database) = Database::new().await else { return };
    let name = database.database.name().to_owned();
    for setting in ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"] {
        database.run(&format!("alter database {name} set {setting} = '400ms'")).await;
    }
    database.run(&format!("alter database {name} set default_transaction_read_only = on")).await;
    database.reconnect().await;
    let files = migrator([
        ("1_a.sql", "select pg_sleep(0.6); create table a ();"), // TIME: longer than the timeout.
        ("2_b.sql", "-- fencepost: no-transaction\nselect pg_sleep(0.6);\nvacuum;\ncreate table b ();"), // TIME: the same.
        ("3_c.sql", "set statement_timeout = '1s'; set lock_timeout = 0;"),
    ]);
    database.client.batch_execute("set lock_timeout = '390ms'").await.unwrap();
    database.up(&files).await.unwrap();
    for (setting, wanted) in [
        ("statement_timeout", "400ms"),
        ("lock_timeout", "390ms"),
        ("idle_in_transaction_session_timeout", "400ms"),
        ("default_transaction_read_only", "on"),
    ] {
        let row = database.client.query_one(&format!("show {setting}"), &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), wanted, "{setting}");
    }
}

#[tokio::test]
async fn a_migration_that_changes_path_or_role_reaches_neither_the_ledger_nor_the_next_file() {
    let Some(mut database) = Database::new().await else { return };
    let role = format!("nobody_{}", database.database.name());
    database.run(&format!("create role {role}")).await;
    let texts = [
        "select set_config('search_path', '', false); create table public.a ();".to_owned(),
        format!(
            "create schema s; grant all on schema s to {role}; set role {role}; set search_path = s; create table mine ();"
        ),
        format!(
            "-- fencepost: no-transaction\nset search_path = s;\nset session authorization {role};\ncreate table his ();\nreset role;"
        ),
        "create table b ();".to_owned(),
    ];
    let files =
        migrator([("1_a.sql", &texts[0]), ("2_b.sql", &texts[1]), ("3_c.sql", &texts[2]), ("4_d.sql", &texts[3])]);
    database.up(&files).await.unwrap();
    for table in ["public.fencepost_migrations", "public.a", "public.b", "s.mine", "s.his"] {
        assert_eq!(database.value(&format!("select to_regclass('{table}') is not null")).await, "t", "{table}");
    }
    let owners = format!("select count(*) from pg_class where relowner = '{role}'::regrole and relkind = 'r'");
    assert_eq!(database.value(&owners).await, "2");
    let path =
        database.client.query_one("select current_setting('search_path'), current_user::text", &[]).await.unwrap();
    assert_eq!((path.get::<_, &str>(0), path.get::<_, &str>(1)), ("\"$user\", public", "postgres"));
    database.run(&format!("drop owned by {role}; drop role {role}")).await;
}

#[tokio::test]
async fn what_the_server_says_beside_its_answers_is_passed_on() {
    let Some(mut database) = Database::new().await else { return };
    let (mut client, mut connection) = tokio_postgres::connect(&database.database.url(), NoTls).await.unwrap();
    let (told, mut notices) = tokio::sync::mpsc::channel(8);
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message {
                let notice = Notice { severity: notice.severity().into(), message: notice.message().into() };
                told.try_send(notice).unwrap();
            }
        }
    });
    let files = migrator([("1_a.sql", "drop table if exists missing")]);
    let mut heard = Vec::new();
    let mut listener = |event| heard.push(event);
    files.on_postgres(&mut client, &mut listener).hearing(&mut notices).up(None).await.unwrap();
    let notice = heard.iter().position(|event| matches!(event, Event::Notice { severity, .. } if severity == "NOTICE"));
    let done = heard.iter().position(|event| matches!(event, Event::StatementDone { .. }));
    assert!(notice.unwrap() < done.unwrap(), "{heard:?}");
    database.heard = heard;
    assert_eq!(database.stand(&files, 1).await, Some((State::Applied, 1, None)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_under_its_lock_passes_on_what_the_server_says() {
    let Some(database) = Database::new().await else { return };
    let files = migrator([("1_a.sql", "do $$ begin raise notice 'hello'; end $$;")]);
    for (mode, ledger) in [(LockMode::Advisory, "one"), (LockMode::Lease, "two")] {
        let files = files.clone().ledger(LedgerName::new(ledger).unwrap());
        let runner = PostgresMigrator::at(&database.database.url(), files, mode).unwrap();
        let mut heard = Vec::new();
        runner.up(None, &mut |event| heard.push(event)).await.unwrap();
        heard.retain(|event| matches!(event, Event::Notice { .. }));
        assert_eq!(heard, [Event::Notice { severity: "NOTICE".into(), message: "hello".into() }]);
    }
}
