//! Bad input, row by row: the exit status, the code, and that nothing was stored of it.

use crate::place::{Answer, Place, on_each_engine};

on_each_engine![
    bad_queue_names_and_partitions_make_neither_queue_nor_store,
    bad_command_lines_are_usage_errors,
    only_init_and_queue_create_make_a_store,
    queues_that_are_absent_or_differ_are_refused,
    payload_over_the_limit_is_refused_and_at_the_limit_taken,
    bad_files_send_nothing,
    bad_record_in_standard_input_says_how_many_were_sent,
];

/// Checks one refusal, in both ways of printing: the status, the code, a message that contains `says`, and a hint.
pub fn refused(place: &Place, args: &[&str], input: &[u8], (status, code, says): (i32, &str, &str)) {
    let human = place.run_with_input(args, input);
    assert_eq!(human.status, status, "{args:?} {human}");
    assert!(human.stdout.is_empty(), "{args:?} {human}");
    assert!(human.stderr.starts_with("error: ") && human.stderr.contains(says), "{args:?} {human}");
    let with_json: Vec<_> = [&["--json"], args].concat();
    let answer = place.run_with_input(&with_json, input);
    let error = &answer.json()["error"];
    assert_eq!((answer.status, error["code"].as_str()), (status, Some(code)), "{args:?} {answer}");
    assert!(error["message"].as_str().unwrap().contains(says), "{args:?} {answer}");
    assert!(error["hint"].is_string() && answer.stderr.is_empty(), "{args:?} {answer}");
}

fn bad_queue_names_and_partitions_make_neither_queue_nor_store() {
    let long = "x".repeat(256);
    for name in ["", " ", "\t", "a\nb", "a\u{85}b", "\u{a0}", long.as_str()] {
        let place = Place::new();
        refused(&place, &["queue", "create", name], b"", (2, "invalid_input", "as a queue name"));
        refused(&place, &["send", name, "x"], b"", (2, "invalid_input", "as a queue name"));
        assert!(!place.has_store(), "{name:?}");
    }
    for partitions in ["0", "-1", "3", "10000", "9223372036854775807"] {
        let place = Place::new();
        let args = ["queue", "create", "q", "--partitions", partitions];
        refused(&place, &args, b"", (2, "invalid_input", "as a number of partitions"));
        assert!(!place.has_store(), "{partitions}");
    }
}

fn bad_command_lines_are_usage_errors() {
    let place = Place::with_queue("q");
    let table: [(&[&str], &str); 13] = [
        (&["nonsense"], "unrecognized subcommand"),
        (&["queue", "create"], "required arguments"),
        (&["queue", "create", "x", "--partitions", "many"], "invalid value"),
        (&["queue", "create", "x", "y"], "unexpected argument"),
        (&["send", "q"], "required arguments"),
        (&["send", "q", "x", "--file", "f"], "cannot be used with"),
        (&["send", "q", "x", "--format", "csv"], "cannot be used with"),
        (&["send", "q", "x", "--key-field", "k"], "cannot be used with"),
        (&["send", "q", "--file", "f", "--format", "xml"], "invalid value"),
        (&["send", "q", "--file", "f", "--key", "k", "--key-field", "k"], "cannot be used with"),
        (&["send", "q", "x", "--key", ""], "as a key"),
        (&["send", "q", "x", "--key", " "], "as a key"),
        (&["send", "q", "x", "--kind", "a\nb"], "as a message kind"),
    ];
    for (args, says) in table {
        refused(&place, args, b"", (2, "invalid_input", says));
    }
    assert_eq!(place.stored("q"), 0);
}

#[test]
fn stores_of_unknown_kind_are_refused_by_every_command() {
    let table = [
        ("sqlte:x", "invalid_input", "`sqlte` is not a kind of store"),
        ("http://x", "invalid_input", "`http` is not a kind of store"),
        ("nonsense", "invalid_input", "no kind before a colon"),
        ("", "invalid_input", "no kind before a colon"),
        ("sqlite:", "invalid_input", "names no file"),
        ("mem:x", "invalid_input", "takes no name"),
        ("postgre://user:secret@host/db", "invalid_input", "`postgre` is not a kind of store"),
        ("postgres:user:secret@host/db", "invalid_input", "does not begin with `postgres://`"),
        ("postgres://user:secret@host:port/db", "invalid_input", "cannot be read"),
        ("postgres://user:secret@host/db?sslmode=secret", "invalid_input", "sslmode"),
    ];
    let place = Place::new();
    for (url, code, says) in table {
        for command in
            [&["init"] as &[_], &["status"], &["queue", "list"], &["queue", "create", "q"], &["send", "q", "x"]]
        {
            let args: Vec<_> = [command, &["--store", url]].concat();
            refused(&place, &args, b"", (2, code, says));
            assert!(!place.run(&args).to_string().contains("secret"));
        }
    }
    let from_environment = place.command(&["status", "--json"]).env("FENCEPOST_STORE", "sqlte:x").output().unwrap();
    assert_eq!(Answer::from(from_environment).json()["error"]["code"], "invalid_input");
}

