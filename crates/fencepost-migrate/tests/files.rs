//! What is refused before anything is executed, with its place; and what an edit of a file has changed.

use fencepost_core::Kind;
use fencepost_migrate::sql::Dialect;
use fencepost_migrate::{Changed, Direction, Migrations, Problems};

/// Reads one file of PostgreSQL and returns what is wrong with it: code, line, column.
fn problems(bytes: impl AsRef<[u8]>, dialect: Dialect) -> Vec<(&'static str, usize, usize)> {
    all([("0001_a.sql", bytes)], dialect).into_iter().map(|(code, _, line, column)| (code, line, column)).collect()
}

/// What is wrong with some files: code, file, line, column.
fn all<const N: usize>(
    files: [(&str, impl AsRef<[u8]>); N],
    dialect: Dialect,
) -> Vec<(&'static str, String, usize, usize)> {
    let Err(error) = Migrations::of(files, dialect) else { return Vec::new() };
    assert_eq!((error.kind(), error.code()), (Kind::InvalidInput, "migration_invalid"));
    assert!(error.hint().is_some());
    let problems = std::error::Error::source(&error).unwrap().downcast_ref::<Problems>().unwrap();
    assert_eq!(error.fact("problems"), Some(problems.count().to_string().as_str()));
    problems
        .iter()
        .inspect(|problem| assert!(!problem.hint.is_empty() && problem.render(false).contains(&problem.place.file)))
        .map(|problem| (problem.code, problem.place.file.clone(), problem.place.line, problem.place.column))
        .collect()
}

#[test]
fn a_file_that_cannot_be_right_is_refused_at_its_place() {
    use Dialect::{Postgres, Sqlite};
    let no_transaction = "-- fencepost: no-transaction\n";
    for (text, dialect, wanted) in [
        ("", Postgres, ("empty", 1, 1)),
        (" \n\t", Sqlite, ("empty", 1, 1)),
        ("-- nothing\n/* here */ ;", Postgres, ("empty", 1, 1)),
        ("\u{feff}select 1", Postgres, ("byte_order_mark", 1, 1)),
        ("select 1;\nselect '\0'", Postgres, ("nul", 2, 9)),
        ("select 1;\n  select 'ä", Postgres, ("unterminated", 2, 10)),
        ("select 'ä', $x$ 1", Postgres, ("unterminated", 1, 13)),
        ("/* select 1", Sqlite, ("unterminated", 1, 1)),
        ("select 1;\n\\d customer\n", Postgres, ("client_command", 2, 1)),
        ("select 1;\n.tables", Sqlite, ("client_command", 2, 1)),
        ("copy customer (id) from stdin with (format csv);", Postgres, ("copy_from_stdin", 1, 1)),
        ("select 1; COPY a TO STDOUT", Postgres, ("copy_from_stdin", 1, 11)),
        ("begin; select 1", Postgres, ("transaction_control", 1, 1)),
        ("select 1;\n /* now */ Commit;", Postgres, ("transaction_control", 2, 12)),
        ("start transaction isolation level serializable", Postgres, ("transaction_control", 1, 1)),
        ("abort", Postgres, ("transaction_control", 1, 1)),
        ("savepoint a", Sqlite, ("transaction_control", 1, 1)),
        ("end transaction", Sqlite, ("transaction_control", 1, 1)),
        (&format!("{no_transaction}begin"), Postgres, ("transaction_control", 2, 1)),
        ("create index concurrently i on a (b)", Postgres, ("needs_no_transaction", 1, 1)),
        ("create unique index concurrently i on a (b)", Postgres, ("needs_no_transaction", 1, 1)),
        ("reindex index concurrently i", Postgres, ("needs_no_transaction", 1, 1)),
        ("vacuum full a", Postgres, ("needs_no_transaction", 1, 1)),
        ("pragma foreign_keys = off", Sqlite, ("needs_no_transaction", 1, 1)),
        (&format!("{no_transaction}create index concurrently on a (b)"), Postgres, ("index_without_name", 2, 1)),
        ("attach 'a.db' as a", Sqlite, ("needs_no_transaction", 1, 1)),
        ("-- fencepost: notransaction\nselect 1", Postgres, ("option_unknown", 1, 1)),
        ("-- fencepost: no-transaction yes\nselect 1", Postgres, ("option_unknown", 1, 1)),
        ("-- fencepost: lock-timeout\nselect 1", Postgres, ("option_unknown", 1, 1)),
        ("-- fencepost: lock-timeout 2 days\nselect 1", Postgres, ("option_unknown", 1, 1)),
        ("select 1;\n-- fencepost: out-of-order", Postgres, ("option_misplaced", 2, 1)),
    ] {
        assert_eq!(problems(text, dialect), [wanted], "{text:?}");
    }
    assert_eq!(problems(b"select 1;\n-- caf\xe9", Postgres), [("not_utf8", 2, 7)]);
    assert_eq!(
        problems("select 1".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(), Postgres),
        [("nul", 1, 2)]
    );
}

#[test]
fn all_problems_are_told_at_once_in_their_order() {
    let wanted = [
        ("option_unknown", 1, 1),
        ("transaction_control", 2, 1),
        ("client_command", 3, 1),
        ("transaction_control", 4, 2),
    ];
    let mut found = problems("-- fencepost: what\nbegin;\n\\i other.sql\n;commit;", Dialect::Postgres);
    found.sort_by_key(|problem| (problem.1, problem.2));
    assert_eq!(found, wanted);
}

