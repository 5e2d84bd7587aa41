//! C15, C17, C18, C21: statements that fail, and files that are not what was applied.

use fencepost_core::Kind;
use fencepost_migrate::{Repair, State};

use crate::support::{Database, codes, failure, migrator, reason};

const NO: &str = "-- fencepost: no-transaction\n";

#[tokio::test]
async fn c15_a_transaction_that_fails_leaves_nothing_and_the_ledger_says_where() {
    let Some(mut database) = Database::new().await else { return };
    let bad = migrator([("1_a.sql", "create table a ();"), ("2_b.sql", "create table b ();\nselect 1/0;")]);
    let error = database.up(&bad).await.unwrap_err();
    assert_eq!((error.kind(), error.code(), error.fact("statement")), (Kind::Schema, "migration_failed", Some("2")));
    assert_eq!(database.value("select to_regclass('b')").await, "null");
    assert_eq!(database.stand(&bad, 1).await, Some((State::Applied, 1, None)));
    assert_eq!(database.stand(&bad, 2).await, Some((State::Failed, 0, Some(2))));
    let failed = database.entry(&bad, 2).await.unwrap().failed.unwrap();
    assert_eq!(failed.sqlstate.as_deref(), Some("22012"));
    // Nothing of it is done, so all of it may be edited.
    let good = migrator([("1_a.sql", "create table a ();"), ("2_b.sql", "create table b (id int);\nselect 1;")]);
    let done = database.up(&good).await.unwrap();
    assert_eq!((done.numbers, done.findings.len()), (vec![2], 0));
    assert_eq!(database.stand(&good, 2).await, Some((State::Applied, 2, None)));
    assert_eq!(database.up(&good).await.unwrap().numbers, Vec::<u64>::new());
}

#[tokio::test]
async fn c15_statements_that_commit_by_themselves_go_on_where_they_failed() {
    let Some(mut database) = Database::new().await else { return };
    let text = |third: &str| {
        format!(
            "{NO}create table a (id int);\ninsert into a values (1);\n{third};\ninsert into a values (3);\nvacuum a;"
        )
    };
    let bad = migrator([("1_a.sql", &text("insert into missing values (2)"))]);
    for _ in 0..2 {
        let error = database.up(&bad).await.unwrap_err();
        assert_eq!((error.code(), error.fact("statement")), ("migration_failed", Some("3")));
        assert_eq!(database.stand(&bad, 1).await, Some((State::Failed, 2, Some(3))));
        assert_eq!(database.value("select count(*) from a").await, "1");
    }
    // What is done may not be edited ...
    let edited = migrator([("1_a.sql", &text("insert into a values (2)").replace("values (1)", "values (9)"))]);
    assert_eq!(database.up(&edited).await.unwrap_err().code(), "migration_edited");
    // ... what is not, may.
    let good = migrator([("1_a.sql", &text("insert into a values (2)"))]);
    assert_eq!(database.up(&good).await.unwrap().numbers, [1]);
    assert_eq!(database.value("select string_agg(id::text, ',' order by id) from a").await, "1,2,3");
    assert_eq!(database.stand(&good, 1).await, Some((State::Applied, 5, None)));
}

#[tokio::test]
async fn c15_what_a_file_sets_for_its_session_is_set_again_when_it_goes_on() {
    let Some(mut database) = Database::new().await else { return };
    let text = |second: &str| {
        format!("{NO}set work_mem = '7MB';\n{second};\ncreate table a as select current_setting('work_mem') as it;")
    };
    assert!(database.up(&migrator([("1_a.sql", &text("select 1/0"))])).await.is_err());
    database.reconnect().await;
    database.up(&migrator([("1_a.sql", &text("select 1"))])).await.unwrap();
    assert_eq!(database.value("select it from a").await, "7MB");
}