fn only_init_and_queue_create_make_a_store() {
    let place = Place::new();
    let says = place.says_no_store();
    place.write("f", "x\n");
    for args in [&["status"] as &[_], &["queue", "list"], &["send", "q", "x"], &["send", "q", "--file", "f"]] {
        refused(&place, args, b"", (1, "no_store", says));
        let hint = place.run_with_input(&[&["--json"], args].concat(), b"").json()["error"]["hint"].clone();
        assert!(hint.as_str().unwrap().contains("fencepost init"), "{hint}");
        assert!(!place.has_store(), "{args:?}");
    }
    assert_eq!(place.run(&["queue", "create", "q"]).status, 0);
    assert!(place.has_store());
}

#[test]
fn files_that_are_no_store_are_refused() {
    let place = Place::new();
    refused(&place, &["init", "--store", "sqlite:no/such/folder/x.db"], b"", (2, "invalid_input", "does not exist"));
    refused(&place, &["init", "--store", "sqlite:."], b"", (2, "invalid_input", "is a directory"));
    place.write(
        "text.db",
        "this is text and not a database, and it is longer than a header of one hundred bytes, to be sure of it",
    );
    for command in ["init", "status"] {
        refused(&place, &[command, "--store", "sqlite:text.db"], b"", (5, "not_a_database", "not an SQLite database"));
    }
}

fn queues_that_are_absent_or_differ_are_refused() {
    let place = Place::with_queue("q");
    refused(&place, &["send", "other", "x"], b"", (1, "not_found", "`other`"));
    place.write("f", "x\n");
    refused(&place, &["send", "other", "--file", "f"], b"", (1, "not_found", "`other`"));
    refused(&place, &["queue", "create", "q", "--partitions", "4"], b"", (1, "conflict", "`q`"));
    assert_eq!(place.run(&["queue", "list", "--json"]).json()["queues"].as_array().unwrap().len(), 1);
}

fn payload_over_the_limit_is_refused_and_at_the_limit_taken() {
    let place = Place::with_queue("q");
    let large = vec![b'x'; (1 << 20) + 1];
    refused(&place, &["send", "q", "-"], &large, (2, "limit_exceeded", "too large"));
    refused(&place, &["send", "q", "--file", "-"], &large, (2, "limit_exceeded", "more than 1048576 bytes"));
    assert_eq!(place.stored("q"), 0);
    assert_eq!(place.run_with_input(&["send", "q", "-"], &large[1..]).status, 0);
    assert_eq!(place.stored("q"), 1);
}

fn bad_files_send_nothing() {
    let place = Place::with_queue("q");
    std::fs::create_dir(place.path("folder")).unwrap();
    let rows = "1,a\n".repeat(5_000);
    let table: [(&str, String, &[&str], &str); 9] = [
        (
            "ragged.csv",
            format!("k,v\n{rows}1,2,3\n"),
            &[],
            "`ragged.csv:5002`: found 3 fields, the header has 2 fields",
        ),
        ("column.csv", "k,v\n1,2\n".into(), &["--key-field", "x"], "`column.csv:1`: the header has no column `x`"),
        ("rows.csv", "k,v\n".into(), &[], "`rows.csv`: it has a header row and no rows"),
        ("empty.csv", String::new(), &[], "`empty.csv`: it is empty"),
        ("empty", String::new(), &[], "`empty`: it has no records"),
        (
            "quote.csv",
            format!("k,v\n{rows}1,\"2\n"),
            &[],
            "`quote.csv:5002`: a quote opens on this line and never closes",
        ),
        ("key.csv", format!("k,v\n{rows}{},1\n", "x".repeat(256)), &["--key-field", "k"], "it has 256 bytes"),
        ("control.csv", format!("k,v\n{rows}a\tb,1\n"), &["--key-field", "k"], "control character U+0009"),
        ("list.json", format!("{}[]\n", "{\"a\":1}\n".repeat(5_000)), &[], "`list.json:5001`: not a JSON object"),
    ];
    for (file, content, options, says) in table {
        place.write(file, content);
        let args = [&["send", "q", "--file", file], options].concat();
        refused(&place, &args, b"", (2, "invalid_input", says));
    }
    place.write("latin1.csv", b"k,v\n1,caf\xe9\n");
    refused(
        &place,
        &["send", "q", "--file", "latin1.csv"],
        b"",
        (2, "invalid_input", "byte 0xE9 at offset 9 is not UTF-8"),
    );
    refused(&place, &["send", "q", "--file", "folder"], b"", (2, "invalid_input", "is a directory"));
    refused(&place, &["send", "q", "--file", "missing"], b"", (2, "invalid_input", "no such file"));
    refused(&place, &["send", "q", "--file", "empty", "--key-field", "k"], b"", (2, "invalid_input", "have no fields"));
    assert_eq!(place.stored("q"), 0);
}

fn bad_record_in_standard_input_says_how_many_were_sent() {
    let place = Place::with_queue("q");
    let input = format!("k,v\n{}1\n", "1,a\n".repeat(2_500));
    let answer = place.run_with_input(&["send", "q", "--file", "-", "--format", "csv", "--json"], input.as_bytes());
    let error = &answer.json()["error"];
    assert_eq!((answer.status, &error["code"]), (2, &"invalid_input".into()), "{answer}");
    assert_eq!((&error["context"]["line"], &error["context"]["file"]), (&"2502".into(), &"stdin".into()));
    let sent: u64 = error["context"]["sent"].as_str().unwrap().parse().unwrap();
    assert!(sent >= 2_000 && sent == place.stored("q"), "{answer}");
}