#[test]
fn names_and_numbers_are_refused_with_their_file() {
    let ok = "select 1";
    let one = |file| all([(file, ok)], Dialect::Postgres).into_iter().map(|(code, ..)| code).collect::<Vec<_>>();
    for file in
        ["a.sql", "1.sql", "0001-a.sql", "0001_.sql", "_a.sql", "0_a.sql", "0001_a.SQL", "1234567890123456789_a.sql"]
    {
        assert_eq!(one(file), ["file_name"], "{file}");
    }
    assert_eq!(one("db/0001_a.sql"), Vec::<&str>::new());
    let twice = all([("0001_a.sql", ok), ("1_b.sql", ok)], Dialect::Postgres);
    assert_eq!(twice, [("number_taken", "1_b.sql".into(), 1, 1)]);
    let gap = all([("0001_a.sql", ok), ("0002_b.sql", "begin"), ("0005_c.sql", ok)], Dialect::Postgres);
    let wanted = [("number_missing", "0005_c.sql".into(), 1, 1), ("transaction_control", "0002_b.sql".into(), 1, 1)];
    assert_eq!(gap, wanted, "a file that is wrong is no gap");
    let lonely = all([("0001_a.sql", ok), ("0002_b.down.sql", ok)], Dialect::Postgres);
    assert_eq!(lonely, [("down_without_up", "0002_b.down.sql".into(), 1, 1)]);
}

#[test]
fn dates_as_numbers_have_no_gaps() {
    let ok = "select 1";
    let files = [("20260101120000_a.sql", ok), ("20260301080000_b.sql", ok), ("20260301080000_b.down.sql", ok)];
    let migrations = Migrations::of(files, Dialect::Sqlite).unwrap();
    let numbers: Vec<_> = migrations.up().iter().map(|migration| migration.number).collect();
    assert_eq!(numbers, [20_260_101_120_000, 20_260_301_080_000]);
    let down = migrations.down(20_260_301_080_000).unwrap();
    assert_eq!((down.direction, down.name.as_str()), (Direction::Down, "b"));
    assert_eq!(migrations.down(20_260_101_120_000), None);
}

#[test]
fn a_folder_is_read_in_the_order_of_its_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    for number in (1..=12).rev() {
        write(&format!("{number}_step.sql"), &format!("select {number}"));
    }
    write("README.md", "what these are");
    std::fs::create_dir(folder.path().join("old.sql")).unwrap();
    let migrations = Migrations::read(folder.path(), Dialect::Postgres).unwrap();
    let first: Vec<_> = migrations.up().iter().map(|migration| migration.text_of(&migration.statements[0])).collect();
    assert_eq!(first, (1..=12).map(|number| format!("select {number}")).collect::<Vec<_>>());

    let error = Migrations::read(&folder.path().join("absent"), Dialect::Postgres).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.to_string().contains("absent") && error.hint().is_some(), "{error}");
}

#[test]
fn options_are_read_from_the_first_comments() {
    let text = "-- Builds it beside the traffic.\n-- fencepost: no-transaction\n--fencepost:lock-timeout 3s\n/* x */ -- fencepost: out-of-order\n\
        create index concurrently i on a (b);";
    let migrations = Migrations::of([("0001_a.sql", text)], Dialect::Postgres).unwrap();
    let options = &migrations.up()[0].options;
    assert!(options.no_transaction && options.out_of_order);
    assert_eq!(options.lock_timeout, Some(std::time::Duration::from_secs(3)));
}

/// C17.
#[test]
fn an_edit_is_told_by_what_it_changes() {
    let hashes = |text: &str| {
        let migrations = Migrations::of([("0001_a.sql", text)], Dialect::Postgres).unwrap();
        migrations.up()[0].hashes.clone()
    };
    let applied = hashes("create table a (b int);\n-- done\n");
    for (text, changed) in [
        ("create table a (b int);\n-- done\n", Changed::Nothing),
        ("create table a (b int);\r\n-- done\r\n", Changed::Nothing),
        ("create  table a\n(b int);\n-- done\n", Changed::Blanks),
        ("create table a (b int);\n-- well done\n", Changed::Comments),
        ("-- first\ncreate table a (b int);", Changed::Comments),
        ("create table a (b bigint);\n-- done\n", Changed::Statements),
        ("create table a (b int); ;\n-- done\n", Changed::Statements),
        ("create tablea (b int);\n-- done\n", Changed::Statements),
    ] {
        assert_eq!(hashes(text).since(&applied), changed, "{text:?}");
    }
    // As `printf 'create table a (b int);\n-- done\n' | sha256sum` prints it.
    assert_eq!(applied.text.len(), 64);
    assert_eq!(hashes("select 1").text, "822ae07d4783158bc1912bb623e5107cc9002d519e1143a9c200ed6ee18b6d0f");
}

#[test]
fn a_problem_is_shown_with_its_lines() {
    let text = "create table a (b int);\n\ncommit;\nselect 1;\n";
    let error = Migrations::of([("db/0001_a.sql", text)], Dialect::Postgres).unwrap_err();
    let problems = std::error::Error::source(&error).unwrap().downcast_ref::<Problems>().unwrap();
    let shown = problems.iter().next().unwrap().render(false);
    let wanted = "\
error[transaction_control]: `COMMIT` begins or ends a transaction
 --> db/0001_a.sql:3:1
  |
3 | commit;
  | ^^^^^^
  |
  = help: the file is one transaction by itself; `-- fencepost: no-transaction` at its beginning makes each statement one";
    assert_eq!(shown, wanted);
}