#[tokio::test]
async fn c17_edits_of_comments_blanks_and_statements_are_told_apart() {
    let Some(mut database) = Database::new().await else { return };
    let text = "create table a (id int);\n-- here\nselect 1;\n";
    database.up(&migrator([("1_a.sql", text)])).await.unwrap();
    for edited in [text.replace('\n', "\r\n"), text.replace("\n", "\n\n"), text.replace("here", "there")] {
        let migrator = migrator([("1_a.sql", &edited)]);
        assert!(database.up(&migrator).await.unwrap().numbers.is_empty(), "{edited:?}");
        migrator.verify_of(&database.other).await.unwrap();
    }
    let noted = migrator([("1_a.sql", &text.replace("here", "there"))]).verify_of(&database.other).await.unwrap();
    assert_eq!(codes(&noted), [("migration_edited", 1)]);
    let edited = migrator([("1_a.sql", &text.replace("select 1", "select 2")), ("2_b.sql", "create table b ()")]);
    let error = database.up(&edited).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Schema, "migration_edited"));
    assert_eq!(edited.verify_of(&database.other).await.unwrap_err().code(), "migration_edited");
    assert_eq!(database.value("select to_regclass('b')").await, "null");
}

#[tokio::test]
async fn c18_a_file_that_appears_late_is_refused_unless_it_opts_in() {
    let Some(mut database) = Database::new().await else { return };
    let (first, third) = (("20260101_a.sql", "create table a ()"), ("20260103_c.sql", "create table c ()"));
    database.up(&migrator([first, third])).await.unwrap();
    let late = migrator([first, ("20260102_b.sql", "create table b ()"), third]);
    assert_eq!(database.up(&late).await.unwrap_err().code(), "out_of_order");
    assert_eq!(database.value("select to_regclass('b')").await, "null");
    let may = migrator([first, ("20260102_b.sql", "-- fencepost: out-of-order\ncreate table b ()"), third]);
    assert_eq!(database.up(&may).await.unwrap().numbers, [20_260_102]);
    assert_eq!(migrator([first]).status_of(&database.other).await.unwrap().findings.len(), 2);
    assert_eq!(database.up(&migrator([first, third])).await.unwrap_err().code(), "file_missing");
    assert_eq!(database.up(&migrator([first])).await.unwrap_err().code(), "ahead");
}

#[tokio::test]
async fn c21_an_error_has_its_place_and_what_the_server_says() {
    let Some(mut database) = Database::new().await else { return };
    let text = "create table a (id int unique);\n\ninsert /* über */ into a\n  values (1), (missing);\n";
    let error = database.up(&migrator([("1_a.sql", text)])).await.unwrap_err();
    assert_eq!(
        (error.fact("file"), error.fact("line"), error.fact("column")),
        (Some("1_a.sql"), Some("4"), Some("16"))
    );
    assert_eq!(error.fact("sqlstate"), Some("42703"));
    let shown = failure(&error).render(false);
    for wanted in
        ["1_a.sql:4:16", "values (1), (missing);", "^^^^^^^", "SQLSTATE: 42703", "statement: 2 of 2", "help: "]
    {
        assert!(shown.contains(wanted), "{wanted} is not in\n{shown}");
    }

    let text = "create table a (id int unique);\ninsert into a values (1);\ninsert into a values (1);\n";
    let error = database.up(&migrator([("1_a.sql", text)])).await.unwrap_err();
    let failed = failure(&error);
    assert_eq!((failed.statement, failed.diagnostic.place.line, failed.diagnostic.place.column), (3, 3, 1));
    assert!(failed.detail.is_some());

    let text = "do $$ begin\n  perform missing();\nend $$;";
    let error = database.up(&migrator([("1_a.sql", text)])).await.unwrap_err();
    let failed = failure(&error);
    assert_eq!((failed.diagnostic.place.line, failed.context.is_some()), (1, true));

    // What only the commit finds.
    let text = "create table a (id int primary key, b int references a deferrable initially deferred);\ninsert into a values (1, 2);";
    let error = database.up(&migrator([("1_a.sql", text)])).await.unwrap_err();
    assert_eq!(
        (error.code(), error.fact("sqlstate"), error.fact("statement")),
        ("migration_failed", Some("23503"), Some("2"))
    );
    assert_eq!(database.value("select to_regclass('a')").await, "null");

    // What no transaction may hold, and no list of ours knows.
    let error =
        database.up(&migrator([("1_a.sql", "create subscription s connection 'x' publication p")])).await.unwrap_err();
    assert_eq!(error.fact("sqlstate"), Some("25001"));
    assert!(error.hint().unwrap().contains("no-transaction"));
}

