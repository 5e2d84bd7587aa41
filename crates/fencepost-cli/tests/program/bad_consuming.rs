//! Bad input to what sends, reads, handles and decides about messages: the exit status, the code, and that nothing changed.

use crate::bad_input::refused;
use crate::place::{Place, on_each_engine};

on_each_engine![
    bad_values_are_usage_errors,
    what_is_absent_is_refused,
    what_contradicts_what_is_there_is_a_conflict,
    none_of_them_makes_a_store,
];

const USAGE: (i32, &str) = (2, "invalid_input");
const ABSENT: (i32, &str) = (1, "not_found");

/// A queue `q` with a message, and its consumer `c`.
fn place() -> Place {
    let place = Place::with_queue("q");
    assert_eq!(place.run(&["send", "q", "x"]).status, 0);
    assert_eq!(place.run(&["consumer", "create", "q", "c"]).status, 0);
    place
}

fn all_refused(place: &Place, (status, code): (i32, &str), rows: &[(&[&str], &str)]) {
    let before = place.everything();
    for (args, says) in rows {
        refused(place, args, b"", (status, code, says));
    }
    assert_eq!(place.everything(), before);
}

fn bad_values_are_usage_errors() {
    let work = |more: &[&'static str]| [&["work", "q", "c", "--exec", "true"], more].concat();
    let create = |more: &[&'static str]| [&["consumer", "create", "q", "d"], more].concat();
    all_refused(
        &place(),
        USAGE,
        &[
            (&["queue", "create", "r", "--retain-for", "-1s"], "cannot use `-1s` as a time to keep messages"),
            (&["queue", "create", "r", "--retain-for", "7"], "a unit is missing"),
            (&["queue", "create", "r", "--retain-unread", "11years"], "it is out of range"),
            (&["queue", "create", "r", "--retain-unread-bytes", "-1"], "cannot keep `-1` bytes"),
            (&["queue", "create", "r", "--retain-unread-bytes", "1GiB"], "invalid value"),
            (&["queue", "retain", "q"], "nothing is asked for"),
            (&["queue", "retain", " ", "--retain-for", "1h"], "as a queue name"),
            (&["queue", "pause", ""], "as a queue name"),
            (&["queue", "resume", "a\nb"], "as a queue name"),
            (&["queue", "pause"], "required arguments"),
            (&create(&["--start", "id:-1"]), "cannot start at `id:-1`"),
            (&create(&["--start", ""]), "cannot start at ``"),
            (&create(&["--on-failure", "stop"]), "cannot use `stop` as a failure policy"),
            (&create(&["--max-attempts", "0"]), "cannot use `0` as max_attempts"),
            (&create(&["--max-attempts", "1001"]), "cannot use `1001` as max_attempts"),
            (&create(&["--max-crashes", "-1"]), "cannot use `-1` as max_crashes"),
            (&create(&["--backoff", "0s"]), "cannot use `0s` as a backoff"),
            (&create(&["--backoff", "25h"]), "cannot use `25h` as a backoff"),
            (&create(&["--backoff", "fast"]), "cannot use `fast` as a backoff"),
            (&["send", "q", "x", "--delay", "-1s"], "cannot use `-1s` as a delay"),
            (&["send", "q", "x", "--delay", "366d"], "cannot use `366d` as a delay"),
            (&["send", "q", "x", "--expires-in", "soon"], "cannot use `soon` as a time to expire"),
            (&["send", "q", "x", "--delay", "2s", "--expires-in", "1s"], "before it is due"),
            (&["send", "q", "x", "--header", "source"], "cannot use `source` as a header"),
            (&["send", "q", "x", "--header", "=shop"], "cannot use `=shop` as a header"),
            (&["send", "q", "x", "--idempotency-key", " "], "as an idempotency key"),
            (&["send", "q", "x", "--once-ttl", "1h"], "required arguments"),
            (&["send", "q", "x", "--idempotency-key", "k", "--once-ttl", "1ms"], "it is out of range"),
            (&["send", "q", "--file", "f", "--idempotency-key", "k"], "cannot be used with"),
            (&["tail", " "], "as a queue name"),
            (&["tail", "q", "--from", "-1"], "cannot start at `-1`"),
            (&["tail", "q", "--from", "1"], "cannot start at `1`"),
            (&["tail"], "required arguments"),
            (&["work", "q", "c"], "--exec"),
            (&["work", "", "c", "--exec", "true"], "as a queue name"),
            (&["work", "q", "", "--exec", "true"], "as a consumer name"),
            (&["work", "q", "c", "--exec", " "], "it is blank"),
            (&["work", "q", "c", "--exec", "no-such-program"], "the shell finds no such command"),
            (&work(&["--workers", "0"]), "cannot run `0` commands at once"),
            (&work(&["--workers", "-1"]), "cannot run `-1` commands at once"),
            (&work(&["--workers", "10000"]), "cannot run `10000` commands at once"),
            (&work(&["--batch", "0"]), "cannot receive at most `0` messages"),
            (&work(&["--batch", "10001"]), "cannot receive at most `10001` messages"),
            (&work(&["--batch", "many"]), "invalid value"),
            (&work(&["--ttl", "999ms"]), "cannot use `999ms` as a ttl"),
            (&work(&["--ttl", "1y"]), "cannot use `1y` as a ttl"),
            (&work(&["--grace", "-1s"]), "cannot use `-1s` as a time to end"),
            (&work(&["--name", "\t"]), "as a worker name"),
            (&["dead", "list", "q", ""], "as a consumer name"),
            (&["dead", "list", "q"], "required arguments"),
            (&["dead", "show", "q", "c", "0"], "cannot use `0` as a message id"),
            (&["dead", "show", "q", "c", "first"], "invalid value"),
            (&["dead", "replay", "q", "c"], "required arguments"),
            (&["dead", "replay", "q", "c", "-1"], "cannot use `-1` as a message id"),
            (&["dead", "replay", "q", "c", "1", "--all"], "cannot be used with"),
            (&["dead", "purge", "q", "c"], "required arguments"),
            (&["dead", "purge", " ", "c", "--all"], "as a queue name"),
            (&["completions", "tcsh"], "invalid value"),
            (&["doctor", "q"], "unexpected argument"),
        ],
    );
}

fn what_is_absent_is_refused() {
    all_refused(
        &place(),
        ABSENT,
        &[
            (&["queue", "pause", "other"], "the queue `other`"),
            (&["queue", "resume", "other"], "the queue `other`"),
            (&["queue", "retain", "other", "--retain-for", "1h"], "the queue `other`"),
            (&["tail", "other"], "the queue `other`"),
            (&["tail", "other", "--follow"], "the queue `other`"),
            (&["send", "other", "x", "--idempotency-key", "k"], "the queue `other`"),
            (&["work", "other", "c", "--exec", "true"], "the queue `other`"),
            (&["work", "q", "other", "--exec", "true"], "the consumer `other`"),
            (&["work", "q", "other", "--exec", "true", "--until-empty"], "the consumer `other`"),
            (&["dead", "list", "other", "c"], "the queue `other`"),
            (&["dead", "list", "q", "other"], "the consumer `other`"),
            (&["dead", "show", "q", "c", "1"], "the message `1`"),
            (&["dead", "show", "q", "other", "1"], "the message `1`"),
            (&["dead", "replay", "q", "c", "1"], "the message `1`"),
            (&["dead", "replay", "q", "other", "--all"], "the consumer `other`"),
            (&["dead", "purge", "other", "c", "--all"], "the queue `other`"),
            (&["dead", "purge", "q", "c", "1", "2"], "the message `1`"),
        ],
    );
}

fn what_contradicts_what_is_there_is_a_conflict() {
    let place = place();
    assert_eq!(place.run(&["send", "q", "x", "--idempotency-key", "k"]).status, 0);
    all_refused(
        &place,
        (1, "conflict"),
        &[
            (&["queue", "create", "q", "--retain-for", "1h"], "with another retention"),
            (&["consumer", "create", "q", "c", "--on-failure", "pause"], "on_failure"),
            (&["consumer", "create", "q", "c", "--max-attempts", "3"], "max_attempts"),
            (&["consumer", "create", "q", "c", "--max-crashes", "3"], "max_crashes"),
            (&["consumer", "create", "q", "c", "--backoff", "3s"], "backoff"),
            (&["send", "q", "y", "--idempotency-key", "k"], "another message"),
        ],
    );
}

fn none_of_them_makes_a_store() {
    let place = Place::new();
    let rows: [&[&str]; 10] = [
        &["queue", "pause", "q"],
        &["queue", "resume", "q"],
        &["queue", "retain", "q", "--retain-for", "1h"],
        &["send", "q", "x", "--idempotency-key", "k"],
        &["tail", "q"],
        &["work", "q", "c", "--exec", "true"],
        &["dead", "list", "q", "c"],
        &["dead", "show", "q", "c", "1"],
        &["dead", "replay", "q", "c", "--all"],
        &["dead", "purge", "q", "c", "--all"],
    ];
    for args in rows {
        refused(&place, args, b"", (1, "no_store", place.says_no_store()));
        assert!(!place.has_store(), "{args:?}");
    }
    assert_eq!(place.run(&["doctor"]).status, 1);
    assert!(!place.has_store());
}
