//! The splitter beside psql, which cuts the same text for a real server and echoes what it sends.

use std::process::Stdio;

use fencepost_migrate::sql::{Dialect, TokenKind, split, tokens};
use fencepost_test_support::{DEFAULT_MAJOR, PgServer, Random, psql, skip_or_fail};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// What a statement may begin with.
const BEGINNINGS: [&str; 8] = [
    "",
    "",
    "",
    "/* ; */ ",
    "-- ;\n",
    "create function f() begin atomic ",
    "create or replace procedure p() begin atomic ",
    "create function g() ",
];

/// What it goes on with. No string goes on in the next line: psql, which reads line by line, loses track of how that was begun. All of it is closed, so that psql does not wait for more, and none of it is a command of psql.
const PIECES: [&str; 22] = [
    "'a;b'",
    "'it''s'",
    "E'\\';'",
    "\"n;\"",
    "$$;$$",
    "$a$ ; $$ $a$",
    "/* ; /* ; */ */",
    "-- ; \n",
    ";",
    "; ",
    "(",
    ")",
    " ",
    "\n",
    "select ",
    "case ",
    " end ",
    "1",
    "+",
    "u&'\\0441;'",
    " $1 ",
    "a$b$c ",
];

fn random_text(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..=random.below(4) {
        text += BEGINNINGS[random.below(BEGINNINGS.len() as u64) as usize];
        for _ in 0..random.below(12) {
            // Apart, so that no letter becomes the prefix of a string.
            text += PIECES[random.below(PIECES.len() as u64) as usize];
            text.push(' ');
        }
        text += ";\n";
    }
    text
}

/// A statement without what does not count, since psql leaves out some of the comments, and without its semicolon.
fn bare(text: &str) -> String {
    let counts = |kind| !matches!(kind, TokenKind::Space | TokenKind::Comment);
    let tokens = tokens(text, Dialect::Postgres)
        .unwrap_or_else(|open| panic!("{open:?} in {text:?}"))
        .into_iter()
        .filter(|token| counts(token.kind));
    let words: Vec<_> = tokens.map(|token| &text[token.span]).collect();
    words.strip_suffix(&[";"]).unwrap_or(&words).join(" ")
}

/// What psql sends, statement by statement. It tells the time after each, which shows where one ends.
async fn sent_by_psql(url: &str, text: &str) -> Vec<String> {
    let mut client = Command::new(psql(DEFAULT_MAJOR).unwrap())
        .args(["--no-psqlrc", "--quiet", "--echo-queries", "--output=/dev/null", "--dbname", url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = client.stdin.take().unwrap();
    input.write_all(format!("\\timing on\n{text}").as_bytes()).await.unwrap();
    drop(input);
    let output = String::from_utf8(client.wait_with_output().await.unwrap().stdout).unwrap();
    let (mut statements, mut open) = (Vec::new(), String::new());
    for line in output.split_inclusive('\n') {
        if line.starts_with("Time: ") {
            statements.push(bare(&std::mem::take(&mut open)));
        } else {
            open += line;
        }
    }
    assert_eq!(open.trim(), "", "psql did not say when it was done with this");
    statements.retain(|statement| !statement.is_empty());
    statements
}

#[tokio::test]
async fn psql_cuts_random_text_in_the_same_places() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    let (mut random, mut compared) = (Random::seeded(13), 0);
    for _ in 0..300 {
        let text = random_text(&mut random);
        let ours = split(&text, Dialect::Postgres).unwrap();
        let ours: Vec<_> = ours.into_iter().map(|statement| bare(&text[statement.span])).collect();
        assert_eq!(ours, sent_by_psql(&database.url(), &text).await, "{text}");
        compared += ours.len();
    }
    assert!(compared > 500, "{compared} statements were compared");
}

/// Where psql and the server differ, the server is right.
#[tokio::test]
async fn the_server_goes_on_with_a_string_in_the_next_line_as_it_was_begun() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    let client = database.connect().await.unwrap();
    for text in ["select E'a'\n '\\';'", "select E'a' -- ;\n '\\';'"] {
        let row = client.query_one(text, &[]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), "a';", "{text:?}");
        assert_eq!(split(text, Dialect::Postgres).unwrap().len(), 1, "{text:?}");
    }
}
