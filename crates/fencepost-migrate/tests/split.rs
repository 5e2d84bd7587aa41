//! Where statements end, by cases that are known to go wrong, by random text, and beside psql itself.

use fencepost_migrate::sql::{Dialect, split, tokens};
use fencepost_test_support::Random;

fn cut(text: &str, dialect: Dialect) -> Vec<&str> {
    split(text, dialect).unwrap().into_iter().map(|statement| &text[statement.span]).collect()
}

#[track_caller]
fn same(text: &str, dialect: Dialect, wanted: &[&str]) {
    assert_eq!(cut(text, dialect), wanted, "{text}");
}

#[test]
fn semicolons_in_strings_names_and_comments_end_nothing() {
    for text in [
        "select ';'",
        "select 'it''s;'",
        "select \";\"",
        "select \"a\"\";\"",
        "select 1 /* ; */ + 1",
        "select 1 -- ;\n + 1",
        "select x';'",
    ] {
        same(text, Dialect::Postgres, &[text]);
        same(text, Dialect::Sqlite, &[text]);
    }
}

#[test]
fn strings_of_postgres() {
    for text in [
        r"select E'\';'",
        r"select e'\\', ';'",
        "select $$;$$",
        "select $a$ $$ ; $b$ ; $a$",
        "select $ä$;$ä$",
        "select U&'\\0441;' uescape '\\'",
        "select u&\";\"",
        "select n';', b'1', a$b from c$d",
        // Goes on as it was begun, after a line end.
        "select E'a'\n  '\\';'",
        "select E'a' -- and\n '\\';'",
        "select /* /* ; */ ; */ 1",
        "select 1 as a$$, 2 as b$$",
    ] {
        same(text, Dialect::Postgres, &[text]);
    }
    // Without a line end nothing goes on: the second is a string of its own, in which a backslash is one.
    same(r"select E'a' '\'; select 2", Dialect::Postgres, &[r"select E'a' '\'", "select 2"]);
    same(r"select '\'; select 2", Dialect::Postgres, &[r"select '\'", "select 2"]);
    same("select $1; select 2", Dialect::Postgres, &["select $1", "select 2"]);
}

#[test]
fn names_and_comments_of_sqlite() {
    same("select [;], `;`; select 2", Dialect::Sqlite, &["select [;], `;`", "select 2"]);
    same("select 1 /* /* */; select 2", Dialect::Sqlite, &["select 1", "select 2"]);
    same("select $a, :b, @c, ?1; select 2", Dialect::Sqlite, &["select $a, :b, @c, ?1", "select 2"]);
}

#[test]
fn nothing_between_semicolons_is_no_statement() {
    same(" ; ;; -- a\n; /* b */ ; select 1 ;; ", Dialect::Postgres, &["select 1"]);
    same("", Dialect::Sqlite, &[]);
}

#[test]
fn a_rule_ends_after_its_parentheses() {
    let rule = "create rule r as on insert to t do also (delete from a; delete from b)";
    same(&format!("{rule}; select 1"), Dialect::Postgres, &[rule, "select 1"]);
}

#[test]
fn a_body_in_sql_ends_with_its_end() {
    let function = "create or replace function f(a int) returns int begin atomic
        select case when a > 0 then 1 else 2 end; select (case a when 1 then 2 end);
        select a;
    end";
    same(&format!("{function}; select 1"), Dialect::Postgres, &[function, "select 1"]);
    let procedure = "create procedure p() BEGIN ATOMIC insert into t values (1); END";
    same(&format!("{procedure}; begin; select 1; end"), Dialect::Postgres, &[procedure, "begin", "select 1", "end"]);
    // A routine may have a parameter called so.
    let plain = "create function begin() returns int language sql as 'select 1'";
    same(&format!("{plain}; select 1"), Dialect::Postgres, &[plain, "select 1"]);
}

#[test]
fn a_trigger_of_sqlite_ends_with_its_end() {
    for begin in ["create trigger", "CREATE TEMP TRIGGER", "create temporary trigger", "explain create trigger"] {
        let trigger = format!(
            "{begin} t after insert on a begin update b set c = case when 1 then 2 end; delete from d; /* ; */ end"
        );
        same(&format!("{trigger}; select 1"), Dialect::Sqlite, &[&trigger, "select 1"]);
    }
    same("create table trigger_log (a); select 1", Dialect::Sqlite, &["create table trigger_log (a)", "select 1"]);
}

#[test]
fn what_has_no_end_says_where_it_began() {
    let open = |text, dialect| {
        let open = tokens(text, dialect).unwrap_err();
        (open.what, open.end, open.at)
    };
    assert_eq!(open("select 'a", Dialect::Postgres), ("string", "'".into(), 7));
    assert_eq!(open("select E'\\'", Dialect::Postgres), ("string", "'".into(), 7));
    assert_eq!(open("select $x$ $y$", Dialect::Postgres), ("dollar-quoted string", "$x$".into(), 7));
    assert_eq!(open("/* /* */", Dialect::Postgres), ("comment", "*/".into(), 0));
    assert_eq!(open("select \"a", Dialect::Sqlite), ("quoted name", "\"".into(), 7));
    assert_eq!(open("select [a", Dialect::Sqlite), ("quoted name", "]".into(), 7));
}

/// What texts are made of at random: everything that begins or ends something.
const PIECES: [&str; 40] = [
    "'",
    "''",
    "\"",
    "`",
    "[",
    "]",
    "$$",
    "$a$",
    "$1",
    "$",
    "--",
    "/*",
    "*/",
    ";",
    "; ",
    "(",
    ")",
    "\\",
    "\n",
    "\r\n",
    " ",
    "E'",
    "u&'",
    "x'",
    "begin",
    " begin atomic ",
    " end ",
    "case ",
    " create function f() ",
    "create trigger ",
    "select ",
    "a",
    "ä",
    "1e5",
    "é$b",
    ".",
    "+",
    "E",
    " copy t from stdin",
    "\u{0}",
];

fn random_text(random: &mut Random) -> String {
    (0..random.below(30)).map(|_| PIECES[random.below(PIECES.len() as u64) as usize]).collect()
}

#[test]
fn tokens_tile_any_text_and_statements_leave_only_what_is_empty_between_them() {
    let mut random = Random::seeded(11);
    for _ in 0..40_000 {
        let text = random_text(&mut random);
        for dialect in [Dialect::Postgres, Dialect::Sqlite] {
            let Ok(tokens) = tokens(&text, dialect) else { continue };
            let mut at = 0;
            for token in &tokens {
                assert_eq!(token.span.start, at, "{text:?}");
                assert!(text.is_char_boundary(token.span.end) && token.span.end > at, "{text:?}");
                at = token.span.end;
            }
            assert_eq!(at, text.len(), "{text:?}");
            let statements = split(&text, dialect).unwrap();
            let mut rest = text.clone();
            for statement in statements.iter().rev() {
                rest.replace_range(statement.span.clone(), "");
            }
            assert_eq!(split(&rest, dialect).unwrap(), [], "{text:?} leaves {rest:?}");
        }
    }
}

/// Each statement alone is one statement, as it is executed alone.
#[test]
fn a_statement_that_was_cut_out_is_one() {
    let mut random = Random::seeded(12);
    for _ in 0..20_000 {
        let text = random_text(&mut random);
        for dialect in [Dialect::Postgres, Dialect::Sqlite] {
            for statement in split(&text, dialect).unwrap_or_default() {
                assert_eq!(cut(&text[statement.span.clone()], dialect), [&text[statement.span]], "{text:?}");
            }
        }
    }
}