/// A statement that only its commit refuses is the one that failed: what comes after it was never run.
#[tokio::test]
async fn c15_a_refused_commit_of_one_statement_is_that_statements() {
    let Some(mut database) = Database::new().await else { return };
    let text = |parent: i32| {
        format!(
            "{NO}create table parent (id int primary key);\n\
            create table child (parent int references parent deferrable initially deferred);\n\
            insert into child values ({parent});\ninsert into parent values (2);"
        )
    };
    let bad = migrator([("1_a.sql", &text(1))]);
    let error = database.up(&bad).await.unwrap_err();
    assert_eq!((error.code(), error.fact("statement")), ("migration_failed", Some("3")));
    assert_eq!(database.stand(&bad, 1).await, Some((State::Failed, 2, Some(3))));
    assert_eq!(database.value("select count(*) from parent").await, "0", "what comes after it was not run");
    let good =
        migrator([("1_a.sql", &text(1).replace("insert into child values (1);", "insert into parent values (1);"))]);
    assert_eq!(database.up(&good).await.unwrap().numbers, [1]);
    assert_eq!(database.value("select count(*) from parent").await, "2");
}

/// A file whose failed rest was taken out of it is done.
#[tokio::test]
async fn c15_a_file_of_which_nothing_is_left_is_applied() {
    let Some(mut database) = Database::new().await else { return };
    let bad = migrator([("1_a.sql", &format!("{NO}create table a (id int);\ninsert into a values (1);\nselect 1/0;"))]);
    assert!(database.up(&bad).await.is_err());
    let good = migrator([("1_a.sql", &format!("{NO}create table a (id int);\ninsert into a values (1);"))]);
    assert_eq!(database.up(&good).await.unwrap().numbers, [1]);
    assert_eq!(database.stand(&good, 1).await, Some((State::Applied, 2, None)));
    assert_eq!(database.up(&good).await.unwrap().numbers, Vec::<u64>::new());
}

/// What was done stays done when what it had set cannot be set again, and the option that made it so may not go.
#[tokio::test]
async fn c15_what_is_done_is_never_done_again() {
    let Some(mut database) = Database::new().await else { return };
    let text = "create table a (id int);\nset search_path = public, extra;\ninsert into a values (1);\nselect 1/0;";
    let bad = migrator([("1_a.sql", &format!("{NO}{text}"))]);
    assert!(database.up(&bad).await.is_err());
    assert_eq!(database.stand(&bad, 1).await, Some((State::Failed, 3, Some(4))));
    let whole = migrator([("1_a.sql", text)]);
    assert_eq!(database.up(&whole).await.unwrap_err().code(), "migration_edited");
    let accepted = Repair::Accept { number: 1 };
    bad.on_postgres(&mut database.client, &mut |_| {}).repair(accepted, &reason()).await.unwrap();
    let failed = database.entry(&bad, 1).await.unwrap().failed.expect("where and why is kept");
    assert_eq!((failed.statement, failed.sqlstate.as_deref()), (4, Some("22012")));
    let good = migrator([("1_a.sql", &format!("{NO}{}", text.replace("1/0", "1")))]);
    assert_eq!(database.up(&good).await.unwrap().numbers, [1]);
    assert_eq!(database.value("select count(*) from a").await, "1");
}
